//! Nodes that are called otherwise, or are to be elsewhere, while their machines live on as before.

use std::collections::BTreeSet;
use std::net::IpAddr;

use talmox_plan::{
    Depth, HostsRequest, Observed, Request, Rule, Seen, SeenMachine, Step, Upkeep, UpkeepRequest, check,
};
use talmox_types::desired::{Desired, NodeAddress, Role};
use talmox_types::{FamilyPair, NodeName};

use crate::inside::{boxed, member, see};
use crate::rotation::change;
use crate::support::*;

/// All the way; what is risky may be.
fn healthy() -> Request {
    let upkeep = UpkeepRequest { no_snapshot: true, ..UpkeepRequest::default() };
    Request { upkeep, ..crate::inside::healthy() }
}

/// Everything there is was looked at.
fn living(desired: &Desired) -> Observed {
    Observed { depth: Depth::Everything, ..crate::inside::living(desired) }
}

fn names(list: &[&str]) -> BTreeSet<NodeName> {
    list.iter().map(|text| name(text)).collect()
}

/// A description with one node under another name, its address the same.
fn renamed(desired: &Desired, from: &str, to: &str) -> Desired {
    let mut other = desired.clone();
    let node = other.nodes.iter_mut().find(|node| node.name == name(from)).unwrap();
    node.name = name(to);
    other
}

fn moved(desired: &Desired, node: &str, to: &str) -> Desired {
    let mut other = desired.clone();
    let node = other.nodes.iter_mut().find(|one| one.name == name(node)).unwrap();
    node.address = NodeAddress::Declared(FamilyPair::one(to.parse::<IpAddr>().unwrap()));
    other
}

/// The machine of an undescribed node that is to leave.
fn leaves(observed: &mut Observed, desired: &Desired, node: &str) {
    observed.talos.remove(&name(node));
    observed.leaving.insert(name(node), boxed(member(desired, node)));
}

fn needs_of(plan: &talmox_plan::Plan, step: &str) -> Vec<String> {
    let found = plan.steps.iter().find(|planned| planned.id.as_str() == step).unwrap();
    found.needs.iter().map(|need| need.as_str().to_owned()).collect()
}

#[test]
fn a_node_under_another_name_is_not_started_on_the_address_of_the_one_that_lives() {
    let before = desired(3, 1);
    let desired = renamed(&before, "cp-3", "cp-4");
    let mut observed = living(&before);
    observed.talos.remove(&name("cp-3"));
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(
        problems(&plan),
        ["VM 2002 on pve1 holds BC:24:11:00:07:02, which is to be this node's: it is cp-3's"]
    );
    assert!(plan.refusals[0].choices[0].contains("talmox apply --remove cp-3"), "{:?}", plan.refusals);
    assert!(steps(&plan).iter().all(|step| !step.starts_with("cp-4")), "{:?}", steps(&plan));
}

#[test]
fn it_is_started_when_nothing_is_left_of_the_one_before() {
    let before = desired(3, 1);
    let desired = renamed(&before, "cp-3", "cp-4");
    let mut observed = living(&before);
    leaves(&mut observed, &before, "cp-3");
    let plan = planned(&desired, &observed, &Request { remove: names(&["cp-3"]), ..healthy() });
    assert_eq!(problems(&plan), [""; 0]);
    let needs = needs_of(&plan, "cp-4/start");
    for last in ["cp-3/remove", "cp-3/forget"] {
        assert!(needs.iter().any(|need| need == last), "{needs:?}\n{:#?}", steps(&plan));
    }
    let mut hasty = plan.clone();
    let start = hasty.steps.iter_mut().find(|planned| planned.id.as_str() == "cp-4/start").unwrap();
    start.needs.retain(|need| !need.as_str().starts_with("cp-3"));
    let found = check(&hasty, &desired, &observed, &Request { remove: names(&["cp-3"]), ..healthy() });
    assert!(found.iter().any(|violation| violation.rule == Rule::AddressIsFree), "{found:?}");
    // While the other has to be waited for, it is not made either.
    observed.guests.get_mut(&id(2002)).unwrap().lock = Some("backup".to_owned());
    let plan = planned(&desired, &observed, &Request { remove: names(&["cp-3"]), ..healthy() });
    assert_eq!(plan.refusals.len(), 1, "{:?}", plan.refusals);
    assert!(steps(&plan).iter().all(|step| !step.starts_with("cp-4")), "{:?}", steps(&plan));
}

#[test]
fn a_machine_that_lives_keeps_its_address() {
    let before = desired(1, 2);
    let desired = moved(&before, "w-1", "10.0.7.31");
    let observed = living(&before);
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(
        problems(&plan),
        ["it lives at 10.0.7.12, the description wants 10.0.7.31, and a machine keeps its address"]
    );
    assert!(plan.refusals[0].choices[1].contains("--replace w-1"), "{:?}", plan.refusals);
    assert!(steps(&plan).iter().all(|step| !step.starts_with("w-1")), "{:?}", steps(&plan));
    // Built anew, it takes its leave where it is.
    let plan = planned(&desired, &observed, &Request { replace: names(&["w-1"]), ..healthy() });
    assert_eq!(problems(&plan), [""; 0]);
    let retired = plan.steps.iter().find_map(|planned| match &planned.step {
        Step::Upkeep(Upkeep::RetireNode { address, .. }) => Some(address.to_string()),
        _ => None,
    });
    assert_eq!(retired.as_deref(), Some("10.0.7.12"), "{:#?}", steps(&plan));
}

