//! Changes of VMs that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use talmox_exec::{Outcome, StepError, execute};
use talmox_plan::{Effect, Expected, Step};
use talmox_pve::client::{ConfigChange, Method, Migration, NewHaResource, Params, VmPower};
use talmox_pve::property::{DiskSize, Slot, VmConfig};
use talmox_test::{Fault, Lab, When, host, storage, vmid};
use talmox_types::PoolName;

use crate::exec::support::{
    Bench, describe, description, expected, make_node, make_pool, mark, plan_of, planned, pool,
};

/// A VM of `cp-1`, stopped.
async fn prepared(lab: &Lab) {
    let client = lab.client();
    lab.template(&client, vmid(9000)).await;
    make_pool(lab).await;
    make_node(lab, &client, &mark("cp-1", 2000, "a1")).await;
}

async fn started(lab: &Lab) {
    let client = lab.client();
    let task = client.start_vm(&host(1), vmid(2000)).await.unwrap();
    lab.done(&client, &task).await.unwrap();
}

fn vm() -> Expected {
    expected("cp-1", 2000, "a1")
}

fn scsi(index: u8) -> Slot {
    Slot::parse(&format!("scsi{index}")).unwrap()
}

async fn config(lab: &Lab) -> VmConfig {
    lab.client().vm_config(&host(1), vmid(2000)).await.unwrap()
}

fn configure(pairs: &[(&str, &str)], digest: Option<&str>) -> Step {
    Step::ConfigureVm {
        vm: vm(),
        set: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        delete: BTreeSet::new(),
        drives: BTreeMap::new(),
        witness: false,
        digest: digest.map(str::to_owned),
    }
}

fn add_disk() -> Step {
    let value = "local-zfs:5,discard=on".to_owned();
    Step::AddDisk {
        vm: vm(),
        slot: scsi(1),
        storage: storage("local-zfs"),
        size: DiskSize::from_gib(5),
        value,
    }
}

/// Carries out one step on `cp-1`.
async fn carry_out(lab: &Lab, step: Step, effect: Effect) -> (Outcome, Bench) {
    let bench = Bench::new(description(1, 0, ""));
    let client = lab.client();
    let outcome = execute(&bench.run(&client), &plan_of(vec![planned("cp-1", step, effect, &[])])).await;
    (outcome, bench)
}

/// Carries it out twice: the second time there is nothing left to write.
async fn carry_out_twice(lab: &Lab, step: Step, effect: Effect) -> Bench {
    let (outcome, bench) = carry_out(lab, step.clone(), effect).await;
    assert!(outcome.is_complete() && outcome.wrote(), "{outcome:#?}\n{}", lab.calls());
    let writes = lab.calls().writes().count();
    let (outcome, _) = carry_out(lab, step, effect).await;
    assert!(outcome.is_complete() && !outcome.wrote(), "{outcome:#?}\n{}", lab.calls());
    assert_eq!(lab.calls().writes().count(), writes, "{}", lab.calls());
    bench
}

#[tokio::test(start_paused = true)]
async fn values_are_set_once_and_by_meaning() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let pairs = [("tags", "b,A"), ("agent", "1"), ("boot", "order=scsi0"), ("cores", "4")];
    carry_out_twice(&lab, configure(&pairs, None), Effect::ChangeLive).await;
    assert_eq!(config(&lab).await.get("tags"), Some("a;b"));
    // Whatever makes a volume happens in a task, and only in a free slot.
    let step = configure(&[("tpmstate0", "local-zfs:1,version=v2.0")], None);
    carry_out_twice(&lab, step, Effect::ChangeLive).await;
    let (outcome, _) =
        carry_out(&lab, configure(&[("tpmstate0", "local-zfs:1,version=v1.2")], None), Effect::ChangeLive)
            .await;
    assert!(matches!(outcome.failed[0].error, StepError::Changed { .. }), "{outcome:#?}");
    assert!(config(&lab).await.unused_disks().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_change_insists_on_the_state_it_was_decided_on() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let digest = config(&lab).await.digest().unwrap().to_owned();
    let other = ConfigChange::new().set("cores", "8").unwrap();
    lab.root().change_config(&host(1), vmid(2000), &other).await.unwrap();
    let (outcome, _) =
        carry_out(&lab, configure(&[("memory", "4096")], Some(&digest)), Effect::ChangeLive).await;
    assert!(matches!(outcome.failed[0].error, StepError::Changed { .. }), "{outcome:#?}");
    assert!(outcome.wants_another_plan());
    // Somebody made the very change that was planned: that is as good.
    let (outcome, _) = carry_out(&lab, configure(&[("cores", "8")], Some(&digest)), Effect::ChangeLive).await;
    assert!(outcome.is_complete() && !outcome.wrote(), "{outcome:#?}");
    assert_eq!(config(&lab).await.get("memory"), Some("2048"));
}

