//! Which privilege is needed where. The one table: feature, privilege, place, and what it is for.
//!
//! `check`, the roles that `check --setup` prints, and the refusals of a plan are made from it, so they cannot disagree.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::NetDevice;
use talmox_types::desired::{Boot, ConfigDelivery, Desired, Node, PciSource, Template, TemplateRef};
use talmox_types::{HostName, PoolName, StorageId, VmId};

use crate::{Guest, GuestKind, Observed, Storage, is_template_in_use, wanted_templates};

/// Options that VM.Config.CPU is asked for, without their numbers.
pub(super) const PROCESSORS: &[&str] =
    &["cores", "sockets", "cpu", "cpulimit", "cpuunits", "numa", "vcpus", "affinity"];

/// The pool templates live in that talmox builds, apart from the clusters' VMs.
pub const TEMPLATES_POOL: &str = "talmox-templates";

/// What there is, as far as paths and privileges depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// `9.2.11`; empty: unknown.
    pub version: &'a str,
    pub hosts: &'a BTreeSet<HostName>,
    pub guests: &'a BTreeMap<VmId, Guest>,
    pub storages: &'a [Storage],
    /// Zones of virtual networks, by the name VMs use like a bridge.
    pub zones: &'a BTreeMap<String, String>,
}

impl<'a> Surroundings<'a> {
    /// Those of a look.
    pub fn of(observed: &'a Observed, hosts: &'a BTreeSet<HostName>) -> Self {
        let Observed { version, guests, storages, zones, .. } = observed;
        Self { version, hosts, guests, storages, zones }
    }
}

/// Lines of Proxmox VE that name privileges differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    Eight,
    Nine,
}

impl Release {
    /// The line of a version such as `8.4.1`; of one that is not known, the newest.
    pub fn of(version: &str) -> Self {
        if version.starts_with("8.") || version == "8" { Self::Eight } else { Self::Nine }
    }
}

/// What a description makes use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Feature {
    /// Looking at Proxmox; every run does.
    Look,
    /// Making, changing, starting and removing VMs; every run does.
    Vms,
    Pool,
    CloudInit,
    StartOrder,
    Agent,
    Mapping,
    /// More hosts than one may carry VMs.
    Moves,
    HighAvailability,
    /// Clones of a template that talmox did not make.
    ForeignTemplate,
    /// Templates that talmox builds.
    OwnTemplate,
    /// Such templates with settings of their processors.
    TemplateProcessors,
    /// Such templates with network devices.
    TemplateNetwork,
    /// Disk images that Proxmox fetches.
    Image,
    /// ISOs that Proxmox fetches.
    Iso,
    /// ISOs with machine configuration.
    Seed,
}

/// Where a privilege is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Root,
    EveryVm,
    /// The pool of the cluster; every VM, where there is none.
    Vms,
    ClusterPool,
    OwnTemplates,
    OwnTemplatesPool,
    TemplateStorages,
    TemplateBridges,
    ForeignTemplates,
    DiskStorages,
    ImageStorage,
    IsoStorage,
    SeedStorage,
    Hosts,
    Bridges,
    Mappings,
}

/// What goes wrong without a privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A run fails.
    Must,
    /// A run does without, and says so.
    Should,
    /// So much power for so little that it is offered and not advised.
    Could,
}

struct Row {
    feature: Feature,
    privilege: &'static str,
    /// Set where only one line of Proxmox knows it.
    only: Option<Release>,
    place: Place,
    weight: Weight,
    why: &'static str,
}

const fn row(
    feature: Feature,
    privilege: &'static str,
    place: Place,
    weight: Weight,
    why: &'static str,
) -> Row {
    Row { feature, privilege, only: None, place, weight, why }
}

const fn row_of(
    release: Release,
    feature: Feature,
    privilege: &'static str,
    place: Place,
    weight: Weight,
    why: &'static str,
) -> Row {
    Row { feature, privilege, only: Some(release), place, weight, why }
}

