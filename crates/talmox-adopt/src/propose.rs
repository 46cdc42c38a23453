//! From a selection to a proposal: what would be written, proven and not yet done.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use talmox_config::edit::{Edited, NewNode, Setting, append_node, edit, first_device_keys};
use talmox_config::{Description, Outcome, Severity, read_files};
use talmox_plan::{Nonce, Observed, Power, addresses, identify};
use talmox_types::desired::{Desired, Node, NodeAddress, Role};
use talmox_types::{ClusterUid, FamilyPair, HostName, Mark, NodeName, VmId};

use crate::choose::{Choice, Choices, Field};
use crate::derive::{Subject, derive, leaving, options_written, system_disk};
use crate::judge::{Candidate, bootstrapped, judge};
use crate::prove::{as_if_marked, follows, left_alone, prove, unsaid};
use crate::{Matched, Selection};

/// How often a description is written and read again before it must be right. What one round writes can change what
/// another value means (a storage that others inherit), so one round is not always enough.
const ROUNDS: usize = 8;

/// Everything that would be done.
#[derive(Debug)]
pub struct Proposal {
    pub adoptions: Vec<Adoption>,
    pub refused: Vec<Refused>,
    /// Nodes that are ours as they are.
    pub already: Vec<Already>,
    /// Nodes for which no VM was found.
    pub unmatched: Vec<NodeName>,
    pub files: Vec<FileChange>,
}

/// A VM that would be marked, and what it took to describe it.
#[derive(Clone, Debug)]
pub struct Adoption {
    pub node: NodeName,
    pub vmid: VmId,
    pub host: HostName,
    pub matched: Vec<Matched>,
    /// Everything that was written for it.
    pub settings: Vec<Setting>,
    /// What the next apply would do, all of it unnoticed by what runs.
    pub follows: Vec<String>,
    /// Devices that stay undeclared.
    pub left_alone: Vec<String>,
    /// Keys somebody changed and has not restarted for.
    pub pending: Vec<String>,
    pub role: Role,
    /// Its first address, if that is known.
    pub address: Option<IpAddr>,
    /// The SMBIOS uuid of the VM, by which its machine proves itself.
    pub uuid: Option<String>,
    pub mark: Mark,
    /// Notes and SMBIOS values with the mark, and the state they are for.
    pub description: String,
    pub smbios: String,
    pub digest: String,
    /// Whether the SMBIOS values take effect at the next restart only.
    pub witness_waits: bool,
    /// A serial number somebody else gave it, which the witness takes the place of.
    pub serial: Option<String>,
}

impl Adoption {
    /// Has the mark say that etcd was begun, as those of all control planes do that come to one that runs: should its data be
    /// lost one day, nothing else tells that another bootstrap would make another cluster. Workers bear no such word.
    pub fn remember_bootstrap(&mut self) {
        if self.role == Role::Controller {
            self.mark = bootstrapped(&self.mark);
            self.description = self.mark.in_description(&self.description);
        }
    }

    /// Has the mark say that the machine was configured: it has answered with a certificate of the cluster.
    pub fn remember_configured(&mut self) {
        self.mark.configured = true;
        self.description = self.mark.in_description(&self.description);
    }
}

/// A node or VM that is not adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub node: Option<NodeName>,
    pub vmid: Option<VmId>,
    pub problem: String,
    pub hints: Vec<String>,
}

impl Refused {
    pub(crate) fn new(
        node: Option<&NodeName>,
        vmid: Option<VmId>,
        problem: String,
        hints: Vec<String>,
    ) -> Self {
        Self { node: node.cloned(), vmid, problem, hints }
    }
}

/// A node whose VM is ours already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Already {
    pub node: NodeName,
    pub vmid: VmId,
}

/// A file before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// As people know it.
    pub name: String,
    /// None for a text that is in no file.
    pub path: Option<PathBuf>,
    pub before: String,
    pub after: String,
}

/// Why nothing can be proposed at all.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    #[error("the description has no cluster_uid, by which its VMs would be recognised")]
    NoUid,
    #[error("there is a node {name} already")]
    Known { name: NodeName, vmid: VmId },
    #[error("VM {vmid} does not tell its address")]
    NoAddress { vmid: VmId },
    #[error("there is no VM {vmid}, or the credentials may not see it")]
    NoVm { vmid: VmId },
    #[error(transparent)]
    Edit(#[from] talmox_config::edit::EditError),
    #[error("with {name} in it the description is not valid: {}", .problems.join("; "))]
    Invalid { name: NodeName, problems: Vec<String> },
}

