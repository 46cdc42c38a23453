//! The planner: from what is wanted and what is there to steps.
//!
//! Each declared node is looked at once and becomes steps, something that is waited for, or a refusal with choices. What
//! is not declared is shown and left alone unless its removal was asked for by name.

mod addresses;
mod capacity;
mod compared;
mod configured;
mod conflicts;
mod converge;
mod create;
mod ha;
mod heirs;
mod hosts;
mod ids;
mod inside;
mod later;
mod moves;
mod names;
mod namesakes;
mod permitted;
mod place;
mod published;
mod remove;
mod rewound;
mod roles;
mod seeds;
mod shelf;
mod source;
mod spread;
mod templates;
mod unavailable;
mod unknown;
mod upkeep;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_types::desired::{Desired, Node, Role};
use talmox_types::{ClusterUid, FamilyPair, Mark, NodeName, VmId};

use crate::{
    CarriedRestart, Change, Effect, Goal, Identities, Nonce, Note, NoteKind, Observed, Owned, Plan, Planned,
    Refusal, Request, SeenEtcd, SeenMachine, Step, StepId, Volume, identify, outdated,
};

use crate::doubles::{called, who_stays};
use crate::identity::{Names, by_name};
use crate::privileges::Use;

pub(crate) use addresses::assign;
pub use inside::{IN_THE_END, first_control_plane};
pub use published::config_source;
pub(crate) use seeds::seed_files;
pub use seeds::{seed_in, seed_storage, seeds_of};
pub use upkeep::BEGINS_WITH_NOTHING;

/// What to do so that the cluster is as described, or gone. Problems are part of the plan ([`Plan::refusals`]).
pub fn plan(desired: &Desired, observed: &Observed, request: &Request, nonce: &Nonce) -> Plan {
    let mut planner = Planner::new(desired, observed, request, nonce);
    names::check_names(&mut planner);
    match request.goal {
        Goal::Converge if !planner.quorum() => {}
        Goal::Converge => {
            conflicts::find(&mut planner);
            planner.copied_description();
            for node in planner.in_turn().into_iter().filter(|node| request.covers(&node.name)) {
                planner.node(node);
            }
            planner.undeclared();
            conflicts::addresses_of_ours(&mut planner);
            planner.ha();
            planner.watch_spread();
            let mut held = planner.keep_workers_up(false);
            planner.inside();
            held.extend(planner.keep_workers_up(true));
            planner.plan.later.extend(held);
            planner.outdated_templates();
            planner.hand_on_bootstrap();
            planner.record_configured();
            planner.forgotten_seeds();
            planner.snapshot_first();
        }
        Goal::Destroy => planner.destroy(),
        Goal::Templates => planner.templates(),
        Goal::PruneTemplates => {
            planner.prune_templates();
            planner.forgotten_seeds();
        }
        Goal::Hosts => {
            planner.hosts();
            let held = planner.keep_workers_up(true);
            planner.plan.later.extend(held);
        }
    }
    planner.tell_of_unseen_vms();
    planner.refuse_what_is_not_permitted();
    planner.refuse_without_quorum();
    planner.refuse_unasked_pods();
    planner.drop_refused();
    planner.unfinished_first();
    planner.one_control_plane_at_a_time();
    planner.plan
}

/// What a node gets where nothing decides otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// None: its range is used up.
    pub vmid: Option<VmId>,
    /// None: its pool has no free address.
    pub address: Option<FamilyPair<IpAddr>>,
}

/// Ids and addresses as an empty Proxmox would give them.
pub fn given_by_an_empty_proxmox(desired: &Desired) -> BTreeMap<NodeName, Given> {
    let nothing = Observed::default();
    let addresses = assign(desired, &nothing, &Identities::default());
    let mut ids = ids::Ids::new(desired, &nothing);
    let given = |node: &Node| Given {
        vmid: node.vm.id.or_else(|| ids.next()),
        address: addresses.get(&node.name).copied(),
    };
    let all: Vec<Given> = desired.nodes.iter().map(given).collect();
    desired.nodes.iter().map(|node| node.name.clone()).zip(all).collect()
}

/// The address of each node, as long as its pool has any: declared, read back from its VM, or the one it will get.
pub fn assigned_addresses(desired: &Desired, observed: &Observed) -> BTreeMap<NodeName, FamilyPair<IpAddr>> {
    assign(desired, observed, &identify(desired, observed))
}

