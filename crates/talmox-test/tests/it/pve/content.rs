//! Files on storages, and pools.

use std::collections::BTreeMap;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use talmox_pve::client::{Client, Download, FileContent, ImageKind, PoolChange, Silent, Upid, Upload};
use talmox_pve::property::VolumeId;
use talmox_sim::{FileFacts, Site};
use talmox_test::{Lab, host, storage, vmid};
use talmox_types::{Checksum, ChecksumAlgorithm, PoolName};

use crate::pve::support::{make, told, told_task};

fn sha256(bytes: &[u8]) -> Checksum {
    let value: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Checksum::new(ChecksumAlgorithm::Sha256, &value).unwrap()
}

fn upload(bytes: &[u8], filename: &str, checksum: Option<Checksum>) -> Upload {
    Upload {
        kind: ImageKind::Iso,
        filename: filename.to_owned(),
        content: FileContent::Memory(bytes.to_vec().into()),
        checksum,
        timeout: Duration::from_mins(5),
    }
}

async fn isos(client: &Client) -> Vec<(String, u64)> {
    let volumes = client.content(&host(1), &storage("local"), Some("iso")).await.unwrap();
    volumes.into_iter().map(|volume| (volume.volid.to_string(), volume.size)).collect()
}

/// Bytes that would end a careless multipart body early.
fn nasty() -> Vec<u8> {
    let mut bytes = b"\r\n--talmox-\r\n--B--\r\nContent-Disposition: form-data\r\n\r\n".to_vec();
    // Whole sectors: what looks at images counts in those.
    bytes.extend((0..=255_u8).cycle().take(200 * 512 - bytes.len()));
    bytes
}

#[tokio::test(start_paused = true)]
async fn an_upload_arrives_as_it_was_sent() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    let bytes = nasty();
    let iso = upload(&bytes, "seed of cp-1.iso", Some(sha256(&bytes)));
    let task = client.upload(&host(1), &storage("local"), &iso, &Silent).await.unwrap();
    assert_eq!(task.kind(), "imgcopy");
    lab.done(&client, &task).await.unwrap();
    assert_eq!(isos(&client).await, [("local:iso/seed_of_cp-1.iso".to_owned(), bytes.len() as u64)]);
    let volume = VolumeId::parse("local:iso/seed_of_cp-1.iso").unwrap();
    let info = client.volume_info(&host(1), &volume).await.unwrap();
    assert_eq!(
        (info.size, info.path.as_str()),
        (bytes.len() as u64, "/var/lib/vz/template/iso/seed_of_cp-1.iso")
    );
    let error = client.delete_volume(&host(1), &volume).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @r#"
    [Denied(Denial { path: Some("/storage/local"), privileges: ["Datastore.Allocate"], root_only: false }), Refused]
    error: DELETE /nodes/pve1/storage/local/content/local%3Aiso%2Fseed_of_cp-1.iso on https://pve1:8006: Permission check failed (/storage/local, Datastore.Allocate)
    hint: the credentials need Datastore.Allocate on /storage/local
    hint: a token with privilege separation needs it granted twice: to its user and to itself
    "#);
    let task = lab.root().delete_volume(&host(1), &volume).await.unwrap().unwrap();
    lab.done(&lab.root(), &task).await.unwrap();
    assert_eq!(isos(&client).await, []);
}

