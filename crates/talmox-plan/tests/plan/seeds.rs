//! Drives with configuration: when they come, when they go, and what is refused.

use talmox_plan::{
    Class, Effect, Goal, Observed, Plan, Power, Request, Rule, SeenFile, Step, Until, check, config_source,
    view,
};
use talmox_pve::property::{Smbios, VmConfig, VolumeId};
use talmox_types::Mark;
use talmox_types::desired::{ConfigDelivery, Desired, NetworkMode};

use crate::support::*;

fn described() -> Desired {
    let mut desired = crate::support::desired(1, 1);
    desired.talos.config_delivery = ConfigDelivery::Cidata;
    for node in &mut desired.nodes {
        node.vm.cloud_init = false;
    }
    desired
}

fn healthy() -> Request {
    Request { until: Until::Healthy, ..Request::default() }
}

fn volume(vmid: u32) -> VolumeId {
    VolumeId::parse(&format!("local:iso/talmox-seed-{UID}-{vmid}-00ff.iso")).unwrap()
}

fn words(plan: &Plan, node: &str) -> Vec<&'static str> {
    let of_node = |step: &&talmox_plan::Planned| step.node.as_ref().is_some_and(|name| name.as_str() == node);
    plan.steps.iter().filter(of_node).map(|step| step.step.word()).collect()
}

fn rules(plan: &Plan, desired: &Desired, observed: &Observed) -> Vec<Rule> {
    check(plan, desired, observed, &healthy()).into_iter().map(|violation| violation.rule).collect()
}

#[test]
fn a_new_vm_gets_its_drive_before_it_starts() {
    let (desired, observed) = (described(), empty());
    let plan = planned(&desired, &observed, &healthy());
    let words = words(&plan, "cp-1");
    let (drive, start) = (
        words.iter().position(|word| *word == "attach-seed"),
        words.iter().position(|word| *word == "start"),
    );
    assert!(drive.is_some() && drive < start, "{words:?}");
    assert!(rules(&plan, &desired, &observed).is_empty());
    // A run that ends before machines are looked at has no drive to give: the VM stays off, since it would start without one.
    let until_vms = Request { until: Until::Vms, ..Request::default() };
    let vms = planned(&desired, &observed, &until_vms);
    assert!(vms.steps.iter().all(|step| !matches!(step.step.word(), "attach-seed" | "start")), "{vms:#?}");
    assert!(vms.notes.iter().any(|note| note.text.starts_with("stays off")), "{vms:#?}");
}

#[test]
fn a_vm_that_stayed_off_gets_its_drive_in_the_run_that_goes_on() {
    let desired = described();
    let mut observed = converged(&desired);
    for guest in observed.guests.values_mut().filter(|guest| !guest.template) {
        guest.power = Power::Stopped;
    }
    let vms = planned(&desired, &observed, &Request { until: Until::Vms, ..Request::default() });
    assert!(vms.steps.is_empty(), "{vms:#?}");
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(words(&plan, "cp-1"), ["attach-seed", "start"]);
    // One that was configured needs none to start.
    edit(&mut observed, 2000, |config| {
        let mark = config.description().and_then(Mark::of_description).unwrap();
        config.set("description", &Mark { configured: true, ..mark });
    });
    let vms = planned(&desired, &observed, &Request { until: Until::Vms, ..Request::default() });
    assert_eq!(words(&vms, "cp-1"), ["start"]);
}

#[test]
fn two_drives_are_refused() {
    let (desired, observed) = (described(), empty());
    let mut plan = planned(&desired, &observed, &healthy());
    for step in &mut plan.steps {
        if let Step::ConfigureVm { set, .. } = &mut step.step {
            set.insert("ide0".to_owned(), "local-zfs:cloudinit".to_owned());
        }
    }
    assert!(rules(&plan, &desired, &observed).contains(&Rule::OneDrive));
    let mut other = desired.clone();
    other.talos.config_delivery = ConfigDelivery::Maintenance;
    let plan = planned(&desired, &observed, &healthy());
    assert!(rules(&plan, &other, &observed).contains(&Rule::AskedFor));
}

