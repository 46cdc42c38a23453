//! Nodes that join or are built anew while authorities are replaced: wherever it was interrupted, all machines come through.

use talmox_plan::Request;
use talmox_test::thorough::every;
use talmox_types::{NodeName, Phase, Realm};

use crate::bed::Bed;
use crate::cluster::{is_over, of, rotating, wanted};

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
