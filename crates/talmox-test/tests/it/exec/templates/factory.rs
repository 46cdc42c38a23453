//! Templates from the simulated Image Factory: our client tells it of schematics, the hosts fetch from it.

use std::fmt::Write as _;

use talmox_exec::{Run, apply, execute};
use talmox_plan::{Effect, FileKind, Goal, Step};
use talmox_sim::Trouble;
use talmox_test::{host, storage};
use talmox_types::desired::{Compression, Image};

use super::faults::screen;
use super::yard::{Yard, talos_from};
use crate::exec::support::{Bench, plan_of, planned};

const FACTORY: &str = "https://factory.talos.dev";

fn bench(yard: &Yard, nonce: u32) -> Bench {
    let desired = talos_from(FACTORY, "1.13.9", "local-zfs", &["cp-1"], "proxmox_nodes: [pve1]\n");
    yard.bench(desired, Goal::Templates, nonce)
}

#[tokio::test(start_paused = true)]
async fn a_schematic_is_told_and_its_image_fetched() {
    let yard = Yard::new();
    let (bench, images, client) = (bench(&yard, 1), yard.lab.images(), yard.client());
    let plan = yard.plan(&bench).await;
    apply(&Run { images: &images, ..bench.run(&client) }, &plan).await.unwrap();
    assert_eq!(yard.templates().len(), 1);
    let id = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";
    assert!(yard.lab.world(|world| world.factory.as_ref().unwrap().knows(id)));
    assert!(yard.plan(&bench).await.steps.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_people_read_when_it_is_in_trouble() {
    let missing = ["v1.13.9".to_owned()].into();
    let mut screens = String::new();
    for trouble in [
        Trouble { dead: true, ..Trouble::default() },
        Trouble { cut: Some(1000), ..Trouble::default() },
        Trouble { missing, ..Trouble::default() },
    ] {
        let yard = Yard::new();
        let (bench, images, client) = (bench(&yard, 1), yard.lab.images(), yard.client());
        let plan = yard.plan(&bench).await;
        yard.lab.world(|world| world.factory.as_mut().unwrap().trouble = trouble);
        let outcome = execute(&Run { images: &images, ..bench.run(&client) }, &plan).await;
        let _ = writeln!(screens, "{}", screen(&outcome));
        assert!(yard.dump().vms.is_empty() && yard.files().is_empty());
        // Once it is well again, the same command goes on.
        yard.lab.world(|world| world.factory.as_mut().unwrap().trouble = Trouble::default());
        apply(&Run { images: &images, ..bench.run(&client) }, &yard.plan(&bench).await).await.unwrap();
        assert_eq!(yard.templates().len(), 1);
    }
    insta::assert_snapshot!(screens);
}

/// Images that are compressed, over plain http: the factory's storage is not the factory, and redirects go there.
#[tokio::test(start_paused = true)]
async fn compressed_images_come_by_way_of_this_machine() {
    let id = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";
    for (compression, word) in [(Compression::Xz, "xz"), (Compression::Gz, "gz"), (Compression::Zst, "zst")] {
        let yard = Yard::new();
        let (bench, images, client) = (bench(&yard, 1), yard.lab.images(), yard.client());
        let image = Image {
            url: format!("http://factory.talos.dev/image/{id}/v1.13.9/nocloud-amd64.raw.{word}"),
            file: "talmox-talos.raw".to_owned(),
            checksum: None,
            compression: Some(compression),
            schematic: None,
        };
        let step =
            Step::FetchImage { host: host(1), storage: storage("local"), content: FileKind::Import, image };
        let plan = plan_of(vec![planned("", step, Effect::Create, &[])]);
        let outcome = execute(&Run { images: &images, ..bench.run(&client) }, &plan).await;
        assert!(outcome.is_complete() && outcome.wrote(), "{word}: {outcome:#?}");
        assert_eq!(yard.files().len(), 1);
    }
}
