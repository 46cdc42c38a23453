//! The whole life of a VM through the typed client.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_pve::client::{Client, ConfigChange, CreateVm, Params, PendingItem, VmPower};
use talmox_pve::property::{Agent, DiskSize, Slot, VmConfig};
use talmox_test::{Lab, host, vmid};

use crate::pve::support::{config, make, make_running, told, told_task};

/// Everything a node of a cluster has: UEFI, TPM, cloud-init, a mapped device, two NICs, two disks.
fn wanted() -> VmConfig {
    config(&[
        ("name", "gpu-1.lab.example"),
        ("description", "made by hand: 100 % ours; a=b & c\ntalmox:v1 uid=0123456789abcdef"),
        ("tags", "Talos;kubernetes,gpu"),
        ("bios", "ovmf"),
        ("machine", "q35"),
        ("cpu", "host,flags=+aes"),
        ("cores", "4"),
        ("sockets", "1"),
        ("numa", "1"),
        ("memory", "8192"),
        ("balloon", "0"),
        ("ostype", "l26"),
        ("agent", "enabled=1,fstrim_cloned_disks=1"),
        ("scsihw", "virtio-scsi-pci"),
        ("serial0", "socket"),
        ("efidisk0", "local-zfs:1,efitype=4m,pre-enrolled-keys=1"),
        ("tpmstate0", "local-zfs:1,version=v2.0"),
        ("scsi0", "local-zfs:32,ssd=on,discard=on,backup=no,replicate=0"),
        ("scsi1", "local:10,format=qcow2,iothread=1"),
        ("ide2", "local-zfs:cloudinit"),
        ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0,queues=4,tag=7"),
        ("net1", "virtio,bridge=vmbr0,firewall=1"),
        ("hostpci0", "mapping=gpu,pcie=1"),
        ("ipconfig0", "ip=10.0.0.5/24,gw=10.0.0.1"),
        ("nameserver", "10.0.0.1 1.1.1.1"),
        ("smbios1", "base64=1,serial=aD1ncHUtMTtpPTEwMA=="),
        ("boot", "order=scsi0;net0"),
    ])
}

/// Names a GPU for every host.
async fn map_gpu(lab: &Lab) {
    let map = "node=pve1,path=0000:01:00.0,id=10de:2204,iommugroup=12,subsystem-id=10de:2204";
    let params = Params::new().with("id", "gpu").with("map", map);
    lab.root().post::<Value>("/cluster/mapping/pci", params).await.unwrap();
}

