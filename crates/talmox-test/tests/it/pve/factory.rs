//! Images from the simulated factory: the client registers, the simulated hosts download.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use talmox_image::client::ErrorKind;
use talmox_image::{Arch, Artifact, DiskFormat, ImageFile, MetaValue, Overlay, Platform, Schematic};
use talmox_pve::client::{Client, Download, ImageKind};
use talmox_test::{Lab, host, storage, vmid};
use talmox_types::{Checksum, ChecksumAlgorithm, Version};

use crate::pve::support::{make, told_task};

const TALOS: Version = Version::new(1, 13, 9);

fn agent() -> Schematic {
    Schematic { extensions: vec!["siderolabs/qemu-guest-agent".to_owned()], ..Schematic::default() }
}

fn wanted(lab: &Lab) -> Download {
    let file = ImageFile::for_proxmox(Arch::Amd64, false);
    Download {
        url: lab.factory().factory().image_url(&agent().id(), &TALOS, &file),
        kind: ImageKind::Import,
        filename: "talos.qcow2".to_owned(),
        checksum: None,
        compression: None,
        verify_certificates: true,
    }
}

/// The error of a download that fails, without the schematic's id.
async fn failure(lab: &Lab, client: &Client) -> String {
    let task = client.download_url(&host(1), &storage("local"), &wanted(lab)).await.unwrap();
    told_task(&lab.done(client, &task).await.unwrap_err()).replace(agent().id().as_str(), "ID")
}

