//! `talmox render`

use std::collections::BTreeMap;

use talmox_plan::{boot_iso, given_by_an_empty_proxmox};
use talmox_pve::render::{Circumstances, vm_config};
use talmox_types::desired::{Boot, Desired, Node, NodeAddress};
use talmox_types::{Mark, NodeName};

use super::{read, unknown_node};
use crate::args::{BootSource, Format, Render, RenderVm, RenderWhat};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::trust::Folder;

/// Stands where a VM that exists has the mark of its making.
const NOT_MADE_YET: &str = "new";

pub(super) fn run(args: &Render, printer: &Printer) -> anyhow::Result<()> {
    match &args.what {
        RenderWhat::Vm(args) => vm(args, printer),
        RenderWhat::Config(args) => super::render_config::config(args, printer),
        RenderWhat::All(args) => super::render_config::all(args, printer),
        RenderWhat::InstallImage(args) => super::install_image::run(args, printer),
    }
}

fn vm(args: &RenderVm, printer: &Printer) -> anyhow::Result<()> {
    let folder = Folder::open(&args.description.file, &args.description.trust)?;
    let (outcome, desired) = read(&folder, printer)?;
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
    let given = given_by_an_empty_proxmox(desired).get(&node.name).copied();
    let vmid = match node.vm.id {
        Some(id) => id,
        None => {
            let id = given.and_then(|given| given.vmid).ok_or_else(|| {
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
            let address = given
                .and_then(|given| given.address)
                .ok_or_else(|| Failure::new(format!("there is no address left for {}", node.name)))?;
            printer.say(&format!("{} is the address an empty pool would give", address.primary()));
            address
        }
    };
    let mark = desired
        .uid
        .clone()
        .map(|uid| Mark::new(uid, desired.name.clone(), node.name.clone(), vmid, NOT_MADE_YET));
    if mark.is_none() {
        printer.say("without cluster_uid there is no mark: description and smbios1 are left out");
    }
    Ok(Circumstances { vmid, address, mark, iso: boot_iso(desired, node).file })
}
