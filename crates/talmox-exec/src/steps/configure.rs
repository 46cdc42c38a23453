//! Changing a VM's configuration, guarded by the digest of the state the change was decided on.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::{DriveOptions, Expected};
use talmox_pve::client::{ChangeError, ConfigChange, ErrorKind, PendingItem};
use talmox_pve::property::{Disk, DriveSource, Slot, Smbios, VmConfig};
use talmox_types::Mark;
use talmox_types::sabotage::{Defect, sabotaged};

use super::meaning::is_there;
use super::{CHANGE_LIMIT, follow};
use crate::StepError;
use crate::find::Found;
use crate::work::{End, Result, Work};

/// What is to be changed.
pub(super) struct Order<'a> {
    pub(super) set: &'a BTreeMap<String, String>,
    pub(super) delete: &'a BTreeSet<String>,
    pub(super) drives: &'a BTreeMap<Slot, DriveOptions>,
    pub(super) witness: bool,
}

/// What of it is not there yet.
#[derive(Default)]
struct Left {
    set: BTreeMap<String, String>,
    delete: BTreeSet<String>,
    /// Written last and alone: it says that everything else was.
    witness: Option<String>,
}

impl Left {
    fn is_empty(&self) -> bool {
        let Self { set, delete, witness } = self;
        set.is_empty() && delete.is_empty() && witness.is_none()
    }
}

pub(super) async fn run(work: &Work<'_>, vm: &Expected, order: &Order<'_>, digest: Option<&str>) -> Result {
    let found = work.expect_as_left(vm).await?;
    let left = order.left(vm, &found)?;
    if left.is_empty() {
        return Ok(End::Unchanged);
    }
    if digest.is_some() && digest != found.config.digest() && !sabotaged(Defect::StalePlanAccepted) {
        return Err(changed(&found));
    }
    let mut found = found;
    let (mut set, mut delete) = (left.set, left.delete);
    let taken_back = take_back(work, &found, &set).await?;
    set.retain(|key, _| !taken_back.contains(key));
    if !taken_back.is_empty() {
        found = work.expect(vm).await?;
    }
    if !delete.is_empty() && set.get("protection").is_some_and(|flag| flag == "0") {
        // Proxmox looks at the protection that holds when the call comes, not at what the call says.
        send(work, &found, &std::mem::take(&mut set), &BTreeSet::new()).await?;
        found = work.expect(vm).await?;
    }
    if !set.is_empty() || !delete.is_empty() {
        send(work, &found, &set, &std::mem::take(&mut delete)).await?;
        found = work.expect(vm).await?;
    }
    if let Some(witness) = left.witness {
        let set = BTreeMap::from([("smbios1".to_owned(), witness)]);
        send(work, &found, &set, &BTreeSet::new()).await?;
        found = work.expect(vm).await?;
    }
    if !order.left(vm, &found)?.is_empty() {
        return Err(changed(&found));
    }
    work.reserved.hand_over(found);
    Ok(End::Changed)
}

impl Order<'_> {
    fn left(&self, vm: &Expected, found: &Found) -> Result<Left> {
        let config = &found.config;
        let mut left = Left::default();
        for (key, value) in self.set {
            if !is_there(key, value, config.get(key)) {
                check_free(found, key, value)?;
                left.set.insert(key.clone(), value.clone());
            }
        }
        for (slot, options) in self.drives {
            let key = slot.to_string();
            let held =
                config.get(&key).and_then(|text| Disk::parse(text).ok()).filter(|disk| found.owns(disk));
            let held = held.ok_or_else(|| changed(found))?;
            let wanted = options.on(&held);
            if !wanted.same_options(&held) {
                left.set.insert(key, wanted.to_string());
            }
        }
        left.delete.extend(self.delete.iter().filter(|key| config.get(key).is_some()).cloned());
        left.witness = Some(with_witness(config, &vm.mark))
            .filter(|wanted| self.witness && !is_there("smbios1", wanted, config.get("smbios1")));
        Ok(left)
    }
}

