//! What nodes say of themselves.

use talmox_talos::{Kind, MachineState, ServiceState, Stage, kinds};
use talmox_types::desired::Role;

use super::member::{Cluster, Member};
use super::state::{CheckState, Collected};
use crate::machine::absent_pods;

const MIB: u64 = 1 << 20;

/// What Talos wants a machine to have, less what firmware and kernel keep for themselves.
const CONTROL_PLANE_MEMORY: u64 = 1698 * MIB;
const WORKER_MEMORY: u64 = 874 * MIB;

/// Six GiB, less the partitions beside the one for data: EFI, BIOS, BOOT, META, STATE.
const EPHEMERAL: u64 = 6 * 1024 * MIB - (100 + 1 + 1000 + 1 + 100) * MIB;

/// A service of control planes runs and is well.
pub(super) async fn service(cluster: &Cluster, id: &'static str) -> CheckState {
    let mut missing = Collected::about(Some(id));
    for (member, answer) in cluster
        .ask(cluster.control_planes(), |client| Box::pin(async move { client.service(id).await }))
        .await
    {
        match answer {
            Err(error) => missing.add(&member.name, error),
            Ok(None) => missing.add(&member.name, format!("there is no service {id}")),
            Ok(Some(service)) => {
                if let Some(why) = unwell(&service) {
                    missing.add(&member.name, why);
                }
            }
        }
    }
    missing.state()
}

fn unwell(service: &ServiceState) -> Option<String> {
    let said = if service.message.is_empty() { String::new() } else { format!(" ({})", service.message) };
    match (service.state.as_str(), service.healthy) {
        ("Running", Some(true)) => None,
        ("Running", None) => Some(format!("{} runs, and it is not known yet how well{said}", service.id)),
        ("Running", Some(false)) => Some(format!("{} runs and is not healthy{said}", service.id)),
        (state, _) => Some(format!("{} is {state}{said}", service.id)),
    }
}

/// Every node answers.
pub(super) async fn answers(cluster: &Cluster) -> CheckState {
    let mut missing = Collected::about(Some("apid"));
    for (member, answer) in
        cluster.ask(cluster.members.iter(), |client| Box::pin(async move { client.version().await })).await
    {
        if let Err(error) = answer {
            missing.add(&member.name, error);
        }
    }
    missing.state()
}

pub(super) async fn memory(cluster: &Cluster) -> CheckState {
    let mut missing = Collected::default();
    let sizes = cluster
        .ask(cluster.members.iter(), |client| {
            Box::pin(async move {
                let release = client.version().await?;
                // A container sees the memory of its host, and Talos asks nothing of it.
                if release.platform.mode == "container" { Ok(u64::MAX) } else { client.memory().await }
            })
        })
        .await;
    for (member, answer) in sizes {
        let least = least_memory(member);
        match answer {
            Err(error) => missing.add(&member.name, error),
            Ok(size) if size < least => {
                missing.add(
                    &member.name,
                    format!("has {} MiB of memory, and needs {}", size / MIB, least / MIB),
                );
            }
            Ok(_) => {}
        }
    }
    missing.state()
}

fn least_memory(member: &Member) -> u64 {
    match member.role {
        Role::Controller => CONTROL_PLANE_MEMORY,
        Role::Worker => WORKER_MEMORY,
    }
}

pub(super) async fn disks(cluster: &Cluster) -> CheckState {
    let mut missing = Collected::default();
    let volumes = cluster
        .ask(cluster.members.iter(), |client| {
            Box::pin(async move { client.get::<kinds::VolumeStatus>("EPHEMERAL").await })
        })
        .await;
    for (member, answer) in volumes {
        match answer {
            Err(error) if error.kind() == Kind::Denied => return CheckState::skipped(error.to_string()),
            Err(error) => missing.add(&member.name, error),
            Ok(None) => missing.add(&member.name, "there is no volume EPHEMERAL yet"),
            Ok(Some(volume)) if volume.spec.size < EPHEMERAL => {
                let (has, needs) = (volume.spec.size / MIB, EPHEMERAL / MIB);
                missing.add(&member.name, format!("the volume EPHEMERAL has {has} MiB, and needs {needs}"));
            }
            Ok(Some(_)) => {}
        }
    }
    missing.state()
}

/// No node complains of anything.
pub(super) async fn diagnostics(cluster: &Cluster) -> CheckState {
    let mut missing = Collected::default();
    let complaints = cluster
        .ask(cluster.members.iter(), |client| {
            Box::pin(async move { client.list::<kinds::Diagnostic>().await })
        })
        .await;
    for (member, answer) in complaints {
        match answer {
            Err(error) if error.kind() == Kind::Denied => return CheckState::skipped(error.to_string()),
            Err(error) => missing.add(&member.name, error),
            Ok(complaints) => {
                for one in complaints {
                    let details = one.spec.details.join(", ");
                    let details = if details.is_empty() { details } else { format!(" ({details})") };
                    missing.add(&member.name, format!("{}: {}{details}", one.id, one.spec.message));
                }
            }
        }
    }
    missing.state()
}

/// Every node got to the end of its boot sequence.
pub(super) async fn booted(cluster: &Cluster) -> CheckState {
    let mut missing = Collected::default();
    let states = cluster
        .ask(cluster.members.iter(), |client| Box::pin(async move { client.machine_state().await }))
        .await;
    for (member, answer) in states {
        match answer {
            Err(error) => missing.add(&member.name, error),
            Ok(None) => missing.add(&member.name, "does not know yet what it is doing"),
            Ok(Some(state)) if state.stage != Stage::Running => missing.add(&member.name, doing(&state)),
            Ok(Some(_)) => {}
        }
    }
    missing.state()
}

/// What a machine is doing, and what it waits for.
pub(super) fn doing(state: &MachineState) -> String {
    let unmet: Vec<String> = state.unmet.iter().map(|one| format!("{}: {}", one.name, one.reason)).collect();
    let unmet = if unmet.is_empty() { String::new() } else { format!(", waiting for {}", unmet.join("; ")) };
    format!("is {}{unmet}", stage_word(state.stage))
}

/// A stage as Talos writes it.
fn stage_word(stage: Stage) -> &'static str {
    match stage {
        Stage::Unknown => "in an unknown stage",
        Stage::Booting => "booting",
        Stage::Installing => "installing",
        Stage::Maintenance => "in maintenance mode",
        Stage::Running => "running",
        Stage::Rebooting => "rebooting",
        Stage::ShuttingDown => "shutting down",
        Stage::Resetting => "resetting",
        Stage::Upgrading => "upgrading",
    }
}

/// Kubelet runs a pod for each part that is configured.
pub(super) async fn static_pods(cluster: &Cluster) -> CheckState {
    let mut missing = Collected::about(Some("kubelet"));
    let pods = cluster
        .ask(cluster.control_planes(), |client| Box::pin(async move { absent_pods(&client).await }))
        .await;
    for (member, answer) in pods {
        match answer {
            Err(error) => missing.add(&member.name, error),
            Ok(absent) if absent.is_empty() => {}
            Ok(absent) => missing.add(&member.name, format!("no static pod of {}", absent.join(", "))),
        }
    }
    missing.state()
}
