//! What people read when an image or a template cannot be had.

use std::fmt::Write as _;
use std::time::Duration;

use talmox_exec::Outcome;
use talmox_plan::Goal;
use talmox_pve::client::Method;
use talmox_test::{Fault, Trouble, When};
use talmox_types::Checksum;
use talmox_types::desired::Compression;

use super::fetch::{URL, bench, fetch, packed, run, sha512};
use super::yard::{Yard, image, talos, told};

/// Every failure with its causes and hints; times and process ids are left out.
pub(super) fn screen(outcome: &Outcome) -> String {
    let mut text = String::new();
    for failure in &outcome.failed {
        let _ = writeln!(text, "error: {}", told(&failure.error));
        for hint in failure.error.hints() {
            let _ = writeln!(text, "hint: {hint}");
        }
    }
    without_numbers(&text)
}

/// `UPID:pve1:0000…:download:x:` to `UPID:pve1:…:download:x:`.
fn without_numbers(text: &str) -> String {
    let mut clean = String::new();
    let mut parts = text.split("UPID:");
    clean.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let fields: Vec<&str> = part.splitn(5, ':').collect();
        let [host, _, _, _, rest] = fields.as_slice() else { panic!("{part}") };
        let _ = write!(clean, "UPID:{host}:…:{rest}");
    }
    clean
}

/// A yard whose image is on the shelf.
fn stocked() -> (Yard, crate::exec::support::Bench) {
    let yard = Yard::new();
    let bench = bench(&yard);
    bench.shelf.put(URL, image());
    yard.lab.world(|world| bench.shelf.serve(world));
    (yard, bench)
}

