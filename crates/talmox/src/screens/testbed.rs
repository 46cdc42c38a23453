//! Plans made by hand, for the screens to show.

use std::collections::{BTreeMap, BTreeSet};

use talmox_config::{Files, Outcome, read_files};
use talmox_plan::{
    Applies, Change, CloneKind, Effect, Expected, ExpectedTemplate, FileKind, Intent, Note, NoteKind, Plan,
    Planned, Refusal, Step, StepId, TemplateSource, Volume, Waiting,
};
use talmox_pve::property::DiskSize;
use talmox_types::desired::{Compression, Desired, FactorySchematic, Image};
use talmox_types::{ClusterUid, HostName, Mark, NodeName, StorageId, TemplateMark, VmId};

pub(crate) fn homelab() -> (Outcome, Desired) {
    let cluster = include_str!("testbed/cluster.yaml");
    let nodes = include_str!("testbed/nodes.yaml");
    let mut outcome = read_files(Files::from_texts(cluster, Some(nodes)));
    let desired = outcome.desired.take().expect("the example is valid");
    (outcome, desired)
}

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::parse(text).unwrap()
}

pub(crate) fn id(number: u32) -> VmId {
    VmId::try_from(number).unwrap()
}

fn uid() -> ClusterUid {
    ClusterUid::parse("8c1f6a2b90d347e5").unwrap()
}

fn mark(node: &str, vmid: u32) -> Mark {
    Mark::new(uid(), "homelab".parse().unwrap(), name(node), id(vmid), "1a2b3c4d")
}

pub(crate) fn vm(node: &str, vmid: u32) -> Expected {
    Expected { host: "pve".parse().unwrap(), mark: mark(node, vmid) }
}

pub(crate) fn empty() -> Plan {
    Plan {
        cluster: "homelab".parse().unwrap(),
        uid: Some(uid()),
        steps: Vec::new(),
        later: Vec::new(),
        waiting: Vec::new(),
        refusals: Vec::new(),
        notes: Vec::new(),
    }
}

pub(crate) fn planned(node: Option<&str>, step: Step, effect: Effect, reason: &str) -> Planned {
    let node = node.map(name);
    Planned {
        id: StepId::new(node.as_ref(), step.word()),
        needs: Vec::new(),
        node,
        step,
        reason: reason.to_owned(),
        effect,
        changes: Vec::new(),
        destroys: Vec::new(),
    }
}

pub(crate) fn change(
    key: &str,
    old: Option<&str>,
    new: Option<&str>,
    applies: Applies,
    field: &str,
) -> Change {
    let text = |value: Option<&str>| value.map(str::to_owned);
    let field = (!field.is_empty()).then(|| field.to_owned());
    Change { key: key.to_owned(), old: text(old), new: text(new), applies, field, sub: Vec::new() }
}

pub(crate) fn clone_step(node: &str, vmid: u32) -> Planned {
    let template =
        TemplateSource { vmid: id(9000), host: "pve".parse().unwrap(), name: "talos-1.13.9".to_owned() };
    let pool = "talmox-homelab".parse().ok();
    let step = Step::CloneVm {
        host: "pve".parse().unwrap(),
        mark: mark(node, vmid),
        template,
        clone: CloneKind::Linked,
        pool,
    };
    planned(Some(node), step, Effect::Create, "there is no VM for it")
}

pub(crate) fn configure(node: &str, vmid: u32, changes: Vec<Change>) -> Planned {
    let step = Step::ConfigureVm {
        vm: vm(node, vmid),
        set: BTreeMap::new(),
        delete: BTreeSet::new(),
        drives: BTreeMap::new(),
        witness: false,
        digest: None,
    };
    Planned { changes, ..planned(Some(node), step, Effect::ChangeLive, "its configuration differs") }
}

pub(crate) fn start(node: &str, vmid: u32) -> Planned {
    planned(Some(node), Step::StartVm { vm: vm(node, vmid) }, Effect::Start, "it does not run")
}

fn remove(node: &str, vmid: u32, effect: Effect, disks: &[(&str, &str, Option<&str>)]) -> Planned {
    let step = Step::RemoveVm {
        vm: vm(node, vmid),
        detach: BTreeSet::new(),
        purges: vec![format!("HA resource vm:{vmid}"), "backup job nightly".to_owned()],
    };
    let volume = |(slot, volume, size): &(&str, &str, Option<&str>)| Volume {
        slot: slot.parse().unwrap(),
        volume: volume.parse().unwrap(),
        size: size.map(|size| DiskSize::parse(size).unwrap()),
    };
    Planned {
        destroys: disks.iter().map(volume).collect(),
        ..planned(Some(node), step, effect, "it was asked for")
    }
}

