//! Calls about etcd.

use bytes::Bytes;
use talmox_proto::Message;
use talmox_proto::common::Data;
use talmox_proto::machine::etcd_member_alarm::AlarmType;
use talmox_proto::machine::{
    Bootstrap, BootstrapRequest, BootstrapResponse, EtcdAlarm, EtcdAlarmDisarm, EtcdAlarmDisarmResponse,
    EtcdAlarmListResponse, EtcdDefragment, EtcdDefragmentResponse, EtcdForfeitLeadership,
    EtcdForfeitLeadershipResponse, EtcdLeaveCluster, EtcdLeaveClusterResponse, EtcdMember, EtcdMemberAlarm,
    EtcdMemberListRequest, EtcdMemberListResponse, EtcdMemberStatus, EtcdMembers, EtcdRecover,
    EtcdRecoverResponse, EtcdRemoveMemberById, EtcdRemoveMemberByIdRequest, EtcdRemoveMemberByIdResponse,
    EtcdStatus, EtcdStatusResponse,
};

use super::machine::run;
use super::reply::reply_after;
use super::{Asked, Handlers};
use crate::disk::EtcdData;
use crate::etcd::snapshot;
use crate::nodes::Nodes;
use crate::wire::{ApiReply, Code, Status};

pub(super) const HANDLERS: Handlers = &[
    ("/machine.MachineService/Bootstrap", bootstrap),
    ("/machine.MachineService/EtcdMemberList", member_list),
    ("/machine.MachineService/EtcdStatus", status),
    ("/machine.MachineService/EtcdSnapshot", take_snapshot),
    ("/machine.MachineService/EtcdRecover", recover),
    ("/machine.MachineService/EtcdLeaveCluster", leave),
    ("/machine.MachineService/EtcdRemoveMemberByID", remove),
    ("/machine.MachineService/EtcdForfeitLeadership", forfeit),
    ("/machine.MachineService/EtcdAlarmList", alarms),
    ("/machine.MachineService/EtcdAlarmDisarm", disarm),
    ("/machine.MachineService/EtcdDefragment", defragment),
];

/// Bytes of a piece of a snapshot.
const PIECE: usize = 1024;

/// How long it takes to stop an etcd whose program cannot start.
const STOPS: u64 = 6000;

type Reply = Result<ApiReply, Status>;

const NO_LEADER: &str = "etcdserver: no leader";

fn control_plane_only(nodes: &Nodes, asked: &Asked<'_>, what: &str) -> Result<(), Status> {
    if run(nodes, asked)?.is_control_plane() {
        return Ok(());
    }
    Err(Status::new(Code::Unimplemented, format!("{what} is only available on control plane nodes")))
}

/// A refusal that comes only after the node waited for so long.
fn not_yet(words: &str, after: u64) -> ApiReply {
    let end = Status::new(Code::FailedPrecondition, words);
    ApiReply::Done { after, messages: Vec::new(), end }
}

fn bootstrap(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let request: BootstrapRequest = asked.request()?;
    let machine = run(nodes, asked)?;
    if !machine.is_service_up("cri") {
        return Ok(not_yet("bootstrap is not available yet", 1200));
    }
    if !machine.is_control_plane() {
        return if machine.minor() <= 12 {
            Ok(not_yet("bootstrap can only be performed on a control plane node", nodes.timing.call))
        } else {
            Err(Status::new(Code::Unimplemented, "bootstrap is only available on control plane nodes"))
        };
    }
    if machine.minor() >= 14 && machine.settings().is_some_and(|settings| settings.etcd_authority.is_none()) {
        return Err(Status::new(Code::InvalidArgument, "etcd is not configured, bootstrap is not possible"));
    }
    if !machine.time_synced {
        return Ok(not_yet("time is not in sync yet", 5100));
    }
    if nodes.etcd_data(asked.machine).is_some() {
        return Err(Status::new(Code::AlreadyExists, "etcd data directory is not empty"));
    }
    // An etcd that is started over and over is stopped first.
    let stops = machine.services.get("etcd").is_some_and(|etcd| etcd.restarts);
    let BootstrapRequest { recover_etcd: recover, recover_skip_hash_check: skip_hash_check } = request;
    nodes.begin_bootstrap(asked.machine, crate::machine::Bootstrap { recover, skip_hash_check });
    let message = BootstrapResponse { messages: vec![Bootstrap { metadata: None }] };
    Ok(if stops { reply_after(STOPS, &message) } else { nodes.reply(&message) })
}

/// The member that runs here; none means that the call hangs until the caller gives up.
fn local(nodes: &Nodes, asked: &Asked<'_>) -> Option<EtcdData> {
    nodes.running_member(asked.machine)
}

fn is_learner(nodes: &Nodes, data: EtcdData) -> bool {
    let cluster = nodes.clusters.get(&data.cluster);
    cluster.and_then(|cluster| cluster.members.get(&data.member)).is_some_and(|member| member.learner)
}

