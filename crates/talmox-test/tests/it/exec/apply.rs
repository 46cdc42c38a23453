//! Whole rounds: look, plan, carry out, until nothing is left.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_exec::{ApplyError, StepError, Summary, apply, observe};
use talmox_plan::{Goal, Nonce, Plan, Waiting, check, plan};
use talmox_pve::client::{Client, Method, VmPower};
use talmox_test::{Fault, Lab, Seeded, When, host, vmid};
use talmox_types::{Mark, NodeName};

use crate::exec::support::{Bench, description, make_node, make_pool, make_vm, mark, node};

async fn prepared(lab: &Lab) {
    lab.template(&lab.client(), vmid(9000)).await;
    make_pool(lab).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
}

/// The plan for what a bench wants, which must be a sound one.
async fn planned(bench: &Bench, client: &Client) -> Plan {
    let observed = observe(client, &bench.desired).await.unwrap();
    let plan = plan(&bench.desired, &observed, &bench.request, &bench.nonce);
    assert_eq!(plan.refusals, [], "{:#?}", observed.guests);
    assert_eq!(check(&plan, &bench.desired, &observed, &bench.request), []);
    plan
}

async fn plan_and_apply(bench: &Bench, client: &Client) -> Result<Summary, ApplyError> {
    let plan = planned(bench, client).await;
    apply(&bench.run(client), &plan).await
}

/// The VMs of each node.
async fn vms(lab: &Lab) -> BTreeMap<String, Vec<u32>> {
    let client = lab.client();
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let ids = lab.world(|world| (100..=9999).filter(|id| world.has_vm(*id)).collect::<Vec<_>>());
    for id in ids.into_iter().filter(|id| *id != 9000) {
        let config = client.vm_config(&host(1), vmid(id)).await.unwrap();
        let mark = config.description().and_then(Mark::of_description);
        let name = mark.map_or_else(|| "foreign".to_owned(), |mark| mark.node.to_string());
        found.entry(name).or_default().push(id);
    }
    found
}

