//! Single rules of the way from a VM to a node, each by one run that would break it.

use std::time::Duration;

use talmox_plan::{SeenKubernetes, SeenMachine, Until};
use talmox_sim::Calls;
use talmox_sim_talos::CallFault;
use talmox_test::{Fault, When};
use talmox_types::{BootstrapWord, Mark};

use crate::bringup::bed::{Bed, described, healthy, unspeakable, until};

/// The mark of the first control plane's VM.
fn mark(bed: &Bed) -> Mark {
    let dump = bed.lab.world(|world| world.dump());
    Mark::of_description(&dump.vms[&2000].config["description"]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_mark_says_that_a_machine_is_bootstrapped_before_it_is() {
    let bed = Bed::new(81, described(1, 0, ""));
    bed.lab.plan(When::talos("Bootstrap"), Fault::KillClient { sent: false });
    bed.converge_mortally(&healthy(), 0xa).await.unwrap_err();
    assert_eq!(bed.etcd_clusters(), 0);
    let incarnation = mark(&bed).incarnation;
    assert_eq!(
        mark(&bed).bootstrap,
        Some(BootstrapWord { incarnation: incarnation.clone(), done: false, snapshot: None })
    );
    bed.lab.transport().revive_client();
    bed.converge(&healthy(), 0xb).await.unwrap();
    assert_eq!(mark(&bed).bootstrap, Some(BootstrapWord { incarnation, done: true, snapshot: None }));
    assert_eq!(bed.etcd_clusters(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_cannot_be_read_back_is_waited_for() {
    let bed = Bed::new(82, described(1, 0, ""));
    let looks = Calls::to("GET", "/cosi.resource.State/List?MachineConfigs.config.talos.dev");
    bed.lab.plan(When::all(looks), Fault::Node(CallFault::Break));
    let error = bed.converge(&until(Until::Configured), 1).await.unwrap_err();
    assert!(error.contains("waited 20 min for an answer with its new configuration"), "{error}");
    bed.lab.transport().forget_faults();
    bed.converge(&healthy(), 2).await.unwrap();
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_quotes_its_configuration_is_quoted_without_secrets() {
    let bed = Bed::new(83, described(1, 0, ""));
    let secrets = unspeakable();
    let message = format!("cannot be applied: worker.yaml says {}", secrets.join(" and "));
    let code = u16::from(talmox_sim_talos::Code::InvalidArgument as u8);
    bed.lab.plan(
        When::talos("ApplyConfiguration"),
        Fault::Node(CallFault::Answer { code, message, happens: false }),
    );
    let error = bed.converge(&healthy(), 1).await.unwrap_err();
    assert!(error.contains("cannot be applied: worker.yaml says *** and *** and ***"), "{error}");
    let told = format!("{error}\n{}", bed.told.lines().join("\n"));
    // The token for Proxmox is in no configuration: what a machine knows of it, it was not told by us.
    assert!(secrets.iter().take(3).all(|secret| !told.contains(secret)), "{told}");
    bed.converge(&healthy(), 2).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_answered_ends() {
    let bed = Bed::new(84, described(1, 0, ""));
    bed.lab.plan(When::talos("EtcdMemberList"), Fault::Node(CallFault::Hang));
    let begun = bed.now();
    bed.converge(&healthy(), 1).await.unwrap();
    assert!(bed.now() - begun < 900, "it took {} s", bed.now() - begun);
    let hour = Duration::from_hours(1);
    tokio::time::timeout(hour, bed.is_healthy()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_takes_its_configuration_is_given_up() {
    let bed = Bed::new(85, described(1, 0, ""));
    let sent = Calls::to("CALL", "/machine.MachineService/ApplyConfiguration?maintenance");
    bed.lab.plan(When::all(sent), Fault::Node(CallFault::Hang));
    let error = bed.converge(&healthy(), 1).await.unwrap_err();
    assert!(error.contains("waited 20 min for an answer with its new configuration"), "{error}");
    bed.lab.transport().forget_faults();
    bed.converge(&healthy(), 2).await.unwrap();
    bed.is_healthy().await;
}

/// Longer than a look may take, however many machines keep silent.
const LOOK: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_machine_that_takes_calls_and_never_answers_holds_nobody_up() {
    let bed = Bed::new(85, described(1, 1, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    let silent = "10.0.7.12".parse().unwrap();
    bed.lab.nodes(|nodes| nodes.faults.call_to(silent, "*", 1, u64::MAX, CallFault::Hang));
    let begun = tokio::time::Instant::now();
    let observed = bed.look(&healthy()).await;
    assert!(begun.elapsed() < LOOK, "a look took {:?}", begun.elapsed());
    let seen = &observed.talos[&"worker-1".parse().unwrap()];
    let SeenMachine::Unreachable { reason, .. } = seen else { panic!("{seen:?}") };
    assert!(reason.contains("no answer within 5 s"), "{reason}");
    assert!(
        observed.talos[&"cp-1".parse().unwrap()].configured().is_some(),
        "the other is seen all the same"
    );
    // A run that needs it ends too, and says what it waited for.
    let error = bed.converge(&healthy(), 2).await.unwrap_err();
    assert!(error.contains("worker-1"), "{error}");
    assert!(begun.elapsed() < Duration::from_hours(1), "a run took {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_kubernetes_that_never_answers_holds_nobody_up() {
    let bed = Bed::new(86, described(1, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.lab.plan(When::all(Calls::any().at("/api/*")), Fault::Hang { reached: false });
    bed.lab.plan(When::all(Calls::any().at("/apis/*")), Fault::Hang { reached: false });
    let begun = tokio::time::Instant::now();
    let observed = bed.look(&healthy()).await;
    assert!(begun.elapsed() < LOOK, "a look took {:?}", begun.elapsed());
    assert!(!matches!(observed.kubernetes, SeenKubernetes::Answers(_)), "{:?}", observed.kubernetes);
    let error = bed.converge(&healthy(), 2).await.unwrap_err();
    assert!(error.contains("Kubernetes") || error.contains("kube"), "{error}");
    assert!(begun.elapsed() < Duration::from_hours(1), "a run took {:?}", begun.elapsed());
}
