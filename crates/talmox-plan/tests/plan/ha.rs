//! What HA shall look after.

use talmox_plan::{Goal, HaGroup, HaScope, NoteKind, Observed, Request, Rule, SeenHa, Step, check};
use talmox_types::desired::Desired;

use crate::support::*;

/// Two control planes and a worker under HA, on hosts that are named.
fn wanted() -> (Desired, Observed) {
    let mut desired = desired(2, 1);
    for node in &mut desired.nodes {
        node.vm.ha_managed = true;
    }
    desired.proxmox.hosts = vec![host("pve1"), host("pve2")];
    let mut observed = converged(&desired);
    observed.ha = Some(SeenHa::default());
    (desired, observed)
}

/// What the steps of a plan leave behind.
fn done(observed: &Observed, plan: &talmox_plan::Plan) -> Observed {
    let mut after = observed.clone();
    let mut ha = after.ha.unwrap_or_default();
    for step in &plan.steps {
        match &step.step {
            Step::AddHa { vm, .. } => drop(ha.resources.insert(vm.vmid())),
            Step::SetHaRule { rule } => drop(ha.rules.insert(rule.id.clone(), rule.clone())),
            Step::SetHaGroup { group, hosts, comment } => {
                let made = HaGroup { hosts: hosts.clone(), comment: comment.clone() };
                ha.groups.insert(group.clone(), made);
            }
            Step::DeleteHaRule { rule } => drop(ha.rules.remove(&rule.id)),
            other => panic!("{other:?}"),
        }
    }
    after.ha = Some(ha);
    after
}

#[test]
fn rules_keep_control_planes_apart_and_on_their_hosts() {
    let (desired, observed) = wanted();
    let plan = planned(&desired, &observed, &Request::default());
    let added = "after cp-1/add-ha cp-2/add-ha w-1/add-ha";
    assert_eq!(
        steps(&plan),
        [
            "cp-1/add-ha change_live".to_owned(),
            "cp-2/add-ha change_live".to_owned(),
            "w-1/add-ha change_live".to_owned(),
            format!("set-ha-rule-talmox-lab-apart change_live {added}"),
            format!("set-ha-rule-talmox-lab-hosts change_live {added}"),
        ]
    );
    let after = done(&observed, &plan);
    assert!(planned(&desired, &after, &Request::default()).is_empty());
    // Nobody wants control planes apart any more: the rule of ours goes, and nothing else.
    let mut fewer = desired.clone();
    for node in &mut fewer.nodes[..1] {
        node.vm.ha_managed = false;
    }
    let plan = planned(&fewer, &after, &Request::default());
    assert_eq!(
        steps(&plan),
        ["delete-ha-rule-talmox-lab-apart change_live", "set-ha-rule-talmox-lab-hosts change_live"]
    );
    let destroy = Request { goal: Goal::Destroy, ..Request::default() };
    let plan = planned(&desired, &after, &destroy);
    assert!(steps(&plan)[..2].iter().all(|step| step.starts_with("delete-ha-rule")));
}

#[test]
fn more_control_planes_than_hosts_cannot_be_kept_apart() {
    let (mut desired, mut observed) = wanted();
    desired.proxmox.hosts = vec![host("pve1")];
    observed = done(&observed, &planned(&desired, &observed, &Request::default()));
    let rules: Vec<&str> = observed.ha.as_ref().unwrap().rules.keys().map(String::as_str).collect();
    assert_eq!(rules, ["talmox-lab-hosts"]);
}

#[test]
fn proxmox_8_has_groups() {
    let (desired, mut observed) = wanted();
    observed.version = "8.4.14".to_owned();
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(steps(&plan)[..2], ["set-ha-group change_live", "cp-1/add-ha change_live after set-ha-group"]);
    assert!(planned(&desired, &done(&observed, &plan), &Request::default()).is_empty());
}

#[test]
fn a_group_of_another_cluster_is_not_changed() {
    let (mut desired, mut observed) = wanted();
    observed.version = "8.4.14".to_owned();
    let good = planned(&desired, &observed, &Request::default());
    let mut theirs = done(&observed, &good);
    let group = theirs.ha.as_mut().unwrap().groups.get_mut("talmox-lab").unwrap();
    group.comment = "talmox:v1 uid=fedcba9876543210 cluster=lab".to_owned();
    desired.proxmox.hosts.pop();
    let plan = planned(&desired, &theirs, &Request::default());
    assert!(plan.is_empty(), "{:?}", steps(&plan));
    assert!(plan.notes.iter().any(|note| note.text.contains("the HA group talmox-lab is not from us")));
    let violations = check(&good, &desired, &theirs, &Request::default());
    assert!(violations.iter().any(|found| found.rule == Rule::OursOnly), "{violations:#?}");
}

#[test]
fn what_is_not_allowed_or_not_ours_is_left_alone() {
    let (desired, mut observed) = wanted();
    observed.rights = everything().without("Sys.Console");
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.is_empty() && plan.notes.iter().any(|note| note.kind == NoteKind::LeftOut));
    observed.rights = everything();
    let good = planned(&desired, &observed, &Request::default());
    let mut theirs = done(&observed, &good);
    let rules = &mut theirs.ha.as_mut().unwrap().rules;
    let rule = rules.get_mut("talmox-lab-apart").unwrap();
    (rule.comment, rule.scope) = ("mine".to_owned(), HaScope::Apart);
    rule.vms.clear();
    let plan = planned(&desired, &theirs, &Request::default());
    assert!(plan.is_empty() && plan.notes.iter().any(|note| note.text.contains("is not from us")));
    // A plan that changes it all the same is refused, and one about VMs of others.
    assert!(
        check(&good, &desired, &theirs, &Request::default()).iter().any(|found| found.rule == Rule::OursOnly)
    );
    let mut foreign = good.clone();
    for step in &mut foreign.steps {
        if let Step::SetHaRule { rule } = &mut step.step {
            rule.vms.insert(id(9000));
        }
    }
    assert!(
        check(&foreign, &desired, &observed, &Request::default())
            .iter()
            .any(|found| found.rule == Rule::OursOnly)
    );
}

#[test]
fn a_node_that_is_made_comes_under_ha_later() {
    let (desired, mut observed) = wanted();
    observed.guests.retain(|vmid, _| vmid.get() >= 9000);
    observed.pool = None;
    observed.depth = talmox_plan::Depth::Everything;
    let plan = planned(&desired, &observed, &Request::default());
    let later: Vec<String> = plan.later.iter().map(|intent| intent.step.clone()).collect();
    assert_eq!(later, ["add-ha", "set-ha-rule", "add-ha", "add-ha"]);
}
