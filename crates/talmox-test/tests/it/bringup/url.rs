//! Configuration by URL: machines fetch it, and nothing that leads there is left, wherever a run was killed.

use std::time::Instant;

use talmox_plan::{Step, config_source};
use talmox_pve::client::Method;
use talmox_test::thorough::runtime;
use talmox_test::{Fault, When};

use crate::bringup::bed::{Bed, described, healthy};
use crate::bringup::trouble::{deaths, die_at_each};

fn bed(seed: u64) -> Bed {
    let bed = Bed::new(seed, described(1, 1, "config_delivery: url\nnode_network: dhcp"));
    bed.reserve();
    bed
}

/// Healthy, every configuration as described, and after the next restart no VM leads to where it came from.
async fn nothing_is_left(bed: &Bed, what: &str) {
    bed.is_healthy().await;
    let observed = bed.look(&healthy()).await;
    for guest in observed.guests.values() {
        let held = guest.seen().and_then(|seen| config_source(&seen.next));
        assert_eq!(held, None, "{what}: VM {}", guest.vmid);
    }
    assert_eq!(bed.etcd_clusters(), 1, "{what}");
    // Not one byte of configuration went to a machine in maintenance mode.
    assert_eq!(bed.accepted("ApplyConfiguration"), 0, "{what}");
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty() && plan.waiting.is_empty(), "{what}: {plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn nodes_fetch_their_configuration() {
    let bed = bed(55);
    let plan = bed.plan(&healthy()).await;
    let told = plan.steps.iter().filter(|step| matches!(step.step, Step::PublishConfig { .. })).count();
    assert_eq!(told, 2);
    // Neither a token nor an address is in a plan.
    assert!(!serde_json::to_string(&plan).unwrap().contains("config.lab.example"));
    bed.converge(&healthy(), 1)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    nothing_is_left(&bed, "undisturbed").await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_hands_it_out_elsewhere_says_so() {
    let mut bed = bed(56);
    // Killed when the VMs run, and before any machine asked for its configuration.
    bed.lab.plan(When::nth(Method::Post, "status/start", 2), Fault::KillClient { sent: true });
    bed.converge(&healthy(), 0xa).await.unwrap_err();
    bed.lab.transport().revive_client();
    let before = std::mem::replace(&mut bed.base, "https://other.example".to_owned());
    let error = bed.converge(&healthy(), 0xb).await.unwrap_err();
    let told = bed.told.lines().join("\n");
    let words = "looks for it at https://config.lab.example:8443, and this run hands it out at https://other.example/";
    assert!(told.contains(words), "{error}\n{told}");
    // The same address as before, and everything goes on.
    bed.base = before;
    bed.converge(&healthy(), 0xc).await.unwrap();
    nothing_is_left(&bed, "handed out where it was looked for").await;
}

#[test]
fn killed_at_any_call() {
    let begun = Instant::now();
    let calls = runtime().block_on(async {
        let bed = bed(57);
        bed.converge(&healthy(), 0xa).await.unwrap();
        bed.lab.calls().len()
    });
    // A run that is dead hands nothing out any more either.
    let runs = die_at_each(&deaths(calls, 31), async |number, sent, what| {
        let bed = bed(57);
        bed.lab.plan(When::call(number as u64), Fault::KillClient { sent });
        let _ = bed.converge_mortally(&healthy(), 0xa).await;
        bed.lab.transport().revive_client();
        let again = bed.converge(&healthy(), 0xb).await;
        again.unwrap_or_else(|error| {
            panic!("{what}: {error}\n{}\n{}", bed.told.lines().join("\n"), bed.lab.calls())
        });
        nothing_is_left(&bed, what).await;
    });
    println!(
        "killed with URLs: K = {calls} calls, {runs} runs, no address left each time, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}
