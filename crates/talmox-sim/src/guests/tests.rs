use super::*;
use crate::files::FileFacts;
use crate::starter::Starter;

fn world() -> World {
    let mut world = Starter::new(2, 7, 1_800_000_000_000).build().world;
    world.watch_power();
    world
}

/// A call of the administrator's and its task to the end.
fn work(world: &mut World, method: &str, path: &str, form: &[(&str, &str)]) -> String {
    let answer = world.root_call(method, path, form).unwrap();
    let Value::String(upid) = answer else { return "OK".into() };
    while world.task_status(&upid) == Some(None) {
        let next = world.next_event().unwrap();
        world.advance_to(next);
    }
    world.task_status(&upid).flatten().unwrap().to_owned()
}

const SCHEMATIC: &str = "customization:\n    systemExtensions:\n        officialExtensions:\n            - siderolabs/qemu-guest-agent\n";

fn register(world: &mut World) -> String {
    let request = crate::FactoryRequest {
        method: "POST".into(),
        target: "/schematics".into(),
        body: SCHEMATIC.into(),
        ..Default::default()
    };
    let reply = world.factory.as_mut().unwrap().handle(&request).unwrap();
    serde_json::from_slice::<Value>(&reply.body).unwrap()["id"].as_str().unwrap().to_owned()
}

/// Has the image on `pve1`, under this name.
fn download(world: &mut World, content: &str, remote: &str, name: &str, more: &[(&str, &str)]) -> String {
    let id = register(world);
    let url = format!("https://factory.talos.dev/image/{id}/v1.13.9/{remote}");
    let form = [&[("url", url.as_str()), ("content", content), ("filename", name)], more].concat();
    assert_eq!(work(world, "POST", "/nodes/pve1/storage/local/download-url", &form), "OK");
    id
}

const CREATE: &str = "/nodes/pve1/qemu";

fn create(world: &mut World, form: &[(&str, &str)]) {
    assert_eq!(work(world, "POST", CREATE, form), "OK");
}

fn power(world: &mut World, vmid: u32, action: &str) -> String {
    let host = world.vms[&vmid].node.clone();
    work(world, "POST", &format!("/nodes/{host}/qemu/{vmid}/status/{action}"), &[])
}

/// What was switched on last.
fn switched_on(events: Vec<PowerEvent>) -> Machine {
    let on = |event| if let PowerEvent::On(machine) = event { Some(machine) } else { None };
    events.into_iter().rev().find_map(on).unwrap()
}

fn image(drive: &MachineDrive) -> Option<(&crate::TalosImage, &[String])> {
    match drive {
        MachineDrive::Disk { content: Content::Talos(image), extensions, .. }
        | MachineDrive::Cd { content: Content::Talos(image), extensions } => Some((image, extensions)),
        MachineDrive::Disk { .. } | MachineDrive::Cd { .. } => None,
    }
}

#[test]
fn a_clone_of_an_imported_image_boots_talos() {
    let mut world = world();
    let id = download(&mut world, "import", "nocloud-amd64.qcow2", "talos.qcow2", &[]);
    create(
        &mut world,
        &[
            ("vmid", "900"),
            ("scsi0", "local-zfs:0,import-from=local:import/talos.qcow2"),
            ("virtio1", "local-zfs:2"),
            ("ide2", "local-zfs:cloudinit"),
            ("net0", "virtio,bridge=vmbr0,tag=7"),
            ("boot", "order=scsi0;ide2"),
            ("smbios1", "serial=aD1jcC0x,base64=1"),
            ("cores", "2"),
        ],
    );
    assert_eq!(work(&mut world, "POST", "/nodes/pve1/qemu/900/template", &[]), "OK");
    for (target, full) in [("101", "0"), ("102", "1")] {
        let form = [("newid", target), ("full", full), ("name", "cp-1")];
        assert_eq!(work(&mut world, "POST", "/nodes/pve1/qemu/900/clone", &form), "OK");
    }
    let config = [("ipconfig0", "ip=10.0.0.5/24,gw=10.0.0.1"), ("scsi3", "local-zfs:1")];
    work(&mut world, "POST", "/nodes/pve1/qemu/101/config", &config);
    assert_eq!(power(&mut world, 101, "start"), "OK");
    let mut world = World::load(&world.save()).unwrap();
    let machine = switched_on(world.take_power());
    assert_eq!((machine.vmid, machine.serial.as_str(), machine.cpus), (101, "h=cp-1", 2));
    assert_eq!(machine.uuid.len(), 36);
    assert_eq!((machine.nics[0].vlan, machine.nics[0].bridge.as_str()), (Some(7), "vmbr0"));
    assert_eq!(machine.nics[0].mac, machine.nics[0].mac.to_lowercase());
    let (found, extensions) = image(&machine.drives[0]).unwrap();
    assert_eq!((found.version.as_str(), found.schematic.as_str(), found.iso), ("1.13.9", id.as_str(), false));
    assert_eq!(
        (found.platform.as_str(), extensions),
        ("nocloud", &["siderolabs/qemu-guest-agent".to_owned()][..])
    );
    let names: Vec<&str> = machine
        .drives
        .iter()
        .filter_map(|drive| match drive {
            MachineDrive::Disk { name, .. } => Some(name.as_str()),
            MachineDrive::Cd { .. } => None,
        })
        .collect();
    assert_eq!(names, ["sda", "sdb", "vda"], "the firmware's first, then as they are found");
    let MachineDrive::Cd { content: Content::Cidata(files), .. } = &machine.drives[1] else {
        panic!("{:?}", machine.drives[1])
    };
    let text = |name: &str| String::from_utf8(files[name].0.clone()).unwrap();
    assert!(text("user-data").starts_with("#cloud-config\nhostname: cp-1\n"));
    assert!(text("network-config").contains("address: '10.0.0.5'"));
    assert!(text("meta-data").starts_with("instance-id: "));
    power(&mut world, 102, "start");
    let other = switched_on(world.take_power());
    let identity = |machine: &Machine| match &machine.drives[0] {
        MachineDrive::Disk { id, copy_of, .. } => (*id, copy_of.unwrap()),
        MachineDrive::Cd { .. } => panic!(),
    };
    let ((one, of), (two, base)) = (identity(&machine), identity(&other));
    assert!(one != two && of == base, "both are copies of the template's");
}

