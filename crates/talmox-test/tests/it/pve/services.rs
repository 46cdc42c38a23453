//! What surrounds a VM: high availability, listings, cloud-init, the guest agent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use talmox_pve::client::{
    Client, CreateVm, Look, NewHaResource, Resource, Silent, VmPower, VmResource, Wait,
};
use talmox_test::{Lab, host, vmid};
use talmox_types::PoolName;

use crate::pve::support::{config, make, make_running, told};

#[tokio::test(start_paused = true)]
async fn a_vm_under_high_availability() {
    let lab = Lab::three_hosts(1);
    let client = lab.root();
    make(&lab, &client, 100, &[("scsi0", "shared:1")]).await;
    let resource = NewHaResource { comment: Some("kept running".to_owned()), ..NewHaResource::default() };
    client.add_ha_resource(vmid(100), &resource).await.unwrap();
    let listed = client.ha_resources().await.unwrap();
    assert_eq!((listed.len(), listed[0].sid.as_str()), (1, "vm:100"));
    client.set_ha_state(vmid(100), "stopped").await.unwrap();
    assert_eq!(client.ha_resources().await.unwrap()[0].state.as_deref(), Some("stopped"));
    let task = client.start_vm(&host(1), vmid(100)).await.unwrap();
    assert_eq!(task.kind(), "hastart", "the manager is asked, and the task ends when it has heard");
    lab.done(&client, &task).await.unwrap();
    let error = client.delete_vm(&host(1), vmid(100), false).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [InUse, Refused]
    error: DELETE /nodes/pve1/qemu/100 on https://pve1:8006: unable to remove VM 100 - used in HA resources and purge parameter not set.
    ");
    let error = client.add_ha_resource(vmid(100), &resource).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Exists, Refused]
    error: POST /cluster/ha/resources on https://pve1:8006: create resource failed: resource ID 'vm:100' already defined
    ");
    // The manager starts it in a while, and stops it when it is asked to.
    let power = async |wanted: VmPower| {
        let wait = Wait { name: "the manager", limit: Duration::from_mins(2), progress: &Silent };
        let look = async || {
            let status = client.vm_status(&host(1), vmid(100)).await?.status;
            Ok(if status == wanted { Look::Done(()) } else { Look::NotYet(format!("{status:?}")) })
        };
        wait.until(look).await.unwrap();
    };
    power(VmPower::Running).await;
    let task = client.stop_vm(&host(1), vmid(100), false).await.unwrap();
    assert_eq!(task.kind(), "hastop");
    power(VmPower::Stopped).await;
    client.remove_ha_resource(vmid(100)).await.unwrap();
    let task = client.delete_vm(&host(1), vmid(100), true).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    assert!(client.ha_resources().await.unwrap().is_empty());
}

async fn listed(client: &Client, id: u32) -> Option<VmResource> {
    let resources = client.resources().await.unwrap().into_iter();
    let mut vms =
        resources.filter_map(|resource| if let Resource::Qemu(vm) = resource { Some(vm) } else { None });
    vms.find(|vm| vm.vmid == vmid(id))
}

#[tokio::test(start_paused = true)]
async fn listings_lag_and_the_pool_is_known_at_once() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    let pool = PoolName::parse("talmox-lab").unwrap();
    lab.root().create_pool(&pool, None).await.unwrap();
    let named = config(&[("name", "cp-1")]);
    let vm = CreateVm { vmid: vmid(100), config: named, pool: Some(pool.clone()), storage: None };
    let task = client.create_vm(&host(1), &vm).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    let new = listed(&client, 100).await.unwrap();
    assert_eq!((new.status.as_str(), new.name, new.pool), ("unknown", None, Some(pool)));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let old = listed(&client, 100).await.unwrap();
    assert_eq!((old.status.as_str(), old.name.as_deref()), ("stopped", Some("cp-1")));
    let task = client.delete_vm(&host(1), vmid(100), true).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    assert_eq!(listed(&client, 100).await, None);
    assert!(client.vm_config(&host(1), vmid(100)).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn cloud_init_and_the_agent() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    let pairs = [
        ("name", "cp-1"),
        ("ide2", "local-zfs:cloudinit"),
        ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0"),
        ("ipconfig0", "ip=10.0.0.5/24,gw=10.0.0.1"),
        ("nameserver", "10.0.0.1"),
        ("agent", "1"),
    ];
    make_running(&lab, &client, 100, &pairs).await;
    let network = client.dump_cloud_init(&host(1), vmid(100), "network").await.unwrap();
    insta::assert_snapshot!(network, @"
    version: 1
    config:
        - type: physical
          name: eth0
          mac_address: 'bc:24:11:00:00:01'
          subnets:
          - type: static
            address: '10.0.0.5'
            netmask: '255.255.255.0'
            gateway: '10.0.0.1'
        - type: nameserver
          address:
          - '10.0.0.1'
    ");
    lab.world(|world| world.set_guest(100, false, BTreeMap::new()));
    let error = client.agent_ping(&host(1), vmid(100)).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Agent, Refused]
    error: POST /nodes/pve1/qemu/100/agent/ping on https://pve1:8006: QEMU guest agent is not running
    ");
    let interfaces = json!([{
        "name": "eth0", "hardware-address": "bc:24:11:00:00:01",
        "ip-addresses": [{"ip-address": "10.0.0.5", "ip-address-type": "ipv4", "prefix": 24}],
    }]);
    let answers = BTreeMap::from([("network-get-interfaces".to_owned(), interfaces)]);
    lab.world(|world| world.set_guest(100, true, answers));
    client.agent_ping(&host(1), vmid(100)).await.unwrap();
    let interfaces = client.agent_interfaces(&host(1), vmid(100)).await.unwrap();
    assert_eq!(
        (interfaces[0].name.as_str(), interfaces[0].addresses[0].address.as_str()),
        ("eth0", "10.0.0.5")
    );
}
