//! An upgrade of several nodes, told as the one thing it is to people: from what to what, in which order, and what happens to
//! each of them.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::{Plan, Planned, Step, StepId, Upkeep, Waiting};
use talmox_types::NodeName;
use talmox_types::desired::Role;

use super::story::{Act, Story};
use super::text::{listed, plural, safe};
use crate::printer::DIM;

/// More nodes of a role than this are counted.
const NAMED: usize = 8;

/// Nodes that go the same way.
pub(super) struct Roll<'p> {
    from: &'p str,
    to: &'p str,
    reason: &'p str,
    stage: bool,
    /// In the order of the plan.
    nodes: Vec<&'p NodeName>,
    /// What of a node's VM takes effect with the same restart.
    carried: BTreeMap<&'p NodeName, &'p [String]>,
}

impl<'p> Roll<'p> {
    /// Those of at least two nodes; what happens to one alone is told in full.
    pub(super) fn all(story: &Story<'p>) -> Vec<Self> {
        let mut rolls: Vec<Self> = Vec::new();
        for planned in &story.plan.steps {
            let Step::Upkeep(Upkeep::UpgradeNode { from, to, stage, carries, .. }) = &planned.step else {
                continue;
            };
            let Some(node) = &planned.node else { continue };
            let same = |roll: &&mut Self| {
                (roll.from, roll.to, roll.reason, roll.stage)
                    == (from.as_str(), to.as_str(), planned.reason.as_str(), *stage)
            };
            match rolls.iter_mut().find(same) {
                Some(roll) => roll.nodes.push(node),
                None => {
                    let (reason, carried) = (&planned.reason, BTreeMap::new());
                    rolls.push(Self { from, to, reason, stage: *stage, nodes: vec![node], carried });
                }
            }
            if let (Some(carries), Some(roll)) =
                (carries, rolls.iter_mut().find(|roll| roll.nodes.contains(&node)))
            {
                roll.carried.insert(node, &carries.keys);
            }
        }
        rolls.retain(|roll| roll.nodes.len() > 1);
        rolls
    }

    /// Whether this says what a step does.
    pub(super) fn tells(&self, planned: &Planned) -> bool {
        let is_part = matches!(
            planned.step,
            Step::Upkeep(Upkeep::DrainNode { .. } | Upkeep::UpgradeNode { .. } | Upkeep::ReturnNode { .. })
        );
        is_part && planned.node.as_ref().is_some_and(|node| self.nodes.contains(&node))
    }

    /// How many nodes, as the name in its row.
    pub(super) fn name(&self) -> String {
        plural(self.nodes.len(), "node")
    }

    pub(super) fn lines(&self, story: &Story<'_>) -> Vec<String> {
        let (from, to) = (safe(self.from), safe(self.to));
        let what = if from == to { format!("{to}, another image") } else { format!("{from} → {to}") };
        let (planes, workers): (Vec<&NodeName>, Vec<&NodeName>) =
            self.nodes.iter().partition(|node| is_control_plane(story, node));
        let turns = match (planes.is_empty(), workers.is_empty()) {
            _ if self.stage => "installed now; the restart is left for later",
            (false, false) => "one control plane at a time, then workers",
            (false, true) => "one control plane at a time",
            (true, _) => "workers, a few at a time (--max-unavailable)",
        };
        let snapshot = story.plan.steps.iter().any(|planned| planned.step.word() == "snapshot-etcd");
        let mut order: Vec<String> = snapshot.then(|| "snapshot of etcd".to_owned()).into_iter().collect();
        let kubernetes = self.beside_kubernetes(story.plan);
        order.extend((kubernetes == Some(Turn::Before)).then(|| "Kubernetes".to_owned()));
        order.extend(self.told(&planes, "control plane"));
        order.extend(self.told(&workers, "worker"));
        order.extend((kubernetes == Some(Turn::After)).then(|| "Kubernetes".to_owned()));
        let each = if self.stage {
            "install, beside the Talos that runs"
        } else {
            "drain (5 min at most) · install · restart · well again, its version and schematic proven · pods back"
        };
        vec![
            format!("{what}   {turns}"),
            format!("{DIM}why: {}{DIM:#}", safe(self.reason)),
            format!("{DIM}order:{DIM:#} {}", order.join(" · ")),
            format!("{DIM}each:{DIM:#} {each}"),
        ]
    }

