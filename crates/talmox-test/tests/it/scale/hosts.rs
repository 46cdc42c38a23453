//! Hosts of Proxmox that somebody works on.

use talmox_plan::{Goal, HostsRequest, NoteKind, Request};
use talmox_sim::{AclEntry, World};
use talmox_test::{Lab, TOKEN};
use talmox_types::{AwayWord, HostName, Mark};

use crate::scale::bed::{Bed, described, healthy};
use crate::scale::support::*;

fn draining(host: &HostName) -> Request {
    let hosts = HostsRequest { drain: Some(host.clone()), ..HostsRequest::default() };
    Request { goal: Goal::Hosts, hosts, ..healthy() }
}

fn returning(host: &HostName, move_back: bool) -> Request {
    let hosts = HostsRequest { back: Some(host.clone()), move_back, ..HostsRequest::default() };
    Request { goal: Goal::Hosts, hosts, ..healthy() }
}

/// Where a node's VM is, whether it runs, and what its mark says of it.
fn standing(bed: &Bed, name: &str) -> (String, bool, Option<AwayWord>) {
    let dump = bed.lab.world(|world| world.dump());
    let vm = dump.vms.values().find(|vm| vm.config.get("name").is_some_and(|known| known == name)).unwrap();
    let mark = Mark::of_description(&vm.config["description"]).unwrap();
    (vm.node.clone(), vm.running, mark.away)
}

/// Moving takes a right of its own.
pub(crate) fn may_move(world: &mut World) {
    let (role, (user, _)) = ("TalmoxMoves", TOKEN.split_once('!').unwrap());
    world.access.roles.insert(role.to_owned(), ["VM.Migrate".to_owned()].into());
    world.access.acl.extend([("user", user), ("token", TOKEN)].map(|(kind, subject)| AclEntry {
        path: "/".to_owned(),
        kind: kind.to_owned(),
        subject: subject.to_owned(),
        role: role.to_owned(),
        propagate: true,
    }));
}

#[tokio::test(start_paused = true)]
async fn nodes_are_moved_as_they_run_and_moved_back_if_asked() {
    let mut shared = described(3, 1, "");
    for node in &mut shared.nodes {
        node.vm.storage = talmox_test::storage("shared");
    }
    let bed = of(Bed::in_lab(Lab::three_hosts(91).with_nodes(), shared)).await;
    bed.lab.world(may_move);
    let host = HostName::parse(&standing(&bed, "cp-2").0).unwrap();
    let plan = bed.plan(&draining(&host)).await;
    assert!(steps(&plan).contains(&"cp-2/move"), "{plan:#?}");
    carried_out(&bed, &draining(&host), 2).await;
    let (now, runs, away) = standing(&bed, "cp-2");
    assert!(now != host.as_str() && runs, "{now}");
    assert_eq!(away, Some(AwayWord::draining(None, &host)));
    bed.is_healthy().await;
    assert!(bed.plan(&draining(&host)).await.is_empty());
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty(), "nobody moves it back unasked: {plan:#?}");
    let plan = bed.plan(&returning(&host, false)).await;
    assert_eq!(steps(&plan), ["cp-2/note-away"], "{plan:#?}");
    assert!(plan.notes.iter().any(|note| note.kind == NoteKind::Placement), "{:?}", plan.notes);
    carried_out(&bed, &returning(&host, false), 3).await;
    assert_eq!(standing(&bed, "cp-2"), (now, true, Some(AwayWord::From(host.clone()))));
    assert!(bed.plan(&returning(&host, false)).await.is_empty());
    // Who thinks better of it can still have it back.
    carried_out(&bed, &returning(&host, true), 4).await;
    assert_eq!(standing(&bed, "cp-2"), (host.to_string(), true, None));
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn what_can_run_nowhere_else_is_stopped_and_started_again() {
    let bed = living(92, 3, 1).await;
    let host = talmox_test::host(1);
    // One host carries everything: etcd bears the loss of one member, and not of two.
    let plan = bed.plan(&draining(&host)).await;
    assert_eq!(problems(&plan).len(), 2, "{:?}", problems(&plan));
    assert!(problems(&plan)[0].contains("etcd has no majority without it"), "{:?}", problems(&plan));
    let one = Request { targets: names(&["worker-1", "cp-1"]), ..draining(&host) };
    carried_out(&bed, &one, 2).await;
    let away = Some(AwayWord::draining(None, &host));
    assert_eq!(standing(&bed, "worker-1"), (host.to_string(), false, away.clone()));
    assert_eq!(standing(&bed, "cp-1"), (host.to_string(), false, away));
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty(), "what was drained is left off: {plan:#?}");
    assert!(plan.notes.iter().any(|note| note.text.contains("talmox host return pve1")), "{:?}", plan.notes);
    carried_out(&bed, &returning(&host, false), 3).await;
    assert_eq!(standing(&bed, "cp-1"), (host.to_string(), true, None));
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_moved_onto_a_host_that_is_drained_too() {
    let mut shared = described(3, 0, "");
    for node in &mut shared.nodes {
        node.vm.storage = talmox_test::storage("shared");
    }
    let bed = of(Bed::in_lab(Lab::three_hosts(93).with_nodes(), shared)).await;
    bed.lab.world(may_move);
    let first = HostName::parse(&standing(&bed, "cp-2").0).unwrap();
    carried_out(&bed, &draining(&first), 2).await;
    let second = HostName::parse(&standing(&bed, "cp-3").0).unwrap();
    carried_out(&bed, &draining(&second), 3).await;
    for node in ["cp-1", "cp-2", "cp-3"] {
        let (now, runs, _) = standing(&bed, node);
        assert!(runs && now != first.as_str() && now != second.as_str(), "{node} is on {now}");
    }
    bed.is_healthy().await;
}

