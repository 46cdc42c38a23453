//! Other work in the middle of a rotation: nodes that leave or are off, upgrades, single nodes, and a second actor.

use std::time::Duration;

use futures_util::future::join;
use talmox_machine::Bundle;
use talmox_plan::Request;
use talmox_render::PatchText;
use talmox_test::thorough::every;
use talmox_types::desired::Desired;
use talmox_types::{NodeName, Phase, Realm};

use crate::rotate::bed::{Bed, Watch, described};
use crate::rotate::cluster::{is_over, of, rotating, wanted, words};

fn name(node: &str) -> NodeName {
    NodeName::parse(node).unwrap()
}

/// Before the rotation, one machine ahead of the others, and all of them in a phase.
const MOMENTS: [Option<(Realm, Phase, usize)>; 4] = [
    None,
    Some((Realm::Talos, Phase::Accepted, 1)),
    Some((Realm::Talos, Phase::Issuing, 2)),
    Some((Realm::Kubernetes, Phase::Issuing, 1)),
];

/// Some of them, or all with `TALMOX_EVERY=1`. Each test begins with another.
fn moments(from: usize) -> impl Iterator<Item = (usize, Option<(Realm, Phase, usize)>)> {
    let every = every(2);
    MOMENTS.into_iter().enumerate().skip(from % every).step_by(every)
}

/// A rotation that was interrupted at a moment, or is yet to begin, and the secrets it began with.
async fn interrupted(seed: u64, desired: Desired, at: Option<(Realm, Phase, usize)>) -> (Bed, Bundle) {
    let bed = rotating(seed, desired, &Realm::ALL).await;
    let before = bed.bundle();
    if let Some(at) = at {
        bed.dies_in(&wanted(), 2, at).await;
    }
    (bed, before)
}

async fn gets_there(bed: &Bed, request: &Request, number: u32, what: &str) {
    let log = || bed.told.lines().join("\n");
    bed.converge(request, number).await.unwrap_or_else(|error| panic!("{what}: {error}\n{}", log()));
}

#[tokio::test(start_paused = true)]
async fn nodes_leave_in_the_middle() {
    for (number, at) in moments(1) {
        let what = format!("{at:?}");
        let (mut bed, before) = interrupted(200 + number as u64, of(3, 2, "1.13"), at).await;
        bed.desired = of(3, 1, "1.13");
        let remove = Request { remove: [name("worker-2")].into(), ..wanted() };
        gets_there(&bed, &remove, 3, &what).await;
        is_over(&bed, &before, &what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn upgrades_come_before_what_is_left_of_a_rotation() {
    for (number, at) in moments(2) {
        let what = format!("{at:?}");
        let older = "talos_version: 1.13.6\nkubernetes_version: 1.36.2\ntalos_contract: \"1.13\"\n";
        let (mut bed, before) = interrupted(210 + number as u64, described(3, 1, older), at).await;
        bed.desired = of(3, 1, "1.13");
        let plan = bed.plan(&wanted()).await;
        assert_eq!(words(&plan), [""; 0], "{what}: {plan:#?}");
        let request = Request { allow_reboot: true, ..wanted() };
        let mut watch = Watch::new(&bed, before.clone());
        let look = async {
            let mut had = watch.look();
            loop {
                let now = watch.look();
                for (index, address) in bed.addresses().iter().enumerate() {
                    // One that restarts has none in force.
                    if bed.config_text(address).is_none() {
                        continue;
                    }
                    let behind =
                        Realm::ALL.into_iter().any(|realm| now[index].of(realm) < had[index].of(realm));
                    assert!(!behind, "{what}, {address}: {had:?}, then {now:?}");
                    had[index] = now[index];
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        tokio::select! {
            () = gets_there(&bed, &request, 3, &what) => {}
            () = look => unreachable!("it looks for ever"),
        }
        is_over(&bed, &before, &what).await;
        bed.is_upgraded(&request).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_off_is_named_and_nothing_goes_on_without_it() {
    for (number, at) in moments(3) {
        let what = format!("{at:?}");
        let (mut bed, before) = interrupted(220 + number as u64, of(3, 1, "1.13"), at).await;
        bed.desired.nodes[3].vm.power = talmox_types::desired::Power::Stopped;
        let (host, worker) = (talmox_test::host(1), talmox_test::vmid(2003));
        let client = bed.lab.client();
        let task = client.stop_vm(&host, worker, false).await.unwrap();
        bed.lab.done(&client, &task).await.unwrap();
        let had = bed.phases(&before);
        let plan = bed.plan(&wanted()).await;
        assert_eq!(words(&plan), [""; 0], "{what}: {plan:#?}");
        let refused =
            plan.refusals.iter().any(|refusal| refusal.problem.contains("worker-1 (it does not run)"));
        assert!(refused, "{what}: {plan:#?}");
        bed.converge(&wanted(), 3).await.unwrap_err();
        assert_eq!(bed.phases(&before)[..3], had[..3], "{what}: nobody goes on without it");
        // It is wanted again, and is started before all else.
        bed.desired = of(3, 1, "1.13");
        gets_there(&bed, &wanted(), 4, &what).await;
        is_over(&bed, &before, &what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn single_nodes_are_changed_in_the_phase_they_are_in() {
    for (number, at) in moments(4) {
        let what = format!("{at:?}");
        let (mut bed, before) =
            interrupted(230 + number as u64, of(1, 1, "1.13"), at.map(|(realm, phase, _)| (realm, phase, 1)))
                .await;
        let had = bed.phases(&before);
        bed.handed.patches = vec![PatchText {
            name: "patch.yaml".to_owned(),
            text: "machine: {sysctls: {vm.max_map_count: \"262144\"}}".to_owned(),
        }];
        let only = Request { targets: [name("worker-1")].into(), ..wanted() };
        let plan = bed.plan(&only).await;
        assert_eq!(words(&plan), [""; 0], "{what}: {plan:#?}");
        gets_there(&bed, &only, 3, &what).await;
        assert_eq!(bed.phases(&before), had, "{what}: no phase is begun or taken back");
        assert!(bed.config_text("10.0.7.12").unwrap().contains("vm.max_map_count"), "{what}");
        gets_there(&bed, &wanted(), 4, &what).await;
        is_over(&bed, &before, &what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_who_rotate_one_waits_or_is_told() {
    let bed = rotating(240, of(3, 1, "1.13"), &Realm::ALL).await;
    let before = bed.bundle();
    let mut watch = Watch::new(&bed, before.clone());
    let look = async {
        loop {
            let now = watch.look();
            for realm in Realm::ALL {
                let of = |phases: &talmox_types::Phases| phases.of(realm) as u8;
                let (least, most) = (now.iter().map(of).min().unwrap(), now.iter().map(of).max().unwrap());
                assert!(most - least <= 1, "{now:?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let (one, other) = (wanted(), wanted());
    let both = join(bed.converge(&one, 2), bed.converge(&other, 3));
    let (first, second) = tokio::select! {
        ends = both => ends,
        () = look => unreachable!("it looks for ever"),
    };
    assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}\n{}", bed.told.lines().join("\n"));
    gets_there(&bed, &wanted(), 4, "two at once").await;
    is_over(&bed, &before, "two at once").await;
}