fn stop(node: &str, vmid: u32, effect: Effect) -> Planned {
    let step = Step::StopVm { vm: vm(node, vmid), timeout: 120 };
    planned(Some(node), step, effect, "it was asked for")
}

fn note(node: Option<&str>, kind: NoteKind, text: &str) -> Note {
    Note { node: node.map(name), kind, text: text.to_owned() }
}

/// Six VMs where nothing is.
pub(crate) fn from_nothing() -> Plan {
    let pool = Step::CreatePool { pool: "talmox-homelab".parse().unwrap(), comment: "talmox".to_owned() };
    let mut plan = empty();
    plan.steps.push(planned(None, pool, Effect::Create, "the VMs live in it"));
    for (index, node) in ["cp-1", "cp-2", "cp-3", "worker-1", "worker-2", "worker-3"].into_iter().enumerate()
    {
        let vmid = 2000 + u32::try_from(index).unwrap();
        plan.steps.push(clone_step(node, vmid));
        let changes = vec![change("memory", None, Some("8192"), Applies::Now, "vm_memory")];
        plan.steps.push(Planned { effect: Effect::Create, ..configure(node, vmid, changes) });
        plan.steps.push(start(node, vmid));
    }
    for node in ["cp-2", "cp-3"] {
        plan.notes.push(note(Some(node), NoteKind::Placement, "same host as cp-1 (only one host)"));
    }
    plan.notes.push(note(None, NoteKind::LeftOut, "start order is left unset: Sys.Modify is missing on /"));
    plan
}

/// A live change, a pending one that restarts, one that waits, a grown disk, a start.
pub(crate) fn changes() -> Plan {
    let mut plan = empty();
    let memory = change("memory", Some("16384"), Some("24576"), Applies::AfterReboot, "vm_memory");
    let tags = change("tags", Some("talos"), Some("kubernetes;talos"), Applies::Now, "tags");
    plan.steps
        .push(Planned { effect: Effect::ChangePending, ..configure("worker-2", 2004, vec![memory, tags]) });
    let reboot = Step::RebootVm { vm: vm("worker-2", 2004), timeout: 120 };
    plan.steps.push(planned(Some("worker-2"), reboot, Effect::Reboot, "so that memory takes effect"));
    let old = "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=7";
    let new = "virtio=BC:24:11:00:00:01,bridge=vmbr1,tag=7";
    let cores = change("cores", Some("2"), Some("4"), Applies::AfterReboot, "vm_cores");
    let net = change("net0", Some(old), Some(new), Applies::Now, "network_bridge");
    plan.steps.push(Planned { effect: Effect::ChangePending, ..configure("cp-1", 2000, vec![net, cores]) });
    let grow = Step::GrowDisk {
        vm: vm("worker-1", 2003),
        slot: "scsi0".parse().unwrap(),
        to: DiskSize::from_gib(200),
    };
    let size = change("scsi0", Some("100G"), Some("200G"), Applies::Now, "vm_disk_size");
    plan.steps.push(Planned {
        changes: vec![size],
        ..planned(Some("worker-1"), grow, Effect::ChangeLive, "the disk is smaller than described")
    });
    plan.steps.push(start("worker-3", 2005));
    plan.later.push(Intent {
        node: Some(name("worker-1")),
        step: "reboot".to_owned(),
        effect: Effect::Reboot,
        reason: "so that what is pending takes effect".to_owned(),
    });
    plan.waiting.push(Waiting::Reboot { node: name("cp-1"), vmid: id(2000), keys: vec!["cores".to_owned()] });
    plan
}