#[test]
fn what_a_run_left_behind_goes() {
    let desired = described();
    let mut observed = converged(&desired);
    let host = observed.hosts.keys().next().unwrap().clone();
    let file = SeenFile { volume: volume(2000), size: 1 };
    observed.files.insert((host, desired.proxmox.iso_storage.clone()), vec![file]);
    let plan = planned(&desired, &observed, &Request::default());
    let left: Vec<_> =
        plan.steps.iter().filter(|step| matches!(step.step, Step::RemoveSeed { .. })).collect();
    assert_eq!(left.len(), 1, "{plan:#?}");
    assert_eq!(left[0].effect, Effect::ChangeLive);
    // One that is in a VM is not left behind, and one of another cluster is none of our business.
    edit(&mut observed, 2000, |config| {
        config.set("ide0", &format!("{},media=cdrom", volume(2000)));
    });
    assert!(rules(&plan, &desired, &observed).contains(&Rule::OursOnly));
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.iter().all(|step| !matches!(step.step, Step::RemoveSeed { .. })), "{plan:#?}");
}

fn by_url() -> Desired {
    let mut desired = described();
    desired.talos.config_delivery = ConfigDelivery::Url;
    for node in &mut desired.nodes {
        node.vm.network_mode = NetworkMode::Dhcp;
    }
    desired
}

/// Has a VM fetch its configuration, as a run that was killed leaves it.
fn give_source(observed: &mut Observed, node: &str, vmid: u32) {
    let serial = mark(node, vmid).witness_serial_from("https://here/00ff/");
    edit(observed, vmid, |config: &mut VmConfig| {
        let held = config.smbios().unwrap().unwrap_or_default();
        config.set("smbios1", &Smbios { serial: Some(serial.clone()), ..held }.to_string());
    });
}

#[test]
fn a_new_vm_is_told_where_its_configuration_is_before_it_starts() {
    let (desired, observed) = (by_url(), empty());
    let plan = planned(&desired, &observed, &healthy());
    let found = words(&plan, "cp-1");
    let place = |word: &str| found.iter().position(|one| *one == word);
    assert!(place("publish-config").is_some() && place("publish-config") < place("start"), "{found:?}");
    assert!(rules(&plan, &desired, &observed).is_empty());
    let later: Vec<&str> = plan.later.iter().map(|intent| intent.step.as_str()).collect();
    assert!(later.contains(&"withdraw-config"), "{later:?}");
}

#[test]
fn an_address_beside_a_drive_or_without_dhcp_is_refused() {
    let (desired, observed) = (by_url(), empty());
    let plan = planned(&desired, &observed, &healthy());
    let mut static_address = desired.clone();
    for node in &mut static_address.nodes {
        node.vm.network_mode = NetworkMode::Static;
    }
    assert!(rules(&plan, &static_address, &observed).contains(&Rule::WellFormed));
    assert!(rules(&plan, &described(), &observed).contains(&Rule::AskedFor));
    let mut with_drive = plan.clone();
    for step in &mut with_drive.steps {
        if let Step::ConfigureVm { set, .. } = &mut step.step {
            set.insert("ide0".to_owned(), "local-zfs:cloudinit".to_owned());
        }
    }
    assert!(rules(&with_drive, &desired, &observed).contains(&Rule::OneDrive));
    // The other way round: a drive for a VM that fetches its configuration.
    let by_drive = described();
    let mut stopped = converged(&by_drive);
    give_source(&mut stopped, "cp-1", 2000);
    stopped.guests.get_mut(&id(2000)).unwrap().power = talmox_plan::Power::Stopped;
    let mut plan = planned(&by_drive, &stopped, &healthy());
    assert!(words(&plan, "cp-1").starts_with(&["withdraw-config", "attach-seed"]), "{plan:#?}");
    assert!(rules(&plan, &by_drive, &stopped).is_empty());
    plan.steps.retain(|step| !matches!(step.step, Step::WithdrawConfig { .. }));
    for step in &mut plan.steps {
        step.needs.retain(|needed| !needed.as_str().ends_with("withdraw-config"));
    }
    assert!(rules(&plan, &by_drive, &stopped).contains(&Rule::OneDrive));
}