use Weight::{Could, Must, Should};

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row(Feature::Look, "VM.Audit", Place::EveryVm, Must, "to see which VMs, ids and addresses are taken"),
    row(Feature::Look, "Sys.Audit", Place::Hosts, Should, "memory, processors and clocks of hosts stay unknown without it"),
    row(Feature::Look, "Sys.Audit", Place::Root, Should, "quorum, devices and the data centre's options stay unknown without it"),
    row(Feature::Pool, "Pool.Audit", Place::ClusterPool, Must, "to see the cluster's pool"),
    row(Feature::Vms, "VM.Allocate", Place::Vms, Must, "to make and remove the VMs"),
    row(Feature::Vms, "VM.PowerMgmt", Place::Vms, Must, "to start and stop the VMs"),
    row(Feature::Vms, "VM.Config.CPU", Place::Vms, Must, "to set cores, sockets and the CPU type"),
    row(Feature::Vms, "VM.Config.Memory", Place::Vms, Must, "to set memory and balloon"),
    row(Feature::Vms, "VM.Config.Disk", Place::Vms, Must, "to add and grow disks and to set the boot order"),
    row(Feature::Vms, "VM.Config.Network", Place::Vms, Must, "to set network devices"),
    row(Feature::Vms, "VM.Config.HWType", Place::Vms, Must, "to set machine type, controller, console and SMBIOS identity"),
    row(Feature::Vms, "VM.Config.Options", Place::Vms, Must, "to set name, mark, tags, agent and firmware"),
    row(Feature::CloudInit, "VM.Config.CDROM", Place::Vms, Must, "the cloud-init drive is a CD drive"),
    row(Feature::CloudInit, "VM.Config.Cloudinit", Place::Vms, Must, "the cloud-init drive gives address and name for the first boot"),
    row_of(Release::Eight, Feature::Agent, "VM.Monitor", Place::Vms, Should, "the guest agents cannot be asked without it"),
    row_of(Release::Nine, Feature::Agent, "VM.GuestAgent.Audit", Place::Vms, Should, "the guest agents cannot be asked without it"),
    row(Feature::Vms, "Datastore.Audit", Place::DiskStorages, Must, "to see the storage"),
    row(Feature::Vms, "Datastore.AllocateSpace", Place::DiskStorages, Must, "for the VMs' disks"),
    row(Feature::Vms, "SDN.Use", Place::Bridges, Must, "for the VMs' network devices"),
    row(Feature::Moves, "VM.Migrate", Place::Vms, Should, "VMs cannot be moved to another host without it"),
    row(Feature::Mapping, "Mapping.Use", Place::Mappings, Must, "to see the mapping and to hand its devices to VMs"),
    row(Feature::ForeignTemplate, "VM.Audit", Place::ForeignTemplates, Must, "to see the template"),
    row(Feature::ForeignTemplate, "VM.Clone", Place::ForeignTemplates, Must, "to clone the template"),
    row(Feature::OwnTemplate, "Pool.Audit", Place::OwnTemplatesPool, Must, "to see the pool of templates"),
    row(Feature::OwnTemplate, "VM.Allocate", Place::OwnTemplates, Must, "to build templates and to remove them"),
    row(Feature::OwnTemplate, "VM.Clone", Place::OwnTemplates, Must, "to clone templates"),
    row(Feature::OwnTemplate, "VM.Config.Disk", Place::OwnTemplates, Must, "to set a template's boot order"),
    row(Feature::OwnTemplate, "VM.Config.HWType", Place::OwnTemplates, Must, "to set a template's machine type, controller and console"),
    row(Feature::OwnTemplate, "VM.Config.Memory", Place::OwnTemplates, Must, "to set a template's memory"),
    row(Feature::OwnTemplate, "VM.Config.Options", Place::OwnTemplates, Must, "to set a template's name, mark, tags and agent"),
    row(Feature::Image, "Datastore.Audit", Place::ImageStorage, Must, "to see the images and to import from them"),
    row(Feature::Image, "Datastore.AllocateTemplate", Place::ImageStorage, Must, "to have images put there"),
    row(Feature::Image, "Sys.AccessNetwork", Place::Hosts, Must, "to have the host fetch images by URL"),
    row(Feature::OwnTemplate, "Datastore.Audit", Place::TemplateStorages, Must, "to see the storage"),
    row(Feature::OwnTemplate, "Datastore.AllocateSpace", Place::TemplateStorages, Must, "for the templates' disks"),
    row(Feature::TemplateProcessors, "VM.Config.CPU", Place::OwnTemplates, Must, "to set a template's processors"),
    row(Feature::TemplateNetwork, "VM.Config.Network", Place::OwnTemplates, Must, "to set a template's network devices"),
    row(Feature::TemplateNetwork, "SDN.Use", Place::TemplateBridges, Must, "for the templates' network devices"),
    row(Feature::OwnTemplate, "Datastore.Allocate", Place::ImageStorage, Should, "template prune cannot remove images without it"),
    row(Feature::Iso, "Datastore.Audit", Place::IsoStorage, Must, "to see the ISO and to boot from it"),
    row(Feature::Iso, "Datastore.AllocateTemplate", Place::IsoStorage, Must, "to have the ISO put there"),
    row(Feature::Iso, "Sys.AccessNetwork", Place::Hosts, Must, "to have the host fetch the ISO by URL"),
    row(Feature::Iso, "VM.Config.CDROM", Place::Vms, Must, "to put the ISO into the drive and to eject it"),
    row(Feature::Seed, "VM.Config.CDROM", Place::Vms, Must, "the configuration drive is a CD drive"),
    row(Feature::Seed, "Datastore.Audit", Place::SeedStorage, Must, "to boot with the configuration ISO"),
    row(Feature::Seed, "Datastore.AllocateTemplate", Place::SeedStorage, Must, "to upload the configuration ISO"),
    row(Feature::Seed, "Datastore.Allocate", Place::SeedStorage, Must, "to delete the configuration ISO, which holds secrets"),
    row(Feature::HighAvailability, "Sys.Console", Place::Root, Could, "HA cannot be told of the VMs without it"),
    row(Feature::StartOrder, "Sys.Modify", Place::Root, Could, "the start order is left unset without it"),
];