/// What to look for: the description, and the node that is to be added to it. So every VM is looked at.
pub fn probe(desired: &Desired, selection: &Selection) -> Desired {
    let mut probe = desired.clone();
    let vmid = match selection {
        Selection::New { vmid, name, .. } => {
            if let Some(first) = desired.nodes.first() {
                let mut node: Node = first.clone();
                node.name = name.clone();
                probe.nodes.push(node);
            }
            Some(*vmid)
        }
        Selection::Vm(vmid) => Some(*vmid),
        Selection::Node { vmid, .. } => *vmid,
        Selection::AllMatching => None,
    };
    if let (Some(vmid), Some(last)) = (vmid, probe.nodes.last_mut()) {
        // An id that is declared is always read.
        last.vm.id = Some(vmid);
    }
    probe
}

/// Works out what it takes to adopt what was selected. Nothing is written.
pub fn propose(
    outcome: Box<Outcome>,
    observed: &Observed,
    selection: &Selection,
    nonce: &Nonce,
) -> Result<Proposal, ProposeError> {
    let before: Vec<String> = texts(&outcome.description);
    let mut bench = Bench { outcome, observed, nonce };
    if let Selection::New { .. } = selection {
        bench.add_node(selection)?;
    }
    let uid = bench.desired().uid.clone().ok_or(ProposeError::NoUid)?;
    let desired = bench.desired().clone();
    let identities = identify(&desired, observed);
    let field = Field { desired: &desired, observed, identities: &identities };
    let Choices { chosen, mut refused, already, unmatched } = field.choose(selection);
    let mut adopted: Vec<(Adoption, Candidate<'_>)> = Vec::new();
    for choice in &chosen {
        match bench.adopt(&field, &uid, choice, &adopted) {
            Ok(one) => adopted.push(one),
            Err(one) => refused.push(one),
        }
    }
    bench.prove_all(&mut adopted, &mut refused);
    let adoptions: Vec<Adoption> = adopted.into_iter().map(|(adoption, _)| adoption).collect();
    let files = if adoptions.is_empty() { Vec::new() } else { changed(&bench.outcome.description, &before) };
    Ok(Proposal { adoptions, refused, already, unmatched, files })
}

/// On the heap at once, and out of the caller's frame.
#[inline(never)]
fn read_again(description: &Description, edited: &[Edited]) -> Box<Outcome> {
    Box::new(read_files(description.with_texts(edited)))
}

fn texts(description: &Description) -> Vec<String> {
    description.sources.written().map(|id| description.sources.get(id).text.clone()).collect()
}

fn changed(description: &Description, before: &[String]) -> Vec<FileChange> {
    let sources = description.sources.written().map(|id| description.sources.get(id)).zip(before);
    sources
        .filter(|(source, before)| source.text != **before)
        .map(|(source, before)| FileChange {
            name: source.name.clone(),
            path: source.is_file.then(|| PathBuf::from(&source.name)),
            before: before.clone(),
            after: source.text.clone(),
        })
        .collect()
}

/// A description that says what a VM is, and what was written for that.
type Described = (Box<Outcome>, Vec<Setting>);

/// Why not, and what can be done about it.
type Reason = (String, Vec<String>);

/// The description as it is being edited.
struct Bench<'a> {
    /// In a box: a description has a field for every key there is.
    outcome: Box<Outcome>,
    observed: &'a Observed,
    nonce: &'a Nonce,
}

