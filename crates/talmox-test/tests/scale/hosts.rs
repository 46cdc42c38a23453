//! Hosts of Proxmox that somebody works on.

use talmox_plan::{Goal, HostsRequest, NoteKind, Request};
use talmox_sim::{AclEntry, World};
use talmox_test::{Lab, TOKEN};
use talmox_types::{AwayWord, HostName, Mark};

use crate::bed::{Bed, described, healthy};
use crate::support::*;

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
    assert_eq!(away, Some(AwayWord::Drained(host.clone())));
    bed.is_healthy().await;
    assert!(bed.plan(&draining(&host)).await.is_empty());
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty(), "nobody moves it back unasked: {plan:#?}");
    let plan = bed.plan(&returning(&host, false)).await;
    assert!(plan.is_empty(), "{plan:#?}");
    assert!(plan.notes.iter().any(|note| note.kind == NoteKind::Placement), "{:?}", plan.notes);
    carried_out(&bed, &returning(&host, true), 3).await;
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
    let away = Some(AwayWord::Drained(host.clone()));
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
