//! Plans that must not be carried out, each broken in one way.

use std::collections::BTreeSet;

use talmox_plan::{
    Change, Depth, Effect, Goal, Plan, Planned, Request, Rule, Seen, Step, StepId, check, plan,
};
use talmox_pve::property::DiskSize;
use talmox_types::desired::{Desired, ExtraDisk};

use crate::support::*;

/// Rules a plan breaks, once each.
fn broken(plan: &Plan, desired: &Desired, observed: &talmox_plan::Observed, request: &Request) -> Vec<Rule> {
    let rules: BTreeSet<Rule> =
        check(plan, desired, observed, request).into_iter().map(|violation| violation.rule).collect();
    rules.into_iter().collect()
}

type Edit = Box<dyn Fn(&mut talmox_plan::Observed)>;

fn destroy() -> Request {
    Request { goal: Goal::Destroy, ..Request::default() }
}

/// A good plan that destroys three control planes, and what it stands on.
fn destruction() -> (Desired, talmox_plan::Observed, Plan) {
    let desired = desired(3, 0);
    let observed = converged(&desired);
    let plan = planned(&desired, &observed, &destroy());
    (desired, observed, plan)
}

fn removal(plan: &mut Plan) -> &mut Planned {
    plan.steps.iter_mut().find(|step| matches!(step.step, Step::RemoveVm { .. })).unwrap()
}

#[test]
fn a_vm_that_lost_its_mark_or_changed_hands() {
    let (desired, observed, plan) = destruction();
    let tries: Vec<(&str, Edit)> = vec![
        (
            "no mark",
            Box::new(|o| {
                edit(o, 2000, |config| {
                    config.remove("description");
                })
            }),
        ),
        (
            "another incarnation",
            Box::new(|o| {
                edit(o, 2000, |config| {
                    let text = config.description().unwrap().replace("aaaa0001", "cccc0003");
                    config.set("description", &text);
                })
            }),
        ),
        (
            "another VM's mark",
            Box::new(|o| {
                edit(o, 2000, |config| {
                    config.set("description", &mark("cp-1", 2001));
                })
            }),
        ),
        (
            "another serial",
            Box::new(|o| {
                edit(o, 2000, |config| {
                    let other = config.get("smbios1").unwrap().to_owned();
                    let mut smbios = talmox_pve::property::Smbios::parse(&other).unwrap();
                    smbios.serial = Some("h=cp-9;i=2000".to_owned());
                    config.set("smbios1", &smbios);
                })
            }),
        ),
        ("a template", Box::new(|o| o.guests.get_mut(&id(2000)).unwrap().template = true)),
        ("locked", Box::new(|o| o.guests.get_mut(&id(2000)).unwrap().lock = Some("backup".to_owned()))),
        ("elsewhere", Box::new(|o| o.guests.get_mut(&id(2000)).unwrap().host = host("pve2"))),
        ("unreadable", Box::new(|o| o.guests.get_mut(&id(2000)).unwrap().config = Seen::NotAsked)),
        (
            "gone",
            Box::new(|o| {
                o.guests.remove(&id(2000));
            }),
        ),
    ];
    for (what, change) in tries {
        let mut world = observed.clone();
        change(&mut world);
        assert!(broken(&plan, &desired, &world, &destroy()).contains(&Rule::OursOnly), "{what}");
    }
}

#[test]
fn another_clusters_vm() {
    let (mut desired, observed, plan) = destruction();
    desired.uid = Some(talmox_types::ClusterUid::parse("ffffffffffffffff").unwrap());
    assert!(broken(&plan, &desired, &observed, &destroy()).contains(&Rule::OursOnly));
}

#[test]
fn removal_nobody_asked_for() {
    let (desired, observed, plan) = destruction();
    assert!(broken(&plan, &desired, &observed, &Request::default()).contains(&Rule::AskedFor));
    let targets = BTreeSet::from([name("cp-1")]);
    let partly = Request { targets, ..destroy() };
    assert!(broken(&plan, &desired, &observed, &partly).contains(&Rule::AskedFor));
}

