//! Whether what is done inside machines is done to the right ones, and the bootstrap at most once.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_types::desired::Role;
use talmox_types::{BootstrapWord, Mark, NodeName};

use super::{Court, Rule};
use crate::{
    Expected, Guest, Planned, Power, Proof, Reconfigure, Seen, SeenEtcd, SeenKubernetes, SeenMachine, Step,
    Upkeep,
};

pub(super) fn judge(court: &mut Court<'_>) {
    let mut bootstraps = 0;
    for step in court.steps() {
        if step.step.is_inside() && !court.request.looks_inside() {
            court.violate(Rule::AskedFor, step, "nobody asked for what is inside the machines");
        }
        if let Step::ConfigureNode { vm, address, reconfigure, proof } = &step.step {
            configure(court, step, vm, address.primary());
            proves_itself(court, step, vm, *proof);
            configure_once(court, step, vm, reconfigure.as_ref());
        }
        if let Step::RecordConfigured { vm } = &step.step {
            record_configured(court, step, vm);
        }
        if let Step::Bootstrap { vm, address, control_planes }
        | Step::Upkeep(Upkeep::RecoverEtcd { vm, address, control_planes, .. }) = &step.step
        {
            bootstraps += 1;
            if bootstraps > 1 {
                court.violate(Rule::BootstrapOnce, step, "another step bootstraps too");
            }
            on_the_first(court, step, vm);
            with_intent(court, step, vm);
            nobody_has_data(court, step, control_planes);
            proven(court, step, vm, *address);
            with_the_right_data(court, step, vm);
        }
        if let Step::RecordBootstrap { vm } = &step.step {
            record(court, step, vm);
        }
    }
}

/// A configuration goes to a VM that runs, and to nobody who is known to be another machine.
fn configure(court: &mut Court<'_>, step: &Planned, vm: &Expected, address: IpAddr) {
    // One that this plan makes and starts proves itself once it answers.
    let before = court.before(step);
    let made = before.iter().any(|before| before.step.makes() == Some(&vm.mark));
    let starts = |before: &&&Planned| matches!(&before.step, Step::StartVm { vm: started } if started == vm);
    if made && before.iter().any(|before| starts(&before)) {
        return;
    }
    let guest = court.observed.guests.get(&vm.vmid());
    if guest.is_none_or(|guest| guest.power != Power::Running) {
        court.violate(Rule::ProvenMachine, step, "its VM does not run");
    }
    let uuid = guest.and_then(uuid_of);
    let problem = match court.observed.talos.get(&vm.mark.node) {
        None => Some("nobody has looked at the machine".to_owned()),
        Some(seen) if seen.address() != address => Some(format!("{address} was not looked at")),
        // Proves itself once it answers, before anything is sent.
        Some(SeenMachine::Unreachable { .. }) => None,
        Some(SeenMachine::Maintenance { uuid: said, .. }) => {
            let same = uuid.as_ref().is_some_and(|uuid| uuid.eq_ignore_ascii_case(said));
            (!same).then(|| format!("the machine says it is {said}"))
        }
        Some(SeenMachine::Foreign { why, .. }) => Some(why.clone()),
        Some(SeenMachine::Configured(_)) => Some("it is configured already".to_owned()),
    };
    if let Some(problem) = problem {
        court.violate(Rule::ProvenMachine, step, problem);
    }
}

/// A control plane signs its own certificate, and what follows needs to know that it is there.
fn proves_itself(court: &mut Court<'_>, step: &Planned, vm: &Expected, proof: Proof) {
    let mut controllers = court.desired.nodes.iter().filter(|node| node.role == Role::Controller);
    if proof != Proof::Certificate && controllers.any(|node| node.name == vm.mark.node) {
        court.violate(
            Rule::ProvenMachine,
            step,
            "it is a control plane, and is not waited for until it answers",
        );
    }
}

/// A machine in maintenance mode that was configured before gets what a person approved, behind the certificate that was seen.
fn configure_once(court: &mut Court<'_>, step: &Planned, vm: &Expected, reconfigure: Option<&Reconfigure>) {
    let asked = court.request.reconfigure.get(&vm.mark.node);
    if reconfigure.is_some() && asked.is_none() {
        court.violate(Rule::AskedFor, step, "nobody asked for another configuration in maintenance mode");
    }
    let Some(SeenMachine::Maintenance { fingerprint: shown, .. }) = court.observed.talos.get(&vm.mark.node)
    else {
        return;
    };
    if let Some(approved) = reconfigure {
        let other =
            asked.and_then(Option::as_ref).is_some_and(|asked| approved.fingerprint.as_ref() != Some(asked));
        if other || approved.fingerprint != *shown {
            court.violate(
                Rule::ConfiguredOnce,
                step,
                "the certificate that was approved is not the one that was seen",
            );
        }
        return;
    }
    let Some(guest) = court.observed.guests.get(&vm.vmid()) else { return };
    // A VM that this plan makes in its place was never configured.
    let Some(mark) = own_mark(guest).filter(|mark| vm.is(mark)) else { return };
    if mark.configured || has_node(court, vm, guest) {
        court.violate(Rule::ConfiguredOnce, step, "it was configured before, and nobody asked for it");
    }
}

/// Whether Kubernetes knows the machine of a VM, by name and uuid.
fn has_node(court: &Court<'_>, vm: &Expected, guest: &Guest) -> bool {
    let SeenKubernetes::Answers(cluster) = &court.observed.kubernetes else { return false };
    let known = cluster.nodes.get(vm.mark.node.as_str()).and_then(|node| node.uuid.as_ref());
    known.zip(uuid_of(guest)).is_some_and(|(known, own)| known.eq_ignore_ascii_case(&own))
}

