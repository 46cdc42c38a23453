//! Nodes that join or are built anew while authorities are replaced: wherever it was interrupted, all machines come through.

use std::time::Duration;

use talmox_plan::Request;
use talmox_render::PatchText;
use talmox_sim_talos::{CallFault, Faults};
use talmox_test::thorough::every;
use talmox_types::{NodeName, Phase, Realm};

use crate::rotate::bed::{Bed, Watch};
use crate::rotate::cluster::{cut_off, is_over, of, rotating, wanted};

const PHASES: [Phase; 3] = [Phase::Accepted, Phase::Issuing, Phase::Alone];

/// Places a rotation of four machines can be interrupted at: a phase that one machine has, and one that all have. Each test
/// begins with another; all of them (`TALMOX_EVERY=1`) take minutes.
fn interruptions(from: usize) -> impl Iterator<Item = (Realm, Phase, usize)> {
    let phases = Realm::ALL.into_iter().flat_map(|realm| PHASES.map(|phase| (realm, phase)));
    let all = phases.flat_map(|(realm, phase)| [1, 4].map(|least| (realm, phase, least)));
    let every = every(5);
    all.skip(from % every).step_by(every)
}

/// Goes on from an interruption with what is asked for then, and all is well in the end.
async fn goes_on(seed: u64, at: (Realm, Phase, usize), then: impl FnOnce(&mut Bed) -> Request) {
    let (realm, phase, least) = at;
    let what = format!("{} {phase:?} on {least}", realm.name());
    let mut bed = rotating(seed, of(3, 1, "1.13"), &Realm::ALL).await;
    let before = bed.bundle();
    bed.dies_in(&wanted(), 2, at).await;
    let request = then(&mut bed);
    let log = || bed.told.lines().join("\n");
    bed.converge(&request, 3).await.unwrap_or_else(|error| panic!("{what}: {error}\n{}", log()));
    is_over(&bed, &before, &what).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_joins_in_the_middle() {
    for (number, at) in interruptions(0).enumerate() {
        goes_on(100 + number as u64, at, |bed| {
            bed.desired = of(3, 2, "1.13");
            wanted()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_built_anew_in_the_middle() {
    for (number, at) in interruptions(1).enumerate() {
        goes_on(120 + number as u64, at, |_| Request {
            replace: [NodeName::parse("worker-1").unwrap()].into(),
            ..wanted()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_is_built_anew_in_the_middle() {
    for (number, at) in interruptions(2).enumerate() {
        goes_on(140 + number as u64, at, |_| Request {
            replace: [NodeName::parse("cp-2").unwrap()].into(),
            ..wanted()
        })
        .await;
    }
}

/// Something that is done to a cluster once a run has said something, while that run goes on.
async fn meanwhile(bed: &Bed, number: u32, said: &str, then: impl Fn(&Bed)) -> Result<(), String> {
    let request = wanted();
    let heard = async {
        while !bed.told.lines().iter().any(|line| line.contains(said)) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        then(bed);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        end = bed.converge(&request, number) => end.map(drop),
        () = heard => unreachable!("it waits for ever"),
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_joins_blindly_while_no_control_plane_says_how_far_it_is() {
    for (seed, at) in [
        (160, (Realm::Talos, Phase::Issuing, 1)),
        (161, (Realm::Kubernetes, Phase::Accepted, 1)),
        (162, (Realm::Talos, Phase::Alone, 1)),
    ] {
        let mut bed = rotating(seed, of(1, 0, "1.13"), &Realm::ALL).await;
        let before = bed.bundle();
        bed.dies_in(&wanted(), 2, at).await;
        bed.desired = of(3, 0, "1.13");
        let error =
            meanwhile(&bed, 3, "cp-2/start begins", |bed| cut_off(bed, "10.0.7.11")).await.unwrap_err();
        let log = || bed.told.lines().join("\n");
        assert!(error.contains("no control plane says how far that is"), "{at:?}: {error}\n{}", log());
        assert!(error.contains("cp-1: "), "{at:?}: {error}");
        for address in ["10.0.7.12", "10.0.7.13"] {
            assert!(bed.config_text(address).is_none(), "{at:?}: {address} has a configuration");
        }
        let plan = bed.plan(&wanted()).await;
        let joins = plan.steps.iter().find(|step| step.id.to_string() == "cp-2/configure-node");
        let joins = joins.unwrap_or_else(|| panic!("{at:?}: {plan:#?}"));
        assert!(joins.reason.contains("once a control plane says how far"), "{at:?}: {}", joins.reason);
        // It is back, and they join in the phase it has.
        bed.lab.nodes(|nodes| nodes.faults = Faults::default());
        tokio::time::sleep(Duration::from_mins(3)).await;
        bed.converge(&wanted(), 4).await.unwrap_or_else(|error| panic!("{at:?}: {error}\n{}", log()));
        is_over(&bed, &before, &format!("{at:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_is_away_for_a_while_is_waited_for() {
    let mut bed = rotating(163, of(1, 0, "1.13"), &[Realm::Talos]).await;
    let before = bed.bundle();
    bed.dies_in(&wanted(), 2, (Realm::Talos, Phase::Issuing, 1)).await;
    bed.desired = of(3, 0, "1.13");
    let lost = meanwhile(&bed, 3, "cp-2/start begins", |bed| cut_off(bed, "10.0.7.11"));
    let returns = async {
        while !bed.told.lines().iter().any(|line| line.contains("says how far authorities")) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        bed.lab.nodes(|nodes| nodes.faults = Faults::default());
        std::future::pending::<()>().await;
    };
    let end = tokio::select! {
        end = lost => end,
        () = returns => unreachable!("it waits for ever"),
    };
    end.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    is_over(&bed, &before, "waited for").await;
}

/// A machine that cannot be asked how far it is, is not sent what was true before.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_missed_sends_nobody_back_a_phase() {
    for nth in (1..=12).step_by(every(3)) {
        let mut bed = rotating(164, of(1, 1, "1.13"), &[Realm::Talos]).await;
        let before = bed.bundle();
        bed.dies_in(&wanted(), 2, (Realm::Talos, Phase::Issuing, 2)).await;
        bed.handed.patches = vec![PatchText {
            name: "patch.yaml".to_owned(),
            text: "machine: {sysctls: {vm.max_map_count: \"262144\"}}".to_owned(),
        }];
        let worker = "10.0.7.12".parse().unwrap();
        bed.lab.nodes(|nodes| nodes.faults.call_to(worker, "*State/List", nth, 1, CallFault::Break));
        let mut watch = Watch::new(&bed, before.clone());
        let look = async {
            let mut most = watch.look();
            loop {
                let now = watch.look();
                let back = most.iter().zip(&now).any(|(had, has)| has.talos < had.talos);
                assert!(!back, "missed answer {nth}: {most:?}, then {now:?}");
                most = now;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let request = wanted();
        let end = tokio::select! {
            end = bed.converge(&request, 3) => end,
            () = look => unreachable!("it looks for ever"),
        };
        let log = || bed.told.lines().join("\n");
        end.unwrap_or_else(|error| panic!("missed answer {nth}: {error}\n{}", log()));
        is_over(&bed, &before, &format!("missed answer {nth}")).await;
    }
}
