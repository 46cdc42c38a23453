//! Images on their way to a storage: fetched by a host, or unpacked here and sent.

use std::io::Write as _;

use talmox_exec::{Outcome, execute};
use talmox_plan::{Effect, FileKind, Goal, Plan, Step};
use talmox_pve::client::Method;
use talmox_pve::property::VolumeId;
use talmox_sim::FileFacts;
use talmox_test::{Fault, When, host, storage, vmid};
use talmox_types::Checksum;
use talmox_types::desired::{Compression, Image};

use super::yard::{Yard, image, talos};
use crate::exec::support::{Bench, make_vm, plan_of, planned};

pub(super) const URL: &str = "https://images.example/debian.raw";

/// An image that is compressed in each way, with the bytes that travel.
pub(super) fn packed(compression: Compression) -> Vec<u8> {
    match compression {
        Compression::Gz => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            writer.write_all(&image()).unwrap();
            writer.finish().unwrap()
        }
        Compression::Xz => {
            let options = lzma_rust2::XzOptions::with_preset(1);
            let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
            writer.write_all(&image()).unwrap();
            writer.finish().unwrap()
        }
        Compression::Zst => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(image().as_slice(), level)
        }
    }
}

/// One step that brings the image to `local` of the first host.
pub(super) fn fetch(compression: Option<Compression>, checksum: Option<Checksum>) -> Plan {
    let image = Image {
        url: URL.to_owned(),
        file: "talmox-debian.qcow2".to_owned(),
        checksum,
        compression,
        schematic: None,
    };
    let step =
        Step::FetchImage { host: host(1), storage: storage("local"), content: FileKind::Import, image };
    plan_of(vec![planned("", step, Effect::Create, &[])])
}

pub(super) fn bench(yard: &Yard) -> Bench {
    yard.bench(talos("1.13.9", "local-zfs", &["cp-1"], ""), Goal::Templates, 1)
}

pub(super) async fn run(yard: &Yard, bench: &Bench, plan: &Plan) -> Outcome {
    execute(&bench.run(&yard.client()), plan).await
}

pub(super) fn sha512(bytes: &[u8]) -> Checksum {
    Checksum::parse(&format!("sha512:{}", FileFacts::of_bytes(bytes).digests["sha512"])).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_compressed_is_unpacked_and_sent() {
    for compression in [Compression::Gz, Compression::Xz, Compression::Zst] {
        let yard = Yard::new();
        let bench = bench(&yard);
        let bytes = packed(compression);
        bench.shelf.put(URL, bytes.clone());
        let plan = fetch(Some(compression), Some(sha512(&bytes)));
        let outcome = run(&yard, &bench, &plan).await;
        assert!(outcome.is_complete() && outcome.wrote(), "{compression:?}: {outcome:#?}");
        // Proxmox has checked the sum of what was sent; and a disk made of it is as large as the image says.
        let disk = "local-zfs:0,import-from=local:import/talmox-debian.qcow2";
        make_vm(&yard.lab, &yard.client(), 1, vmid(100), &[("scsi0", disk)]).await;
        assert_eq!(yard.dump().vms[&100].config["scsi0"], "local-zfs:vm-100-disk-0,size=2G");
        let writes = yard.lab.calls().writes().count();
        let outcome = run(&yard, &bench, &plan).await;
        assert!(outcome.is_complete() && !outcome.wrote(), "{outcome:#?}");
        assert_eq!((bench.shelf.opened(), yard.lab.calls().writes().count()), (1, writes));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_brings_no_second_file() {
    for (compression, path) in [(None, "/download-url"), (Some(Compression::Gz), "/upload")] {
        for fault in [Fault::ReplyLost, Fault::Hang { reached: true }, Fault::BodyCut] {
            let yard = Yard::new();
            let bench = bench(&yard);
            bench.shelf.put(URL, compression.map_or_else(image, packed));
            yard.lab.world(|world| bench.shelf.serve(world));
            yard.lab.plan(When::first(Method::Post, path), fault.clone());
            let outcome = run(&yard, &bench, &fetch(compression, None)).await;
            assert!(outcome.is_complete(), "{fault:?}: {outcome:#?}\n{}", yard.lab.calls());
            assert_eq!(yard.lab.calls().asking("POST", path).count(), 1, "{fault:?}\n{}", yard.lab.calls());
            assert_eq!(yard.files().len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_of_ours_goes_and_others_stay() {
    let yard = Yard::new();
    let bench = bench(&yard);
    bench.shelf.put(URL, image());
    yard.lab.world(|world| bench.shelf.serve(world));
    assert!(run(&yard, &bench, &fetch(None, None)).await.is_complete());
    let remove = |name: &str| {
        let volume = VolumeId::parse(&format!("local:import/{name}")).unwrap();
        let step = Step::RemoveImage { host: host(1), volume };
        plan_of(vec![planned("", step, Effect::Destroy, &[])])
    };
    let foreign = run(&yard, &bench, &remove("debian.qcow2")).await;
    assert_eq!(foreign.failed.len(), 1, "{foreign:#?}");
    for wrote in [true, false] {
        let outcome = run(&yard, &bench, &remove("talmox-debian.qcow2")).await;
        assert!(outcome.is_complete() && outcome.wrote() == wrote, "{outcome:#?}");
        assert_eq!(yard.files().len(), 0);
    }
}
