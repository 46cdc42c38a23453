//! What a description may cause on the machine talmox runs on.
//!
//! A description can be changed by people who may not decide what runs here or where a secret goes: a pull request
//! is enough. So a description alone causes nothing beyond reading its own folder. Everything else is a [`Need`],
//! and a need is met only by a [`Grant`] of the person:
//!
//! ```text
//!  description ──▶ Need ─┐
//!                        ├─ Grants::allows() ─▶ yes, or what is missing
//!  flags, TALMOX_TRUST,  │
//!  trust.yaml ──▶ Grants ┘
//! ```
//!
//! Grants are exact. A changed argument list, endpoint or reference is another need, and there is no grant for
//! "anything". This crate is pure: it reads no file, no variable and no clock.

mod grant;
mod need;
mod origin;
mod print;
mod read;
mod verb;

pub use grant::{Access, Certificate, Credential, Grant, Grants, Program, Receiver};
pub use need::Need;
pub use origin::{InvalidOrigin, Origin};
pub use print::{by_folder, list};
pub use read::{Malformed, read_by_folder, read_list};
pub use verb::{Cause, Verb, table};
