//! Whose each VM is.
//!
//! Identity is (cluster uid, node name); host and VMID are where it happens to be. The mark in a VM's description and the
//! witness in its SMBIOS values say it; clone and restore copy both, so both name the VMID they were written for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_pve::property::{IpConfig, Ipv4Setting, Ipv6Setting, Smbios, VmConfig};
use talmox_types::desired::{Desired, Node, NodeAddress};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{ClusterUid, HostName, MacAddress, Mark, NodeName, VmId, split_serial};

use crate::{Guest, GuestKind, Observed, Power};

/// What a guest is to this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// Mark and witness agree, the uid is ours and the VMID its own.
    Ours(Owned),
    /// It carries a mark of ours and is not what the mark was written for: another VMID, a template, another witness.
    Copy {
        mark: Mark,
        why: String,
    },
    /// Its mark or its witness is missing, and yet everything else says it is this node of ours.
    Lost {
        node: NodeName,
        why: String,
        mark: Option<Mark>,
    },
    /// It is being made on an id we want, so nobody can tell yet.
    InFlight {
        lock: String,
    },
    Foreign,
}

impl Class {
    /// What is known of a VM that is ours.
    pub fn owned(&self) -> Option<&Owned> {
        match self {
            Self::Ours(owned) => Some(owned),
            Self::Copy { .. } | Self::Lost { .. } | Self::InFlight { .. } | Self::Foreign => None,
        }
    }
}

/// A VM that is proven ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub mark: Mark,
    pub host: HostName,
    /// Whether the witness is there too. A clone has the mark from the start and the witness before it is started for the first
    /// time, so a stopped VM without is one whose making was interrupted. One that runs without is not proven ours.
    pub finished: bool,
}

/// Every guest that is something to this cluster.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    classes: BTreeMap<VmId, Class>,
    /// The VMs of each node, by id.
    by_node: BTreeMap<NodeName, Vec<VmId>>,
    /// VMs that hold disks of a node while its VM is built anew, by id.
    shelves: BTreeMap<NodeName, Vec<VmId>>,
}

/// Says of every guest what it is. Whatever is not proven is foreign.
pub fn identify(desired: &Desired, observed: &Observed) -> Identities {
    let declared_ids: BTreeSet<VmId> = desired.nodes.iter().filter_map(|node| node.vm.id).collect();
    let wanted_id = |id: VmId| desired.proxmox.vmid_range.contains(id) || declared_ids.contains(&id);
    let names = by_name(desired);
    let classes: BTreeMap<VmId, Class> = observed
        .guests
        .values()
        .map(|guest| (guest.vmid, class_of(desired, &names, guest, wanted_id(guest.vmid))))
        .filter(|(_, class)| *class != Class::Foreign)
        .collect();
    let mut by_node: BTreeMap<NodeName, Vec<VmId>> = BTreeMap::new();
    let mut shelves: BTreeMap<NodeName, Vec<VmId>> = BTreeMap::new();
    for (vmid, class) in &classes {
        if let Class::Ours(owned) = class {
            let of_its_kind = if owned.mark.shelf { &mut shelves } else { &mut by_node };
            of_its_kind.entry(owned.mark.node.clone()).or_default().push(*vmid);
        }
    }
    Identities { classes, by_node, shelves }
}

/// The nodes of a description by their names.
pub(crate) type Names<'a> = BTreeMap<&'a str, &'a Node>;

pub(crate) fn by_name(desired: &Desired) -> Names<'_> {
    desired.nodes.iter().map(|node| (node.name.as_str(), node)).collect()
}