#[test]
fn volumes_that_must_stay_or_are_not_named() {
    let (mut desired, mut observed, mut plan) = destruction();
    removal(&mut plan).destroys.pop();
    assert_eq!(broken(&plan, &desired, &observed, &destroy()), [Rule::Volumes]);

    let (_, _, plan) = destruction();
    edit(&mut observed, 2000, |config| {
        config.set("unused3", "local-zfs:vm-2000-disk-9");
    });
    assert_eq!(broken(&plan, &desired, &observed, &destroy()), [Rule::Volumes]);

    let disk = ExtraDisk { slot: 1, size: 5, storage: storage("local-zfs"), keep: false, mount: None };
    desired.nodes[0].vm.extra_disks = vec![disk];
    let observed = converged(&desired);
    let plan = planned(&desired, &observed, &destroy());
    desired.nodes[0].vm.extra_disks[0].keep = true;
    assert_eq!(broken(&plan, &desired, &observed, &destroy()), [Rule::Volumes]);

    let (desired, mut observed, plan) = destruction();
    edit(&mut observed, 2000, |config| {
        config.set("scsi8", "local-zfs:vm-9999-pvc-1,size=8G");
    });
    assert_eq!(broken(&plan, &desired, &observed, &destroy()), [Rule::Volumes]);
}

#[test]
fn two_control_planes_down_at_once() {
    let mut desired = desired(3, 0);
    let observed = converged(&desired);
    for node in &mut desired.nodes {
        node.vm.memory = 16384;
    }
    let request = Request { allow_reboot: true, ..Request::default() };
    let mut plan = planned(&desired, &observed, &request);
    assert!(broken(&plan, &desired, &observed, &Request::default()).contains(&Rule::AskedFor));
    for step in &mut plan.steps {
        step.needs.retain(|need| need.as_str() != "cp-1/reboot");
    }
    assert_eq!(broken(&plan, &desired, &observed, &request), [Rule::OneAtATime]);
}

#[test]
fn a_vm_made_where_something_is() {
    let desired = desired(1, 0);
    let observed = empty();
    let plan = planned(&desired, &observed, &Request::default());
    let mut taken = observed.clone();
    let other = stranger(2000, "pve1", "x", [("name", "x")].into_iter().collect());
    taken.guests.insert(other.vmid, other);
    assert!(broken(&plan, &desired, &taken, &Request::default()).contains(&Rule::OursOnly));
    let shallow = talmox_plan::Observed { depth: Depth::Candidates, ..observed.clone() };
    assert_eq!(broken(&plan, &desired, &shallow, &Request::default()), [Rule::OursOnly]);
    let mut twin = observed.clone();
    let there = finished(&desired, "cp-1", 2044, "pve2");
    twin.guests.insert(there.vmid, there);
    assert_eq!(broken(&plan, &desired, &twin, &Request::default()), [Rule::OursOnly]);
    let mut no_template = observed;
    no_template.guests.get_mut(&id(9000)).unwrap().template = false;
    assert_eq!(broken(&plan, &desired, &no_template, &Request::default()), [Rule::OursOnly]);
}

#[test]
fn disks_that_would_be_lost() {
    let mut desired = desired(1, 0);
    let observed = converged(&desired);
    desired.nodes[0].vm.disk_size = 200;
    desired.nodes[0].vm.cores = 8;
    let good = planned(&desired, &observed, &Request::default());
    let mut shrinking = good.clone();
    for step in &mut shrinking.steps {
        if let Step::GrowDisk { to, .. } = &mut step.step {
            *to = DiskSize::from_gib(50);
        }
    }
    assert_eq!(broken(&shrinking, &desired, &observed, &Request::default()), [Rule::DisksGrow]);
    let mut replacing = good.clone();
    let mut detaching = good.clone();
    let mut secret = good;
    for (plan, key, value) in [
        (&mut replacing, "scsi0", Some("local-zfs:100")),
        (&mut detaching, "scsi0", None),
        (&mut secret, "cipassword", Some("hunter2")),
    ] {
        let Step::ConfigureVm { set, delete, .. } = &mut plan.steps[0].step else { panic!() };
        match value {
            Some(value) => drop(set.insert(key.to_owned(), value.to_owned())),
            None => drop(delete.insert(key.to_owned())),
        }
    }
    assert_eq!(broken(&replacing, &desired, &observed, &Request::default()), [Rule::DisksGrow]);
    assert_eq!(broken(&detaching, &desired, &observed, &Request::default()), [Rule::AskedFor]);
    assert_eq!(broken(&secret, &desired, &observed, &Request::default()), [Rule::NoSecrets]);
}