/// Whether every node has one VM, which runs, and nothing is left to do.
async fn assert_converged(lab: &Lab, bench: &Bench, client: &Client) {
    let found = vms(lab).await;
    for declared in &bench.desired.nodes {
        let [id] = found[declared.name.as_str()].as_slice() else { panic!("{found:?}\n{}", lab.calls()) };
        let status = lab.client().vm_status(&host(1), vmid(*id)).await.unwrap();
        assert_eq!(status.status, VmPower::Running, "{}", declared.name);
    }
    let plan = planned(bench, client).await;
    assert!(plan.is_empty() && plan.waiting.is_empty(), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn from_nothing_to_a_cluster_and_back() {
    let lab = Lab::one_host(1);
    lab.template(&lab.client(), vmid(9000)).await;
    let client = lab.root();
    let mut bench = Bench::new(description(3, 3, ""));
    let summary = plan_and_apply(&bench, &client).await.unwrap();
    assert_eq!((summary.rounds, summary.made, summary.removed), (1, 6, 0), "{summary:?}");
    assert_converged(&lab, &bench, &client).await;
    let writes = lab.calls().writes().count();
    assert_eq!(plan_and_apply(&bench, &client).await.unwrap(), Summary::default());
    assert_eq!(lab.calls().writes().count(), writes);
    bench.request.goal = Goal::Destroy;
    let summary = plan_and_apply(&bench, &client).await.unwrap();
    assert_eq!((summary.made, summary.removed), (0, 6), "{summary:?}");
    assert!(vms(&lab).await.is_empty());
    assert!(lab.world(|world| world.pools.is_empty()), "the pool was ours and is gone too");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_built_anew_once() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    let mut bench = Bench::new(description(1, 1, ""));
    plan_and_apply(&bench, &client).await.unwrap();
    bench.request.replace.insert(node("worker-1"));
    bench.nonce = Nonce::new(0xb2);
    let summary = plan_and_apply(&bench, &client).await.unwrap();
    assert_eq!((summary.rounds, summary.made, summary.removed), (1, 1, 1), "{summary:?}");
    bench.request.replace.clear();
    assert_converged(&lab, &bench, &client).await;
}

#[tokio::test(start_paused = true)]
async fn ids_that_were_taken_meanwhile_are_left_to_their_owners() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    let bench = Bench::new(description(3, 0, ""));
    let plan = planned(&bench, &client).await;
    for id in [2000, 2002] {
        make_vm(&lab, &client, 1, vmid(id), &[("name", "mail"), ("memory", "512")]).await;
    }
    let before = lab.world(|world| [2000, 2002].map(|id| world.config_digest(id)));
    let summary = apply(&bench.run(&client), &plan).await.unwrap();
    assert_eq!((summary.rounds, summary.made), (2, 3), "{summary:?}");
    assert_eq!(lab.world(|world| [2000, 2002].map(|id| world.config_digest(id))), before);
    assert_eq!(vms(&lab).await["foreign"], [2000, 2002]);
    assert_converged(&lab, &bench, &client).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_not_approved_is_not_done() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    let bench = Bench::new(description(1, 1, ""));
    let mut plan = planned(&bench, &client).await;
    plan.steps.retain(|step| step.node == Some(node("cp-1")));
    let error = apply(&bench.run(&client), &plan).await.unwrap_err();
    let ApplyError::OutsideApproval { beyond, summary } = &error else { panic!("{error:?}") };
    assert!(beyond.iter().all(|intent| intent.node == Some(node("worker-1"))), "{beyond:?}");
    assert_eq!(summary.made, 1);
    assert_eq!(vms(&lab).await.into_keys().collect::<Vec<_>>(), ["cp-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_vm_somebody_else_makes_is_waited_for() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    lab.world(|world| world.timing.create = 20_000);
    let (client, other) = (lab.client(), lab.client());
    let theirs = mark("cp-1", 2000, "b2");
    let making = make_node(&lab, &other, &theirs);
    let bench = Bench::new(description(1, 0, ""));
    let ours = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let plan = planned(&bench, &client).await;
        // Its first disk is copied, so its mark is there already.
        let [Waiting::Locked { lock, .. }] = plan.waiting.as_slice() else { panic!("{plan:#?}") };
        assert_eq!(lock, "clone");
        apply(&bench.run(&client), &plan).await.unwrap()
    };
    let ((), summary) = tokio::join!(making, ours);
    assert_eq!((summary.made, summary.wrote > 0), (0, true), "{summary:?}");
    assert_converged(&lab, &bench, &client).await;
}

/// A client that is killed while Proxmox works for it leaves its clones locked: with a mark once the first disk was copied.
async fn killed_after(bench: &Bench, client: &Client, time: Duration) {
    let end = tokio::time::timeout(time, plan_and_apply(bench, client)).await;
    assert!(end.is_err(), "it was to be killed: {end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_right_after_a_killed_one_waits_for_its_clones_and_finishes_them() {
    for seconds in [1, 3, 8] {
        let lab = Lab::one_host(1);
        prepared(&lab).await;
        lab.world(|world| world.timing.create = 20_000);
        killed_after(&Bench::new(description(3, 0, "")), &lab.client(), Duration::from_secs(seconds)).await;
        let mut again = Bench::new(description(3, 0, ""));
        again.nonce = Nonce::new(0xb2);
        let client = lab.client();
        let first = planned(&again, &client).await;
        let locked = |waiting: &Waiting| matches!(waiting, Waiting::Locked { lock, .. } if lock == "clone");
        assert!(first.waiting.iter().any(locked), "after {seconds} s: {first:#?}");
        let summary = apply(&again.run(&client), &first).await;
        let summary =
            summary.unwrap_or_else(|error| panic!("after {seconds} s: {error:#?}\n{}", lab.calls()));
        assert_eq!((summary.waiting, summary.later), (Vec::new(), Vec::new()));
        assert_converged(&lab, &again, &client).await;
        assert_no_stray_volumes(&lab).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_destruction_right_after_a_killed_creation_takes_its_clones_too() {
    let lab = Lab::one_host(1);
    lab.template(&lab.client(), vmid(9000)).await;
    let client = lab.root();
    lab.world(|world| world.timing.create = 20_000);
    killed_after(&Bench::new(description(1, 1, "")), &client, Duration::from_secs(3)).await;
    let mut bench = Bench::new(description(1, 1, ""));
    bench.request.goal = Goal::Destroy;
    let summary = plan_and_apply(&bench, &client).await.unwrap();
    assert_eq!((summary.removed, summary.waiting), (2, Vec::new()));
    assert!(vms(&lab).await.is_empty());
    assert!(lab.world(|world| world.pools.is_empty()), "the pool was ours and is gone too");
}

#[tokio::test(start_paused = true)]
async fn a_backup_of_a_vm_is_left_and_told_while_the_others_are_changed() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    plan_and_apply(&Bench::new(description(1, 1, "")), &client).await.unwrap();
    let tagged = Bench::new(description(1, 1, "proxmox_vm_defaults:\n  tags: [lab]\n"));
    lab.world(|world| world.set_lock(2000, Some("backup")));
    let before = tokio::time::Instant::now();
    let summary = plan_and_apply(&tagged, &client).await.unwrap();
    assert!(summary.wrote > 0 && before.elapsed() < Duration::from_mins(5), "{summary:?}");
    let [Waiting::Locked { node: held, lock, .. }] = summary.waiting.as_slice() else {
        panic!("{summary:#?}")
    };
    assert_eq!((held.as_str(), lock.as_str()), ("cp-1", "backup"));
    lab.world(|world| world.set_lock(2000, None));
    plan_and_apply(&tagged, &client).await.unwrap();
    assert_converged(&lab, &tagged, &client).await;
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_ignores_the_power_button_is_stopped_hard_only_if_allowed() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    plan_and_apply(&Bench::new(description(1, 0, "")), &client).await.unwrap();
    let mut bench = Bench::new(description(1, 0, "proxmox_vm_defaults:\n  memory: 6144\n"));
    bench.request.allow_reboot = true;
    lab.world(|world| world.guest_says(2000, BTreeMap::new()));
    let error = plan_and_apply(&bench, &client).await.unwrap_err();
    let [failure] = error.outcome().unwrap().failed.as_slice() else { panic!("{error:#?}") };
    let words = failure.error.to_string();
    assert_eq!(
        words,
        "VM 2000 on pve1 did not shut down within 60 s: its guest ignores the ACPI power button"
    );
    assert!(error.hints()[0].contains("--allow-reboot --force-stop"), "{:?}", error.hints());
    assert_eq!(lab.calls().asking("POST", "/2000/status/stop").count(), 0);
    bench.request.force_stop = true;
    plan_and_apply(&bench, &client).await.unwrap();
    assert!(bench.told.has("did not shut down within 60 s: it is stopped hard"), "{:?}", bench.told.lines());
    assert_eq!(lab.calls().asking("POST", "/2000/status/stop").count(), 1);
    assert_converged(&lab, &bench, &client).await;
    let config = client.vm_config(&host(1), vmid(2000)).await.unwrap();
    assert_eq!(config.get("memory"), Some("6144"));
}

/// A host that was just lost makes Proxmox slow, and a run that looks again says that it does.
#[tokio::test(start_paused = true)]
async fn a_look_that_takes_long_says_so() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    let bench = Bench::new(description(1, 0, ""));
    let plan = planned(&bench, &client).await;
    // Nothing but a look asks for the version.
    lab.plan(When::first(Method::Get, "/version"), Fault::Hang { reached: false });
    apply(&bench.run(&client), &plan).await.unwrap();
    assert!(
        bench.told.has("waiting for all of Proxmox to answer"),
        "{:?}\n{}",
        bench.told.lines(),
        lab.calls()
    );
}

#[tokio::test(start_paused = true)]
async fn a_remnant_on_an_id_we_want_is_told_with_its_remedy() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    lab.world(|world| {
        world.add_vm("pve1", 2000, BTreeMap::new(), false);
        world.set_lock(2000, Some("create"));
    });
    let bench = Bench::new(description(1, 0, ""));
    let error = plan_and_apply(&bench, &client).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Blocked { source: StepError::Stuck { .. }, .. }), "{error:?}");
    assert!(error.hints().contains(&"qm unlock 2000".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_failure_carries_what_was_done() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let words = "clone failed: zfs error: cannot create 'rpool/data/vm-2000-disk-0': out of space";
    let fault = Fault::FailWorker { after: Duration::from_millis(20), words: words.to_owned() };
    lab.plan(When::first(Method::Post, "/9000/clone"), fault);
    let client = lab.client();
    let bench = Bench::new(description(3, 0, ""));
    let error = plan_and_apply(&bench, &client).await.unwrap_err();
    assert_eq!(error.outcome().unwrap().failed.len(), 1);
    assert_eq!(error.summary().made, 2);
    assert!(!error.hints().is_empty());
    let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let told: Vec<String> = chain.map(ToString::to_string).collect();
    assert!(told.last().unwrap().contains("out of space"), "{told:?}");
    // The way to go on is the same command again.
    plan_and_apply(&bench, &client).await.unwrap();
    assert_converged(&lab, &bench, &client).await;
}

/// Two runs of one description at once on an empty Proxmox, with answers lost at random.
#[tokio::test(start_paused = true)]
async fn two_runs_at_once_both_finish() {
    for seed in 0..10 {
        let lab = Lab::one_host(seed);
        prepared(&lab).await;
        let random = Seeded::new(seed);
        for part in ["/9000/clone", "/config", "/status/start"] {
            let nth = 1 + random.below(6);
            lab.plan(When::nth(Method::Post, part, nth), Fault::ReplyLost);
        }
        lab.plan(When::nth(Method::Put, "/config", 1 + random.below(6)), Fault::ReplyLost);
        let (first, mut second) = (Bench::new(description(3, 3, "")), Bench::new(description(3, 3, "")));
        second.nonce = Nonce::new(0xb2);
        let (one, two) = (lab.client(), lab.client());
        let late = async {
            tokio::time::sleep(Duration::from_millis(random.below(3000))).await;
            plan_and_apply(&second, &two).await
        };
        let (a, b) = tokio::join!(plan_and_apply(&first, &one), late);
        for result in [a, b] {
            if let Err(error) = result {
                panic!("seed {seed}: {error:#?}\n{}", lab.calls());
            }
        }
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_converged(&lab, &first, &one).await;
    }
}

/// What is done to a cluster of one node that is there, or not.
#[derive(Clone, Copy, Debug)]
enum Job {
    Create,
    Change,
    Replace,
    Destroy,
}

impl Job {
    /// The world before, made without faults.
    async fn prepare(self, lab: &Lab) {
        prepared(lab).await;
        if !matches!(self, Self::Create) {
            let client = lab.client();
            plan_and_apply(&Bench::new(description(1, 0, "")), &client).await.unwrap();
        }
    }

    fn bench(self, nonce: u32) -> Bench {
        let more = if matches!(self, Self::Change) { CHANGES } else { "" };
        let mut bench = Bench::new(description(1, 0, more));
        bench.nonce = Nonce::new(nonce);
        match self {
            Self::Create => {}
            Self::Change => bench.request.allow_reboot = true,
            Self::Replace => drop(bench.request.replace.insert(node("cp-1"))),
            Self::Destroy => bench.request.goal = Goal::Destroy,
        }
        bench
    }

    async fn assert_done(self, lab: &Lab, mut bench: Bench, client: &Client) {
        if matches!(self, Self::Destroy) {
            assert!(vms(lab).await.is_empty());
            return;
        }
        bench.request.replace.clear();
        assert_converged(lab, &bench, client).await;
    }
}

/// More memory, a larger disk and one more: a change that restarts, one that grows and one that adds.
const CHANGES: &str =
    "proxmox_vm_defaults:\n  memory: 6144\n  disk_size: 120\n  vm_disks:\n    - slot: 1\n      size: 5\n";

/// Dies before or after every call there is; the same command again always gets there.
async fn dies_everywhere(job: Job) -> usize {
    let mut died = 0;
    for sent in [false, true] {
        for number in 1.. {
            let lab = Lab::one_host(3);
            job.prepare(&lab).await;
            let bench = job.bench(0xb2);
            lab.plan(When::call(number), Fault::KillClient { sent });
            let client = lab.client();
            if let Ok(observed) = observe(&client, &bench.desired).await {
                let plan = plan(&bench.desired, &observed, &bench.request, &bench.nonce);
                let _ = apply(&bench.run(&client), &plan).await;
            }
            if !lab.transport().client_died() {
                break;
            }
            died += 1;
            lab.transport().revive_client();
            let again = job.bench(0xc3);
            let client = lab.client();
            if let Err(error) = plan_and_apply(&again, &client).await {
                panic!("{job:?}, call {number}, sent {sent}: {error:#?}\n{}", lab.calls());
            }
            job.assert_done(&lab, again, &client).await;
            assert_no_stray_volumes(&lab).await;
        }
    }
    died
}

/// Every image belongs to a VM that names it.
async fn assert_no_stray_volumes(lab: &Lab) {
    let client = lab.client();
    for volume in client.content(&host(1), &talmox_test::storage("local-zfs"), Some("images")).await.unwrap()
    {
        let owner = volume.volid.owner().unwrap();
        let config = client.vm_config(&host(1), owner).await.unwrap();
        let text = volume.volid.to_string();
        let named = config.iter().any(|(_, value)| value.split(',').next() == Some(&text));
        assert!(named, "nobody names {text}: {config:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_dies_at_any_call_is_finished_by_the_same_command() {
    let died = Box::pin(dies_everywhere(Job::Create)).await;
    assert!(died >= 40, "the client died only {died} times");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_dies_at_any_call_is_finished_by_the_same_command() {
    let died = Box::pin(dies_everywhere(Job::Change)).await;
    assert!(died >= 40, "the client died only {died} times");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_dies_at_any_call_is_finished_by_the_same_command() {
    let died = Box::pin(dies_everywhere(Job::Replace)).await;
    assert!(died >= 50, "the client died only {died} times");
}

#[tokio::test(start_paused = true)]
async fn a_destruction_that_dies_at_any_call_is_finished_by_the_same_command() {
    let died = Box::pin(dies_everywhere(Job::Destroy)).await;
    assert!(died >= 20, "the client died only {died} times");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_run_says_so() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    let bench = Bench::new(description(3, 3, ""));
    let plan = planned(&bench, &client).await;
    let run = bench.run(&client);
    let interrupt = async {
        while lab.calls().asking("POST", "/9000/clone").count() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bench.stop.cancel();
    };
    let (result, ()) = tokio::join!(apply(&run, &plan), interrupt);
    let error = result.unwrap_err();
    assert!(matches!(error, ApplyError::Interrupted { .. }), "{error:?}");
    let left: Vec<NodeName> =
        error.outcome().unwrap().skipped.iter().filter_map(|skip| skip.node.clone()).collect();
    assert!(!left.is_empty() && error.summary().made > 0);
    let again = Bench::new(description(3, 3, ""));
    plan_and_apply(&again, &client).await.unwrap();
    assert_converged(&lab, &again, &client).await;
}

/// Answers that are lost, late, cut off or refused, at random calls of every kind: the run gets there by itself, or says
/// what stood in the way and gets there when it is run again.
#[tokio::test(start_paused = true)]
async fn random_faults_delay_and_never_harm() {
    let mut repeats = 0;
    for seed in 0..20 {
        let lab = Lab::one_host(seed);
        prepared(&lab).await;
        let random = Seeded::new(seed);
        let foreign = [("name", "mail"), ("memory", "512")];
        let owner = lab.root();
        make_vm(&lab, &owner, 1, vmid(2001 + u32::try_from(random.below(4)).unwrap()), &foreign).await;
        for _ in 0..12 {
            let fault = match random.below(8) {
                0 => Fault::ReplyLost,
                1 => Fault::BodyCut,
                2 => Fault::Hang { reached: random.below(2) == 0 },
                3 => Fault::Refused,
                4 => Fault::reply(596, "Connection timed out"),
                5 => {
                    Fault::reply(500, "can't lock file '/var/lock/qemu-server/lock-2000.conf' - got timeout")
                }
                6 => Fault::reply(500, "got no worker upid - start worker failed"),
                _ => Fault::ReplyShortened,
            };
            lab.plan(When::call(1 + random.below(150)), fault);
        }
        let mut result = None;
        for attempt in 0..6_u32 {
            let mut bench = Bench::new(description(1, 2, ""));
            bench.nonce = Nonce::new(0xd0 + attempt);
            let client = lab.client();
            let Ok(observed) = observe(&client, &bench.desired).await else { continue };
            let plan = plan(&bench.desired, &observed, &bench.request, &bench.nonce);
            // A host that seemed down is looked at again the next time.
            if apply(&bench.run(&client), &plan).await.is_ok_and(|summary| summary.waiting.is_empty()) {
                result = Some(bench);
                break;
            }
            repeats += 1;
        }
        let bench = result.unwrap_or_else(|| panic!("seed {seed} never got there\n{}", lab.calls()));
        // Faults that have not happened must not befall the judge.
        for _ in 0..150 {
            let _ = lab.client().version().await;
        }
        assert_converged(&lab, &bench, &lab.client()).await;
        assert_eq!(vms(&lab).await["foreign"].len(), 1);
        assert_no_stray_volumes(&lab).await;
    }
    assert!(repeats < 10, "{repeats} runs had to be repeated");
}
