//! What was approved, and what goes beyond it.

use std::collections::BTreeSet;

use talmox_plan::{Effect, Intent, Plan, Planned, Step, Upkeep};
use talmox_types::NodeName;
use talmox_types::sabotage::{Defect, sabotaged};

/// Kinds, nodes and effects somebody has said yes to.
pub(super) struct Approval {
    kinds: BTreeSet<(String, Option<NodeName>, Effect)>,
    /// What of templates and images goes, one by one: they belong to no node that would tell them apart.
    removed: BTreeSet<String>,
    /// Nodes that may be configured once more, and the fingerprint of the certificate that was shown for each.
    reconfigured: BTreeSet<(NodeName, Option<String>)>,
    /// Nodes whose VM was to be made or finished: whatever that takes goes with it.
    made: BTreeSet<NodeName>,
}

impl Approval {
    pub(super) fn of(plan: &Plan) -> Self {
        let steps =
            plan.steps.iter().map(|step| (step.step.word().to_owned(), step.node.clone(), step.effect));
        let later = plan.later.iter().map(|intent| (intent.step.clone(), intent.node.clone(), intent.effect));
        let kinds: BTreeSet<_> = steps.chain(later).collect();
        let removed = plan.steps.iter().filter_map(|planned| removes(&planned.step)).collect();
        let reconfigured = plan.steps.iter().filter_map(|planned| reconfigures(&planned.step)).collect();
        let made = kinds.iter().filter(|(_, _, effect)| *effect == Effect::Create);
        let made = made.filter_map(|(_, node, _)| node.clone());
        Self { made: made.collect(), removed, reconfigured, kinds }
    }

    /// What a plan wants that nobody has said yes to.
    pub(super) fn beyond(&self, plan: &Plan) -> Vec<Intent> {
        let steps = plan.steps.iter().filter(|step| !self.covers(step)).map(|step| Intent {
            node: step.node.clone(),
            step: step.step.word().to_owned(),
            effect: step.effect,
            reason: step.reason.clone(),
        });
        steps.collect()
    }

    /// Whether anything was approved for a node.
    pub(super) fn concerns(&self, node: &NodeName) -> bool {
        self.kinds.iter().any(|(_, of, _)| of.as_ref() == Some(node))
    }

    fn covers(&self, step: &Planned) -> bool {
        if sabotaged(Defect::ApprovalNotChecked) {
            return true;
        }
        if let Some(removed) = removes(&step.step) {
            return self.removed.contains(&removed);
        }
        // Which machine gets it was approved, not that some machine does.
        if let Some(reconfigured) = reconfigures(&step.step) {
            return self.reconfigured.contains(&reconfigured);
        }
        // Waiting harms nobody, nor does letting pods back onto a node that is well, or noting what was seen of a machine.
        let returns = matches!(
            step.step,
            Step::Upkeep(Upkeep::ReturnNode { .. })
                | Step::RecordBootstrap { .. }
                | Step::RecordConfigured { .. }
        );
        if step.effect == Effect::Wait || returns {
            return true;
        }
        let kind = step.step.word();
        // Whoever let a node go down let its pods leave before.
        let drains = matches!(step.step, Step::Upkeep(Upkeep::DrainNode { .. }));
        let goes_down = |(_, node, effect): &(String, Option<NodeName>, Effect)| {
            *node == step.node && effect.interrupts()
        };
        if drains && self.kinds.iter().any(goes_down) {
            return true;
        }
        let listed = (kind.to_owned(), step.node.clone(), step.effect);
        // Pools, images and templates belong to no node, whoever they are made for.
        let serves = || {
            is_for_all(&step.step)
                && (!self.made.is_empty()
                    || self.kinds.iter().any(|(_, node, effect)| node.is_none() && *effect == Effect::Create))
        };
        let finishes = || {
            let harmless = matches!(
                step.effect,
                Effect::Create | Effect::ChangeLive | Effect::Start | Effect::ChangePending
            );
            harmless && step.node.as_ref().is_some_and(|node| self.made.contains(node))
        };
        // What is to be removed may have been started since: it has to be stopped first.
        let goes = || {
            let removal = |(removed, node, _): &(String, Option<NodeName>, Effect)| {
                removed == "remove" && *node == step.node
            };
            kind == "stop" && self.kinds.iter().any(removal)
        };
        self.kinds.contains(&listed) || serves() || finishes() || goes()
    }
}

