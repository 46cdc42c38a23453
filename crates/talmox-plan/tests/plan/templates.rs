//! Templates talmox builds, and what else a VM can be made from.

use std::collections::BTreeSet;

use talmox_plan::{
    CloneKind, Effect, Goal, Guest, NoteKind, Observed, Plan, Power, Request, Rule, Seen, SeenFile, Step,
    Storage, Waiting, check, image_digest, managed_template, settings_digest,
};
use talmox_pve::property::{VmConfig, VolumeId};
use talmox_types::desired::{Boot, Desired, Template};
use talmox_types::*;

use crate::support::*;

const FILE: &str = "talmox-talos-1.13.9-376567988ad3-nocloud-amd64.qcow2";

/// Nodes without a named template.
fn managed(control_planes: u8, workers: u8) -> Desired {
    let mut desired = desired(control_planes, workers);
    for node in &mut desired.nodes {
        node.vm.template = None;
    }
    desired
}

fn files(name: &str, host_name: &str, content: &[&str]) -> Storage {
    let content = content.iter().map(|word| (*word).to_owned()).collect();
    Storage { kind: "dir".to_owned(), content, ..seen_storage(name, host_name) }
}

/// Two hosts with a storage for disks and one for files, and no template.
fn bare() -> Observed {
    let mut observed = empty();
    observed.guests.clear();
    observed.storages.push(files("local", "pve1", &["iso", "import"]));
    observed.storages.push(files("local", "pve2", &["iso", "import"]));
    observed
}

fn request(goal: Goal) -> Request {
    Request { goal, ..Request::default() }
}

fn mark_of(template: &Template, vmid: u32) -> TemplateMark {
    TemplateMark {
        owner: UID.to_owned(),
        image: image_digest(template),
        settings: settings_digest(template),
        vmid: id(vmid),
        incarnation: "aaaa0001".to_owned(),
    }
}

/// A template of ours as it is once it was built.
fn built(template: &Template, vmid: u32, host_name: &str) -> Guest {
    let mut config: VmConfig =
        template.options.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    config.set("name", template.name.as_str());
    config.set("template", "1");
    config.set("scsi0", &format!("local-zfs:base-{vmid}-disk-0,size=8G"));
    config.set("description", &mark_of(template, vmid));
    Guest { template: true, power: Power::Stopped, ..stranger(vmid, host_name, &template.name, config) }
}

fn put(observed: &mut Observed, guest: Guest) {
    observed.guests.insert(guest.vmid, guest);
}

fn clones(plan: &Plan) -> Vec<String> {
    let clone = |step: &talmox_plan::Planned| match &step.step {
        Step::CloneVm { host, mark, template, clone, .. } => {
            let how = if *clone == CloneKind::Linked { "linked" } else { "full" };
            Some(format!("{} on {host} from {} on {}, {how}", mark.vmid, template.vmid, template.host))
        }
        _ => None,
    };
    plan.steps.iter().filter_map(clone).collect()
}