#[test]
fn a_cd_with_a_configuration_is_read_and_can_be_taken_out() {
    let mut world = world();
    let files = BTreeMap::from([("user-data".to_owned(), crate::Secret(b"x".to_vec()))]);
    let facts = FileFacts { size: 400_000, content: Content::Cidata(files.clone()), ..FileFacts::default() };
    world.add_file("pve1", "local:iso/seed.iso", facts);
    download(&mut world, "iso", "nocloud-amd64.iso", "talos.iso", &[]);
    download(&mut world, "iso", "nocloud-amd64.raw.zst", "talos.img", &[("compression", "zst")]);
    create(
        &mut world,
        &[
            ("vmid", "100"),
            ("sata0", "local-zfs:8"),
            ("ide0", "local:iso/talos.iso,media=cdrom"),
            ("ide1", "local:iso/seed.iso,media=cdrom"),
            ("ide3", "local:iso/talos.img,media=cdrom"),
            ("boot", "order=sata0;ide0"),
        ],
    );
    assert_eq!(power(&mut world, 100, "start"), "OK");
    let machine = switched_on(world.take_power());
    assert!(
        matches!(&machine.drives[0], MachineDrive::Disk { name, content: Content::Empty, .. } if name == "sda")
    );
    assert!(image(&machine.drives[1]).unwrap().0.iso);
    assert!(
        matches!(&machine.drives[2], MachineDrive::Cd { content: Content::Cidata(found), .. } if *found == files)
    );
    assert!(!image(&machine.drives[3]).unwrap().0.iso);
    let eject = [("ide1", "none,media=cdrom")];
    work(&mut world, "POST", "/nodes/pve1/qemu/100/config", &eject);
    let events = world.take_power();
    let Some(PowerEvent::Changed(machine)) = events.last() else { panic!("{events:?}") };
    assert!(matches!(&machine.drives[2], MachineDrive::Cd { content: Content::Empty, .. }));
}

#[test]
fn a_guest_decides_when_it_goes() {
    let mut world = world();
    create(&mut world, &[("vmid", "100"), ("agent", "1"), ("scsi0", "local-zfs:1")]);
    power(&mut world, 100, "start");
    world.guest_says(100, BTreeMap::new());
    world.take_power();
    let shutdown = "/nodes/pve1/qemu/100/status/shutdown";
    let upid = world.root_call("POST", shutdown, &[("timeout", "30")]).unwrap();
    let upid = upid.as_str().unwrap().to_owned();
    world.advance_to(world.clock() + 10_000);
    assert_eq!(world.take_power(), [PowerEvent::Button { vmid: 100 }]);
    assert_eq!(world.task_status(&upid), Some(None));
    world.guest_went_off(100);
    world.advance_to(world.clock() + 1);
    assert_eq!(world.task_status(&upid), Some(Some("OK")));
    assert_eq!(world.take_power(), [PowerEvent::Off { vmid: 100 }]);
    // One that does not go is late.
    power(&mut world, 100, "start");
    world.guest_says(100, BTreeMap::new());
    assert_eq!(
        work(&mut world, "POST", shutdown, &[("timeout", "30")]),
        "VM quit/powerdown failed - got timeout"
    );
    // One that goes unasked is off.
    world.guest_went_off(100);
    assert!(!world.is_on(100));
}

