//! Whether VMs run, and making them.

use std::time::Duration;

use serde::Deserialize;
use talmox_types::{HostName, VmId};

use super::qemu::vm_path;
use crate::client::encode::path;
use crate::client::{Client, Error, Look, Params, Progress, Upid, Wait, WaitError, scalar};
use crate::property::VmConfig;

/// Whether a VM runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VmPower {
    Running,
    Stopped,
    #[default]
    #[serde(other)]
    Unknown,
}

/// `/status/current`: the truth, where `/cluster/resources` may lag.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct VmStatus {
    #[serde(deserialize_with = "scalar::scalar")]
    pub vmid: VmId,
    pub status: VmPower,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub name: Option<String>,
    /// What QEMU says: `running`, `paused`, `prelaunch`, `io-error`.
    #[serde(default, deserialize_with = "scalar::optional")]
    pub qmpstatus: Option<String>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub lock: Option<String>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub tags: Option<String>,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub template: bool,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub uptime: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub maxmem: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub mem: u64,
    #[serde(rename = "running-machine", default, deserialize_with = "scalar::optional")]
    pub running_machine: Option<String>,
}

impl Client {
    /// The VMs of one host, each as it is now.
    pub async fn vms(&self, node: &HostName) -> Result<Vec<VmStatus>, Error> {
        self.get(&path(&[&"nodes", node, &"qemu"]), Params::new()).await
    }

    /// The same with what QEMU says of each; it is asked one by one, so this takes longer.
    pub async fn vms_in_full(&self, node: &HostName) -> Result<Vec<VmStatus>, Error> {
        self.get(&path(&[&"nodes", node, &"qemu"]), Params::new().with_flag("full", true)).await
    }

    pub async fn vm_status(&self, node: &HostName, vmid: VmId) -> Result<VmStatus, Error> {
        self.get(&vm_path(node, vmid, &[&"status", &"current"]), Params::new()).await
    }

    /// Starts a VM. One that runs already makes the task fail.
    pub async fn start_vm(&self, node: &HostName, vmid: VmId) -> Result<Upid, Error> {
        self.power(node, vmid, "start", Params::new()).await
    }

    /// Pulls the plug. `overrule_shutdown` ends shutdowns that are still waiting.
    pub async fn stop_vm(&self, node: &HostName, vmid: VmId, overrule_shutdown: bool) -> Result<Upid, Error> {
        let params = Params::new().with_some("overrule-shutdown", overrule_shutdown.then_some(1));
        self.power(node, vmid, "stop", params).await
    }

    /// Asks the guest to shut down, and pulls the plug after `timeout` if told so.
    pub async fn shut_down_vm(
        &self,
        node: &HostName,
        vmid: VmId,
        timeout: Option<Duration>,
        force_stop: bool,
    ) -> Result<Upid, Error> {
        let params = Params::new()
            .with_some("timeout", timeout.map(|timeout| timeout.as_secs()))
            .with_flag("forceStop", force_stop);
        self.power(node, vmid, "shutdown", params).await
    }

    /// Shuts the guest down and starts it again; what is pending takes effect.
    pub async fn reboot_vm(
        &self,
        node: &HostName,
        vmid: VmId,
        timeout: Option<Duration>,
    ) -> Result<Upid, Error> {
        let params = Params::new().with_some("timeout", timeout.map(|timeout| timeout.as_secs()));
        self.power(node, vmid, "reboot", params).await
    }

    pub async fn reset_vm(&self, node: &HostName, vmid: VmId) -> Result<Upid, Error> {
        self.power(node, vmid, "reset", Params::new()).await
    }

    pub async fn suspend_vm(&self, node: &HostName, vmid: VmId) -> Result<Upid, Error> {
        self.power(node, vmid, "suspend", Params::new()).await
    }

    pub async fn resume_vm(&self, node: &HostName, vmid: VmId) -> Result<Upid, Error> {
        self.power(node, vmid, "resume", Params::new()).await
    }

    async fn power(&self, node: &HostName, vmid: VmId, verb: &str, params: Params) -> Result<Upid, Error> {
        self.post(&vm_path(node, vmid, &[&"status", &verb]), params).await
    }

    /// Waits until no operation holds the VM, and gives its configuration then. Work in flight is known by the lock:
    /// it outlives whoever began it.
    pub async fn wait_unlocked(
        &self,
        node: &HostName,
        vmid: VmId,
        limit: Duration,
        progress: &dyn Progress,
    ) -> Result<VmConfig, WaitError> {
        let name = format!("the lock of VM {vmid}");
        let wait = Wait { name: &name, limit, progress };
        wait.until(async || {
            let config = self.vm_config(node, vmid).await?;
            Ok(match config.lock() {
                Some(lock) => Look::NotYet(format!("locked ({lock})")),
                None => Look::Done(config),
            })
        })
        .await
    }
}
