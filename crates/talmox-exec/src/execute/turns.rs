//! Whose turn it is to be down.
//!
//! One control plane at a time, and one worker. A node keeps its turn from the first step that takes it down to the last
//! step the plan has for it, so that the next one goes only when it is back. If it does not come back, nobody follows.

use std::collections::BTreeSet;

use talmox_plan::Planned;
use talmox_types::NodeName;
use talmox_types::desired::Role;
use talmox_types::sabotage::{Defect, sabotaged};

use crate::run::Run;

pub(super) struct Turns {
    controllers: BTreeSet<NodeName>,
    workers: BTreeSet<NodeName>,
    /// Whether everybody goes at once, because the whole cluster goes.
    all_at_once: bool,
    control_plane: Turn,
    worker: Turn,
    /// Nodes the gate has let through.
    asked: BTreeSet<NodeName>,
}

#[derive(Default)]
struct Turn {
    holder: Option<NodeName>,
    /// A node that was taken down and failed on the way back: it keeps the others up.
    sick: bool,
}

impl Turns {
    pub(super) fn new(run: &Run<'_>) -> Self {
        let with = |role| {
            let nodes = run.desired.nodes.iter().filter(move |node| node.role == role);
            nodes.map(|node| node.name.clone()).collect()
        };
        Self {
            controllers: with(Role::Controller),
            workers: with(Role::Worker),
            all_at_once: run.destroys_all(),
            control_plane: Turn::default(),
            worker: Turn::default(),
            asked: BTreeSet::new(),
        }
    }

    /// A node nobody describes may have been a control plane.
    fn turn(&mut self, node: &NodeName) -> &mut Turn {
        let is_worker = self.workers.contains(node) && !self.controllers.contains(node);
        if is_worker { &mut self.worker } else { &mut self.control_plane }
    }

    pub(super) fn may_go_down(&mut self, step: &Planned) -> bool {
        let Some(node) = &step.node else { return true };
        self.all_at_once
            || sabotaged(Defect::TurnsIgnored)
            || self.turn(node).holder.as_ref().is_none_or(|holder| holder == node)
    }

    pub(super) fn take(&mut self, step: &Planned) {
        if let Some(node) = step.node.as_ref().filter(|_| !self.all_at_once) {
            self.turn(node).holder = Some(node.clone());
        }
    }

    /// Whether the gate has to be asked: once for a node, and not if the whole cluster goes.
    pub(super) fn asks_gate(&mut self, step: &Planned) -> bool {
        let Some(node) = &step.node else { return false };
        !self.all_at_once && !sabotaged(Defect::GateNotAsked) && self.asked.insert(node.clone())
    }

    /// A step of the node ended; `last` if the plan has nothing more for it.
    pub(super) fn ended(&mut self, node: &NodeName, failed: bool, last: bool) {
        let turn = self.turn(node);
        if turn.holder.as_ref() != Some(node) {
            return;
        }
        turn.sick |= failed;
        if last && !turn.sick {
            turn.holder = None;
        }
    }

    /// Takes turns away from healthy nodes that wait for others; false if there are none.
    pub(super) fn pass_on(&mut self) -> bool {
        let turns = [&mut self.control_plane, &mut self.worker];
        let mut passed = false;
        for turn in turns.into_iter().filter(|turn| !turn.sick) {
            passed |= turn.holder.take().is_some();
        }
        passed
    }

    /// The node whose failure keeps this one up.
    pub(super) fn kept_up_by(&mut self, node: &NodeName) -> Option<NodeName> {
        let turn = self.turn(node);
        turn.holder.clone().filter(|holder| turn.sick && holder != node)
    }
}
