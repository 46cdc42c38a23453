//! `talmox render`

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_pve::render::{Circumstances, vm_config};
use talmox_types::desired::{Boot, Desired, Node, NodeAddress};
use talmox_types::{FamilyPair, Mark, NodeName, VmId};

use super::{read, unknown_node};
use crate::args::{BootSource, Format, Render, RenderVm, RenderWhat};
use crate::failure::Failure;
use crate::printer::Printer;

/// Stands where a VM that exists has the mark of its making.
const NOT_MADE_YET: &str = "new";

pub(super) fn run(args: &Render, printer: &Printer) -> anyhow::Result<()> {
    match &args.what {
        RenderWhat::Vm(args) => vm(args, printer),
    }
}

fn vm(args: &RenderVm, printer: &Printer) -> anyhow::Result<()> {
    let (outcome, desired) = read(&args.description.file, printer)?;
    let Some(node) = desired.nodes.iter().find(|node| node.name.as_str() == args.node) else {
        let closest = outcome.description.member(&args.node).err().flatten();
        return Err(unknown_node(&outcome, &args.node, closest.as_ref().map(NodeName::as_str)).into());
    };
    let mut node = node.clone();
    if let Some(boot) = args.boot {
        node.vm.boot = match boot {
            BootSource::Template => Boot::Template,
            BootSource::Iso => Boot::Iso,
            BootSource::Import => Boot::Import,
        };
    }
    let on = circumstances(&desired, &node, printer)?;
    let config = vm_config(&desired, &node, &on)?;
    if args.output.output == Format::Table {
        return printer.data(&config.to_qm_config_text());
    }
    let map: BTreeMap<&str, &str> = config.iter().collect();
    printer.structured(args.output.output, &map)
}

/// What an empty Proxmox would give: the VMIDs and pool addresses in the order of the description.
fn circumstances(desired: &Desired, node: &Node, printer: &Printer) -> anyhow::Result<Circumstances> {
    let vmid = match node.vm.id {
        Some(id) => id,
        None => {
            let id = first_free_id(desired, node).ok_or_else(|| {
                Failure::new(format!("there is no VMID left for {}", node.name))
                    .with_hint("widen proxmox_vmid_range, or give the node a vm_id")
            })?;
            printer.say(&format!("VMID {id} is what an empty Proxmox would give; vm_id would fix it"));
            id
        }
    };
    let address = match &node.address {
        NodeAddress::Declared(address) => *address,
        NodeAddress::FromPool(_) => {
            let address = first_free_address(desired, node)
                .ok_or_else(|| Failure::new(format!("there is no address left for {}", node.name)))?;
            printer.say(&format!("{} is the address an empty pool would give", address.primary()));
            address
        }
    };
    let mark = desired.uid.clone().map(|uid| Mark {
        uid,
        cluster: desired.name.clone(),
        node: node.name.clone(),
        vmid,
        incarnation: NOT_MADE_YET.to_owned(),
    });
    if mark.is_none() {
        printer.say("without cluster_uid there is no mark: description and smbios1 are left out");
    }
    Ok(Circumstances { vmid, address, mark })
}

fn first_free_id(desired: &Desired, node: &Node) -> Option<VmId> {
    let declared: Vec<VmId> = desired.nodes.iter().filter_map(|node| node.vm.id).collect();
    let range = desired.proxmox.vmid_range;
    let before = desired.nodes.iter().filter(|n| n.vm.id.is_none() && n.position < node.position).count();
    (range.start.get()..=range.end.get())
        .filter_map(|id| VmId::try_from(id).ok())
        .filter(|id| !declared.contains(id))
        .nth(before)
}

/// The address this node gets if all nodes of pools take theirs in order.
fn first_free_address(desired: &Desired, wanted: &Node) -> Option<FamilyPair<IpAddr>> {
    let network = &desired.network;
    let declared = desired.nodes.iter().filter_map(|node| match &node.address {
        NodeAddress::Declared(address) => Some(*address),
        NodeAddress::FromPool(_) => None,
    });
    let mut taken: Vec<IpAddr> =
        declared.chain(network.vip).chain([network.gateway]).flat_map(|pair| pair.iter()).collect();
    for node in &desired.nodes {
        let NodeAddress::FromPool(ranges) = &node.address else { continue };
        let free = |v4: bool| {
            let mut addresses = ranges
                .iter()
                .filter(|range| range.first().is_ipv4() == v4)
                .flat_map(talmox_types::AddressRange::iter);
            addresses.find(|ip| !taken.contains(ip))
        };
        let pair = match (free(true), free(false)) {
            (Some(four), Some(six)) => FamilyPair::two(four, six),
            (Some(one), None) | (None, Some(one)) => Some(FamilyPair::one(one)),
            (None, None) => None,
        };
        if node.name == wanted.name {
            return pair;
        }
        taken.extend(pair.iter().flat_map(FamilyPair::iter));
    }
    None
}
