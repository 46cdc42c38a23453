//! Which host a node goes to, and what is too much for one.

use std::collections::BTreeMap;

use talmox_plan::{Observed, Plan, Power, Request, Step};
use talmox_types::desired::{Desired, ExtraDisk, PciDevice, PciSource};
use talmox_types::{MappingName, Ratio};

use crate::support::*;

const GIB: u64 = 1 << 30;

/// Two hosts with 32 GiB and 8 CPUs.
fn hosts() -> Observed {
    let mut observed = empty();
    for host in observed.hosts.values_mut() {
        (host.memory, host.cpus) = (Some(32 * GIB), Some(8));
    }
    observed
}

/// A VM of somebody else's that takes this much.
fn other(observed: &mut Observed, vmid: u32, host_name: &str, gib: u64, power: Power) {
    let mut guest = stranger(vmid, host_name, "other", [("cores", "2".to_owned())].into_iter().collect());
    (guest.memory, guest.cpus, guest.power) = (gib * GIB, 2, power);
    observed.guests.insert(guest.vmid, guest);
}

fn placed(plan: &Plan) -> Vec<String> {
    let place = |step: &talmox_plan::Planned| match &step.step {
        Step::CloneVm { host, mark, .. } => {
            let why = step.reason.strip_prefix("it is described and not there; ").unwrap();
            Some(format!("{} {host}: {why}", mark.node))
        }
        _ => None,
    };
    plan.steps.iter().filter_map(place).collect()
}

fn plan_of(desired: &Desired, observed: &Observed) -> Plan {
    planned(desired, observed, &Request::default())
}

#[test]
fn nodes_go_where_most_memory_stays_free() {
    let mut observed = hosts();
    other(&mut observed, 300, "pve1", 12, Power::Running);
    // What others have stopped, and templates, take no memory.
    other(&mut observed, 301, "pve2", 30, Power::Stopped);
    let plan = plan_of(&desired(1, 2), &observed);
    assert_eq!(
        placed(&plan),
        [
            "cp-1 pve2: no control plane is there yet, 22 of 32 GiB memory stay free",
            "w-1 pve2: of 2 hosts it is the emptiest, 14 of 32 GiB memory stay free",
            "w-2 pve1: of 2 hosts it is the emptiest, 10 of 32 GiB memory stay free",
        ]
    );
    // The order hosts are listed in does not matter, nor does another look.
    assert_eq!(plan_of(&desired(1, 2), &observed), plan);
    // Control planes are kept apart even where that is the fuller host.
    let hosts: Vec<String> =
        placed(&plan_of(&desired(2, 0), &observed)).iter().map(|line| line[..9].to_owned()).collect();
    assert_eq!(hosts, ["cp-1 pve2", "cp-2 pve1"]);
}

#[test]
fn what_does_not_fit_is_refused_with_the_sum() {
    let mut observed = hosts();
    other(&mut observed, 300, "pve1", 24, Power::Running);
    other(&mut observed, 301, "pve2", 23, Power::Running);
    let mut desired = desired(1, 0);
    let one = |desired: &Desired, observed: &Observed| problems(&plan_of(desired, observed)).concat();
    assert_eq!(
        one(&desired, &observed),
        "there is no host for it: \
         pve1 has 32 GiB of memory, 24 GiB of it for running VMs and 2 GiB for itself (placement.reserve_memory), and 8 GiB more does not fit; \
         pve2 has 32 GiB of memory, 23 GiB of it for running VMs and 2 GiB for itself (placement.reserve_memory), and 8 GiB more does not fit"
    );
    desired.proxmox.placement.reserve_memory = 1024;
    assert_eq!(
        placed(&plan_of(&desired, &observed)),
        ["cp-1 pve2: no other host can carry it, 0 of 32 GiB memory stay free"]
    );
    // A stopped node of ours will take its memory again.
    let mut ours = hosts();
    let mut cp = finished(&desired, "cp-1", 2000, "pve1");
    (cp.memory, cp.power) = (30 * GIB, Power::Stopped);
    ours.guests.insert(cp.vmid, cp);
    let mut two = super::support::desired(1, 1);
    two.nodes[1].vm.host = Some(host("pve1"));
    assert!(one(&two, &ours).starts_with("there is no host for it: pve1 has 32 GiB of memory, 30 GiB"));
    // CPUs and disks are counted too.
    let mut desired = super::support::desired(1, 0);
    desired.nodes[0].vm.cores = 33;
    assert!(one(&desired, &hosts()).contains(
        "pve1 has 8 CPUs and 0 given to running VMs; 33 more is beyond placement.cpu_overcommit 4"
    ));
    let mut desired = super::support::desired(1, 0);
    desired.nodes[0].vm.extra_disks =
        vec![ExtraDisk { slot: 1, size: 1000, storage: storage("local-zfs"), keep: false, mount: None }];
    desired.proxmox.placement.storage_overcommit = Ratio::parse("1").unwrap();
    assert!(
        one(&desired, &hosts()).contains(
            "storage local-zfs on pve1 has 8 GiB of disks and would get 1100 GiB more, of 1024 GiB (placement.storage_overcommit 1)"
        ),
        "{}",
        one(&desired, &hosts())
    );
    desired.proxmox.placement.storage_overcommit = Ratio::parse("1.5").unwrap();
    assert_eq!(one(&desired, &hosts()), "");
}

