//! Nodes that were configured before.
//!
//! A machine in maintenance mode proves itself by its SMBIOS uuid, which it tells everybody on its network. Whoever takes over the
//! address of a node can claim the same uuid, and a control plane's configuration holds all keys of the cluster. So a node is given its
//! configuration in maintenance mode once: as soon as its machine has answered with a certificate of the cluster, or Kubernetes
//! has a Node of its name and uuid, the VM's mark says so, and only a person can have it configured again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_types::desired::{ConfigDelivery, Node};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{AwayWord, NodeName};

use super::{Draft, Planner};
use crate::{
    Effect, Expected, Guest, NoteKind, Owned, Reconfigure, SeenKubernetes, SeenMachine, Step, StepId, Until,
    seed_in,
};

/// Whether a node that is in maintenance mode gets its configuration there.
pub(super) enum Configures {
    Yes(Option<Reconfigure>),
    /// It is refused.
    No,
}

impl Planner<'_> {
    /// Decides whether a machine in maintenance mode, whose uuid is the VM's, gets its configuration; refuses it otherwise.
    pub(super) fn may_configure(
        &mut self,
        node: &Node,
        owned: &Owned,
        address: IpAddr,
        fingerprint: Option<&str>,
    ) -> Configures {
        if self.reads_no_drive(node, owned, address) {
            return Configures::No;
        }
        let Some(proof) = self.configured_before(owned).filter(|_| !sabotaged(Defect::ConfiguredAgain))
        else {
            return Configures::Yes(None);
        };
        let shown = || fingerprint.unwrap_or("unknown");
        match self.request.reconfigure.get(&node.name) {
            Some(Some(approved)) if fingerprint != Some(approved.as_str()) => {
                let problem = format!(
                    "the machine at {address} gets no configuration: its certificate has the fingerprint {}, and {approved} was \
                     approved",
                    shown()
                );
                self.refuse_configured(node, owned, problem, fingerprint);
                Configures::No
            }
            Some(_) => Configures::Yes(Some(Reconfigure { fingerprint: fingerprint.map(str::to_owned) })),
            None => {
                let problem = format!(
                    "the machine at {address} is in maintenance mode and gets no configuration, because {} was configured before \
                     ({proof}): another machine may pretend to be it. Its certificate has the fingerprint {}",
                    node.name,
                    shown()
                );
                self.refuse_configured(node, owned, problem, fingerprint);
                Configures::No
            }
        }
    }

    fn refuse_configured(&mut self, node: &Node, owned: &Owned, problem: String, fingerprint: Option<&str>) {
        let (name, vmid) = (&node.name, owned.mark.vmid);
        let console = match fingerprint {
            Some(shown) => format!(
                "compare the fingerprint with the one on the console of VM {vmid}; if they are the same: talmox apply \
                 --reconfigure {name}={shown}"
            ),
            None => format!(
                "look whether the console of VM {vmid} says that it is in maintenance mode; if it does: talmox apply \
                 --reconfigure {name}"
            ),
        };
        let choices = vec![
            console,
            format!("build it anew, with empty disks: talmox apply --replace {name}"),
            format!("if they differ, find out which machine has the address {}", self.address_word(name)),
        ];
        self.refuse(Some(name), problem, choices);
    }

    fn address_word(&self, name: &NodeName) -> String {
        self.addresses.get(name).map(|pair| pair.primary().to_string()).unwrap_or_default()
    }

    /// With `config_delivery: cidata` nothing is sent to a machine in maintenance mode, whoever it is. One whose VM has the drive
    /// may still read it; one without has to be started with it.
    fn reads_no_drive(&mut self, node: &Node, owned: &Owned, address: IpAddr) -> bool {
        let guest = self.observed.guests.get(&owned.mark.vmid).and_then(Guest::seen);
        let has_drive = guest.is_some_and(|seen| seed_in(&seen.live).is_some());
        if self.desired.talos.config_delivery != ConfigDelivery::Cidata || has_drive {
            return false;
        }
        let vmid = owned.mark.vmid;
        let problem = format!(
            "the machine at {address} is in maintenance mode, and its configuration comes by drive (config_delivery: cidata), \
             which VM {vmid} does not have: nothing is sent over the network"
        );
        let choices = vec![
            format!("stop VM {vmid} in Proxmox; talmox apply puts the drive in and starts it"),
            format!("build it anew, with empty disks: talmox apply --replace {}", node.name),
        ];
        self.refuse(Some(&node.name), problem, choices);
        true
    }

    /// What proves that the machine of a VM was configured, if anything does.
    fn configured_before(&self, owned: &Owned) -> Option<String> {
        if owned.mark.configured {
            return Some(format!("the mark of VM {} says so", owned.mark.vmid));
        }
        self.is_in_kubernetes(owned).then(|| "Kubernetes has its Node, with its SMBIOS uuid".to_owned())
    }

    /// Whether Kubernetes has a Node of the VM's node that runs on a machine with the VM's uuid.
    fn is_in_kubernetes(&self, owned: &Owned) -> bool {
        let SeenKubernetes::Answers(cluster) = &self.observed.kubernetes else { return false };
        let known = cluster.nodes.get(owned.mark.node.as_str()).and_then(|node| node.uuid.as_deref());
        let own = uuid_of(self.observed.guests.get(&owned.mark.vmid));
        known.zip(own).is_some_and(|(known, own)| is_same_uuid(known, &own))
    }

    /// Has marks say that their machines were configured, where that was seen and they do not say so yet.
    pub(super) fn record_configured(&mut self) {
        if !self.request.looks_inside() || self.request.until < Until::Configured {
            return;
        }
        let mut steps: BTreeMap<&NodeName, Vec<StepId>> = BTreeMap::new();
        let mut goes_down: BTreeSet<&NodeName> = BTreeSet::new();
        for planned in &self.plan.steps {
            let Some(node) = &planned.node else { continue };
            steps.entry(node).or_default().push(planned.id.clone());
            if planned.effect.interrupts() || planned.step.makes().is_some() {
                goes_down.insert(node);
            }
        }
        let mut found: Vec<(Owned, &'static str, Vec<StepId>)> = Vec::new();
        for node in &self.desired.nodes {
            let name = &node.name;
            // What takes a node down in this plan comes first: the next round writes it.
            if !self.request.covers(name) || self.refused.contains(name) || goes_down.contains(name) {
                continue;
            }
            let mut vms = self.identities.of_node(name);
            let (Some(owned), None) = (vms.next(), vms.next()) else { continue };
            let retired = owned.mark.away == Some(AwayWord::Retired);
            if owned.mark.configured || retired || !owned.finished {
                continue;
            }
            let answered = self.observed.talos.get(name).and_then(SeenMachine::configured_for_good).is_some();
            // Without a uuid any machine of the cluster could have answered.
            let known = uuid_of(self.observed.guests.get(&owned.mark.vmid)).is_some();
            let reason = match (answered && known, self.is_in_kubernetes(owned)) {
                (true, _) => "it answers with a certificate of the cluster, and its mark does not say so yet",
                (false, true) => "Kubernetes has its Node, and its mark does not say so yet",
                (false, false) => continue,
            };
            let needs = steps.get(name).cloned().unwrap_or_default();
            // What it gets in this plan writes it too.
            if !needs.contains(&StepId::new(Some(name), "configure-node")) {
                found.push((owned.clone(), reason, needs));
            }
        }
        for (owned, reason, needs) in found {
            let name = owned.mark.node.clone();
            let step = Step::RecordConfigured { vm: Expected { host: owned.host, mark: owned.mark } };
            self.push(Draft::new(Some(&name), step, reason, Effect::ChangeLive).after(needs));
        }
    }

    /// Says that a flag was not needed: the node has its configuration, and keeps it.
    pub(super) fn need_not_reconfigure(&mut self, node: &Node) {
        if self.request.reconfigure.contains_key(&node.name) {
            let text = "--reconfigure is not needed: it answers with a certificate of the cluster".to_owned();
            self.note(Some(&node.name), NoteKind::Inside, text);
        }
    }
}