#[test]
fn from_an_image_to_a_node() {
    let desired = managed(1, 1);
    let plan = planned(&desired, &bare(), &Request::default());
    let (fetch1, fetch2) =
        (format!("fetch-image-pve1-local-{FILE}"), format!("fetch-image-pve2-local-{FILE}"));
    let expected = [
        "register-schematic-376567988ad3 create".to_owned(),
        format!("{fetch1} create after register-schematic-376567988ad3"),
        "create-pool-talmox-templates create".to_owned(),
        format!("build-template-9000 create after {fetch1} create-pool-talmox-templates"),
        "configure-template-9000 create after build-template-9000".to_owned(),
        "convert-template-9000 create after configure-template-9000".to_owned(),
        "create-pool create".to_owned(),
        "cp-1/clone create after create-pool convert-template-9000".to_owned(),
        "cp-1/configure create after cp-1/clone".to_owned(),
        "cp-1/grow-disk-scsi0 create after cp-1/configure".to_owned(),
        "cp-1/start create after cp-1/grow-disk-scsi0".to_owned(),
        format!("{fetch2} create after register-schematic-376567988ad3"),
        format!("build-template-9001 create after {fetch2} create-pool-talmox-templates"),
        "configure-template-9001 create after build-template-9001".to_owned(),
        "convert-template-9001 create after configure-template-9001".to_owned(),
        "w-1/clone create after create-pool convert-template-9001".to_owned(),
        "w-1/configure create after w-1/clone".to_owned(),
        "w-1/grow-disk-scsi0 create after w-1/configure".to_owned(),
        "w-1/start create after w-1/grow-disk-scsi0".to_owned(),
    ];
    assert_eq!(steps(&plan), expected);
    assert_eq!(
        clones(&plan),
        ["2000 on pve1 from 9000 on pve1, linked", "2001 on pve2 from 9001 on pve2, linked"]
    );
    let Step::FetchImage { image, .. } = &plan.steps[1].step else { panic!() };
    let url = "https://factory.example/image/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba/v1.13.9/nocloud-amd64.qcow2";
    assert_eq!(image.url, url);
    assert_eq!(
        plan.steps[1].reason,
        "it is not there; without a checksum, the server's certificate protects it"
    );
    let Step::BuildTemplate { set, name, .. } = &plan.steps[3].step else { panic!() };
    assert_eq!(set["scsi0"], format!("local-zfs:0,import-from=local:import/{FILE}"));
    assert_eq!((name.as_str(), set.get("tags")), ("talos-1.13.9-376567988ad3", None));
    let Step::ConfigureTemplate { set, .. } = &plan.steps[4].step else { panic!() };
    assert_eq!(set["tags"], "schematic-376567988ad3;talmox;talos-1.13.9");
    let Step::ConfigureVm { set, .. } = &plan.steps[8].step else { panic!() };
    assert_eq!(set["efidisk0"], "local-zfs:1,efitype=4m", "the template has none, every node its own");
}

#[test]
fn one_template_serves_all_hosts_of_a_shared_storage() {
    let mut observed = bare();
    for storage in observed.storages.iter_mut().filter(|storage| storage.id.as_str() == "local-zfs") {
        (storage.kind, storage.shared) = ("rbd".to_owned(), true);
    }
    let desired = managed(3, 0);
    let plan = planned(&desired, &observed, &Request::default());
    let from = |id: u32, on: &str| format!("{id} on {on} from 9000 on pve1, linked");
    assert_eq!(clones(&plan), [from(2000, "pve1"), from(2001, "pve2"), from(2002, "pve1")]);
    let all = planned(&desired, &observed, &request(Goal::Templates));
    assert_eq!(all.steps.iter().filter(|step| step.step.word() == "build-template").count(), 1);
    // Files on a shared storage are fetched once, too.
    for storage in observed.storages.iter_mut().filter(|storage| storage.id.as_str() == "local") {
        storage.shared = true;
    }
    for storage in observed.storages.iter_mut().filter(|storage| storage.id.as_str() == "local-zfs") {
        storage.shared = false;
    }
    let plan = planned(&desired, &observed, &request(Goal::Templates));
    let count = |word: &str| plan.steps.iter().filter(|step| step.step.word() == word).count();
    assert_eq!((count("fetch-image"), count("build-template")), (1, 2));
}

#[test]
fn what_is_there_is_used_and_what_was_begun_is_finished() {
    let desired = managed(1, 0);
    let wanted = managed_template(&desired, &desired.nodes[0]);
    let mut observed = bare();
    put(&mut observed, built(&wanted, 9000, "pve1"));
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(steps(&plan)[..2], ["create-pool create", "cp-1/clone create after create-pool"]);
    // A build that was interrupted.
    observed.guests.get_mut(&id(9000)).unwrap().template = false;
    edit(&mut observed, 9000, |config| {
        config.remove("template");
        config.set("scsi0", "local-zfs:vm-9000-disk-0,size=8G");
    });
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(
        steps(&plan)[..3],
        [
            "convert-template-9000 create",
            "create-pool create",
            "cp-1/clone create after create-pool convert-template-9000"
        ]
    );
    // A copy somebody made of it is nobody's template.
    let mut copy = observed.guests.remove(&id(9000)).unwrap();
    copy.vmid = id(9050);
    put(&mut observed, copy);
    let plan = planned(&desired, &observed, &Request::default());
    assert!(steps(&plan).iter().any(|step| step.starts_with("build-template-9051")), "{:?}", steps(&plan));
    // An image that is there is not fetched again.
    let file = SeenFile { volume: VolumeId::parse(&format!("local:import/{FILE}")).unwrap(), size: 1 };
    observed.files.insert((host("pve1"), storage("local")), vec![file]);
    let plan = planned(&desired, &observed, &Request::default());
    assert!(!steps(&plan).iter().any(|step| step.starts_with("fetch") || step.starts_with("register")));
}

