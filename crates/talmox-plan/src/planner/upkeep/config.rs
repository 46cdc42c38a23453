//! Machine configurations that differ.

use super::Living;
use crate::planner::Planner;

impl<'a> Planner<'a> {
    /// Changes configurations that differ in more than versions.
    pub(super) fn config_changes(&mut self, living: &[Living<'a>]) {
        let _ = (&self.plan, living);
    }
}
