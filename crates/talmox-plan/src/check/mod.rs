//! The safety rules, stated once more.
//!
//! Whatever made a plan, it is not carried out unless it passes here. This shares nothing with the planner but the data:
//! it reads marks and volumes again from what was observed, so that one mistake would have to be made twice.

mod addresses;
mod authorities;
mod graph;
mod inside;
mod installer;
mod known;
mod ownership;
mod quorum;
mod requested;
mod retire;
mod rewound;
mod roles;
mod seeds;
mod shelf;
mod templates;
mod upkeep;
mod volumes;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use talmox_types::NodeName;
use talmox_types::desired::{Desired, Node};

use self::known::Known;
use crate::{Observed, Plan, Planned, Request, StepId};

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub rule: Rule,
    pub step: Option<StepId>,
    pub problem: String,
}

/// The rules, in the words of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Steps form a graph, listed so that each comes after those it needs, and each does what it says.
    WellFormed,
    /// Nothing that is not proven ours is changed, and nothing is made where something is.
    OursOnly,
    /// One node that is or may be a control plane goes down at a time.
    OneAtATime,
    /// A member of etcd that was rolled back is not started while others were not.
    PastStaysOff,
    /// Nothing starts with the address of a machine of ours that runs.
    AddressIsFree,
    /// Pods leave a node before it goes down, and are let back after.
    PodsFirst,
    /// The bootstrap happens once, on the first control plane, with the intent in its mark and no data anywhere.
    BootstrapOnce,
    /// What a cluster may not survive comes after a snapshot of etcd.
    SnapshotFirst,
    /// An authority takes another's place phase by phase, none before all machines have the one before.
    PhaseByPhase,
    /// An authority that somebody else replaced is not put back.
    AuthoritiesStay,
    /// Machines are spoken to that are, or will have to prove that they are, the VM.
    ProvenMachine,
    /// A node that was configured before gets no configuration in maintenance mode, unless a person approved it.
    ConfiguredOnce,
    /// A VM has one drive with configuration at most: Talos would read whichever it finds first.
    OneDrive,
    /// What destroys, replaces or detaches was asked for by name.
    AskedFor,
    /// Only volumes that may go with a VM go with it, and the plan names each.
    Volumes,
    /// No disk shrinks, and none is put where another hangs.
    DisksGrow,
    /// What is installed is what the description declares.
    Installer,
    /// No node gets a Talos that does not run its kubelet: it would not come back.
    RunsItsKubelet,
    /// No secret is in a plan.
    NoSecrets,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WellFormed => "steps form a graph",
            Self::OursOnly => "only what is proven ours is touched",
            Self::OneAtATime => "one control plane at a time",
            Self::PastStaysOff => "members that were rolled back are not started again",
            Self::AddressIsFree => "nothing starts with an address that is in use",
            Self::PodsFirst => "pods leave before their node goes down",
            Self::BootstrapOnce => "at most one bootstrap",
            Self::SnapshotFirst => "a snapshot before what is risky",
            Self::PhaseByPhase => "authorities are replaced phase by phase",
            Self::AuthoritiesStay => "authorities that others replaced are not put back",
            Self::ProvenMachine => "machines prove themselves",
            Self::ConfiguredOnce => "a node is configured in maintenance mode once",
            Self::OneDrive => "one configuration drive for each VM",
            Self::AskedFor => "what destroys must be asked for",
            Self::Volumes => "only named volumes go",
            Self::DisksGrow => "disks only grow",
            Self::Installer => "only the described Talos is installed",
            Self::RunsItsKubelet => "a node's Talos runs its kubelet",
            Self::NoSecrets => "no secrets in plans",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = self.step.as_ref().map(|step| format!("{step}: ")).unwrap_or_default();
        write!(f, "{step}{} ({})", self.problem, self.rule)
    }
}

/// Every rule the plan breaks. Only a plan without any may be carried out.
pub fn check(plan: &Plan, desired: &Desired, observed: &Observed, request: &Request) -> Vec<Violation> {
    let known = Known::new(plan, desired, observed);
    let mut court = Court { plan, desired, observed, request, known, violations: Vec::new() };
    graph::judge(&mut court);
    ownership::judge(&mut court);
    quorum::judge(&mut court);
    requested::judge(&mut court);
    volumes::judge(&mut court);
    templates::judge(&mut court);
    inside::judge(&mut court);
    upkeep::judge(&mut court);
    authorities::judge(&mut court);
    seeds::judge(&mut court);
    shelf::judge(&mut court);
    retire::judge(&mut court);
    rewound::judge(&mut court);
    roles::judge(&mut court);
    addresses::judge(&mut court);
    installer::judge(&mut court);
    court.violations
}

struct Court<'a> {
    plan: &'a Plan,
    desired: &'a Desired,
    observed: &'a Observed,
    request: &'a Request,
    known: Known<'a>,
    violations: Vec<Violation>,
}

impl<'a> Court<'a> {
    fn violate(&mut self, rule: Rule, step: &Planned, problem: impl Into<String>) {
        self.violations.push(Violation { rule, step: Some(step.id.clone()), problem: problem.into() });
    }

    fn steps(&self) -> &'a [Planned] {
        &self.plan.steps
    }

    /// Every step that is done before this one whatever happens.
    fn before(&self, step: &Planned) -> Vec<&'a Planned> {
        let mut found: BTreeMap<&StepId, &Planned> = BTreeMap::new();
        let mut open: Vec<&StepId> = step.needs.iter().collect();
        while let Some(id) = open.pop() {
            if let Some(needed) = self.known.steps.get(id)
                && found.insert(id, needed).is_none()
            {
                open.extend(&needed.needs);
            }
        }
        found.into_values().collect()
    }

    /// A node of the description.
    fn node(&self, name: &NodeName) -> Option<&'a Node> {
        self.known.nodes.get(name).copied()
    }

    /// The whole cluster goes: nothing of it needs to go on working.
    fn destroys_everything(&self) -> bool {
        self.request.goal == crate::Goal::Destroy && self.request.targets.is_empty()
    }
}
