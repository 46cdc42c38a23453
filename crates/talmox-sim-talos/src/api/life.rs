//! Restarting, shutting down, resetting, upgrading, META.

use talmox_proto::machine::reset_request::WipeMode;
use talmox_proto::machine::{
    MetaDelete, MetaDeleteRequest, MetaDeleteResponse, MetaWrite, MetaWriteRequest, MetaWriteResponse,
    Reboot, RebootResponse, Reset, ResetRequest, ResetResponse, Rollback, RollbackResponse, Shutdown,
    ShutdownResponse, Upgrade, UpgradeRequest, UpgradeResponse,
};

use super::machine::run;
use super::reply::reply_after;
use super::{Asked, Handlers};
use crate::hardware::{DiskId, Drive};
use crate::images::NoImage;
use crate::machine::sequence::{After, REBOOT, RESET, SHUTDOWN, Wipe};
use crate::nodes::{Event, Nodes};
use crate::wire::{ApiReply, Code, Status};

pub(super) const HANDLERS: Handlers = &[
    ("/machine.MachineService/Reboot", reboot),
    ("/machine.MachineService/Shutdown", shutdown),
    ("/machine.MachineService/Reset", reset),
    ("/machine.MachineService/Upgrade", upgrade),
    ("/machine.MachineService/Rollback", roll_back),
    ("/machine.MachineService/MetaWrite", meta_write),
    ("/machine.MachineService/MetaDelete", meta_delete),
];

type Reply = Result<ApiReply, Status>;

/// Labels of the partitions Talos makes.
const PARTITIONS: &[&str] = &["EFI", "BIOS", "BOOT", "META", "STATE", "EPHEMERAL"];

pub(super) fn not_in_container(nodes: &Nodes, asked: &Asked<'_>) -> Result<(), Status> {
    if run(nodes, asked)?.is_container() {
        return Err(Status::new(Code::FailedPrecondition, "method is not supported in container mode"));
    }
    Ok(())
}

fn unknown<T>(words: impl Into<String>) -> Result<T, Status> {
    Err(Status::new(Code::Unknown, words))
}

fn reboot(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    not_in_container(nodes, asked)?;
    let actor_id = nodes.random.uuid();
    nodes.go(asked.machine, REBOOT, &actor_id, After::default());
    Ok(nodes.reply(&RebootResponse { messages: vec![Reboot { metadata: None, actor_id }] }))
}

fn shutdown(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    not_in_container(nodes, asked)?;
    let actor_id = nodes.random.uuid();
    nodes.go(asked.machine, SHUTDOWN, &actor_id, After { power_off: true, ..After::default() });
    Ok(nodes.reply(&ShutdownResponse { messages: vec![Shutdown { metadata: None, actor_id }] }))
}

/// Everything is checked before the reply; what goes wrong later only events tell.
fn reset(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let request: ResetRequest = asked.request()?;
    let wipe = wiped(nodes, asked, &request)?;
    let actor_id = nodes.random.uuid();
    let after = After { wipe, power_off: !request.reboot, ..After::default() };
    let after = if request.graceful && !leave_gracefully(nodes, asked) {
        // Leaving etcd is not negotiable: the machine restarts as it was.
        After::default()
    } else {
        after
    };
    nodes.go(asked.machine, RESET, &actor_id, after);
    Ok(nodes.reply(&ResetResponse { messages: vec![Reset { metadata: None, actor_id }] }))
}

/// Whether the node is out of etcd, if it was in. Containers do not leave.
fn leave_gracefully(nodes: &mut Nodes, asked: &Asked<'_>) -> bool {
    let container = nodes.run(asked.machine).is_some_and(crate::machine::Run::is_container);
    let Some(data) = nodes.etcd_data(asked.machine).filter(|_| !container) else { return true };
    let known =
        nodes.clusters.get(&data.cluster).is_some_and(|known| known.members.contains_key(&data.member));
    if known && !nodes.has_quorum(data.cluster) {
        return false;
    }
    nodes.leave_etcd(asked.machine);
    true
}

fn wiped(nodes: &Nodes, asked: &Asked<'_>, request: &ResetRequest) -> Result<Vec<Wipe>, Status> {
    if request.mode() == WipeMode::SystemDisk && !request.user_disks_to_wipe.is_empty() {
        return unknown(
            "reset failed: invalid input, wipe mode SYSTEM_DISK doesn't support UserDisksToWipe parameter",
        );
    }
    let mut wipe = Vec::new();
    for name in &request.user_disks_to_wipe {
        let Some(disk) = disk(nodes, asked, name) else {
            return unknown(format!("reset user disk failed: device {name} wasn't found"));
        };
        wipe.push(Wipe::Disk(disk));
    }
    for spec in request.system_partitions_to_wipe.iter().filter(|spec| spec.wipe) {
        if !PARTITIONS.contains(&spec.label.as_str()) {
            let label = &spec.label;
            return unknown(format!(
                "failed to get volume status with label \"{label}\": resource \
                 VolumeStatuses.block.talos.dev(runtime/{label}@undefined) doesn't exist"
            ));
        }
        wipe.push(Wipe::Partition(spec.label.clone()));
    }
    let all = request.system_partitions_to_wipe.is_empty() && request.mode() != WipeMode::UserDisks;
    if all {
        wipe.push(Wipe::SystemDisk);
    }
    Ok(wipe)
}