/// Whether a step makes what nodes are made from, or makes it fit: approving those approves this.
fn is_for_all(step: &Step) -> bool {
    matches!(
        step,
        Step::CreatePool { .. }
            | Step::RegisterSchematic { .. }
            | Step::FetchImage { .. }
            | Step::BuildTemplate { .. }
            | Step::ConvertTemplate { .. }
            | Step::ConfigureTemplate { .. }
    )
}

/// The node a step configures once more, and behind which certificate.
fn reconfigures(step: &Step) -> Option<(NodeName, Option<String>)> {
    if let Step::ConfigureNode { vm, reconfigure: Some(approved), .. } = step {
        return Some((vm.mark.node.clone(), approved.fingerprint.clone()));
    }
    None
}

/// The template or image that is gone after a step.
fn removes(step: &Step) -> Option<String> {
    if let Step::RemoveTemplate { template } = step {
        return Some(template.mark.to_string());
    }
    if let Step::RemoveImage { host, volume } = step { Some(format!("{host} {volume}")) } else { None }
}

#[cfg(test)]
mod tests {
    use talmox_plan::{Expected, ExpectedTemplate, Proof, Reconfigure, StepId};
    use talmox_types::{ClusterName, FamilyPair, HostName, Mark, TemplateMark};

    use super::*;

    fn plan(steps: Vec<Planned>) -> Plan {
        Plan {
            cluster: ClusterName::parse("lab").unwrap(),
            uid: None,
            steps,
            later: Vec::new(),
            waiting: Vec::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn planned(node: Option<&str>, step: Step, effect: Effect) -> Planned {
        let node = node.map(|name| NodeName::parse(name).unwrap());
        Planned {
            id: StepId::new(node.as_ref(), step.word()),
            needs: Vec::new(),
            node,
            step,
            reason: String::new(),
            effect,
            changes: Vec::new(),
            destroys: Vec::new(),
        }
    }

    fn template(vmid: u32) -> ExpectedTemplate {
        let mark = format!(
            "talmox-template:v1 owner=o image=00000000000000aa settings=00000000000000bb vmid={vmid} incarnation=a1"
        );
        ExpectedTemplate {
            name: "talos".to_owned(),
            host: HostName::parse("pve1").unwrap(),
            mark: TemplateMark::parse(&mark).unwrap(),
        }
    }

    fn convert(vmid: u32) -> Planned {
        planned(None, Step::ConvertTemplate { template: template(vmid) }, Effect::Create)
    }

    fn remove(vmid: u32) -> Planned {
        planned(None, Step::RemoveTemplate { template: template(vmid) }, Effect::Destroy)
    }

    #[test]
    fn a_node_is_configured_once_more_behind_the_certificate_that_was_shown() {
        let mark = "talmox:v1 uid=0123456789abcdef cluster=lab node=cp-1 vmid=2000 incarnation=a1 configured";
        let again = |shown: Option<&str>| {
            let vm = Expected { host: HostName::parse("pve1").unwrap(), mark: Mark::parse(mark).unwrap() };
            let fingerprint = shown.map(str::to_owned);
            let address = FamilyPair::one("10.0.7.11".parse().unwrap());
            let reconfigure = Some(Reconfigure { fingerprint });
            let step = Step::ConfigureNode { vm, address, reconfigure, proof: Proof::Certificate };
            plan(vec![planned(Some("cp-1"), step, Effect::Create)])
        };
        let approval = Approval::of(&again(Some("one")));
        assert_eq!(approval.beyond(&again(Some("one"))), []);
        assert_eq!(approval.beyond(&again(Some("other"))).len(), 1);
        assert_eq!(approval.beyond(&again(None)).len(), 1);
    }

    #[test]
    fn templates_of_approved_nodes_may_be_made_and_no_other_ones_removed() {
        let pool = Step::CreatePool { pool: "lab".parse().unwrap(), comment: String::new() };
        let node = Approval::of(&plan(vec![planned(Some("cp-1"), pool, Effect::Create)]));
        assert_eq!(node.beyond(&plan(vec![convert(9000), convert(9001)])), []);
        assert_eq!(node.beyond(&plan(vec![remove(9000)])).len(), 1);
        let prune = Approval::of(&plan(vec![remove(9000)]));
        assert_eq!(prune.beyond(&plan(vec![remove(9000)])), []);
        assert_eq!(prune.beyond(&plan(vec![remove(9001), convert(9002)])).len(), 2);
    }
}