/// A privilege on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub privilege: &'static str,
    pub path: String,
    /// Paths where it would do as well.
    pub instead: Vec<String>,
    pub weight: Weight,
    pub why: &'static str,
}

/// Every privilege this description needs, each path once for each privilege.
pub fn needs(desired: &Desired, around: &Surroundings<'_>) -> Vec<Need> {
    let release = Release::of(around.version);
    let wanted = wanted_templates(desired);
    let features = features(desired, around, &wanted);
    let rows = TABLE
        .iter()
        .filter(|row| features.contains(&row.feature) && row.only.is_none_or(|only| only == release));
    let mut needs: Vec<Need> = Vec::new();
    for row in rows {
        for (path, instead) in paths(row.place, desired, around, &wanted) {
            let Row { privilege, why, .. } = *row;
            let weight = weight(row, desired, around);
            let mut known = needs.iter_mut();
            match known.find(|need| need.privilege == privilege && need.path == path) {
                // Another feature may need it more.
                Some(known) if known.weight > weight => (known.weight, known.why) = (weight, why),
                Some(_) => {}
                None => needs.push(Need { privilege, path, instead, weight, why }),
            }
        }
    }
    needs
}

/// A cloud-init drive the clone brings along need not be made.
fn weight(row: &Row, desired: &Desired, around: &Surroundings<'_>) -> Weight {
    let has_drive = |guest: &Guest| {
        let disks = guest.seen().map(|seen| seen.next.disks().unwrap_or_default()).unwrap_or_default();
        disks.values().any(talmox_pve::property::Disk::is_cloud_init)
    };
    let cloned = desired.nodes.iter().all(|node| node.vm.template.is_some());
    let mut templates = templates(desired, around.guests).peekable();
    let brought = cloned && templates.peek().is_some() && templates.all(has_drive);
    if row.feature == Feature::CloudInit && brought { Weight::Should } else { row.weight }
}

fn features(desired: &Desired, around: &Surroundings<'_>, wanted: &[Template]) -> BTreeSet<Feature> {
    let vms = || desired.nodes.iter().map(|node| &node.vm);
    let sets = |family: &[&str]| {
        let mut options = wanted.iter().flat_map(|template| template.options.keys());
        options.any(|key| family.contains(&key.trim_end_matches(|c: char| c.is_ascii_digit())))
    };
    let has_mapping =
        vms().flat_map(|vm| &vm.pci).any(|device| matches!(device.source, PciSource::Mapping(_)));
    let all = [
        (Feature::Look, true),
        (Feature::Vms, !desired.nodes.is_empty()),
        (Feature::StartOrder, !desired.nodes.is_empty()),
        (Feature::Pool, desired.proxmox.pool.is_some() && !desired.nodes.is_empty()),
        (Feature::CloudInit, vms().any(|vm| vm.cloud_init)),
        (Feature::Agent, vms().any(|vm| vm.agent)),
        (Feature::Mapping, has_mapping),
        (Feature::Moves, possible_hosts(desired, around).len() > 1),
        (Feature::HighAvailability, vms().any(|vm| vm.ha_managed)),
        (Feature::ForeignTemplate, vms().any(|vm| vm.template.is_some())),
        (Feature::OwnTemplate, !wanted.is_empty()),
        (Feature::TemplateProcessors, sets(PROCESSORS)),
        (Feature::TemplateNetwork, sets(&["net"])),
        (Feature::Image, !wanted.is_empty() || vms().any(|vm| vm.boot == Boot::Import)),
        (Feature::Iso, vms().any(|vm| vm.boot == Boot::Iso)),
        (Feature::Seed, desired.talos.config_delivery == ConfigDelivery::Cidata),
    ];
    all.into_iter().filter(|(_, used)| *used).map(|(feature, _)| feature).collect()
}

