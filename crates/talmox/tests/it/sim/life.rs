//! A VM's whole life, as provisioning leads it.

use std::time::Duration;

use bytes::Bytes;
use talmox_pve::client::{
    CloneKind, CloneVm, ConfigChange, CreateVm, FileContent, ImageKind, Silent, Upload, VmPower,
};
use talmox_pve::property::VmConfig;
use talmox_types::{Checksum, ChecksumAlgorithm, HostName, PoolName, StorageId};

use crate::sim::{client, follow, pve1, simulator, vmid};

const IMAGE_SIZE: u64 = 3 << 30;

/// The beginning of a qcow2 image whose disk is of that size.
fn image() -> Vec<u8> {
    let mut bytes = b"QFI\xfb\0\0\0\x03".to_vec();
    bytes.extend([0; 16]);
    bytes.extend(IMAGE_SIZE.to_be_bytes());
    bytes.resize(200_000, b'x');
    bytes
}

fn sha256(bytes: &[u8]) -> String {
    let facts = talmox_sim::FileFacts::of_bytes(bytes);
    facts.digests["sha256"].clone()
}

#[tokio::test]
async fn from_an_image_to_a_running_clone_and_away() {
    let server = simulator(2).await;
    let client = client(&server);
    let (node, local) = (pve1(), StorageId::parse("local").unwrap());
    let pool = PoolName::parse("talmox-lab").unwrap();
    client.create_pool(&pool, None).await.unwrap();

    let content = image();
    let upload = Upload {
        kind: ImageKind::Import,
        filename: "talos.qcow2".to_owned(),
        checksum: Some(Checksum::new(ChecksumAlgorithm::Sha256, &sha256(&content)).unwrap()),
        content: FileContent::Memory(Bytes::from(content)),
        timeout: Duration::from_secs(20),
    };
    let task = client.upload(&node, &local, &upload, &Silent).await.unwrap();
    follow(&client, &task, "upload").await;

    let config: VmConfig = [
        ("name", "talos-template"),
        ("machine", "q35"),
        ("bios", "ovmf"),
        ("cpu", "host"),
        ("cores", "4"),
        ("memory", "8192"),
        ("balloon", "0"),
        ("ostype", "l26"),
        ("scsihw", "virtio-scsi-pci"),
        ("efidisk0", "local-zfs:1,efitype=4m"),
        ("scsi0", "local-zfs:0,import-from=local:import/talos.qcow2,discard=on,ssd=1"),
        ("ide2", "local-zfs:cloudinit"),
        ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=7"),
        ("boot", "order=scsi0;net0"),
        ("tags", "talos;kubernetes"),
    ]
    .into_iter()
    .collect();
    let vm = CreateVm { vmid: vmid(9000), config, pool: Some(pool.clone()), storage: None };
    let task = client.create_vm(&node, &vm).await.unwrap();
    follow(&client, &task, "template").await;
    let task = client.make_template(&node, vmid(9000)).await.unwrap().unwrap();
    follow(&client, &task, "conversion").await;
    let template = client.vm_config(&node, vmid(9000)).await.unwrap();
    assert!(template.is_template());
    assert_eq!(template.get("scsi0"), Some("local-zfs:base-9000-disk-1,discard=on,size=3G,ssd=1"));
    assert_eq!(template.get("efidisk0"), Some("local-zfs:base-9000-disk-0,efitype=4m,size=1M"));
    assert_eq!(template.get("tags"), Some("kubernetes;talos"));

    let clone = CloneVm {
        newid: vmid(2001),
        name: Some("cp-1".to_owned()),
        description: Some("a note\nand a line".to_owned()),
        pool: Some(pool.clone()),
        target: None,
        kind: CloneKind::Linked,
    };
    let task = client.clone_vm(&node, vmid(9000), &clone).await.unwrap();
    follow(&client, &task, "clone").await;
    let live = client.vm_config(&node, vmid(2001)).await.unwrap();
    assert_eq!(live.get("scsi0"), Some("local-zfs:base-9000-disk-1/vm-2001-disk-1,discard=on,size=3G,ssd=1"));
    assert_ne!(live.get("net0"), template.get("net0"), "a clone has an address of its own");
    assert_eq!((live.name(), live.description()), (Some("cp-1"), Some("a note\nand a line")));

    let change = ConfigChange::new().if_digest(live.digest().unwrap()).set("memory", "4096").unwrap();
    client.change_config(&node, vmid(2001), &change).await.unwrap();
    client.change_config(&node, vmid(2001), &change).await.expect_err("the digest is that of before");
    run_and_remove(&client, &node).await;
    let left = server.with(|simulation| simulation.world.volume_ids("pve1", "local-zfs"));
    assert!(left.iter().all(|(_, owner)| *owner == Some(9000)), "{left:?}");
}

async fn run_and_remove(client: &talmox_pve::client::Client, node: &HostName) {
    let id = vmid(2001);
    let task = client.start_vm(node, id).await.unwrap();
    follow(client, &task, "start").await;
    assert_eq!(client.vm_status(node, id).await.unwrap().status, VmPower::Running);
    let error = client.delete_vm(node, id, false).await.unwrap_err();
    assert_eq!(error.words(), "VM 2001 is running - destroy failed");
    let task = client.stop_vm(node, id, false).await.unwrap();
    follow(client, &task, "stop").await;
    let task = client.delete_vm(node, id, true).await.unwrap();
    follow(client, &task, "removal").await;
    assert!(client.vm_config(node, id).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn both_hosts_show_one_cluster() {
    let server = simulator(2).await;
    let client = client(&server);
    let status = client.cluster_status().await.unwrap();
    assert_eq!(status.nodes.len(), 2);
    let other = HostName::parse("pve2").unwrap();
    let vm = CreateVm { vmid: vmid(300), config: VmConfig::default(), pool: None, storage: None };
    let task = client.create_vm(&other, &vm).await.unwrap();
    assert_eq!(task.node(), &other);
    follow(&client, &task, "creation through the first host").await;
    let nodes = client.nodes().await.unwrap();
    let shown: Vec<String> = nodes.iter().map(|node| node.ssl_fingerprint.unwrap().to_string()).collect();
    let real: Vec<String> = server.hosts().iter().map(|host| host.fingerprint.clone()).collect();
    assert_eq!(shown, real);
}

#[tokio::test]
async fn time_moves_when_told() {
    let settings = talmox_sim::serve::Settings { speed: 0.0, ..crate::sim::fast() };
    let server = talmox_sim::serve::Server::start(crate::sim::world(1), settings).await.unwrap();
    let client = client(&server);
    let vm = CreateVm { vmid: vmid(100), config: VmConfig::default(), pool: None, storage: None };
    let task = client.create_vm(&pve1(), &vm).await.unwrap();
    let lock = || server.with(|simulation| simulation.world.lock_of_vm(100).map(str::to_owned));
    assert_eq!(lock().as_deref(), Some("create"));
    server.advance(Duration::from_secs(5));
    assert_eq!(lock(), None);
    follow(&client, &task, "creation").await;
}