#[test]
fn a_vm_that_fetches_its_configuration_is_still_ours_and_is_finished() {
    let desired = by_url();
    let mut observed = converged(&desired);
    give_source(&mut observed, "cp-1", 2000);
    assert!(matches!(class(&desired, &observed, 2000), Class::Ours(owned) if owned.finished));
    let seen = observed.guests[&id(2000)].seen().unwrap();
    assert_eq!(config_source(&seen.next).as_deref(), Some("https://here/00ff/"));
    // Nothing about the VM itself differs, and whoever looks is told.
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty(), "{plan:#?}");
    let shown = view(&desired, &observed);
    assert!(shown.nodes[0].notes.iter().any(|note| note.contains("smbios1")), "{shown:?}");
    assert!(!format!("{shown:?}").contains("00ff"), "the address is a secret");
}

#[test]
fn drives_are_shown_and_go_with_the_cluster() {
    let desired = described();
    let mut observed = converged(&desired);
    let place = (host("pve1"), desired.proxmox.iso_storage.clone());
    let files = [2000, 2001, 2007].map(|vmid| SeenFile { volume: volume(vmid), size: 1 });
    let other = VolumeId::parse("local:iso/talmox-seed-ffffffffffffffff-1-00ff.iso").unwrap();
    let files = files.into_iter().chain([SeenFile { volume: other.clone(), size: 1 }]).collect();
    observed.files.insert(place, files);
    edit(&mut observed, 2000, |config| {
        config.set("ide0", &format!("{},media=cdrom", volume(2000)));
    });
    let shown: Vec<(String, Option<u32>)> = view(&desired, &observed)
        .drives
        .into_iter()
        .map(|drive| (drive.volume.to_string(), drive.vmid.map(talmox_types::VmId::get)))
        .collect();
    let expected =
        [(2000, Some(2000)), (2001, None), (2007, None)].map(|(id, vm)| (volume(id).to_string(), vm));
    assert_eq!(shown, expected);
    // With everything all of them go, those in VMs after their VM.
    let request = Request { goal: Goal::Destroy, ..Request::default() };
    let plan = planned(&desired, &observed, &request);
    let removed = |plan: &Plan| -> Vec<String> {
        let volume = |step: &talmox_plan::Planned| match &step.step {
            Step::RemoveSeed { volume, .. } => Some(volume.to_string()),
            _ => None,
        };
        plan.steps.iter().filter_map(volume).collect()
    };
    assert_eq!(removed(&plan).len(), 3, "{plan:#?}");
    assert!(!removed(&plan).contains(&other.to_string()));
    assert!(check(&plan, &desired, &observed, &request).is_empty());
    let held = plan
        .steps
        .iter()
        .find(|step| matches!(&step.step, Step::RemoveSeed { volume: v, .. } if *v == volume(2000)));
    assert!(held.unwrap().needs.iter().any(|needed| needed.as_str() == "cp-1/remove"), "{plan:#?}");
    // With one node only its own goes.
    let one = Request { targets: [name("cp-1")].into(), ..request.clone() };
    assert_eq!(removed(&planned(&desired, &observed, &one)), [volume(2000).to_string()]);
    // Pruning takes what nobody has, and leaves another cluster's alone.
    let prune = Request { goal: Goal::PruneTemplates, ..Request::default() };
    let plan = planned(&desired, &observed, &prune);
    assert_eq!(removed(&plan), [volume(2001).to_string(), volume(2007).to_string()]);
    assert!(plan.steps.iter().all(|step| step.step.word() != "remove-image"), "{plan:#?}");
    assert!(check(&plan, &desired, &observed, &prune).is_empty());
    // A plan that calls a drive an image is refused: it could be another cluster's.
    let mut wrong = plan.clone();
    wrong.steps[0].step = Step::RemoveImage { host: host("pve1"), volume: other };
    wrong.steps[0].effect = Effect::Destroy;
    assert!(check(&wrong, &desired, &observed, &prune).iter().any(|one| one.rule == Rule::OursOnly));
}
