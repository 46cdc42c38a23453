//! Drives with configuration.
//!
//! ```text
//!  may it be removed again? ─▶ made ─▶ sent to the storage ─▶ put into the VM      …  machine has it ─▶ taken out ─▶ removed
//! ```
//!
//! What is on one gives whoever has it the whole cluster. It has a name that nobody without it can guess, and a run that is
//! killed anywhere leaves either a VM with the drive in it or a file of a known beginning: the next run removes both.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::{Digest as _, Sha256};
use talmox_plan::{Expected, config_source, seed_in, seeds_of};
use talmox_pve::client::{FileContent, ImageKind, Upload};
use talmox_pve::property::{Disk, VolumeId};
use talmox_seed::{Seed, meta_data, network_config};
use talmox_types::desired::OUR_SEEDS;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{FamilyPair, HostName, Phases, StorageId};

use super::{CHANGE_LIMIT, configure, follow};
use crate::find::Found;
use crate::machine::{differences, looking, phases_of_newcomer};
use crate::work::{End, Result, Work};
use crate::{StepError, Whereabouts};

/// A drive has a few hundred kilobytes.
const UPLOAD_LIMIT: Duration = Duration::from_mins(2);

/// Where a drive fits, in this order. On q35 only the first unit of each IDE bus exists.
const SLOTS: [&str; 3] = ["ide2", "ide0", "sata5"];

pub(super) async fn attach(
    work: &Work<'_>,
    vm: &Expected,
    address: FamilyPair<IpAddr>,
    storage: &StorageId,
) -> Result {
    let found = work.expect(vm).await?;
    if seed_in(&found.config).is_some() {
        return Ok(End::Unchanged);
    }
    refuse_two(&found)?;
    may_be_removed(work, vm, storage).await?;
    let image = files(work, vm, &found, address).await?.image();
    let name = name(vm, &image);
    clean(work, vm, &found.host, storage).await?;
    send(work, &found.host, storage, &name, &image).await?;
    let slot = SLOTS.into_iter().find(|slot| found.config.get(slot).is_none());
    let slot = slot.ok_or_else(|| StepError::NoConfig {
        node: vm.mark.node.clone(),
        reason: format!("{} has no place for a drive: {} are taken", found.name(), SLOTS.join(", ")),
    })?;
    put(work, vm, slot, &format!("{storage}:iso/{name},media=cdrom")).await?;
    Ok(End::Changed)
}

pub(super) async fn eject(
    work: &Work<'_>,
    vm: &Expected,
    volume: &VolumeId,
    address: FamilyPair<IpAddr>,
) -> Result {
    let found = work.expect(vm).await?;
    if let Some((slot, _)) = seed_in(&found.config).filter(|(_, held)| held == volume) {
        put(work, vm, &slot, "none,media=cdrom").await?;
    }
    if !sabotaged(Defect::SeedLeftBehind) {
        remove(work, &found.host, volume).await?;
    }
    read_back(work, vm, &found, address).await?;
    Ok(End::Changed)
}

/// What the machine has is what was on the drive, or what it fetched, every document. It is asked once that is gone: whatever it
/// says, secrets do not stay.
pub(super) async fn read_back(
    work: &Work<'_>,
    vm: &Expected,
    found: &Found,
    address: FamilyPair<IpAddr>,
) -> Result<()> {
    let (reach, node) = (work.reach()?, &vm.mark.node);
    let Some(client) = reach.secure(address.primary()) else { return Ok(()) };
    let at = whereabouts(found, address);
    match differences(reach, node, &at, &client.with_deadlines(looking())).await {
        Ok(changes) if changes.is_empty() => Ok(()),
        Ok(changes) => {
            let fields = changes.into_iter().map(|change| change.key).collect();
            Err(StepError::ReadBack { node: node.clone(), fields })
        }
        Err(reason) => {
            work.warn(&format!("what {node} was given could not be compared: {reason}"));
            Ok(())
        }
    }
}

fn whereabouts(found: &Found, address: FamilyPair<IpAddr>) -> Whereabouts {
    let uuid = found.config.smbios().ok().flatten().and_then(|smbios| smbios.uuid);
    Whereabouts {
        address,
        vmid: Some(found.vmid),
        host: Some(found.host.clone()),
        uuid,
        phases: Phases::default(),
    }
}

/// Removes a drive from its storage; one that is gone is none.
pub(super) async fn remove(work: &Work<'_>, host: &HostName, volume: &VolumeId) -> Result {
    let doing = format!("remove {volume} on {host}");
    if !volume.file_name().starts_with(OUR_SEEDS) {
        return Err(StepError::Changed { what: format!("{volume}, which is no drive of ours,") });
    }
    let _turn = work.turn(host).await;
    let task = match work.client().delete_volume(host, volume).await {
        Err(error) if error.is_not_found() => None,
        other => other.map_err(StepError::call(doing.clone()))?,
    };
    follow(work, task, &doing, CHANGE_LIMIT).await?;
    Ok(End::Changed)
}

