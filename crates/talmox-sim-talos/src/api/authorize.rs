//! Who may call what.
//!
//! Source: facts §1.5 and §3, observed §2; transcript groups `auth`, `maintenance-denied`, `maintenance-reads`.

use super::Asked;
use crate::machine::{Port, Run};
use crate::nodes::Nodes;
use crate::wire::{Code, Peer, Status};

const ADMIN: &str = "os:admin";
const OPERATOR: &str = "os:operator";
const READER: &str = "os:reader";
const BACKUP: &str = "os:etcd:backup";
const META_WRITER: &str = "os:meta:writer";
const IMPERSONATOR: &str = "os:impersonator";

/// Services from the beginning, and those that came with 1.13 and 1.14.
const SERVICES: [(&str, u16); 11] = [
    ("machine.MachineService", 0),
    ("cluster.ClusterService", 0),
    ("storage.StorageService", 0),
    ("time.TimeService", 0),
    ("inspect.InspectService", 0),
    ("cosi.resource.State", 0),
    ("machine.ImageService", 13),
    ("machine.LifecycleService", 13),
    ("machine.DebugService", 13),
    ("machine.LVMService", 14),
    ("machine.MDService", 14),
];

/// Calls a reader may make, and so an operator.
const READING: [&str; 36] = [
    "CPUFreqStats",
    "CPUInfo",
    "Containers",
    "ControllerRuntimeDependencies",
    "DiskStats",
    "DiskUsage",
    "Disks",
    "Dmesg",
    "EtcdAlarmList",
    "EtcdMemberList",
    "EtcdStatus",
    "Events",
    "Get",
    "HealthCheck",
    "Hostname",
    "ImageList",
    "List",
    "LoadAvg",
    "Logs",
    "LogsContainers",
    "Memory",
    "Mounts",
    "Netstat",
    "NetworkDeviceStats",
    "Processes",
    "ServiceList",
    "Stats",
    "SystemStat",
    "Time",
    "TimeCheck",
    "Verify",
    "Version",
    "Watch",
    "EtcdDowngradeValidate",
    "Statfs",
    "LogsStream",
];

/// Calls an operator may make besides.
const OPERATING: [&str; 13] = [
    "EtcdAlarmDisarm",
    "EtcdDefragment",
    "EtcdDowngradeCancel",
    "EtcdDowngradeEnable",
    "EtcdSnapshot",
    "ImagePull",
    "PacketCapture",
    "Pull",
    "Reboot",
    "Restart",
    "ServiceRestart",
    "ServiceStart",
    "ServiceStop",
];

/// What the role for backups is for.
const BACKING_UP: [&str; 4] = ["EtcdAlarmList", "EtcdMemberList", "EtcdSnapshot", "EtcdStatus"];

/// What anybody may call while a machine waits for its configuration.
const WAITING: [&str; 2] = ["ApplyConfiguration", "BlockDeviceWipe"];

/// Writing resources, which nobody may.
const WRITING: [&str; 3] = ["Create", "Update", "Destroy"];

/// The roles a call is made in.
pub(super) fn roles(nodes: &Nodes, asked: &Asked<'_>) -> Vec<String> {
    if nodes.run(asked.machine).is_some_and(in_maintenance) {
        return vec![READER.to_owned()];
    }
    let Peer::Certificate { organisations, .. } = &asked.call.peer else { return Vec::new() };
    if !organisations.iter().any(|role| role == IMPERSONATOR) {
        return organisations.clone();
    }
    // Whoever stands in for others says for whom.
    let named = asked.call.metadata.iter().filter(|(key, _)| key == "talos-role");
    named.map(|(_, role)| role.clone()).collect()
}

pub(super) fn in_maintenance(run: &Run) -> bool {
    matches!(run.port, Port::Maintenance(_))
}

/// Lets a call pass or says why not.
pub(super) fn check(nodes: &Nodes, asked: &Asked<'_>) -> Result<(), Status> {
    let Some(run) = nodes.run(asked.machine) else { return Ok(()) };
    let (service, method) = asked.call.path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let unknown = || Err(Status::new(Code::Unimplemented, format!("unknown service {service}")));
    if !SERVICES.iter().any(|(name, since)| *name == service && *since <= run.minor()) {
        return unknown();
    }
    if in_maintenance(run) && run.minor() < 13 {
        return small_server(service, method);
    }
    let roles = roles(nodes, asked);
    if !may(&roles, method, in_maintenance(run)) {
        return Err(Status::new(Code::PermissionDenied, "not authorized"));
    }
    if service == "cosi.resource.State" && WRITING.contains(&method) {
        return Err(Status::new(Code::PermissionDenied, "write access is not allowed"));
    }
    Ok(())
}

fn may(roles: &[String], method: &str, maintenance: bool) -> bool {
    let has = |wanted: &str| roles.iter().any(|role| role == wanted);
    has(ADMIN)
        || maintenance && WAITING.contains(&method)
        || (has(READER) || has(OPERATOR)) && READING.contains(&method)
        || has(OPERATOR) && (OPERATING.contains(&method) || method == "Shutdown")
        || has(BACKUP) && BACKING_UP.contains(&method)
        || has(META_WRITER) && ["MetaWrite", "MetaDelete"].contains(&method)
}

/// Up to 1.12 a server of its own answers in maintenance, which knows little.
fn small_server(service: &str, method: &str) -> Result<(), Status> {
    let unimplemented = |words: String| Err(Status::new(Code::Unimplemented, words));
    match (service, method) {
        ("machine.MachineService", "ApplyConfiguration" | "GenerateConfiguration")
        | ("storage.StorageService", _)
        | ("cosi.resource.State", "Get" | "List" | "Watch") => Ok(()),
        ("machine.MachineService", "Version" | "Upgrade" | "Reset" | "MetaWrite" | "MetaDelete") => {
            unimplemented("API is not implemented in maintenance mode".to_owned())
        }
        ("machine.MachineService", "GenerateClientConfiguration") => unimplemented(
            "client configuration (talosconfig) can't be generated in the maintenance mode".to_owned(),
        ),
        ("machine.MachineService", _) => unimplemented(format!("method {method} not implemented")),
        ("cosi.resource.State", _) => Err(Status::new(Code::PermissionDenied, "write access is not allowed")),
        _ => unimplemented(format!("unknown service {service}")),
    }
}
