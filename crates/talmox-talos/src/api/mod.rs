//! The calls talmox makes, by subject.

mod etcd;
mod files;
mod life;
mod machine;
mod resources;
mod snapshot;
mod wrapped;

pub use etcd::{Alarm, EtcdHealth, Member, MemberId};
pub use life::{Installer, PullProgress, ResetPlan, Store};
pub use machine::{Applied, ApplyMode, Platform, Release, ServiceState};
pub use resources::{
    Change, ControlPlanePod, MachineState, Phase, PodConfig, Resource, Specification, Stage, Unmet, Watched,
    kinds,
};
pub use snapshot::{NoSnapshot, Snapshot};
