//! Templates that others make at the same time, or left behind.

use std::time::Duration;

use talmox_exec::{StepError, execute};
use talmox_plan::{Goal, Plan, Step};
use talmox_pve::client::{Method, Params};
use talmox_test::{Fault, When, host};

use super::yard::{Yard, talos, three_hosts};
use crate::support::Bench;

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
    // Somebody does.
    let root = yard.lab.world(|world| world.root_password().unwrap().to_owned());
    let credentials = talmox_pve::client::Credentials::password("root@pam", root.into()).unwrap();
    let root = yard.lab.client_as(&credentials, talmox_pve::client::Settings::default());
    let path = format!("/nodes/{}/qemu/9000/config", host(1));
    root.put::<()>(&path, Params::new().with("delete", "lock").with("skiplock", 1)).await.unwrap();
    let task = root.delete_vm(&host(1), talmox_test::vmid(9000), false).await.unwrap();
    yard.lab.done(&root, &task).await.unwrap();
    yard.apply(&one).await.unwrap();
    assert_eq!(yard.templates().len(), 3);
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
    let change = crate::support::planned("", step, talmox_plan::Effect::ChangeLive, &[]);
    let plan = crate::support::plan_of(vec![change]);
    for wrote in [true, false] {
        let outcome = execute(&one.run(&client), &plan).await;
        assert!(outcome.is_complete() && outcome.wrote() == wrote, "{outcome:#?}");
        let config = &yard.dump().vms[&9000].config;
        assert_eq!(config["description"], format!("ask Ann\n{mark}"));
        assert_eq!((config["memory"].as_str(), config.get("agent")), ("1024", None));
    }
}
