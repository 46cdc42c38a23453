//! What has to be done so that a cluster is as described.
//!
//! Pure functions: what is wanted ([`Desired`](talmox_types::desired::Desired)) and what is there ([`Observed`]) go in, a
//! [`Plan`] comes out, which is data. [`identify`] says whose each VM is, [`plan`] what to do, and [`check`] states the
//! safety rules once more, apart from the planner, and refuses a plan that breaks one.

mod check;
mod diff;
mod identity;
mod live;
mod observed;
mod plan;
mod planner;
mod request;
mod view;

pub use check::{Rule, Violation, check};
pub use identity::{Class, Identities, Owned, addresses, identify, macs};
pub use live::{Live, live};
pub use observed::{
    Depth, Guest, GuestConfig, GuestKind, Host, Observed, Power, Rights, Seen, SeenPool, Storage,
};
pub use plan::{
    Applies, Change, CloneKind, DriveOptions, Effect, Expected, Intent, Note, NoteKind, Plan, Planned,
    Refusal, Step, StepId, SubChange, TemplateSource, Volume, Waiting,
};
pub use planner::{Given, given_by_an_empty_proxmox, plan};
pub use request::{Goal, Nonce, Request};
pub use view::{NodeState, NodeView, View, view};
