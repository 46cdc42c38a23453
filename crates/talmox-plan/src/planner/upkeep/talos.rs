//! Talos of another version, or with other extensions.

use super::Living;
use crate::planner::Planner;

impl<'a> Planner<'a> {
    /// Upgrades Talos, control planes first and one at a time.
    pub(super) fn talos_upgrades(&mut self, living: &[Living<'a>]) {
        let _ = (&self.plan, living);
    }
}
