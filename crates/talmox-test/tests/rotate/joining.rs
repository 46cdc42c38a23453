//! Nodes that join or are built anew while authorities are replaced: wherever it was interrupted, all machines come through.

use std::time::Duration;

use futures_util::future::{Either, select};
use talmox_machine::Bundle;
use talmox_plan::Request;
use talmox_types::{NodeName, Phase, Realm};

use crate::bed::Bed;
use crate::cluster::{is_over, of, rotating, wanted};

const PHASES: [Phase; 3] = [Phase::Accepted, Phase::Issuing, Phase::Alone];

/// A run that dies as soon as one machine is that far and another is not, or as soon as all are.
async fn dies_in(bed: &Bed, before: &Bundle, (realm, phase): (Realm, Phase), least: usize) {
    let reached = async {
        let have = || bed.phases(before).iter().filter(|phases| phases.of(realm) >= phase).count();
        while have() < least {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let request = wanted();
    let (run, reached) = (std::pin::pin!(bed.converge(&request, 2)), std::pin::pin!(reached));
    match select(run, reached).await {
        Either::Left((end, _)) => panic!("it was over before: {end:?}"),
        Either::Right(((), _)) => {}
    }
}

/// Every place a rotation of four machines can be interrupted at: a phase that one machine has, and one that all have.
fn interruptions() -> impl Iterator<Item = (Realm, Phase, usize)> {
    let phases = Realm::ALL.into_iter().flat_map(|realm| PHASES.map(|phase| (realm, phase)));
    phases.flat_map(|(realm, phase)| [1, 4].map(|least| (realm, phase, least)))
}

/// Goes on from an interruption with what is asked for then, and all is well in the end.
async fn goes_on(seed: u64, at: (Realm, Phase, usize), then: impl FnOnce(&mut Bed) -> Request) {
    let (realm, phase, least) = at;
    let what = format!("{} {phase:?} on {least}", realm.name());
    let mut bed = rotating(seed, of(3, 1, "1.13"), &Realm::ALL).await;
    let before = bed.bundle();
    dies_in(&bed, &before, (realm, phase), least).await;
    let request = then(&mut bed);
    let log = || bed.told.lines().join("\n");
    bed.converge(&request, 3).await.unwrap_or_else(|error| panic!("{what}: {error}\n{}", log()));
    is_over(&bed, &before, &what).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_joins_in_the_middle() {
    for (number, at) in interruptions().enumerate() {
        goes_on(100 + number as u64, at, |bed| {
            bed.desired = of(3, 2, "1.13");
            wanted()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_built_anew_in_the_middle() {
    for (number, at) in interruptions().enumerate() {
        goes_on(120 + number as u64, at, |_| Request {
            replace: [NodeName::parse("worker-1").unwrap()].into(),
            ..wanted()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_is_built_anew_in_the_middle() {
    for (number, at) in interruptions().enumerate() {
        goes_on(140 + number as u64, at, |_| Request {
            replace: [NodeName::parse("cp-2").unwrap()].into(),
            ..wanted()
        })
        .await;
    }
}