    /// Whether Kubernetes is upgraded in the same plan, and when: one of the two may not run with the other's new version.
    fn beside_kubernetes(&self, plan: &Plan) -> Option<Turn> {
        if plan.later.iter().any(|intent| intent.step == "upgrade-kubernetes") {
            return Some(Turn::After);
        }
        let upgrade = plan.steps.iter().find(|planned| planned.step.word() == "upgrade-kubernetes")?;
        let needs = transitive_needs(plan, upgrade);
        let own = plan.steps.iter().filter(|planned| self.tells(planned));
        let waits = own.into_iter().any(|planned| needs.contains(&planned.id));
        Some(if waits { Turn::After } else { Turn::Before })
    }

    /// Names, each with what else its restart is good for.
    fn told(&self, nodes: &[&NodeName], kind: &str) -> Vec<String> {
        if nodes.len() > NAMED {
            return vec![plural(nodes.len(), kind)];
        }
        let name = |node: &&NodeName| match self.carried.get(*node) {
            Some(keys) => format!("{node} (with {})", listed(keys)),
            None => node.to_string(),
        };
        nodes.iter().map(name).collect()
    }
}

/// When Kubernetes has its turn, beside a roll of Talos.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Before,
    After,
}

/// All that has to be done before a step.
fn transitive_needs<'p>(plan: &'p Plan, planned: &'p Planned) -> BTreeSet<&'p StepId> {
    let mut all: BTreeSet<&StepId> = BTreeSet::new();
    let mut open: Vec<&StepId> = planned.needs.iter().collect();
    while let Some(id) = open.pop() {
        if all.insert(id) {
            let before = plan.steps.iter().find(|one| one.id == *id);
            open.extend(before.into_iter().flat_map(|one| &one.needs));
        }
    }
    all
}

fn is_control_plane(story: &Story<'_>, name: &NodeName) -> bool {
    story.desired.nodes.iter().any(|node| node.name == *name && node.role == Role::Controller)
}

/// An act without what rolls say of it; none if nothing else is left.
pub(super) fn rest<'p>(act: &Act<'p>, rolls: &[Roll<'p>]) -> Option<Act<'p>> {
    let told = |planned: &Planned| rolls.iter().any(|roll| roll.tells(planned));
    let steps: Vec<&Planned> = act.steps.iter().copied().filter(|planned| !told(planned)).collect();
    let Act { sign, subject, at, .. } = *act;
    let is_untold = steps.len() == act.steps.len();
    (is_untold || !steps.is_empty()).then(|| Act { sign, subject, at, steps, later: act.later.clone() })
}

/// `etcd keeps 2 of 3 members at every step.`, where control planes go down and none comes or goes.
pub(super) fn quorum_kept(story: &Story<'_>) -> Option<String> {
    let planes = story.desired.nodes.iter().filter(|node| node.role == Role::Controller).count();
    let acts = story.acts.iter().filter(|act| act.node().is_some_and(|node| is_control_plane(story, node)));
    let (mut goes_down, mut stays) = (false, true);
    for act in acts {
        goes_down |= act.goes_down();
        stays &= act.stays();
    }
    // What is not described any more may have been a control plane.
    let described = |name: &NodeName| story.desired.nodes.iter().any(|node| node.name == *name);
    let leaves = story.acts.iter().any(|act| act.node().is_some_and(|name| !described(name)));
    let plane = |node: &NodeName| is_control_plane(story, node);
    // One that is off, or that nobody could ask, has no vote while the others go down.
    let starts = |planned: &Planned| matches!(planned.step, Step::StartVm { .. });
    let is_off =
        story.plan.steps.iter().any(|planned| starts(planned) && planned.node.as_ref().is_some_and(plane));
    let is_silent = story.plan.waiting.iter().any(|waiting| match waiting {
        Waiting::Answer { node, .. } | Waiting::Locked { node, .. } => plane(node),
        Waiting::HostDown { nodes, .. } => nodes.iter().any(plane),
        Waiting::Bootstrap { .. } => true,
        Waiting::InFlight { .. }
        | Waiting::Reboot { .. }
        | Waiting::Trial { .. }
        | Waiting::Workers { .. } => false,
    });
    (planes > 2 && goes_down && stays && !leaves && !is_off && !is_silent)
        .then(|| format!(" etcd keeps {} of {planes} members at every step.", planes - 1))
}
