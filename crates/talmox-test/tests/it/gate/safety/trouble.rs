//! What goes wrong during a change.

use talmox_sim_talos::Trouble as Sick;
use talmox_talos::Code;
use talmox_test::{Fault, Lab, When};
use talmox_types::NodeName;

use super::wish::{Ask, Wish};
use crate::chance::Chance;

#[derive(Debug)]
pub(super) enum Trouble {
    None,
    /// The run dies at a call, and so may whoever comes next, each at a call of its own.
    Killed(Vec<(u64, bool)>),
    /// Calls fail.
    Faults(Vec<(u64, Fault)>),
    /// A node is switched off by others, before the run begins or so many seconds later, and on again after a while.
    NodeOff {
        node: NodeName,
        after: u64,
        seconds: u64,
    },
    /// Something is wrong with a machine, until somebody mends it.
    Sick(NodeName, Sick),
    /// Somebody else works on the cluster, who wants the same or something else; one of them may die, and calls fail.
    TwoActors {
        other: Option<Box<Ask>>,
        /// How many seconds later the other one begins.
        after: u64,
        call: Option<u64>,
        faults: Vec<(u64, Fault)>,
    },
}

impl Trouble {
    pub(super) fn draw(chance: &Chance, before: &Wish, ask: &Ask) -> Self {
        if ask.restarts_control_planes() && chance.percent(30) {
            // The others are about to go down one by one: just then one of them dies.
            return Self::NodeOff {
                node: before.some_controller(chance),
                after: chance.number(1, 300),
                seconds: chance.number(60, 900),
            };
        }
        if ask.upgrades() && chance.percent(40) {
            let version = ask.wish.talos_version().to_owned();
            let mut sick = vec![
                Sick::BootFails(version.clone()),
                Sick::BootFails(version.clone()),
                Sick::DiesInUpgrade,
                Sick::Sick(version.clone()),
                Sick::InstallerFails(1),
            ];
            // Where only extensions differ the image of before has the same version, and would not boot either: there would be
            // nothing to go back to.
            if before.talos_version() == version {
                sick.retain(|sick| matches!(sick, Sick::DiesInUpgrade | Sick::InstallerFails(_)));
            }
            return Self::Sick(before.some_node(chance), chance.pick(&sick));
        }
        match chance.number(0, 13) {
            0 => Self::None,
            1..=4 => {
                let count = chance.pick(&[1, 1, 2, 3]);
                Self::Killed((0..count).map(|_| (some_call(chance), chance.percent(50))).collect())
            }
            5 | 6 => Self::Faults(faults(chance)),
            7 | 8 => Self::NodeOff {
                node: before.some_node(chance),
                after: chance.pick(&[0, chance.number(1, 400)]),
                seconds: chance.number(5, 900),
            },
            _ => Self::TwoActors {
                // Who replaces authorities has everybody's description: a node another one adds meanwhile would be left behind.
                other: chance
                    .percent(70)
                    .then(|| Box::new(before.change(chance)))
                    .filter(|other| ask.rotate.is_empty() && other.rotate.is_empty()),
                after: chance.pick(&[0, chance.number(1, 120)]),
                call: chance.percent(50).then(|| some_call(chance)),
                faults: if chance.percent(30) { faults(chance) } else { Vec::new() },
            },
        }
    }

    /// While a cluster comes up for the first time: nobody takes what is not there yet.
    pub(super) fn draw_first(chance: &Chance) -> Self {
        match chance.number(0, 5) {
            0 | 1 => Self::None,
            2 => Self::Killed(vec![(some_call(chance), chance.percent(50))]),
            3 => Self::Faults(faults(chance)),
            _ => Self::TwoActors {
                other: None,
                after: chance.pick(&[0, chance.number(1, 60)]),
                call: chance.percent(50).then(|| some_call(chance)),
                faults: if chance.percent(30) { faults(chance) } else { Vec::new() },
            },
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Killed(_) => "killed",
            Self::Faults(_) => "calls fail",
            Self::NodeOff { after: 0, .. } => "a node is off",
            Self::NodeOff { .. } => "a node dies meanwhile",
            Self::Sick(_, Sick::BootFails(_)) => "an image that does not boot",
            Self::Sick(_, Sick::DiesInUpgrade) => "a node dies in its upgrade",
            Self::Sick(_, _) => "a node gets sick in its upgrade",
            Self::TwoActors { other: None, .. } => "two actors",
            Self::TwoActors { .. } => "two actors who want different things",
        }
    }

    /// Plans what goes wrong with calls.
    pub(super) fn plan(&self, lab: &Lab) {
        match self {
            Self::None | Self::Killed(_) | Self::NodeOff { .. } | Self::Sick(..) => {}
            Self::Faults(faults) => plan(lab, faults),
            Self::TwoActors { call, faults, .. } => {
                plan(lab, faults);
                if let Some(call) = call {
                    lab.plan(When::call(*call), Fault::KillClient { sent: true });
                }
            }
        }
    }
}

fn plan(lab: &Lab, faults: &[(u64, Fault)]) {
    for (call, fault) in faults {
        lab.plan(When::call(*call), fault.clone());
    }
}

/// Changes take a hundred calls or a few thousand.
fn some_call(chance: &Chance) -> u64 {
    chance.number(1, chance.pick(&[60, 400, 1000, 2500]))
}

fn faults(chance: &Chance) -> Vec<(u64, Fault)> {
    let faults = [
        Fault::Refused,
        Fault::ReplyLost,
        Fault::ReplyLost,
        Fault::Hang { reached: true },
        Fault::Hang { reached: false },
        Fault::status(Code::Unavailable, "not now"),
        Fault::reply(500, "got no worker upid"),
    ];
    let count = chance.small(1, 8);
    (0..count).map(|_| (some_call(chance), chance.pick(&faults))).collect()
}