#[tokio::test(start_paused = true)]
async fn an_upload_with_another_checksum_is_refused() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    let iso = upload(b"seed", "seed.iso", Some(sha256(b"another")));
    let task = client.upload(&host(1), &storage("local"), &iso, &Silent).await.unwrap();
    let error = lab.done(&client, &task).await.unwrap_err();
    insta::assert_snapshot!(told_task(&error), @"
    [Some(ChecksumMismatch)]
    error: imgcopy failed: checksum mismatch: got '19b25856e1c150ca834cffc8b59b23adbd0ec0389e58eb22b3b64768098d002b' != expect 'ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5' (task UPID:pve1:…:imgcopy::)
    log: starting file import from: /var/tmp/pveupload-…
    log: calculating checksum...
    log: TASK ERROR: checksum mismatch: got '19b25856e1c150ca834cffc8b59b23adbd0ec0389e58eb22b3b64768098d002b' != expect 'ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5'
    hint: what came is not what the checksum was made of: compare it with the one the image's maker publishes
    hint: the whole log: `pvenode task log UPID:pve1:…:imgcopy::` on pve1
    ");
    assert_eq!(isos(&client).await, []);
    let error = client.upload(&host(1), &storage("local-zfs"), &iso, &Silent).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [WrongContent, Refused]
    error: POST /nodes/pve1/storage/local-zfs/upload on https://pve1:8006: can't upload to storage type 'zfspool', not a file based storage!
    hint: local-zfs holds no files: name a storage that does (dir, nfs, cifs, btrfs, cephfs)
    ");
    let wrong = upload(b"seed", "seed.txt", None);
    let error = client.upload(&host(1), &storage("local"), &wrong, &Silent).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @r#"
    [Invalid({"filename": "wrong file extension"}), Refused]
    error: POST /nodes/pve1/storage/local/upload on https://pve1:8006: Parameter verification failed.
      filename: wrong file extension
    "#);
}

fn image() -> FileFacts {
    let mut bytes = b"QFI\xfb".to_vec();
    bytes.extend([0; 20]);
    bytes.extend((4_u64 << 30).to_be_bytes());
    bytes.extend([7; 1000]);
    FileFacts::of_bytes(&bytes)
}

fn download(checksum: Option<&str>) -> Download {
    let value = |value: &str| Checksum::new(ChecksumAlgorithm::Sha256, value).unwrap();
    Download {
        url: "https://factory.example/image/nocloud-amd64.qcow2".to_owned(),
        kind: ImageKind::Import,
        filename: "talos.qcow2".to_owned(),
        checksum: checksum.map(value),
        compression: None,
        verify_certificates: true,
    }
}

#[tokio::test(start_paused = true)]
async fn a_download_with_its_checksum() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    let right = image().digests["sha256"].clone();
    let files = BTreeMap::from([("image/nocloud-amd64.qcow2".to_owned(), image())]);
    lab.world(|world| world.sites.insert("factory.example".to_owned(), Site { files }));
    let metadata = client.url_metadata(&host(1), &download(None).url).await.unwrap();
    assert_eq!(
        (metadata.filename.as_deref(), metadata.size),
        (Some("nocloud-amd64.qcow2"), Some(image().size))
    );
    let fetch = async |checksum: Option<&str>| -> Upid {
        client.download_url(&host(1), &storage("local"), &download(checksum)).await.unwrap()
    };
    let wrong = fetch(Some(&"0".repeat(64))).await;
    let error = lab.done(&client, &wrong).await.unwrap_err();
    assert!(error.to_string().contains("checksum mismatch: got"), "{error}");
    let task = fetch(Some(&right)).await;
    assert_eq!((task.kind(), task.id()), ("download", "talos.qcow2"));
    lab.done(&client, &task).await.unwrap();
    // Again: with the checksum it is there already, without one it is in the way.
    let again = fetch(Some(&right)).await;
    lab.done(&client, &again).await.unwrap();
    let blind = fetch(None).await;
    let error = lab.done(&client, &blind).await.unwrap_err();
    insta::assert_snapshot!(told_task(&error), @"
    [Some(Exists)]
    error: download of talos.qcow2 failed: refusing to override existing file '/var/lib/vz/import/talos.qcow2' (task UPID:pve1:…:download:talos.qcow2:)
    log: downloading https://factory.example/image/nocloud-amd64.qcow2 to /var/lib/vz/import/talos.qcow2
    log: TASK ERROR: refusing to override existing file '/var/lib/vz/import/talos.qcow2'
    hint: the whole log: `pvenode task log UPID:pve1:…:download:talos.qcow2:` on pve1
    ");
    // A disk made of it has the image's own size.
    make(&lab, &client, 100, &[("scsi0", "local-zfs:0,import-from=local:import/talos.qcow2")]).await;
    let disks = client.vm_config(&host(1), vmid(100)).await.unwrap().disks().unwrap();
    assert_eq!(disks.values().next().unwrap().to_string(), "local-zfs:vm-100-disk-0,size=4G");
}