fn uuid_of(guest: Option<&Guest>) -> Option<String> {
    guest?.seen()?.live.smbios().ok().flatten()?.uuid
}

/// Whether two texts are one uuid. Firmware and kernels before SMBIOS 2.6 told the first three fields in the other byte order.
fn is_same_uuid(one: &str, other: &str) -> bool {
    let digits = |text: &str| text.chars().filter(|c| *c != '-').collect::<String>().to_ascii_lowercase();
    let (one, other) = (digits(one), digits(other));
    one == other || swapped(&one).is_some_and(|swapped| swapped == other)
}

/// The digits of a uuid with the first three fields in the other byte order.
fn swapped(digits: &str) -> Option<String> {
    let bytes: Vec<&str> = (0..16).map(|at| digits.get(2 * at..2 * at + 2)).collect::<Option<_>>()?;
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    (digits.len() == 32).then(|| order.iter().map(|at| bytes[*at]).collect())
}

#[cfg(test)]
mod tests {
    use super::is_same_uuid;

    #[test]
    fn a_uuid_is_the_same_in_either_byte_order_and_case() {
        let own = "9a7c6bcf-9f0e-4bf0-b3f1-000000002000";
        assert!(is_same_uuid(own, own));
        assert!(is_same_uuid(own, "9A7C6BCF-9F0E-4BF0-B3F1-000000002000"));
        assert!(is_same_uuid("cf6b7c9a-0e9f-f04b-b3f1-000000002000", own));
        assert!(!is_same_uuid("9a7c6bcf-9f0e-4bf0-b3f1-000000002001", own));
        assert!(!is_same_uuid("", own) && !is_same_uuid("é", own) && !is_same_uuid("", "x"));
    }
}
