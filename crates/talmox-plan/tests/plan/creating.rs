//! Nodes that are not there.

use talmox_plan::{CloneKind, GuestKind, NoteKind, Request, Seen, Step, Waiting};
use talmox_types::desired::{NodeAddress, Spread, TemplateRef};
use talmox_types::{AddressRange, Tag};

use crate::support::*;

#[test]
fn from_nothing_to_everything() {
    let (desired, observed) = (desired(1, 1), empty());
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(
        steps(&plan),
        [
            "create-pool create",
            "cp-1/clone create after create-pool",
            "cp-1/configure create after cp-1/clone",
            "cp-1/grow-disk-scsi0 create after cp-1/configure",
            "cp-1/start create after cp-1/grow-disk-scsi0",
            "w-1/clone create after create-pool",
            "w-1/configure create after w-1/clone",
            "w-1/grow-disk-scsi0 create after w-1/configure",
            "w-1/start create after w-1/grow-disk-scsi0",
        ]
    );
    let Step::CloneVm { host: on, mark, template, clone, .. } = &plan.steps[1].step else { panic!() };
    assert_eq!(
        (on, mark.vmid, template.vmid, clone),
        (&host("pve1"), id(2000), id(9000), &CloneKind::Linked)
    );
    let Step::ConfigureVm { set, drives, witness, digest, delete, .. } = &plan.steps[2].step else {
        panic!()
    };
    assert_eq!(set["net0"], "virtio=BC:24:11:00:07:00,bridge=vmbr0,queues=4");
    assert_eq!(set["ide2"], "local-zfs:cloudinit,media=cdrom");
    assert_eq!(set["ipconfig0"], "ip=10.0.7.11/24,gw=10.0.7.1");
    assert_eq!((set["startup"].as_str(), *witness, digest), ("order=4,up=15,down=60", true, &None));
    assert!(!set.contains_key("scsi0") && !set.contains_key("efidisk0") && !set.contains_key("description"));
    assert!(drives.keys().any(|slot| slot.to_string() == "scsi0") && delete.is_empty());
    assert!(plan.refusals.is_empty() && plan.waiting.is_empty());
}

