//! A world that is kept in a folder.

use std::os::unix::fs::PermissionsExt as _;

use talmox_pve::client::{CreateVm, VmPower};
use talmox_pve::property::VmConfig;
use talmox_sim::serve::{Keep, ServeError, Server, Settings, StateFolder};

use crate::sim::{client, fast, follow, pve1, vmid, world};
use crate::support::Scratch;

fn kept(scratch: &Scratch) -> (StateFolder, Settings) {
    let folder = StateFolder::open(&scratch.0.join("lab")).unwrap();
    (folder.clone(), Settings { keep: Keep::World(folder), ..fast() })
}

#[tokio::test]
async fn a_world_survives_a_restart() {
    let scratch = Scratch::new("sim-restart");
    let (_, settings) = kept(&scratch);
    let server = Server::start(world(2), settings).await.unwrap();
    let fingerprints: Vec<String> = server.hosts().iter().map(|host| host.fingerprint.clone()).collect();
    let before = client(&server);
    let config: VmConfig =
        [("name", "web"), ("net0", "virtio,bridge=vmbr0"), ("scsi0", "local-zfs:4")].into_iter().collect();
    let vm = CreateVm { vmid: vmid(100), config, pool: None, storage: None };
    let task = before.create_vm(&pve1(), &vm).await.unwrap();
    follow(&before, &task, "creation").await;
    let config = before.vm_config(&pve1(), vmid(100)).await.unwrap();
    let task = before.start_vm(&pve1(), vmid(100)).await.unwrap();
    server.stop().await.unwrap();

    let (folder, settings) = kept(&scratch);
    let server = Server::start(folder.load().unwrap().unwrap(), settings).await.unwrap();
    let again: Vec<String> = server.hosts().iter().map(|host| host.fingerprint.clone()).collect();
    assert_eq!(again, fingerprints);
    let after = client(&server);
    follow(&after, &task, "the start that was under way").await;
    assert_eq!(after.vm_status(&pve1(), vmid(100)).await.unwrap().status, VmPower::Running);
    assert_eq!(after.vm_config(&pve1(), vmid(100)).await.unwrap(), config);
}

#[tokio::test]
async fn a_change_is_saved_before_it_is_acknowledged() {
    let scratch = Scratch::new("sim-saved");
    let (folder, settings) = kept(&scratch);
    let server = Server::start(world(1), settings).await.unwrap();
    let client = client(&server);
    // One after another, as a script would: whoever kills the simulator after a reply finds what it acknowledged.
    for id in 100..106 {
        let vm = CreateVm { vmid: vmid(id), config: VmConfig::default(), pool: None, storage: None };
        client.create_vm(&pve1(), &vm).await.unwrap();
        assert!(folder.load().unwrap().unwrap().has_vm(id), "{id} was acknowledged");
    }
}

#[tokio::test]
async fn secrets_are_the_owners_alone() {
    let scratch = Scratch::new("sim-modes");
    let (folder, settings) = kept(&scratch);
    Server::start(world(1), settings).await.unwrap().stop().await.unwrap();
    let mode = |name: &str| {
        std::fs::metadata(scratch.0.join("lab").join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(
        (mode(""), mode("world.json"), mode("authority.json"), mode("token")),
        (0o700, 0o600, 0o600, 0o600)
    );
    assert!(folder.certificate_file().exists());
}

#[test]
fn a_folder_has_one_user() {
    let scratch = Scratch::new("sim-twice");
    let (_first, _) = kept(&scratch);
    let second = StateFolder::open(&scratch.0.join("lab"));
    assert!(matches!(second, Err(ServeError::InUse { .. })));
}

#[tokio::test]
async fn nothing_half_written_stays() {
    let scratch = Scratch::new("sim-leftover");
    let folder = scratch.0.join("lab");
    drop(kept(&scratch));
    let leftover = folder.join(".world.json.new");
    std::fs::write(&leftover, "{").unwrap();
    let (_, settings) = kept(&scratch);
    assert!(!leftover.exists(), "cleared when the folder is opened");
    // Nothing can take the place of a folder: a save that fails when all is written.
    std::fs::create_dir(folder.join("world.json")).unwrap();
    let failed = Server::start(world(1), settings).await;
    assert!(matches!(failed, Err(ServeError::State { .. })));
    assert!(!leftover.exists(), "cleared when the save failed");
}