fn member_list(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    control_plane_only(nodes, asked, "member list")?;
    let request: EtcdMemberListRequest = asked.request()?;
    let own = local(nodes, asked);
    let cluster = if request.query_local {
        if own.is_some_and(|data| is_learner(nodes, data)) {
            return Err(Status::new(Code::Unknown, "etcdserver: rpc not supported for learner"));
        }
        own.map(|data| data.cluster)
    } else {
        nodes.reachable_cluster(asked.machine)
    };
    let Some(cluster) = cluster else { return Ok(ApiReply::Silence) };
    if !nodes.has_quorum(cluster) {
        return Err(Status::new(Code::Unknown, NO_LEADER));
    }
    let members: Vec<EtcdMember> = nodes
        .clusters
        .get(&cluster)
        .into_iter()
        .flat_map(|cluster| &cluster.members)
        .map(|(id, member)| EtcdMember {
            id: *id,
            hostname: member.name.clone(),
            peer_urls: member.peer_urls.clone(),
            client_urls: member.client_urls.clone(),
            is_learner: member.learner,
        })
        .collect();
    let legacy_members = members.iter().map(|member| member.hostname.clone()).collect();
    let message = EtcdMembers { metadata: None, legacy_members, members };
    Ok(nodes.reply(&EtcdMemberListResponse { messages: vec![message] }))
}

fn status(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    control_plane_only(nodes, asked, "etcd status")?;
    let Some(data) = local(nodes, asked) else { return Ok(ApiReply::Silence) };
    let Some(cluster) = nodes.clusters.get(&data.cluster) else { return Ok(ApiReply::Silence) };
    let index = nodes.raft_index(cluster);
    let in_use = 20_480 + index / 8 * 4096;
    let waste = cluster.waste.get(&data.member).copied().unwrap_or_default();
    let size = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let mut errors = if cluster.leader.is_none() { vec![NO_LEADER.to_owned()] } else { Vec::new() };
    errors.extend(cluster.alarms.iter().map(|id| format!("memberID:{id} alarm:NOSPACE ")));
    let member_status = EtcdMemberStatus {
        protocol_version: "3.6.16".to_owned(),
        storage_version: "3.6.0".to_owned(),
        db_size: size(in_use + waste),
        db_size_in_use: size(in_use),
        leader: cluster.leader.unwrap_or_default(),
        raft_index: index,
        raft_applied_index: index,
        raft_term: cluster.term,
        errors,
        is_learner: is_learner(nodes, data),
        member_id: data.member,
    };
    let message = EtcdStatus { metadata: None, member_status: Some(member_status) };
    Ok(nodes.reply(&EtcdStatusResponse { messages: vec![message] }))
}

/// Works without a quorum: the local member hands out what it has.
fn take_snapshot(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    control_plane_only(nodes, asked, "etcd snapshot")?;
    let Some(data) = local(nodes, asked) else { return Ok(ApiReply::Silence) };
    let Some(file) = nodes.snapshot(data.cluster) else { return Ok(ApiReply::Silence) };
    let pieces = file.chunks(PIECE).map(|piece| {
        let message = Data { metadata: None, bytes: piece.to_vec() };
        Bytes::from(message.encode_to_vec())
    });
    Ok(ApiReply::Done { after: nodes.timing.call, messages: pieces.collect(), end: Status::ok() })
}

/// Whatever comes is taken; what is wrong with it shows at the bootstrap.
fn recover(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    control_plane_only(nodes, asked, "etcd recover")?;
    let mut file = Vec::new();
    for message in &asked.call.messages {
        let piece = Data::decode(message.clone()).map_err(|error| {
            Status::new(Code::Internal, format!("grpc: error unmarshalling request: {error}"))
        })?;
        file.extend(piece.bytes);
    }
    if let Some(ephemeral) = nodes.system_disk_mut(asked.machine).and_then(|disk| disk.ephemeral.as_mut()) {
        ephemeral.snapshot = Some(file);
    }
    Ok(nodes.reply(&EtcdRecoverResponse { messages: vec![EtcdRecover { metadata: None }] }))
}

fn leave(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    control_plane_only(nodes, asked, "etcd leave")?;
    let Some(data) = local(nodes, asked) else { return Ok(ApiReply::Silence) };
    if !nodes.has_quorum(data.cluster) {
        return Ok(ApiReply::Silence);
    }
    nodes.leave_etcd(asked.machine);
    let after = nodes.timing.leave;
    let message = EtcdLeaveClusterResponse { messages: vec![EtcdLeaveCluster { metadata: None }] };
    Ok(reply_after(after, &message))
}

