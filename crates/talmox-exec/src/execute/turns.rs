//! Whose turn it is to be down.
//!
//! One control plane at a time, and as many workers as may be away together: one, unless more were asked for. A node keeps its
//! turn from the first step that takes it down to the last step the plan has for it, so that the next one goes only when it is
//! back. If it does not come back, nobody follows. Workers that were away before anything began count as well: none other goes
//! where as many are away as may be.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use talmox_plan::{Effect, Planned};
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
    /// Nodes whoever watches was asked about.
    asked: BTreeSet<NodeName>,
}

struct Turn {
    /// How many may be down at a time.
    room: usize,
    holders: BTreeSet<NodeName>,
    /// Of those, nodes that were taken down and failed on the way back: they keep the others up.
    sick: BTreeSet<NodeName>,
    /// Nodes that were away before.
    away: BTreeSet<NodeName>,
}

impl Turn {
    fn of(room: usize) -> Self {
        Self { room, holders: BTreeSet::new(), sick: BTreeSet::new(), away: BTreeSet::new() }
    }

    /// Whether one more may be missed. Who is away is not missed more than before.
    fn has_room(&self, node: &NodeName) -> bool {
        self.holders.contains(node)
            || self.holders.len() < self.room
                && (self.away.contains(node) || self.holders.union(&self.away).count() < self.room)
    }
}

impl Turns {
    pub(super) fn new(run: &Run<'_>, away: BTreeSet<NodeName>) -> Self {
        let with = |role| {
            let nodes = run.desired.nodes.iter().filter(move |node| node.role == role);
            nodes.map(|node| node.name.clone()).collect()
        };
        Self {
            controllers: with(Role::Controller),
            workers: with(Role::Worker),
            all_at_once: run.destroys_all(),
            control_plane: Turn::of(1),
            worker: Turn {
                away,
                ..Turn::of(run.request.upkeep.max_unavailable.map_or(1, NonZeroUsize::get))
            },
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
        if self.all_at_once || sabotaged(Defect::TurnsIgnored) {
            return true;
        }
        let turn = self.turn(node);
        // One that moves goes on running.
        let moves = step.effect == Effect::Move && turn.holders.len() < turn.room;
        moves || turn.has_room(node)
    }

    pub(super) fn take(&mut self, step: &Planned) {
        if let Some(node) = step.node.as_ref().filter(|_| !self.all_at_once) {
            self.turn(node).holders.insert(node.clone());
        }
    }

    /// Whether the gate has to be passed: always, but not if the whole cluster goes.
    pub(super) fn has_gate(&self) -> bool {
        !self.all_at_once && !sabotaged(Defect::GateNotAsked)
    }

    /// Whether whoever watches has to be asked as well: once for a node.
    pub(super) fn asks(&mut self, step: &Planned) -> bool {
        step.node.as_ref().is_some_and(|node| self.asked.insert(node.clone()))
    }

    /// A step of the node ended; `last` if the plan has nothing more for it.
    pub(super) fn ended(&mut self, node: &NodeName, failed: bool, last: bool) {
        let turn = self.turn(node);
        if !turn.holders.contains(node) {
            return;
        }
        if failed {
            turn.sick.insert(node.clone());
        }
        if last && !turn.sick.contains(node) {
            turn.holders.remove(node);
        }
    }

    /// Takes turns away from healthy nodes that wait for others; false if there are none.
    pub(super) fn pass_on(&mut self) -> bool {
        let turns = [&mut self.control_plane, &mut self.worker];
        let mut passed = false;
        for turn in turns.into_iter().filter(|turn| turn.sick.is_empty()) {
            passed |= !turn.holders.is_empty();
            turn.holders.clear();
        }
        passed
    }

    /// The node that keeps this one up: it failed on the way back, or is away for whatever reason.
    pub(super) fn kept_up_by(&mut self, step: &Planned) -> Option<NodeName> {
        let node = step.node.as_ref()?;
        let moves = step.effect == Effect::Move;
        let turn = self.turn(node);
        if turn.holders.contains(node) {
            return None;
        }
        let sick = turn.sick.iter().find(|sick| *sick != node);
        let too_many = !moves && !turn.away.contains(node) && turn.away.len() >= turn.room;
        sick.or_else(|| turn.away.first().filter(|_| too_many)).cloned()
    }

    /// Other workers that are down by this run, and how many may be away at a time.
    pub(super) fn workers_beside(&self, step: &Planned) -> (BTreeSet<NodeName>, usize) {
        let others = self.worker.holders.iter().filter(|holder| step.node.as_ref() != Some(*holder));
        (others.cloned().collect(), self.worker.room)
    }
}