/// What somebody makes on an id for templates.
fn in_the_making() -> Guest {
    let mut making = stranger(9000, "pve1", "", VmConfig::default());
    (making.name, making.lock, making.power) = (None, Some("create".to_owned()), Power::Stopped);
    making.config = Seen::Read(talmox_plan::GuestConfig {
        live: VmConfig::default(),
        next: VmConfig::default(),
        digest: "d".to_owned(),
    });
    making
}

/// A VM does not go before it is known what takes its place.
#[test]
fn nothing_is_built_anew_while_its_template_is_being_made() {
    let desired = managed(1, 1);
    let mut observed = bare();
    for (vmid, node, host_name) in [(2000, "cp-1", "pve1"), (2001, "w-1", "pve2")] {
        put(&mut observed, finished(&desired, node, vmid, host_name));
    }
    observed.pool = converged(&desired).pool;
    put(&mut observed, in_the_making());
    let request = Request { replace: [name("w-1")].into(), ..Request::default() };
    let plan = planned(&desired, &observed, &request);
    assert!(plan.steps.is_empty(), "{:?}", steps(&plan));
    assert!(problems(&plan)[0].starts_with("its template is being made just now"), "{:?}", problems(&plan));
}

#[test]
fn what_is_being_made_is_waited_for() {
    let desired = managed(1, 0);
    let mut observed = bare();
    put(&mut observed, in_the_making());
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty() && plan.later.iter().any(|intent| intent.step == "clone"));
    let wait = Waiting::InFlight { vmid: id(9000), host: host("pve1"), lock: "create".to_owned() };
    assert_eq!(plan.waiting, [wait]);
    // What is asked for is the template alone: approving the plan approves building it, if it is not that one.
    let plan = planned(&desired, &observed, &request(Goal::Templates));
    assert!(plan.steps.is_empty() && plan.later.iter().any(|intent| intent.step == "build-template"));
}

#[test]
fn without_import_it_boots_from_the_iso() {
    let desired = managed(1, 0);
    let mut observed = bare();
    for storage in observed.storages.iter_mut().filter(|storage| storage.id.as_str() == "local") {
        storage.content = BTreeSet::from(["iso".to_owned()]);
    }
    let plan = planned(&desired, &observed, &Request::default());
    let create = plan.steps.iter().find(|step| step.step.word() == "create").unwrap();
    let Step::CreateVm { set, .. } = &create.step else { panic!() };
    let iso = "talmox-talos-1.13.9-376567988ad3-nocloud-amd64.iso";
    assert_eq!(
        (set["scsi0"].as_str(), set["ide2"].clone()),
        ("local-zfs:100", format!("local:iso/{iso},media=cdrom"))
    );
    let Step::ConfigureVm { set, .. } =
        &plan.steps.iter().find(|step| step.step.word() == "configure").unwrap().step
    else {
        panic!()
    };
    assert_eq!(
        (set["boot"].as_str(), set["ide0"].as_str()),
        ("order=scsi0;ide2;net0", "local-zfs:cloudinit,media=cdrom")
    );
    assert!(
        plan.notes
            .iter()
            .any(|note| note.kind == NoteKind::Placement && note.text.contains("boots from the ISO"))
    );
    // An old Proxmox cannot fetch images either.
    let mut old = bare();
    old.version = "8.3.5".to_owned();
    let plan = planned(&desired, &old, &Request::default());
    assert!(plan.steps.iter().any(|step| step.step.word() == "create"));
    // Nothing takes ISOs: that is refused, with what is missing where.
    for storage in &mut observed.storages {
        storage.content.remove("iso");
    }
    let plan = planned(&desired, &observed, &Request::default());
    let reason = "there is no host for it: pve1 has no storage that takes import content (pvesm set STORAGE --content …,import); pve2 has no storage that takes import content (pvesm set STORAGE --content …,import)";
    assert_eq!(problems(&plan), [reason]);
}