#[tokio::test(start_paused = true)]
async fn a_registered_image_is_downloaded_by_a_host() {
    let lab = Lab::one_host(1);
    let (client, factory) = (lab.client(), lab.factory());
    insta::assert_snapshot!(failure(&lab, &client).await, @"
    [Some(DownloadFailed)]
    error: download of talos.qcow2 failed: download failed: exit code 8 (task UPID:pve1:…:download:talos.qcow2:)
    log: downloading https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2 to /var/lib/vz/import/talos.qcow2
    log: Connecting to factory.talos.dev... connected.
    log: HTTP request sent, awaiting response... 404 Not Found
    log: TASK ERROR: download failed: exit code 8
    hint: the server has no such file, or did not want to give it: is the URL right?
    hint: the whole log: `pvenode task log UPID:pve1:…:download:talos.qcow2:` on pve1
    ");
    assert_eq!(factory.check(&agent(), &TALOS).await.unwrap(), []);
    assert_eq!(factory.register(&agent()).await.unwrap(), agent().id());
    let file = ImageFile::for_proxmox(Arch::Amd64, false);
    let offered = factory.look_at(&agent().id(), &TALOS, &file).await.unwrap();
    let metadata = client.url_metadata(&host(1), &wanted(&lab).url).await.unwrap();
    assert_eq!(metadata.size, offered.size);
    // What the client gets is what the host gets: the checksum of one is that of the other.
    let download = factory.open(&agent().id(), &TALOS, &file).await.unwrap();
    let mut bytes = Vec::new();
    let done = download.copy_to(&mut bytes, &mut |_, _| {}).await.unwrap();
    assert_eq!((Some(done.size), &bytes[..4]), (offered.size, b"QFI\xfb".as_slice()));
    let checksum = Checksum::new(ChecksumAlgorithm::Sha256, &done.sha256).unwrap();
    let checked = Download { checksum: Some(checksum), ..wanted(&lab) };
    let task = client.download_url(&host(1), &storage("local"), &checked).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    make(&lab, &client, 100, &[("scsi0", "local-zfs:0,import-from=local:import/talos.qcow2")]).await;
    let disks = client.vm_config(&host(1), vmid(100)).await.unwrap().disks().unwrap();
    assert_eq!(disks.values().next().unwrap().to_string(), "local-zfs:vm-100-disk-0,size=1246M");
}

#[tokio::test(start_paused = true)]
async fn a_factory_in_trouble_fails_as_wget_does() {
    let lab = Lab::one_host(1);
    let (client, factory) = (lab.client(), lab.factory());
    factory.register(&agent()).await.unwrap();
    let trouble = |act: fn(&mut talmox_sim::Trouble)| {
        lab.world(|world| {
            let trouble = &mut world.factory.as_mut().unwrap().trouble;
            *trouble = talmox_sim::Trouble::default();
            act(trouble);
        });
    };
    trouble(|trouble| trouble.cut = Some(1000));
    insta::assert_snapshot!(failure(&lab, &client).await, @"
    [Some(DownloadFailed)]
    error: download of talos.qcow2 failed: download failed: exit code 4 (task UPID:pve1:…:download:talos.qcow2:)
    log: downloading https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2 to /var/lib/vz/import/talos.qcow2
    log: Connecting to factory.talos.dev... connected.
    log: HTTP request sent, awaiting response... 200 OK
    log: Read error at byte 1000/393216 (Connection reset by peer). Giving up.
    log: TASK ERROR: download failed: exit code 4
    hint: pve1 fetches it by itself, and its connection failed or broke off: can it reach the server, does it need a proxy (`http_proxy` in the datacenter's options)? Then run this again
    hint: the whole log: `pvenode task log UPID:pve1:…:download:talos.qcow2:` on pve1
    ");
    let file = ImageFile::for_proxmox(Arch::Amd64, false);
    let download = factory.open(&agent().id(), &TALOS, &file).await.unwrap();
    let error = download.copy_to(&mut Vec::new(), &mut |_, _| {}).await.unwrap_err();
    assert!(matches!(*error.kind, ErrorKind::CutOff { .. }), "{error}");
    trouble(|trouble| trouble.missing.extend(["v1.13.9".to_owned()]));
    insta::assert_snapshot!(failure(&lab, &client).await, @"
    [Some(DownloadFailed)]
    error: download of talos.qcow2 failed: download failed: exit code 8 (task UPID:pve1:…:download:talos.qcow2:)
    log: downloading https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2 to /var/lib/vz/import/talos.qcow2
    log: Connecting to factory.talos.dev... connected.
    log: HTTP request sent, awaiting response... 404 Not Found
    log: TASK ERROR: download failed: exit code 8
    hint: the server has no such file, or did not want to give it: is the URL right?
    hint: the whole log: `pvenode task log UPID:pve1:…:download:talos.qcow2:` on pve1
    ");
    trouble(|trouble| trouble.dead = true);
    insta::assert_snapshot!(failure(&lab, &client).await, @"
    [Some(DownloadFailed)]
    error: download of talos.qcow2 failed: download failed: Connecting to factory.talos.dev... failed: Connection refused. (task UPID:pve1:…:download:talos.qcow2:)
    log: downloading https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2 to /var/lib/vz/import/talos.qcow2
    log: TASK ERROR: download failed: Connecting to factory.talos.dev... failed: Connection refused.
    hint: pve1 fetches it by itself, and its connection failed or broke off: can it reach the server, does it need a proxy (`http_proxy` in the datacenter's options)? Then run this again
    hint: the whole log: `pvenode task log UPID:pve1:…:download:talos.qcow2:` on pve1
    ");
    let error = factory.versions().await.unwrap_err();
    assert!(matches!(*error.kind, ErrorKind::Unreachable { .. }), "{error}");
    let error = client.url_metadata(&host(1), &wanted(&lab).url).await.unwrap_err();
    assert!(error.to_string().contains("Connection refused"), "{error}");
    trouble(|trouble| trouble.slow = 45_000);
    let error = factory.versions().await.unwrap_err();
    assert!(matches!(*error.kind, ErrorKind::Silent { .. }), "{error}");
    // An image may take its time: a real factory makes it only now.
    factory.look_at(&agent().id(), &TALOS, &file).await.unwrap();
    let task = client.download_url(&host(1), &storage("local"), &wanted(&lab)).await.unwrap();
    lab.done(&client, &task).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_only_exists_compressed_can_be_read_in_pieces() {
    let lab = Lab::one_host(1);
    let factory = lab.factory();
    let raw = |compression| ImageFile {
        platform: Platform::NOCLOUD,
        arch: Arch::Amd64,
        secure_boot: true,
        artifact: Artifact::Disk { format: DiskFormat::Raw, compression },
    };
    let empty = factory.register(&Schematic::default()).await.unwrap();
    let mut download = factory.open(&empty, &TALOS, &raw(Some(talmox_image::Compression::Gz))).await.unwrap();
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    let mut largest = 0;
    while let Some(piece) = download.next().await.unwrap() {
        largest = largest.max(piece.len());
        std::io::Write::write_all(&mut decoder, &piece).unwrap();
    }
    let mut plain = Vec::new();
    let download = factory.open(&empty, &TALOS, &raw(None)).await.unwrap();
    download.copy_to(&mut plain, &mut |_, _| {}).await.unwrap();
    assert_eq!(decoder.finish().unwrap(), plain);
    assert!(largest <= 64 << 10, "{largest}");
}

/// Both sides compute ids, each with code of its own; whatever is in a schematic, they agree.
#[test]
fn client_and_factory_agree_on_ids() {
    let words = "[ -~äé漢😀\\n\\t]{0,14}|[0-9_.:eExob+-]{1,8}|(19|20)[0-9]{2}-[0-9]{1,2}-[0-9]{1,2}|yes|no|on|off|null|~|true";
    let schematics = (
        prop::collection::vec(words, 0..4),
        prop::collection::vec("siderolabs/[a-z-]{1,12}", 0..4),
        prop::collection::vec((any::<u8>(), words), 0..3),
        prop::option::of((words, words)),
        prop::option::of(words),
        any::<bool>(),
        prop::option::of(0_u32..9000),
    );
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let lab = Lab::one_host(1);
    let mut runner = TestRunner::new(Config { cases: 512, failure_persistence: None, ..Config::default() });
    let agree = runner.run(&schematics, |(arguments, extensions, meta, overlay, embedded, known, sector)| {
        let schematic = Schematic {
            extra_kernel_args: arguments,
            extensions,
            meta: meta.into_iter().map(|(key, value)| MetaValue { key, value }).collect(),
            overlay: overlay.map(|(image, name)| Overlay { image, name, options: Vec::new() }),
            embedded_machine_configuration: embedded,
            secure_boot: talmox_image::SecureBoot {
                include_well_known_certificates: known,
                enroll_keys: None,
            },
            sector_size: sector,
            ..Schematic::default()
        };
        let registered = runtime.block_on(lab.factory().register(&schematic));
        prop_assert_eq!(
            registered.map_err(|error| error.to_string()),
            Ok(schematic.id()),
            "{}",
            schematic.canonical()
        );
        Ok(())
    });
    agree.unwrap();
}
