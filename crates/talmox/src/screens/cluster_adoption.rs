//! A cluster that runs, as it would be described.

use serde::Serialize;
use talmox_adopt::Proposal;
use talmox_adopt::cluster::{Counts, Described, Stranger};
use talmox_machine::secrets::Accepted;
use talmox_types::NodeName;

use super::adoption::{refusal, tell};
use super::plan_text::{RED, YELLOW};
use super::text::{listed, plural, safe};
use crate::printer::{BOLD, DIM};

/// How many differences of a node are shown.
const SHOWN: usize = 12;

pub(crate) fn cluster_adoption_text(described: &Described) -> String {
    let Described { name, talos, kubernetes, contract, files, variables, patches, strangers, remaining, vms } =
        described;
    let mut text = format!(
        "{BOLD}{name}{BOLD:#}  Talos {talos}, Kubernetes {kubernetes}, configuration in the layout of {contract}\n\n"
    );
    if let Some(Proposal { adoptions, refused, already, .. }) = vms {
        text.extend(adoptions.iter().map(tell));
        for one in already {
            text.push_str(&format!(
                "  {DIM}={DIM:#}   {}  VM {} carries its mark already\n",
                one.node, one.vmid
            ));
        }
        text.extend(refused.iter().map(refusal));
        text.push('\n');
    }
    let Counts { cluster, roles, nodes } = patches;
    text.push_str(&format!(
        "Patches say what the description has no word for: {cluster} for all nodes, {roles} for a role, {nodes} for one node.\n"
    ));
    if !variables.is_empty() {
        text.push_str(&format!("Secrets in them are variables: {}.\n", safe(&listed(variables))));
    }
    if remaining.is_empty() {
        text.push_str("Proven: rendered, the description is what every node runs with, field for field.\n");
    }
    for (node, differences) in remaining {
        text.push_str(&format!("  {RED}✗{RED:#}   {node}: no patch says this, and a plan would change it\n"));
        for difference in differences.iter().take(SHOWN) {
            text.push_str(&format!("      {}: {}\n", safe(&difference.document), safe(&difference.path)));
        }
        if differences.len() > SHOWN {
            text.push_str(&format!("      {DIM}and {} more{DIM:#}\n", differences.len() - SHOWN));
        }
    }
    text.extend(strangers.iter().map(stranger));
    let count = plural(files.len(), "file");
    text + &format!("{YELLOW}{count}{YELLOW:#} and the secrets of the cluster.\n")
}

/// An authority that is not the cluster's and is believed all the same.
fn stranger(stranger: &Stranger) -> String {
    let Stranger { accepted: Accepted { realm, place, fingerprint, .. }, file } = stranger;
    let ends = ends(stranger).map_or_else(|| "end unknown".to_owned(), |day| format!("good until {day}"));
    format!(
        "  {RED}!{RED:#}   {BOLD}an authority of {} that is not this cluster's is accepted{BOLD:#}: SHA-256 {fingerprint}, {ends}\n      \
         {} has it ({place}). Whoever has its key is let in until these lines are removed: an interrupted talosctl rotate-ca\n      \
         leaves such behind. If nobody needs it, take them out, and the next apply drops it.\n",
        realm.name(),
        safe(file)
    )
}

fn ends(stranger: &Stranger) -> Option<String> {
    let ends = stranger.accepted.ends?.to_string();
    Some(ends.split('T').next().unwrap_or(&ends).to_owned())
}

#[derive(Serialize)]
pub(crate) struct ClusterAdoptionData<'d> {
    format: &'static str,
    /// Nothing is written, whatever stands here.
    dry_run: bool,
    cluster: String,
    talos: String,
    kubernetes: String,
    contract: String,
    vms: Vec<VmData<'d>>,
    refused: Vec<String>,
    files: Vec<&'d str>,
    variables: &'d [String],
    patches: PatchesData,
    /// Authorities that are accepted and are not the cluster's.
    strangers: Vec<StrangerData<'d>>,
    remaining: Vec<RemainingData<'d>>,
}

#[derive(Serialize)]
struct VmData<'d> {
    node: &'d NodeName,
    vmid: u32,
    marked: bool,
    /// What the next apply changes while the VM runs.
    follows: &'d [String],
}

#[derive(Serialize)]
struct PatchesData {
    cluster: usize,
    roles: usize,
    nodes: usize,
}

#[derive(Serialize)]
struct StrangerData<'d> {
    authority: &'static str,
    sha256: &'d str,
    /// A day.
    ends: Option<String>,
    file: &'d str,
    place: &'d str,
}

#[derive(Serialize)]
struct RemainingData<'d> {
    node: &'d NodeName,
    document: &'d str,
    path: &'d str,
}

impl<'d> ClusterAdoptionData<'d> {
    pub(crate) fn new(described: &'d Described, dry_run: bool) -> Self {
        let Described {
            name,
            talos,
            kubernetes,
            contract,
            files,
            variables,
            patches,
            strangers,
            remaining,
            vms,
        } = described;
        let adoptions = vms.iter().flat_map(|vms| &vms.adoptions).map(|one| VmData {
            node: &one.node,
            vmid: one.vmid.get(),
            marked: false,
            follows: &one.follows,
        });
        let already = vms.iter().flat_map(|vms| &vms.already).map(|one| VmData {
            node: &one.node,
            vmid: one.vmid.get(),
            marked: true,
            follows: &[],
        });
        let remaining = remaining.iter().flat_map(|(node, differences)| {
            let told = differences.iter();
            told.map(move |one| RemainingData { node, document: &one.document, path: &one.path })
        });
        Self {
            format: "talmox.cluster-adoption/v1",
            dry_run,
            cluster: name.to_string(),
            talos: talos.to_string(),
            kubernetes: kubernetes.to_string(),
            contract: contract.to_string(),
            vms: adoptions.chain(already).collect(),
            refused: vms.iter().flat_map(|vms| &vms.refused).map(|one| one.problem.clone()).collect(),
            files: files.iter().map(|file| file.name.as_str()).collect(),
            variables,
            patches: PatchesData { cluster: patches.cluster, roles: patches.roles, nodes: patches.nodes },
            strangers: strangers.iter().map(StrangerData::of).collect(),
            remaining: remaining.collect(),
        }
    }
}

impl<'d> StrangerData<'d> {
    fn of(stranger: &'d Stranger) -> Self {
        let Stranger { accepted: Accepted { realm, place, fingerprint, .. }, file } = stranger;
        Self { authority: realm.word(), sha256: fingerprint, ends: ends(stranger), file, place }
    }
}
