//! What the person allows a description to cause on this machine.
//!
//! The rules are in `talmox-trust`, which is pure. Here is what they need of the world: where grants come from, which
//! files a path leads to, which program a name means, and the question to the person.
//!
//! ```text
//!  --trust, TALMOX_TRUST, TALMOX_TRUST_FILE, ~/.config/talmox/trust.yaml
//!        └──▶ Folder ◀── every file, program, variable, server and receiver a description names
//! ```

mod ask;
mod check;
mod folder;
mod needs;
mod program;
mod sources;
mod store;
mod untrusted;

pub(crate) use ask::{keep, settle};
pub(crate) use check::{Listed, listed};
pub(crate) use folder::Folder;
pub(crate) use needs::{Aim, is_official, needs, refuse_strange_receivers, settle_receivers};
pub(crate) use program::{command, need as program_need};
pub(crate) use store::{forget, place as store_place};
pub(crate) use untrusted::confine;