/// A value that makes a volume goes into a free slot only: what hangs there would be put aside.
fn check_free(found: &Found, key: &str, value: &str) -> Result<()> {
    let makes_volume = Slot::parse(key).is_ok_and(Slot::holds_volume)
        && Disk::parse(value).is_ok_and(|disk| {
            matches!(disk.source, DriveSource::Allocate { .. } | DriveSource::CloudInit { .. })
        });
    if makes_volume && found.config.get(key).is_some() { Err(changed(found)) } else { Ok(()) }
}

/// The VM's SMBIOS identity with our serial and family; uuid and everything else stay.
fn with_witness(config: &VmConfig, mark: &Mark) -> String {
    let held = config.smbios().ok().flatten().unwrap_or_default();
    let (serial, family) = (Some(mark.witness_serial()), Some(mark.witness_family()));
    Smbios { serial, family, ..held }.to_string()
}

/// A cloud-init drive that only waits to be taken away is kept: its volume still has the name another would get. Gives the
/// keys that need nothing more.
async fn take_back(
    work: &Work<'_>,
    found: &Found,
    set: &BTreeMap<String, String>,
) -> Result<BTreeSet<String>> {
    let makes_drive = |value: &String| {
        Disk::parse(value).is_ok_and(|disk| matches!(disk.source, DriveSource::CloudInit { .. }))
    };
    if !set.values().any(makes_drive) {
        return Ok(BTreeSet::new());
    }
    let (client, doing) = (work.client(), format!("read what {} waits for", found.name()));
    let items = client.pending(&found.host, found.vmid).await.map_err(StepError::call(doing.clone()))?;
    let waits = |item: &PendingItem| {
        let held = item.value.as_deref().and_then(|text| Disk::parse(text).ok());
        item.delete && held.is_some_and(|disk| disk.is_cloud_init())
    };
    let Some(item) = items.iter().find(|item| waits(item)) else { return Ok(BTreeSet::new()) };
    let change = ConfigChange::new().revert(&item.key);
    let change = found.config.digest().map_or(change.clone(), |digest| change.if_digest(digest));
    client.change_config(&found.host, found.vmid, &change).await.map_err(StepError::call(doing))?;
    Ok(set.iter().filter(|(_, value)| makes_drive(value)).map(|(key, _)| key.clone()).collect())
}

/// Sends a change of the state that was just read. What a running guest does not take stays pending, which is no failure.
async fn send(
    work: &Work<'_>,
    found: &Found,
    set: &BTreeMap<String, String>,
    delete: &BTreeSet<String>,
) -> Result<()> {
    let doing = format!("configure {}", found.name());
    let change = change(found, set, delete).map_err(StepError::impossible(doing.clone()))?;
    let touches_volume = set.keys().chain(delete).any(|key| Slot::parse(key).is_ok_and(Slot::holds_volume));
    let client = work.client();
    let answer = if touches_volume {
        // In a task: a call that makes a volume is given up after 30 seconds, while Proxmox works on.
        let _turn = work.turn_for_little().await;
        let task = client.change_config_in_task(&found.host, found.vmid, &change).await;
        match task.map_err(StepError::call(doing.clone())) {
            Ok(task) => follow(work, task, &doing, CHANGE_LIMIT).await,
            Err(error) => Err(error),
        }
    } else {
        client.change_config(&found.host, found.vmid, &change).await.map_err(StepError::call(doing))
    };
    match answer {
        Err(error) => match error.kind() {
            Some(ErrorKind::StaysPending(reasons)) => {
                let keys = reasons.keys().cloned().collect::<Vec<_>>().join(", ");
                work.warn(&format!("{keys}: the running guest did not take it; it waits for a restart"));
                Ok(())
            }
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

fn change(
    found: &Found,
    set: &BTreeMap<String, String>,
    delete: &BTreeSet<String>,
) -> std::result::Result<ConfigChange, ChangeError> {
    let mut change = ConfigChange::new();
    for (key, value) in set {
        change = change.set(key, value)?;
    }
    for key in delete {
        change = change.delete(key);
    }
    let digest = found.config.digest().filter(|_| !sabotaged(Defect::DigestNotSent));
    Ok(digest.map_or(change.clone(), |digest| change.if_digest(digest)))
}

fn changed(found: &Found) -> StepError {
    StepError::Changed { what: format!("the configuration of {}", found.name()) }
}