/// A cluster whose VMs can be moved, on three hosts.
async fn movable(seed: u64) -> Bed {
    let mut shared = described(3, 0, "");
    for node in &mut shared.nodes {
        node.vm.storage = talmox_test::storage("shared");
    }
    let bed = of(Bed::in_lab(Lab::three_hosts(seed).with_nodes(), shared)).await;
    bed.lab.world(may_move);
    bed
}

/// What was moved away stays away, and yet its host is free again: the next one's nodes go there and are not stopped.
#[tokio::test(start_paused = true)]
async fn hosts_are_worked_on_one_after_the_other() {
    let bed = movable(96).await;
    let mut number = 2;
    for host in [1, 2, 3].map(talmox_test::host) {
        carried_out(&bed, &draining(&host), number).await;
        for node in ["cp-1", "cp-2", "cp-3"] {
            let (now, runs, _) = standing(&bed, node);
            assert!(runs && now != host.as_str(), "{node} is on {now}, runs: {runs}");
        }
        carried_out(&bed, &returning(&host, false), number + 1).await;
        number += 2;
    }
    bed.is_healthy().await;
}

/// A node that two hosts sent away knows where it was first, and neither counts as back before it is.
#[tokio::test(start_paused = true)]
async fn two_hosts_at_once_and_one_of_them_back() {
    let bed = movable(97).await;
    let first = HostName::parse(&standing(&bed, "cp-2").0).unwrap();
    carried_out(&bed, &draining(&first), 2).await;
    let second = HostName::parse(&standing(&bed, "cp-2").0).unwrap();
    carried_out(&bed, &draining(&second), 3).await;
    let (third, runs, _) = standing(&bed, "cp-2");
    assert!(runs && third != first.as_str() && third != second.as_str(), "{third}");
    // The first is still being worked on: nothing is moved onto it from the third.
    carried_out(&bed, &returning(&second, false), 4).await;
    let plan = bed.plan(&draining(&HostName::parse(&third).unwrap())).await;
    let onto = |step: &talmox_plan::Planned| {
        if let talmox_plan::Step::MoveVm { to, .. } = &step.step { Some(to.clone()) } else { None }
    };
    let onto: Vec<HostName> = plan.steps.iter().filter_map(onto).collect();
    assert!(!onto.is_empty() && onto.iter().all(|to| *to == second), "{onto:?}");
    carried_out(&bed, &returning(&first, true), 5).await;
    assert_eq!(standing(&bed, "cp-2"), (first.to_string(), true, None));
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_cannot_be_asked_is_not_said_to_be_empty() {
    let mut apart = described(3, 0, "");
    for (node, number) in apart.nodes.iter_mut().zip([1, 2, 3]) {
        node.vm.host = Some(talmox_test::host(number));
    }
    let bed = of(Bed::in_lab(Lab::three_hosts(94).with_nodes(), apart)).await;
    let nowhere = HostName::parse("pve9").unwrap();
    assert_eq!(problems(&bed.plan(&draining(&nowhere)).await), ["Proxmox has no host pve9"]);
    bed.lab.world(|world| world.nodes.get_mut("pve2").unwrap().reach = talmox_sim::Reach::Unreachable);
    for request in [draining(&talmox_test::host(2)), returning(&talmox_test::host(2), false)] {
        let plan = bed.plan(&request).await;
        assert!(problems(&plan)[0].starts_with("pve2 is down"), "{plan:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_on_a_host_that_is_down_is_not_forgotten_unless_the_host_is_gone_for_good() {
    let mut apart = described(3, 2, "");
    for (node, number) in apart.nodes.iter_mut().zip([1, 2, 3, 2, 3]) {
        node.vm.host = Some(talmox_test::host(number));
    }
    let mut bed = of(Bed::in_lab(Lab::three_hosts(95).with_nodes(), apart)).await;
    bed.desired = without(&bed.desired, &["worker-2"]);
    let lost = talmox_test::host(3);
    bed.lab.world(|world| world.nodes.get_mut(lost.as_str()).unwrap().reach = talmox_sim::Reach::Unreachable);
    bed.lab.nodes(|nodes| {
        for vmid in [2002, 2004] {
            nodes.power_off(talmox_sim_talos::MachineId(vmid));
        }
    });
    // Kubernetes notices after a while.
    tokio::time::sleep(std::time::Duration::from_mins(2)).await;
    let plan = bed.plan(&removing(&["worker-2"])).await;
    let told = plan.refusals.iter().find(|refusal| refusal.node == Some("worker-2".parse().unwrap()));
    let told = told.unwrap_or_else(|| panic!("{plan:#?}"));
    assert!(told.problem.contains("it would come back with it"), "{told:?}");
    assert!(told.choices[1].contains("--host-gone pve3"), "{told:?}");
    let hosts = HostsRequest { gone: [lost].into(), ..HostsRequest::default() };
    let plan = bed.plan(&Request { hosts, ..removing(&["worker-2"]) }).await;
    assert!(steps(&plan).contains(&"worker-2/forget"), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_stopped_whom_etcd_needs_by_then() {
    let bed = living(93, 3, 0).await;
    let host = talmox_test::host(1);
    let one = Request { targets: names(&["cp-1"]), ..draining(&host) };
    let plan = bed.plan(&one).await;
    assert!(steps(&plan).contains(&"cp-1/stop"), "{plan:#?}");
    // When the plan was made all was well; before it is carried out another member is lost.
    let other = bed.machine("10.0.7.12");
    bed.lab.nodes(|nodes| nodes.power_off(other));
    let error = bed.carry_out(&plan, &one, 2).await.unwrap_err();
    assert!(error.contains("cp-1") && error.contains("cp-2"), "{error}");
    assert_eq!(standing(&bed, "cp-1"), (host.to_string(), true, None));
    assert_eq!(bed.lab.calls().asking("POST", "/2000/status/shutdown").count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_host_is_not_empty_while_something_nobody_describes_runs_there() {
    let mut bed = living(98, 3, 1).await;
    let host = talmox_test::host(1);
    bed.desired = without(&bed.desired, &["worker-1"]);
    let plan = bed.plan(&draining(&host)).await;
    let told = plan.refusals.iter().find(|refusal| refusal.node == Some("worker-1".parse().unwrap()));
    let told = told.unwrap_or_else(|| panic!("{plan:#?}"));
    assert!(told.problem.contains("runs on pve1 and is not in the description"), "{told:?}");
    assert!(told.choices[1].contains("talmox apply --remove worker-1"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_rolled_back_meanwhile_is_not_started_when_its_host_is_back() {
    let bed = living(99, 3, 0).await;
    let host = talmox_test::host(1);
    let root = |path: &str, parameters: &[(&str, &str)]| {
        let path = format!("/nodes/pve1/qemu/2000/{path}");
        bed.lab.world(|world| world.root_call("POST", &path, parameters).unwrap());
    };
    root("snapshot", &[("snapname", "before")]);
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    carried_out(&bed, &Request { targets: names(&["cp-1"]), ..draining(&host) }, 2).await;
    root("snapshot/before/rollback", &[]);
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    let plan = bed.plan(&returning(&host, false)).await;
    assert!(problems(&plan)[0].contains("was rolled back to a snapshot"), "{plan:#?}");
    assert!(!steps(&plan).contains(&"cp-1/start"), "{plan:#?}");
    assert_eq!(plan.refusals[0].choices, ["talmox apply --replace cp-1 builds it anew, and it joins again"]);
}
