//! What adoption would do, for programs.

use serde::Serialize;
use talmox_adopt::{Adoption, Proposal};
use talmox_types::{HostName, NodeName, VmId};

#[derive(Serialize)]
pub(crate) struct AdoptionData<'p> {
    format: &'static str,
    /// Nothing is written, whatever stands here.
    dry_run: bool,
    adoptions: Vec<OneData<'p>>,
    refused: Vec<RefusedData<'p>>,
    already: Vec<AlreadyData<'p>>,
    unmatched: &'p [NodeName],
    /// Files that change.
    files: Vec<&'p str>,
}

#[derive(Serialize)]
struct OneData<'p> {
    node: &'p NodeName,
    vmid: VmId,
    host: &'p HostName,
    /// What says that the VM is this node.
    matched: Vec<String>,
    /// Keys of the description that are written.
    settings: Vec<&'static str>,
    /// What the next apply changes while the VM runs.
    follows: &'p [String],
    left_alone: &'p [String],
    pending: &'p [String],
    replaced_serial: Option<&'p str>,
}

#[derive(Serialize)]
struct RefusedData<'p> {
    node: Option<&'p NodeName>,
    vmid: Option<VmId>,
    problem: &'p str,
    hints: &'p [String],
}

#[derive(Serialize)]
struct AlreadyData<'p> {
    node: &'p NodeName,
    vmid: VmId,
}

impl<'p> AdoptionData<'p> {
    pub(crate) fn new(proposal: &'p Proposal, dry_run: bool) -> Self {
        let Proposal { adoptions, refused, already, unmatched, files } = proposal;
        Self {
            format: "talmox.adoption/v1",
            dry_run,
            adoptions: adoptions.iter().map(one).collect(),
            refused: refused
                .iter()
                .map(|one| RefusedData {
                    node: one.node.as_ref(),
                    vmid: one.vmid,
                    problem: &one.problem,
                    hints: &one.hints,
                })
                .collect(),
            already: already.iter().map(|one| AlreadyData { node: &one.node, vmid: one.vmid }).collect(),
            unmatched,
            files: files.iter().map(|file| file.name.as_str()).collect(),
        }
    }
}

fn one(adoption: &Adoption) -> OneData<'_> {
    OneData {
        node: &adoption.node,
        vmid: adoption.vmid,
        host: &adoption.host,
        matched: adoption.matched.iter().map(ToString::to_string).collect(),
        settings: adoption.settings.iter().map(talmox_config::edit::Setting::key).collect(),
        follows: &adoption.follows,
        left_alone: &adoption.left_alone,
        pending: &adoption.pending,
        replaced_serial: adoption.serial.as_deref(),
    }
}