/// The paths of a place, each with those that would do as well.
fn paths(
    place: Place,
    desired: &Desired,
    around: &Surroundings<'_>,
    wanted: &[Template],
) -> Vec<(String, Vec<String>)> {
    let plain = |path: String| (path, Vec::new());
    let storage = |id: &StorageId| plain(format!("/storage/{id}"));
    let proxmox = &desired.proxmox;
    match place {
        Place::Root => vec![plain("/".to_owned())],
        Place::EveryVm => vec![plain("/vms".to_owned())],
        Place::Vms => vec![match &proxmox.pool {
            Some(pool) => (format!("/pool/{pool}"), vec!["/vms".to_owned()]),
            None => plain("/vms".to_owned()),
        }],
        Place::ClusterPool => proxmox.pool.iter().map(|pool| plain(format!("/pool/{pool}"))).collect(),
        Place::OwnTemplates => {
            let pools: BTreeSet<_> = wanted.iter().map(|template| template.pool.clone()).collect();
            let path = |pool: Option<PoolName>| match pool {
                Some(pool) => (format!("/pool/{pool}"), vec!["/vms".to_owned()]),
                None => plain("/vms".to_owned()),
            };
            pools.into_iter().map(path).collect()
        }
        Place::OwnTemplatesPool => {
            let pools: BTreeSet<_> = wanted.iter().filter_map(|template| template.pool.clone()).collect();
            pools.into_iter().map(|pool| plain(format!("/pool/{pool}"))).collect()
        }
        Place::TemplateStorages => {
            let disks = wanted.iter();
            let disks: BTreeSet<StorageId> =
                disks.filter_map(|template| template.disk_storages.first().cloned()).collect();
            disks.iter().map(storage).collect()
        }
        Place::TemplateBridges => template_bridges(around, wanted).into_iter().map(plain).collect(),
        Place::ForeignTemplates => foreign_templates(desired, around).into_iter().map(plain).collect(),
        Place::DiskStorages => disk_storages(desired).into_iter().map(storage).collect(),
        Place::ImageStorage => {
            let hosts = possible_hosts(desired, around);
            let mut named: BTreeSet<StorageId> = BTreeSet::new();
            for template in &desired.templates {
                named.extend(template.image_storages.first().cloned());
            }
            let is_named = desired.templates.iter().all(|template| !template.image_storages.is_empty());
            if !is_named || !desired.nodes.is_empty() || named.is_empty() {
                named.insert(image_storage(desired, around.storages, &hosts).clone());
            }
            named.iter().map(storage).collect()
        }
        Place::IsoStorage => vec![storage(&proxmox.iso_storage)],
        Place::SeedStorage => vec![storage(proxmox.seed_storage.as_ref().unwrap_or(&proxmox.iso_storage))],
        Place::Hosts => {
            possible_hosts(desired, around).into_iter().map(|host| plain(format!("/nodes/{host}"))).collect()
        }
        Place::Bridges => bridges(desired, around).into_iter().map(plain).collect(),
        Place::Mappings => mappings(desired).into_iter().map(plain).collect(),
    }
}

fn foreign_templates(desired: &Desired, around: &Surroundings<'_>) -> BTreeSet<String> {
    let declared = desired.nodes.iter().filter_map(|node| match node.vm.template.as_ref()? {
        TemplateRef::Id(id) => Some(*id),
        TemplateRef::Name(_) | TemplateRef::Tagged { .. } => None,
    });
    let ids = declared.chain(templates(desired, around.guests).map(|guest| guest.vmid));
    ids.map(|id| format!("/vms/{id}")).collect()
}

/// Templates the nodes are cloned from, as far as they can be seen.
pub fn templates<'a>(
    desired: &'a Desired,
    guests: &'a BTreeMap<VmId, Guest>,
) -> impl Iterator<Item = &'a Guest> {
    let declared: BTreeSet<&TemplateRef> =
        desired.nodes.iter().filter_map(|node| node.vm.template.as_ref()).collect();
    let is_vm = |guest: &&Guest| guest.kind == GuestKind::Vm;
    let in_use = move |guest: &&Guest| declared.iter().any(|wanted| is_template_in_use(wanted, guest));
    guests.values().filter(is_vm).filter(in_use)
}