struct Planner<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    request: &'a Request,
    nonce: &'a Nonce,
    uid: ClusterUid,
    identities: Identities,
    addresses: BTreeMap<NodeName, FamilyPair<IpAddr>>,
    ids: ids::Ids,
    places: place::Places,
    templates: templates::Templates,
    names: Names<'a>,
    unknown: unknown::Unknown<'a>,
    /// Nodes the plan has a refusal for.
    refused: BTreeSet<NodeName>,
    /// Where the steps are that belong to no node.
    shared: Vec<usize>,
    /// Nodes that would go down with pods on them that nobody could ask to leave.
    unasked: BTreeSet<NodeName>,
    /// Members of etcd that are none any more once the plan is carried out.
    left_etcd: BTreeSet<NodeName>,
    /// Nodes that stand on a template that is not the described one any more, and its name.
    outdated: BTreeMap<NodeName, String>,
    /// Nodes that are built anew and join again, with the last step for it.
    anew: BTreeMap<NodeName, StepId>,
    /// Control planes whose data of etcd is given up for a snapshot.
    given_up: BTreeSet<NodeName>,
    /// VMs that hold disks of a node whose own VM is built anew.
    shelves: BTreeMap<NodeName, shelf::Shelf>,
    /// Restarts of VMs that the upgrade of their Talos does on the way, and what has to be written before.
    carried: BTreeMap<NodeName, (CarriedRestart, Vec<StepId>)>,
    /// Privileges to see with that are missing.
    sight: OnceCell<Vec<(&'static str, String, String)>>,
    /// Nodes for which nothing is made because something may be there that cannot be seen; none: what belongs to no node.
    blind: BTreeSet<Option<NodeName>>,
    /// What steps use that were planned and put off: their word, node and privileges.
    put_off_uses: Vec<(String, Option<NodeName>, BTreeSet<Use>)>,
    plan: Plan,
}

impl<'a> Planner<'a> {
    fn new(desired: &'a Desired, observed: &'a Observed, request: &'a Request, nonce: &'a Nonce) -> Self {
        let identities = identify(desired, observed);
        let plan = Plan {
            cluster: desired.name.clone(),
            uid: desired.uid.clone(),
            steps: Vec::new(),
            later: Vec::new(),
            waiting: Vec::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
        };
        Self {
            uid: desired.uid.clone().unwrap_or_else(|| nonce.stand_in()),
            addresses: assign(desired, observed, &identities),
            ids: ids::Ids::new(desired, observed),
            places: place::Places::new(desired, observed, &identities),
            templates: templates::Templates::new(desired, observed),
            names: by_name(desired),
            unknown: unknown::Unknown::new(desired, observed, &identities),
            refused: BTreeSet::new(),
            shared: Vec::new(),
            unasked: BTreeSet::new(),
            left_etcd: BTreeSet::new(),
            outdated: if request.goal == Goal::Converge {
                outdated(desired, observed)
            } else {
                BTreeMap::new()
            },
            anew: BTreeMap::new(),
            given_up: BTreeSet::new(),
            shelves: shelf::find(observed, &identities),
            carried: BTreeMap::new(),
            sight: OnceCell::new(),
            blind: BTreeSet::new(),
            put_off_uses: Vec::new(),
            desired,
            observed,
            request,
            nonce,
            identities,
            plan,
        }
    }