/// One VM built anew, one gone from the description that was asked to be removed.
pub(crate) fn replace_and_remove() -> Plan {
    let mut plan = empty();
    plan.steps.push(stop("worker-2", 2004, Effect::Replace));
    let disks = [
        ("efidisk0", "local-zfs:vm-2004-disk-0", Some("1M")),
        ("scsi0", "local-zfs:vm-2004-disk-1", Some("200G")),
    ];
    plan.steps.push(remove("worker-2", 2004, Effect::Replace, &disks));
    plan.steps.push(clone_step("worker-2", 2006));
    plan.steps.push(stop("old-worker", 2007, Effect::Stop));
    plan.steps.push(remove(
        "old-worker",
        2007,
        Effect::Destroy,
        &[("scsi0", "local-zfs:vm-2007-disk-1", None)],
    ));
    plan
}

fn template_mark(vmid: u32) -> TemplateMark {
    let line = format!(
        "talmox-template:v1 owner=8c1f6a2b90d347e5 image=00000000000000aa settings=00000000000000bb vmid={vmid} incarnation=1a2b3c4d"
    );
    TemplateMark::parse(&line).unwrap()
}

fn expected_template(name: &str, vmid: u32) -> ExpectedTemplate {
    ExpectedTemplate { name: name.to_owned(), host: "pve".parse().unwrap(), mark: template_mark(vmid) }
}

/// Some with the number of their VM in their id, as there may be several of a kind.
fn numbered(part: &str, planned: Planned) -> Planned {
    let id = StepId::new(None, &format!("{}-{part}", planned.step.word()));
    Planned { id, ..planned }
}

/// A template from the factory, one from elsewhere with a packed image, one that was interrupted, one that changes.
pub(crate) fn templates() -> Plan {
    let mut plan = empty();
    let mut push = |part: &str, step: Step, effect: Effect, reason: &str| {
        plan.steps.push(numbered(part, planned(None, step, effect, reason)));
    };
    let id = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";
    let schematic = FactorySchematic {
        factory: "https://factory.talos.dev".to_owned(),
        id: id.parse().unwrap(),
        body: "{}\n".to_owned(),
        talos: "1.13.9".parse().unwrap(),
        extensions: vec!["siderolabs/qemu-guest-agent".to_owned()],
    };
    push(
        "ce4c980550dd",
        Step::RegisterSchematic { schematic: schematic.clone() },
        Effect::Create,
        "the factory makes images of schematics it knows",
    );
    let talos = Image {
        url: format!("https://factory.talos.dev/image/{id}/v1.13.9/nocloud-amd64.qcow2"),
        file: "talmox-talos-1.13.9-ce4c980550dd-nocloud-amd64.qcow2".to_owned(),
        checksum: None,
        compression: None,
        schematic: Some(schematic),
    };
    let other = Image {
        url: "http://images.lan/base.raw.xz".to_owned(),
        file: "talmox-base-0123456789ab.raw".to_owned(),
        checksum: "md5:d41d8cd98f00b204e9800998ecf8427e".parse().ok(),
        compression: Some(Compression::Xz),
        schematic: None,
    };
    for (number, (image, name)) in
        [(talos, "talos-1.13.9-ce4c980550dd"), (other, "base")].into_iter().enumerate()
    {
        let vmid = 9000 + u32::try_from(number).unwrap();
        let file = format!("local:import/{}", image.file);
        let (host, storage): (HostName, StorageId) = ("pve".parse().unwrap(), "local".parse().unwrap());
        push(
            &format!("pve-local-{}", image.file),
            Step::FetchImage { host: host.clone(), storage, content: FileKind::Import, image },
            Effect::Create,
            "it is not there",
        );
        let build = Step::BuildTemplate {
            host,
            mark: template_mark(vmid),
            name: name.to_owned(),
            image: file.parse().unwrap(),
            storage: "local-zfs".parse().unwrap(),
            set: BTreeMap::new(),
            notes: None,
            pool: None,
        };
        push(&vmid.to_string(), build, Effect::Create, "none of its image is on that host and storage");
        let convert = Step::ConvertTemplate { template: expected_template(name, vmid) };
        push(&vmid.to_string(), convert, Effect::Create, "VMs are cloned from templates only");
    }
    let finish = Step::ConvertTemplate { template: expected_template("half", 9005) };
    push("9005", finish, Effect::Create, "its making was interrupted");
    let configure = Step::ConfigureTemplate {
        template: expected_template("ubuntu", 9006),
        set: BTreeMap::new(),
        delete: BTreeSet::new(),
        mark: template_mark(9006),
    };
    push("9006", configure, Effect::ChangeLive, "its description has changed");
    if let Some(last) = plan.steps.last_mut() {
        last.changes = vec![
            change("memory", Some("1024"), Some("2048"), Applies::Now, ""),
            change("vga", Some("serial0"), None, Applies::Now, ""),
        ];
    }
    plan.notes.push(note(None, NoteKind::Placement, "base is left out: pve9 has no storage local-zfs"));
    plan
}

