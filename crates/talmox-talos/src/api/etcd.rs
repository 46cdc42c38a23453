//! Members of etcd, and its data.

use std::fmt;

use bytes::Bytes;
use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};
use talmox_proto::common::Data;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{
    EtcdForfeitLeadershipRequest, EtcdLeaveClusterRequest, EtcdMemberListRequest,
    EtcdRemoveMemberByIdRequest, EtcdSnapshotRequest,
};

use crate::{BoxStream, Client, Error};

/// A member's number, shown as etcd shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A member as another one, or itself, knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: MemberId,
    /// Empty for one that has been added and has not started yet.
    pub hostname: String,
    pub peer_urls: Vec<String>,
    /// Has no vote yet.
    pub is_learner: bool,
}

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdHealth {
    pub id: MemberId,
    /// None without quorum.
    pub leader: Option<MemberId>,
    pub database_bytes: u64,
    pub raft_index: u64,
    pub is_learner: bool,
    pub errors: Vec<String>,
}

impl Client {
    /// All members. With `local` the node answers from its own member alone, so one that has left etcd cannot answer for
    /// the others.
    pub async fn etcd_members(&self, local: bool) -> Result<Vec<Member>, Error> {
        let request = EtcdMemberListRequest { query_local: local };
        let reply = self.one(calls::ETCD_MEMBER_LIST, request, self.deadlines().quick).await?;
        let member = |one: talmox_proto::machine::EtcdMember| Member {
            id: MemberId(one.id),
            hostname: one.hostname,
            peer_urls: one.peer_urls,
            is_learner: one.is_learner,
        };
        Ok(reply.members.into_iter().map(member).collect())
    }

    pub async fn etcd_health(&self) -> Result<EtcdHealth, Error> {
        let reply = self.one(calls::ETCD_STATUS, (), self.deadlines().quick).await?;
        let status = reply.member_status.unwrap_or_default();
        Ok(EtcdHealth {
            id: MemberId(status.member_id),
            leader: (status.leader != 0).then_some(MemberId(status.leader)),
            database_bytes: u64::try_from(status.db_size).unwrap_or_default(),
            raft_index: status.raft_index,
            is_learner: status.is_learner,
            errors: status.errors,
        })
    }

    /// Takes this node out of etcd, with its data. It must be reset afterwards: a bootstrap would make a second cluster.
    pub async fn etcd_leave(&self) -> Result<(), Error> {
        let request = EtcdLeaveClusterRequest {};
        self.one(calls::ETCD_LEAVE_CLUSTER, request, self.deadlines().long).await.map(drop)
    }

    /// Takes a member out whose node is gone for good.
    pub async fn etcd_remove(&self, member: MemberId) -> Result<(), Error> {
        let request = EtcdRemoveMemberByIdRequest { member_id: member.0 };
        self.one(calls::ETCD_REMOVE_MEMBER_BY_ID, request, self.deadlines().quick).await.map(drop)
    }

    /// Gives leadership away; gives who has it now, or none if this node had none.
    pub async fn etcd_forfeit_leadership(&self) -> Result<Option<String>, Error> {
        let request = EtcdForfeitLeadershipRequest {};
        let reply = self.one(calls::ETCD_FORFEIT_LEADERSHIP, request, self.deadlines().quick).await?;
        Ok((!reply.member.is_empty()).then_some(reply.member))
    }

    /// etcd's data, piece by piece, so that it never has to fit into memory. Whoever takes them checks them with
    /// [`Snapshot`]: the stream may end well after it failed.
    pub async fn etcd_snapshot(&self) -> Result<BoxStream<Result<Bytes, Error>>, Error> {
        let request = EtcdSnapshotRequest {};
        let stream = self.stream(calls::ETCD_SNAPSHOT, request, Some(self.deadlines().long)).await?;
        Ok(Box::pin(stream.map(|piece| piece.map(|piece| Bytes::from(piece.bytes)))))
    }

    /// Uploads data for a recovery. What is wrong with it shows only after the bootstrap that follows.
    pub async fn etcd_recover(&self, pieces: BoxStream<Bytes>) -> Result<(), Error> {
        let requests = pieces.map(|piece| Data { metadata: None, bytes: piece.to_vec() });
        let reply = self.pour(calls::ETCD_RECOVER, Box::pin(requests), self.deadlines().long).await?;
        self.unpack(calls::ETCD_RECOVER.name(), reply).map(drop)
    }
}

/// Checks a snapshot while it comes: pages, and the SHA-256 of all of them at the end.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    hash: Sha256,
    /// The last bytes, which may be the sum.
    tail: Vec<u8>,
    length: u64,
}

/// A snapshot that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSnapshot {
    #[error("it is cut off: {length} bytes are no whole pages and a checksum")]
    Cut { length: u64 },
    #[error("its checksum is wrong")]
    Checksum,
}

impl Snapshot {
    const SUM: usize = 32;

    pub fn push(&mut self, piece: &[u8]) {
        self.length += piece.len() as u64;
        self.tail.extend_from_slice(piece);
        if let Some(sure) = self.tail.len().checked_sub(Self::SUM) {
            self.hash.update(&self.tail[..sure]);
            self.tail.drain(..sure);
        }
    }

    /// How many bytes it had.
    pub fn finish(self) -> Result<u64, NoSnapshot> {
        let Self { hash, tail, length } = self;
        if length % 512 != Self::SUM as u64 || length <= Self::SUM as u64 {
            return Err(NoSnapshot::Cut { length });
        }
        if hash.finalize().as_slice() == tail { Ok(length) } else { Err(NoSnapshot::Checksum) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(pages: usize) -> Vec<u8> {
        let mut data: Vec<u8> = (0..pages * 512).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let sum = Sha256::digest(&data);
        data.extend_from_slice(&sum);
        data
    }

    fn judged(data: &[u8], size: usize) -> Result<u64, NoSnapshot> {
        let mut snapshot = Snapshot::default();
        data.chunks(size).for_each(|piece| snapshot.push(piece));
        snapshot.finish()
    }

    #[test]
    fn a_whole_one_is_known_in_any_pieces() {
        let data = snapshot(3);
        for size in [1, 7, 31, 32, 33, 512, 5000] {
            assert_eq!(judged(&data, size), Ok(data.len() as u64));
        }
    }

    #[test]
    fn a_broken_one_is_known() {
        let mut data = snapshot(2);
        assert_eq!(judged(&data[..900], 64), Err(NoSnapshot::Cut { length: 900 }));
        assert_eq!(judged(&data[..512 + 32], 64), Err(NoSnapshot::Checksum));
        assert_eq!(judged(&[], 64), Err(NoSnapshot::Cut { length: 0 }));
        data[100] ^= 1;
        assert_eq!(judged(&data, 64), Err(NoSnapshot::Checksum));
    }
}
