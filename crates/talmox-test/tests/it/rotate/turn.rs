//! From the first phase to the last.

use std::cell::RefCell;
use std::time::Duration;

use talmox_plan::{Step, Upkeep};
use talmox_types::{Phase, Phases, Realm};

use crate::rotate::bed::{Bed, Watch};
use crate::rotate::cluster::{is_over, keys, of, rotating, tamper, wanted, words};

/// Carries everything out, and looks at the machines all the while: no two of them are ever two phases apart.
async fn watched(bed: &Bed) -> Vec<Vec<Phases>> {
    let mut watch = Watch::new(bed, bed.bundle());
    let history: RefCell<Vec<Vec<Phases>>> = RefCell::default();
    let look = async {
        loop {
            let now = watch.look();
            for realm in Realm::ALL {
                let of = |phases: &Phases| phases.of(realm) as u8;
                let (least, most) = (now.iter().map(of).min().unwrap(), now.iter().map(of).max().unwrap());
                assert!(most - least <= 1, "{now:?}");
            }
            if history.borrow().last() != Some(&now) {
                history.borrow_mut().push(now);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let request = wanted();
    tokio::select! {
        end = bed.converge(&request, 2) => {
            end.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
        }
        () = look => {}
    }
    history.into_inner()
}

#[tokio::test(start_paused = true)]
async fn both_authorities_are_replaced_phase_by_phase() {
    let bed = rotating(61, of(3, 1, "1.13"), &Realm::ALL).await;
    let before = bed.bundle();
    let plan = bed.plan(&wanted()).await;
    assert_eq!(
        words(&plan),
        [
            "rotate-authority-talos-accepted",
            "rotate-authority-talos-issuing",
            "rotate-authority-talos-alone",
            "settle-authority-talos",
            "rotate-authority-kubernetes-accepted",
            "rotate-authority-kubernetes-issuing",
            "rotate-authority-kubernetes-alone",
            "settle-authority-kubernetes",
        ]
    );
    let since = bed.lab.calls().len();
    let history = watched(&bed).await;
    // It speaks all the while; that no step is ever silent for longer than thirty seconds, what hears it sees to itself.
    let long = bed.told.long_steps();
    assert!(long.contains("rotate-authority"), "{long:?}");
    // That of Kubernetes takes a while on each machine.
    let kubernetes = history.iter().filter(|phases| phases[0].kubernetes > Phase::Before);
    assert_eq!(kubernetes.count(), 4 * 3, "one machine at a time: {history:?}");
    // Control planes first, then workers, each phase on all of them before the next; nothing is sent twice.
    let sent = bed.lab.calls();
    let sent: Vec<&str> = sent
        .iter()
        .skip(since)
        .filter(|call| call.method == "CALL" && call.path.ends_with("/ApplyConfiguration"))
        .map(|call| call.host.as_str())
        .collect();
    let nodes = bed.addresses();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    assert_eq!(sent, nodes.repeat(6));
    is_over(&bed, &before, "undisturbed").await;
}

#[tokio::test(start_paused = true)]
async fn configurations_of_the_new_layout_go_through_the_same() {
    let bed = rotating(62, of(3, 1, "1.14"), &Realm::ALL).await;
    let before = bed.bundle();
    watched(&bed).await;
    is_over(&bed, &before, "contract 1.14").await;
}

#[tokio::test(start_paused = true)]
async fn one_of_them_alone_leaves_the_other_as_it_is() {
    for (seed, realm, other) in [(63, Realm::Talos, Realm::Kubernetes), (64, Realm::Kubernetes, Realm::Talos)]
    {
        let bed = rotating(seed, of(1, 1, "1.13"), &[realm]).await;
        let before = bed.bundle();
        bed.converge(&wanted(), 2).await.unwrap_or_else(|error| panic!("{error}"));
        is_over(&bed, &before, realm.name()).await;
        let kept = |bundle: &talmox_machine::Bundle| bundle.present(other).certificate.pem().to_owned();
        assert_eq!(kept(&bed.bundle()), kept(&before));
        // And another time.
        bed.begin_rotation(&[realm]);
        let again = bed.bundle();
        bed.converge(&wanted(), 3).await.unwrap_or_else(|error| panic!("{error}"));
        is_over(&bed, &again, "the second time").await;
    }
}

#[tokio::test(start_paused = true)]
async fn authorities_that_others_abandoned_are_dropped() {
    let bed = rotating(65, of(3, 1, "1.13"), &[]).await;
    let stranger = {
        let other = Bed::new(66, of(1, 0, "1.13"));
        other.begin_rotation(&Realm::ALL);
        other.bundle()
    };
    // What an interrupted rotation of another tool leaves.
    let accepted = Phases { talos: Phase::Accepted, kubernetes: Phase::Accepted };
    for address in bed.addresses() {
        tamper(&bed, &address, |config| stranger.accept(config, accepted).unwrap()).await;
    }
    tokio::time::sleep(Duration::from_mins(3)).await;
    // Without a rotation it is a difference like any other.
    let plan = bed.plan(&wanted()).await;
    let changed =
        plan.steps.iter().flat_map(|step| &step.changes).filter(|one| one.key.contains("acceptedCAs"));
    assert_eq!(changed.count(), 8, "{plan:#?}");
    bed.begin_rotation(&Realm::ALL);
    let before = bed.bundle();
    bed.converge(&wanted(), 2).await.unwrap_or_else(|error| panic!("{error}"));
    is_over(&bed, &before, "with abandoned ones").await;
}

#[tokio::test(start_paused = true)]
async fn no_key_is_in_plans_or_words() {
    let bed = rotating(67, of(3, 1, "1.13"), &Realm::ALL).await;
    let secret = keys(&bed.bundle());
    let plan = bed.plan(&wanted()).await;
    let json = serde_json::to_string(&plan).unwrap();
    bed.converge(&wanted(), 2).await.unwrap();
    let told = bed.told.lines().join("\n");
    for key in &secret {
        assert!(!json.contains(key.as_str()) && !told.contains(key.as_str()));
    }
    assert!(secret.len() >= 8);
}

#[tokio::test(start_paused = true)]
async fn a_phase_does_not_begin_before_all_have_the_one_before() {
    let bed = rotating(68, of(3, 1, "1.13"), &[Realm::Talos]).await;
    let mut plan = bed.plan(&wanted()).await;
    // A plan of somebody who knows better: the first phase is left out.
    let first = plan.steps.iter().position(|step| {
        matches!(step.step, Step::Upkeep(Upkeep::RotateAuthority { phase: Phase::Accepted, .. }))
    });
    let left_out = plan.steps.remove(first.unwrap());
    for step in &mut plan.steps {
        step.needs.retain(|need| *need != left_out.id);
    }
    let before = bed.bundle();
    let error = bed.carry_out(&plan, &wanted(), 2).await.unwrap_err();
    assert!(error.contains("cp-1 does not accept the new one yet"), "{error}");
    assert!(bed.phases(&before).iter().all(|phases| *phases == Phases::default()));
}
