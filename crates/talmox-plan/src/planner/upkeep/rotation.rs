//! Authorities that take the place of others.
//!
//! ```text
//!  Talos: all accept the new one ─▶ all sign with it ─▶ all drop the old one ─▶ the secrets have it ─▶ the same for Kubernetes
//! ```
//!
//! A plan has the phases that are still to come for whichever machine is least far. It has them only while every machine of the
//! description answers and nothing else is to be done: a machine that is left out could speak to nobody afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_types::desired::{Node, Role};
use talmox_types::{NodeName, Phase, Realm};

use super::Living;
use crate::planner::{Draft, Planner};
use crate::rotation::standing;
use crate::{Effect, NoteKind, SeenKubernetes, SeenMachine, Step, StepId, Upkeep};

const ROTATE: &str = "rotate-authority";
const SETTLE: &str = "settle-authority";
/// Follows why a machine is configured.
pub(in crate::planner) const UNKNOWN_PHASE: &str =
    ", once a control plane says how far the replacement of authorities is";

impl<'a> Planner<'a> {
    /// Goes on with what the secrets say is to be replaced.
    pub(super) fn rotation(&mut self, living: &[Living<'a>]) {
        let rotating: &'a [Realm] = &self.observed.rotating;
        let silent = self.desired.nodes.len().saturating_sub(living.len());
        for realm in rotating {
            let phases: Vec<Phase> = living.iter().map(|one| one.seen.phases.of(*realm)).collect();
            self.note(None, NoteKind::Inside, standing(*realm, &phases, silent));
        }
        if rotating.is_empty() {
            return;
        }
        if !self.request.targets.is_empty() {
            let text = "authorities are left as they are, since only some nodes are asked for".to_owned();
            return self.note(None, NoteKind::Inside, text);
        }
        if let Some(reason) = self.comes_first(living) {
            self.follow(None, ROTATE, Effect::ChangeLive, &reason);
            return self.follow(None, SETTLE, Effect::ChangeLive, &reason);
        }
        let silent = self.silent(living);
        if !silent.is_empty() {
            return self.refuse_without(&silent);
        }
        let others = self.undescribed();
        if !others.is_empty() {
            return self.refuse_beside(&others);
        }
        let mut last: Vec<StepId> = Vec::new();
        for realm in rotating {
            last = self.replace_authority(*realm, living, last);
        }
    }

    /// Whether a machine that joins would have to be told by others how far they are, and nobody says.
    pub(in crate::planner) fn phase_is_unknown(&self, joins: &Node) -> bool {
        let says = |node: &Node| {
            let machine = self.observed.talos.get(&node.name);
            node.role == Role::Controller && machine.is_some_and(|machine| machine.configured().is_some())
        };
        let others = self.desired.nodes.iter().filter(|node| node.name != joins.name);
        !self.observed.rotating.is_empty()
            && self.request.upkeep.restore.is_none()
            && self.identities.ours().any(|owned| owned.mark.bootstrap.is_some())
            && !others.into_iter().any(says)
    }

    /// What has to be done or there before; nothing if authorities can be replaced now.
    fn comes_first(&self, living: &[Living<'a>]) -> Option<String> {
        if !self.plan.steps.is_empty() {
            return Some("once all else is as described".to_owned());
        }
        if !matches!(self.observed.kubernetes, SeenKubernetes::Answers(_)) {
            return Some("once Kubernetes answers".to_owned());
        }
        let differs = |one: &&Living<'a>| one.seen.config.as_ref().is_none_or(|changes| !changes.is_empty());
        let differing = living.iter().find(differs)?;
        Some(format!("once the configuration of {} is as described", differing.node.name))
    }

    /// Machines of the description that do not answer, and why if that is known.
    fn silent(&self, living: &[Living<'a>]) -> Vec<(NodeName, String)> {
        let lives: BTreeSet<&NodeName> = living.iter().map(|one| &one.node.name).collect();
        let why = |node: &Node| match self.observed.talos.get(&node.name) {
            Some(SeenMachine::Unreachable { address, reason }) => format!("{address}: {reason}"),
            Some(SeenMachine::Foreign { why, .. }) => why.clone(),
            Some(SeenMachine::Maintenance { .. }) => "it has no configuration".to_owned(),
            Some(SeenMachine::Configured(_)) | None => "it does not run".to_owned(),
        };
        let silent = self.desired.nodes.iter().filter(|node| !lives.contains(&node.name));
        silent.map(|node| (node.name.clone(), why(node))).collect()
    }

    /// Nodes of the cluster that the description does not name, and so nobody gives the new authority to.
    fn undescribed(&self) -> Vec<String> {
        let listed = match &self.observed.kubernetes {
            SeenKubernetes::Answers(cluster) => cluster.nodes.keys().cloned().collect(),
            SeenKubernetes::NotAsked | SeenKubernetes::Unreachable { .. } => BTreeSet::new(),
        };
        let all: BTreeSet<String> =
            listed.into_iter().chain(self.members().iter().map(ToString::to_string)).collect();
        all.into_iter().filter(|name| !self.names.contains_key(name.as_str())).collect()
    }

    fn refuse_beside(&mut self, others: &[String]) {
        let (names, first) = (others.join(", "), &others[0]);
        let (is, it) = if others.len() == 1 { ("is", "it") } else { ("are", "they") };
        let problem = format!(
            "an authority is being replaced, and {names} {is} in the cluster and not in the description: once the old one is dropped \
             {it} could speak to nobody"
        );
        let choices = vec![
            format!("describe {names} first: talmox adopt"),
            format!("let go what is not needed: talmox apply --remove {first}"),
        ];
        self.refuse(None, problem, choices);
    }

    fn refuse_without(&mut self, silent: &[(NodeName, String)]) {
        let names: Vec<&str> = silent.iter().map(|(node, _)| node.as_str()).collect();
        let (names, count) = (names.join(", "), silent.len());
        let (do_not, it) = if count == 1 { ("does not answer", "it") } else { ("do not answer", "they") };
        let why: Vec<String> = silent.iter().map(|(node, why)| format!("{node} ({why})")).collect();
        let problem = format!(
            "an authority is being replaced, and {} {do_not}: once the old one is dropped {it} could speak to nobody",
            why.join(", ")
        );
        let choices = vec![
            format!("bring {names} back, then go on: what was done is not done again"),
            format!("build anew what is lost: talmox apply --replace {}", silent[0].0),
            format!(
                "take {names} out of the description and let it go: talmox apply --remove {}",
                silent[0].0
            ),
        ];
        self.refuse(None, problem, choices);
    }

    fn replace_authority(&mut self, realm: Realm, living: &[Living<'a>], needs: Vec<StepId>) -> Vec<StepId> {
        let of_role = |role: Role| {
            let nodes = living.iter().filter(|one| one.node.role == role);
            nodes.map(|one| (one.node.name.clone(), one.seen.address)).collect::<BTreeMap<NodeName, IpAddr>>()
        };
        let begun = living.iter().map(|one| one.seen.phases.of(realm)).min().unwrap_or_default();
        if realm == Realm::Kubernetes && begun != Phase::Alone {
            self.note(None, NoteKind::Warning, restarts(of_role(Role::Controller).len()));
        }
        let mut last = needs;
        for phase in begun.rest() {
            let (control_planes, workers) = (of_role(Role::Controller), of_role(Role::Worker));
            let step = Step::Upkeep(Upkeep::RotateAuthority { realm, phase, control_planes, workers });
            let draft = Draft::new(None, step, reason(phase), Effect::ChangeLive).after(last);
            let part = Some(format!("{}-{}", realm.word(), phase.word()));
            last = vec![self.push(Draft { part, ..draft })];
        }
        let (control_planes, workers) = (of_role(Role::Controller), of_role(Role::Worker));
        let step = Step::Upkeep(Upkeep::SettleAuthority { realm, control_planes, workers });
        let reason = "no machine knows the old one any more";
        let draft = Draft::new(None, step, reason, Effect::ChangeLive).after(last);
        vec![self.push(Draft { part: Some(realm.word().to_owned()), ..draft })]
    }
}

/// What every phase of Kubernetes' authority does to what runs: no machine restarts, and much on it does.
fn restarts(control_planes: usize) -> String {
    let what = "each phase of the authority of Kubernetes restarts kubelets and the pods of control planes";
    if control_planes == 1 {
        return format!("{what}: there is only one, and the API of Kubernetes is away meanwhile");
    }
    format!("{what}, one machine after the other")
}

/// Why a phase is there.
fn reason(phase: Phase) -> &'static str {
    match phase {
        Phase::Before => "nobody knows the new one",
        Phase::Accepted => "before anybody has a certificate of it",
        Phase::Issuing => "certificates of the old one are still about",
        Phase::Alone => "nobody has a certificate of the old one any more",
    }
}
