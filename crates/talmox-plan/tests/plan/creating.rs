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
    assert_eq!(set["sockets"], "1", "what is described is in its configuration, as `render vm` says");
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

/// The refusal of one node that is cloned from the template of the test bed, after the world was changed.
fn refused_after(change: impl FnOnce(&mut talmox_plan::Observed)) -> (String, Vec<String>) {
    let mut observed = empty();
    observed.guests.remove(&id(9001));
    change(&mut observed);
    let mut desired = desired(1, 0);
    desired.nodes[0].vm.template = Some(TemplateRef::Name("talos-1.13.9".to_owned()));
    desired.nodes[0].vm.host = Some(host("pve1"));
    let plan = planned(&desired, &observed, &Request::default());
    let [refusal] = plan.refusals.as_slice() else { panic!("{plan:?}") };
    (refusal.problem.clone(), refusal.choices.clone())
}

#[test]
fn a_template_that_will_not_do_is_refused_with_the_reason() {
    let edit = |key: &'static str, value: Option<&'static str>| {
        refused_after(move |observed| {
            let guest = observed.guests.get_mut(&id(9000)).unwrap();
            let talmox_plan::Seen::Read(seen) = &mut guest.config else { panic!() };
            for config in [&mut seen.live, &mut seen.next] {
                drop(config.remove("scsi0"));
                if let Some(value) = value {
                    config.set(key, value);
                }
            }
        })
    };
    let (problem, choices) = edit("", None);
    assert_eq!(problem, "the template talos-1.13.9 cannot be used: 9000 on pve1 has no disk to boot from");
    assert!(choices[0].contains("qm config 9000"), "{choices:?}");
    let (problem, _) = edit("ide0", Some("local-zfs:base-9000-disk-1,size=8G"));
    assert!(problem.ends_with("9000 on pve1 boots from ide0"), "{problem}");
    let (problem, _) = edit("ide2", Some("local-zfs:vm-9000-cloudinit,media=cdrom"));
    assert!(problem.ends_with("has no disk to boot from"), "{problem}");
    let (problem, choices) = refused_after(|observed| {
        observed.guests.get_mut(&id(9000)).unwrap().template = false;
    });
    assert!(problem.ends_with("9000 on pve1 is no template"), "{problem}");
    assert_eq!(choices, ["on pve1, if it may become one: qm template 9000"]);
    let (problem, _) = refused_after(|observed| {
        let guest = observed.guests.get_mut(&id(9000)).unwrap();
        guest.config = talmox_plan::Seen::Unreadable("host pve1 is offline".to_owned());
    });
    assert!(problem.ends_with("cannot be read: host pve1 is offline"), "{problem}");
    let (problem, choices) = refused_after(|observed| drop(observed.guests.remove(&id(9000))));
    assert_eq!(problem, "there is no template talos-1.13.9");
    assert!(choices[0].starts_with("there is none at all"), "{choices:?}");
}

#[test]
fn two_templates_of_one_name_on_one_host_are_one_too_many() {
    let twin = |observed: &mut talmox_plan::Observed| {
        observed.guests.insert(id(9005), template(9005, "pve1"));
    };
    let (problem, _) = refused_after(twin);
    assert!(problem.contains("pve1 has several templates talos-1.13.9 (9000 and 9005)"), "{problem}");
    // By its id it is one.
    let mut observed = empty();
    twin(&mut observed);
    let mut desired = desired(1, 0);
    desired.nodes[0].vm.template = Some(TemplateRef::Id(id(9005)));
    assert!(problems(&planned(&desired, &observed, &Request::default())).is_empty());
    // One of them that will not do is no choice.
    observed.guests.get_mut(&id(9000)).unwrap().lock = Some("backup".to_owned());
    desired.nodes[0].vm.template = Some(TemplateRef::Name("talos-1.13.9".to_owned()));
    desired.nodes[0].vm.host = Some(host("pve1"));
    let plan = planned(&desired, &observed, &Request::default());
    let Step::CloneVm { template, .. } = &plan.steps[1].step else { panic!("{plan:?}") };
    assert_eq!(template.vmid, id(9005));
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
fn what_a_clone_of_ours_still_needs_follows_once_proxmox_has_made_it() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    let mut guest = template(2000, "pve1");
    (guest.template, guest.name, guest.pool) = (false, Some("cp-1".to_owned()), desired.proxmox.pool.clone());
    observed.guests.insert(id(2000), guest);
    edit(&mut observed, 2000, |config| {
        config.remove("template");
        config.set("description", &mark("cp-1", 2000));
    });
    observed.guests.get_mut(&id(2000)).unwrap().lock = Some("clone".to_owned());
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(steps(&plan), [""; 0]);
    assert!(matches!(plan.waiting.as_slice(), [Waiting::Locked { .. }]));
    let later: Vec<&str> = plan.later.iter().map(|intent| intent.step.as_str()).collect();
    assert_eq!(later, ["configure", "grow-disk", "start"]);
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