#[tokio::test(start_paused = true)]
async fn a_download_from_nowhere() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    lab.world(|world| world.sites.insert("factory.example".to_owned(), Site { files: BTreeMap::new() }));
    let task = client.download_url(&host(1), &storage("local"), &download(None)).await.unwrap();
    let error = lab.done(&client, &task).await.unwrap_err();
    insta::assert_snapshot!(told_task(&error), @"
    [Some(DownloadFailed)]
    error: download of talos.qcow2 failed: download failed: exit code 8 (task UPID:pve1:…:download:talos.qcow2:)
    log: downloading https://factory.example/image/nocloud-amd64.qcow2 to /var/lib/vz/import/talos.qcow2
    log: Connecting to factory.example... connected.
    log: HTTP request sent, awaiting response... 404 File not found
    log: TASK ERROR: download failed: exit code 8
    hint: the server has no such file, or did not want to give it: is the URL right?
    hint: the whole log: `pvenode task log UPID:pve1:…:download:talos.qcow2:` on pve1
    ");
    let error = client.download_url(&host(1), &storage("local-zfs"), &download(None)).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [WrongContent, Refused]
    error: POST /nodes/pve1/storage/local-zfs/download-url on https://pve1:8006: can't upload to storage type 'zfspool', not a file based storage!
    hint: local-zfs holds no files: name a storage that does (dir, nfs, cifs, btrfs, cephfs)
    ");
}

#[tokio::test(start_paused = true)]
async fn pools_from_making_to_removing() {
    let lab = Lab::one_host(1);
    let client = lab.root();
    let pool = PoolName::parse("talmox-lab").unwrap();
    assert_eq!(client.pool(&pool).await.unwrap(), None);
    client.create_pool(&pool, Some("the lab's VMs")).await.unwrap();
    let error = client.create_pool(&pool, None).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Exists, Refused]
    error: POST /pools on https://pve1:8006: create pool failed: pool 'talmox-lab' already exists
    ");
    make(&lab, &client, 100, &[]).await;
    make(&lab, &client, 101, &[]).await;
    let members = PoolChange { vms: vec![vmid(100), vmid(101)], ..PoolChange::default() };
    client.change_pool(&pool, &members).await.unwrap();
    let error = client.change_pool(&pool, &members).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Exists, Refused]
    error: PUT /pools on https://pve1:8006: update pools failed: VM 100 is already a pool member
    ");
    let ids = |pool: &talmox_pve::client::Pool| pool.members.iter().map(|m| m.id.clone()).collect::<Vec<_>>();
    let found = client.pool(&pool).await.unwrap().unwrap();
    assert_eq!(
        (ids(&found), found.comment.as_deref()),
        (vec!["qemu/100".into(), "qemu/101".into()], Some("the lab's VMs"))
    );
    let error = client.delete_pool(&pool).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [InUse, Refused]
    error: DELETE /pools on https://pve1:8006: delete pool failed: pool 'talmox-lab' is not empty (contains VM 100)
    ");
    // A VM that is removed leaves its pool; another is taken out.
    let task = client.delete_vm(&host(1), vmid(100), false).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    let out = PoolChange { vms: vec![vmid(101)], remove: true, ..PoolChange::default() };
    client.change_pool(&pool, &out).await.unwrap();
    assert_eq!(ids(&client.pool(&pool).await.unwrap().unwrap()), Vec::<String>::new());
    client.delete_pool(&pool).await.unwrap();
    assert_eq!(client.pools().await.unwrap(), []);
}
