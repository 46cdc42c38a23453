//! A cluster that begins with a snapshot of etcd.
//!
//! ```text
//!  mark        asked for          no control plane has data
//!  ─           nothing            bootstrap
//!  ─, done     --restore FILE     recover from FILE, the intent names it
//!  done        nothing            refused: the data is lost
//!  from FILE   nothing            refused: a restore was interrupted, an empty cluster would take its place
//!  VMs of the cluster that are not described, and --restore: refused, since they may be its living control planes
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{BootstrapWord, Mark, NodeName, VmId};

use crate::planner::Planner;
use crate::{Expected, Owned, Planned, Step, StepId, Upkeep};

impl Planner<'_> {
    /// Whether a cluster without data may get some, as marks and request say; why not is refused.
    pub(in crate::planner) fn may_begin(&mut self, marked: Option<&BootstrapWord>, all_empty: bool) -> bool {
        if self.request.upkeep.restore.is_some() {
            return !self.is_beside_others();
        }
        match marked {
            Some(word) if word.done && sabotaged(Defect::BootstrappedAgain) => true,
            Some(word) if word.done => {
                if all_empty {
                    self.refuse_lost_data();
                }
                false
            }
            Some(word) if word.snapshot.is_some() => {
                self.refuse_half_restored();
                false
            }
            Some(_) | None => true,
        }
    }

    /// Whether VMs of this cluster are there that the description does not name. They may be the control planes the snapshot is of,
    /// alive: then there would be two clusters, with one identity and one address.
    fn is_beside_others(&mut self) -> bool {
        let goes = |vmid: VmId| {
            let mut steps = self.plan.steps.iter();
            steps.any(|planned| matches!(&planned.step, Step::RemoveVm { vm, .. } if vm.vmid() == vmid))
        };
        let is_other =
            |owned: &&Owned| !self.names.contains_key(owned.mark.node.as_str()) && !goes(owned.mark.vmid);
        let other = self.identities.ours().find(is_other).cloned();
        let Some(Owned { mark, host, .. }) = other else { return false };
        let (vmid, name) = (mark.vmid, mark.node);
        let problem = format!(
            "VM {vmid} ({name}) on {host} is of this cluster and not in the description: it may have data of etcd, and be alive beside \
             what is restored"
        );
        let choices = vec![
            "is this the right description? talmox status shows what is there".to_owned(),
            format!("let it go first: --remove {name}, or --prune for all of them"),
            format!("if it cannot say any more what it has: qm stop {vmid} and qm destroy {vmid} on {host}"),
        ];
        self.refuse(None, problem, choices);
        true
    }

    /// Steps that remove what is not described: nothing begins before they are done.
    pub(in crate::planner) fn undeclared_removals(&self) -> Vec<StepId> {
        let removes = |planned: &&Planned| {
            let node = planned.node.as_ref();
            matches!(planned.step, Step::RemoveVm { .. })
                && node.is_some_and(|node| !self.names.contains_key(node.as_str()))
        };
        self.plan.steps.iter().filter(removes).map(|planned| planned.id.clone()).collect()
    }

    fn refuse_lost_data(&mut self) {
        let problem = "this cluster was bootstrapped before, and no control plane has data of etcd any more: \
                       another bootstrap would make another, empty cluster";
        let choices = vec![
            "begin with a snapshot of etcd: talmox apply --restore FILE".to_owned(),
            "talmox destroy, then apply, for an empty cluster".to_owned(),
        ];
        self.refuse(None, problem.to_owned(), choices);
    }

    /// What is written into the mark before the call.
    pub(in crate::planner) fn intent(&self, mark: &Mark) -> BootstrapWord {
        let snapshot = self.request.upkeep.restore.as_ref();
        BootstrapWord {
            incarnation: mark.incarnation.clone(),
            done: false,
            snapshot: snapshot.map(|snapshot| BootstrapWord::digits(&snapshot.digest)),
        }
    }

    /// The step that makes the first member, and why.
    pub(in crate::planner) fn first_member(
        &self,
        vm: Expected,
        address: IpAddr,
        control_planes: BTreeMap<NodeName, IpAddr>,
    ) -> (Step, &'static str) {
        match self.request.upkeep.restore.clone() {
            Some(snapshot) => (
                Step::Upkeep(Upkeep::RecoverEtcd { vm, address, control_planes, snapshot }),
                "no control plane has data of etcd, and the snapshot has",
            ),
            None => (Step::Bootstrap { vm, address, control_planes }, "no control plane has data of etcd"),
        }
    }

    /// Its word, where it follows later.
    pub(in crate::planner) fn first_member_word(&self) -> &'static str {
        if self.request.upkeep.restore.is_some() { "recover-etcd" } else { "bootstrap" }
    }

    /// A cluster that has data is never given other data, unless it is that very snapshot it began with.
    pub(in crate::planner) fn refuse_restore_over(
        &mut self,
        marked: Option<&BootstrapWord>,
        members: &BTreeSet<NodeName>,
    ) {
        let Some(snapshot) = &self.request.upkeep.restore else { return };
        let began_with = marked.and_then(|word| word.snapshot.as_deref());
        if began_with == Some(BootstrapWord::digits(&snapshot.digest).as_str()) {
            return;
        }
        let names: Vec<&str> = members.iter().map(NodeName::as_str).collect();
        let problem = format!(
            "{} {} data of etcd, and --restore would need all of it gone: it builds a cluster that has none",
            names.join(", "),
            if names.len() == 1 { "has" } else { "have" }
        );
        let choices = vec![
            "talmox apply, without --restore, keeps the data there is".to_owned(),
            "talmox etcd snapshot FILE keeps what there is now; talmox destroy, then apply --restore, if the snapshot is \
             to take its place"
                .to_owned(),
        ];
        self.refuse(None, problem, choices);
    }

    pub(in crate::planner) fn refuse_half_restored(&mut self) {
        let problem = "an earlier run was to restore this cluster from a snapshot and did not finish: a bootstrap would make \
                       an empty one";
        let choices = vec![
            "go on with the same file: talmox apply --restore FILE".to_owned(),
            "talmox destroy, then apply, for an empty cluster".to_owned(),
        ];
        self.refuse(None, problem.to_owned(), choices);
    }
}
