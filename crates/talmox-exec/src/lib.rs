//! The engine's hands: `observe` looks at Proxmox, `execute` carries a plan out, `apply` goes round until nothing is
//! left to do. Deciding is done elsewhere, by pure functions (`talmox-plan`); talking to people too.

mod error;
mod execute;
mod find;
mod gate;
mod locks;
mod observe;
mod report;
mod run;
mod steps;
mod work;

pub use error::StepError;
pub use execute::execute;
pub use gate::{Gate, GateFuture, Interruption};
pub use observe::{ObserveError, observe};
pub use report::{Event, Reporter};
pub use run::{Because, Done, Failure, Limits, Outcome, Run, Skip};
