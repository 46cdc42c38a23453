//! From a description to the machine configuration of each of its nodes.
//!
//! ```text
//! Desired, Node, Bundle ──▶ base, as talosctl would make it ──▶ layer: what the description says ──▶ patches ──▶ Config
//!                                                                                                      ▲            │
//!                                              parsed, then ${VARIABLES} replaced ─────────────────────┘        validate
//! ```
//!
//! What the description says is merged over the base by the rules of patches, in the layout of the cluster's contract; the
//! patches follow in the order they come in: cluster, role, pool, node. What comes out is what Talos takes, or an error
//! that names the place to mend. Nothing here does I/O.

mod accepts;
mod base;
mod conceal;
mod inputs;
mod layer;
mod patches;
mod render;
mod substitute;
mod variables;

pub use accepts::Accepts;
pub use inputs::{Inputs, PatchText, Whereabouts};
pub use patches::Blamed;
pub use render::{Common, RenderError, Rendered, Renderer, render};
pub use substitute::{names, values};
pub use variables::{InvalidVariable, Unset, Variables, is_name};
