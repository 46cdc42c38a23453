//! Workers that are away keep the other ones up, whatever took them down.

use std::num::NonZeroUsize;

use talmox_plan::{
    Applies, Change, Goal, HostsRequest, Observed, Plan, Power, Request, SeenKubernetes, SeenMachine,
    SeenStage, UpkeepRequest, Waiting,
};
use talmox_types::desired::{Desired, Power as WantedPower};
use talmox_types::{AwayWord, Mark};

use crate::inside::{healthy, later, living, see, silent};
use crate::support::*;

fn request() -> Request {
    let upkeep = UpkeepRequest { no_snapshot: true, ..UpkeepRequest::default() };
    Request { upkeep, allow_reboot: true, ..healthy() }
}

fn at_most(workers: usize) -> Request {
    let mut request = request();
    request.upkeep.max_unavailable = NonZeroUsize::new(workers);
    request
}

/// A cluster whose machines all run an older Talos than is described.
fn behind(desired: &Desired) -> Observed {
    let mut observed = living(desired);
    for machine in observed.talos.values_mut() {
        let SeenMachine::Configured(seen) = machine else { panic!("it lives") };
        "v1.13.6".clone_into(&mut seen.version);
    }
    observed
}

fn unready(observed: &mut Observed, node: &str) {
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("it answers") };
    cluster.nodes.get_mut(node).unwrap().ready = false;
}

/// Nodes a plan takes down, in the order they are listed.
fn interrupted(plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter().filter(|step| step.effect.interrupts());
    let mut nodes: Vec<String> =
        steps.filter_map(|step| step.node.as_ref().map(ToString::to_string)).collect();
    nodes.dedup();
    nodes
}

/// Who is away, and who stays up for it.
fn kept_up(plan: &Plan) -> Option<(Vec<String>, Vec<String>)> {
    plan.waiting.iter().find_map(|waiting| match waiting {
        Waiting::Workers { away, held, .. } => Some((
            away.iter().map(|(node, why)| format!("{node}: {why}")).collect(),
            held.iter().map(ToString::to_string).collect(),
        )),
        _ => None,
    })
}

fn held(away: &str, nodes: &[&str]) -> (Vec<String>, Vec<String>) {
    (vec![away.to_owned()], nodes.iter().map(|node| (*node).to_owned()).collect())
}

#[test]
fn while_one_is_silent_no_other_is_taken_down_and_all_else_goes_on() {
    let desired = desired(3, 3);
    let mut observed = behind(&desired);
    see(&mut observed, "w-2", silent(&desired, "w-2"));
    let plan = planned(&desired, &observed, &request());
    assert_eq!(interrupted(&plan), ["cp-1", "cp-2", "cp-3"]);
    assert_eq!(kept_up(&plan), Some(held("w-2: it does not answer: connection refused", &["w-1", "w-3"])));
    assert_eq!(problems(&plan), [""; 0]);
    for intent in ["w-1/drain", "w-1/upgrade-node", "w-1/return", "w-3/upgrade-node", "await-health"] {
        assert!(later(&plan).contains(&intent.to_owned()), "approved with the rest: {:#?}", later(&plan));
    }
    // Where two may be away, one more may go.
    let plan = planned(&desired, &observed, &at_most(2));
    assert_eq!(interrupted(&plan), ["cp-1", "cp-2", "cp-3", "w-1", "w-3"]);
    assert_eq!(kept_up(&plan), None);
}

#[test]
fn one_that_is_not_ready_or_restarts_or_is_off_counts_and_is_itself_looked_after() {
    let desired = desired(1, 2);
    let mut observed = behind(&desired);
    unready(&mut observed, "w-2");
    let plan = planned(&desired, &observed, &request());
    assert_eq!(interrupted(&plan), ["cp-1", "w-2"]);
    assert_eq!(kept_up(&plan), Some(held("w-2: it is not ready in Kubernetes", &["w-1"])));
    let mut observed = behind(&desired);
    let Some(SeenMachine::Configured(seen)) = observed.talos.get_mut(&name("w-2")) else {
        panic!("it lives")
    };
    seen.stage = SeenStage::Booting;
    assert_eq!(
        kept_up(&planned(&desired, &observed, &request())),
        Some(held("w-2: it is booting", &["w-1"]))
    );
    let mut observed = behind(&desired);
    observed.guests.get_mut(&id(2002)).unwrap().power = Power::Stopped;
    observed.talos.remove(&name("w-2"));
    let plan = planned(&desired, &observed, &request());
    assert_eq!(kept_up(&plan), Some(held("w-2: its VM is off", &["w-1"])));
    assert!(plan.steps.iter().any(|step| step.id.as_str() == "w-2/start"), "{:?}", steps(&plan));
    // Without a network none is ever ready.
    let mut without = desired.clone();
    without.kubernetes.cni = talmox_types::desired::Cni::None;
    let mut observed = behind(&without);
    unready(&mut observed, "w-1");
    unready(&mut observed, "w-2");
    assert_eq!(kept_up(&planned(&without, &observed, &request())), None);
}

