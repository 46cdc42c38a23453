//! The way to the machines themselves: transports, and whoever has their secrets.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use secrecy::SecretString;
use talmox_machine::Hidden;
use talmox_talos::{Access, Client, Identity, Transport};
use talmox_types::{FamilyPair, HostName, NodeName, Phases, Realm, VmId};

use crate::{Handout, LeaseHolder, Pace, Processes};

/// How machines are reached, and who says what they are to be.
pub struct Reach<'a> {
    pub machines: &'a dyn Machines,
    pub talos: Arc<dyn Transport>,
    /// Without it Kubernetes is neither asked nor handed anything.
    pub kubernetes: Option<Arc<dyn talmox_k8s::Transport>>,
    /// Where machines fetch their configuration, if this run hands any out.
    pub handout: Option<&'a Handout>,
    pub clock: &'a dyn Clock,
    /// How fast the time of the machines runs.
    pub pace: Pace,
    /// Who this run is to others that want to work on the same cluster.
    pub holder: LeaseHolder,
    /// Where it can be seen whether another run on this machine has ended.
    pub processes: &'a dyn Processes,
    /// Whether somebody else's lease is taken over.
    pub take_over: bool,
}

impl Reach<'_> {
    /// A node with the configuration of this cluster; none if its secrets are not at hand.
    pub fn secure(&self, address: IpAddr) -> Option<Client> {
        let identity = self.machines.identity()?;
        Some(Client::new(Arc::clone(&self.talos), address, Access::Secure(identity)))
    }

    /// A node in maintenance mode.
    pub fn maintenance(&self, address: IpAddr) -> Client {
        Client::new(Arc::clone(&self.talos), address, Access::maintenance())
    }
}

/// What time it is.
pub trait Clock: Send + Sync {
    /// Seconds since 1970.
    fn now(&self) -> u64;
}

pub type MachinesFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Whoever has the secrets of a cluster: says who we are to its nodes, and what each of them is to be configured with.
pub trait Machines: Send + Sync {
    /// What a node is to be configured with. The error says why it cannot be told.
    fn config(&self, node: &NodeName, at: &Whereabouts) -> Result<MachineConfig, String>;

    /// Who we are to configured nodes; none if the secrets are not at hand.
    fn identity(&self) -> Option<Arc<Identity>>;

    /// Who we are to Kubernetes, at the address of the cluster; none if the secrets are not at hand.
    fn kubernetes(&self) -> Option<talmox_k8s::Access> {
        None
    }

    /// Whose authorities are being replaced, in the order that is done.
    fn rotating(&self) -> Vec<Realm> {
        Vec::new()
    }

    /// How far a machine with this configuration is with that.
    fn phases_of(&self, _config: &SecretString) -> Phases {
        Phases::default()
    }

    /// Puts the new authority in the place of the old one where the secrets are kept, now that nobody knows the old one any
    /// more. Done before, there is nothing to do.
    fn settle(&self, realm: Realm) -> Result<(), String> {
        Err(format!("nobody here keeps the authority of {}", realm.name()))
    }

    /// The texts of the manifests the description names, in its order.
    fn manifests(&self) -> MachinesFuture<'_, Vec<Manifest>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Runs the program that takes over once the cluster is bootstrapped.
    fn post_bootstrap<'a>(&'a self, command: &'a [String]) -> MachinesFuture<'a, ()> {
        let program = command.first().cloned().unwrap_or_default();
        Box::pin(async move { Err(format!("nobody here can run {program}")) })
    }

    /// A place for one more snapshot of etcd, where the description keeps them.
    fn snapshot_sink(&self) -> Result<Box<dyn SnapshotSink + '_>, String> {
        Err("nobody here keeps snapshots".to_owned())
    }

    /// When this run last kept one, in seconds since 1970.
    fn last_snapshot(&self) -> Option<u64> {
        None
    }

    /// The bytes of a snapshot somebody has, decrypted.
    fn snapshot(&self, path: &str) -> Result<Pieces, String> {
        Err(format!("nobody here reads {path}"))
    }
}

/// Bytes of a file, from its beginning to its end or to what stood in the way.
pub type Pieces = Box<dyn Iterator<Item = Result<Bytes, String>> + Send>;

/// A snapshot of etcd on its way to where it is kept. Dropped before it is kept, nothing is left of it.
pub trait SnapshotSink: Send {
    fn write(&mut self, piece: &[u8]) -> Result<(), String>;

    /// Puts it in place, now that it is known to be whole; gives where it is.
    fn keep(self: Box<Self>) -> Result<String, String>;
}

/// Where a node's machine is: what its configuration depends on beside the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    pub address: FamilyPair<IpAddr>,
    pub vmid: Option<VmId>,
    pub host: Option<HostName>,
    /// The SMBIOS uuid.
    pub uuid: Option<String>,
    /// How far it is, or is to be, with authorities that are being replaced.
    pub phases: Phases,
}

/// A machine configuration, whole. It holds the cluster's keys, so `Debug` shows nothing of it.
#[derive(Clone)]
pub struct MachineConfig {
    pub text: SecretString,
    /// What in it came from variables, and is shown nowhere.
    pub hidden: Hidden,
}

impl fmt::Debug for MachineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MachineConfig(…)")
    }
}

/// A manifest for Kubernetes. It may hold secrets.
#[derive(Clone)]
pub struct Manifest {
    /// The file or URL it is from.
    pub name: String,
    pub text: SecretString,
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest").field("name", &self.name).finish_non_exhaustive()
    }
}
