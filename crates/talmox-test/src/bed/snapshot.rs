//! Snapshots of etcd, and requests to begin with one.

use sha2::{Digest as _, Sha256};
use talmox_plan::{Effect, Plan, Planned, Request, Snapshot, Step, StepId, Upkeep, UpkeepRequest};

use super::{Bed, healthy};

/// A plan that takes a snapshot and does nothing else.
pub fn snapshot_plan(bed: &Bed) -> Plan {
    let step = Step::Upkeep(Upkeep::SnapshotEtcd { control_planes: bed.control_planes() });
    let planned = Planned {
        id: StepId::new(None, step.word()),
        needs: Vec::new(),
        node: None,
        step,
        reason: "before what is risky".to_owned(),
        effect: Effect::Create,
        changes: Vec::new(),
        destroys: Vec::new(),
    };
    Plan {
        cluster: bed.desired.name.clone(),
        uid: bed.desired.uid.clone(),
        steps: vec![planned],
        later: Vec::new(),
        waiting: Vec::new(),
        refusals: Vec::new(),
        notes: Vec::new(),
    }
}

impl Bed {
    /// Takes a snapshot, and asks to begin with it.
    pub async fn restorable(&self, number: u32) -> Request {
        self.carry_out(&snapshot_plan(self), &healthy(), number).await.unwrap();
        let (path, bytes) = {
            let kept = self.handed.snapshots.lock().unwrap();
            let path = format!("snapshot-{}", kept.len());
            let bytes = kept[&path].clone();
            (path, bytes)
        };
        let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let restore = Some(Snapshot { path, digest });
        Request { upkeep: UpkeepRequest { restore, ..UpkeepRequest::default() }, ..healthy() }
    }
}
