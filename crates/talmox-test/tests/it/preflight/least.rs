//! The rights that `check --setup` grants suffice for a whole life, and not one of them is spare.

use std::collections::BTreeSet;

use talmox_exec::preflight::{Report, Verdict, Weight, needs, setup};
use talmox_pve::client::{Client, Credentials};
use talmox_types::desired::Desired;

use crate::preflight::bed::{ACCOUNT, Bed, described, small};
use crate::preflight::paste::{each_left_out, granted, paste};

async fn block_for(bed: &Bed, desired: &Desired) -> String {
    let facts = bed.facts(desired, &bed.root()).await;
    setup(desired, &facts, &bed.account())
}

async fn block(bed: &Bed) -> String {
    block_for(bed, &small()).await
}

/// What a cluster lives through.
#[derive(Clone, Copy)]
enum Life {
    /// Of `small()`: everything.
    Whole,
    /// It comes, and it goes.
    Short,
}

impl Life {
    async fn of(self, bed: &Bed, client: &Client, desired: &Desired) -> Result<(), String> {
        match self {
            Self::Whole => bed.live(client).await,
            Self::Short => bed.come_and_go(client, desired).await,
        }
    }
}

/// Whoever the pasted lines made.
async fn made(bed: &Bed, block: &str) -> Client {
    let secret = paste(&bed.root(), block).await.unwrap();
    bed.client(&Credentials::token_parts(&format!("{ACCOUNT}!talmox"), secret).unwrap())
}

fn problems(report: &Report) -> Vec<&str> {
    let bad = report.checks.iter().filter(|check| check.verdict == Verdict::Problem);
    bad.map(|check| check.message.as_str()).collect()
}

async fn suffices(release: &str) {
    let bed = Bed::new(release, |_| {}).await;
    let client = made(&bed, &block(&bed).await).await;
    let report = bed.check(&small(), &client).await;
    assert_eq!(problems(&report), [""; 0], "{report:#?}");
    bed.live(&client).await.unwrap();
    // Pasted again, everything is as it was but for the token, which is there.
    let facts = bed.facts(&small(), &client).await;
    let again = setup(&small(), &facts, &talmox_exec::preflight::Account { exists: true, ..bed.account() });
    paste(&bed.root(), &again).await;
    bed.live(&client).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_granted_suffices_on_nine() {
    suffices("9.2").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_granted_suffices_on_eight() {
    suffices("8.4").await;
}

/// Without any one of them `check` names it, and a life ends early if and only if it was said to be a must.
async fn nothing_is_spare(release: &str, desired: &Desired, life: Life) {
    let first = Bed::new(release, |_| {}).await;
    let whole = block_for(&first, desired).await;
    let needs = needs(desired, &first.facts(desired, &first.root()).await);
    life.of(&first, &made(&first, &whole).await, desired).await.unwrap();
    let variants = each_left_out(&whole);
    assert!(variants.len() > 25, "{}", variants.len());
    for (what, left) in variants {
        let kept: BTreeSet<(String, String)> = granted(&left).into_iter().collect();
        // What every VM gives, the template gives too.
        let from_above = |(path, privilege): &(String, String)| {
            path.starts_with("/vms/") && kept.contains(&("/vms".to_owned(), privilege.clone()))
        };
        let gone: Vec<(String, String)> = granted(&whole)
            .into_iter()
            .filter(|grant| !kept.contains(grant))
            .filter(|grant| what.contains(' ') || !from_above(grant))
            .collect();
        assert!(!gone.is_empty(), "{what}");
        let bed = Bed::new(release, |_| {}).await;
        let client = made(&bed, &left).await;
        let report = bed.check(desired, &client).await;
        let mut must = false;
        for (path, privilege) in &gone {
            let need = needs.iter().find(|need| need.path == *path && need.privilege == privilege.as_str());
            let need = need.unwrap_or_else(|| panic!("{privilege} on {path} is granted and not needed"));
            must |= need.weight == Weight::Must;
            let named = format!("{privilege} is missing on {path}");
            let check = report.checks.iter().find(|check| check.message.contains(&named));
            let check = check.unwrap_or_else(|| panic!("without {what} nobody says `{named}`: {report:#?}"));
            let expected = if need.weight == Weight::Must { Verdict::Problem } else { Verdict::Warning };
            assert_eq!(check.verdict, expected, "{what}");
        }
        let lived = life.of(&bed, &client, desired).await;
        assert_eq!(lived.is_err(), must, "without {what}: {lived:?}\n{left}");
        // A plan refused, and Proxmox was never asked for what it would not do.
        let refused = lived.err().is_none_or(|error| error.contains(" is missing on "));
        assert!(refused, "without {what}: {:#?}", bed.lab.calls().writes().last());
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_it_is_spare_on_nine() {
    nothing_is_spare("9.2", &small(), Life::Whole).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_of_it_is_spare_on_eight() {
    nothing_is_spare("8.4", &small(), Life::Whole).await;
}

/// A VM that boots an ISO and is under HA.
fn from_iso() -> Desired {
    let node = "  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n    ha_managed: true\n";
    described("boot: iso\n", node)
}

#[tokio::test(start_paused = true)]
async fn what_iso_and_ha_need_is_not_spare_on_nine() {
    nothing_is_spare("9.2", &from_iso(), Life::Short).await;
}

#[tokio::test(start_paused = true)]
async fn what_iso_and_ha_need_is_not_spare_on_eight() {
    nothing_is_spare("8.4", &from_iso(), Life::Short).await;
}

#[tokio::test(start_paused = true)]
async fn a_template_with_a_cloud_init_drive_spares_its_clones_two_privileges() {
    let bed = Bed::new("9.2", |_| {}).await;
    let weights = |facts: &talmox_exec::preflight::Facts| -> Vec<Weight> {
        let needs = needs(&small(), facts).into_iter();
        let about = ["VM.Config.CDROM", "VM.Config.Cloudinit"];
        needs.filter(|need| about.contains(&need.privilege)).map(|need| need.weight).collect()
    };
    let mut facts = bed.facts(&small(), &bed.root()).await;
    assert_eq!(weights(&facts), [Weight::Must, Weight::Must]);
    let template = facts.seen.guests.get_mut(&talmox_test::vmid(9000)).unwrap();
    let talmox_plan::Seen::Read(config) = &mut template.config else { panic!("{template:?}") };
    config.next.set("ide2", "local-zfs:vm-9000-cloudinit,media=cdrom");
    assert_eq!(weights(&facts), [Weight::Should, Weight::Should]);
}

#[tokio::test(start_paused = true)]
async fn the_lines_for_nine() {
    let bed = Bed::new("9.2", |world| {
        // A storage that takes no images yet.
        let local = world.storages.iter_mut().find(|storage| storage.id == "local").unwrap();
        local.content.remove("import");
    })
    .await;
    insta::assert_snapshot!(block(&bed).await);
    let managed = crate::preflight::bed::described(
        "",
        "  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n",
    );
    let facts = bed.facts(&managed, &bed.root()).await;
    insta::assert_snapshot!("the_lines_for_templates_of_our_own", setup(&managed, &facts, &bed.account()));
}
