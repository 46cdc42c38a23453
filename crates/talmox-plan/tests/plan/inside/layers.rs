//! A layer that does not answer while another does.

use super::*;

fn reboots() -> Request {
    Request { allow_reboot: true, ..healthy() }
}

fn replacing(node: &str) -> Request {
    Request { replace: [name(node)].into(), ..healthy() }
}

/// A cluster that lives, and whose Kubernetes nobody can ask.
fn without_kubernetes(desired: &Desired) -> Observed {
    let mut observed = living(desired);
    observed.kubernetes = SeenKubernetes::Unreachable { reason: "refused".to_owned() };
    observed
}

/// What runs on a worker could not be asked to leave, and nobody would see whether it came back.
#[test]
fn no_worker_goes_down_while_kubernetes_does_not_answer() {
    let desired = desired(3, 2);
    let mut observed = without_kubernetes(&desired);
    edit(&mut observed, 2003, |config| drop(config.set("memory", "1024")));
    let mut older = living(&desired);
    older.kubernetes = observed.kubernetes.clone();
    let mut seen = member(&desired, "w-1");
    seen.version = "v1.13.6".to_owned();
    see(&mut older, "w-1", boxed(seen));
    for (observed, request) in
        [(&observed, reboots()), (&older, healthy()), (&without_kubernetes(&desired), replacing("w-1"))]
    {
        let plan = planned(&desired, observed, &request);
        assert_eq!(
            problems(&plan),
            [
                "w-1: Kubernetes does not answer (refused), so pods cannot be asked to leave before their node goes down"
            ],
            "{:?}",
            steps(&plan)
        );
    }
}

/// It may be what brings Kubernetes back; nothing but its own pods runs there.
#[test]
fn a_control_plane_may_go_down_for_what_ails_kubernetes() {
    let mut desired = desired(3, 1);
    let mut observed = without_kubernetes(&desired);
    edit(&mut observed, 2000, |config| drop(config.set("memory", "1024")));
    let plan = planned(&desired, &observed, &reboots());
    assert!(plan.refusals.is_empty() && steps(&plan).iter().any(|step| step.starts_with("cp-1/reboot")));
    // Unless it takes what others do.
    desired.kubernetes.allow_scheduling_on_control_planes = true;
    assert_eq!(problems(&planned(&desired, &observed, &reboots())).len(), 1);
}

/// One that is dead has no pods that could be asked.
#[test]
fn a_dead_worker_is_built_anew_whoever_answers() {
    let desired = desired(3, 1);
    let mut observed = without_kubernetes(&desired);
    see(&mut observed, "w-1", silent(&desired, "w-1"));
    let plan = planned(&desired, &observed, &replacing("w-1"));
    assert!(plan.refusals.is_empty(), "{:?}", problems(&plan));
}

/// Its control planes may be as well as ever, behind a network that lets nobody through to them.
#[test]
fn nothing_leaves_a_cluster_that_does_not_answer() {
    let before = desired(3, 2);
    let mut observed = living(&before);
    for node in &before.nodes {
        see(&mut observed, node.name.as_str(), silent(&before, node.name.as_str()));
    }
    let mut fewer = before.clone();
    fewer.nodes.retain(|node| node.name.as_str() != "w-2");
    let removing = Request { remove: [name("w-2")].into(), ..healthy() };
    for (desired, request) in [(&before, replacing("w-1")), (&fewer, removing)] {
        let plan = planned(desired, &observed, &request);
        let goes = plan.steps.iter().any(|step| matches!(step.step, Step::RemoveVm { .. }));
        assert!(!goes, "{:?}", steps(&plan));
        assert!(
            problems(&plan)[0].contains("no control plane says how the cluster is"),
            "{:?}",
            problems(&plan)
        );
    }
    // Before there was an etcd nobody misses anything.
    edit(&mut observed, 2000, |config| {
        let mark = Mark::of_description(config.description().unwrap()).unwrap();
        config.set("description", &Mark { bootstrap: None, ..mark });
    });
    assert!(planned(&before, &observed, &replacing("w-1")).refusals.is_empty());
}
