//! What stands in the way, found before anything is done. Nothing here writes.
//!
//! ```text
//!  Proxmox ──collect──▶ Facts ─┐
//!  description ──▶ needs() ────┼─ verdicts ─▶ Report    ok · warning · problem · not checked
//!                     │        └─ setup ────▶ lines to paste on a Proxmox host
//!                     └─ one table: feature ─▶ privilege ─▶ path
//! ```
//!
//! Only [`collect`] asks anybody; everything else is decided from its [`Facts`].

mod collect;
mod facts;
mod needs;
mod report;
mod setup;
mod verdicts;

pub use collect::{Certificates, Preflight, collect};
pub use facts::{EndpointFacts, Facts, HostFacts, Login, Told, Trusted};
pub use needs::{Need, Release, Weight, needs};
pub use report::{Check, Report, Verdict};
pub use setup::{Account, setup};
pub use verdicts::report;
