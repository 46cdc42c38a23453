//! What a node's configuration is made of.

use std::fmt;
use std::net::IpAddr;

use talmox_image::install::InstallImages;
use talmox_machine::Bundle;
use talmox_types::desired::{Desired, Node};
use talmox_types::{FamilyPair, HostName, VmId};

use crate::variables::Variables;

/// Everything that goes into one node's configuration.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub desired: &'a Desired,
    pub node: &'a Node,
    pub bundle: &'a Bundle,
    pub whereabouts: &'a Whereabouts,
    /// Those of the description and of the environment.
    pub install_images: &'a InstallImages,
    /// In the order they apply: the cluster's, the role's, the pool's, the node's.
    pub patches: &'a [PatchText],
    /// What stands in the file `cni: {manifest: FILE}` names.
    pub cni_manifest: Option<&'a str>,
    pub variables: &'a Variables,
}

/// What is known of the machine itself. What is not known yet is left out of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    pub address: FamilyPair<IpAddr>,
    pub vmid: Option<VmId>,
    pub host: Option<HostName>,
    /// The SMBIOS uuid, which only a VM that exists has.
    pub uuid: Option<String>,
}

impl Whereabouts {
    /// A machine of which only the address is known.
    pub fn at(address: FamilyPair<IpAddr>) -> Self {
        Self { address, vmid: None, host: None, uuid: None }
    }
}

/// The text of a patch and the name its places are told by. It may hold secrets, so `Debug` only names it.
#[derive(Clone, PartialEq, Eq)]
pub struct PatchText {
    /// A file, or where in a file it is written.
    pub name: String,
    pub text: String,
}

impl fmt::Debug for PatchText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PatchText").field("name", &self.name).finish_non_exhaustive()
    }
}
