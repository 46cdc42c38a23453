//! What is told of images, templates and schematics.

use talmox_plan::{HaScope, Step};
use talmox_types::desired::{Compression, Image};

use super::story::Act;
use super::text::{host_of, safe};

/// Where it is or goes, then what else deserves a line.
pub(super) fn details(act: &Act<'_>) -> Vec<String> {
    let Some(planned) = act.steps.first() else { return Vec::new() };
    match &planned.step {
        Step::RegisterSchematic { schematic } => {
            let extensions: Vec<&str> =
                schematic.extensions.iter().map(|name| name.rsplit('/').next().unwrap_or(name)).collect();
            let with = if extensions.is_empty() { "no extension".to_owned() } else { extensions.join(", ") };
            vec![format!("{}, told to {}", safe(&with), host_of(&schematic.factory))]
        }
        Step::FetchImage { host, storage, image, .. } => {
            vec![format!("{storage} on {host}"), format!("from {}", safe(&image.url)), protection(image)]
        }
        Step::BuildTemplate { host, mark, storage, .. } => {
            vec![format!("{} on {host}, {storage}", mark.vmid)]
        }
        Step::RemoveImage { host, volume } => {
            vec![format!("{} on {host}", volume.storage()), safe(&planned.reason)]
        }
        Step::ConvertTemplate { .. } | Step::ConfigureTemplate { .. } | Step::RemoveTemplate { .. } => {
            act.at.map(|(vmid, host)| format!("{vmid} on {host}")).into_iter().collect()
        }
        Step::SetHaGroup { hosts, .. } => vec![listed(hosts.iter()), safe(&planned.reason)],
        Step::SetHaRule { rule } | Step::DeleteHaRule { rule } => {
            let about = match &rule.scope {
                HaScope::Apart => format!("{} apart", listed(rule.vms.iter())),
                HaScope::Hosts { hosts } => {
                    format!("{} on {}", listed(rule.vms.iter()), listed(hosts.iter()))
                }
            };
            vec![about, safe(&planned.reason)]
        }
        Step::CreatePool { .. }
        | Step::CloneVm { .. }
        | Step::CreateVm { .. }
        | Step::ConfigureVm { .. }
        | Step::AddDisk { .. }
        | Step::GrowDisk { .. }
        | Step::JoinPool { .. }
        | Step::StartVm { .. }
        | Step::StopVm { .. }
        | Step::RebootVm { .. }
        | Step::MoveVm { .. }
        | Step::AddHa { .. }
        | Step::RemoveVm { .. }
        | Step::DeletePool { .. }
        | Step::AttachSeed { .. }
        | Step::EjectSeed { .. }
        | Step::RemoveSeed { .. }
        | Step::PublishConfig { .. }
        | Step::WithdrawConfig { .. }
        | Step::ConfigureNode { .. }
        | Step::Bootstrap { .. }
        | Step::RecordBootstrap { .. }
        | Step::RecordConfigured { .. }
        | Step::ApplyManifests { .. }
        | Step::PostBootstrap { .. }
        | Step::AwaitHealth
        | Step::Upkeep(_) => Vec::new(),
    }
}

fn listed<T: ToString>(things: impl Iterator<Item = T>) -> String {
    things.map(|thing| thing.to_string()).collect::<Vec<_>>().join(", ")
}

/// What keeps a wrong or broken image out, and who unpacks it.
fn protection(image: &Image) -> String {
    let by = match &image.checksum {
        Some(checksum) => format!("protected by its {}", checksum.algorithm().word()),
        None if image.url.starts_with("https://") => {
            "protected by the server's certificate alone (no checksum)".to_owned()
        }
        None => "protected by nothing (plain http, no checksum)".to_owned(),
    };
    match image.compression {
        None => by,
        Some(compression) => format!("{by}, {} unpacked here", packing(compression)),
    }
}

pub(super) fn packing(compression: Compression) -> &'static str {
    match compression {
        Compression::Xz => "xz",
        Compression::Gz => "gz",
        Compression::Zst => "zst",
    }
}
