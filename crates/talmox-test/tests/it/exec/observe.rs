//! What `observe` sees, and what it costs.

use std::time::Duration;

use talmox_exec::observe;
use talmox_plan::{Depth, GuestKind, Power, Seen};
use talmox_pve::client::{ErrorKind, Method, Migration, Params, Settings};
use talmox_sim::Reach;
use talmox_test::{Fault, Lab, When, host, token, vmid};

use crate::exec::support::{described, description, make_node, make_pool, make_vm, mark, node};

/// A cluster as described: three control planes and two workers on the first host, all in the pool.
async fn settled(lab: &Lab) {
    let client = lab.client();
    lab.template(&client, vmid(9000)).await;
    make_pool(lab).await;
    for (name, id) in [("cp-1", 2000), ("cp-2", 2001), ("cp-3", 2002), ("worker-1", 2003), ("worker-2", 2004)]
    {
        make_node(lab, &client, &mark(name, id, "a1")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_without_a_change_costs_one_request_for_each_vm_template_and_host() {
    let lab = Lab::three_hosts(1);
    settled(&lab).await;
    let client = lab.client();
    // VMs of others cost nothing.
    for id in [300, 301, 302] {
        make_vm(&lab, &client, 2, vmid(id), &[("name", "mail")]).await;
    }
    tokio::time::sleep(Duration::from_secs(11)).await;
    let before = lab.calls().len();
    let observed = observe(&client, &description(3, 2, "")).await.unwrap();
    let calls = lab.calls();
    let spent = calls.len() - before;
    assert!(spent <= 5 + 1 + 1 + 6, "{spent} requests:\n{calls}");
    assert_eq!(calls.asking("GET", "/agent").count(), 0);
    assert_eq!(calls.writes().skip_while(|call| call.number <= before).count(), 0);
    assert_eq!(observed.depth, Depth::Candidates);
    let read = observed.guests.values().filter(|guest| guest.seen().is_some()).map(|guest| guest.vmid.get());
    assert_eq!(read.collect::<Vec<_>>(), [2000, 2001, 2002, 2003, 2004, 9000]);
    assert_eq!(observed.guests[&vmid(300)].config, Seen::NotAsked);
    assert_eq!(observed.pool.unwrap().members.len(), 5);
    assert_eq!((observed.version.as_str(), observed.rights.start_order()), ("9.2.11", false));
    assert!(!observed.rights.root);
}

#[tokio::test(start_paused = true)]
async fn hosts_know_what_the_cluster_does_not_tell_yet() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    lab.template(&client, vmid(9000)).await;
    make_pool(&lab).await;
    make_node(&lab, &client, &mark("cp-1", 2000, "a1")).await;
    let task = client.start_vm(&host(1), vmid(2000)).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    let change = talmox_pve::client::ConfigChange::new().set("memory", "4096").unwrap();
    client.change_config(&host(1), vmid(2000), &change).await.unwrap();
    let observed = observe(&lab.root(), &description(1, 0, "")).await.unwrap();
    let guest = &observed.guests[&vmid(2000)];
    assert_eq!((guest.power, guest.name.as_deref()), (Power::Running, Some("cp-1")));
    let config = guest.seen().unwrap();
    assert_eq!(config.pending().into_iter().collect::<Vec<_>>(), ["memory"]);
    assert_eq!((config.live.get("memory"), config.next.get("memory")), (Some("2048"), Some("4096")));
    assert_eq!(Some(config.digest.as_str()), client.vm_config(&host(1), vmid(2000)).await.unwrap().digest());
    assert!(observed.rights.root && observed.rights.start_order());
    assert!(!observe(&client, &description(1, 0, "")).await.unwrap().rights.root);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_found_is_looked_for_everywhere() {
    let lab = Lab::three_hosts(1);
    let client = lab.client();
    lab.template(&client, vmid(9000)).await;
    // Renamed, without a pool, far from the range: nothing but the mark tells.
    let description_text = mark("cp-1", 555, "a1").to_string();
    make_vm(&lab, &client, 3, vmid(555), &[("name", "renamed"), ("description", &description_text)]).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    let observed = observe(&client, &description(1, 0, "")).await.unwrap();
    assert_eq!(observed.depth, Depth::Everything);
    let guest = &observed.guests[&vmid(555)];
    assert_eq!((guest.kind, guest.power), (GuestKind::Vm, Power::Stopped));
    assert_eq!(guest.seen().unwrap().live.description(), Some(description_text.as_str()));
}

#[tokio::test(start_paused = true)]
async fn one_host_that_is_down_hides_only_its_own() {
    let lab = Lab::three_hosts(1);
    let client = lab.client_through(1);
    lab.template(&client, vmid(9000)).await;
    make_pool(&lab).await;
    make_node(&lab, &client, &mark("cp-1", 2000, "a1")).await;
    let text = mark("cp-2", 2001, "a1").to_string();
    make_vm(&lab, &client, 2, vmid(2001), &[("name", "cp-2"), ("description", &text)]).await;
    make_vm(&lab, &client, 3, vmid(2002), &[("name", "cp-3")]).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    for (number, reach) in [("pve2", Reach::ProxyDown), ("pve3", Reach::Unreachable)] {
        lab.world(|world| world.nodes.get_mut(number).unwrap().reach = reach);
    }
    let observed = observe(&client, &description(3, 0, "")).await.unwrap();
    assert!(observed.guests[&vmid(2000)].seen().is_some());
    let reason = |id| match &observed.guests[&vmid(id)].config {
        Seen::Unreadable(reason) => reason.clone(),
        other @ (Seen::NotAsked | Seen::Read(_)) => panic!("{id}: {other:?}"),
    };
    assert_eq!(reason(2001), "host pve2 does not answer: Connection refused (status 595)");
    assert_eq!(reason(2002), "host pve3 is offline");
    assert!(!observed.hosts[&host(2)].online && !observed.hosts[&host(3)].online);
}

/// Every endpoint is listed, so the host that is down is asked itself too, after the others said that they cannot reach it.
#[tokio::test(start_paused = true)]
async fn a_host_whose_endpoint_is_listed_and_down_hides_only_its_own() {
    for reach in [Reach::ProxyDown, Reach::Unreachable] {
        let lab = Lab::three_hosts(1);
        settled(&lab).await;
        let client = lab.client();
        let before = observe(&client, &description(3, 2, "")).await.unwrap();
        let own: Vec<talmox_types::VmId> = before
            .guests
            .values()
            .filter(|guest| guest.host == host(1) && guest.seen().is_some())
            .map(|guest| guest.vmid)
            .collect();
        lab.world(|world| world.nodes.get_mut("pve1").unwrap().reach = reach);
        for look in 0..4 {
            let observed = observe(&client, &description(3, 2, "")).await;
            let observed = observed.unwrap_or_else(|error| panic!("{reach:?}, look {look}: {error:?}"));
            assert_eq!(observed.guests.len(), before.guests.len(), "{reach:?}, look {look}");
            for vmid in &own {
                assert!(
                    matches!(observed.guests[vmid].config, Seen::Unreadable(_)),
                    "{reach:?}, look {look}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn vms_that_move_or_vanish_between_two_reads_are_no_failure() {
    let lab = Lab::three_hosts(1);
    settled(&lab).await;
    let client = lab.client();
    // Reading takes long enough for somebody else to move one VM and remove another.
    let others = async {
        let root = lab.root();
        let migration =
            Migration { target: host(2), online: false, with_local_disks: true, target_storage: None };
        let moved = root.migrate_vm(&host(1), vmid(2003), &migration).await.unwrap();
        let removed = root.delete_vm(&host(1), vmid(2004), true).await.unwrap();
        lab.done(&root, &removed).await.unwrap();
        let _ = lab.done(&root, &moved).await;
    };
    let looks = async {
        let mut seen = Vec::new();
        for _ in 0..40 {
            seen.push(observe(&client, &description(3, 2, "")).await.unwrap());
        }
        seen
    };
    let (looks, ()) = tokio::join!(looks, others);
    let last = looks.last().unwrap();
    assert!(!last.guests.contains_key(&vmid(2004)));
    assert!(last.guests[&vmid(2003)].seen().is_some());
    assert_eq!(last.guests[&vmid(2003)].seen().unwrap().live.name(), Some(node("worker-1").as_str()));
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_is_gone_when_it_is_read_is_dropped() {
    let lab = Lab::one_host(1);
    settled(&lab).await;
    let words = "Configuration file 'nodes/pve1/qemu-server/2003.conf' does not exist";
    lab.plan(When::first(Method::Get, "/2003/pending"), Fault::reply(500, words));
    // It is still listed, so it is read where it is.
    let observed = observe(&lab.client(), &description(3, 2, "")).await.unwrap();
    assert!(observed.guests[&vmid(2003)].seen().is_some());
    lab.plan(When::first(Method::Get, "/2003/pending"), Fault::reply(500, "something broke"));
    let observed = observe(&lab.client(), &description(3, 2, "")).await.unwrap();
    assert_eq!(observed.guests[&vmid(2003)].config, Seen::Unreadable("something broke".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn wrong_credentials_and_no_endpoint_are_errors() {
    let lab = Lab::one_host(1);
    let client = lab.client_as(&token("talmox@pve!old"), Settings::default());
    let error = observe(&client, &description(1, 0, "")).await.unwrap_err();
    assert_eq!(error.source.kind(), &ErrorKind::Unauthenticated);
    assert!(!error.hints().is_empty());
    lab.world(|world| world.nodes.get_mut("pve1").unwrap().reach = Reach::ProxyDown);
    let error = observe(&lab.client(), &description(1, 0, "")).await.unwrap_err();
    assert_eq!(error.source.kind(), &ErrorKind::Unreachable);
}

/// A caller may hand it to a runtime with many threads.
#[test]
fn looking_can_be_sent_to_another_thread() {
    fn is_send<T: Send>(
        _: impl FnOnce(&'static talmox_pve::client::Client, &'static talmox_types::desired::Desired) -> T,
    ) {
    }
    is_send(observe);
}

#[tokio::test(start_paused = true)]
async fn mappings_are_read_only_if_a_node_wants_one() {
    let lab = Lab::one_host(1);
    let map = "node=pve1,path=0000:01:00.0,id=10de:2204,iommugroup=12,subsystem-id=10de:2204";
    let params = Params::new().with("id", "gpu").with("map", map);
    lab.root().post::<serde_json::Value>("/cluster/mapping/pci", params).await.unwrap();
    let client = lab.client();
    assert!(observe(&client, &description(1, 0, "")).await.unwrap().mappings.is_empty());
    assert_eq!(lab.calls().asking("GET", "/cluster/mapping").count(), 0);
    let nodes = "nodes:\n  - name: gpu-1\n    address: 10.0.7.11\n    controller: true\n    vm_pci:\n      - mapping: gpu\n";
    let observed = observe(&client, &described(nodes)).await.unwrap();
    assert_eq!(observed.mappings.into_values().flatten().collect::<Vec<_>>(), [(host(1), 1)]);
}