#[test]
fn a_slot_that_holds_something() {
    let mut desired = desired(1, 0);
    let disk = ExtraDisk { slot: 1, size: 5, storage: storage("local-zfs"), keep: false, mount: None };
    let mut observed = converged(&desired);
    desired.nodes[0].vm.extra_disks = vec![disk];
    let plan = planned(&desired, &observed, &Request::default());
    edit(&mut observed, 2000, |config| {
        config.set("scsi1", "local-zfs:vm-9999-pvc-1,size=8G");
    });
    assert_eq!(broken(&plan, &desired, &observed, &Request::default()), [Rule::DisksGrow]);
}

#[test]
fn plans_that_are_none() {
    let (desired, observed, good) = destruction();
    let mut cyclic = good.clone();
    cyclic.steps.reverse();
    assert_eq!(broken(&cyclic, &desired, &observed, &destroy()), [Rule::WellFormed]);
    let mut twice = good.clone();
    let first = twice.steps[0].clone();
    twice.steps.push(first);
    assert_eq!(broken(&twice, &desired, &observed, &destroy()), [Rule::WellFormed]);
    let mut lying = good.clone();
    removal(&mut lying).effect = Effect::ChangeLive;
    assert_eq!(broken(&lying, &desired, &observed, &destroy()), [Rule::WellFormed]);
    let mut replaced = good.clone();
    removal(&mut replaced).effect = Effect::Replace;
    assert_eq!(broken(&replaced, &desired, &observed, &destroy()), [Rule::WellFormed]);
    let mut refused = good;
    refused.refusals.push(talmox_plan::Refusal {
        node: Some(name("cp-1")),
        problem: String::new(),
        choices: Vec::new(),
    });
    assert_eq!(broken(&refused, &desired, &observed, &destroy()), [Rule::WellFormed]);
}

#[test]
fn a_pool_of_somebody_else() {
    let (desired, mut observed, plan) = destruction();
    observed.pool.as_mut().unwrap().comment = Some("mine".to_owned());
    assert_eq!(broken(&plan, &desired, &observed, &destroy()), [Rule::OursOnly]);
    let (_, mut observed, plan) = destruction();
    observed.pool.as_mut().unwrap().members.insert("storage/pve1/local".to_owned());
    assert_eq!(broken(&plan, &desired, &observed, &destroy()), [Rule::OursOnly]);
}

#[test]
fn a_disk_of_somebody_else() {
    let mut desired = desired(1, 0);
    let observed = converged(&desired);
    desired.nodes[0].vm.disk_size = 200;
    let grows = planned(&desired, &observed, &Request::default());
    desired.nodes[0].vm.disk_size = 100;
    desired.nodes[0].vm.disk_options.ssd = !desired.nodes[0].vm.disk_options.ssd;
    let options = planned(&desired, &observed, &Request::default());
    for plan in [grows, options] {
        assert!(!plan.steps.is_empty());
        let mut swapped = observed.clone();
        edit(&mut swapped, 2000, |config| {
            let disk = config.get("scsi0").unwrap().replace("vm-2000-disk", "vm-9999-disk");
            config.set("scsi0", &disk);
        });
        assert_eq!(broken(&plan, &desired, &swapped, &Request::default()), [Rule::OursOnly]);
    }
}

#[test]
fn a_restart_nobody_allowed() {
    let desired = desired(1, 0);
    let observed = converged(&desired);
    let mut plan = plan(&desired, &observed, &Request::default(), &nonce());
    let vm = talmox_plan::Expected { host: host("pve1"), mark: mark("cp-1", 2000) };
    plan.steps.push(Planned {
        id: StepId::new(Some(&name("cp-1")), "reboot"),
        needs: Vec::new(),
        node: Some(name("cp-1")),
        step: Step::RebootVm { vm: vm.clone(), timeout: 60 },
        reason: String::new(),
        effect: Effect::Reboot,
        changes: Vec::<Change>::new(),
        destroys: Vec::new(),
    });
    assert_eq!(broken(&plan, &desired, &observed, &Request::default()), [Rule::AskedFor]);
    plan.steps[0].step = Step::StopVm { vm, timeout: 60 };
    plan.steps[0].effect = Effect::Stop;
    assert_eq!(broken(&plan, &desired, &observed, &Request::default()), [Rule::AskedFor]);
}
