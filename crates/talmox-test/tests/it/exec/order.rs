//! What runs when: needs, room, turns, and the word to stop.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_exec::{Because, Limits, StepError, execute};
use talmox_plan::{CloneKind, Effect, Goal, Planned, Step};
use talmox_pve::client::{ConfigChange, Method};
use talmox_pve::property::{DiskSize, Slot};
use talmox_sim::{Reach, TaskRecord};
use talmox_test::{Fault, Lab, When, host, storage, vmid};

use crate::exec::support::{
    Bench, create, description, expected, make_node, make_pool, mark, node, plan_of, planned, remove,
};

const NODES: [(&str, u32); 6] = [
    ("cp-1", 2000),
    ("cp-2", 2001),
    ("cp-3", 2002),
    ("worker-1", 2003),
    ("worker-2", 2004),
    ("worker-3", 2005),
];

async fn prepared(lab: &Lab) {
    lab.template(&lab.client(), vmid(9000)).await;
    make_pool(lab).await;
}

/// Six running VMs with a change that waits for a restart.
async fn running(lab: &Lab) {
    prepared(lab).await;
    let client = lab.client();
    for (name, id) in NODES {
        make_node(lab, &client, &mark(name, id, "a1")).await;
        let task = client.start_vm(&host(1), vmid(id)).await.unwrap();
        lab.done(&client, &task).await.unwrap();
        let change = ConfigChange::new().set("memory", "4096").unwrap();
        client.change_config(&host(1), vmid(id), &change).await.unwrap();
    }
}

fn restarts() -> Vec<Planned> {
    let restart = |(name, id): (&str, u32)| {
        let vm = expected(name, id, "a1");
        planned(name, Step::RebootVm { vm, timeout: 60 }, Effect::Reboot, &[])
    };
    NODES.map(restart).into()
}

fn creations() -> Vec<Planned> {
    NODES.iter().flat_map(|(name, id)| create(name, *id)).collect()
}

