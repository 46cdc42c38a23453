//! Snapshots: from a member to a place, and from a place to the machine that begins with one.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};
use talmox_plan::Snapshot;
use talmox_talos::{Client, NoSnapshot};
use talmox_types::NodeName;
use talmox_types::sabotage::{Defect, sabotaged};

use super::Etcd;
use crate::StepError;
use crate::work::{Result, Work};

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("the member does not give it")]
    Call(#[source] talmox_talos::Error),
    #[error("what came is no snapshot")]
    Broken(#[source] NoSnapshot),
    #[error("it cannot be kept: {0}")]
    Place(String),
}

/// The member to take a snapshot from: one that is healthy, a follower if there is one. Without a quorum the one that knows most,
/// if `any` will do; what was not agreed on before the quorum was lost is not in it. Never one whose data differs from the others'.
pub fn choose(etcd: &Etcd, any: bool) -> Option<&NodeName> {
    let healthy = || etcd.nodes.keys().filter(|node| etcd.is_healthy(node));
    let follower = healthy().find(|node| Some(*node) != etcd.leader());
    let most = || {
        let answers = etcd.nodes.iter().filter_map(|(node, health)| Some((node, health.as_ref().ok()?)));
        let answers = answers.filter(|(node, _)| !etcd.is_corrupt(node));
        answers.max_by_key(|(_, health)| (health.raft_term, health.raft_index)).map(|(node, _)| node)
    };
    follower.or_else(|| healthy().next()).or_else(|| if any { most() } else { None })
}

/// Takes a snapshot: every piece is handed on as it comes, and all of them are judged at the end. Only `Ok` says that what was
/// handed on is whole; gives how many bytes it had.
pub async fn take(
    client: &Client,
    hand_on: &mut (dyn FnMut(&[u8]) -> std::result::Result<(), String> + Send),
) -> std::result::Result<u64, SnapshotError> {
    let mut pieces = client.etcd_snapshot().await.map_err(SnapshotError::Call)?;
    let mut judge = talmox_talos::Snapshot::default();
    let mut length = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(SnapshotError::Call)?;
        judge.push(&piece);
        length += piece.len() as u64;
        hand_on(&piece).map_err(SnapshotError::Place)?;
    }
    // The stream ends well even if the member could not read on.
    match judge.finish() {
        Err(_) if sabotaged(Defect::SnapshotNotVerified) => Ok(length),
        judged => judged.map_err(SnapshotError::Broken),
    }
}

/// Sends a snapshot to a machine. What is in the file must be what was planned with: nothing is begun with anything else.
pub(crate) async fn upload(work: &Work<'_>, client: &Client, snapshot: &Snapshot) -> Result<()> {
    let doing = || format!("send {} to {}", snapshot.path, client.node());
    let failed = |reason| StepError::Etcd { doing: doing(), reason };
    let pieces = work.reach()?.machines.snapshot(&snapshot.path).map_err(failed)?;
    let sent = Arc::new(Mutex::new((Sha256::new(), None)));
    let counted = Arc::clone(&sent);
    let pieces = pieces.map_while(move |piece| {
        let mut sent = counted.lock().unwrap_or_else(PoisonError::into_inner);
        match piece {
            Ok(bytes) => {
                sent.0.update(&bytes);
                Some(bytes)
            }
            Err(reason) => {
                sent.1 = Some(reason);
                None
            }
        }
    });
    // In pieces as Talos' own client sends them.
    let pieces = pieces.flat_map(|bytes: Bytes| {
        let count = bytes.len().div_ceil(PIECE);
        (0..count).map(move |at| bytes.slice(at * PIECE..bytes.len().min((at + 1) * PIECE)))
    });
    let uploaded = client.etcd_recover(Box::pin(futures_util::stream::iter(pieces))).await;
    let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reason) = sent.1.take() {
        return Err(failed(reason));
    }
    uploaded.map_err(StepError::machine(doing()))?;
    let digest: String = sent.0.finalize_reset().iter().map(|byte| format!("{byte:02x}")).collect();
    if digest == snapshot.digest {
        return Ok(());
    }
    Err(failed("it is not the file any more that this was planned with".to_owned()))
}

const PIECE: usize = 4096;