#[test]
fn a_disk_can_be_a_copy_of_the_image_itself() {
    let mut desired = managed(1, 0);
    desired.nodes[0].vm.boot = Boot::Import;
    let plan = planned(&desired, &bare(), &Request::default());
    let create = plan.steps.iter().find(|step| step.step.word() == "create").unwrap();
    let Step::CreateVm { set, .. } = &create.step else { panic!() };
    assert_eq!(set["scsi0"], format!("local-zfs:0,import-from=local:import/{FILE}"));
    assert!(steps(&plan).iter().any(|step| step.starts_with("cp-1/grow-disk-scsi0")));
}

#[test]
fn thick_lvm_gets_full_clones_from_elsewhere() {
    let mut desired = managed(1, 0);
    desired.nodes[0].vm.storage = storage("thick");
    let mut observed = bare();
    observed.storages.push(Storage { kind: "lvm".to_owned(), ..seen_storage("thick", "pve1") });
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(clones(&plan), ["2000 on pve1 from 9000 on pve1, full"]);
    // Files are made as qcow2, so that clones can stand on them.
    desired.nodes[0].vm.storage = storage("files");
    observed.storages.push(files("files", "pve1", &["images"]));
    let plan = planned(&desired, &observed, &Request::default());
    let Some(Step::BuildTemplate { set, .. }) =
        plan.steps.iter().map(|step| &step.step).find(|step| step.word() == "build-template")
    else {
        panic!()
    };
    assert_eq!(set["scsi0"], format!("files:0,import-from=local:import/{FILE},format=qcow2"));
    assert_eq!(clones(&plan), ["2000 on pve1 from 9000 on pve1, linked"]);
}

#[test]
fn templates_alone_and_changed_in_place() {
    let desired = managed(1, 0);
    let wanted = managed_template(&desired, &desired.nodes[0]);
    let mut observed = bare();
    put(&mut observed, built(&wanted, 9000, "pve1"));
    put(&mut observed, built(&wanted, 9001, "pve2"));
    assert!(planned(&desired, &observed, &request(Goal::Templates)).is_empty());
    let mut changed = managed(0, 0);
    let mut described = Template { owner: Some(UID.to_owned()), ..wanted };
    described.options.insert("vga".to_owned(), "serial0".to_owned());
    described.options.remove("agent");
    changed.templates = vec![described];
    let plan = planned(&changed, &observed, &request(Goal::Templates));
    assert_eq!(steps(&plan), ["configure-template-9000 change_live", "configure-template-9001 change_live"]);
    assert_eq!(
        changes(&plan)[..2],
        ["tags - -> schematic-376567988ad3;talmox;talos-1.13.9 now", "vga - -> serial0 now"]
    );
    let Step::ConfigureTemplate { delete, .. } = &plan.steps[0].step else { panic!() };
    assert_eq!(delete.iter().collect::<Vec<_>>(), ["agent"]);
    // Another image is built beside it.
    changed.templates[0].image.file = "talmox-other.qcow2".to_owned();
    let plan = planned(&changed, &observed, &request(Goal::Templates));
    assert!(steps(&plan).iter().any(|step| step.starts_with("build-template-9002")));
}

#[test]
fn a_changed_template_keeps_the_address_of_its_interface() {
    let desired = managed(1, 0);
    let mut wanted = managed_template(&desired, &desired.nodes[0]);
    wanted.options.insert("net0".to_owned(), "virtio,bridge=vmbr0,mtu=1500".to_owned());
    let mut observed = bare();
    let mut guest = built(&wanted, 9000, "pve1");
    let Seen::Read(seen) = &mut guest.config else { panic!() };
    for config in [&mut seen.live, &mut seen.next] {
        config.set("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0,mtu=1500");
    }
    put(&mut observed, guest);
    observed.hosts.remove(&host("pve2"));
    wanted.options.insert("memory".to_owned(), "4096".to_owned());
    let described = Desired { templates: vec![wanted], ..managed(0, 0) };
    let plan = planned(&described, &observed, &request(Goal::Templates));
    let Step::ConfigureTemplate { set, .. } = &plan.steps[0].step else { panic!("{plan:?}") };
    assert_eq!(set["net0"], "virtio=BC:24:11:00:00:01,bridge=vmbr0,mtu=1500");
    assert!(!changes(&plan).iter().any(|change| change.starts_with("net0")), "{:?}", changes(&plan));
}

