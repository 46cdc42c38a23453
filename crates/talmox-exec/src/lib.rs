//! The engine's hands: `observe` looks at Proxmox, `execute` carries a plan out, `apply` goes round until nothing is
//! left to do. Deciding is done elsewhere, by pure functions (`talmox-plan`); talking to people too.

#![expect(
    clippy::result_large_err,
    reason = "an error ends a step; what it tells a person is worth more than its bytes"
)]

mod apply;
mod error;
pub mod etcd;
mod execute;
mod factories;
mod find;
mod gate;
mod handout;
pub mod health;
mod heartbeat;
mod images;
mod lease;
mod locks;
mod machine;
mod observe;
mod pace;
pub mod preflight;
mod reach;
mod report;
mod run;
mod steps;
mod unavailable;
mod upkeep;
mod work;

pub use apply::{ApplyError, Summary, apply};
pub use error::StepError;
pub use execute::execute;
pub use factories::Factories;
pub use gate::{Gate, GateFuture, Interruption};
pub use handout::{Answer, Handout, InvalidBase};
pub use heartbeat::heartbeat;
pub use images::{Arriving, ImageError, ImageFault, ImageFuture, Images};
pub use lease::{FoundProcess, LeaseHolder, ProcessHome, ProcessId, Processes, Writer};
pub use machine::{Begun, Compare, Held, answering, etcd_begun, held, observe_machines, observe_whole};
pub use observe::{Look, ObserveError, observe, observe_for};
pub use pace::Pace;
pub use reach::{
    Clock, MachineConfig, Machines, MachinesFuture, Manifest, Pieces, Reach, SnapshotSink, Whereabouts,
};
pub use report::{Event, Reporter};
pub use run::{Because, Done, Failure, Limits, Outcome, Run, Skip};
pub use upkeep::UpgradeFault;