    /// Declared nodes in the order they are dealt with: as described, but the leader of etcd after all other control planes, so that
    /// leadership changes hands once and not with every one of them.
    fn in_turn(&self) -> Vec<&'a Node> {
        let leads = |node: &Node| {
            let seen = self.observed.talos.get(&node.name).and_then(SeenMachine::configured);
            seen.is_some_and(|seen| matches!(seen.etcd, Some(SeenEtcd::Member { leads: true, .. })))
        };
        let mut nodes: Vec<&'a Node> = self.desired.nodes.iter().collect();
        let leader = nodes.iter().position(|node| leads(node));
        let last = nodes.iter().rposition(|node| node.role == Role::Controller);
        if let (Some(leader), Some(last)) = (leader, last)
            && leader < last
        {
            nodes[leader..=last].rotate_left(1);
        }
        nodes
    }

    /// Plans one declared node.
    fn node(&mut self, node: &Node) {
        if self.refused.contains(&node.name) || !self.shelf_is_at_hand(&node.name) {
            return;
        }
        let owned: Vec<_> = self.identities.of_node(&node.name).cloned().collect();
        match owned.as_slice() {
            [] => self.missing(node),
            [_, ..] if self.has_another_role(node) => {}
            // One of this very run is the replacement already.
            [one] if self.is_replaced(&node.name) && one.mark.incarnation != self.nonce.as_str() => {
                self.replace(node, one);
            }
            [one] => self.existing(node, one),
            [_, _, ..] => self.refuse_doubles(&node.name, &owned),
        }
    }

    /// Nothing is done to a node with two VMs before a person has removed one. Which, is said only where it is known.
    fn refuse_doubles(&mut self, name: &NodeName, owned: &[Owned]) {
        let observed = self.observed;
        let stays = who_stays(&self.identities, observed, name, self.nonce).cloned();
        let others: Vec<&Owned> = owned.iter().filter(|one| stays.as_ref() != Some(*one)).collect();
        let listed =
            |between: &str| others.iter().map(|one| called(observed, one)).collect::<Vec<_>>().join(between);
        let Some(stays) = &stays else {
            let problem = format!(
                "there are two VMs of this node, and which of them it is cannot be told: {}",
                listed(" and ")
            );
            let choices = vec![
                "the uuid in smbios1 of one of them is that of the machine that answers: talosctl get systeminformation"
                    .to_owned(),
                "remove the other in Proxmox".to_owned(),
            ];
            return self.refuse(Some(name), problem, choices);
        };
        let problem = format!(
            "there are two VMs of this node: {} stays, {} should not be",
            called(observed, stays),
            listed(", ")
        );
        let ids = others.iter().map(|one| one.mark.vmid.to_string()).collect::<Vec<_>>().join(", ");
        let choices = vec![format!("look at {ids} in Proxmox, and remove it there if it is not needed")];
        self.refuse(Some(name), problem, choices);
    }

    /// Whether a node is to be built anew: by name, because its template is another one now, or for a snapshot.
    fn is_replaced(&self, node: &NodeName) -> bool {
        let rolled = self.request.roll_templates && self.outdated.contains_key(node);
        self.request.replace.contains(node) || rolled || self.given_up.contains(node)
    }

    /// Says once which nodes stand on templates of the past. Whose Talos is, or becomes, what is described has nothing to gain from
    /// another.
    fn outdated_templates(&mut self) {
        let upgrades = |node: &NodeName| {
            let mut steps = self.plan.steps.iter().map(|step| (&step.node, step.step.word()));
            let mut later = self.plan.later.iter().map(|intent| (&intent.node, intent.step.as_str()));
            let is =
                |(of, word): (&Option<NodeName>, &str)| of.as_ref() == Some(node) && word == "upgrade-node";
            steps.any(is) || later.any(is)
        };
        let left = self.outdated.iter().filter(|(node, _)| {
            self.request.covers(node)
                && !self.is_replaced(node)
                && !self.runs_what_is_described(node)
                && !upgrades(node)
        });
        let mut by_template: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (node, template) in left {
            by_template.entry(template.clone()).or_default().push(node.to_string());
        }
        for (template, nodes) in by_template {
            let nodes = nodes.join(", ");
            let text = format!(
                "made from {template}, which is not described any more: {nodes} (--roll template builds them anew)"
            );
            self.note(None, NoteKind::Placement, text);
        }
    }

    fn mark(&self, node: &NodeName, vmid: VmId) -> Mark {
        let (uid, cluster) = (self.uid.clone(), self.desired.name.clone());
        Mark::new(uid, cluster, node.clone(), vmid, self.nonce.as_str())
    }

    fn refuse(&mut self, node: Option<&NodeName>, problem: String, choices: Vec<String>) {
        self.refused.extend(node.cloned());
        self.plan.refusals.push(Refusal { node: node.cloned(), problem, choices });
    }

    /// Nothing is done to a node that is refused, also where that turned out when some of it was planned already; nor what waits for
    /// that.
    fn drop_refused(&mut self) {
        let mut dropped: BTreeSet<StepId> = BTreeSet::new();
        loop {
            let goes = |planned: &Planned| {
                let is_refused = planned.node.as_ref().is_some_and(|node| self.refused.contains(node));
                is_refused || planned.needs.iter().any(|need| dropped.contains(need))
            };
            let going: BTreeSet<StepId> = self
                .plan
                .steps
                .iter()
                .filter(|planned| goes(planned))
                .map(|planned| planned.id.clone())
                .collect();
            if going.is_empty() {
                break;
            }
            self.plan.steps.retain(|planned| !going.contains(&planned.id));
            dropped.extend(going);
        }
        let refused = &self.refused;
        self.plan.later.retain(|intent| intent.node.as_ref().is_none_or(|node| !refused.contains(node)));
    }

    fn note(&mut self, node: Option<&NodeName>, kind: NoteKind, text: String) {
        self.plan.notes.push(Note { node: node.cloned(), kind, text });
    }

    fn push(&mut self, draft: Draft<'_>) -> StepId {
        let Draft { node, part, step, needs, reason, effect, changes, destroys } = draft;
        let kind = part.map_or_else(|| step.word().to_owned(), |part| format!("{}-{part}", step.word()));
        let id = StepId::new(node, &kind);
        if node.is_none() {
            self.shared.push(self.plan.steps.len());
        }
        self.plan.steps.push(Planned {
            id: id.clone(),
            needs,
            node: node.cloned(),
            step,
            reason: reason.to_owned(),
            effect,
            changes,
            destroys,
        });
        id
    }

    /// Lists every step after those it needs, and else leaves them where they are.
    fn list_in_order(&mut self) {
        let mut left = std::mem::take(&mut self.plan.steps);
        let mut listed: BTreeSet<StepId> = BTreeSet::new();
        while !left.is_empty() {
            let before = left.len();
            let mut waiting = Vec::new();
            for step in left {
                if step.needs.iter().all(|need| listed.contains(need)) {
                    listed.insert(step.id.clone());
                    self.plan.steps.push(step);
                } else {
                    waiting.push(step);
                }
            }
            if waiting.len() == before {
                // Nobody can put these in order; whoever checks the plan says so.
                self.plan.steps.append(&mut waiting);
            }
            left = waiting;
        }
        let shared = self.plan.steps.iter().enumerate().filter(|(_, step)| step.node.is_none());
        self.shared = shared.map(|(index, _)| index).collect();
    }

    /// Steps so far that belong to no node: few, however many nodes there are.
    fn shared_steps(&self) -> impl Iterator<Item = &Planned> {
        self.shared.iter().filter_map(|index| self.plan.steps.get(*index))
    }

    /// Makes the pool if a step of this plan needs it and it is not there; gives what such a step has to wait for.
    fn ensure_pool(&mut self) -> Vec<StepId> {
        let Some(pool) = self.desired.proxmox.pool.clone() else { return Vec::new() };
        if self.observed.pool.is_some() {
            return Vec::new();
        }
        let made = StepId::new(None, "create-pool");
        if !self.shared_steps().any(|planned| planned.id == made) {
            let comment = pool_comment(&self.uid, self.desired);
            let step = Step::CreatePool { pool, comment };
            self.push(Draft::new(None, step, "the cluster's VMs live in it", Effect::Create));
        }
        vec![made]
    }

    /// Whatever takes a control plane down waits until the one before it is up again. A whole cluster that goes needs
    /// no quorum.
    fn one_control_plane_at_a_time(&mut self) {
        if self.request.goal == Goal::Destroy && self.request.targets.is_empty() {
            return;
        }
        let is_worker =
            |name: &NodeName| self.names.get(name.as_str()).is_some_and(|node| node.role == Role::Worker);
        let interrupts = |planned: &Planned| planned.effect.interrupts();
        let going_down = self.plan.steps.iter().filter(|step| interrupts(step));
        let going_down: BTreeSet<NodeName> =
            going_down.filter_map(|step| step.node.clone()).filter(|node| !is_worker(node)).collect();
        let steps = self.plan.steps.iter().enumerate();
        let last: BTreeMap<NodeName, usize> =
            steps.filter_map(|(index, step)| Some((step.node.clone()?, index))).collect();
        let mut before: Option<(NodeName, StepId)> = None;
        for (index, planned) in self.plan.steps.iter_mut().enumerate() {
            let Some(node) = planned.node.clone().filter(|node| going_down.contains(node)) else { continue };
            if let Some((other, last)) = &before
                && *other != node
                && interrupts(planned)
                && !planned.needs.contains(last)
            {
                planned.needs.push(last.clone());
            }
            if last.get(&node) == Some(&index) {
                before = Some((node, planned.id.clone()));
            }
        }
    }
}

