//! Where a VM is, and whether it still is the one a step was planned for.

use std::time::Duration;

use talmox_plan::{Expected, ExpectedTemplate};
use talmox_pve::client::{Client, Error, ErrorKind, Resource, VmPower, VmResource};
use talmox_pve::property::{Disk, VmConfig, VolumeId};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{HostName, Mark, TemplateMark, VmId};

use crate::StepError;
use crate::locks::Settled;
use crate::work::{Result, Work};

/// How long somebody else may keep a VM of ours locked before we give up: a backup can take that long.
const LOCK_LIMIT: Duration = Duration::from_mins(30);
/// How often a VM that moves is followed.
const MOVES: usize = 4;

/// A VM that is there.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) vmid: VmId,
    pub(crate) host: HostName,
    /// With what is pending merged in.
    pub(crate) config: VmConfig,
}

impl Found {
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.config.description().and_then(Mark::of_description)
    }

    pub(crate) fn template_mark(&self) -> Option<TemplateMark> {
        self.config.description().and_then(TemplateMark::of_description)
    }

    pub(crate) async fn is_running(&self, client: &Client) -> std::result::Result<bool, Error> {
        Ok(client.vm_status(&self.host, self.vmid).await?.status == VmPower::Running)
    }

    /// Whether a disk's volume is the VM's own; another's may hang on it for a while.
    pub(crate) fn owns(&self, disk: &Disk) -> bool {
        disk.source.volume().and_then(VolumeId::owner) == Some(self.vmid)
    }

    /// A name for texts: `VM 2000 on pve1`.
    pub(crate) fn name(&self) -> String {
        format!("VM {} on {}", self.vmid, self.host)
    }
}

/// All VMs there are, wherever.
pub(crate) async fn vms(client: &Client) -> std::result::Result<Vec<VmResource>, Error> {
    let vm = |resource| match resource {
        Resource::Qemu(vm) | Resource::Lxc(vm) => Some(vm),
        Resource::Node(_) | Resource::Storage(_) | Resource::Pool(_) | Resource::Other => None,
    };
    Ok(client.vm_resources().await?.into_iter().filter_map(vm).collect())
}

/// Looks for a VM where it was, and elsewhere if it is not there any more. None: there is no such VM.
pub(crate) async fn find(
    client: &Client,
    host: &HostName,
    vmid: VmId,
) -> std::result::Result<Option<Found>, Error> {
    let mut host = host.clone();
    let mut moves = 0;
    loop {
        let error = match client.vm_config(&host, vmid).await {
            Ok(config) => return Ok(Some(Found { vmid, host, config })),
            Err(error) => error,
        };
        // Proxmox checks rights first, and a VM that is gone is in no pool that would give them.
        let denied = matches!(error.kind(), ErrorKind::Denied(_));
        if !error.is_not_found() && !denied {
            return Err(error);
        }
        let listed = vms(client).await?.into_iter().find(|vm| vm.vmid == vmid);
        match listed {
            None if denied && !client.is_free(vmid).await? => return Err(error),
            None => return Ok(None),
            Some(vm) if (vm.node == host && denied) || moves == MOVES => return Err(error),
            Some(vm) => host = vm.node,
        }
        moves += 1;
    }
}

impl Work<'_> {
    /// The VM a step acts on, free of locks and with the mark it was planned for. None: it is gone.
    pub(crate) async fn find(&self, vm: &Expected) -> Result<Option<Found>> {
        let Some(found) = self.unlocked(&vm.host, vm.vmid()).await? else { return Ok(None) };
        check(vm, &found)?;
        Ok(Some(found))
    }

    /// The template a step acts on, free of locks; whether its mark is the right one is for the step to say.
    pub(crate) async fn find_template(&self, template: &ExpectedTemplate) -> Result<Option<Found>> {
        self.unlocked(&template.host, template.vmid()).await
    }

    async fn unlocked(&self, host: &HostName, vmid: VmId) -> Result<Option<Found>> {
        let doing = format!("read VM {vmid}");
        let found = find(self.client(), host, vmid).await.map_err(StepError::call(doing))?;
        let Some(found) = found else { return Ok(None) };
        // A hibernated VM stays locked until somebody starts it.
        if found.config.lock().is_none_or(|lock| lock == "suspended") {
            return Ok(Some(found));
        }
        match self.settle(found, LOCK_LIMIT).await? {
            Settled::Free(free) => Ok(Some(free)),
            Settled::Gone => Ok(None),
        }
    }

    /// The same, where a VM that is gone is a failure.
    pub(crate) async fn expect(&self, vm: &Expected) -> Result<Found> {
        let gone = || StepError::Gone { vmid: vm.vmid(), host: vm.host.clone() };
        self.find(vm).await?.ok_or_else(gone)
    }

    /// The VM as the step before left it, or as it is. Only for changes that name the digest of what they were decided
    /// on: if anything was changed since, the mark included, Proxmox refuses them, and another try looks for itself.
    pub(crate) async fn expect_as_left(&self, vm: &Expected) -> Result<Found> {
        match self.reserved.handed_over(vm.vmid()) {
            Some(found) if check(vm, &found).is_ok() => Ok(found),
            _ => self.expect(vm).await,
        }
    }
}

/// Whether a VM that was found is the expected one.
pub(crate) fn check(vm: &Expected, found: &Found) -> Result<()> {
    if sabotaged(Defect::MarkNotReadAgain) {
        return Ok(());
    }
    let what = match found.mark() {
        _ if found.config.is_template() => "it is a template".to_owned(),
        Some(mark) if vm.is(&mark) => return Ok(()),
        Some(mark) => format!("it carries the mark `{mark}`"),
        None => "it carries no mark".to_owned(),
    };
    Err(StepError::NotOurs { vmid: found.vmid, host: found.host.clone(), found: what })
}

/// Whether a VM that was found carries one of these marks of a template.
pub(crate) fn check_template(marks: &[&TemplateMark], found: &Found) -> Result<()> {
    let what = match found.template_mark() {
        Some(mark) if marks.contains(&&mark) => return Ok(()),
        Some(mark) => format!("it carries the mark `{mark}`"),
        None => "it carries no mark of a template".to_owned(),
    };
    Err(StepError::NotOurs { vmid: found.vmid, host: found.host.clone(), found: what })
}
