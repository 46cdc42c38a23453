//! Kubernetes of another version.

use super::Living;
use crate::planner::Planner;

impl<'a> Planner<'a> {
    /// Upgrades Kubernetes, before or after Talos as the two support each other.
    pub(super) fn kubernetes_upgrade(&mut self, living: &[Living<'a>]) {
        let _ = (&self.plan, living);
    }
}