/// The most steps of these kinds that were under way at once.
fn most_at_once(lines: &[String], counts: impl Fn(&str) -> bool) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for line in lines {
        let (word, step) = line.split_once(' ').unwrap();
        if !counts(step) {
            continue;
        }
        match word {
            "started" => now += 1,
            "done" | "failed" => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// The most tasks of these kinds the host worked on at once.
fn most_tasks(tasks: &[TaskRecord], kinds: &[&str]) -> usize {
    let tasks = || tasks.iter().filter(|task| kinds.contains(&task.kind.as_str()));
    let runs_at = |moment: u64| tasks().filter(|task| task.spawned <= moment && moment < task.ended).count();
    tasks().map(|task| runs_at(task.spawned)).max().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn limits_are_kept() {
    for (limits, clones, starts, steps) in [
        (Limits { parallelism: 8, per_host: 8, per_storage: 2, per_template: 3 }, 3, 8, 8),
        (Limits { parallelism: 8, per_host: 2, per_storage: 2, per_template: 3 }, 3, 2, 6),
        (Limits { parallelism: 2, per_host: 8, per_storage: 2, per_template: 6 }, 2, 2, 2),
        (Limits { parallelism: 8, per_host: 1, per_storage: 8, per_template: 8 }, 3, 1, 3),
        (Limits { parallelism: 0, per_host: 0, per_storage: 0, per_template: 0 }, 1, 1, 1),
    ] {
        let lab = Lab::one_host(1);
        prepared(&lab).await;
        let mut bench = Bench::new(description(3, 3, ""));
        bench.limits = limits;
        let client = lab.client();
        let outcome = execute(&bench.run(&client), &plan_of(creations())).await;
        assert!(outcome.is_complete(), "{outcome:#?}");
        let tasks = lab.world(|world| world.task_records());
        assert!(most_tasks(&tasks, &["qmclone"]) <= clones, "{tasks:#?}");
        let at_once = most_tasks(&tasks, &["qmstart"]);
        assert!(at_once <= starts && (at_once > 1 || starts == 1), "{tasks:#?}");
        let lines = bench.told.lines();
        assert!(most_at_once(&lines, |_| true) <= steps, "{lines:#?}");
    }
}

/// A clone that stands on its template's disk is no work for a host; one that copies it is.
#[tokio::test(start_paused = true)]
async fn copies_take_turns_with_other_work() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let mut steps = creations();
    for planned in &mut steps {
        if let Step::CloneVm { clone, .. } = &mut planned.step {
            *clone = CloneKind::Full { storage: storage("local-zfs") };
        }
    }
    let mut bench = Bench::new(description(3, 3, ""));
    bench.limits = Limits { parallelism: 8, per_host: 2, per_storage: 8, per_template: 8 };
    let client = lab.client();
    let outcome = execute(&bench.run(&client), &plan_of(steps)).await;
    assert!(outcome.is_complete(), "{outcome:#?}");
    let tasks = lab.world(|world| world.task_records());
    assert_eq!(most_tasks(&tasks, &["qmclone", "qmstart"]), 2, "{tasks:#?}");
}

/// Proxmox lets allocations on a storage through one by one, and gives up on those that waited too long.
#[tokio::test(start_paused = true)]
async fn few_steps_allocate_on_one_storage() {
    let lab = Lab::one_host(1);
    running(&lab).await;
    let disk = |(name, id): (&str, u32)| {
        let step = Step::AddDisk {
            vm: expected(name, id, "a1"),
            slot: Slot::parse("scsi1").unwrap(),
            storage: storage("local-zfs"),
            size: DiskSize::from_gib(5),
            value: "local-zfs:5".to_owned(),
        };
        planned(name, step, Effect::ChangeLive, &[])
    };
    let mut bench = Bench::new(description(3, 3, ""));
    bench.limits = Limits { parallelism: 8, per_host: 8, per_storage: 2, per_template: 8 };
    let client = lab.client();
    let outcome = execute(&bench.run(&client), &plan_of(NODES.map(disk).into())).await;
    assert!(outcome.is_complete() && outcome.done.len() == NODES.len(), "{outcome:#?}");
    let tasks = lab.world(|world| world.task_records());
    assert_eq!(most_tasks(&tasks, &["qmconfig"]), 2, "{tasks:#?}");
}

#[tokio::test(start_paused = true)]
async fn one_control_plane_and_one_worker_are_down_at_a_time() {
    let lab = Lab::one_host(1);
    running(&lab).await;
    let bench = Bench::new(description(3, 3, ""));
    let client = lab.client();
    let outcome = execute(&bench.run(&client), &plan_of(restarts())).await;
    assert!(outcome.is_complete(), "{outcome:#?}");
    let lines = bench.told.lines();
    assert_eq!(most_at_once(&lines, |step| step.starts_with("cp-")), 1);
    assert_eq!(most_at_once(&lines, |step| step.starts_with("worker-")), 1);
    assert_eq!(bench.gate.asked().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn the_gate_keeps_a_node_up_and_those_after_it() {
    let lab = Lab::one_host(1);
    running(&lab).await;
    let mut bench = Bench::new(description(3, 3, ""));
    bench.gate.refuses.insert(node("cp-1"));
    let client = lab.client();
    let outcome = execute(&bench.run(&client), &plan_of(restarts())).await;
    let [failure] = outcome.failed.as_slice() else { panic!("{outcome:#?}") };
    assert_eq!(failure.error.to_string(), "not allowed to take cp-1 down: etcd would lose its majority");
    assert!(outcome.skipped.iter().all(|skip| skip.because == Because::NotBack(node("cp-1"))));
    assert_eq!((outcome.skipped.len(), outcome.done.len()), (2, 3), "workers are another matter");
    assert_eq!(lab.calls().asking("POST", "/status/reboot").count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_its_turn_until_it_is_back() {
    let lab = Lab::one_host(1);
    running(&lab).await;
    let bench = Bench::new(description(3, 3, ""));
    let client = lab.client();
    // Replacing: stop, remove, clone anew. The next control plane must not go between.
    let replaced = |name: &str, id: u32| {
        let mut steps = remove(name, id, "a1");
        let mut made = create(name, id);
        made[0].needs.push(steps[1].id.clone());
        steps.append(&mut made);
        steps
    };
    let steps = [replaced("cp-1", 2000), replaced("cp-2", 2001)].concat();
    let outcome = execute(&bench.run(&client), &plan_of(steps)).await;
    assert!(outcome.is_complete(), "{outcome:#?}\n{}", lab.calls());
    let lines = bench.told.lines();
    let at = |text: &str| lines.iter().position(|line| line == text).unwrap();
    assert!(at("done cp-1/start") < at("started cp-2/stop"), "{lines:#?}");
    assert_eq!(bench.gate.asked(), ["cp-1", "cp-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_whole_cluster_goes_at_once() {
    let lab = Lab::one_host(1);
    running(&lab).await;
    let mut bench = Bench::new(description(3, 3, ""));
    bench.request.goal = Goal::Destroy;
    let client = lab.client();
    let steps = NODES.iter().flat_map(|(name, id)| remove(name, *id, "a1")).collect();
    let outcome = execute(&bench.run(&client), &plan_of(steps)).await;
    assert!(outcome.is_complete(), "{outcome:#?}");
    assert!(most_at_once(&bench.told.lines(), |step| step.starts_with("cp-")) > 1);
    assert!(bench.gate.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_it_finishes_what_is_under_way() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let bench = Bench::new(description(3, 3, ""));
    let client = lab.client();
    let (run, plan) = (bench.run(&client), plan_of(creations()));
    let interrupt = async {
        while lab.calls().asking("POST", "/9000/clone").count() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bench.stop.cancel();
    };
    let (outcome, ()) = tokio::join!(execute(&run, &plan), interrupt);
    assert!(outcome.interrupted && outcome.failed.is_empty(), "{outcome:#?}");
    assert!(outcome.skipped.iter().all(|skip| skip.because == Because::Interrupted));
    assert_eq!(outcome.done.len() + outcome.skipped.len(), 18);
    assert_eq!(outcome.done.len(), 3, "the clones that had begun: {outcome:#?}");
    // No VM is left half made, and the same plan goes on from there.
    bench_again(&lab, &plan).await;
}

async fn bench_again(lab: &Lab, plan: &talmox_plan::Plan) {
    let bench = Bench::new(description(3, 3, ""));
    let client = lab.client();
    let outcome = execute(&bench.run(&client), plan).await;
    assert!(outcome.is_complete(), "{outcome:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_goes_down_fails_its_own_steps_only() {
    let lab = Lab::three_hosts(1);
    prepared(&lab).await;
    // Two nodes on other hosts, made beforehand; their hosts differ in luck.
    let client = lab.client_through(1);
    let mut steps = create("cp-1", 2000);
    let text = mark("cp-2", 2001, "a1").to_string();
    crate::exec::support::make_vm(&lab, &client, 2, vmid(2001), &[("name", "cp-2"), ("description", &text)])
        .await;
    let mut vm = expected("cp-2", 2001, "a1");
    vm.host = host(2);
    steps.push(planned("cp-2", Step::StartVm { vm }, Effect::Start, &[]));
    let fault = Fault::HostDown { host: "pve2".to_owned(), reach: Reach::ProxyDown };
    lab.plan(When::first(Method::Post, "/9000/clone"), fault);
    let bench = Bench::new(description(3, 0, ""));
    let plan = plan_of(steps);
    let outcome = execute(&bench.run(&client), &plan).await;
    let failed: BTreeMap<String, String> =
        outcome.failed.iter().map(|f| (f.step.to_string(), f.error.to_string())).collect();
    let done: Vec<String> = outcome.done.iter().map(|done| done.step.to_string()).collect();
    assert!(done.contains(&"cp-1/start".to_owned()), "{outcome:#?}");
    assert!(failed.keys().all(|step| step == "cp-2/start"), "{failed:?}");
    lab.world(|world| world.nodes.get_mut("pve2").unwrap().reach = Reach::Up);
    let outcome = execute(&bench.run(&client), &plan).await;
    assert!(outcome.is_complete(), "{outcome:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_step_takes_along_what_needs_it() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    lab.plan(When::every(Method::Put, "/2000/config"), Fault::reply(500, "it broke"));
    lab.plan(When::every(Method::Post, "/2000/config"), Fault::reply(500, "it broke"));
    let bench = Bench::new(description(3, 3, ""));
    let client = lab.client();
    let outcome = execute(&bench.run(&client), &plan_of(creations())).await;
    let [failure] = outcome.failed.as_slice() else { panic!("{outcome:#?}") };
    assert!(matches!(failure.error, StepError::Call { .. }));
    assert_eq!(failure.step.to_string(), "cp-1/configure");
    let [skip] = outcome.skipped.as_slice() else { panic!("{outcome:#?}") };
    assert_eq!(skip.because, Because::Needs(failure.step.clone()));
    assert_eq!(outcome.done.len(), 16);
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_is_told_whether_there_may_be_an_etcd() {
    let lab = Lab::one_host(1);
    running(&lab).await;
    let client = lab.client();
    let bench = Bench::new(description(3, 3, ""));
    let restarts = |name: &str| {
        let all = restarts().into_iter();
        plan_of(all.filter(|step| step.node == Some(node(name))).collect())
    };
    execute(&bench.run(&client), &restarts("cp-2")).await;
    assert_eq!((bench.gate.asked().len(), bench.gate.begun().len()), (1, 0), "nothing was ever begun");
    // Somebody has bootstrapped it since.
    let word = talmox_types::BootstrapWord { incarnation: "a1".to_owned(), done: true, snapshot: None };
    let begun = talmox_types::Mark { bootstrap: Some(word), ..mark("cp-1", 2000, "a1") };
    let change = ConfigChange::new().set("description", &begun.to_string()).unwrap();
    client.change_config(&host(1), vmid(2000), &change).await.unwrap();
    execute(&bench.run(&client), &restarts("cp-3")).await;
    assert_eq!(bench.gate.begun(), ["cp-3".to_owned()].into());
}
