//! Authorities of a cluster that lives are replaced: what people see before, in the middle and afterwards.

use std::time::Duration;

use insta::assert_snapshot;
use talmox_machine::Bundle;
use talmox_sim_talos::{Faults, Flapping};
use talmox_test::bed::{Bed, described, healthy};
use talmox_types::{Phase, Realm};

use super::played::{apply, planned, status};

/// Three control planes and a worker that are healthy, and secrets that say that both authorities are to be replaced.
async fn rotating(seed: u64) -> (Bed, Bundle) {
    let bed = Bed::new(seed, described(3, 1, ""));
    bed.converge(&healthy(), 1).await.unwrap_or_else(|error| panic!("{error}"));
    bed.begin_rotation(&Realm::ALL);
    let before = bed.bundle();
    (bed, before)
}

#[tokio::test(start_paused = true)]
async fn each_phase_after_a_run_that_died_in_it() {
    let (bed, before) = rotating(81).await;
    assert_snapshot!(
        "rotation_begins",
        format!("{}\n{}", planned(&bed, &healthy()).await, status(&bed).await)
    );
    let mut number = 2;
    for realm in Realm::ALL {
        for phase in [Phase::Accepted, Phase::Issuing, Phase::Alone] {
            bed.dies_in(&healthy(), number, (realm, phase, 2)).await;
            number += 1;
            let name = format!("rotation_{}_{}", realm.word(), phase.word());
            assert_snapshot!(name, format!("{}\n{}", planned(&bed, &healthy()).await, status(&bed).await));
        }
    }
    let last = apply(&bed, &healthy(), number).await.got_there();
    assert_snapshot!("rotation_ends", format!("{last}\n{}", status(&bed).await));
    assert!(
        bed.phases(&before)
            .iter()
            .all(|phases| Realm::ALL.iter().all(|realm| phases.of(*realm) == Phase::Alone))
    );
    assert_eq!(bed.bundle().rotating().count(), 0);
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn from_the_first_phase_to_the_last() {
    let (bed, _) = rotating(82).await;
    assert_snapshot!("rotation_whole", apply(&bed, &healthy(), 2).await.got_there());
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_away() {
    let (bed, _) = rotating(83).await;
    bed.dies_in(&healthy(), 2, (Realm::Talos, Phase::Accepted, 2)).await;
    let never = Flapping { up: 1, down: 1 << 40 };
    bed.lab.nodes(|nodes| nodes.faults.flap("10.0.7.14".parse().unwrap(), never));
    assert_snapshot!("rotation_away", format!("{}\n{}", planned(&bed, &healthy()).await, status(&bed).await));
    bed.lab.nodes(|nodes| nodes.faults = Faults::default());
    tokio::time::sleep(Duration::from_mins(3)).await;
    apply(&bed, &healthy(), 3).await.got_there();
    bed.is_healthy().await;
}
