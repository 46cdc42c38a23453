//! What the credentials may not see or do is refused before the first step.
//!
//! A list from Proxmox lacks what the credentials may not see, without a word. So what is not in a list is missing only
//! if the credentials would see it; otherwise it is unknown, and nothing is made in its place.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::{NodeName, VmId};

use super::Planner;
use crate::privileges::{Need, Surroundings, Use, Weight, grant_lines, needs, uses, uses_later};
use crate::{Goal, NoteKind, Step};

/// Privileges without which a list is shorter than what is there.
const SIGHT: [&str; 4] = ["VM.Audit", "Pool.Audit", "Datastore.Audit", "Mapping.Use"];
const SEE_VMS: &str = "to see which VMs, ids and addresses are taken";
/// What [`Planner::follow_later`] announces for a VM that may have to be made.
const MAKING: [&str; 2] = ["clone", "create"];

/// A privilege that is missing, who needs it and for what.
#[derive(Default)]
struct Lack {
    why: String,
    nodes: BTreeSet<NodeName>,
    /// `start`, `configure`.
    words: BTreeSet<String>,
}

/// Missing privileges by themselves and their path.
type Lacks = BTreeMap<(&'static str, String), Lack>;

impl Planner<'_> {
    /// Whether something may be there that the credentials cannot see. Nothing is made then: it may exist already.
    pub(super) fn is_blind(&mut self, node: Option<&NodeName>) -> bool {
        if self.sight().is_empty() {
            return false;
        }
        self.refused.extend(node.cloned());
        self.blind.insert(node.cloned());
        true
    }

    /// Privileges to see with that are missing, each with its path and what it is for.
    fn sight(&self) -> &[(&'static str, String, String)] {
        self.sight.get_or_init(|| {
            let rights = &self.observed.rights;
            let needed = self.needs().into_iter();
            let needed = needed.filter(|need| need.weight == Weight::Must && SIGHT.contains(&need.privilege));
            let lacking = needed.filter(|need| !rights.suffices(&need.path, need.privilege));
            let mut lacks: Vec<(&'static str, String, String)> =
                lacking.map(|need| (need.privilege, need.path, need.why.to_owned())).collect();
            for path in rights.unseen_vms() {
                if !lacks.iter().any(|(privilege, at, _)| *privilege == "VM.Audit" && *at == path) {
                    lacks.push(("VM.Audit", path, SEE_VMS.to_owned()));
                }
            }
            lacks
        })
    }

    fn needs(&self) -> Vec<Need> {
        let hosts = self.observed.hosts.keys().cloned().collect();
        needs(self.desired, &Surroundings::of(self.observed, &hosts))
    }

    /// Refuses what the credentials do not allow: once for each missing privilege, with everything that needs it.
    pub(super) fn refuse_what_is_not_permitted(&mut self) {
        let mut lacks = Lacks::new();
        if !self.blind.is_empty() {
            for (privilege, path, why) in self.sight().to_vec() {
                let lack = lacks.entry((privilege, path)).or_default();
                lack.why = why;
                lack.nodes.extend(self.blind.iter().flatten().cloned());
                lack.words.insert("create".to_owned());
            }
        }
        for (word, node, missing) in self.not_held() {
            let path = missing.path(self.desired);
            let [privilege, ..] = missing.privileges else { continue };
            let lack = lacks.entry((privilege, path)).or_default();
            lack.nodes.extend(node);
            lack.words.insert(word);
        }
        let made_later = self.made_later();
        let needs = if lacks.is_empty() && made_later.is_empty() { Vec::new() } else { self.needs() };
        if !made_later.is_empty() {
            for need in needs.iter().filter(|need| need.weight == Weight::Must) {
                let mut paths = std::iter::once(&need.path).chain(&need.instead);
                if !paths.any(|path| self.observed.rights.suffices(path, need.privilege)) {
                    let lack = lacks.entry((need.privilege, need.path.clone())).or_default();
                    lack.nodes.extend(made_later.iter().cloned());
                    lack.words.insert("create".to_owned());
                }
            }
        }
        for ((privilege, path), lack) in lacks {
            let why = needs.iter().find(|need| need.privilege == privilege && need.path == path);
            let why = why.map_or(lack.why, |need| need.why.to_owned());
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            let words: Vec<String> = lack.words.into_iter().collect();
            let of = if lack.nodes.is_empty() { String::new() } else { format!(" of {}", few(&lack.nodes)) };
            let problem = format!("{privilege} is missing on {path}{why} ({}{of})", words.join(", "));
            let lines = grant_lines(self.desired, &needs, privilege, &path, &self.observed.rights.login);
            let choices = vec![
                format!("on a Proxmox host: {lines}"),
                "talmox check names everything that is missing, talmox check --setup prints all lines"
                    .to_owned(),
            ];
            self.refused.extend(lack.nodes);
            self.refuse(None, problem, choices);
        }
    }

    /// Everything that steps and announced steps use and the credentials do not have: a step's word, its node, and the use.
    fn not_held(&self) -> Vec<(String, Option<NodeName>, Use)> {
        let (desired, observed) = (self.desired, self.observed);
        let mut found = Vec::new();
        for planned in &self.plan.steps {
            // Proxmox puts a VM into its pool last: one that another run makes just now will be there without our help.
            if matches!(&planned.step, Step::JoinPool { vm, .. } if self.is_being_made(vm.vmid())) {
                continue;
            }
            let used = uses(&planned.step, desired, observed).into_iter();
            let lacking = used.filter(|one| !one.is_held(observed));
            found.extend(lacking.map(|one| (planned.step.word().to_owned(), planned.node.clone(), one)));
        }
        for (word, node, used) in &self.put_off_uses {
            let lacking = used.iter().filter(|one| !one.is_held(observed));
            found.extend(lacking.map(|one| (word.clone(), node.clone(), one.clone())));
        }
        for intent in &self.plan.later {
            let vmid =
                intent.node.as_ref().map_or(desired.proxmox.vmid_range.start, |node| self.vmid_of(node));
            let used = uses_later(intent, vmid, desired, observed).into_iter();
            let lacking = used.filter(|one| !one.is_held(observed));
            found.extend(lacking.map(|one| (intent.step.clone(), intent.node.clone(), one)));
        }
        found
    }

    fn is_being_made(&self, vmid: VmId) -> bool {
        self.identities.ours().any(|owned| owned.mark.vmid == vmid && !owned.finished)
    }

    /// The VM of a node, or an id it may get.
    fn vmid_of(&self, node: &NodeName) -> VmId {
        let owned = self.identities.of_node(node).next().map(|owned| owned.mark.vmid);
        let declared = || self.names.get(node.as_str()).and_then(|node| node.vm.id);
        owned.or_else(declared).unwrap_or(self.desired.proxmox.vmid_range.start)
    }

    /// Says that VMs of the cluster may be out of sight, where nothing is refused for it. A run that removes the cluster
    /// without seeing any of it would leave all of it and say that nothing is left.
    pub(super) fn tell_of_unseen_vms(&mut self) {
        let unseen = self.observed.rights.unseen_vms();
        if unseen.is_empty() || !self.blind.is_empty() {
            return;
        }
        let everything = unseen.iter().any(|path| path == "/vms");
        let pool = self.desired.proxmox.pool.as_ref();
        let pool_is_seen =
            pool.is_some_and(|pool| self.observed.rights.holds(&format!("/pool/{pool}"), "VM.Audit"));
        if everything && !pool_is_seen && self.request.goal == Goal::Destroy {
            self.blind.insert(None);
            return;
        }
        let where_ = match pool {
            Some(pool) if everything => format!("VMs outside of the pool {pool} cannot be seen"),
            _ if everything => "VMs cannot be seen".to_owned(),
            _ => format!("VMs {} cannot be seen", unseen.join(", ").replace("/vms/", "")),
        };
        let text =
            format!("{where_}: VM.Audit is missing on {}; nothing is created without it", unseen.join(", "));
        self.note(None, NoteKind::Warning, text);
    }

    /// Without a majority of its hosts a Proxmox cluster can be read and not written to.
    pub(super) fn refuse_without_quorum(&mut self) {
        if self.observed.quorate != Some(false) || self.plan.is_empty() {
            return;
        }
        self.plan.steps.clear();
        self.plan.later.clear();
        let down = self.observed.hosts.iter().filter(|(_, host)| !host.online);
        let down: Vec<String> = down.map(|(name, _)| name.to_string()).collect();
        let problem = format!(
            "the Proxmox cluster has no quorum, so it is read-only: {} of {} hosts do not answer ({})",
            down.len(),
            self.observed.hosts.len(),
            down.join(", ")
        );
        let choices = vec![
            "start hosts until a majority is there; pvecm status on a host shows who is missing".to_owned(),
            "if they are gone for good: pvecm expected 1 on a host that stays".to_owned(),
        ];
        self.refuse(None, problem, choices);
    }

    /// Nodes whose VM may have to be made, which the plan only announces.
    fn made_later(&self) -> BTreeSet<NodeName> {
        let making = self.plan.later.iter().filter(|intent| MAKING.contains(&intent.step.as_str()));
        making.filter_map(|intent| intent.node.clone()).collect()
    }
}

/// `cp-1, cp-2, cp-3 and 4 more`.
fn few(nodes: &BTreeSet<NodeName>) -> String {
    let first: Vec<&str> = nodes.iter().take(3).map(NodeName::as_str).collect();
    let more = nodes.len() - first.len();
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{rest}", first.join(", "))
}