/// What nothing asks for any more.
pub(crate) fn prune() -> Plan {
    let mut plan = empty();
    let step = Step::RemoveTemplate { template: expected_template("talos-1.12.4-ce4c980550dd", 9002) };
    let volume = Volume {
        slot: "scsi0".parse().unwrap(),
        volume: "local-zfs:base-9002-disk-0".parse().unwrap(),
        size: DiskSize::parse("8G").ok(),
    };
    let removal = planned(None, step, Effect::Destroy, "nothing in the description asks for it");
    plan.steps.push(numbered("9002", Planned { destroys: vec![volume], ..removal }));
    let volume = "local:import/talmox-talos-1.12.4-ce4c980550dd-nocloud-amd64.qcow2".parse().unwrap();
    let step = Step::RemoveImage { host: "pve".parse().unwrap(), volume };
    let removal = planned(None, step, Effect::Destroy, "no template of ours is made from it");
    plan.steps.push(numbered("pve-local-talos", removal));
    plan.notes.push(note(
        None,
        NoteKind::Warning,
        "template talos-1.12.1-ce4c980550dd (9001) on pve stays: the disks of 2004 stand on it",
    ));
    plan
}

/// Everything of the cluster goes.
pub(crate) fn destroy() -> Plan {
    destroy_as(2000)
}

/// The same with VMs from another id on.
pub(crate) fn destroy_as(first: u32) -> Plan {
    let mut plan = empty();
    for (index, node) in ["cp-1", "worker-1"].into_iter().enumerate() {
        let vmid = first + u32::try_from(index).unwrap();
        plan.steps.push(stop(node, vmid, Effect::Stop));
        let disk = format!("local-zfs:vm-{vmid}-disk-1");
        plan.steps.push(remove(node, vmid, Effect::Destroy, &[("scsi0", &disk, Some("100G"))]));
    }
    let pool = Step::DeletePool { pool: "talmox-homelab".parse().unwrap(), comment: "talmox".to_owned() };
    plan.steps.push(planned(None, pool, Effect::Destroy, "nothing is left in it"));
    plan
}

/// What is not ours, or not now.
pub(crate) fn remarks() -> Plan {
    let mut plan = empty();
    plan.notes = vec![
        note(
            Some("old-worker"),
            NoteKind::Undeclared,
            "2007 on pve is not in the description, left alone (--remove old-worker)",
        ),
        note(Some("cp-1"), NoteKind::Copy, "VM 3001 on pve is a copy of cp-1, left alone"),
        note(Some("worker-1"), NoteKind::Foreign, "scsi5 is not from us, left alone"),
        note(
            Some("worker-2"),
            NoteKind::Ignored,
            "memory 16384 differs from 24576 and is ignored (ignore_drift)",
        ),
        note(None, NoteKind::Warning, "the pool holds VM 123, which is not ours\u{1b}[2J"),
    ];
    plan.waiting = vec![
        Waiting::InFlight { vmid: id(2003), host: "pve".parse().unwrap(), lock: "clone".to_owned() },
        Waiting::Locked {
            node: name("cp-2"),
            vmid: id(2001),
            host: "pve".parse().unwrap(),
            lock: "backup".to_owned(),
        },
        Waiting::HostDown {
            host: "pve".parse().unwrap(),
            nodes: vec![name("cp-3"), name("worker-3")],
            reason: "No route to host".to_owned(),
        },
    ];
    plan
}

/// What cannot be done.
pub(crate) fn refusals() -> Plan {
    let mut plan = changes();
    plan.refusals = vec![
        Refusal {
            node: Some(name("worker-1")),
            problem: "scsi0 cannot shrink from 200 GiB to 100 GiB".to_owned(),
            choices: vec!["set vm_disk_size: 200".to_owned(), "talmox apply --replace worker-1".to_owned()],
        },
        Refusal {
            node: None,
            problem: "VM 2003 on pve has the MAC of worker-1 and no mark".to_owned(),
            choices: vec!["talmox adopt worker-1 --vmid 2003".to_owned()],
        },
    ];
    plan
}