/// Each has an address of the other's in the description.
#[test]
fn two_that_change_places_are_refused_one_by_one() {
    let before = desired(1, 2);
    let desired = moved(&moved(&before, "w-1", "10.0.7.13"), "w-2", "10.0.7.12");
    let plan = planned(&desired, &living(&before), &healthy());
    let told = problems(&plan);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|problem| problem.contains("a machine keeps its address")), "{told:?}");
    assert_eq!(steps(&plan), [""; 0]);
    // Nor are both built anew in one run: each would wait for the other to be gone.
    let both = Request { replace: names(&["w-1", "w-2"]), ..healthy() };
    let told = problems(&planned(&desired, &living(&before), &both));
    assert!(told.iter().any(|problem| problem.contains("which is to be this node's")), "{told:?}");
}

/// A stranger that answers at the address of a node whose VM differs too.
#[test]
fn what_is_refused_late_is_not_done_in_part() {
    let mut desired = desired(1, 1);
    let mut observed = living(&desired);
    let at = crate::inside::address(&desired, "w-1");
    see(&mut observed, "w-1", SeenMachine::Foreign { address: at, why: "it is another".to_owned() });
    desired.nodes[1].vm.cores += 1;
    let plan = planned(&desired, &observed, &healthy());
    let told = problems(&plan);
    assert!(told.iter().any(|problem| problem.contains("is not this node, and gets nothing")), "{plan:#?}");
    assert!(steps(&plan).iter().all(|step| !step.starts_with("w-1")), "{:?}", steps(&plan));
}

#[test]
fn two_vms_of_a_node_that_is_to_go_are_for_a_person_to_tell_apart() {
    let before = desired(3, 1);
    let mut desired = before.clone();
    desired.nodes.retain(|node| node.name != name("w-1"));
    let mut observed = living(&before);
    leaves(&mut observed, &before, "w-1");
    let second = finished(&before, "w-1", 2020, "pve2");
    observed.guests.insert(second.vmid, second);
    for request in [Request { remove: names(&["w-1"]), ..healthy() }, Request { prune: true, ..healthy() }] {
        let plan = planned(&desired, &observed, &request);
        assert!(problems(&plan)[0].contains("there are two VMs of this node"), "{:?}", plan.refusals);
        assert_eq!(steps(&plan), [""; 0]);
    }
}

/// The description has a node for a host that does not answer.
fn without_host(desired: &mut Desired) -> Observed {
    let mut observed = living(desired);
    desired.nodes[3].vm.host = Some(host("pve2"));
    observed.talos.remove(&name("w-1"));
    let guest = observed.guests.get_mut(&id(2003)).unwrap();
    assert_eq!(guest.host, host("pve2"));
    guest.config = Seen::Unreadable("pve2 does not answer".to_owned());
    observed.hosts.get_mut(&host("pve2")).unwrap().online = false;
    observed
}

#[test]
fn what_may_come_back_with_its_host_is_not_built_anew_in_silence() {
    let mut desired = desired(3, 1);
    let observed = without_host(&mut desired);
    let anew = Request { replace: names(&["w-1"]), ..healthy() };
    let plan = planned(&desired, &observed, &anew);
    assert!(problems(&plan)[0].contains("it would come back with it"), "{:?}", plan.refusals);
    assert!(plan.refusals[0].choices[1].contains("--replace w-1 --host-gone pve2"), "{:?}", plan.refusals);
    // Gone for good, and described for that very host: another has to be named.
    let hosts = HostsRequest { gone: [host("pve2")].into(), ..HostsRequest::default() };
    let plan = planned(&desired, &observed, &Request { hosts, ..anew });
    assert!(problems(&plan).iter().any(|problem| problem.contains("pve2")), "{:?}", plan.refusals);
    assert!(steps(&plan).iter().all(|step| !step.starts_with("w-1")), "{:?}", steps(&plan));
}

#[test]
fn whoever_is_another_kind_of_node_has_not_replaced_an_authority() {
    let mut desired = desired(3, 2);
    let mut observed = living(&desired);
    desired.nodes[2].role = Role::Worker;
    let mut seen = member(&desired, "cp-3");
    seen.config = Some(vec![change("machine.type"), change("machine.ca.key")]);
    see(&mut observed, "cp-3", boxed(seen));
    let plan = planned(&desired, &observed, &healthy());
    assert!(!problems(&plan).iter().any(|problem| problem.contains("authority")), "{:?}", problems(&plan));
}

#[test]
fn what_was_removed_by_name_is_no_mistyped_target_afterwards() {
    let desired = desired(3, 1);
    let observed = living(&desired);
    let request = Request { remove: names(&["w-9"]), targets: names(&["w-9"]), ..healthy() };
    let plan = planned(&desired, &observed, &request);
    assert!(!problems(&plan).iter().any(|problem| problem.contains("--target")), "{:?}", problems(&plan));
}
