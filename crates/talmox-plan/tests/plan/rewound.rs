//! Control planes with disks of the past.

use talmox_plan::{
    Goal, HostsRequest, NoteKind, Observed, Power, Request, Rewound, Rule, Step, Until, check, plan,
};
use talmox_types::desired::Desired;
use talmox_types::{AwayWord, Mark};

use crate::support::*;

const BEHIND: &str = "VM 2001 was rolled back to a snapshot and has not run since: its member of etcd would come back with data the \
                      others have left behind";

/// A cluster whose VMs are all off; those of these ids were rolled back.
fn off(desired: &Desired, rewound: &[u32]) -> Observed {
    let mut observed = converged(desired);
    for guest in observed.guests.values_mut().filter(|guest| !guest.template) {
        guest.power = Power::Stopped;
    }
    observed.rewound = rewound.iter().map(|vmid| (id(*vmid), Rewound::RolledBack)).collect();
    observed
}

fn inside() -> Request {
    Request { until: Until::Healthy, ..Request::default() }
}

/// The nodes a plan starts.
fn started(plan: &talmox_plan::Plan) -> Vec<String> {
    let starts = plan.steps.iter().filter(|step| matches!(step.step, Step::StartVm { .. }));
    starts.filter_map(|step| Some(step.node.as_ref()?.to_string())).collect()
}

#[test]
fn one_is_not_started_though_nobody_answers() {
    let desired = desired(3, 1);
    let observed = off(&desired, &[2001]);
    for request in [inside(), Request::default()] {
        let plan = planned(&desired, &observed, &request);
        assert_eq!(problems(&plan), [BEHIND]);
        assert_eq!(
            plan.refusals[0].choices,
            [
                "start the others first: talmox apply --target cp-1,cp-3",
                "talmox apply --replace cp-2 builds it anew, and it joins again"
            ]
        );
        assert_eq!(started(&plan), ["cp-1", "cp-3", "w-1"]);
    }
}

#[test]
fn two_of_three_are_refused_and_a_worker_is_not() {
    let desired = desired(3, 1);
    let plan = planned(&desired, &off(&desired, &[2001, 2002, 2003]), &inside());
    assert_eq!(problems(&plan).len(), 2, "{plan:#?}");
    assert_eq!(started(&plan), ["cp-1", "w-1"]);
}

#[test]
fn all_of_them_are_started_together_and_that_is_said() {
    let desired = desired(3, 0);
    let plan = planned(&desired, &off(&desired, &[2000, 2001, 2002]), &inside());
    assert_eq!(started(&plan), ["cp-1", "cp-2", "cp-3"]);
    let told: Vec<&str> = plan
        .notes
        .iter()
        .filter(|note| note.kind == NoteKind::Warning)
        .map(|note| note.text.as_str())
        .collect();
    let expected = "all control planes were rolled back or restored (cp-1, cp-2, cp-3): they are started together, with what they had \
                    then. That is right if it is of one moment";
    assert_eq!(told, [expected]);
}

#[test]
fn one_that_is_alone_owes_nothing_to_anybody() {
    let desired = desired(1, 1);
    let plan = planned(&desired, &off(&desired, &[2000]), &inside());
    assert_eq!(started(&plan), ["cp-1", "w-1"]);
    assert!(plan.refusals.is_empty() && plan.notes.is_empty(), "{plan:#?}");
}

/// Whoever is on a host that is down comes back with it, and remembers.
#[test]
fn others_may_be_on_a_host_that_does_not_answer() {
    let desired = desired(2, 0);
    let mut observed = off(&desired, &[2000]);
    observed.hosts.get_mut(&host("pve2")).unwrap().online = false;
    let guest = observed.guests.get_mut(&id(2001)).unwrap();
    guest.power = Power::Unknown;
    guest.config = talmox_plan::Seen::Unreadable("no route to host".to_owned());
    let plan = planned(&desired, &observed, &inside());
    assert_eq!(problems(&plan).len(), 1, "{plan:#?}");
    assert!(started(&plan).is_empty());
}

#[test]
fn a_host_that_is_back_does_not_start_it_either() {
    let desired = desired(3, 0);
    let mut observed = off(&desired, &[2001]);
    let away = Some(AwayWord::draining(None, &host("pve2")));
    edit(&mut observed, 2001, |config| {
        drop(config.set("description", &Mark { away: away.clone(), ..mark("cp-2", 2001) }));
    });
    let hosts = HostsRequest { back: Some(host("pve2")), ..HostsRequest::default() };
    let back = Request { goal: Goal::Hosts, hosts, ..inside() };
    let plan = planned(&desired, &observed, &back);
    assert_eq!(problems(&plan), [BEHIND]);
    assert!(started(&plan).is_empty(), "{plan:#?}");
    observed.rewound.clear();
    assert_eq!(started(&planned(&desired, &observed, &back)), ["cp-2"]);
}

#[test]
fn the_check_knows_the_rule_by_itself() {
    let desired = desired(3, 0);
    let broken = |rewound: &[u32]| -> Vec<Rule> {
        let starts = plan(&desired, &off(&desired, &[]), &inside(), &nonce());
        let observed = off(&desired, rewound);
        check(&starts, &desired, &observed, &inside()).iter().map(|violation| violation.rule).collect()
    };
    assert_eq!(broken(&[]), []);
    assert_eq!(broken(&[2001]), [Rule::PastStaysOff]);
    assert_eq!(broken(&[2001, 2002]), [Rule::PastStaysOff; 2]);
    assert_eq!(broken(&[2000, 2001, 2002]), []);
}

/// The VM that takes its place has the same id, and no past.
#[test]
fn it_is_built_anew_once_the_others_run() {
    let desired = desired(3, 0);
    let mut observed = off(&desired, &[2001]);
    edit(&mut observed, 2000, |config| {
        let bootstrap =
            talmox_types::BootstrapWord { incarnation: "aaaa0001".to_owned(), done: true, snapshot: None };
        drop(config.set("description", &Mark { bootstrap: Some(bootstrap), ..mark("cp-1", 2000) }));
    });
    let request = Request { replace: [name("cp-2")].into(), ..inside() };
    let plan = planned(&desired, &observed, &request);
    assert_eq!(
        problems(&plan),
        ["it would not have left etcd: cp-1, cp-3 could let it go, and does not run"]
    );
    for node in ["cp-1", "cp-3"] {
        crate::inside::see(&mut observed, node, crate::inside::boxed(crate::inside::member(&desired, node)));
    }
    for vmid in [2000, 2002] {
        observed.guests.get_mut(&id(vmid)).unwrap().power = Power::Running;
    }
    let plan = planned(&desired, &observed, &request);
    assert_eq!(started(&plan), ["cp-2"], "{plan:#?}");
}
