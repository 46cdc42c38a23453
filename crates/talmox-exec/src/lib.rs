//! The engine's hands: `observe` looks at Proxmox, `execute` carries a plan out, `apply` goes round until nothing is
//! left to do. Deciding is done elsewhere, by pure functions (`talmox-plan`); talking to people too.

mod error;
mod gate;
mod observe;
mod report;

pub use error::StepError;
pub use gate::{Gate, GateFuture, Interruption};
pub use observe::{ObserveError, observe};
pub use report::{Event, Reporter};
