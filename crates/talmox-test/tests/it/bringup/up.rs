//! Clusters of all sorts come up, and a second run finds nothing to do.

use talmox_plan::{SeenMachine, Until};

use crate::bringup::bed::{Bed, described, desired, healthy, until};

/// Brings a cluster up, looks at what came of it, and runs again: then nothing is written anywhere.
async fn comes_up(bed: &mut Bed) {
    let summary = bed.converge(&healthy(), 1).await;
    let summary = summary.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    bed.is_healthy().await;
    assert_eq!(bed.etcd_clusters(), 1);
    let (calls, writes) = (bed.lab.calls().len(), bed.lab.calls().writes().count());
    println!(
        "{} nodes: {} rounds, {} steps, {calls} calls, {writes} of them writes, {} s on the cluster's clock",
        bed.desired.nodes.len(),
        summary.rounds,
        summary.done,
        bed.lab.transport().now() / 1000
    );
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty() && plan.waiting.is_empty(), "{plan:#?}");
    assert!(plan.notes.iter().all(|note| note.kind != talmox_plan::NoteKind::Inside), "{:?}", plan.notes);
    let before = bed.lab.calls().writes().count();
    bed.converge(&healthy(), 2).await.unwrap();
    let after: Vec<String> = bed.lab.calls().writes().skip(before).map(ToString::to_string).collect();
    assert!(after.iter().all(|call| call.contains("/access/ticket")), "{after:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_single_node() {
    comes_up(&mut Bed::new(1, described(1, 0, ""))).await;
}

#[tokio::test(start_paused = true)]
async fn three_control_planes_and_two_workers() {
    let mut bed = Bed::new(2, described(3, 2, ""));
    comes_up(&mut bed).await;
    assert_eq!(bed.accepted("Bootstrap"), 1);
    assert_eq!(bed.accepted("ApplyConfiguration"), 5);
}

#[tokio::test(start_paused = true)]
async fn workers_that_come_later() {
    let same = "allow_scheduling_on_control_planes: true";
    let mut bed = Bed::new(3, described(3, 0, same));
    comes_up(&mut bed).await;
    bed.desired = described(3, 2, same);
    comes_up(&mut bed).await;
    assert_eq!((bed.accepted("Bootstrap"), bed.accepted("ApplyConfiguration")), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn control_planes_that_come_later_join_and_are_never_bootstrapped() {
    let mut bed = Bed::new(4, described(1, 1, ""));
    comes_up(&mut bed).await;
    // The new ones come before the old one by name.
    let more = "nodes:\n\
        \x20 - {name: aa-1, address: 10.0.7.21, controller: true}\n\
        \x20 - {name: aa-2, address: 10.0.7.22, controller: true}\n\
        \x20 - {name: cp-1, address: 10.0.7.11, controller: true}\n\
        \x20 - {name: worker-1, address: 10.0.7.12}\n";
    bed.desired = desired(more);
    comes_up(&mut bed).await;
    assert_eq!(bed.accepted("Bootstrap"), 1);
}

#[tokio::test(start_paused = true)]
async fn some_addresses_by_dhcp() {
    let mixed = "nodes:\n\
        \x20 - {name: cp-1, address: 10.0.7.11, controller: true}\n\
        \x20 - {name: worker-1, address: 10.0.7.12, node_network: dhcp}\n\
        \x20 - {name: worker-2, address: 10.0.7.13}\n";
    let mut bed = Bed::new(5, desired(mixed));
    bed.reserve();
    comes_up(&mut bed).await;
}

#[tokio::test(start_paused = true)]
async fn two_families() {
    let both = "node_cidr: [10.0.7.0/24, 'fd00:7::/64']\nnode_gateway: [10.0.7.1, 'fd00:7::1']\n\
        cluster_pod_cidr: [10.42.0.0/16, 'fd00:42::/56']\ncluster_svc_cidr: [10.43.0.0/16, 'fd00:43::/112']\n\
        nodes:\n\
        \x20 - {name: cp-1, address: [10.0.7.11, 'fd00:7::11'], controller: true}\n\
        \x20 - {name: worker-1, address: [10.0.7.12, 'fd00:7::12']}\n";
    let mut bed = Bed::new(6, desired(both));
    comes_up(&mut bed).await;
    let addresses = bed.lab.nodes(|nodes| nodes.addresses());
    assert!(addresses.iter().any(|(ip, _)| ip.to_string() == "fd00:7::12"), "{addresses:?}");
}

#[tokio::test(start_paused = true)]
async fn as_far_as_asked_and_on_from_there() {
    let bed = Bed::new(7, described(3, 1, ""));
    let seen = |machine: &SeenMachine| match machine {
        SeenMachine::Unreachable { .. } => "silent",
        SeenMachine::Maintenance { .. } => "in maintenance",
        SeenMachine::Foreign { .. } => "foreign",
        SeenMachine::Configured(_) => "configured",
    };
    let steps = [
        (Until::Vms, "silent", 0),
        (Until::Reachable, "in maintenance", 0),
        (Until::Configured, "configured", 0),
        (Until::Bootstrapped, "configured", 1),
        (Until::Healthy, "configured", 1),
    ];
    for (number, (goal, wanted, clusters)) in (1..).zip(steps) {
        bed.converge(&until(goal), number).await.unwrap();
        let observed = bed.look(&healthy()).await;
        let all: Vec<&str> = observed.talos.values().map(seen).collect();
        assert_eq!(all, [wanted; 4], "{goal:?}");
        assert_eq!(bed.etcd_clusters(), clusters, "{goal:?}");
        if goal > Until::Vms {
            let plan = bed.plan(&until(goal)).await;
            assert!(plan.is_empty() && plan.waiting.is_empty(), "{goal:?}: {plan:#?}");
        }
    }
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn manifests_and_a_program_of_the_users_are_handed_over_once() {
    let more = "cni: none\nbootstrap_manifests: [cilium.yaml]\npost_bootstrap: [flux, bootstrap]";
    let mut bed = Bed::new(8, described(1, 1, more));
    let plugin = "apiVersion: v1\nkind: Namespace\nmetadata: {name: cilium}\n---\n\
        apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: cilium, namespace: kube-system, labels: {k8s-app: cilium}}\n\
        spec:\n\x20 selector: {matchLabels: {k8s-app: cilium}}\n\x20 template:\n\x20   metadata: {labels: {k8s-app: cilium}}\n\
        \x20   spec:\n\x20     hostNetwork: true\n\x20     containers: [{name: agent, image: cilium}]\n\
        \x20     volumes: [{name: cni, hostPath: {path: /etc/cni/net.d}}]\n";
    bed.handed.manifests.insert("cilium.yaml".to_owned(), plugin.to_owned());
    let summary = bed.converge(&healthy(), 1).await;
    summary.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert_eq!(*bed.handed.ran.lock().unwrap(), ["flux bootstrap"]);
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty(), "{plan:#?}");
    bed.converge(&healthy(), 2).await.unwrap();
    assert_eq!(bed.handed.ran.lock().unwrap().len(), 1);
}
