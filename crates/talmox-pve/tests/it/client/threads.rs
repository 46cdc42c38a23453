//! Calls can be made from any thread: whoever makes many at once hands them to a runtime.

use std::time::Duration;

use talmox_pve::client::{
    Client, CloneVm, ConfigChange, CreateVm, Download, MoveDisk, Silent, Upid, Upload, VmPower,
};
use talmox_pve::property::{Slot, VolumeId};
use talmox_types::{HostName, PoolName, StorageId, VmId};

fn is_send<T: Send>(_: T) {}

/// Never called: that it compiles is the test.
#[expect(dead_code, clippy::too_many_arguments, reason = "one argument of each kind the calls take")]
fn every_kind_of_call(
    client: &Client,
    node: &HostName,
    vmid: VmId,
    upid: &Upid,
    storage: &StorageId,
    volume: &VolumeId,
    pool: &PoolName,
    slot: Slot,
    requests: (&CreateVm, &CloneVm, &ConfigChange, &MoveDisk, &Download, &Upload),
) {
    let (create, clone, change, place, download, upload) = requests;
    is_send(client.resources());
    is_send(client.node_status(node));
    is_send(client.learn_peers());
    is_send(client.content(node, storage, None));
    is_send(client.volume_info(node, volume));
    is_send(client.create_vm(node, create));
    is_send(client.clone_vm(node, vmid, clone));
    is_send(client.vm_config(node, vmid));
    is_send(client.change_config(node, vmid, change));
    is_send(client.change_config_in_task(node, vmid, change));
    is_send(client.move_disk(node, vmid, slot, place, None));
    is_send(client.start_vm(node, vmid));
    is_send(client.agent_interfaces(node, vmid));
    is_send(client.pool(pool));
    is_send(client.remove_ha_resource(vmid));
    is_send(client.download_url(node, storage, download));
    is_send(client.upload(node, storage, upload, &Silent));
    is_send(client.task_log(upid, 0, 1));
    is_send(client.follow(upid, "x", Duration::ZERO, &Silent));
    is_send(client.wait_unlocked(node, vmid, Duration::ZERO, &Silent));
    is_send(async { client.vm_status(node, vmid).await.map(|status| status.status == VmPower::Running) });
}