#[test]
fn control_planes_spread_over_hosts() {
    let desired = desired(3, 0);
    let plan = planned(&desired, &empty(), &Request::default());
    let hosts: Vec<String> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.step {
            Step::CloneVm { host, .. } => Some(host.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(hosts, ["pve1", "pve2", "pve1"]);
    let note = plan.notes.iter().find(|note| note.kind == NoteKind::Placement).unwrap();
    assert_eq!(note.text, "same host as cp-1 (2 hosts carry control planes already)");
    let mut strict = desired;
    strict.proxmox.control_plane_spread = Spread::Required;
    let plan = planned(&strict, &empty(), &Request::default());
    assert_eq!(problems(&plan), ["same host as cp-1 (2 hosts carry control planes already)"]);
}

#[test]
fn ids_follow_the_highest_and_leave_declared_ones_alone() {
    let mut desired = desired(3, 0);
    desired.nodes[2].vm.id = Some(id(2006));
    let mut observed = empty();
    let taken = stranger(2005, "pve1", "somebody", [("name", "somebody")].into_iter().collect());
    observed.guests.insert(taken.vmid, taken);
    let plan = planned(&desired, &observed, &Request::default());
    let ids: Vec<u32> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.step {
            Step::CloneVm { mark, .. } => Some(mark.vmid.get()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, [2007, 2008, 2006]);
}

#[test]
fn a_declared_id_of_somebody_else_is_refused() {
    let mut desired = desired(1, 0);
    desired.nodes[0].vm.id = Some(id(150));
    let mut observed = empty();
    let mut container = stranger(150, "pve2", "mail", [("name", "mail")].into_iter().collect());
    container.kind = GuestKind::Container;
    observed.guests.insert(container.vmid, container);
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(problems(&plan), ["its VMID 150 belongs to mail on pve2"]);
    assert!(plan.steps.is_empty());
}

#[test]
fn templates_by_tag_and_id() {
    let mut desired = desired(1, 0);
    let tags = vec![Tag::parse("talos").unwrap(), Tag::parse("stable").unwrap()];
    desired.nodes[0].vm.template = Some(TemplateRef::Tagged { name: None, tags });
    let mut observed = empty();
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(problems(&plan), ["there is no template with the tags talos, stable"]);
    let second = observed.guests.get_mut(&id(9001)).unwrap();
    second.tags = ["talos", "stable", "x"].map(str::to_owned).into_iter().collect();
    let plan = planned(&desired, &observed, &Request::default());
    let Step::CloneVm { host: on, template, .. } = &plan.steps[1].step else { panic!() };
    assert_eq!((on, template.vmid), (&host("pve2"), id(9001)));
    desired.nodes[0].vm.template = Some(TemplateRef::Id(id(9000)));
    desired.nodes[0].vm.host = Some(host("pve2"));
    let plan = planned(&desired, &observed, &Request::default());
    assert!(problems(&plan)[0].contains("its disks are not on storage that pve2 shares"), "{plan:?}");
}

#[test]
fn another_storage_is_a_full_clone() {
    let mut desired = desired(1, 0);
    desired.nodes[0].vm.storage = storage("fast");
    let mut observed = empty();
    observed.storages.push(seen_storage("fast", "pve1"));
    let plan = planned(&desired, &observed, &Request::default());
    let Step::CloneVm { clone, .. } = &plan.steps[1].step else { panic!() };
    assert_eq!(*clone, CloneKind::Full { storage: storage("fast") });
}

#[test]
fn addresses_of_pools_are_read_back_or_next() {
    let mut desired = desired(0, 3);
    let declared = finished(&desired, "w-1", 2000, "pve1");
    let ranges = vec![AddressRange::parse("10.0.7.11-10.0.7.20").unwrap()];
    for node in &mut desired.nodes {
        node.address = NodeAddress::FromPool(ranges.clone());
    }
    let mut observed = empty();
    observed.guests.insert(declared.vmid, declared);
    let plan = planned(&desired, &observed, &Request::default());
    let given: Vec<&str> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.step {
            Step::ConfigureVm { set, .. } => set.get("ipconfig0").map(String::as_str),
            _ => None,
        })
        .collect();
    assert_eq!(given, ["ip=10.0.7.12/24,gw=10.0.7.1", "ip=10.0.7.13/24,gw=10.0.7.1"]);
}

#[test]
fn nothing_is_made_beside_what_may_be_it() {
    let desired = desired(1, 1);
    let mut observed = empty();
    let mut making = stranger(2000, "pve1", "", talmox_pve::property::VmConfig::default());
    (making.name, making.lock) = (None, Some("clone".to_owned()));
    observed.guests.insert(making.vmid, making);
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty());
    assert!(matches!(plan.waiting.as_slice(), [Waiting::InFlight { .. }]));
    assert!(plan.later.iter().any(|intent| intent.step == "clone"));

    let mut observed = empty();
    let mut away = stranger(2000, "pve2", "cp-1", talmox_pve::property::VmConfig::default());
    away.config = Seen::Unreadable("pve2 is down".to_owned());
    observed.guests.insert(away.vmid, away);
    let plan = planned(&desired, &observed, &Request::default());
    assert!(steps(&plan).iter().all(|step| step.starts_with("w-1/") || step.starts_with("create-pool")));
    assert!(matches!(&plan.waiting[0], Waiting::HostDown { nodes, .. } if *nodes == [name("cp-1")]));
}

#[test]
fn an_interrupted_clone_is_finished() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    let mut guest = template(2000, "pve1");
    (guest.template, guest.name, guest.pool) = (false, Some("cp-1".to_owned()), desired.proxmox.pool.clone());
    observed.guests.insert(id(2000), guest);
    edit(&mut observed, 2000, |config| {
        config.remove("template");
        config.set("description", &mark("cp-1", 2000));
    });
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(
        steps(&plan),
        [
            "cp-1/configure create",
            "cp-1/grow-disk-scsi0 create after cp-1/configure",
            "cp-1/start create after cp-1/grow-disk-scsi0",
        ]
    );
}
