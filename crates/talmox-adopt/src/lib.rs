//! Taking VMs and clusters that others made into a description, without changing anything that runs.
//!
//! ```text
//!  description ─┐                      ┌─ edit ◀──┐
//!               ├─ choose ─▶ judge ─▶ derive      │ until nothing is left to write
//!  Observed  ───┘    which VM  may it    └─ read ──┘
//!                                            │
//!                 prove: plan as if the mark were there ─▶ Proposal ─▶ files, then the mark
//! ```
//!
//! A [`Proposal`] is data: nothing was written yet. It holds only what was proven: with the edited description and the
//! mark in place, the next plan has no refusal and nothing in it that a running VM would notice.

mod choose;
pub mod cluster;
mod derive;
mod judge;
mod marking;
mod propose;
mod prove;

pub use choose::{Matched, Selection};
pub use marking::{MarkError, Marked, mark};
pub use talmox_plan::Nonce;

pub use propose::{Adoption, Already, FileChange, Proposal, ProposeError, Refused, probe, propose};
