//! A step in words: before, during and after.

use talmox_plan::{ChangeMode, CloneKind, Expected, ExpectedTemplate, Planned, Reconfigure, Step, Upkeep};
use talmox_types::{AwayWord, Phase};

use super::text::{host_of, listed, plural, safe, size};

/// What a step does, and to what: `clone 9000 to 2000 on pve`.
pub(crate) fn could(step: &Step) -> String {
    let (verb, rest) = parts(step);
    format!("{} {rest}", verb.now)
}

/// The same in a plan, where it is clear of what.
pub(super) fn deed(step: &Step) -> String {
    change_mode(step).map_or_else(|| could(step), |mode| applied(mode).to_owned())
}

/// How a machine takes another configuration, if the step gives it one.
pub(super) fn change_mode(step: &Step) -> Option<ChangeMode> {
    if let Step::Upkeep(Upkeep::ChangeNode { mode, .. }) = step { Some(*mode) } else { None }
}

fn applied(mode: ChangeMode) -> &'static str {
    match mode {
        ChangeMode::NoReboot => "at once, without a restart",
        ChangeMode::Try => "on trial: goes back by itself unless seen to be well",
        ChangeMode::TryFirst => "on trial before the rest: goes back by itself unless seen to be well",
        ChangeMode::Reboot => "written down, with a restart",
        ChangeMode::Restart => "written down before: with a restart",
        ChangeMode::Staged => "written down, for its next restart",
    }
}

/// `cloning 9000 to 2000 on pve`.
pub(crate) fn doing(planned: &Planned) -> String {
    let (verb, rest) = parts(&planned.step);
    format!("{} {rest}", verb.during)
}

/// `cloned 9000 to 2000 on pve`.
pub(crate) fn done(planned: &Planned) -> String {
    let (verb, rest) = parts(&planned.step);
    format!("{} {rest}", verb.after)
}

/// The verb of an intent, which has only the step's short word.
pub(super) fn verb_of(word: &str) -> &str {
    match word {
        "clone" | "create" => "create",
        "create-pool" => "create the pool",
        "build-template" => "build the template",
        "add-disk" => "add a disk to",
        "grow-disk" => "grow the disk of",
        "join-pool" => "put into the pool",
        "delete-pool" => "remove the pool",
        "reboot" => "restart",
        "attach-seed" => "put a configuration drive into",
        "eject-seed" => "take the configuration drive out of",
        "publish-config" => "put the address of its configuration into",
        "withdraw-config" => "take the address of its configuration out of",
        "configure-node" => "configure Talos on",
        "bootstrap" => "bootstrap etcd on",
        "apply-manifests" => "apply the bootstrap manifests",
        "post-bootstrap" => "run post_bootstrap",
        "await-health" => "wait until healthy",
        "snapshot-etcd" => "take a snapshot of etcd",
        "return" => "let pods back onto",
        "change-node" => "change the configuration of",
        "upgrade-node" => "upgrade Talos on",
        "upgrade-kubernetes" => "upgrade Kubernetes",
        "rotate-authority" => "replace authorities",
        "settle-authority" => "settle the secrets",
        "forget" => "forget",
        "note-away" => "write into the notes of",
        "make-shelf" => "keep disks of",
        "move-disk" => "carry over disks of",
        "remove-shelf" => "carry over all disks of",
        "recover-etcd" => "recover etcd on",
        other => other,
    }
}

struct Verb {
    now: &'static str,
    during: &'static str,
    after: &'static str,
}

const fn verb(now: &'static str, during: &'static str, after: &'static str) -> Verb {
    Verb { now, during, after }
}