/// A step on its way into the plan.
struct Draft<'a> {
    node: Option<&'a NodeName>,
    part: Option<String>,
    step: Step,
    needs: Vec<StepId>,
    reason: &'a str,
    effect: Effect,
    changes: Vec<Change>,
    destroys: Vec<Volume>,
}

impl<'a> Draft<'a> {
    fn new(node: Option<&'a NodeName>, step: Step, reason: &'a str, effect: Effect) -> Self {
        let (needs, changes, destroys) = (Vec::new(), Vec::new(), Vec::new());
        Self { node, part: None, step, needs, reason, effect, changes, destroys }
    }

    fn after(self, needs: Vec<StepId>) -> Self {
        Self { needs, ..self }
    }
}

/// Whether a lock is held while a VM is made.
fn is_being_made(lock: &str) -> bool {
    matches!(lock, "create" | "clone" | "import")
}

/// Whether a lock is held while a VM is removed.
fn is_being_removed(lock: &str) -> bool {
    lock == "destroyed"
}

/// What the comment of a pool of ours says.
pub(crate) fn pool_comment(uid: &ClusterUid, desired: &Desired) -> String {
    format!("talmox:v1 uid={uid} cluster={}", desired.name)
}

/// Whether a pool's comment says that it is this cluster's.
pub(crate) fn is_our_pool(comment: &str, uid: &ClusterUid) -> bool {
    comment.starts_with(&format!("talmox:v1 uid={uid} "))
}