/// Talos reads whichever it finds first, and none if it fetches its configuration.
fn refuse_two(found: &Found) -> Result<()> {
    refuse_cloud_init(found)?;
    if config_source(&found.config).is_none() {
        return Ok(());
    }
    Err(StepError::Changed { what: format!("{}, whose machine fetches its configuration,", found.name()) })
}

pub(super) fn refuse_cloud_init(found: &Found) -> Result<()> {
    let drives = found.config.slots().filter(|(slot, _)| slot.is_drive());
    let cloud_init = |text: &str| Disk::parse(text).is_ok_and(|disk| disk.is_cloud_init());
    for (slot, text) in drives {
        if cloud_init(text) {
            return Err(StepError::Changed {
                what: format!("{}, whose {slot} is a cloud-init drive,", found.name()),
            });
        }
    }
    Ok(())
}

/// What could not be removed again is not sent.
async fn may_be_removed(work: &Work<'_>, vm: &Expected, storage: &StorageId) -> Result<()> {
    let path = format!("/storage/{storage}");
    let doing = format!("find out what may be done on {storage}");
    let granted = work.client().permissions(Some(&path)).await.map_err(StepError::call(doing))?;
    if granted.has(&path, "Datastore.Allocate") {
        return Ok(());
    }
    Err(StepError::NoConfig {
        node: vm.mark.node.clone(),
        reason: format!(
            "Datastore.Allocate on {path} is missing, and without it the drive, which holds secrets, could not be removed again"
        ),
    })
}

/// The files of a node.
pub(super) async fn files(
    work: &Work<'_>,
    vm: &Expected,
    found: &Found,
    address: FamilyPair<IpAddr>,
) -> Result<Seed> {
    let (node, desired) = (&vm.mark.node, work.run.desired);
    let failed = |reason: String| StepError::NoConfig { node: node.clone(), reason };
    let declared = desired.nodes.iter().find(|declared| declared.name == *node);
    let declared = declared.ok_or_else(|| failed("it is not described".to_owned()))?;
    let phases = phases_of_newcomer(work, node).await?;
    let at = Whereabouts { phases, ..whereabouts(found, address) };
    let config = work.reach()?.machines.config(node, &at).map_err(failed)?;
    let about = meta_data(node, &format!("{}-{}", found.vmid, vm.mark.incarnation));
    let seed = Seed::new(config.text, about, network_config(desired, declared, address));
    seed.map_err(|error| failed(error.to_string()))
}

/// Whoever could guess it has what it is made from.
fn name(vm: &Expected, image: &SecretSlice<u8>) -> String {
    let digest = Sha256::digest(image.expose_secret());
    let secret: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{}{}-{secret}.iso", seeds_of(&vm.mark.uid), vm.vmid())
}

/// Removes what an earlier try of this VM left: one drive is enough.
async fn clean(work: &Work<'_>, vm: &Expected, host: &HostName, storage: &StorageId) -> Result<()> {
    let doing = format!("list drives on {storage} on {host}");
    let listed = work.client().content(host, storage, Some("iso")).await.map_err(StepError::call(doing))?;
    let own = format!("{}{}-", seeds_of(&vm.mark.uid), vm.vmid());
    for left in listed.iter().filter(|volume| volume.volid.file_name().starts_with(&own)) {
        remove(work, host, &left.volid).await?;
    }
    Ok(())
}

async fn send(
    work: &Work<'_>,
    host: &HostName,
    storage: &StorageId,
    name: &str,
    image: &SecretSlice<u8>,
) -> Result<()> {
    let doing = format!("send a configuration drive to {storage} on {host}");
    let upload = Upload {
        kind: ImageKind::Iso,
        filename: name.to_owned(),
        content: FileContent::Memory(Bytes::copy_from_slice(image.expose_secret())),
        checksum: None,
        timeout: UPLOAD_LIMIT,
    };
    let _turn = work.turn(host).await;
    let task = work.client().upload(host, storage, &upload, &work.progress()).await;
    let task = task.map_err(StepError::call(doing.clone()))?;
    work.follow(&task, &doing, UPLOAD_LIMIT).await.map_err(StepError::task(doing))
}

/// Writes what is in a drive.
async fn put(work: &Work<'_>, vm: &Expected, slot: &str, value: &str) -> Result<()> {
    let order = configure::Order {
        set: &BTreeMap::from([(slot.to_owned(), value.to_owned())]),
        delete: &BTreeSet::new(),
        drives: &BTreeMap::new(),
        witness: false,
    };
    configure::run(work, vm, &order, None).await.map(drop)
}