#[test]
fn an_image_of_an_earlier_address_goes_though_the_name_stays() {
    let desired = managed(1, 0);
    let base = managed_template(&desired, &desired.nodes[0]);
    let described = |file: &str| {
        let mut template = Template { owner: Some("ProxmoxTemplate/x".to_owned()), ..base.clone() };
        template.name = "x".to_owned();
        template.image.file = file.to_owned();
        template
    };
    let (old, new) = (described("talmox-x-0000000000aa.qcow2"), described("talmox-x-0000000000bb.qcow2"));
    let mut observed = bare();
    put(&mut observed, built(&old, 9000, "pve1"));
    put(&mut observed, built(&new, 9001, "pve1"));
    for guest in observed.guests.values_mut() {
        let Seen::Read(seen) = &mut guest.config else { panic!() };
        let text = seen.live.description().unwrap().replace(UID, "ProxmoxTemplate/x");
        seen.live.set("description", &text);
    }
    let seen = |file: &str| SeenFile {
        volume: VolumeId::new(storage("local"), &format!("import/{file}")).unwrap(),
        size: 1,
    };
    let all = vec![seen(&old.image.file), seen(&new.image.file)];
    observed.files.insert((host("pve1"), storage("local")), all);
    observed.depth = talmox_plan::Depth::Everything;
    let wanted = Desired { templates: vec![new], ..managed(0, 0) };
    let plan = planned(&wanted, &observed, &request(Goal::PruneTemplates));
    assert_eq!(
        steps(&plan),
        ["remove-template-9000 destroy", "remove-image-pve1-local-talmox-x-0000000000aa.qcow2 destroy"]
    );
}

/// Two templates of a version nobody wants any more, one of them with a clone, one of another's, and their images.
fn stale() -> (Desired, Observed) {
    let desired = managed(1, 0);
    let mut old = desired.clone();
    old.talos.version = Version::parse("1.12.4").unwrap();
    let template = managed_template(&old, &old.nodes[0]);
    let mut observed = bare();
    put(&mut observed, built(&template, 9000, "pve1"));
    put(&mut observed, built(&template, 9001, "pve2"));
    put(&mut observed, built(&managed_template(&desired, &desired.nodes[0]), 9002, "pve1"));
    let mut foreign = built(&template, 9003, "pve1");
    foreign.name = Some("other".to_owned());
    put(&mut observed, foreign);
    edit(&mut observed, 9003, |config| {
        let text = config.description().unwrap().replace(UID, "fedcba9876543210");
        config.set("description", &text);
        config.set("name", "other");
    });
    let clone = [("scsi0", "local-zfs:base-9001-disk-0/vm-300-disk-0,size=8G".to_owned())];
    put(&mut observed, stranger(300, "pve2", "clone", clone.into_iter().collect()));
    for (host_name, names) in [
        ("pve1", [FILE, "talmox-talos-1.12.4-376567988ad3-nocloud-amd64.qcow2", "mine.qcow2"]),
        (
            "pve2",
            ["talmox-talos-1.12.4-376567988ad3-nocloud-amd64.qcow2", "talmox-gone-1.qcow2", "ubuntu.qcow2"],
        ),
    ] {
        let seen = names.map(|name| SeenFile {
            volume: VolumeId::parse(&format!("local:import/{name}")).unwrap(),
            size: 1,
        });
        observed.files.insert((host(host_name), storage("local")), seen.into());
    }
    (desired, observed)
}

#[test]
fn only_what_nothing_needs_is_pruned() {
    let (desired, observed) = stale();
    let plan = planned(&desired, &observed, &request(Goal::PruneTemplates));
    assert_eq!(
        steps(&plan),
        ["remove-template-9000 destroy", "remove-image-pve2-local-talmox-gone-1.qcow2 destroy"]
    );
    assert_eq!(plan.steps[0].destroys.len(), 1);
    let notes: Vec<&str> = plan.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(
        notes,
        [
            "template talos-1.12.4-376567988ad3 (9001) on pve2 stays: the disks of 300 stand on it",
            "template other (9003) on pve1 was built for fedcba9876543210: left alone",
        ]
    );
    assert!(
        planned(&desired, &observed, &Request::default())
            .steps
            .iter()
            .all(|step| step.effect == Effect::Create)
    );
}