/// The step reads the VM, and somebody changes it before the step writes.
#[tokio::test(start_paused = true)]
async fn what_changes_between_look_and_write_is_looked_at_again() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    // What was read arrives late, so that it is old.
    let late = Fault::Simulated(talmox_sim::Fault::Slow { by: 5_000 });
    lab.plan(When::first(Method::Get, "/2000/config"), late);
    let meddling = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let other = ConfigChange::new().set("cores", "8").unwrap();
        lab.root().change_config(&host(1), vmid(2000), &other).await.unwrap();
    };
    let step = carry_out(&lab, configure(&[("memory", "4096")], None), Effect::ChangeLive);
    let ((outcome, _), ()) = tokio::join!(step, meddling);
    assert!(outcome.is_complete() && outcome.wrote(), "{outcome:#?}");
    let calls = lab.calls();
    let refused = calls.asking("PUT", "/2000/config").filter(|call| call.status() != Some(200));
    assert_eq!(refused.count(), 1, "the first was decided on an old state\n{calls}");
    let after = config(&lab).await;
    assert_eq!((after.get("memory"), after.get("cores")), (Some("4096"), Some("8")));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_change_is_looked_into() {
    for fault in [Fault::ReplyLost, Fault::reply(596, "Connection timed out"), Fault::Hang { reached: true }]
    {
        let lab = Lab::one_host(1);
        prepared(&lab).await;
        lab.plan(When::first(Method::Put, "/2000/config"), fault.clone());
        lab.plan(When::first(Method::Post, "/2000/config"), fault.clone());
        lab.plan(When::first(Method::Put, "/2000/resize"), fault.clone());
        let (outcome, _) = carry_out(&lab, configure(&[("memory", "4096")], None), Effect::ChangeLive).await;
        assert!(outcome.is_complete() && outcome.wrote(), "{fault:?}: {outcome:#?}");
        let (outcome, _) = carry_out(&lab, add_disk(), Effect::ChangeLive).await;
        assert!(outcome.is_complete() && outcome.wrote(), "{fault:?}: {outcome:#?}");
        let grow = Step::GrowDisk { vm: vm(), slot: scsi(0), to: DiskSize::from_gib(20) };
        let (outcome, _) = carry_out(&lab, grow, Effect::ChangeLive).await;
        assert!(outcome.is_complete() && outcome.wrote(), "{fault:?}: {outcome:#?}");
        let after = config(&lab).await;
        assert!(after.unused_disks().unwrap().is_empty());
        let images = lab.client().content(&host(1), &storage("local-zfs"), Some("images")).await.unwrap();
        let own = images.iter().filter(|volume| volume.volid.owner() == Some(vmid(2000)));
        assert_eq!(own.count(), 4, "no second disk: {images:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn disks_are_added_and_grown_once() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    carry_out_twice(&lab, add_disk(), Effect::ChangeLive).await;
    let grow = Step::GrowDisk { vm: vm(), slot: scsi(0), to: DiskSize::from_gib(20) };
    carry_out_twice(&lab, grow, Effect::ChangeLive).await;
    let disks = config(&lab).await.disks().unwrap();
    assert_eq!(disks[&scsi(0)].size, Some(DiskSize::from_gib(20)));
    assert_eq!(disks[&scsi(1)].size, Some(DiskSize::from_gib(5)));
}

#[tokio::test(start_paused = true)]
async fn a_slot_with_something_else_in_it_is_left_alone() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let params = Params::new().with("scsi1", "local-zfs:3");
    lab.root().put::<()>("/nodes/pve1/qemu/2000/config", params).await.unwrap();
    let before = config(&lab).await;
    let (outcome, _) = carry_out(&lab, add_disk(), Effect::ChangeLive).await;
    assert!(matches!(outcome.failed[0].error, StepError::Changed { .. }), "{outcome:#?}");
    assert_eq!(config(&lab).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_vm_joins_our_pool_and_leaves_no_other() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let root = lab.root();
    let other = PoolName::parse("theirs").unwrap();
    root.create_pool(&other, None).await.unwrap();
    let join = |pool: &PoolName| {
        plan_of(vec![planned(
            "cp-1",
            Step::JoinPool { vm: vm(), pool: pool.clone() },
            Effect::ChangeLive,
            &[],
        )])
    };
    let bench = Bench::new(description(1, 0, ""));
    let outcome = execute(&bench.run(&root), &join(&other)).await;
    assert!(matches!(outcome.failed[0].error, StepError::Changed { .. }), "{outcome:#?}");
    assert!(!execute(&bench.run(&root), &join(&pool())).await.wrote());
    let take_out =
        talmox_pve::client::PoolChange { vms: vec![vmid(2000)], remove: true, ..Default::default() };
    root.change_pool(&pool(), &take_out).await.unwrap();
    assert!(execute(&bench.run(&root), &join(&pool())).await.wrote());
    assert!(lab.world(|world| world.pools[pool().as_str()].vms.contains(&2000)));
}

#[tokio::test(start_paused = true)]
async fn power_is_changed_once() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    carry_out_twice(&lab, Step::StartVm { vm: vm() }, Effect::Start).await;
    carry_out_twice(&lab, Step::StopVm { vm: vm(), timeout: 60 }, Effect::Stop).await;
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_hear_is_switched_off() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    started(&lab).await;
    lab.world(|world| world.guests_react = false);
    carry_out_twice(&lab, Step::StopVm { vm: vm(), timeout: 60 }, Effect::Stop).await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_under_high_availability_is_waited_for() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    lab.world(|world| world.ha_manager = true);
    let resource = NewHaResource { state: Some("stopped".to_owned()), ..NewHaResource::default() };
    lab.root().add_ha_resource(vmid(2000), &resource).await.unwrap();
    carry_out_twice(&lab, Step::StartVm { vm: vm() }, Effect::Start).await;
    carry_out_twice(&lab, Step::StopVm { vm: vm(), timeout: 60 }, Effect::Stop).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_for_what_is_pending() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    started(&lab).await;
    let pending = async || {
        let items = lab.client().pending(&host(1), vmid(2000)).await.unwrap();
        items.into_iter().filter(talmox_pve::client::PendingItem::is_pending).count()
    };
    let (outcome, _) = carry_out(&lab, configure(&[("memory", "4096")], None), Effect::ChangePending).await;
    assert!(outcome.is_complete(), "{outcome:#?}");
    assert_eq!(pending().await, 1);
    let bench = carry_out_twice(&lab, Step::RebootVm { vm: vm(), timeout: 60 }, Effect::Reboot).await;
    assert_eq!((pending().await, bench.gate.asked()), (0, vec!["cp-1".to_owned()]));
    let status = lab.client().vm_status(&host(1), vmid(2000)).await.unwrap();
    assert_eq!(status.status, VmPower::Running);
}

#[tokio::test(start_paused = true)]
async fn what_a_guest_does_not_take_waits_and_is_told() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    started(&lab).await;
    lab.world(|world| world.guests_react = false);
    let mut step = configure(&[("description", &mark("cp-1", 2000, "a1").to_string())], None);
    if let Step::ConfigureVm { delete, .. } = &mut step {
        delete.insert("net0".to_owned());
    }
    let (outcome, bench) = carry_out(&lab, step, Effect::ChangeLive).await;
    assert!(outcome.is_complete(), "{outcome:#?}");
    assert!(bench.told.has("net0: the running guest did not take it"), "{:?}", bench.told.lines());
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_was_moved_is_changed_where_it_is() {
    let lab = Lab::three_hosts(1);
    prepared(&lab).await;
    let migration =
        Migration { target: host(2), online: false, with_local_disks: true, target_storage: None };
    // Linked clones cannot move with local disks, so it gets none.
    let root = lab.root();
    for key in ["scsi0", "efidisk0", "ide2"] {
        let change = ConfigChange::new().delete(key).destroying_volumes();
        let task = root.change_config_in_task(&host(1), vmid(2000), &change).await.unwrap().unwrap();
        lab.done(&root, &task).await.unwrap();
    }
    let task = root.migrate_vm(&host(1), vmid(2000), &migration).await.unwrap();
    lab.done(&root, &task).await.unwrap();
    let (outcome, _) = carry_out(&lab, configure(&[("cores", "3")], None), Effect::ChangeLive).await;
    assert!(outcome.is_complete() && outcome.wrote(), "{outcome:#?}\n{}", lab.calls());
    assert_eq!(lab.client().vm_config(&host(2), vmid(2000)).await.unwrap().get("cores"), Some("3"));
}

#[tokio::test(start_paused = true)]
async fn another_operation_on_the_vm_is_waited_for() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    lab.world(|world| world.set_lock(2000, Some("backup")));
    let unlock = async {
        tokio::time::sleep(Duration::from_mins(2)).await;
        lab.world(|world| world.set_lock(2000, None));
    };
    let (done, ()) =
        tokio::join!(carry_out(&lab, configure(&[("cores", "3")], None), Effect::ChangeLive), unlock);
    let (outcome, bench) = done;
    assert!(outcome.is_complete(), "{outcome:#?}\n{}", lab.calls());
    assert!(bench.told.has("for the backup of VM 2000 on pve1: locked (backup)"), "{:?}", bench.told.lines());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_to_a_vm_that_is_not_ours() {
    let steps = [
        configure(&[("cores", "3")], None),
        add_disk(),
        Step::GrowDisk { vm: vm(), slot: scsi(0), to: DiskSize::from_gib(20) },
        Step::JoinPool { vm: vm(), pool: pool() },
        Step::StartVm { vm: vm() },
        Step::RebootVm { vm: vm(), timeout: 60 },
        Step::StopVm { vm: vm(), timeout: 60 },
    ];
    for step in steps {
        let lab = Lab::one_host(1);
        prepared(&lab).await;
        describe(&lab, vmid(2000), "mine").await;
        let writes = lab.calls().writes().count();
        let (outcome, _) = carry_out(&lab, step, Effect::ChangeLive).await;
        assert!(matches!(outcome.failed[0].error, StepError::NotOurs { .. }), "{outcome:#?}");
        assert_eq!(lab.calls().writes().count(), writes);
    }
}