#[test]
fn what_nobody_tells_limits_nothing() {
    let mut observed = empty();
    other(&mut observed, 300, "pve1", 4000, Power::Running);
    assert_eq!(placed(&plan_of(&desired(1, 0), &observed)), ["cp-1 pve1: no control plane is there yet"]);
}

#[test]
fn a_device_is_given_to_one_vm() {
    let mapping = MappingName::parse("gpu").unwrap();
    let mut desired = desired(0, 3);
    for node in &mut desired.nodes {
        let source = PciSource::Mapping(mapping.clone());
        node.vm.pci = vec![PciDevice { source, pcie: true, rombar: true }];
    }
    let mut observed = hosts();
    observed.mappings.insert(mapping.clone(), BTreeMap::from([(host("pve1"), 2), (host("pve2"), 1)]));
    let holder =
        stranger(300, "pve1", "other", [("hostpci0", "mapping=gpu".to_owned())].into_iter().collect());
    observed.guests.insert(holder.vmid, holder);
    let plan = plan_of(&desired, &observed);
    let hosts: Vec<String> = placed(&plan).iter().map(|line| line[..8].to_owned()).collect();
    assert_eq!(hosts, ["w-1 pve2", "w-2 pve1"]);
    assert_eq!(
        problems(&plan),
        [
            "there is no host for it: pve1 has 2 of the PCI mapping gpu, all of them given to VMs; pve2 has 1 of the PCI mapping gpu, all of them given to VMs"
        ]
    );
}

#[test]
fn a_node_that_is_built_anew_may_have_what_it_had() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    for host in observed.hosts.values_mut() {
        host.memory = Some(11 * GIB);
    }
    let cp = observed.guests.get_mut(&id(2000)).unwrap();
    cp.memory = 8 * GIB;
    let request = Request { replace: [name("cp-1")].into(), ..Request::default() };
    let plan = planned(&desired, &observed, &request);
    assert!(plan.refusals.is_empty(), "{:?}", plan.refusals);
    let Some(Step::CloneVm { host: on, .. }) =
        plan.steps.iter().map(|step| &step.step).find(|step| step.word() == "clone")
    else {
        panic!()
    };
    assert_eq!(on, &host("pve1"));
}

fn to(node: &str, host_name: &str) -> Request {
    Request { moves: [(name(node), host(host_name))].into(), ..Request::default() }
}