#[test]
fn all_of_ours_go_if_asked_but_for_those_something_stands_on() {
    let (desired, observed) = stale();
    let all = Request { prune: true, ..request(Goal::PruneTemplates) };
    let plan = planned(&desired, &observed, &all);
    assert_eq!(
        steps(&plan),
        [
            "remove-template-9000 destroy".to_owned(),
            "remove-template-9002 destroy".to_owned(),
            format!("remove-image-pve1-local-{FILE} destroy"),
            "remove-image-pve2-local-talmox-gone-1.qcow2 destroy".to_owned(),
        ]
    );
}

#[test]
fn plans_that_would_harm_templates_are_refused() {
    let (desired, observed) = stale();
    let prune = request(Goal::PruneTemplates);
    let good = planned(&desired, &observed, &prune);
    let broken = |observed: &Observed, request: &Request, change: &dyn Fn(&mut Plan)| -> Vec<Rule> {
        let mut plan = good.clone();
        change(&mut plan);
        let rules: BTreeSet<Rule> =
            check(&plan, &desired, observed, request).into_iter().map(|violation| violation.rule).collect();
        rules.into_iter().collect()
    };
    let keep = |_: &mut Plan| {};
    assert_eq!(broken(&observed, &prune, &keep), []);
    assert_eq!(broken(&observed, &Request::default(), &keep), [Rule::AskedFor]);
    assert_eq!(broken(&observed, &prune, &|plan| plan.steps[0].destroys.clear()), [Rule::Volumes]);
    let retarget = |plan: &mut Plan, vmid: u32| {
        let Step::RemoveTemplate { template } = &mut plan.steps[0].step else { panic!() };
        template.mark.vmid = id(vmid);
    };
    assert!(broken(&observed, &prune, &|plan| retarget(plan, 9001)).contains(&Rule::OursOnly));
    assert!(broken(&observed, &prune, &|plan| retarget(plan, 300)).contains(&Rule::OursOnly));
    let mut running = observed.clone();
    let guest = running.guests.get_mut(&id(9000)).unwrap();
    (guest.template, guest.power) = (false, Power::Running);
    assert_eq!(broken(&running, &prune, &keep), [Rule::OursOnly]);
    let mut cloned = observed.clone();
    edit(&mut cloned, 300, |config| {
        config.set("scsi1", "local-zfs:base-9000-disk-0/vm-300-disk-1,size=8G");
    });
    assert_eq!(broken(&cloned, &prune, &keep), [Rule::Volumes]);
    let other_file = |plan: &mut Plan| {
        let Step::RemoveImage { volume, .. } = &mut plan.steps[1].step else { panic!() };
        *volume = VolumeId::parse("local:import/ubuntu.qcow2").unwrap();
    };
    assert_eq!(broken(&observed, &prune, &other_file), [Rule::OursOnly]);
    let mut shallow = observed.clone();
    shallow.depth = talmox_plan::Depth::Candidates;
    assert_eq!(broken(&shallow, &prune, &keep), [Rule::OursOnly]);
}

#[test]
fn a_vm_stays_until_there_is_what_another_is_made_from() {
    let desired = managed(1, 1);
    let mut observed = converged(&desired);
    observed.guests.retain(|_, guest| !guest.template);
    observed.storages = bare().storages;
    let request = Request { replace: [name("w-1")].into(), ..Request::default() };
    let mut plan = planned(&desired, &observed, &request);
    let all = steps(&plan);
    let stop = all.iter().find(|step| step.starts_with("w-1/stop")).unwrap();
    assert_eq!(stop, "w-1/stop stop after convert-template-9000");
    let stop = plan.steps.iter_mut().find(|step| step.id.as_str() == "w-1/stop").unwrap();
    stop.needs.clear();
    let violations = check(&plan, &desired, &observed, &request);
    assert!(
        violations.iter().any(|found| found.problem.contains("which another is made from")),
        "{violations:?}"
    );
}
