//! Talos of another version, or with other extensions.
//!
//! ```text
//!  control planes, one at a time, the leader of etcd last ─▶ workers, so many at a time     each: drain ─▶ upgrade ─▶ return
//! ```
//!
//! The way must be one Talos itself supports, and the Kubernetes that is there one the new Talos runs. What cannot be is
//! refused with what would get there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_types::desired::{Boot, Node, Power, Role};
use talmox_types::support::line_of;
use talmox_types::ways::{TalosWay, talos_way};
use talmox_types::{Contract, Mark, NodeName, SchematicId, Version};

use super::Living;
use crate::installer::{Wanted, described_schematic, short_name};
use crate::planner::hosts::is_away;
use crate::planner::{Draft, Planner};
use crate::{
    Effect, Expected, NoteKind, SeenKubernetes, SeenMachine, SeenNode, Step, StepId, Until, Upkeep,
    managed_template,
};

/// From here on a node installs when it is told, and restarts when it is told.
const INSTALLS_APART: Contract = Contract::new(1, 13);
/// What the image itself puts among the extensions of a machine.
const NO_EXTENSIONS: [&str; 2] = ["schematic", "modules.dep"];

/// A node that does not run what is described.
struct Upgrade<'a> {
    living: Living<'a>,
    vm: Expected,
    from: Version,
    wanted: Wanted,
    reason: String,
    /// The described image was installed before and waits for the restart.
    installed: bool,
    /// It runs what is described, and another image waits for the restart: somebody has thought better of it.
    undoes: bool,
}