#[expect(clippy::too_many_lines, reason = "a line or two for each step")]
fn parts(step: &Step) -> (Verb, String) {
    match step {
        Step::CreatePool { pool, .. } => (verb("create", "creating", "created"), format!("pool {pool}")),
        Step::CloneVm { host, mark, template, clone, .. } => {
            let onto = match clone {
                CloneKind::Linked => String::new(),
                CloneKind::Full { storage } => format!(", in full to {storage}"),
            };
            let rest = format!("{} to {} on {host}{onto}", template.vmid, mark.vmid);
            (verb("clone", "cloning", "cloned"), rest)
        }
        Step::CreateVm { host, mark, .. } => {
            (verb("create", "creating", "created"), format!("{} on {host}", mark.vmid))
        }
        Step::RegisterSchematic { schematic } => {
            let rest =
                format!("schematic {} with {}", &schematic.id.as_str()[..12], host_of(&schematic.factory));
            (verb("register", "registering", "registered"), rest)
        }
        Step::FetchImage { host, storage, image, .. } => {
            (verb("fetch", "fetching", "fetched"), format!("{} to {storage} on {host}", safe(&image.file)))
        }
        Step::BuildTemplate { host, mark, name, .. } => {
            (verb("build", "building", "built"), format!("{} as {} on {host}", safe(name), mark.vmid))
        }
        Step::ConvertTemplate { template } => {
            (verb("turn", "turning", "turned"), format!("{} into a template", named(template)))
        }
        Step::ConfigureTemplate { template, .. } => (verb("change", "changing", "changed"), named(template)),
        Step::RemoveTemplate { template } => (verb("remove", "removing", "removed"), named(template)),
        Step::RemoveImage { host, volume } => {
            (verb("remove", "removing", "removed"), format!("{} on {host}", safe(&volume.to_string())))
        }
        Step::ConfigureVm { vm, .. } => {
            (verb("configure", "configuring", "configured"), format!("{} on {}", vm.vmid(), vm.host))
        }
        Step::AddDisk { vm, slot, storage, size: bytes, .. } => {
            let rest = format!("{slot} with {} on {storage} to {}", size(*bytes), vm.vmid());
            (verb("add", "adding", "added"), rest)
        }
        Step::GrowDisk { vm, slot, to } => {
            (verb("grow", "growing", "grew"), format!("{slot} of {} to {}", vm.vmid(), size(*to)))
        }
        Step::JoinPool { vm, pool } => {
            (verb("put", "putting", "put"), format!("{} into pool {pool}", vm.vmid()))
        }
        Step::StartVm { vm } => {
            (verb("start", "starting", "started"), format!("{} on {}", vm.vmid(), vm.host))
        }
        Step::StopVm { vm, .. } => {
            (verb("stop", "stopping", "stopped"), format!("{} on {}", vm.vmid(), vm.host))
        }
        Step::RebootVm { vm, .. } => {
            (verb("restart", "restarting", "restarted"), format!("{} on {}", vm.vmid(), vm.host))
        }
        Step::MoveVm { vm, to, .. } => {
            (verb("move", "moving", "moved"), format!("{} from {} to {to}", vm.vmid(), vm.host))
        }
        Step::AddHa { vm, .. } => (verb("put", "putting", "put"), format!("{} under HA", vm.vmid())),
        Step::SetHaGroup { group, .. } => (verb("set", "setting", "set"), format!("HA group {group}")),
        Step::SetHaRule { rule } => (verb("set", "setting", "set"), format!("HA rule {}", rule.id)),
        Step::DeleteHaRule { rule } => {
            (verb("remove", "removing", "removed"), format!("HA rule {}", rule.id))
        }
        Step::RemoveVm { vm, .. } => {
            (verb("remove", "removing", "removed"), format!("{} from {}", vm.vmid(), vm.host))
        }
        Step::DeletePool { pool, .. } => (verb("remove", "removing", "removed"), format!("pool {pool}")),
        Step::AttachSeed { vm, storage, .. } => (
            verb("put", "putting", "put"),
            format!("a configuration drive into {} by way of {storage}", vm.vmid()),
        ),
        Step::EjectSeed { vm, .. } => (
            verb("take", "taking", "took"),
            format!("the configuration drive out of {} and off its storage", vm.vmid()),
        ),
        Step::RemoveSeed { volume, .. } => (
            verb("remove", "removing", "removed"),
            format!("the forgotten drive {}", safe(&volume.to_string())),
        ),
        Step::PublishConfig { vm, .. } => (verb("put", "putting", "put"), source_of(vm, "into")),
        Step::WithdrawConfig { vm, .. } => (verb("take", "taking", "took"), source_of(vm, "out of")),
        Step::ConfigureNode { address, reconfigure, .. } => {
            let again = match reconfigure {
                None => String::new(),
                Some(Reconfigure { fingerprint: None }) => " once more".to_owned(),
                Some(Reconfigure { fingerprint: Some(shown) }) => {
                    format!(" once more, if its certificate has the fingerprint {}", safe(shown))
                }
            };
            (verb("configure", "configuring", "configured"), format!("Talos at {}{again}", address.primary()))
        }
        Step::Bootstrap { address, .. } => {
            (verb("bootstrap", "bootstrapping", "bootstrapped"), format!("the cluster at {address}"))
        }
        Step::RecordBootstrap { vm } => {
            let rest = format!("in the notes of {} that the cluster is bootstrapped", vm.vmid());
            (verb("write", "writing", "wrote"), rest)
        }
        Step::RecordConfigured { vm } => (
            verb("write", "writing", "wrote"),
            format!("in the notes of {} that its machine is configured", vm.vmid()),
        ),
        Step::ApplyManifests { manifests } => {
            (verb("apply", "applying", "applied"), format!("{} of bootstrap_manifests", manifests.len()))
        }
        Step::PostBootstrap { command } => {
            let program = command.first().map(|program| safe(program)).unwrap_or_default();
            (verb("run", "running", "ran"), format!("{program} of post_bootstrap"))
        }
        Step::AwaitHealth => (verb("wait", "waiting", "waited"), "until the cluster is healthy".to_owned()),
        Step::Upkeep(upkeep) => upkeep_parts(upkeep),
    }
}