fn remove(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    control_plane_only(nodes, asked, "etcd remove member")?;
    let EtcdRemoveMemberByIdRequest { member_id } = asked.request()?;
    let Some(cluster) = nodes.reachable_cluster(asked.machine) else { return Ok(ApiReply::Silence) };
    let failed = |reason: &str| {
        let words = format!("failed to remove member: failed to remove member {member_id}: {reason}");
        Err(Status::new(Code::Unknown, words))
    };
    if !nodes.has_quorum(cluster) {
        return failed(NO_LEADER);
    }
    let known = nodes.clusters.get(&cluster);
    let Some(member) = known.and_then(|known| known.members.get(&member_id)) else {
        let words = format!("failed to remove member {member_id}: etcdserver: member not found");
        return Err(Status::new(Code::NotFound, words));
    };
    if !member.learner && !keeps_quorum(nodes, cluster, member_id) {
        return failed("etcdserver: re-configuration failed due to not enough started members");
    }
    nodes.remove_member(cluster, member_id);
    let message = EtcdRemoveMemberById { metadata: None };
    Ok(nodes.reply(&EtcdRemoveMemberByIdResponse { messages: vec![message] }))
}

/// etcd refuses to be left with too few.
fn keeps_quorum(nodes: &Nodes, cluster: u64, without: u64) -> bool {
    let Some(known) = nodes.clusters.get(&cluster) else { return false };
    let living = nodes.living(cluster);
    let rest = known.members.iter().filter(|(id, member)| **id != without && !member.learner);
    let (all, alive) =
        rest.fold((0, 0), |(all, alive), (id, _)| (all + 1, alive + usize::from(living.contains_key(id))));
    alive * 2 > all
}

fn forfeit(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    control_plane_only(nodes, asked, "etcd forfeit leadership")?;
    let Some(data) = local(nodes, asked).filter(|data| nodes.has_quorum(data.cluster)) else {
        return Ok(ApiReply::Silence);
    };
    let living = nodes.living(data.cluster);
    let Some(cluster) = nodes.clusters.get_mut(&data.cluster) else { return Ok(ApiReply::Silence) };
    if cluster.members.len() == 1 {
        let words = "failed to forfeit leadership: cannot forfeit leadership, only one member";
        return Err(Status::new(Code::Unknown, words));
    }
    let mut member = String::new();
    if cluster.leader == Some(data.member) {
        let next = cluster
            .members
            .iter()
            .find(|(id, one)| **id != data.member && !one.learner && living.contains_key(id));
        if let Some((id, one)) = next {
            member.clone_from(&one.name);
            cluster.leader = Some(*id);
            cluster.term += 1;
        }
    }
    let message = EtcdForfeitLeadership { metadata: None, member };
    Ok(nodes.reply(&EtcdForfeitLeadershipResponse { messages: vec![message] }))
}

/// The alarms of the cluster; none if it cannot be asked.
fn member_alarms(nodes: &Nodes, asked: &Asked<'_>) -> Option<(u64, Vec<EtcdMemberAlarm>)> {
    let cluster = nodes.reachable_cluster(asked.machine).filter(|cluster| nodes.has_quorum(*cluster))?;
    let alarms = nodes.clusters.get(&cluster)?.alarms.iter();
    let alarms = alarms.map(|id| EtcdMemberAlarm { member_id: *id, alarm: AlarmType::Nospace.into() });
    Some((cluster, alarms.collect()))
}

fn alarms(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    control_plane_only(nodes, asked, "etcd alarm list")?;
    let Some((_, member_alarms)) = member_alarms(nodes, asked) else { return Ok(ApiReply::Silence) };
    let message = EtcdAlarm { metadata: None, member_alarms };
    Ok(nodes.reply(&EtcdAlarmListResponse { messages: vec![message] }))
}

fn disarm(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    control_plane_only(nodes, asked, "etcd alarm disarm")?;
    let Some((cluster, member_alarms)) = member_alarms(nodes, asked) else { return Ok(ApiReply::Silence) };
    if let Some(cluster) = nodes.clusters.get_mut(&cluster) {
        // Who still has no room says so again.
        cluster.alarms.retain(|member| cluster.waste.contains_key(member));
    }
    let message = EtcdAlarmDisarm { metadata: None, member_alarms };
    Ok(nodes.reply(&EtcdAlarmDisarmResponse { messages: vec![message] }))
}

fn defragment(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    control_plane_only(nodes, asked, "etcd defragment")?;
    let Some(data) = local(nodes, asked) else { return Ok(ApiReply::Silence) };
    if let Some(cluster) = nodes.clusters.get_mut(&data.cluster) {
        cluster.waste.remove(&data.member);
    }
    Ok(nodes.reply(&EtcdDefragmentResponse { messages: vec![EtcdDefragment { metadata: None }] }))
}

impl Nodes {
    /// What a cluster holds, as a file.
    pub(crate) fn snapshot(&self, cluster: u64) -> Option<Vec<u8>> {
        let known = self.clusters.get(&cluster)?;
        let objects = self.kube.get(&cluster).and_then(|store| serde_json::to_vec(store).ok());
        let keys = objects.into_iter().map(|objects| (snapshot::STORE.to_owned(), objects)).collect();
        let contents = snapshot::Contents { keys, term: known.term, index: self.raft_index(known) };
        Some(snapshot::write(&contents))
    }
}
