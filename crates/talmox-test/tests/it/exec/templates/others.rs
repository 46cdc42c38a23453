//! Templates that others make at the same time, or left behind.

use std::time::Duration;

use talmox_exec::{StepError, execute};
use talmox_plan::{Goal, Plan, Step};
use talmox_pve::client::{Method, Params};
use talmox_test::{Fault, When, host};

use super::yard::{Yard, talos, three_hosts};
use crate::exec::support::Bench;

fn bench(yard: &Yard, storage: &str, nonce: u32) -> Bench {
    yard.bench(talos("1.13.9", storage, &["cp-1"], ""), Goal::Templates, nonce)
}

#[tokio::test(start_paused = true)]
async fn two_runs_at_once_make_one_of_each() {
    for storage in ["local-zfs", "shared"] {
        for seed in 1..=8 {
            let yard = Yard::of(three_hosts("9.2", seed), seed);
            let (one, two) = (bench(&yard, storage, 1), bench(&yard, storage, 2));
            let later = async {
                tokio::time::sleep(Duration::from_millis(40 * (seed - 1))).await;
                yard.apply(&two).await
            };
            let (first, second) = tokio::join!(yard.apply(&one), later);
            let wanted = if storage == "shared" { 1 } else { 3 };
            let found = yard.templates();
            assert_eq!(found.len(), wanted, "{found:?}\n{}", yard.lab.calls());
            assert!(found.values().all(|ids| ids.len() == 1), "seed {seed}: {found:?}");
            yard.assert_tidy();
            first.unwrap();
            second.unwrap();
            yard.settle().await;
            assert!(yard.plan(&one).await.steps.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_runs_at_once_from_nothing_to_nodes() {
    for seed in 1..=6 {
        let yard = Yard::of(three_hosts("9.2", seed), seed);
        let nodes = ["cp-1", "worker-1", "worker-2"];
        let bench = |nonce| yard.bench(talos("1.13.9", "local-zfs", &nodes, ""), Goal::Converge, nonce);
        let (one, two) = (bench(1), bench(2));
        let later = async {
            tokio::time::sleep(Duration::from_millis(60 * (seed - 1))).await;
            yard.apply(&two).await
        };
        let (first, second) = tokio::join!(yard.apply(&one), later);
        let templates = yard.templates();
        assert!(
            templates.values().all(|ids| ids.len() == 1),
            "seed {seed}: {templates:?}\n{}",
            yard.lab.calls()
        );
        let vms = yard.dump().vms.len();
        assert_eq!(vms, nodes.len() + templates.len(), "seed {seed}\n{}", yard.lab.calls());
        yard.assert_tidy();
        first.unwrap();
        second.unwrap();
        yard.settle().await;
        assert!(yard.plan(&one).await.steps.is_empty());
    }
}

/// Two runs that planned before either began, so that neither knows of the other's ids.
#[tokio::test(start_paused = true)]
async fn two_plans_with_different_ids_leave_one_template() {
    let yard = Yard::new();
    let (one, two) = (bench(&yard, "local-zfs", 1), bench(&yard, "local-zfs", 2));
    let first = yard.plan(&one).await;
    let second = shifted(yard.plan(&two).await);
    let (client, other) = (yard.client(), yard.client());
    let (run, other_run) = (one.run(&client), two.run(&other));
    let (a, b) = tokio::join!(execute(&run, &first), execute(&other_run, &second));
    assert!(a.failed.is_empty() && b.failed.is_empty(), "{a:#?}\n{b:#?}");
    yard.apply(&one).await.unwrap();
    let found = yard.templates();
    assert!(found.len() == 3 && found.values().all(|ids| ids.len() == 1), "{found:?}");
    yard.assert_tidy();
}

/// The same plan with ids ten higher.
fn shifted(mut plan: Plan) -> Plan {
    let up = |vmid: &mut talmox_types::VmId| *vmid = talmox_types::VmId::try_from(vmid.get() + 10).unwrap();
    for planned in &mut plan.steps {
        if let Step::BuildTemplate { mark, .. } = &mut planned.step {
            up(&mut mark.vmid);
        } else if let Step::ConvertTemplate { template } = &mut planned.step {
            up(&mut template.mark.vmid);
        }
    }
    plan
}

#[tokio::test(start_paused = true)]
async fn a_foreign_vm_on_the_id_is_left_alone() {
    let yard = Yard::new();
    let one = bench(&yard, "local-zfs", 1);
    let plan = yard.plan(&one).await;
    let config = [("name".to_owned(), "mail".to_owned())].into();
    yard.lab.world(|world| world.add_vm("pve2", 9000, config, true));
    let client = yard.client();
    let outcome = execute(&one.run(&client), &plan).await;
    assert_eq!(outcome.failed.len(), 0, "{outcome:#?}");
    assert!(outcome.wants_another_plan());
    yard.apply(&one).await.unwrap();
    let found = yard.templates();
    assert!(found.len() == 3 && found.values().all(|ids| ids.len() == 1 && ids[0] != 9000), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_build_that_was_cut_off_says_how_to_clear_it_away() {
    let yard = Yard::new();
    let one = bench(&yard, "local-zfs", 1);
    let kill = Fault::KillWorker { after: Duration::from_millis(30) };
    yard.lab.plan(When::first(Method::Post, "/nodes/pve1/qemu"), kill);
    let client = yard.client();
    let plan = yard.plan(&one).await;
    let outcome = execute(&one.run(&client), &plan).await;
    let [failure] = outcome.failed.as_slice() else { panic!("{outcome:#?}") };
    assert!(matches!(&failure.error, StepError::Stuck { lock, .. } if lock == "create"), "{failure:#?}");
    assert!(failure.error.hints().iter().any(|hint| hint.starts_with("qm destroy 9000")));
    // The others are there, and nothing is made beside the remnant.
    assert_eq!(yard.templates().len(), 2);
    assert_eq!(yard.dump().vms.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_worker_left_is_finished() {
    for path in ["/download-url", "/template"] {
        let yard = Yard::new();
        let one = bench(&yard, "local-zfs", 1);
        yard.lab
            .plan(When::first(Method::Post, path), Fault::KillWorker { after: Duration::from_millis(20) });
        assert!(yard.try_apply(&one).await.is_err(), "{path}");
        yard.apply(&bench(&yard, "local-zfs", 2)).await.unwrap();
        assert_eq!(yard.templates().len(), 3, "{path}");
        yard.assert_tidy();
    }
}

/// Proxmox sets the flag of a template first, and turns its disks afterwards.
#[tokio::test(start_paused = true)]
async fn a_template_whose_disks_were_not_turned_is_finished() {
    let yard = Yard::new();
    let one = bench(&yard, "local-zfs", 1);
    yard.lab.plan(When::every(Method::Post, "/template"), Fault::reply(500, "something broke"));
    assert!(yard.try_apply(&one).await.is_err());
    for (number, id) in [(1, 9000), (2, 9001), (3, 9002)] {
        let path = format!("/nodes/{}/qemu/{id}/config", host(number));
        yard.client().put::<()>(&path, Params::new().with("template", "1")).await.unwrap();
    }
    yard.settle().await;
    let world = yard.lab.world(|world| world.clone());
    let yard = Yard::of(world, 1);
    yard.apply(&bench(&yard, "local-zfs", 2)).await.unwrap();
    assert_eq!(yard.templates().len(), 3);
    yard.assert_tidy();
    assert!(yard.plan(&one).await.steps.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_template_is_changed_in_place_and_what_people_wrote_stays() {
    let yard = Yard::new();
    let one = bench(&yard, "local-zfs", 1);
    yard.apply(&one).await.unwrap();
    let text = yard.dump().vms[&9000].config["description"].clone();
    let path = format!("/nodes/{}/qemu/9000/config", host(1));
    let params = Params::new().with("description", format!("ask Ann\n{text}")).with("memory", "512");
    yard.client().put::<()>(&path, params).await.unwrap();
    let client = yard.client();
    let expected = talmox_plan::ExpectedTemplate {
        name: "bench".to_owned(),
        host: host(1),
        mark: talmox_types::TemplateMark::of_description(&text).unwrap(),
    };
    let mut mark = expected.mark.clone();
    mark.settings = talmox_types::Digest16::parse("00000000000000ff").unwrap();
    let step = Step::ConfigureTemplate {
        template: expected,
        set: [("memory".to_owned(), "1024".to_owned())].into(),
        delete: std::collections::BTreeSet::from(["agent".to_owned()]),
        mark: mark.clone(),
    };
    let change = crate::exec::support::planned("", step, talmox_plan::Effect::ChangeLive, &[]);
    let plan = crate::exec::support::plan_of(vec![change]);
    for wrote in [true, false] {
        let outcome = execute(&one.run(&client), &plan).await;
        assert!(outcome.is_complete() && outcome.wrote() == wrote, "{outcome:#?}");
        let config = &yard.dump().vms[&9000].config;
        assert_eq!(config["description"], format!("ask Ann\n{mark}"));
        assert_eq!((config["memory"].as_str(), config.get("agent")), ("1024", None));
    }
}
