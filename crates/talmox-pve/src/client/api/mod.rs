//! The calls provisioning needs, by what they are about.

mod access;
mod agent;
mod change;
mod cluster;
mod content;
mod ha;
mod nodes;
mod pools;
mod qemu;
mod status;
mod storage;
mod tasks;
mod version;

pub use access::{Permissions, TokenInfo};
pub use agent::{AgentAddress, AgentInterface};
pub use change::{ChangeError, ConfigChange, PendingItem};
pub use cluster::{
    BackupJob, ClusterNode, ClusterOptions, ClusterStatus, MappingCheck, NodeResource, NodeState, PciMapping,
    PoolResource, ReplicationJob, Resource, StorageResource, TagStyle, Version, VirtualNetwork, VmResource,
};
pub use content::{Download, ImageKind, Upload, UrlMetadata};
pub use ha::{HaGroup, HaResource, HaRule, HaRuleScope, HaStatus, NewHaResource, NewHaRule};
pub use nodes::{Amount, Bridge, CpuInfo, Node, NodeStatus, PciHardware, Peer};
pub use pools::{Pool, PoolChange, PoolMember};
pub use qemu::{CloneKind, CloneVm, CreateVm, Feature, MigratePreconditions, Migration, MoveDisk, Snapshot};
pub use status::{VmPower, VmStatus};
pub use storage::{StorageState, Volume, VolumeInfo};
pub use tasks::{TaskEnd, TaskError, TaskInfo, TaskLine, TaskQuery, TaskSource, TaskState};
pub use version::{InvalidVersionNumber, VersionNumber};
