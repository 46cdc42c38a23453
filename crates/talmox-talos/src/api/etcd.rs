//! Members of etcd, and its data.

use std::fmt;

use bytes::Bytes;
use futures_util::StreamExt as _;
use talmox_proto::common::Data;
use talmox_proto::machine::etcd_member_alarm::AlarmType;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{
    EtcdForfeitLeadershipRequest, EtcdLeaveClusterRequest, EtcdMemberAlarm, EtcdMemberListRequest,
    EtcdRemoveMemberByIdRequest, EtcdSnapshotRequest,
};
use talmox_types::excerpt;

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
    /// Of etcd: `3.6.16`.
    pub version: String,
    /// What the file takes, and how much of it is in use: a defragmentation gives the rest back.
    pub database_bytes: u64,
    pub used_bytes: u64,
    pub raft_term: u64,
    pub raft_index: u64,
    /// How far what was agreed on is carried out.
    pub applied_index: u64,
    pub is_learner: bool,
    pub errors: Vec<String>,
}

/// What a member has raised an alarm for. While one stands, etcd takes no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// The database is as large as it may be.
    NoSpace,
    /// Its data differs from that of the others.
    Corrupt,
}

impl Client {
    /// All members. With `local` the node answers from its own member alone, so one that has left etcd cannot answer for
    /// the others.
    pub async fn etcd_members(&self, local: bool) -> Result<Vec<Member>, Error> {
        let request = EtcdMemberListRequest { query_local: local };
        let reply = self.one(calls::ETCD_MEMBER_LIST, request, self.deadlines().quick).await?;
        let member = |one: talmox_proto::machine::EtcdMember| Member {
            id: MemberId(one.id),
            hostname: excerpt(&one.hostname),
            peer_urls: one.peer_urls.iter().map(|url| excerpt(url)).collect(),
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
            version: excerpt(&status.protocol_version),
            database_bytes: u64::try_from(status.db_size).unwrap_or_default(),
            used_bytes: u64::try_from(status.db_size_in_use).unwrap_or_default(),
            raft_term: status.raft_term,
            raft_index: status.raft_index,
            applied_index: status.raft_applied_index,
            is_learner: status.is_learner,
            errors: status.errors.iter().map(|error| excerpt(error)).collect(),
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

    /// Gives back what the database does not use any more. The member answers nobody meanwhile: one at a time.
    pub async fn etcd_defragment(&self) -> Result<(), Error> {
        self.one(calls::ETCD_DEFRAGMENT, (), self.deadlines().long).await.map(drop)
    }

    /// Alarms that stand, and whose they are.
    pub async fn etcd_alarms(&self) -> Result<Vec<(MemberId, Alarm)>, Error> {
        let reply = self.one(calls::ETCD_ALARM_LIST, (), self.deadlines().quick).await?;
        Ok(alarms(&reply.member_alarms))
    }

    /// Takes all alarms back; gives those that stood.
    pub async fn etcd_disarm(&self) -> Result<Vec<(MemberId, Alarm)>, Error> {
        let reply = self.one(calls::ETCD_ALARM_DISARM, (), self.deadlines().quick).await?;
        Ok(alarms(&reply.member_alarms))
    }

    /// etcd's data, piece by piece, so that it never has to fit into memory. Whoever takes them checks them with
    /// [`Snapshot`](crate::Snapshot): the stream may end well after it failed.
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

fn alarms(listed: &[EtcdMemberAlarm]) -> Vec<(MemberId, Alarm)> {
    let one = |alarm: &EtcdMemberAlarm| {
        let kind = match alarm.alarm() {
            AlarmType::None => return None,
            AlarmType::Nospace => Alarm::NoSpace,
            AlarmType::Corrupt => Alarm::Corrupt,
        };
        Some((MemberId(alarm.member_id), kind))
    };
    listed.iter().filter_map(one).collect()
}
