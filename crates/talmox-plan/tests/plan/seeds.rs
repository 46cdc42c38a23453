//! Drives with configuration: when they come, when they go, and what is refused.

use talmox_plan::{Effect, Observed, Plan, Request, Rule, SeenFile, Step, Until, check};
use talmox_pve::property::VolumeId;
use talmox_types::desired::{ConfigDelivery, Desired};

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
    // Only as far as configuration is part of it.
    let vms = planned(&desired, &observed, &Request { until: Until::Reachable, ..Request::default() });
    assert!(vms.steps.iter().all(|step| step.step.word() != "attach-seed"));
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
    edit(&mut observed, 2000, |config| config.set("ide0", &format!("{},media=cdrom", volume(2000))));
    assert!(rules(&plan, &desired, &observed).contains(&Rule::OursOnly));
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.iter().all(|step| !matches!(step.step, Step::RemoveSeed { .. })), "{plan:#?}");
}