fn change_storage(yard: &Yard, id: &str, change: impl Fn(&mut talmox_sim::Storage)) {
    yard.lab.world(|world| {
        let storage = world.storages.iter_mut().find(|storage| storage.id == id).unwrap();
        change(storage);
    });
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_takes_no_such_files() {
    let (yard, bench) = stocked();
    change_storage(&yard, "local", |storage| {
        storage.content.remove("import");
    });
    let outcome = run(&yard, &bench, &fetch(None, None)).await;
    insta::assert_snapshot!(screen(&outcome));
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_is_full() {
    let (yard, bench) = stocked();
    change_storage(&yard, "local", |storage| storage.total = Some(4096));
    let outcome = run(&yard, &bench, &fetch(None, None)).await;
    insta::assert_snapshot!(screen(&outcome));
    // The disk of a template finds no room either.
    let yard = Yard::new();
    change_storage(&yard, "local-zfs", |storage| {
        storage.total = Some(1 << 20);
        storage.options.clear();
    });
    let bench =
        yard.bench(talos("1.13.9", "local-zfs", &["cp-1"], "proxmox_nodes: [pve1]\n"), Goal::Templates, 1);
    let plan = yard.plan(&bench).await;
    let outcome = run(&yard, &bench, &plan).await;
    insta::assert_snapshot!(screen(&outcome));
}

#[tokio::test(start_paused = true)]
async fn other_bytes_than_the_checksum_says() {
    let (yard, bench) = stocked();
    let wrong = Checksum::parse(&format!("sha256:{}", "0".repeat(64))).unwrap();
    let fetched = run(&yard, &bench, &fetch(None, Some(wrong))).await;
    let packed = packed(Compression::Xz);
    bench.shelf.put(URL, packed.clone());
    let unpacked = run(&yard, &bench, &fetch(Some(Compression::Xz), Some(sha512(b"another")))).await;
    insta::assert_snapshot!(format!("{}\n{}", screen(&fetched), screen(&unpacked)));
    assert_eq!(yard.files().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn credentials_that_may_not() {
    let (yard, bench) = stocked();
    yard.lab.world(|world| {
        let role = world.access.roles.get_mut("Talmox").unwrap();
        role.remove("Datastore.AllocateTemplate");
    });
    let outcome = run(&yard, &bench, &fetch(None, None)).await;
    // Of rights that are asked for together Proxmox does not say which one is missing.
    yard.lab.world(|world| {
        let role = world.access.roles.get_mut("Talmox").unwrap();
        role.insert("Datastore.AllocateTemplate".to_owned());
        role.retain(|name| name != "Sys.AccessNetwork" && name != "Sys.Modify");
    });
    let network = run(&yard, &bench, &fetch(None, None)).await;
    let words = "Permission check failed (/storage/local-zfs, Datastore.AllocateSpace)";
    yard.lab.plan(When::every(Method::Post, "/nodes/pve1/qemu"), Fault::reply(403, words));
    yard.lab.world(|world| {
        world.access.roles.get_mut("Talmox").unwrap().insert("Sys.AccessNetwork".to_owned());
    });
    let built = yard.plan(&bench).await;
    let built = run(&yard, &bench, &built).await;
    insta::assert_snapshot!([outcome, network, built].map(|outcome| screen(&outcome)).join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_factory_that_is_dead_or_strange() {
    let yard = Yard::new();
    let bench = bench(&yard);
    let plan = yard.plan(&bench).await;
    let mut screens = String::new();
    for trouble in [Trouble::Dead, Trouble::Refuses(500), Trouble::OtherIds] {
        bench.shelf.trouble(Some(trouble));
        let outcome = run(&yard, &bench, &plan).await;
        let _ = writeln!(screens, "{trouble:?}\n{}", screen(&outcome));
    }
    insta::assert_snapshot!(screens);
    assert_eq!(yard.lab.calls().writes().filter(|call| !call.path.contains("/pools")).count(), 0);
    // The hosts cannot reach it either.
    bench.shelf.trouble(None);
    yard.lab.world(|world| world.sites.clear());
    let outcome = run(&yard, &bench, &plan).await;
    let first = screen(&outcome).split("error:").nth(1).unwrap().to_owned();
    insta::assert_snapshot!(first);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_does_not_exist() {
    let yard = Yard::new();
    let desired = talos("1.13.9", "local-zfs", &["cp-1"], "");
    let mut bench = yard.bench(desired, Goal::Templates, 1);
    bench.desired.talos.schematic.extensions =
        vec!["siderolabs/qemu-guest-agnet".to_owned(), "siderolabs/nothing-like-it".to_owned()];
    let plan = yard.plan(&bench).await;
    let outcome = run(&yard, &bench, &plan).await;
    insta::assert_snapshot!(screen(&outcome));
    assert!(bench.shelf.registered().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_download_that_breaks_off() {
    let (yard, bench) = stocked();
    let bytes = packed(Compression::Gz);
    bench.shelf.put(URL, bytes.clone());
    bench.shelf.trouble(Some(Trouble::CutAfter(bytes.len() / 2)));
    let cut = run(&yard, &bench, &fetch(Some(Compression::Gz), None)).await;
    // A server that does not say how long the file is cannot be caught lying; the format can.
    bench.shelf.trouble(None);
    bench.shelf.put(URL, bytes[..bytes.len() / 2].to_vec());
    let short = run(&yard, &bench, &fetch(Some(Compression::Gz), None)).await;
    bench.shelf.put(URL, b"not compressed at all".to_vec());
    let plain = run(&yard, &bench, &fetch(Some(Compression::Xz), None)).await;
    let place = std::env::temp_dir().display().to_string();
    let text = [cut, short, plain].map(|outcome| screen(&outcome)).join("\n").replace(&place, "TEMP");
    insta::assert_snapshot!(text);
    assert_eq!(yard.files().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_dies_late() {
    let mut screens = String::new();
    for (path, after) in [("/download-url", 55), ("/nodes/pve1/qemu", 90), ("/template", 55)] {
        let yard = Yard::new();
        let desired = talos("1.13.9", "local-zfs", &["cp-1"], "proxmox_nodes: [pve1]\n");
        let bench = yard.bench(desired, Goal::Templates, 1);
        let fate =
            Fault::FailWorker { after: Duration::from_millis(after), words: "got signal 9".to_owned() };
        yard.lab.plan(When::first(Method::Post, path), fate);
        let plan = yard.plan(&bench).await;
        let outcome = run(&yard, &bench, &plan).await;
        let _ = writeln!(screens, "{}", screen(&outcome));
        yard.assert_tidy();
        yard.apply(&bench).await.unwrap();
        assert_eq!(yard.templates().len(), 1);
    }
    insta::assert_snapshot!(screens);
}
