//! An etcd that will never have a majority again.
//!
//! ```text
//!  no member is well, those left have no leader, the others are gone for good:
//!     nothing asked for              refused, with the way out
//!     --restore FILE --quorum-lost   whoever has data is built anew, then etcd begins with FILE on the first of them
//!     --quorum-lost                  the same with a snapshot of the survivors, which whoever asks takes and keeps first
//! ```
//!
//! Old members that came back later with their data could be a majority once more, beside the new cluster. So nothing begins
//! before every control plane is new, or has said that it has no data; whoever may have some and does not tell is waited for, or given
//! up by name.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::desired::{Node, Role};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{BootstrapWord, NodeName};

use crate::planner::Planner;
use crate::{Owned, Power, SeenEtcd, SeenMachine, Waiting};

/// What is refused where a majority is lost, survivors are there, and no snapshot was named: theirs can be taken.
pub const BEGINS_WITH_NOTHING: &str = "--quorum-lost: nothing says what etcd is to begin with";

/// What control planes have of etcd.
#[derive(Default)]
struct Tally {
    /// A member with a leader, or one that may have one.
    led: BTreeSet<NodeName>,
    /// Members that run and have no leader.
    leaderless: BTreeSet<NodeName>,
    /// Whoever may have data and does not tell.
    silent: BTreeSet<NodeName>,
    /// Given up by name.
    given_up: BTreeSet<NodeName>,
}

enum Part {
    Led,
    Leaderless,
    Silent,
    None,
}

