//! Machines that hang, are somebody else's, or lie at the wrong address; runs that die; calls that fail.

use std::net::IpAddr;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use talmox_plan::Until;
use talmox_sim_talos::{CallFault, Code, Faults, Flapping, Hardware, MachineId, Trouble};
use talmox_test::product::in_parallel;
use talmox_test::thorough::{every, runtime};
use talmox_test::{Fault, Lab, When};
use talmox_types::{LeaseWord, Mark};

use crate::bringup::bed::{Bed, described, healthy, until};

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_answers_is_switched_off_and_on_once() {
    let bed = Bed::new(21, described(1, 0, ""));
    bed.lab.nodes(|nodes| nodes.faults.trouble(MachineId(2000), Trouble::NeverBoots));
    let error = bed.converge(&healthy(), 1).await.unwrap_err();
    assert!(error.contains("cp-1 at 10.0.7.11: waited 5 min for an answer in maintenance mode"), "{error}");
    assert!(error.contains("it does not answer"), "{error}");
    let starts = bed.lab.calls().asking("POST", "/status/start").count();
    assert_eq!((starts, bed.lab.calls().asking("POST", "/status/stop").count()), (2, 1));
    // Somebody else's run finds the machine as it is, and does not touch its power.
    let error = bed.converge(&healthy(), 2).await.unwrap_err();
    assert!(error.contains("cp-1 at 10.0.7.11: waited 10 min for an answer"), "{error}");
    assert_eq!(bed.lab.calls().asking("POST", "/status/stop").count(), 1);
    bed.lab.nodes(|nodes| nodes.faults.mend(MachineId(2000)));
    let client = bed.lab.root();
    let task = client.stop_vm(&talmox_test::host(1), talmox_test::vmid(2000), false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    bed.converge(&healthy(), 3).await.unwrap();
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_hangs_once_comes_up_after_the_second_switch() {
    let bed = Bed::new(22, described(1, 1, ""));
    bed.lab.nodes(|nodes| nodes.faults.trouble(MachineId(2001), Trouble::NeverBoots));
    let mended = async {
        // Whatever kept it from booting is gone by the time it is switched on again.
        tokio::time::sleep(Duration::from_mins(4)).await;
        bed.lab.nodes(|nodes| nodes.faults.mend(MachineId(2001)));
    };
    let (end, ()) = futures_util::future::join(bed.converge(&healthy(), 1), mended).await;
    end.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert_eq!(bed.lab.calls().asking("POST", "/status/stop").count(), 1);
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_joins_and_hangs_is_switched_off_and_on_too() {
    let mut bed = Bed::new(24, described(1, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.desired = described(3, 0, "");
    for number in [2001, 2002] {
        bed.lab.nodes(|nodes| nodes.faults.trouble(MachineId(number), Trouble::NeverBoots));
    }
    let mended = async {
        tokio::time::sleep(Duration::from_mins(4)).await;
        for number in [2001, 2002] {
            bed.lab.nodes(|nodes| nodes.faults.mend(MachineId(number)));
        }
    };
    let (end, ()) = futures_util::future::join(bed.converge(&healthy(), 2), mended).await;
    end.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert_eq!(bed.lab.calls().asking("POST", "/status/stop").count(), 2);
    bed.is_healthy().await;
}

/// That a run made a VM proves nothing: the same run has configured it, and by now it votes.
#[tokio::test(start_paused = true)]
async fn a_member_that_falls_silent_is_not_switched_off_while_another_is_not_well() {
    let bed = Bed::new(26, described(3, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    let (silent, unwell) = ("10.0.7.13".parse().unwrap(), "10.0.7.12".parse().unwrap());
    bed.lab.nodes(|nodes| nodes.faults.flap(silent, Flapping { up: 0, down: u64::MAX }));
    let busy = CallFault::answer(Code::Unavailable, "etcd is busy");
    bed.lab.nodes(|nodes| nodes.faults.call_to(unwell, "*EtcdStatus", 1, u64::MAX, busy));
    // The same run: the VM carries its number.
    let error = bed.converge(&healthy(), 1).await.unwrap_err();
    assert!(error.contains("not allowed to take cp-3 down: cp-2 is not well"), "{error}");
    assert_eq!(bed.lab.calls().asking("POST", "/status/stop").count(), 0);
    // Once the others can do without it, it is.
    bed.lab.nodes(|nodes| nodes.faults = Faults::default());
    bed.lab.nodes(|nodes| nodes.faults.flap(silent, Flapping { up: 0, down: u64::MAX }));
    drop(bed.converge(&healthy(), 1).await);
    assert_eq!(bed.lab.calls().asking("POST", "/status/stop").count(), 1);
}

/// Where two have one address, the one with the lower number answers.
pub(crate) const STRANGER: MachineId = MachineId(1);

/// A machine of somebody else's on our network, with Talos in maintenance mode, at an address of ours.
pub(crate) fn stranger(lab: &Lab, address: IpAddr) {
    lab.nodes(|nodes| nodes.power_on(Hardware::stranger(STRANGER, address)));
}

#[tokio::test(start_paused = true)]
async fn a_stranger_in_maintenance_at_our_address_gets_nothing() {
    // A first worker would change the control plane's configuration otherwise.
    let same = "allow_scheduling_on_control_planes: true";
    let mut bed = Bed::new(23, described(1, 0, same));
    bed.converge(&healthy(), 1).await.unwrap();
    stranger(&bed.lab, "10.0.7.12".parse().unwrap());
    tokio::time::sleep(Duration::from_mins(1)).await;
    bed.desired = described(1, 1, same);
    let before = bed.accepted("ApplyConfiguration");
    let error = bed.converge(&healthy(), 2).await.unwrap_err();
    assert!(error.contains("is not worker-1") || error.contains("is not this node"), "{error}");
    assert_eq!(bed.accepted("ApplyConfiguration"), before);
    // Nor does anything change once the VM is there and a plan can tell.
    let plan = bed.plan(&healthy()).await;
    assert!(plan.refusals.iter().any(|refusal| refusal.problem.contains("10.0.7.12")), "{plan:#?}");
}

/// Puts somebody's lease into the mark of the first control plane.
async fn lease(bed: &Bed, holder: &str, renewed: u64) {
    let (client, host, vmid) = (bed.lab.root(), talmox_test::host(1), talmox_test::vmid(2000));
    let config = client.vm_config(&host, vmid).await.unwrap();
    let mut mark = Mark::of_description(config.description().unwrap()).unwrap();
    mark.lease = Some(LeaseWord { holder: holder.to_owned(), renewed });
    let change = talmox_pve::client::ConfigChange::new().set("description", &mark.to_string()).unwrap();
    client.change_config(&host, vmid, &change).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn somebody_who_works_is_waited_for_and_somebody_who_died_too() {
    let bed = Bed::new(25, described(1, 0, ""));
    bed.converge(&until(Until::Configured), 1).await.unwrap();
    // Whoever renews is at work.
    let busy = async {
        for _ in 0..20 {
            lease(&bed, "ann", bed.now()).await;
            tokio::time::sleep(Duration::from_secs(40)).await;
        }
    };
    let wanted = healthy();
    let work = std::pin::pin!(bed.converge(&wanted, 2));
    let Either::Left((end, _)) = select(work, std::pin::pin!(busy)).await else { panic!("it never ends") };
    let error = end.unwrap_err();
    assert!(error.contains("ann works on this cluster"), "{error}");
    assert_eq!(bed.etcd_clusters(), 0);
    // Whoever does not any more is gone after two minutes.
    let begun = bed.now();
    lease(&bed, "ben", begun).await;
    bed.converge(&healthy(), 3).await.unwrap();
    assert!(bed.now() - begun >= 120);
    bed.is_healthy().await;
    let dump = bed.lab.world(|world| world.dump());
    let mark = Mark::of_description(&dump.vms[&2000].config["description"]).unwrap();
    assert_eq!(mark.lease, None, "it was given back");
    assert!(mark.bootstrap.is_some_and(|word| word.done));
}

#[tokio::test(start_paused = true)]
async fn a_lease_in_a_mark_is_taken_over_if_asked() {
    let mut bed = Bed::new(26, described(1, 0, ""));
    bed.converge(&until(Until::Configured), 1).await.unwrap();
    let begun = bed.now();
    // In the future, so that it does not end by itself while we work.
    lease(&bed, "ann", begun + 3600).await;
    bed.take_over = true;
    bed.converge(&healthy(), 2).await.unwrap();
    let waited = bed.told.lines().iter().any(|line| line.contains("ann"));
    assert!(!waited, "nobody was waited for");
    bed.is_healthy().await;
    let dump = bed.lab.world(|world| world.dump());
    let mark = Mark::of_description(&dump.vms[&2000].config["description"]).unwrap();
    assert_eq!(mark.lease, None, "it was given back");
}

/// Whoever has the lease in Kubernetes, and since when.
async fn holder(bed: &Bed) -> Option<String> {
    let lock = talmox_k8s::Lock::new(bed.kubernetes_at("10.0.7.11"), "looker".to_owned());
    lock.look(now(bed)).await.unwrap().map(|held| held.holder)
}

fn now(bed: &Bed) -> talmox_k8s::Time {
    talmox_k8s::Time::from_unix(i64::try_from(bed.now()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_lease_in_kubernetes_is_respected_and_taken_over_if_asked() {
    let mut bed = Bed::new(27, described(1, 1, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.desired = described(1, 1, "proxmox_vm_worker_defaults: {memory: 6144}");
    let theirs = talmox_k8s::Lock::new(bed.kubernetes_at("10.0.7.11"), "ann".to_owned());
    theirs.acquire(now(&bed), false).await.unwrap();
    let busy = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(40)).await;
            theirs.renew(now(&bed)).await.unwrap();
        }
    };
    let wanted = healthy();
    let error = {
        let work = std::pin::pin!(bed.converge(&wanted, 2));
        match select(work, std::pin::pin!(busy)).await {
            Either::Left((end, _)) => end.unwrap_err(),
            Either::Right(_) => panic!("it never ends"),
        }
    };
    assert!(error.contains("ann works on this cluster"), "{error}");
    assert_eq!(holder(&bed).await.as_deref(), Some("ann"));
    // She is gone and did not say so; whoever knows that need not wait.
    bed.take_over = true;
    let begun = bed.now();
    bed.converge(&healthy(), 3).await.unwrap();
    assert_eq!(holder(&bed).await, None, "it was given back, {} s later", bed.now() - begun);
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty(), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_with_others_secrets_is_no_node_of_ours() {
    let bed = Bed::new(24, described(1, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    let plan = bed.with_other_secrets(&healthy()).await;
    assert!(plan.steps.is_empty());
    assert!(plan.refusals[0].problem.contains("authority"), "{:?}", plan.refusals);
}

/// The machine refuses a client without a certificate by an alert or by closing the connection. Either says that it is configured.
#[tokio::test(start_paused = true)]
async fn a_machine_of_another_authority_is_told_as_that_on_every_look() {
    let bed = Bed::new(28, described(1, 1, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    for _ in 0..16 {
        let plan = bed.with_other_secrets(&healthy()).await;
        assert!(plan.steps.is_empty() && plan.later.is_empty() && plan.waiting.is_empty(), "{plan:#?}");
        let told = |node: &str| {
            let mut refusals = plan.refusals.iter();
            refusals.any(|refusal| {
                let named = refusal.node.as_ref().is_some_and(|name| name.as_str() == node);
                named && refusal.problem.contains("its certificate is not of this cluster's authority")
            })
        };
        assert!(told("cp-1") && told("worker-1"), "{:#?}", plan.refusals);
    }
}

/// One run with something planned to go wrong, then another that must get there.
async fn disturbed(seed: u64, when: Option<(When, Fault)>) -> (Bed, Result<(), String>) {
    let bed = Bed::new(seed, described(3, 1, ""));
    let calm = when.is_none();
    if let Some((when, fault)) = when {
        bed.lab.plan(when, fault);
    }
    let first = bed.converge_mortally(&healthy(), 0xa).await.map(drop);
    if calm {
        return (bed, first);
    }
    bed.lab.transport().revive_client();
    let second = bed.converge(&healthy(), 0xb).await;
    if let Err(error) = second {
        let mut told = bed.told.lines();
        told.dedup();
        let last: Vec<String> = told.into_iter().rev().take(20).rev().collect();
        let writes: Vec<String> = bed.lab.calls().writes().map(ToString::to_string).collect();
        panic!("the run after it failed: {error}\n{}\n{}", last.join("\n"), writes.join("\n"));
    }
    (bed, first)
}

/// The cluster must be healthy and one: of Bootstraps that got through, one.
async fn sound(bed: &Bed, what: &str, struck: Option<usize>) {
    bed.is_healthy().await;
    assert_eq!(bed.etcd_clusters(), 1, "{what}");
    let log = bed.lab.calls();
    let lost = struck.and_then(|number| log.iter().find(|call| call.number == number));
    let lost = lost.is_some_and(|call| call.path.ends_with("/Bootstrap"));
    let accepted = bed.accepted("Bootstrap") + usize::from(lost);
    assert_eq!(accepted, 1, "{what}\n{log}");
}

/// Before a call is sent and after it arrived, at every so many of them.
pub(crate) fn deaths(calls: usize, usual: usize) -> Vec<(usize, bool)> {
    let numbers = (1..=calls).step_by(every(usual));
    numbers.flat_map(|number| [(number, false), (number, true)]).collect()
}

/// Runs them all, whatever becomes of the others, and says which went wrong. Gives how many there were.
pub(crate) fn die_at_each(
    deaths: &[(usize, bool)],
    run: impl AsyncFn(usize, bool, &str) + Sync + RefUnwindSafe,
) -> usize {
    let ended = in_parallel(deaths, |&(number, sent)| {
        let what = format!("killed at call {number}, sent {sent}");
        let end = catch_unwind(|| runtime().block_on(run(number, sent, &what)));
        end.err().map(|_| what)
    });
    let wrong: Vec<String> = ended.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} of {} went wrong:\n{}", wrong.len(), deaths.len(), wrong.join("\n"));
    deaths.len()
}

#[test]
fn killed_at_any_call_of_all_layers() {
    let begun = Instant::now();
    let calls = runtime().block_on(async {
        let (bed, end) = disturbed(31, None).await;
        end.unwrap();
        bed.lab.calls().len()
    });
    let runs = die_at_each(&deaths(calls, 37), async |number, sent, what| {
        let fault = Fault::KillClient { sent };
        let (bed, _) = disturbed(31, Some((When::call(number as u64), fault))).await;
        sound(&bed, what, sent.then_some(number)).await;
    });
    println!(
        "killed: K = {calls} calls of Proxmox, Talos and Kubernetes, {runs} runs, one Bootstrap and a healthy cluster each time, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}
