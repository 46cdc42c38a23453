//! Whatever is described and whatever is there: after an apply the plan is empty, a second one writes nothing, and
//! nothing of others has changed.

use std::time::Instant;

use talmox_plan::{Plan, Request};

use crate::chance::Chance;
use crate::line::bed::{Bed, destroy, foreign, ours, reboots, told};
use crate::line::drift::{assert_kept, drift};
use crate::line::spec::Spec;
use crate::line::worlds::{fitting, populate};

/// Descriptions of each run, each of which is built, edited, changed by hand, unprotected and destroyed: five cases. Another
/// number through `TALMOX_CASES`.
const DESCRIPTIONS: u64 = 500;

fn assert_settled(plan: &Plan, spec: &Spec, when: &str) {
    assert!(
        plan.is_empty() && plan.refusals.is_empty() && plan.waiting.is_empty(),
        "{when}, this is left:\n{plan:#?}\n{}",
        spec.text()
    );
}

/// Applies until nothing is left, and sees that another run has nothing to write and others' things are as they were.
async fn settle(bed: &Bed, spec: &Spec, request: &Request, nonce: u32, when: &str) {
    let desired = spec.desired();
    let pool = desired.proxmox.pool.as_ref().map(|pool| pool.as_str().to_owned());
    let before = foreign(&bed.dump(), &spec.uid, pool.as_deref());
    let plan = bed.plan(&desired, request, nonce).await;
    assert!(plan.refusals.is_empty(), "{when}: {:#?}\n{}", plan.refusals, spec.text());
    if let Err(error) = bed.apply(&desired, request, nonce, &plan).await {
        panic!("{when}: {}\n{}", told(&error), spec.text());
    }
    let second = bed.plan(&desired, request, nonce + 1).await;
    assert_settled(&second, spec, when);
    let writes = bed.lab.calls().writes().count();
    bed.apply(&desired, request, nonce + 1, &second).await.unwrap();
    assert_eq!(bed.lab.calls().writes().count(), writes, "{when}, a second apply wrote");
    let after = foreign(&bed.dump(), &spec.uid, pool.as_deref());
    assert!(after == before, "{when}, something of others changed:\n{before:#?}\n{after:#?}");
}

async fn case(seed: u64) {
    let chance = Chance::new(seed);
    let mut spec = Spec::by(&chance);
    let mut world = fitting(&spec, seed);
    populate(&mut world, &spec, &chance);
    let bed = Bed::new(world, seed);
    settle(&bed, &spec, &reboots(), 0x10, &format!("seed {seed}, built")).await;
    let nodes = spec.nodes.len() + spec.pooled;
    assert_eq!(ours(&bed.dump(), &spec.uid).len(), nodes, "seed {seed}");

    let prune = spec.edit(&chance);
    let request = Request { prune, ..reboots() };
    settle(&bed, &spec, &request, 0x20, &format!("seed {seed}, edited")).await;
    if prune {
        let nodes = spec.nodes.len() + spec.pooled;
        assert_eq!(ours(&bed.dump(), &spec.uid).len(), nodes, "seed {seed}");
    }

    let traces = drift(&bed, &spec, &chance);
    settle(&bed, &spec, &reboots(), 0x30, &format!("seed {seed}, changed by hand")).await;
    assert_kept(&bed.dump(), &traces, seed);

    for node in &mut spec.nodes {
        node.protection = false;
    }
    settle(&bed, &spec, &reboots(), 0x40, &format!("seed {seed}, unprotected")).await;
    tear_down(&bed, &spec, seed).await;
}

/// Destroys the cluster: nothing of it is left, and everything else is as it was.
async fn tear_down(bed: &Bed, spec: &Spec, seed: u64) {
    let before = bed.dump();
    let gone = ours(&before, &spec.uid);
    let desired = spec.desired();
    let pool = desired.proxmox.pool.as_ref().map(|pool| pool.as_str().to_owned());
    if let Err(error) = bed.converge(&desired, &destroy(), 0x50).await {
        panic!("seed {seed}, destroyed: {error}\n{}", spec.text());
    }
    let after = bed.dump();
    assert!(ours(&after, &spec.uid).is_empty(), "seed {seed}: not all are gone");
    let orphans: Vec<&String> = after
        .volumes
        .iter()
        .filter(|(_, volume)| volume.owner.is_some_and(|owner| gone.contains(&owner)))
        .map(|(key, _)| key)
        .collect();
    assert!(orphans.is_empty(), "seed {seed}: volumes without a VM: {orphans:?}");
    let others = |dump| foreign(dump, &spec.uid, pool.as_deref());
    assert!(others(&before) == others(&after), "seed {seed}, destroyed, something of others changed");
}

/// Each on a runtime of its own, whose clock passes by itself.
fn run_case(seed: u64) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(case(seed));
}

/// Runs every other case, and says which failed: what they have in common tells more than the first of them.
fn run_cases(first: u64) {
    let begun = Instant::now();
    let seeds: Vec<u64> = (0..descriptions()).filter(|seed| seed % 2 == first).collect();
    let failed: Vec<u64> =
        seeds.iter().copied().filter(|seed| std::panic::catch_unwind(|| run_case(*seed)).is_err()).collect();
    let (count, seconds) = (seeds.len(), begun.elapsed().as_secs_f64());
    println!("{count} descriptions, {} cases in {seconds:.1} s", 5 * count);
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}

#[expect(clippy::disallowed_methods, reason = "how long a test takes is its caller's choice")]
fn descriptions() -> u64 {
    std::env::var("TALMOX_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(DESCRIPTIONS)
}

#[test]
fn every_description_converges_and_goes_again_even_seeds() {
    run_cases(0);
}

#[test]
fn every_description_converges_and_goes_again_odd_seeds() {
    run_cases(1);
}