impl Planner<'_> {
    /// Looks whether etcd has lost its majority for good, and what is to be done about it. False: nothing else can be planned.
    pub(in crate::planner) fn quorum(&mut self) -> bool {
        if !self.request.looks_inside() {
            return true;
        }
        let tally = self.tally();
        if self.request.upkeep.quorum_lost {
            let done = tally.leaderless.is_empty() && self.restores_this_already();
            return done || self.give_up(tally);
        }
        let known = tally.leaderless.len() + tally.silent.len();
        let all = self.controllers().count();
        let is_lost = tally.led.is_empty() && !tally.leaderless.is_empty() && known * 2 <= all;
        if is_lost {
            self.refuse_lost_quorum(&tally);
        }
        !is_lost
    }

    fn controllers(&self) -> impl Iterator<Item = &Node> {
        self.desired.nodes.iter().filter(|node| node.role == Role::Controller)
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for node in self.controllers() {
            let (name, asked) = (node.name.clone(), self.request.replace.contains(&node.name));
            match self.part(node) {
                Part::Led => tally.led.insert(name),
                Part::Leaderless => tally.leaderless.insert(name),
                Part::Silent if asked => tally.given_up.insert(name),
                Part::Silent => tally.silent.insert(name),
                Part::None => false,
            };
        }
        tally
    }

    fn part(&self, node: &Node) -> Part {
        let Some(owned) = self.identities.of_node(&node.name).next() else {
            let lost = self.unknown.of_name(&node.name);
            let there = lost.iter().any(|guest| !self.request.hosts.gone.contains(&guest.host));
            return if there { Part::Silent } else { Part::None };
        };
        match self.observed.talos.get(&node.name) {
            Some(SeenMachine::Configured(seen)) => match &seen.etcd {
                Some(SeenEtcd::Member { healthy: false, leaderless: true, .. }) => Part::Leaderless,
                Some(SeenEtcd::Member { healthy: false, members: None, .. } | SeenEtcd::Unknown { .. })
                | None => Part::Silent,
                Some(SeenEtcd::Member { .. }) => Part::Led,
                Some(SeenEtcd::Empty) => Part::None,
            },
            // Its mark says that it was configured: another machine may answer in its place, unless a person says it is this one.
            Some(SeenMachine::Maintenance { .. })
                if owned.mark.configured && !self.request.reconfigure.contains_key(&node.name) =>
            {
                Part::Silent
            }
            Some(SeenMachine::Maintenance { .. }) => Part::None,
            Some(SeenMachine::Unreachable { .. } | SeenMachine::Foreign { .. }) | None => {
                if self.cannot_have_data(owned) { Part::None } else { Part::Silent }
            }
        }
    }

    /// One this run has made begins without data, and so does one that was never finished.
    fn cannot_have_data(&self, owned: &Owned) -> bool {
        let guest = self.observed.guests.get(&owned.mark.vmid);
        let never_ran = !owned.finished && guest.is_some_and(|guest| guest.power == Power::Stopped);
        never_ran || owned.mark.incarnation == self.nonce.as_str()
    }

    /// Whether the cluster began with this very snapshot: then an earlier run did all this.
    fn restores_this_already(&self) -> bool {
        let Some(snapshot) = &self.request.upkeep.restore else { return false };
        let digits = BootstrapWord::digits(&snapshot.digest);
        let mut words = self.identities.ours().filter_map(|owned| owned.mark.bootstrap.as_ref());
        words.any(|word| word.snapshot.as_deref() == Some(digits.as_str()))
    }

    fn refuse_lost_quorum(&mut self, tally: &Tally) {
        let left = listed(&tally.leaderless);
        let has = if tally.leaderless.len() == 1 { "has" } else { "have" };
        let problem = format!(
            "etcd has lost its majority: {left} {has} data and no leader, and too few others are left. Nothing can join, and \
             nothing can be written"
        );
        let mut choices = Vec::new();
        if !tally.silent.is_empty() {
            choices.push(format!(
                "bring {} back if its disks are there: nothing is lost then",
                listed(&tally.silent)
            ));
        }
        choices.push(
            "if they are gone for good, keep what is left and begin anew with it: talmox apply --quorum-lost"
                .to_owned(),
        );
        choices.push("the same with another snapshot: talmox apply --restore FILE --quorum-lost".to_owned());
        self.refuse(None, problem, choices);
    }

    /// Holds the word that was given against what can be seen, and notes who is built anew.
    fn give_up(&mut self, tally: Tally) -> bool {
        let problem = |text: String| format!("--quorum-lost: {text}");
        if !tally.led.is_empty() && !sabotaged(Defect::QuorumGivenUp) {
            let are = if tally.led.len() == 1 { "is a member" } else { "are members" };
            let text = format!("{} {are} of etcd with a leader: nothing is lost", listed(&tally.led));
            let choices = vec!["talmox apply, without it; talmox etcd status shows the members".to_owned()];
            self.refuse(None, problem(text), choices);
            return false;
        }
        if let Some(undeclared) = self.undeclared_vm() {
            let text = format!("{undeclared} is not in the description, and may have data of etcd");
            let choices =
                vec![format!("take it out of Proxmox first: qm stop and qm destroy of {undeclared}")];
            self.refuse(None, problem(text), choices);
            return false;
        }
        // Where nobody has data it is a matter of waiting for those that are new.
        if !tally.leaderless.is_empty() && !tally.silent.is_empty() {
            return self.wait_for_silent(&tally.silent);
        }
        if self.request.upkeep.restore.is_none() {
            // Whoever is silent now may be the one who knows most.
            if !tally.silent.is_empty() {
                return self.wait_for_silent(&tally.silent);
            }
            self.refuse_without_snapshot(&tally);
            return false;
        }
        self.given_up = tally.leaderless.into_iter().chain(tally.given_up).collect();
        true
    }

    /// Nothing was named to begin with. What survivors know will do, unless somebody who knew more may have been built anew since.
    fn refuse_without_snapshot(&mut self, tally: &Tally) {
        let has_vm = |node: &&Node| self.identities.of_node(&node.name).next().is_some();
        let is_new = |node: &&Node| has_vm(node) && matches!(self.part(node), Part::None);
        let new: BTreeSet<NodeName> =
            self.controllers().filter(is_new).map(|node| node.name.clone()).collect();
        if new.is_empty() && !tally.leaderless.is_empty() {
            let left = listed(&tally.leaderless);
            let choices = vec![
                format!(
                    "talmox apply --quorum-lost keeps what is known to {left} in the folder of etcd_backup, and begins with it"
                ),
                "with a file of your own: talmox etcd snapshot FILE, then --restore FILE --quorum-lost"
                    .to_owned(),
            ];
            return self.refuse(None, BEGINS_WITH_NOTHING.to_owned(), choices);
        }
        let text = if new.is_empty() {
            "no control plane has data of etcd, and nothing says what it is to begin with".to_owned()
        } else {
            let (names, has) = (listed(&new), if new.len() == 1 { "has" } else { "have" });
            format!(
                "{names} {has} no data of etcd any more, as after an earlier run of this: what that run kept is needed"
            )
        };
        let choices = vec![
            "name the snapshot: talmox apply --restore FILE --quorum-lost; the run said where it is, and the newest \
             in the folder of etcd_backup is it"
                .to_owned(),
        ];
        self.refuse(None, format!("--quorum-lost: {text}"), choices);
    }

    fn undeclared_vm(&self) -> Option<String> {
        let mut ours = self.identities.ours();
        let owned = ours.find(|owned| !self.names.contains_key(owned.mark.node.as_str()))?;
        Some(format!("VM {} ({}) on {}", owned.mark.vmid, owned.mark.node, owned.host))
    }

    /// Machines that run are given time; of others somebody has to say what becomes of them.
    fn wait_for_silent(&mut self, silent: &BTreeSet<NodeName>) -> bool {
        let mut off = BTreeSet::new();
        let vms: BTreeMap<NodeName, Owned> = silent
            .iter()
            .filter_map(|name| Some((name.clone(), self.identities.of_node(name).next()?.clone())))
            .collect();
        for name in silent {
            let seen = self.observed.talos.get(name);
            match (vms.get(name), seen) {
                (Some(owned), Some(SeenMachine::Unreachable { address, reason })) => {
                    self.plan.waiting.push(Waiting::Answer {
                        node: name.clone(),
                        vmid: owned.mark.vmid,
                        address: *address,
                        reason: format!("{reason}; if it is gone for good, --replace {name} as well"),
                    });
                }
                (Some(owned), Some(SeenMachine::Maintenance { address, .. })) => {
                    let reason = format!(
                        "a machine in maintenance mode is there, and the mark says that it was configured; if its disk is empty, \
                         --replace {name} as well"
                    );
                    let (node, vmid, address) = (name.clone(), owned.mark.vmid, *address);
                    self.plan.waiting.push(Waiting::Answer { node, vmid, address, reason });
                }
                _ => {
                    off.insert(name.clone());
                }
            }
        }
        if off.is_empty() {
            return false;
        }
        let names = listed(&off);
        let text = format!("{names} may have data of etcd, and does not say");
        let choices = vec![
            format!("bring {names} back: with enough members nothing is lost"),
            format!("if it is gone for good: --replace {} as well", names.replace(", ", ",")),
        ];
        self.refuse(None, format!("--quorum-lost: {text}"), choices);
        false
    }
}

fn listed(names: &BTreeSet<NodeName>) -> String {
    names.iter().map(NodeName::as_str).collect::<Vec<_>>().join(", ")
}