async fn with_everything(lab: &Lab, client: &Client) -> VmConfig {
    map_gpu(lab).await;
    let vm = CreateVm { vmid: vmid(100), config: wanted(), pool: None, storage: None };
    let task = client.create_vm(&host(1), &vm).await.unwrap();
    lab.done(client, &task).await.unwrap();
    client.vm_config(&host(1), vmid(100)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_is_what_is_read_back_by_meaning() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    let live = with_everything(&lab, &client).await;
    let wanted = wanted();
    for key in
        ["name", "description", "bios", "cores", "sockets", "numa", "memory", "balloon", "ostype", "scsihw"]
    {
        assert_eq!(live.get(key), wanted.get(key), "{key}");
    }
    for key in ["serial0", "nameserver"] {
        assert_eq!(live.get(key), wanted.get(key), "{key}");
    }
    assert_eq!(live.tags().unwrap(), wanted.tags().unwrap());
    assert_eq!(live.machine().unwrap(), wanted.machine().unwrap());
    assert_eq!(live.cpu().unwrap(), wanted.cpu().unwrap());
    assert_eq!(live.agent().unwrap(), wanted.agent().unwrap());
    assert_eq!(live.boot().unwrap(), wanted.boot().unwrap());
    assert_eq!(live.smbios().unwrap(), wanted.smbios().unwrap());
    assert_eq!(live.ip_configs().unwrap(), wanted.ip_configs().unwrap());
    assert_eq!(live.host_devices().unwrap(), wanted.host_devices().unwrap());
    assert!(live.efi_disk().unwrap().unwrap().same_options(&wanted.efi_disk().unwrap().unwrap()));
    assert_eq!(live.tpm_state().unwrap().unwrap().version, wanted.tpm_state().unwrap().unwrap().version);
    let (live_disks, wanted_disks) = (live.disks().unwrap(), wanted.disks().unwrap());
    assert_eq!(live_disks.keys().collect::<Vec<_>>(), wanted_disks.keys().collect::<Vec<_>>());
    for (slot, disk) in live_disks.iter().filter(|(_, disk)| !disk.is_cloud_init()) {
        assert!(disk.same_options(&wanted_disks[slot]), "{slot}: {disk} is not {}", wanted_disks[slot]);
    }
    for (slot, nic) in wanted.net_devices().unwrap() {
        let live = &live.net_devices().unwrap()[&slot];
        assert!(live.mac.is_some());
        assert_eq!(nic.with_mac_of(live), *live);
    }
    assert_eq!(client.pci_mappings().await.unwrap()[0].nodes(), [host(1)]);
}

#[tokio::test(start_paused = true)]
async fn the_configuration_as_proxmox_prints_it() {
    let lab = Lab::one_host(1);
    let mut live = with_everything(&lab, &lab.client()).await;
    // What Proxmox makes up by itself.
    let generated = ["vmgenid", "meta"].map(|key| live.remove(key).is_some());
    assert_eq!(generated, [true, true]);
    let second = live.net_devices().unwrap()[&Slot::parse("net1").unwrap()].mac.unwrap().to_string();
    let text = live.to_qm_config_text().replace(&second, "BC:24:11:XX:XX:XX");
    insta::assert_snapshot!(text, @"
    agent: enabled=1,fstrim_cloned_disks=1
    balloon: 0
    bios: ovmf
    boot: order=scsi0;net0
    cores: 4
    cpu: host,flags=+aes
    description: made by hand%3A 100 %25 ours; a=b & c%0Atalmox%3Av1 uid=0123456789abcdef
    efidisk0: local-zfs:vm-100-disk-0,efitype=4m,ms-cert=2023k,pre-enrolled-keys=1,size=1M
    hostpci0: mapping=gpu,pcie=1
    ide2: local-zfs:vm-100-cloudinit,media=cdrom
    ipconfig0: ip=10.0.0.5/24,gw=10.0.0.1
    machine: q35
    memory: 8192
    name: gpu-1.lab.example
    nameserver: 10.0.0.1 1.1.1.1
    net0: virtio=BC:24:11:00:00:01,bridge=vmbr0,queues=4,tag=7
    net1: virtio=BC:24:11:XX:XX:XX,bridge=vmbr0,firewall=1
    numa: 1
    ostype: l26
    scsi0: local-zfs:vm-100-disk-1,backup=0,discard=on,replicate=0,size=32G,ssd=1
    scsi1: local:100/vm-100-disk-0.qcow2,iothread=1,size=10G
    scsihw: virtio-scsi-pci
    serial0: socket
    smbios1: base64=1,serial=aD1ncHUtMTtpPTEwMA==
    sockets: 1
    tags: gpu;kubernetes;talos
    tpmstate0: local-zfs:vm-100-disk-2,size=4M,version=v2.0
    ");
}

async fn waiting(client: &Client) -> BTreeMap<String, PendingItem> {
    let items = client.pending(&host(1), vmid(100)).await.unwrap();
    items.into_iter().filter(PendingItem::is_pending).map(|item| (item.key.clone(), item)).collect()
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_running_vm_wait_until_it_restarts() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    make_running(&lab, &client, 100, &[("memory", "2048"), ("cores", "2"), ("agent", "1")]).await;
    assert_eq!(client.vm_status(&host(1), vmid(100)).await.unwrap().status, VmPower::Running);
    let change =
        ConfigChange::new().set("memory", "4096").unwrap().set("name", "renamed").unwrap().delete("agent");
    client.change_config(&host(1), vmid(100), &change).await.unwrap();
    let waits = waiting(&client).await;
    assert_eq!(waits.keys().collect::<Vec<_>>(), ["agent", "memory"]);
    assert!(waits["agent"].delete);
    assert_eq!(
        (waits["memory"].value.as_deref(), waits["memory"].pending.as_deref()),
        (Some("2048"), Some("4096"))
    );
    let (shall, runs) = (
        client.vm_config(&host(1), vmid(100)).await.unwrap(),
        client.running_config(&host(1), vmid(100)).await.unwrap(),
    );
    assert_eq!((shall.get("memory"), runs.get("memory")), (Some("4096"), Some("2048")));
    assert_eq!((shall.agent().unwrap(), runs.agent().unwrap()), (None, Some(Agent::new(true))));
    assert_eq!((shall.name(), runs.name()), (Some("renamed"), Some("renamed")), "a name is not waited for");
    // What waits can be taken back; the rest takes effect with the reboot.
    client.change_config(&host(1), vmid(100), &ConfigChange::new().revert("agent")).await.unwrap();
    assert_eq!(waiting(&client).await.keys().collect::<Vec<_>>(), ["memory"]);
    let task = client.reboot_vm(&host(1), vmid(100), None).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    assert!(waiting(&client).await.is_empty());
    assert_eq!(client.running_config(&host(1), vmid(100)).await.unwrap().get("memory"), Some("4096"));
}

#[tokio::test(start_paused = true)]
async fn a_change_repeats_volume_and_address() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    make(&lab, &client, 100, &[("scsi0", "local-zfs:8"), ("net0", "virtio,bridge=vmbr0")]).await;
    let live = client.vm_config(&host(1), vmid(100)).await.unwrap();
    let (scsi0, net0) = (Slot::parse("scsi0").unwrap(), Slot::parse("net0").unwrap());
    let disk = &live.disks().unwrap()[&scsi0];
    let nic = &live.net_devices().unwrap()[&net0];
    let mut other = disk.clone();
    other.ssd = Some(true);
    let mut tagged = nic.clone();
    (tagged.mac, tagged.tag) = (None, Some(7));
    let change = ConfigChange::new()
        .change_disk(scsi0, &other, disk)
        .unwrap()
        .change_net(net0, &tagged, nic)
        .unwrap()
        .if_digest(live.digest().unwrap());
    client.change_config(&host(1), vmid(100), &change).await.unwrap();
    let after = client.vm_config(&host(1), vmid(100)).await.unwrap();
    assert_eq!(after.get("scsi0"), Some("local-zfs:vm-100-disk-0,size=8G,ssd=1"));
    assert_eq!(after.net_devices().unwrap()[&net0].mac, nic.mac);
    assert!(after.unused_disks().unwrap().is_empty());
    let stale = client.change_config(&host(1), vmid(100), &change).await.unwrap_err();
    insta::assert_snapshot!(told(&stale), @"
    [Conflict, Refused]
    error: PUT /nodes/pve1/qemu/100/config on https://pve1:8006: checksum mismatch (file change by other user?)
    hint: somebody else changed this meanwhile: look again and repeat
    ");
}

#[tokio::test(start_paused = true)]
async fn disks_grow_and_never_shrink() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    make(&lab, &client, 100, &[("scsi0", "local-zfs:8")]).await;
    let scsi0 = Slot::parse("scsi0").unwrap();
    let resize = async |gib: u64| {
        let task =
            client.resize_disk(&host(1), vmid(100), scsi0, DiskSize::from_gib(gib), None).await.unwrap();
        lab.done(&client, &task.unwrap()).await
    };
    resize(20).await.unwrap();
    resize(20).await.unwrap();
    let error = resize(10).await.unwrap_err();
    insta::assert_snapshot!(told_task(&error), @"
    [Some(Other)]
    error: resize of 100 failed: shrinking disks is not supported (task UPID:pve1:…:resize:100:)
    log: TASK ERROR: shrinking disks is not supported
    hint: the whole log: `pvenode task log UPID:pve1:…:resize:100:` on pve1
    ");
    let live = client.vm_config(&host(1), vmid(100)).await.unwrap();
    assert_eq!(live.disks().unwrap()[&scsi0].size, Some(DiskSize::from_gib(20)));
}
