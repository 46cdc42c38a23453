//! Making the VM a template becomes: its disk is a copy of an image.

use std::collections::BTreeMap;

use talmox_plan::ExpectedTemplate;
use talmox_pve::client::{Client, CreateVm, Error, Upid};
use talmox_pve::property::{Disk, VolumeId};
use talmox_types::desired::{Desired, VmIdRange};
use talmox_types::{HostName, PoolName, StorageId, TemplateMark, VmId};

use super::create_vm::config;
use super::making::{Order, Verdict};
use crate::find::{Found, check_template};
use crate::work::{Result, Work};

/// The slot every template of ours has its disk in.
const DISK: &str = "scsi0";

/// The VM a template becomes.
pub(super) struct Build<'a> {
    pub(super) host: &'a HostName,
    pub(super) mark: TemplateMark,
    pub(super) name: &'a str,
    pub(super) image: &'a VolumeId,
    pub(super) storage: &'a StorageId,
    /// Whether other hosts see the storage too: then one template serves all of them.
    pub(super) shared: bool,
    pub(super) set: &'a BTreeMap<String, String>,
    pub(super) notes: Option<&'a str>,
    pub(super) pool: Option<&'a PoolName>,
}

impl Order for Build<'_> {
    fn vmid(&self) -> VmId {
        self.mark.vmid
    }

    fn on(&self, vmid: VmId) -> Self {
        Self { mark: TemplateMark { vmid, ..self.mark.clone() }, ..*self }
    }

    fn whose(&self) -> String {
        format!("template {} on {} ({})", self.name, self.host, self.storage)
    }

    fn name(&self) -> &str {
        self.name
    }

    /// On a storage of its own, every host has its own.
    fn only_on(&self) -> Option<&HostName> {
        Some(self.host).filter(|_| !self.shared)
    }

    fn range(&self, desired: &Desired) -> (VmIdRange, &'static str) {
        let remedy =
            "widen proxmox_template_vmid_range, or remove templates nobody needs: talmox template prune";
        (desired.proxmox.template_vmid_range, remedy)
    }

    fn is_id_declared(&self, _desired: &Desired) -> bool {
        false
    }

    fn doing(&self) -> String {
        let Self { host, name, image, storage, .. } = self;
        format!("build template {name} ({}) on {host}, its disk on {storage} from {image}", self.mark.vmid)
    }

    fn asked(&self) -> &HostName {
        self.host
    }

    fn source(&self) -> Option<VmId> {
        None
    }

    fn is_work(&self) -> bool {
        true
    }

    async fn send(&self, client: &Client) -> std::result::Result<Upid, Error> {
        let description = self.mark.below(self.notes.unwrap_or_default());
        let config = config(self.set, self.name, &description);
        let vm = CreateVm { vmid: self.mark.vmid, config, pool: self.pool.cloned(), storage: None };
        client.create_vm(self.host, &vm).await
    }

    fn judge(&self, found: &Found) -> Verdict {
        let same = |seen: &TemplateMark| {
            seen.vmid == found.vmid
                && seen.image == self.mark.image
                && (self.shared || found.host == *self.host)
                && disk_storage(found).as_ref() == Some(self.storage)
        };
        // What it gets later changes its settings and makes it no other.
        let this = |seen: &TemplateMark| {
            let seen = TemplateMark { settings: self.mark.settings.clone(), ..seen.clone() };
            seen == self.mark
        };
        match found.template_mark() {
            Some(seen) if this(&seen) => Verdict::This,
            Some(seen) if same(&seen) => Verdict::Same,
            _ => Verdict::Foreign,
        }
    }

    fn maker(&self, found: &Found) -> Option<String> {
        found.template_mark().map(|mark| mark.incarnation)
    }

    /// Once it is a template, VMs may be cloned from it.
    async fn is_used(&self, _client: &Client, found: &Found) -> std::result::Result<bool, Error> {
        Ok(found.config.is_template())
    }

    async fn again(&self, work: &Work<'_>, found: &Found) -> Result<Option<Found>> {
        let Some(mark) = found.template_mark() else { return Ok(None) };
        let expected = ExpectedTemplate { name: self.name.to_owned(), host: found.host.clone(), mark };
        let Some(found) = work.find_template(&expected).await? else { return Ok(None) };
        check_template(&[&expected.mark], &found)?;
        Ok(Some(found))
    }
}

fn disk_storage(found: &Found) -> Option<StorageId> {
    let disk = found.config.get(DISK).and_then(|text| Disk::parse(text).ok())?;
    disk.source.volume().map(|volume| volume.storage().clone())
}