fn disk(nodes: &Nodes, asked: &Asked<'_>, name: &str) -> Option<DiskId> {
    nodes.machines.get(&asked.machine)?.hardware.drives.iter().find_map(|drive| match drive {
        Drive::Disk(disk) => (name == format!("/dev/{}", disk.name)).then_some(disk.id),
        Drive::Cd(_) => None,
    })
}

/// The older way: pulls, looks at the installer, guards etcd, and then restarts into it.
fn upgrade(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    not_in_container(nodes, asked)?;
    let request: UpgradeRequest = asked.request()?;
    if nodes.system_disk(asked.machine).is_none() {
        return Err(Status::new(Code::FailedPrecondition, "Talos is not installed"));
    }
    let invalid =
        |reason: &str| unknown(format!("error validating installer image \"{}\": {reason}", request.image));
    if run(nodes, asked)?.validation_stuck {
        return invalid(
            "mkdir /system/run/containerd/io.containerd.runtime.v2.task/system/validate: file exists",
        );
    }
    let stored = match nodes.pull(asked.machine, &request.image) {
        Ok(stored) => stored,
        Err(NoImage::Malformed(words) | NoImage::NotFound(words)) => return invalid(&words),
    };
    if nodes.faults.installer_exit(asked.machine) != 0 {
        return invalid("installer help returned non-zero exit. assuming invalid installer");
    }
    if !request.force
        && !request.preserve
        && let Some(reply) = guard_etcd(nodes, asked)?
    {
        return Ok(reply);
    }
    let image = nodes.installer_image(run(nodes, asked)?, &stored.reference);
    let actor_id = nodes.random.uuid();
    let pull = nodes.timing.pull;
    nodes.schedule(asked.machine, pull, Event::Upgrade { image, actor: actor_id.clone() });
    let message = Upgrade { metadata: None, ack: "Upgrade request received".to_owned(), actor_id };
    Ok(reply_after(pull, &UpgradeResponse { messages: vec![message] }))
}

/// A control plane without etcd waits for it without end, and leaves something behind.
fn guard_etcd(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<Option<ApiReply>, Status> {
    if !run(nodes, asked)?.is_control_plane() {
        return Ok(None);
    }
    let Some(data) = nodes.running_member(asked.machine) else {
        if let Some(run) = nodes.run_mut(asked.machine) {
            run.validation_stuck = true;
        }
        return Ok(Some(ApiReply::Silence));
    };
    let members = nodes.clusters.get(&data.cluster).map_or(0, |known| known.members.len());
    let unhealthy = nodes.living(data.cluster).len() < members;
    let reason = if members == 2 {
        "etcd member count(2) is insufficient to maintain quorum if upgrade commences"
    } else if unhealthy {
        "etcd member is not healthy; all members must be healthy to perform an upgrade"
    } else {
        return Ok(None);
    };
    unknown(format!("error validating etcd for upgrade: {reason}"))
}

fn roll_back(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    not_in_container(nodes, asked)?;
    let loader = nodes.system_disk(asked.machine).and_then(|disk| disk.loader.as_ref());
    if loader.is_none_or(|loader| loader.previous.is_none()) {
        return unknown("file does not exist");
    }
    nodes.go(asked.machine, REBOOT, "", After { roll_back: true, ..After::default() });
    Ok(nodes.reply(&RollbackResponse { messages: vec![Rollback { metadata: None }] }))
}

fn meta_key(key: u32) -> Result<u8, Status> {
    u8::try_from(key).map_err(|_| Status::new(Code::InvalidArgument, "key must be a uint8"))
}

fn meta_write(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    not_in_container(nodes, asked)?;
    let MetaWriteRequest { key, value } = asked.request()?;
    let key = meta_key(key)?;
    if let Some(meta) = nodes.system_disk_mut(asked.machine).and_then(|disk| disk.meta.as_mut()) {
        meta.insert(key, value);
    }
    Ok(nodes.reply(&MetaWriteResponse { messages: vec![MetaWrite { metadata: None }] }))
}

fn meta_delete(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    not_in_container(nodes, asked)?;
    let MetaDeleteRequest { key } = asked.request()?;
    let key = meta_key(key)?;
    let meta = nodes.system_disk_mut(asked.machine).and_then(|disk| disk.meta.as_mut());
    if meta.and_then(|meta| meta.remove(&key)).is_none() {
        return Err(Status::new(Code::NotFound, "meta key not found"));
    }
    Ok(nodes.reply(&MetaDeleteResponse { messages: vec![MetaDelete { metadata: None }] }))
}