impl<'a> Planner<'a> {
    /// Upgrades Talos, control planes first and one at a time.
    pub(super) fn talos_upgrades(&mut self, living: &[Living<'a>]) {
        let mut upgrades: Vec<Upgrade<'a>> = living.iter().filter_map(|one| self.upgrade_of(*one)).collect();
        let absent = self.approve_absent(living, !upgrades.is_empty());
        upgrades.retain(|upgrade| self.is_possible(upgrade));
        if upgrades.is_empty() || !self.kubernetes_allows() {
            return;
        }
        self.say_losses(&upgrades);
        self.say_what_waits(&upgrades);
        let control_planes = control_planes(living);
        // Within a role they stay in turn: whoever leads etcd is the last control plane. Those an earlier run has closed come first.
        upgrades.sort_by_key(|upgrade| self.turn_of(upgrade.living.node));
        let mut before: Vec<StepId> = Vec::new();
        for upgrade in upgrades {
            let (name, role) = (&upgrade.living.node.name, upgrade.living.node.role);
            match role {
                Role::Worker if absent => self.upgrade_later(name, "once every control plane runs it"),
                Role::Worker => drop(self.upgrade(&upgrade, &control_planes, before.clone())),
                Role::Controller => before.extend(self.upgrade(&upgrade, &control_planes, Vec::new())),
            }
        }
    }

    /// Says that a node's Talos is not the described one, where nothing is done about it.
    pub(in crate::planner) fn leave_talos(&mut self, node: &Node, seen: &SeenNode) {
        let (has, wanted) = (seen.version.trim_start_matches('v'), &self.desired.talos.version);
        if !has.is_empty() && has != wanted.to_string() {
            let text = format!("runs Talos {has}, described is {wanted}: left as it is");
            self.note(Some(&node.name), NoteKind::Beyond, text);
        }
    }

    /// What has to be done to a node, if anything.
    fn upgrade_of(&mut self, living: Living<'a>) -> Option<Upgrade<'a>> {
        let Living { node, seen } = living;
        if !self.request.covers(&node.name) {
            return None;
        }
        let from = Version::parse(&seen.version).ok()?;
        let wanted = Wanted::of(self.desired, node, seen);
        let differs = self.difference(node, seen, &from, &wanted);
        let undoes = differs.is_none();
        let reason = differs.or_else(|| self.waits_for_another(node, &wanted))?;
        let owned = self.identities.of_node(&node.name).next()?.clone();
        // A template of somebody else's may hold another Talos. Whoever approved a new node approved no restart of it.
        if owned.mark.incarnation == self.nonce.as_str() {
            let text = format!("{reason}: the next apply upgrades it");
            self.note(Some(&node.name), NoteKind::Inside, text);
            return None;
        }
        let vm = Expected { host: owned.host, mark: owned.mark };
        let installed = match &self.observed.kubernetes {
            SeenKubernetes::Answers(cluster) => {
                cluster.installed.get(node.name.as_str()).is_some_and(|image| *image == wanted.image)
            }
            SeenKubernetes::NotAsked | SeenKubernetes::Unreachable { .. } => false,
        };
        Some(Upgrade { living, vm, from, wanted, reason, installed, undoes })
    }

    /// Whether this plan restarts a node into another Talos, in a way that can be a restart of its VM: from 1.13 on, where
    /// installing and restarting are two things.
    pub(in crate::planner) fn upgrade_restarts(&self, node: &Node, mark: &Mark) -> bool {
        let request = self.request;
        let asked = request.looks_inside()
            && request.until >= Until::Configured
            && request.covers(&node.name)
            && !request.upkeep.stage;
        let seen = self.observed.talos.get(&node.name).and_then(SeenMachine::configured);
        let Some((seen, from)) = seen.and_then(|seen| Some((seen, Version::parse(&seen.version).ok()?)))
        else {
            return false;
        };
        asked
            && from.contract() >= INSTALLS_APART
            && mark.incarnation != self.nonce.as_str()
            && matches!(talos_way(&from, &self.desired.talos.version), TalosWay::Direct)
            && self.difference(node, seen, &from, &Wanted::of(self.desired, node, seen)).is_some()
    }

    /// Why a node that runs what is described would not after its next restart: an image was installed that is not described any more.
    fn waits_for_another(&self, node: &Node, wanted: &Wanted) -> Option<String> {
        let SeenKubernetes::Answers(cluster) = &self.observed.kubernetes else { return None };
        let image = cluster.installed.get(node.name.as_str()).filter(|image| **image != wanted.image)?;
        Some(format!("{image} is installed and waits for the restart, and is not described"))
    }

    /// Whether a node runs the Talos that is described, whatever it was made from.
    pub(in crate::planner) fn runs_what_is_described(&self, name: &NodeName) -> bool {
        let node = self.desired.nodes.iter().find(|node| node.name == *name);
        let seen = self.observed.talos.get(name).and_then(SeenMachine::configured);
        node.zip(seen).is_some_and(|(node, seen)| {
            let wanted = Wanted::of(self.desired, node, seen);
            Version::parse(&seen.version)
                .is_ok_and(|from| self.difference(node, seen, &from, &wanted).is_none())
        })
    }

    /// Why a node does not run what is described. A machine that does not tell its schematic is known by its extensions.
    fn difference(&self, node: &Node, seen: &SeenNode, from: &Version, wanted: &Wanted) -> Option<String> {
        let described = &self.desired.talos.version;
        if from != described {
            return Some(format!("runs Talos {from}, described is {described}"));
        }
        // A template of somebody else's is made from what it is made from: only a changed description is a difference.
        let others = node.vm.boot == Boot::Template && node.vm.template.is_some();
        if others && !Wanted::is_new(seen) {
            return None;
        }
        match (&seen.schematic, &wanted.schematic) {
            (Some(has), Some(schematic)) if has != schematic.as_str() => {
                let short = |id: &str| id.chars().take(12).collect::<String>();
                let (has, wanted) = (short(has), short(schematic.as_str()));
                Some(format!("its image is made from schematic {has}, described is {wanted}"))
            }
            (None, Some(_)) => {
                let missing = self
                    .extensions(node, wanted)?
                    .iter()
                    .find(|name| !seen.extensions.iter().any(|has| short_name(has) == short_name(name)))?;
                Some(format!("its image lacks the extension {missing}"))
            }
            (Some(_) | None, Some(_) | None) => None,
        }
    }

    /// The extensions of the described image, if the description lists them.
    fn extensions(&self, node: &Node, wanted: &Wanted) -> Option<&'a [String]> {
        let listed = node.schematic_id.is_none()
            && wanted.schematic.as_ref() == Some(&described_schematic(self.desired));
        listed.then_some(self.desired.talos.schematic.extensions.as_slice())
    }

    /// Refuses what Talos does not support.
    fn is_possible(&mut self, upgrade: &Upgrade<'a>) -> bool {
        let (node, from) = (&upgrade.living.node.name, &upgrade.from);
        let to = &self.desired.talos.version;
        if let Some(version) = upgrade.wanted.version.as_ref().filter(|version| *version != to) {
            let image = &upgrade.wanted.image;
            let problem = format!("talos_version is {to}, and its installer is that of {version}: {image}");
            let choices = vec![
                format!("make talos_version {version}"),
                "change install_images, or the patch of machine.install.image".to_owned(),
            ];
            self.refuse(Some(node), problem, choices);
            return false;
        }
        if self.request.upkeep.stage && from.contract() < INSTALLS_APART {
            let problem = format!("Talos {from} cannot install now and restart later: that came with 1.13");
            self.refuse(Some(node), problem, vec!["apply without --stage".to_owned()]);
            return false;
        }
        match talos_way(from, to) {
            TalosWay::Direct => true,
            TalosWay::Back => {
                let problem =
                    format!("runs Talos {from}; an older minor version, {to}, may not read its data");
                let choices = vec![
                    format!("make talos_version {from} or newer"),
                    format!("build the node anew: talmox apply --replace {node}"),
                ];
                self.refuse(Some(node), problem, choices);
                false
            }
            TalosWay::Through(stations) => {
                let stations: Vec<String> = stations.iter().map(ToString::to_string).collect();
                let first = stations.first().cloned().unwrap_or_default();
                let problem = format!(
                    "runs Talos {from}, and {to} cannot be reached from there in one step; in between: {}",
                    stations.join(", then ")
                );
                let choices = vec![format!(
                    "make talos_version the newest release of {first}, apply, and go on from there"
                )];
                self.refuse(Some(node), problem, choices);
                false
            }
            TalosWay::Unknown => {
                let problem = format!("nobody knows a way from Talos {from} to {to}");
                let choices =
                    vec!["upgrade it step by step with talosctl, one minor version at a time".to_owned()];
                self.refuse(Some(node), problem, choices);
                false
            }
        }
    }

    /// Refuses a Talos that does not run the Kubernetes that is there, unless that changes in this plan too: then which of
    /// the two goes first is decided there.
    fn kubernetes_allows(&mut self) -> bool {
        let SeenKubernetes::Answers(cluster) = &self.observed.kubernetes else { return true };
        let (talos, described) = (&self.desired.talos.version, &self.desired.kubernetes.version);
        let Some(line) = line_of(talos) else { return true };
        let changes = self.request.targets.is_empty();
        let kubelets = cluster.nodes.iter().filter(|(name, _)| self.names.contains_key(name.as_str()));
        let mut stays = kubelets
            .filter_map(|(_, node)| Version::parse(&node.version).ok())
            .filter(|has| !changes || has.contract() == described.contract());
        let Some(has) = stays.find(|has| !line.supports(has)) else { return true };
        let problem = format!("Talos {talos} does not run Kubernetes {has}, which is there now");
        let (from, to) = (line.kubernetes_from, line.kubernetes_to);
        let choice = format!("upgrade Kubernetes on all nodes first, to one of {from} to {to}");
        self.refuse(None, problem, vec![choice]);
        false
    }

    fn upgrade_later(&mut self, node: &NodeName, reason: &str) {
        if self.request.upkeep.stage {
            return self.follow(Some(node), "upgrade-node", Effect::ChangePending, reason);
        }
        self.follow(Some(node), "drain", Effect::Drain, reason);
        self.follow(Some(node), "upgrade-node", Effect::Reboot, reason);
        self.follow(Some(node), "return", Effect::ChangeLive, reason);
        // Its configuration names the installer.
        self.follow(Some(node), "change-node", Effect::ChangeLive, reason);
    }

    /// A node that restarts right now, is off, or is taken down by another step of this plan, may turn out to need the same:
    /// whoever approves this plan approves that. Gives whether a control plane is among them.
    fn approve_absent(&mut self, living: &[Living<'a>], rolls: bool) -> bool {
        let (desired, observed) = (self.desired, self.observed);
        let asked: BTreeSet<&NodeName> = living.iter().map(|one| &one.node.name).collect();
        let mut control_plane = false;
        for node in desired.nodes.iter().filter(|node| !asked.contains(&node.name)) {
            let name = &node.name;
            let own = self.identities.of_node(name).next();
            // One that is off because its host was drained stays off.
            let away = own.is_some_and(|owned| {
                observed.guests.get(&owned.mark.vmid).is_some_and(|guest| is_away(owned, guest.power))
            });
            let is_there = own.is_some() && !away && node.vm.power == Power::Running;
            if !is_there || !self.request.covers(name) || self.refused.contains(name) {
                continue;
            }
            let differs = match observed.talos.get(name) {
                Some(SeenMachine::Configured(seen)) => {
                    let wanted = Wanted::of(desired, node, seen);
                    let from = Version::parse(&seen.version);
                    from.is_ok_and(|from| self.difference(node, seen, &from, &wanted).is_some())
                }
                Some(SeenMachine::Unreachable { .. }) | None => rolls || self.is_cordoned_by_us(name),
                Some(SeenMachine::Maintenance { .. } | SeenMachine::Foreign { .. }) => false,
            };
            if differs {
                self.upgrade_later(name, "if it does not run what is described once it answers");
                control_plane |= node.role == Role::Controller;
            }
        }
        control_plane
    }

    fn is_cordoned_by_us(&self, node: &NodeName) -> bool {
        let SeenKubernetes::Answers(cluster) = &self.observed.kubernetes else { return false };
        cluster.nodes.get(node.as_str()).is_some_and(|node| node.cordoned_for.is_some())
    }

    /// Names the nodes that have the described image on their disks already, where they are not to be restarted.
    fn say_what_waits(&mut self, upgrades: &[Upgrade<'a>]) {
        let waits = upgrades.iter().filter(|upgrade| upgrade.installed && self.request.upkeep.stage);
        let names: Vec<&str> = waits.map(|upgrade| upgrade.living.node.name.as_str()).collect();
        if !names.is_empty() {
            let (to, names) = (&self.desired.talos.version, names.join(", "));
            let text = format!(
                "Talos {to} is installed and waits for a restart, which apply without --stage makes: {names}"
            );
            self.note(None, NoteKind::Inside, text);
        }
    }

    /// Names the extensions nodes have and would not have afterwards.
    fn say_losses(&mut self, upgrades: &[Upgrade<'a>]) {
        for Upgrade { living: Living { node, seen }, wanted, .. } in upgrades {
            let same = seen.schematic.is_some()
                && seen.schematic.as_deref() == wanted.schematic.as_ref().map(SchematicId::as_str);
            if same {
                continue;
            }
            let kept = self.extensions(node, wanted);
            let has = seen.extensions.iter().map(|name| short_name(name));
            let lost: Vec<&str> = has
                .filter(|name| !NO_EXTENSIONS.contains(name))
                .filter(|has| !kept.is_some_and(|kept| kept.iter().any(|name| short_name(name) == *has)))
                .collect();
            if lost.is_empty() {
                continue;
            }
            let lost = lost.join(", ");
            let text = match kept {
                Some(_) => format!("loses the extension {lost}: the description does not have it"),
                None => format!(
                    "may lose the extension {lost}: the description names an image, not what is in it"
                ),
            };
            self.note(Some(&node.name), NoteKind::Warning, text);
        }
    }

    /// Plans one node; gives what must have been done before anybody follows: it runs what is described, and is well.
    fn upgrade(
        &mut self,
        upgrade: &Upgrade<'a>,
        control_planes: &BTreeMap<NodeName, IpAddr>,
        mut after: Vec<StepId>,
    ) -> Vec<StepId> {
        let Upgrade { living: Living { node, seen }, vm, from, wanted, reason, installed, undoes } = upgrade;
        let (name, stage) = (&node.name, self.request.upkeep.stage || *undoes);
        let to = self.desired.talos.version.clone();
        if stage && *installed {
            return Vec::new();
        }
        let schematic = wanted.schematic.as_ref().map(ToString::to_string);
        if schematic.is_some() && seen.schematic != schematic && self.extensions(node, wanted).is_some() {
            let image = managed_template(self.desired, node).image;
            after.extend(self.register(&image));
        }
        let carries = self.carried.remove(name).filter(|_| !stage).map(|(carries, written)| {
            after.extend(written);
            carries
        });
        let step = Step::Upkeep(Upkeep::UpgradeNode {
            vm: vm.clone(),
            address: seen.address,
            from: from.to_string(),
            to: to.to_string(),
            installer: wanted.image.clone(),
            schematic,
            stage,
            carries,
            control_planes: control_planes.clone(),
        });
        if stage {
            return vec![self.push(Draft::new(Some(name), step, reason, Effect::ChangePending).after(after))];
        }
        let drained = self.drain(name, reason, after);
        let upgraded = self.push(Draft::new(Some(name), step, reason, Effect::Reboot).after(drained));
        let mut done = self.give_back(name, vec![upgraded.clone()]);
        done.push(upgraded);
        done.dedup();
        done
    }
}

/// Control planes Kubernetes can be asked at.
fn control_planes(living: &[Living<'_>]) -> BTreeMap<NodeName, IpAddr> {
    let controllers = living.iter().filter(|one| one.node.role == Role::Controller);
    controllers.map(|one| (one.node.name.clone(), one.seen.address)).collect()
}