fn upkeep_parts(upkeep: &Upkeep) -> (Verb, String) {
    match upkeep {
        Upkeep::SnapshotEtcd { .. } => (verb("take", "taking", "took"), "a snapshot of etcd".to_owned()),
        Upkeep::DrainNode { .. } => (verb("drain", "draining", "drained"), "its pods".to_owned()),
        Upkeep::ReturnNode { .. } => {
            (verb("bring", "bringing", "brought"), "it back, well and open to pods".to_owned())
        }
        Upkeep::ChangeNode { address, mode, .. } => {
            let how = match mode {
                ChangeMode::NoReboot => "without a restart",
                ChangeMode::Try => "on trial: it takes it back itself unless all is well",
                ChangeMode::TryFirst => {
                    "on trial before the rest: it takes it back itself unless all is well"
                }
                ChangeMode::Reboot => "with a restart",
                ChangeMode::Restart => "with a restart into what is written down",
                ChangeMode::Staged => "for its next restart",
            };
            let rest = format!("the configuration at {}, {how}", address.primary());
            (verb("change", "changing", "changed"), rest)
        }
        Upkeep::UpgradeNode { from, to, stage, carries, .. } => {
            let how = match carries {
                _ if *stage => ", in effect after its next restart".to_owned(),
                Some(carries) => format!(", restarting its VM for {} too", listed(&carries.keys)),
                None => String::new(),
            };
            let what = if from == to { format!("Talos {to} anew") } else { format!("Talos {from} to {to}") };
            (verb("upgrade", "upgrading", "upgraded"), format!("{what}{how}"))
        }
        Upkeep::UpgradeKubernetes { from, to, .. } => {
            (verb("upgrade", "upgrading", "upgraded"), format!("Kubernetes {from} to {to}"))
        }
        Upkeep::RotateAuthority { realm, phase, control_planes, workers } => {
            let machines = plural(control_planes.len() + workers.len(), "machine");
            let (number, how) = match phase {
                Phase::Before | Phase::Accepted => (1, "to accept the new one beside the old one"),
                Phase::Issuing => (2, "to sign with the new one, and accept the old one"),
                Phase::Alone => (3, "to drop the old one and all others"),
            };
            let name = realm.name();
            let rest = format!("{machines} {how} (authority of {name}, phase {number} of 3)");
            (verb("tell", "telling", "told"), rest)
        }
        Upkeep::SettleAuthority { realm, .. } => {
            let rest = format!("the secrets: the new authority of {} is the cluster's", realm.name());
            (verb("settle", "settling", "settled"), rest)
        }
        Upkeep::RetireNode { address, .. } => {
            (verb("retire", "retiring", "retired"), format!("the machine at {address}, which wipes itself"))
        }
        Upkeep::ForgetNode { node, .. } => {
            (verb("remove", "removing", "removed"), format!("{node} from etcd and Kubernetes"))
        }
        Upkeep::NoteAway { vm, away } => {
            let what = match away {
                Some(AwayWord::From(_)) => "where it was before",
                Some(_) => "why it is away",
                None => "that it is back",
            };
            (verb("write", "writing", "wrote"), format!("in the notes of {} {what}", vm.vmid()))
        }
        Upkeep::MakeShelf { host, mark, .. } => {
            let rest = format!("{} on {host}, which holds the disks that are kept", mark.vmid);
            (verb("make", "making", "made"), rest)
        }
        Upkeep::MoveDisk { from, to, slot, .. } => {
            (verb("give", "giving", "gave"), format!("{slot} of {} to {}", from.vmid(), to.vmid()))
        }
        Upkeep::MoveShelf { vm, to } => {
            (verb("move", "moving", "moved"), format!("{} from {} to {to}", vm.vmid(), vm.host))
        }
        Upkeep::RemoveShelf { vm } => {
            (verb("remove", "removing", "removed"), format!("{} from {}, which is empty", vm.vmid(), vm.host))
        }
        Upkeep::RecoverEtcd { address, snapshot, .. } => {
            let rest = format!("etcd at {address} from {}", safe(&snapshot.path));
            (verb("recover", "recovering", "recovered"), rest)
        }
    }
}

fn source_of(vm: &Expected, way: &str) -> String {
    format!("the address of its configuration {way} {} (smbios1)", vm.vmid())
}

fn named(template: &ExpectedTemplate) -> String {
    format!("{} ({}) on {}", safe(&template.name), template.vmid(), template.host)
}