#[test]
fn a_reboot_from_outside_switches_on_again() {
    let mut world = world();
    create(&mut world, &[("vmid", "100"), ("scsi0", "local-zfs:1")]);
    power(&mut world, 100, "start");
    world.guest_says(100, BTreeMap::new());
    let upid = world.root_call("POST", "/nodes/pve1/qemu/100/status/reboot", &[]).unwrap();
    world.advance_to(world.clock() + 1_000);
    world.take_power();
    world.guest_went_off(100);
    world.advance_to(world.clock() + 1);
    assert_eq!(world.task_status(upid.as_str().unwrap()), Some(Some("OK")));
    let events = world.take_power();
    assert!(matches!(events[..], [PowerEvent::Off { vmid: 100 }, PowerEvent::On(_)]), "{events:?}");
    assert_eq!(power(&mut world, 100, "reset"), "OK");
    assert_eq!(world.take_power(), [PowerEvent::Reset { vmid: 100 }]);
}

#[test]
fn an_agent_answers_what_the_guest_says() {
    let mut world = world();
    create(&mut world, &[("vmid", "100"), ("agent", "1"), ("scsi0", "local-zfs:1")]);
    power(&mut world, 100, "start");
    let ask =
        |world: &mut World| world.root_call("GET", "/nodes/pve1/qemu/100/agent/network-get-interfaces", &[]);
    world.guest_says(100, BTreeMap::new());
    assert_eq!(ask(&mut world).unwrap_err(), "QEMU guest agent is not running");
    let told = serde_json::json!([{"name": "eth0"}]);
    world.guest_says(100, BTreeMap::from([("network-get-interfaces".to_owned(), told.clone())]));
    assert_eq!(ask(&mut world).unwrap()["result"], told);
}

#[test]
fn disks_keep_their_identity_when_they_move() {
    let mut world = world();
    for storage in world.storages.iter_mut().filter(|storage| storage.id == "local") {
        storage.content.insert("images".into());
    }
    create(&mut world, &[("vmid", "100"), ("scsi0", "local-zfs:1")]);
    power(&mut world, 100, "start");
    let disk = |world: &World| match &world.machine(100).unwrap().drives[0] {
        MachineDrive::Disk { id, .. } => *id,
        MachineDrive::Cd { .. } => panic!(),
    };
    let before = disk(&world);
    let form = [("disk", "scsi0"), ("storage", "local"), ("delete", "1")];
    assert_eq!(work(&mut world, "POST", "/nodes/pve1/qemu/100/move_disk", &form), "OK");
    assert_eq!(disk(&world), before);
    let form = [("target", "pve2"), ("online", "1"), ("with-local-disks", "1")];
    assert_eq!(work(&mut world, "POST", "/nodes/pve1/qemu/100/migrate", &form), "OK");
    assert_eq!((disk(&world), world.vms[&100].node.as_str()), (before, "pve2"));
    let gone = world.take_power();
    assert!(!gone.contains(&PowerEvent::DiskGone { disk: before }), "{gone:?}");
    assert_eq!(power(&mut world, 100, "stop"), "OK");
    assert_eq!(work(&mut world, "DELETE", "/nodes/pve2/qemu/100", &[]), "OK");
    assert_eq!(world.take_power(), [PowerEvent::Off { vmid: 100 }, PowerEvent::DiskGone { disk: before }]);
}

#[test]
fn snapshots_keep_what_disks_held_and_a_rollback_stops_the_machine() {
    let mut world = world();
    create(&mut world, &[("vmid", "100"), ("scsi0", "local-zfs:1")]);
    power(&mut world, 100, "start");
    world.take_power();
    let form = [("snapname", "before")];
    assert_eq!(work(&mut world, "POST", "/nodes/pve1/qemu/100/snapshot", &form), "OK");
    let kept = world.take_power();
    assert!(matches!(&kept[..], [PowerEvent::Kept { vmid: 100, disks, .. }] if disks.len() == 1), "{kept:?}");
    assert_eq!(work(&mut world, "POST", "/nodes/pve1/qemu/100/snapshot/before/rollback", &[]), "OK");
    let snapshot = || "before".to_owned();
    assert_eq!(
        world.take_power(),
        [PowerEvent::Off { vmid: 100 }, PowerEvent::PutBack { vmid: 100, snapshot: snapshot() }]
    );
    assert_eq!(work(&mut world, "DELETE", "/nodes/pve1/qemu/100/snapshot/before", &[]), "OK");
    assert_eq!(world.take_power(), [PowerEvent::Forgotten { vmid: 100, snapshot: snapshot() }]);
}

#[test]
fn letters_go_on_after_z() {
    assert_eq!([1, 26, 27, 52, 53].map(letters), ["a", "z", "aa", "az", "ba"]);
    assert_eq!(
        base64_text("ZHM9bm9jbG91ZC1uZXQ7cz1odHRwczovLzEwLjAuMC4xLw=="),
        "ds=nocloud-net;s=https://10.0.0.1/"
    );
}