fn class_of(desired: &Desired, names: &Names<'_>, guest: &Guest, wanted_id: bool) -> Class {
    if guest.kind == GuestKind::Container {
        return Class::Foreign;
    }
    let mark = guest.seen().and_then(|seen| seen.live.description().and_then(Mark::of_description));
    if let Some(lock) = being_made(guest)
        && mark.is_none()
    {
        return if wanted_id && !guest.template {
            Class::InFlight { lock: lock.to_owned() }
        } else {
            Class::Foreign
        };
    }
    let (Some(uid), Some(seen)) = (&desired.uid, guest.seen()) else { return Class::Foreign };
    let witness = Witness::of(&seen.next);
    if let Some(class) = contradictory(uid, guest, seen.live.description().unwrap_or_default()) {
        return class;
    }
    match mark {
        Some(mark) if mark.uid == *uid => marked(guest, mark, &witness),
        Some(mark) if sabotaged(Defect::PoolIsOurs) && guest.pool == desired.proxmox.pool => {
            marked(guest, mark, &witness)
        }
        Some(_) => Class::Foreign,
        None => unmarked((desired, names), uid, guest, &seen.next, &witness),
    }
}

/// A VM whose notes hold several marks that differ, one of them of this cluster and this VM: which is right cannot be told.
fn contradictory(uid: &ClusterUid, guest: &Guest, notes: &str) -> Option<Class> {
    let marks = Mark::contradictory(notes);
    let own = marks.iter().find(|mark| mark.uid == *uid && mark.vmid == guest.vmid)?;
    let lines: Vec<String> = marks.iter().map(ToString::to_string).collect();
    let why = format!("its notes hold marks that differ, and only one can be right: {}", lines.join(" | "));
    Some(Class::Lost { node: own.node.clone(), why, mark: None })
}

/// The lock of a guest whose making has not ended.
fn being_made(guest: &Guest) -> Option<&str> {
    guest.lock.as_deref().filter(|lock| matches!(*lock, "create" | "clone"))
}

fn marked(guest: &Guest, mark: Mark, witness: &Witness) -> Class {
    if guest.template {
        return Class::Copy { mark, why: "it is a template".to_owned() };
    }
    if mark.vmid != guest.vmid && !sabotaged(Defect::CopyIsOurs) {
        let why = format!("its mark was written for VM {}", mark.vmid);
        return Class::Copy { mark, why };
    }
    match witness {
        Witness::None if guest.power != Power::Stopped && !sabotaged(Defect::RunningIsHalfMade) => {
            let why = format!(
                "it has the mark of {} and runs, but its SMBIOS values do not say that it is {}",
                mark.node, mark.node
            );
            Class::Lost { node: mark.node.clone(), why, mark: Some(mark) }
        }
        Witness::None => Class::Ours(Owned { mark, host: guest.host.clone(), finished: false }),
        Witness::Ours { serial, family }
            if *serial == mark.witness_serial() && *family == mark.witness_family() =>
        {
            Class::Ours(Owned { mark, host: guest.host.clone(), finished: true })
        }
        Witness::Ours { serial, .. } => {
            let why = format!("its SMBIOS serial says {serial}, which is not what its mark says");
            Class::Copy { mark, why }
        }
    }
}

fn unmarked(
    (desired, names): (&Desired, &Names<'_>),
    uid: &ClusterUid,
    guest: &Guest,
    config: &VmConfig,
    witness: &Witness,
) -> Class {
    if guest.template {
        return Class::Foreign;
    }
    if let Some(mark) = witness.mark(desired, uid)
        && mark.vmid == guest.vmid
    {
        let why = "its SMBIOS values are this node's, but its notes have lost the mark".to_owned();
        return Class::Lost { node: mark.node.clone(), why, mark: Some(mark) };
    }
    let Some(node) = config.name().and_then(|name| names.get(name)) else { return Class::Foreign };
    let held = if macs(config).iter().any(|mac| node.vm.nics.iter().any(|nic| nic.mac == *mac)) {
        "MAC address"
    } else if addresses(config).iter().any(|ip| declares(node, *ip)) {
        "address"
    } else {
        return Class::Foreign;
    };
    let why = format!("it has this node's name and {held}, but no mark");
    Class::Lost { node: node.name.clone(), why, mark: None }
}

/// What the SMBIOS values of a VM say.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Witness {
    /// Nothing of ours: the VM is not finished, or somebody else wrote them.
    None,
    Ours {
        serial: String,
        family: String,
    },
}

