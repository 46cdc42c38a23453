//! A cluster that begins with a snapshot of etcd.
//!
//! ```text
//!  mark        asked for          no control plane has data
//!  ─           nothing            bootstrap
//!  ─, done     --restore FILE     recover from FILE, the intent names it
//!  done        nothing            refused: the data is lost
//!  from FILE   nothing            refused: a restore was interrupted, an empty cluster would take its place
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_types::{BootstrapWord, Mark, NodeName};

use crate::planner::Planner;
use crate::{Expected, Step, Upkeep};

/// Whether a first member may be made.
pub(in crate::planner) enum Beginning {
    Allowed,
    /// There was one, and nobody asked for another.
    Lost,
    /// One was to be made from a snapshot, and nobody says from which.
    Interrupted,
}

impl Planner<'_> {
    /// Whether a cluster without data may get some, as marks and request say.
    pub(in crate::planner) fn beginning(&self, marked: Option<&BootstrapWord>) -> Beginning {
        if self.request.upkeep.restore.is_some() {
            return Beginning::Allowed;
        }
        match marked {
            Some(word) if word.done => Beginning::Lost,
            Some(word) if word.snapshot.is_some() => Beginning::Interrupted,
            Some(_) | None => Beginning::Allowed,
        }
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