#[test]
fn a_vm_moves_if_asked_and_where_it_can() {
    let desired = desired(1, 1);
    let mut observed = converged(&desired);
    let plan = planned(&desired, &observed, &to("cp-1", "pve2"));
    assert_eq!(steps(&plan), ["cp-1/move move"]);
    assert_eq!(
        plan.steps[0].reason,
        "it was asked for; the machine goes on running, ide2, scsi0, efidisk0 is copied"
    );
    assert!(planned(&desired, &observed, &to("w-1", "pve2")).steps.is_empty(), "it is there already");
    // Nobody else moves, and a plan that moves what was not asked for is refused.
    let violations = talmox_plan::check(&plan, &desired, &observed, &Request::default());
    assert_eq!(
        violations.iter().map(|violation| violation.rule).collect::<Vec<_>>(),
        [talmox_plan::Rule::AskedFor]
    );
    let refused = |observed: &Observed| problems(&planned(&desired, observed, &to("cp-1", "pve2"))).concat();
    for host in observed.hosts.values_mut() {
        host.memory = Some(8 * GIB);
    }
    assert!(refused(&observed).starts_with("it cannot move to pve2: pve2 has 8 GiB of memory"));
    let mut observed = converged(&desired);
    observed.storages.retain(|storage| storage.host == host("pve1"));
    assert_eq!(refused(&observed), "it cannot move to pve2: that host has no storage local-zfs for disks");
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        config.set("ide0", "local:iso/talos.iso,media=cdrom");
    });
    assert_eq!(refused(&observed), "it cannot move: ide0 holds local:iso/talos.iso, which only pve1 has");
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        config.set("hostpci0", "mapping=gpu");
    });
    assert_eq!(refused(&observed), "it cannot move: hostpci0 is a device of pve1");
}

#[test]
fn two_control_planes_move_one_after_the_other() {
    let desired = desired(2, 0);
    let observed = converged(&desired);
    let moves = [(name("cp-1"), host("pve2")), (name("cp-2"), host("pve1"))].into();
    let plan = planned(&desired, &observed, &Request { moves, ..Request::default() });
    assert_eq!(steps(&plan), ["cp-1/move move", "cp-2/move move after cp-1/move"]);
}

/// Control planes that were moved to one host by hand: said as long as it is so, with the way apart.
#[test]
fn control_planes_that_share_a_host_are_told() {
    let warnings = |desired: &Desired, observed: &Observed, request: &Request| -> Vec<String> {
        let notes = planned(desired, observed, request).notes.into_iter();
        notes.filter(|note| note.kind == talmox_plan::NoteKind::Warning).map(|note| note.text).collect()
    };
    let mut desired = desired(3, 1);
    // There are two hosts: three control planes cannot be kept apart.
    let mut observed = converged(&desired);
    let asked = Request::default();
    assert_eq!(warnings(&desired, &observed, &asked), Vec::<String>::new());
    desired.proxmox.control_plane_spread = talmox_types::desired::Spread::Required;
    let [told] = &warnings(&desired, &observed, &asked)[..] else { panic!("{observed:#?}") };
    assert!(
        told.ends_with(
            "1 of 3 control planes are left; no other host of the cluster is free of control planes"
        ),
        "{told}"
    );
    desired.proxmox.control_plane_spread = talmox_types::desired::Spread::Preferred;
    let third = observed.hosts[&host("pve1")].clone();
    observed.hosts.insert(host("pve3"), third);
    desired.proxmox.hosts.clear();
    let [told] = &warnings(&desired, &observed, &asked)[..] else { panic!("{observed:#?}") };
    assert!(told.starts_with("cp-1 and cp-3 are on one host, pve1: without it 1 of 3 "), "{told}");
    assert!(told.ends_with("talmox apply --move cp-3=pve3 moves one"), "{told}");
    let moves = Request { moves: [(name("cp-3"), host("pve3"))].into(), ..Request::default() };
    assert_eq!(warnings(&desired, &observed, &moves), Vec::<String>::new());
    let elsewhere = Request { targets: [name("w-1")].into(), ..Request::default() };
    assert_eq!(warnings(&desired, &observed, &elsewhere), Vec::<String>::new());
    // Where the description puts them they stay.
    for node in &mut desired.nodes {
        node.vm.host = Some(
            observed
                .guests
                .values()
                .find(|guest| guest.name.as_deref() == Some(node.name.as_str()))
                .unwrap()
                .host
                .clone(),
        );
    }
    assert_eq!(warnings(&desired, &observed, &asked), Vec::<String>::new());
}