impl Witness {
    fn of(config: &VmConfig) -> Self {
        let smbios = config.smbios().ok().flatten().unwrap_or_default();
        let Smbios { serial: Some(serial), family: Some(family), .. } = smbios else { return Self::None };
        let serial = split_serial(&serial).0.to_owned();
        let is_ours = family.split_once('.').is_some_and(|(uid, incarnation)| {
            ClusterUid::parse(uid).is_ok() && !incarnation.is_empty() && serial.starts_with("h=")
        });
        if is_ours { Self::Ours { serial, family } } else { Self::None }
    }

    /// The mark this witness goes with, if it is of our cluster.
    fn mark(&self, desired: &Desired, uid: &ClusterUid) -> Option<Mark> {
        let Self::Ours { serial, family } = self else { return None };
        let (family_uid, incarnation) = family.split_once('.')?;
        let (node, vmid) = serial.strip_prefix("h=")?.split_once(";i=")?;
        (family_uid == uid.as_str()).then_some(())?;
        let node = NodeName::parse(node).ok()?;
        let vmid = VmId::try_from(vmid.parse::<u32>().ok()?).ok()?;
        Some(Mark::new(uid.clone(), desired.name.clone(), node, vmid, incarnation))
    }
}

/// The MAC addresses a VM has.
pub fn macs(config: &VmConfig) -> Vec<MacAddress> {
    let devices = config.net_devices().unwrap_or_default();
    devices.into_values().filter_map(|device| device.mac).collect()
}

/// The static addresses a VM gets from cloud-init.
pub fn addresses(config: &VmConfig) -> Vec<IpAddr> {
    let configs = config.ip_configs().unwrap_or_default();
    configs.values().flat_map(static_addresses).collect()
}

/// The static addresses of one interface.
pub(crate) fn static_addresses(config: &IpConfig) -> Vec<IpAddr> {
    let four = match config.ip {
        Some(Ipv4Setting::Static(cidr)) => Some(cidr.address()),
        _ => None,
    };
    let six = match config.ip6 {
        Some(Ipv6Setting::Static(cidr)) => Some(cidr.address()),
        _ => None,
    };
    four.into_iter().chain(six).collect()
}

fn declares(node: &Node, address: IpAddr) -> bool {
    match &node.address {
        NodeAddress::Declared(pair) => pair.iter().any(|ip| ip == address),
        NodeAddress::FromPool(_) => false,
    }
}

impl Identities {
    pub fn class(&self, vmid: VmId) -> &Class {
        self.classes.get(&vmid).unwrap_or(&Class::Foreign)
    }

    /// Every VM of a node of ours, by id.
    pub fn ours(&self) -> impl Iterator<Item = &Owned> {
        self.classes.values().filter_map(Class::owned).filter(|owned| !owned.mark.shelf)
    }

    /// What the marks of this cluster say, those of VMs included that have lost their witness: who asks whether etcd was begun must
    /// not hear no because a VM is not proven. Nothing may be done to a VM because of it.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.classes.values().filter_map(|class| match class {
            Class::Ours(owned) => Some(&owned.mark),
            Class::Lost { mark, .. } => mark.as_ref(),
            Class::Copy { .. } | Class::InFlight { .. } | Class::Foreign => None,
        })
    }

    /// VMs of ours that only hold disks of a node, by node.
    pub fn shelves(&self) -> impl Iterator<Item = &Owned> {
        self.shelves.values().flatten().filter_map(|vmid| self.class(*vmid).owned())
    }

    /// The VMs of a node; more than one is a double.
    pub fn of_node<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = &'a Owned> {
        let ids = self.by_node.get(node).map_or(&[][..], Vec::as_slice);
        ids.iter().filter_map(|vmid| self.class(*vmid).owned())
    }

    /// VMs that are neither ours nor plainly foreign.
    pub fn iter(&self) -> impl Iterator<Item = (VmId, &Class)> {
        self.classes.iter().map(|(vmid, class)| (*vmid, class))
    }
}