#[test]
fn those_that_are_to_be_off_and_those_yet_to_come_count_for_nothing() {
    let mut described = desired(1, 2);
    described.nodes[2].vm.power = WantedPower::Stopped;
    let off = |observed: &mut Observed| {
        observed.guests.get_mut(&id(2002)).unwrap().power = Power::Stopped;
        observed.talos.remove(&name("w-2"));
        unready(observed, "w-2");
    };
    let mut observed = behind(&described);
    off(&mut observed);
    let plan = planned(&described, &observed, &request());
    assert_eq!((kept_up(&plan), interrupted(&plan)), (None, vec!["cp-1".to_owned(), "w-1".to_owned()]));
    // Its host was drained.
    let described = desired(1, 2);
    let mut observed = behind(&described);
    off(&mut observed);
    let away = Some(AwayWord::draining(None, &host("pve1")));
    edit(&mut observed, 2002, |config| {
        drop(config.set("description", &Mark { away: away.clone(), ..mark("w-2", 2002) }));
    });
    assert_eq!(kept_up(&planned(&described, &observed, &request())), None);
    // Kubernetes never knew it.
    let mut observed = behind(&described);
    see(&mut observed, "w-2", silent(&described, "w-2"));
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("it answers") };
    cluster.nodes.remove("w-2");
    assert_eq!(kept_up(&planned(&described, &observed, &request())), None);
}

#[test]
fn what_interrupts_nobody_is_done_even_so() {
    let desired = desired(1, 2);
    let mut observed = living(&desired);
    see(&mut observed, "w-2", silent(&desired, "w-2"));
    edit(&mut observed, 2001, |config| drop(config.set("memory", "1024")));
    let Some(SeenMachine::Configured(seen)) = observed.talos.get_mut(&name("w-1")) else {
        panic!("it lives")
    };
    seen.config = Some(vec![Change {
        key: "machine.sysctls.a".to_owned(),
        old: None,
        new: Some("b".to_owned()),
        applies: Applies::Now,
        field: None,
        sub: Vec::new(),
    }]);
    let plan = planned(&desired, &observed, &request());
    assert_eq!(steps(&plan), ["w-1/configure change_pending", "w-1/change-node change_live"]);
    assert_eq!(kept_up(&plan), Some(held("w-2: it does not answer: connection refused", &["w-1"])));
    assert!(later(&plan).contains(&"w-1/reboot".to_owned()), "{:?}", later(&plan));
}

#[test]
fn the_one_that_is_away_may_be_built_anew_and_another_may_not() {
    let desired = desired(1, 2);
    let mut observed = living(&desired);
    see(&mut observed, "w-2", silent(&desired, "w-2"));
    let replacing = |node: &str| Request { replace: [name(node)].into(), ..request() };
    let plan = planned(&desired, &observed, &replacing("w-2"));
    assert_eq!((kept_up(&plan), interrupted(&plan)), (None, vec!["w-2".to_owned()]), "{:#?}", steps(&plan));
    let plan = planned(&desired, &observed, &replacing("w-1"));
    assert_eq!(interrupted(&plan), [""; 0], "{:#?}", steps(&plan));
    assert_eq!(kept_up(&plan), Some(held("w-2: it does not answer: connection refused", &["w-1"])));
    assert!(later(&plan).contains(&"w-1/remove".to_owned()), "{:#?}", later(&plan));
}

#[test]
fn a_host_is_not_drained_of_the_last_one_either() {
    let desired = desired(1, 2);
    let mut observed = living(&desired);
    see(&mut observed, "w-2", silent(&desired, "w-2"));
    // Nowhere else has the storage of its disks.
    observed.storages.retain(|storage| storage.host == host("pve2"));
    let hosts = HostsRequest { drain: Some(host("pve2")), ..HostsRequest::default() };
    let drain = Request { goal: Goal::Hosts, hosts, ..request() };
    let plan = planned(&desired, &observed, &drain);
    assert_eq!(steps(&plan), [""; 0], "its mark does not say either that it is off");
    assert_eq!(kept_up(&plan), Some(held("w-2: it does not answer: connection refused", &["w-1"])));
    let plan = planned(&desired, &observed, &Request { upkeep: at_most(2).upkeep, ..drain });
    assert_eq!((kept_up(&plan), interrupted(&plan)), (None, vec!["w-1".to_owned()]), "{:#?}", steps(&plan));
}

