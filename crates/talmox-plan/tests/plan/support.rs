//! Clusters and what is seen of them, made by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_plan::{
    Class, Depth, Guest, GuestConfig, GuestKind, Host, Nonce, Observed, Plan, Power, Request, Rights, Seen,
    SeenPool, Storage, Violation, boot_iso, check, identify, plan,
};
use talmox_pve::property::VmConfig;
use talmox_pve::render::{Circumstances, vm_config};
use talmox_types::desired::*;
use talmox_types::*;

pub(crate) const UID: &str = "0123456789abcdef";

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::parse(text).unwrap()
}

pub(crate) fn id(number: u32) -> VmId {
    VmId::try_from(number).unwrap()
}

pub(crate) fn host(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

pub(crate) fn storage(text: &str) -> StorageId {
    StorageId::parse(text).unwrap()
}

pub(crate) fn mark(node: &str, vmid: u32) -> Mark {
    let (uid, cluster) = (ClusterUid::parse(UID).unwrap(), ClusterName::parse("lab").unwrap());
    Mark::new(uid, cluster, name(node), id(vmid), "aaaa0001")
}

/// Control planes `cp-1` and so on, then workers `w-1` and so on.
pub(crate) fn desired(control_planes: u8, workers: u8) -> Desired {
    let numbered =
        |prefix: &'static str, count: u8| (1..=count).map(move |number| format!("{prefix}-{number}"));
    let all = numbered("cp", control_planes).chain(numbered("w", workers));
    let nodes = all.enumerate().map(|(index, name)| node(&name, u8::try_from(index).unwrap())).collect();
    let pair = |text: &str| FamilyPair::one(text.parse::<IpAddr>().unwrap());
    let cidr = |text: &str| FamilyPair::one(Cidr::parse(text).unwrap());
    Desired {
        name: ClusterName::parse("lab").unwrap(),
        uid: Some(ClusterUid::parse(UID).unwrap()),
        proxmox: proxmox(),
        network: Network {
            node_cidr: cidr("10.0.7.0/24"),
            gateway: pair("10.0.7.1"),
            dns_servers: vec!["10.0.7.1".parse().unwrap()],
            ntp_servers: Vec::new(),
            guest_vlan: None,
            vip: None,
            endpoint: "https://10.0.7.10:6443".to_owned(),
            api_tls_sans: Vec::new(),
            pod_cidr: cidr("10.244.0.0/16"),
            service_cidr: cidr("10.96.0.0/12"),
            node_ip_subnets: Vec::new(),
            etcd_subnets: Vec::new(),
            routes: Vec::new(),
        },
        talos: talos(),
        kubernetes: kubernetes(),
        templates: Vec::new(),
        nodes,
    }
}

fn proxmox() -> Proxmox {
    Proxmox {
        endpoints: Vec::new(),
        api_token: None,
        ca_file: None,
        fingerprints: Vec::new(),
        insecure: false,
        hosts: Vec::new(),
        pool: Some(PoolName::parse("talmox-lab").unwrap()),
        image_storage: None,
        iso_storage: storage("local"),
        seed_storage: None,
        vmid_range: VmIdRange { start: id(2000), end: id(2099) },
        template_vmid_range: VmIdRange { start: id(9000), end: id(9099) },
        placement: PlacementPolicy {
            reserve_memory: 2048,
            cpu_overcommit: Ratio::parse("4").unwrap(),
            storage_overcommit: Ratio::parse("4").unwrap(),
        },
        control_plane_spread: Spread::Preferred,
        ignore_drift: Vec::new(),
    }
}

fn talos() -> Talos {
    Talos {
        version: Version::parse("1.13.9").unwrap(),
        contract: Contract::parse("1.13").unwrap(),
        schematic: Schematic::default(),
        factory_url: "https://factory.example".to_owned(),
        install_images: BTreeMap::new(),
        config_delivery: ConfigDelivery::Maintenance,
        secrets_file: None,
        etcd_backup: None,
        extension_services: Vec::new(),
    }
}

fn kubernetes() -> Kubernetes {
    Kubernetes {
        version: Version::parse("1.36.3").unwrap(),
        cni: Cni::Flannel,
        kube_proxy: true,
        allow_scheduling_on_control_planes: false,
        bootstrap_manifests: Vec::new(),
        post_bootstrap: Vec::new(),
        registry_mirrors: BTreeMap::new(),
        kubespan: false,
        dns_domain: "cluster.local".to_owned(),
        discovery: true,
        kubeprism: true,
        provider_id: ProviderId::None,
        region: None,
    }
}

fn node(text: &str, index: u8) -> Node {
    Node {
        name: name(text),
        role: if text.starts_with("cp") { Role::Controller } else { Role::Worker },
        position: u32::from(index) + 1,
        pool: None,
        address: NodeAddress::Declared(FamilyPair::one(IpAddr::from([10, 0, 7, 11 + index]))),
        vm: vm(index),
        install_disk: "/dev/sda".to_owned(),
        schematic_id: None,
        disk_encryption: DiskEncryption::None,
        kernel_modules: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        taints: Vec::new(),
        patches: Vec::new(),
    }
}

fn vm(index: u8) -> Vm {
    Vm {
        id: None,
        host: None,
        cores: 4,
        sockets: 1,
        memory: 8192,
        balloon: 0,
        numa: true,
        cpu_type: "host".to_owned(),
        machine: MachineType::Q35,
        bios: Bios::Ovmf,
        os_type: "l26".to_owned(),
        scsi_hw: ScsiController::VirtioScsiPci,
        agent: true,
        tags: vec![Tag::parse("talos").unwrap()],
        boot: Boot::Template,
        template: Some(TemplateRef::Name("talos-1.13.9".to_owned())),
        secure_boot: false,
        tpm: false,
        cloud_init: true,
        network_mode: NetworkMode::Static,
        storage: storage("local-zfs"),
        disk_size: 100,
        disk_options: DiskOptions { discard: true, ssd: true, backup: false, replicate: false },
        extra_disks: Vec::new(),
        nics: vec![Nic {
            slot: 0,
            mac: MacAddress::in_proxmox_prefix([0, 7, index]),
            mac_derived: true,
            bridge: BridgeName::parse("vmbr0").unwrap(),
            vlan: None,
            mtu: None,
            queues: 4,
            firewall: false,
            addresses: Vec::new(),
        }],
        pci: Vec::new(),
        startup: Startup { order: 4, up: 15, down: 60 },
        on_boot: None,
        protection: false,
        ha_managed: false,
        disk_bus: talmox_types::desired::DiskBus::Scsi,
        drift: std::collections::BTreeMap::new(),
        power: desired::Power::Running,
    }
}

/// Every privilege a plan may ask for, everywhere.
pub(crate) fn everything() -> Rights {
    let all = [
        "VM.Allocate",
        "VM.Audit",
        "VM.Clone",
        "VM.Migrate",
        "VM.PowerMgmt",
        "VM.Config.CDROM",
        "VM.Config.CPU",
        "VM.Config.Cloudinit",
        "VM.Config.Disk",
        "VM.Config.HWType",
        "VM.Config.Memory",
        "VM.Config.Network",
        "VM.Config.Options",
        "Datastore.Allocate",
        "Datastore.AllocateSpace",
        "Datastore.AllocateTemplate",
        "Datastore.Audit",
        "Mapping.Use",
        "Pool.Allocate",
        "Pool.Audit",
        "SDN.Use",
        "Sys.AccessNetwork",
        "Sys.Audit",
        "Sys.Console",
        "Sys.Modify",
    ];
    Rights::everywhere("talmox@pve!ci", all)
}

/// Two hosts with a template each, and nothing else.
pub(crate) fn empty() -> Observed {
    let mut observed = Observed {
        version: "9.2.11".to_owned(),
        rights: everything(),
        depth: Depth::Everything,
        ..Observed::default()
    };
    for (number, host_name) in ["pve1", "pve2"].into_iter().enumerate() {
        let online = Host { online: true, ..Host::default() };
        observed.hosts.insert(host(host_name), online);
        observed.storages.push(seen_storage("local-zfs", host_name));
        let template = template(9000 + u32::try_from(number).unwrap(), host_name);
        observed.guests.insert(template.vmid, template);
    }
    observed
}

pub(crate) fn seen_storage(name: &str, host_name: &str) -> Storage {
    Storage {
        id: storage(name),
        host: host(host_name),
        kind: "zfspool".to_owned(),
        shared: false,
        available: true,
        content: BTreeSet::from(["images".to_owned()]),
        total: 1 << 40,
        used: 0,
    }
}

pub(crate) fn template(vmid: u32, host_name: &str) -> Guest {
    let config = [
        ("name", "talos-1.13.9".to_owned()),
        ("bios", "ovmf".to_owned()),
        ("efidisk0", format!("local-zfs:base-{vmid}-disk-0,efitype=4m,size=1M")),
        ("scsi0", format!("local-zfs:base-{vmid}-disk-1,size=8G")),
        ("scsihw", "virtio-scsi-pci".to_owned()),
        ("net0", "virtio=BC:24:11:FF:FF:01,bridge=vmbr0".to_owned()),
        ("memory", "2048".to_owned()),
        ("ostype", "l26".to_owned()),
        ("template", "1".to_owned()),
        ("smbios1", "uuid=9a7c6bcf-9f0e-4bf0-b3f1-6ee6ff5bd7ca".to_owned()),
    ];
    let mut guest = stranger(vmid, host_name, "talos-1.13.9", config.into_iter().collect());
    guest.template = true;
    guest.power = Power::Stopped;
    guest
}

/// A VM with this configuration, of nobody.
pub(crate) fn stranger(vmid: u32, host_name: &str, name: &str, config: VmConfig) -> Guest {
    Guest {
        vmid: id(vmid),
        host: host(host_name),
        kind: GuestKind::Vm,
        name: Some(name.to_owned()),
        power: Power::Running,
        memory: 2 << 30,
        cpus: 2,
        template: false,
        lock: None,
        tags: BTreeSet::new(),
        pool: None,
        ha: None,
        config: Seen::Read(GuestConfig { live: config.clone(), next: config, digest: "d1".to_owned() }),
    }
}

/// The VM of a node as it is right after everything was done.
pub(crate) fn finished(desired: &Desired, node_name: &str, vmid: u32, host_name: &str) -> Guest {
    let node = desired.nodes.iter().find(|node| node.name.as_str() == node_name).unwrap();
    let NodeAddress::Declared(address) = node.address else { panic!("declared addresses only") };
    let on = Circumstances {
        vmid: id(vmid),
        address,
        mark: Some(mark(node_name, vmid)),
        iso: boot_iso(desired, node).file,
    };
    let config = vm_config(desired, node, &on).unwrap();
    Guest {
        pool: desired.proxmox.pool.clone(),
        tags: BTreeSet::from(["talos".to_owned()]),
        ..stranger(vmid, host_name, node_name, config)
    }
}

/// A cluster that is as described: VMs from 2000 on, on both hosts in turn.
pub(crate) fn converged(desired: &Desired) -> Observed {
    converged_from(desired, 2000)
}

/// The same with VMs from another id on.
pub(crate) fn converged_from(desired: &Desired, first: u32) -> Observed {
    let mut observed = empty();
    for (index, node) in desired.nodes.iter().enumerate() {
        let host_name = ["pve1", "pve2"][index % 2];
        let guest = finished(desired, node.name.as_str(), first + u32::try_from(index).unwrap(), host_name);
        observed.guests.insert(guest.vmid, guest);
    }
    let ours = observed.guests.values().filter(|guest| !guest.template);
    let members = ours.map(|guest| format!("qemu/{}", guest.vmid)).collect();
    let comment = Some(format!("talmox:v1 uid={UID} cluster=lab"));
    observed.pool = Some(SeenPool { name: PoolName::parse("talmox-lab").unwrap(), comment, members });
    observed.depth = Depth::Candidates;
    observed
}

pub(crate) fn nonce() -> Nonce {
    Nonce::new(0xbbbb_0002)
}

/// The plan, which must pass the check.
pub(crate) fn planned(desired: &Desired, observed: &Observed, request: &Request) -> Plan {
    let plan = plan(desired, observed, request, &nonce());
    let violations = check(&plan, desired, observed, request);
    assert_eq!(violations, Vec::<Violation>::new(), "{plan:#?}");
    plan
}

/// The steps as lines: `cp-1/clone create after create-pool`.
pub(crate) fn steps(plan: &Plan) -> Vec<String> {
    let line = |step: &talmox_plan::Planned| {
        let effect = serde_json::to_value(step.effect).unwrap();
        let needs: Vec<&str> = step.needs.iter().map(talmox_plan::StepId::as_str).collect();
        let after = if needs.is_empty() { String::new() } else { format!(" after {}", needs.join(" ")) };
        format!("{} {}{after}", step.id, effect.as_str().unwrap())
    };
    plan.steps.iter().map(line).collect()
}

/// Changes as lines: `memory 8192 -> 16384 after_reboot`.
pub(crate) fn changes(plan: &Plan) -> Vec<String> {
    let line = |change: &talmox_plan::Change| {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let applies = serde_json::to_value(change.applies).unwrap();
        format!("{} {} -> {} {}", change.key, text(&change.old), text(&change.new), applies.as_str().unwrap())
    };
    plan.steps.iter().flat_map(|step| &step.changes).map(line).collect()
}

/// Changes a VM's configuration by hand: now, and for after its next restart.
pub(crate) fn edit(observed: &mut Observed, vmid: u32, edit: impl Fn(&mut VmConfig)) {
    let guest = observed.guests.get_mut(&id(vmid)).unwrap();
    let Seen::Read(seen) = &mut guest.config else { panic!("read") };
    edit(&mut seen.live);
    edit(&mut seen.next);
}

pub(crate) fn class(desired: &Desired, observed: &Observed, vmid: u32) -> Class {
    identify(desired, observed).class(id(vmid)).clone()
}

pub(crate) fn problems(plan: &Plan) -> Vec<String> {
    plan.refusals.iter().map(|refusal| refusal.problem.clone()).collect()
}