pub fn disk_storages(desired: &Desired) -> BTreeSet<&StorageId> {
    let vms = desired.nodes.iter().map(|node| &node.vm);
    vms.flat_map(|vm| std::iter::once(&vm.storage).chain(vm.extra_disks.iter().map(|disk| &disk.storage)))
        .collect()
}

/// Where images go: the storage that is named, else the roomiest one of these hosts that takes them, else the one for
/// ISOs, which can be told to.
pub fn image_storage<'a>(
    desired: &'a Desired,
    storages: &'a [Storage],
    hosts: &BTreeSet<HostName>,
) -> &'a StorageId {
    let fits = |storage: &&Storage| hosts.contains(&storage.host) && storage.content.contains("import");
    let room = |storage: &&Storage| {
        (storage.total.saturating_sub(storage.used), std::cmp::Reverse(storage.id.clone()))
    };
    let roomiest = || storages.iter().filter(fits).max_by_key(room).map(|storage| &storage.id);
    let proxmox = &desired.proxmox;
    proxmox.image_storage.as_ref().or_else(roomiest).unwrap_or(&proxmox.iso_storage)
}

/// Hosts that may carry a node.
pub fn hosts_of(desired: &Desired, around: &Surroundings<'_>, node: &Node) -> Vec<HostName> {
    match &node.vm.host {
        Some(host) => vec![host.clone()],
        None if desired.proxmox.hosts.is_empty() => around.hosts.iter().cloned().collect(),
        None => desired.proxmox.hosts.clone(),
    }
}

/// Hosts that may carry any node, or a template where there are no nodes.
pub fn possible_hosts(desired: &Desired, around: &Surroundings<'_>) -> BTreeSet<HostName> {
    if !desired.nodes.is_empty() {
        return desired.nodes.iter().flat_map(|node| hosts_of(desired, around, node)).collect();
    }
    let declared = &desired.proxmox.hosts;
    if declared.is_empty() { around.hosts.clone() } else { declared.iter().cloned().collect() }
}

/// A bridge is a resource of the network; each VLAN of it is one of its own.
fn bridges(desired: &Desired, around: &Surroundings<'_>) -> BTreeSet<String> {
    let declared = desired.nodes.iter().flat_map(|node| &node.vm.nics);
    let declared = declared.map(|nic| bridge_path(around.zones, nic.bridge.as_str(), nic.vlan));
    // A clone takes the template's network devices along before they are replaced.
    let cloned = templates(desired, around.guests).filter_map(|guest| guest.seen()).flat_map(|seen| {
        let devices = seen.next.net_devices().unwrap_or_default().into_values();
        devices.filter_map(|device| Some((device.bridge?, device.tag))).collect::<Vec<_>>()
    });
    let cloned = cloned.map(|(bridge, tag)| bridge_path(around.zones, bridge.as_str(), tag));
    declared.chain(cloned).collect()
}

/// Plain bridges are in a zone of their own.
pub fn bridge_path(zones: &BTreeMap<String, String>, bridge: &str, vlan: Option<u16>) -> String {
    let zone = zones.get(bridge).map_or("localnetwork", String::as_str);
    let vlan = vlan.map(|vlan| format!("/{vlan}")).unwrap_or_default();
    format!("/sdn/zones/{zone}/{bridge}{vlan}")
}

fn template_bridges(around: &Surroundings<'_>, wanted: &[Template]) -> BTreeSet<String> {
    let options = wanted.iter().flat_map(|template| &template.options);
    let devices = options.filter(|(key, _)| key.starts_with("net"));
    let devices = devices.filter_map(|(_, value)| NetDevice::parse(value).ok());
    let paths =
        devices.filter_map(|device| Some(bridge_path(around.zones, device.bridge?.as_str(), device.tag)));
    paths.collect()
}

fn mappings(desired: &Desired) -> BTreeSet<String> {
    let devices = desired.nodes.iter().flat_map(|node| &node.vm.pci);
    let names = devices.filter_map(|device| match &device.source {
        PciSource::Mapping(name) => Some(name),
        PciSource::Address(_) => None,
    });
    names.map(|name| format!("/mapping/pci/{name}")).collect()
}