/// A run of ours was killed after it closed a node.
fn close(observed: &mut Observed, node: &str) {
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("it answers") };
    let seen = cluster.nodes.get_mut(node).unwrap();
    (seen.schedulable, seen.cordoned_for) = (false, Some("upgrade".to_owned()));
}

fn runs(observed: &mut Observed, node: &str, version: &str) {
    let Some(SeenMachine::Configured(seen)) = observed.talos.get_mut(&name(node)) else { panic!("it lives") };
    version.clone_into(&mut seen.version);
}

fn needs(plan: &Plan, id: &str) -> Vec<String> {
    let step = plan.steps.iter().find(|step| step.id.as_str() == id);
    let step = step.unwrap_or_else(|| panic!("no {id}: {:#?}", steps(plan)));
    step.needs.iter().map(ToString::to_string).collect()
}

#[test]
fn one_that_an_earlier_run_closed_comes_back_before_another_of_its_role_goes_down() {
    let desired = desired(3, 3);
    let mut observed = behind(&desired);
    // Both were upgraded, and nobody has seen them well since.
    for node in ["cp-3", "w-2"] {
        runs(&mut observed, node, "v1.13.9");
        close(&mut observed, node);
    }
    let plan = planned(&desired, &observed, &request());
    for (id, back) in [("cp-1/drain", "cp-3/return"), ("cp-2/upgrade-node", "cp-3/return")] {
        assert!(needs(&plan, id).contains(&back.to_owned()), "{id}: {:?}", needs(&plan, id));
    }
    for id in ["w-1/drain", "w-1/upgrade-node", "w-3/drain", "w-3/upgrade-node"] {
        assert!(needs(&plan, id).contains(&"w-2/return".to_owned()), "{id}: {:?}", needs(&plan, id));
    }
    assert_eq!(needs(&plan, "w-2/return"), [""; 0]);
    assert_eq!(kept_up(&plan), None);
}

#[test]
fn one_that_was_closed_and_not_upgraded_is_the_first_of_its_role() {
    let desired = desired(3, 3);
    let mut observed = behind(&desired);
    for node in ["cp-2", "w-2", "w-3"] {
        close(&mut observed, node);
    }
    let plan = planned(&desired, &observed, &request());
    assert_eq!(interrupted(&plan), ["cp-2", "cp-1", "cp-3", "w-2", "w-3", "w-1"]);
    assert!(needs(&plan, "cp-1/drain").contains(&"cp-2/return".to_owned()));
    let last = needs(&plan, "w-1/drain");
    assert!(["w-2/return", "w-3/return"].iter().all(|back| last.contains(&(*back).to_owned())), "{last:?}");
    assert!(!needs(&plan, "w-3/drain").contains(&"w-2/return".to_owned()), "turns decide that");
}

#[test]
fn a_restart_for_a_configuration_waits_for_one_that_was_closed_too() {
    let desired = desired(1, 3);
    let mut observed = living(&desired);
    for node in ["w-1", "w-2", "w-3"] {
        let Some(SeenMachine::Configured(seen)) = observed.talos.get_mut(&name(node)) else {
            panic!("it lives")
        };
        seen.config = Some(vec![Change {
            key: "machine.env.A".to_owned(),
            old: None,
            new: Some("b".to_owned()),
            applies: Applies::AfterReboot,
            field: None,
            sub: Vec::new(),
        }]);
    }
    close(&mut observed, "w-3");
    let plan = planned(&desired, &observed, &request());
    assert_eq!(interrupted(&plan), ["w-3", "w-1", "w-2"]);
    for id in ["w-1/drain", "w-2/drain"] {
        assert!(needs(&plan, id).contains(&"w-3/return".to_owned()), "{id}: {:?}", needs(&plan, id));
    }
}

#[test]
fn one_that_was_closed_and_is_not_brought_back_counts_as_away() {
    let desired = desired(1, 3);
    let mut observed = behind(&desired);
    close(&mut observed, "w-2");
    let only = Request { targets: [name("w-1")].into(), ..request() };
    let plan = planned(&desired, &observed, &only);
    let why = "w-2: an earlier run kept pods off it (upgrade) and did not finish";
    assert_eq!(kept_up(&plan), Some(held(why, &["w-1"])), "{plan:#?}");
    assert_eq!(interrupted(&plan), [""; 0]);
    let two = Request { targets: [name("w-1")].into(), ..at_most(2) };
    assert_eq!(interrupted(&planned(&desired, &observed, &two)), ["w-1"]);
}
