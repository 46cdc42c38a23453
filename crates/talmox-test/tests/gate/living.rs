//! More about a cluster that lives than bringing one up needs.

use std::time::Duration;

use talmox_plan::{SeenMachine, SeenNode};

use crate::bed::{Bed, healthy};

impl Bed {
    /// Waits until nothing comes and goes any more: a control plane that joined is ready, then is not, then is, and a run
    /// that looked in the moment between had nothing to do.
    pub(crate) async fn settles(&self) {
        let mut in_a_row = 0;
        for _ in 0..24 {
            let observed = self.look(&healthy()).await;
            let is_well = |machine: &SeenMachine| machine.configured().is_some_and(SeenNode::is_well);
            in_a_row = if observed.talos.values().all(is_well) { in_a_row + 1 } else { 0 };
            // One that joins is ready for a moment before its pods are.
            if in_a_row > 3 {
                return;
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }

    /// Nodes that are closed to pods.
    pub(crate) async fn cordoned(&self) -> Vec<String> {
        let address = self.control_planes().into_values().next().unwrap();
        let nodes = self.kubernetes_at(&address.to_string()).nodes().await.unwrap();
        let closed = nodes.into_iter().filter(|node| node.spec.unschedulable);
        closed.map(|node| node.name().to_owned()).collect()
    }
}