/// What is written down was seen.
fn record_configured(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    let answered =
        court.observed.talos.get(&vm.mark.node).and_then(SeenMachine::configured_for_good).is_some();
    let guest = court.observed.guests.get(&vm.vmid());
    let in_maintenance =
        matches!(court.observed.talos.get(&vm.mark.node), Some(SeenMachine::Maintenance { .. }));
    let listed = matches!(&court.observed.kubernetes, SeenKubernetes::Answers(cluster)
        if cluster.nodes.contains_key(vm.mark.node.as_str()));
    if guest.and_then(uuid_of).is_none() || in_maintenance || !(answered || listed) {
        court.violate(Rule::ProvenMachine, step, "nobody saw that it was configured");
    }
}

fn uuid_of(guest: &Guest) -> Option<String> {
    let Seen::Read(seen) = &guest.config else { return None };
    seen.live.smbios().ok().flatten()?.uuid
}

/// Nobody else than the first control plane by name is bootstrapped.
fn on_the_first(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    let mut names: Vec<&NodeName> = court
        .desired
        .nodes
        .iter()
        .filter(|node| node.role == Role::Controller)
        .map(|node| &node.name)
        .collect();
    names.sort();
    if names.first() != Some(&&vm.mark.node) {
        court.violate(Rule::BootstrapOnce, step, "it is not the first control plane by name");
    }
}

/// The step carries the intent that is written before the call, and no VM says that it was done or is another's to do.
fn with_intent(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    let intent = vm.mark.bootstrap.as_ref();
    if !intent.is_some_and(|word| !word.done && word.incarnation == vm.mark.incarnation) {
        court.violate(Rule::BootstrapOnce, step, "its mark does not carry the intent");
    }
    let recovers = matches!(step.step, Step::Upkeep(Upkeep::RecoverEtcd { .. }));
    for guest in court.observed.guests.values() {
        let Some(mark) = own_mark(guest).filter(|mark| mark.uid == vm.mark.uid) else { continue };
        match mark.bootstrap {
            // Its data is lost, and somebody asked for a snapshot to take its place.
            Some(word) if word.done && recovers => {}
            Some(word) if word.done => {
                let problem = format!("the mark of VM {} says that it was done", guest.vmid);
                court.violate(Rule::BootstrapOnce, step, problem);
            }
            Some(_) if mark.vmid != vm.vmid() => {
                let problem = format!("VM {} is to be bootstrapped, says its mark", guest.vmid);
                court.violate(Rule::BootstrapOnce, step, problem);
            }
            Some(_) | None => {}
        }
    }
}

fn own_mark(guest: &Guest) -> Option<Mark> {
    let Seen::Read(seen) = &guest.config else { return None };
    let line = seen.live.description()?.trim_end().lines().last()?;
    Mark::parse(line.trim()).ok().filter(|mark| mark.vmid == guest.vmid && !guest.template)
}

/// What etcd begins with is what was asked for, and what the intent says: an empty one never takes the place of a snapshot.
fn with_the_right_data(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    let asked = court.request.upkeep.restore.as_ref();
    let begins = if let Step::Upkeep(Upkeep::RecoverEtcd { snapshot, .. }) = &step.step {
        Some(snapshot)
    } else {
        None
    };
    if asked != begins {
        court.violate(Rule::AskedFor, step, "it does not begin with the snapshot that was asked for");
    }
    let written = vm.mark.bootstrap.as_ref().and_then(|word| word.snapshot.clone());
    if written != begins.map(|snapshot| BootstrapWord::digits(&snapshot.digest)) {
        court.violate(Rule::BootstrapOnce, step, "its mark does not say what it begins with");
    }
}

/// Every control plane of the description has said that it has no data, and will be asked again.
fn nobody_has_data(court: &mut Court<'_>, step: &Planned, asked: &BTreeMap<NodeName, IpAddr>) {
    let controllers = court.desired.nodes.iter().filter(|node| node.role == Role::Controller);
    for node in controllers {
        let seen = court.observed.talos.get(&node.name);
        let problem = match seen {
            Some(SeenMachine::Configured(machine)) => match &machine.etcd {
                Some(SeenEtcd::Empty) if asked.get(&node.name) == Some(&machine.address) => continue,
                Some(SeenEtcd::Empty) => format!("{} is not asked again", node.name),
                Some(SeenEtcd::Member { .. }) => format!("{} has data of etcd", node.name),
                Some(SeenEtcd::Unknown { .. }) | None => {
                    format!("whether {} has data of etcd is not known", node.name)
                }
            },
            Some(
                SeenMachine::Unreachable { .. }
                | SeenMachine::Maintenance { .. }
                | SeenMachine::Foreign { .. },
            )
            | None => format!("{} has not answered", node.name),
        };
        court.violate(Rule::BootstrapOnce, step, problem);
    }
}

/// The machine that is bootstrapped proved itself.
fn proven(court: &mut Court<'_>, step: &Planned, vm: &Expected, address: IpAddr) {
    let seen = court.observed.talos.get(&vm.mark.node).and_then(SeenMachine::configured);
    if seen.is_none_or(|seen| seen.address != address) {
        court.violate(Rule::ProvenMachine, step, format!("the machine at {address} has not proved itself"));
    }
}

/// What is written down was seen.
fn record(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    let seen = court.observed.talos.get(&vm.mark.node).and_then(SeenMachine::configured);
    let member = seen.is_some_and(|seen| matches!(seen.etcd, Some(SeenEtcd::Member { .. })));
    if !member {
        court.violate(Rule::BootstrapOnce, step, "nobody saw a bootstrap there");
    }
}
