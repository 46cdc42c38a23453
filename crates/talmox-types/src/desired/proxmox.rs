//! The hypervisor: how to reach it and what of it may be used.

use serde::Serialize;

use crate::{Fingerprint, HostName, PoolName, Ratio, SecretRef, StorageId, VmId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proxmox {
    /// Tried in this order. Empty: taken from the environment.
    pub endpoints: Vec<String>,
    pub api_token: Option<SecretRef>,
    pub ca_file: Option<String>,
    pub fingerprints: Vec<Fingerprint>,
    pub insecure: bool,
    /// Hosts that may carry VMs; empty means all of them.
    pub hosts: Vec<HostName>,
    /// The resource pool the VMs live in.
    pub pool: Option<PoolName>,
    /// Where downloaded disk images lie; none: the first storage that takes `import`.
    pub image_storage: Option<StorageId>,
    pub iso_storage: StorageId,
    /// Where configuration ISOs with secrets in them may lie.
    pub seed_storage: Option<StorageId>,
    pub vmid_range: VmIdRange,
    pub template_vmid_range: VmIdRange,
    pub placement: PlacementPolicy,
    pub control_plane_spread: Spread,
    /// Fields whose difference is shown and never corrected.
    pub ignore_drift: Vec<String>,
}

/// VMIDs that may be taken, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VmIdRange {
    pub start: VmId,
    pub end: VmId,
}

impl VmIdRange {
    pub fn contains(&self, id: VmId) -> bool {
        (self.start..=self.end).contains(&id)
    }

    pub fn count(&self) -> u32 {
        self.end.get() - self.start.get() + 1
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// How full a host may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PlacementPolicy {
    /// MiB of each host that VMs may not use.
    pub reserve_memory: u32,
    /// Virtual cores per core of the host.
    pub cpu_overcommit: Ratio,
    /// Thin-provisioned bytes per byte of a storage.
    pub storage_overcommit: Ratio,
}

/// Whether control planes must be on distinct hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    Preferred,
    Required,
}