impl Bench<'_> {
    fn desired(&self) -> &Desired {
        self.outcome.desired.as_ref().expect("a description is worked on only while it is valid")
    }

    /// Reads the description with a text changed; the problems, if it is not valid any more.
    fn reread(&self, edited: Edited) -> Result<Box<Outcome>, Vec<String>> {
        let outcome = read_again(&self.outcome.description, &[edited]);
        if outcome.desired.is_some() {
            return Ok(outcome);
        }
        let errors = outcome.problems.iter().filter(|problem| problem.severity == Severity::Error);
        Err(errors.map(|problem| problem.message.clone()).collect())
    }

    fn add_node(&mut self, selection: &Selection) -> Result<(), ProposeError> {
        let Selection::New { vmid, name, role, address } = selection else { return Ok(()) };
        if self.desired().nodes.iter().any(|node| node.name == *name) {
            return Err(ProposeError::Known { name: name.clone(), vmid: *vmid });
        }
        let guest = self.observed.guests.get(vmid).ok_or(ProposeError::NoVm { vmid: *vmid })?;
        let mut held = guest.seen().map(|seen| addresses(&seen.next)).unwrap_or_default().into_iter();
        let own = match (held.next(), held.next()) {
            (Some(one), Some(two)) => FamilyPair::two(one, two).or(Some(FamilyPair::one(one))),
            (Some(one), None) => Some(FamilyPair::one(one)),
            (None, _) => None,
        };
        let pair = address.or(own).ok_or(ProposeError::NoAddress { vmid: *vmid })?;
        let new = NewNode { name: name.clone(), role: *role, address: options_written(&pair) };
        let edited = append_node(&self.outcome.description, &new)?;
        let invalid = |problems| ProposeError::Invalid { name: name.clone(), problems };
        self.outcome = self.reread(edited).map_err(invalid)?;
        Ok(())
    }

    /// Describes one VM and proves it, together with those before it. What cannot be proven leaves no trace.
    fn adopt<'a>(
        &mut self,
        field: &Field<'a>,
        uid: &ClusterUid,
        choice: &Choice,
        others: &[(Adoption, Candidate<'_>)],
    ) -> Result<(Adoption, Candidate<'a>), Refused> {
        if let Some((problem, hints)) = not_permitted(self.desired(), self.observed, choice.vmid) {
            return Err(Refused::new(Some(&choice.node), Some(choice.vmid), problem, hints));
        }
        let candidate = judge(field, uid, choice, self.nonce)?;
        let mut marked: Vec<&Candidate<'_>> = others.iter().map(|(_, other)| other).collect();
        marked.push(&candidate);
        let after = as_if_marked(self.observed, &marked);
        let refuse = |problem: String, hints: Vec<String>| {
            Refused::new(Some(&choice.node), Some(choice.vmid), problem, hints)
        };
        let (outcome, settings) =
            self.describe(&candidate, &after, choice).map_err(|(problem, hints)| refuse(problem, hints))?;
        let desired =
            outcome.desired.as_ref().ok_or_else(|| refuse("it is not valid".to_owned(), Vec::new()))?;
        let proof = prove(desired, &after, &BTreeSet::from([choice.node.clone()]), self.nonce)
            .map_err(|against| refuse(against.join("; "), Vec::new()))?;
        let node = desired.nodes.iter().find(|node| node.name == choice.node);
        let node = node.ok_or_else(|| refuse("the description has no such node".to_owned(), Vec::new()))?;
        let adoption = adoption(&candidate, choice, node, settings, &proof.plan);
        self.outcome = outcome;
        Ok((adoption, candidate))
    }

    /// Writes and reads until the VM is as described.
    fn describe(
        &self,
        candidate: &Candidate<'_>,
        after: &Observed,
        choice: &Choice,
    ) -> Result<Described, Reason> {
        let system = system_disk(&candidate.seen.next).map_err(|problem| (problem, Vec::new()))?;
        if candidate.seen.next.get("net0").is_none() {
            return Err(("it has no network device net0".to_owned(), Vec::new()));
        }
        let mut bench = Bench {
            outcome: read_again(&self.outcome.description, &[]),
            observed: self.observed,
            nonce: self.nonce,
        };
        let mut all = Vec::new();
        for _ in 0..ROUNDS {
            let desired = bench.desired();
            let Some(node) = desired.nodes.iter().find(|node| node.name == choice.node) else {
                return Err(("the description has no such node".to_owned(), Vec::new()));
            };
            let subject = Subject {
                desired,
                node,
                guest: candidate.guest,
                config: &candidate.seen.next,
                first_device: first_device_keys(&bench.outcome.description, &choice.node),
                system: system.clone(),
            };
            let mut settings = derive(&subject);
            if settings.is_empty() {
                settings.extend(leaving(desired, node, unsaid(desired, after, &choice.node, self.nonce)));
            }
            let edited = edit(&bench.outcome.description, &choice.node, &settings);
            let Some(edited) = edited.map_err(|error| (error.to_string(), edit_hints(&error)))? else {
                return Ok((bench.outcome, all));
            };
            let outcome = bench.reread(edited).map_err(|problems| {
                (
                    format!(
                        "described as it is, the description would not be valid: {}",
                        problems.join("; ")
                    ),
                    Vec::new(),
                )
            })?;
            bench.outcome = outcome;
            all.extend(settings);
        }
        Err(("it cannot be described".to_owned(), Vec::new()))
    }

    /// Each was proven with those before it; now all of them together, and if that fails none.
    fn prove_all(&self, adopted: &mut Vec<(Adoption, Candidate<'_>)>, refused: &mut Vec<Refused>) {
        if adopted.len() < 2 {
            return;
        }
        let marked: Vec<&Candidate<'_>> = adopted.iter().map(|(_, candidate)| candidate).collect();
        let after = as_if_marked(self.observed, &marked);
        let nodes = adopted.iter().map(|(adoption, _)| adoption.node.clone()).collect();
        if let Err(against) = prove(self.desired(), &after, &nodes, self.nonce) {
            let problem = format!("together they do not fit: {}", against.join("; "));
            let hint = "adopt them one by one".to_owned();
            refused.push(Refused::new(None, None, problem, vec![hint]));
            adopted.clear();
        }
    }
}

/// What the credentials lack to mark a VM, and to have it in the cluster's pool. Asked before files are written: a
/// description whose VM cannot be marked describes a node that is not there.
fn not_permitted(desired: &Desired, observed: &Observed, vmid: VmId) -> Option<Reason> {
    let guest = observed.guests.get(&vmid)?;
    let pool = desired.proxmox.pool.as_ref();
    let (own, rights) = (format!("/vms/{vmid}"), &observed.rights);
    let mut lacking: Vec<String> = ["VM.Config.Options", "VM.Config.HWType"]
        .into_iter()
        .filter(|privilege| !rights.holds(&own, privilege))
        .map(|privilege| format!("{privilege} is missing on {own}, to mark it"))
        .collect();
    if let Some(pool) = pool.filter(|_| guest.pool.is_none())
        && !observed.pool.as_ref().is_some_and(|seen| seen.holds(vmid))
        && !rights.holds(&format!("/pool/{pool}"), "Pool.Allocate")
    {
        lacking.push(format!("Pool.Allocate is missing on /pool/{pool}, to put it into the cluster's pool"));
    }
    if lacking.is_empty() {
        return None;
    }
    let hint = match pool {
        Some(pool) => format!(
            "on a Proxmox host: pvesh set /pools/{pool} --vms {vmid} puts it into the pool, where the credentials have \
             what they need"
        ),
        None => "talmox check --setup prints the lines that grant it".to_owned(),
    };
    Some((lacking.join("; "), vec![hint]))
}

fn edit_hints(error: &talmox_config::edit::EditError) -> Vec<String> {
    use talmox_config::edit::EditError;
    match error {
        EditError::PoolMember { node, .. } => {
            vec![format!("write {node} under nodes, and lower the pool's count")]
        }
        EditError::NoNode { .. } => Vec::new(),
        EditError::InTheWay { .. } | EditError::NotAdded { .. } => {
            vec!["write it without aliases and anchors, or make the change by hand".to_owned()]
        }
    }
}

fn adoption(
    candidate: &Candidate<'_>,
    choice: &Choice,
    node: &Node,
    settings: Vec<Setting>,
    plan: &talmox_plan::Plan,
) -> Adoption {
    let Candidate { guest, seen, mark, description, smbios } = candidate;
    let held = seen.next.smbios().ok().flatten().unwrap_or_default();
    let is_new = held.serial.as_deref() != Some(mark.witness_serial().as_str());
    Adoption {
        node: choice.node.clone(),
        vmid: guest.vmid,
        host: guest.host.clone(),
        matched: choice.matched.clone(),
        settings,
        follows: follows(plan, &choice.node),
        left_alone: left_alone(plan, &choice.node),
        pending: seen.pending().into_iter().map(str::to_owned).collect(),
        role: node.role,
        address: match &node.address {
            NodeAddress::Declared(pair) => Some(pair.primary()),
            NodeAddress::FromPool(_) => addresses(&seen.next).into_iter().next(),
        },
        uuid: held.uuid.clone(),
        mark: mark.clone(),
        description: description.clone(),
        smbios: smbios.clone(),
        digest: seen.digest.clone(),
        witness_waits: guest.power != Power::Stopped && is_new,
        serial: held.serial.filter(|_| is_new),
    }
}
