//! A Proxmox VE that lives in memory.
//!
//! The core does no I/O: [`World::handle`] takes a request and the time, and answers with a reply; what happens later
//! happens when [`World::advance_to`] says so, and [`World::next_event`] tells when that is. Shells around it speak HTTPS
//! or hand requests over in memory. The simulator knows only the wire: it parses and prints with its own code from its own
//! tables, so that a mistake of a client cannot prove itself. [`behaviours`] says where each behaviour is known from.

mod access;
mod api;
mod auth;
mod behaviour;
pub mod behaviours;
mod calendar;
mod contents;
mod drive;
mod dump;
mod factory;
mod faults;
mod files;
mod fit;
mod guests;
mod ha;
mod hosts;
mod iso;
mod jobs;
mod locks;
mod multipart;
pub mod proof;
mod qemu;
mod random;
mod record;
mod release;
mod reply;
mod saved;
mod schema;
#[cfg(feature = "serve")]
pub mod serve;
mod server;
mod simulation;
mod starter;
mod status;
mod storage;
mod tasks;
mod vm;
mod waiting;
mod wire;
mod world;

pub use access::{Access, AclEntry, Caller, Token, User};
pub use contents::{Content, Secret, TalosImage};
pub use dump::{Dump, VmDump, VolumeDump};
pub use factory::{Factory, FactoryReply, FactoryRequest, PUBLIC as PUBLIC_FACTORY, Trouble};
pub use faults::{Calls, Fault, FaultPlan, When};
pub use files::FileFacts;
pub use fit::{Fit, FitError, FitFile, FitHost, FitMapping, FitStorage, FitTemplate};
pub use guests::{Machine, MachineDrive, MachineNic, PowerEvent};
pub use multipart::BadUpload;
pub use record::TaskRecord;
pub use release::{RELEASE, UnknownRelease, Versions};
pub use saved::LoadError;
pub use simulation::{Delivery, Progress, Simulation, UnfinishedCall};
pub use starter::{Started, Starter};
pub use storage::{BadStorage, Storage};
pub use waiting::{Step, Waiting};
pub use wire::{Body, JSON, Reply, Request, encode_form, percent_encode};
pub use world::{Node, PciDevice, Pool, Reach, Site, Timing, World};

/// A call the simulator answers, and what it asks of the caller before it looks at anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub method: String,
    /// With `{variables}`.
    pub path: String,
    /// `all`, `world`, `root`, or `perm(PATH PRIVILEGE+… or PRIVILEGE|…)`, `and(…)`, `or(…)` and the checks of users.
    pub permission: String,
}

/// Every call the simulator answers.
pub fn endpoints() -> impl Iterator<Item = Endpoint> {
    schema::routes().iter().map(|route| Endpoint {
        method: route.method.clone(),
        path: route.template.clone(),
        permission: route.permission.clone(),
    })
}

/// The normal form of an option's value, or the server's words against it. Options that are no property strings are
/// checked and come back as they are.
pub fn normal_form(option: &str, value: &str) -> Result<String, String> {
    schema::normal_form(option, value)
}
