//! Devices handed to VMs: that the hosts have them, have an IOMMU at work, and nobody else holds them.

use talmox_plan::{Class, Identities, identify};
use talmox_pve::client::PciMapping;
use talmox_types::desired::{Desired, Node, PciSource};
use talmox_types::{HostName, MappingName, PciAddress};

use super::listed;
use crate::preflight::facts::{Facts, HostFacts};
use crate::preflight::needs::hosts_of;
use crate::preflight::report::Check;

const NAME: &str = "device";

pub(super) fn checks(desired: &Desired, facts: &Facts) -> Vec<Check> {
    let identities = identify(desired, &facts.seen);
    let mut checks: Vec<Check> = Vec::new();
    for node in &desired.nodes {
        for device in &node.vm.pci {
            let found = match &device.source {
                PciSource::Mapping(mapping) => mapped(desired, facts, node, mapping),
                PciSource::Address(address) => addressed(desired, facts, node, *address),
            };
            checks.extend(found);
            checks.extend(holders(facts, &identities, node, &device.source));
        }
    }
    checks.dedup();
    if !checks.is_empty() {
        checks.push(Check::not_checked(
            NAME,
            "whether the host itself uses a device: the API does not tell",
            Some("on the host: lspci -nnk must show vfio-pci or no driver in use for it".to_owned()),
        ));
    }
    checks
}

fn online<'a>(desired: &Desired, facts: &'a Facts, node: &Node) -> Vec<(HostName, &'a HostFacts)> {
    let hosts = hosts_of(desired, facts, node).into_iter();
    hosts
        .filter_map(|host| Some((host.clone(), facts.hosts.get(&host).filter(|facts| facts.online)?)))
        .collect()
}

fn mapped(desired: &Desired, facts: &Facts, node: &Node, name: &MappingName) -> Vec<Check> {
    let path = format!("/mapping/pci/{name}");
    if facts.holds(&path, "Mapping.Use") != Some(true) {
        let message = format!("mapping {name} of {}: Mapping.Use to see it is missing on {path}", node.name);
        return vec![Check::not_checked(NAME, message, None)];
    }
    let mut checks = Vec::new();
    let (mut good, mut without) = (Vec::new(), Vec::new());
    for (host, host_facts) in online(desired, facts, node) {
        let mappings = match &host_facts.mappings {
            Some(Ok(mappings)) => mappings,
            Some(Err(words)) => {
                checks.push(Check::not_checked(NAME, format!("mapping {name} on {host}: {words}"), None));
                continue;
            }
            None => continue,
        };
        match mappings.iter().find(|mapping| mapping.id == *name) {
            Some(mapping) if mapping.nodes().contains(&host) => {
                match fault(mapping, &host).or_else(|| no_iommu(host_facts, mapping, &host)) {
                    Some(fault) => checks.push(fault),
                    None => good.push(host),
                }
            }
            Some(_) | None => without.push(host),
        }
    }
    if good.is_empty() && !without.is_empty() {
        let message = format!(
            "no host that may carry {} has a device of the mapping {name}: not {}",
            node.name,
            listed(without)
        );
        let remedy = "Datacenter, Resource Mappings: add the device of each host";
        checks.push(Check::problem(NAME, message, remedy));
    } else if !good.is_empty() {
        let rest = if without.is_empty() { String::new() } else { format!(", not on {}", listed(without)) };
        checks.push(Check::ok(
            NAME,
            format!("mapping {name} for {} is good on {}{rest}", node.name, listed(good)),
        ));
    }
    checks
}

/// What the host itself finds wrong: a device that is gone, or is another by now.
fn fault(mapping: &PciMapping, host: &HostName) -> Option<Check> {
    let check = mapping.checks.first()?;
    let message = format!("mapping {} on {host}: {}", mapping.id, check.message.trim());
    let remedy = "the device was moved or taken out: correct the mapping in Datacenter, Resource Mappings";
    Some(Check::problem(NAME, message, remedy))
}

/// A device without a group is one without an IOMMU, and cannot be handed to anybody.
fn no_iommu(host_facts: &HostFacts, mapping: &PciMapping, host: &HostName) -> Option<Check> {
    let Some(Ok(devices)) = &host_facts.devices else { return None };
    let own = mapping.map.iter().filter(|entry| entry.split(',').any(|part| part == format!("node={host}")));
    let paths: Vec<&str> =
        own.filter_map(|entry| entry.split(',').find_map(|part| part.strip_prefix("path="))).collect();
    let bare = devices.iter().any(|device| paths.contains(&device.id.as_str()) && device.iommugroup < 0);
    bare.then(|| iommu_off(host))
}

fn iommu_off(host: &HostName) -> Check {
    let message = format!("{host} has no IOMMU at work: none of its devices can be handed to a VM");
    let remedy = "switch on VT-d or AMD-Vi in the firmware (Intel before kernel 6.8: intel_iommu=on), and restart the host";
    Check::problem(NAME, message, remedy)
}

fn addressed(desired: &Desired, facts: &Facts, node: &Node, address: PciAddress) -> Vec<Check> {
    let mut checks = Vec::new();
    if !facts.login.root {
        checks.push(Check::problem(
            NAME,
            format!(
                "{} wants {address}, and only root@pam by password may pass a device by its address",
                node.name
            ),
            "make a mapping (Datacenter, Resource Mappings) and name it: vm_pci: [{mapping: NAME}]",
        ));
    }
    for (host, host_facts) in online(desired, facts, node) {
        let devices = match &host_facts.devices {
            Some(Ok(devices)) => devices,
            Some(Err(words)) => {
                checks.push(Check::not_checked(NAME, format!("{address} on {host}: {words}"), None));
                continue;
            }
            None => continue,
        };
        // An address without a function means all of them.
        let wanted = address.to_string();
        match devices.iter().find(|device| device.id.starts_with(&wanted)) {
            None => checks.push(Check::problem(
                NAME,
                format!("{host} has no device at {address}, which {} wants", node.name),
                "on the host: lspci -nnD shows every address in full",
            )),
            Some(device) if device.iommugroup < 0 => checks.push(iommu_off(&host)),
            Some(device) => {
                let shared: Vec<&str> = devices
                    .iter()
                    .filter(|other| other.iommugroup == device.iommugroup && !other.id.starts_with(&wanted))
                    .map(|other| other.id.as_str())
                    .collect();
                checks.push(if shared.is_empty() {
                    Check::ok(
                        NAME,
                        format!("{address} is on {host}, alone in IOMMU group {}", device.iommugroup),
                    )
                } else {
                    let message = format!(
                        "{address} on {host} shares IOMMU group {} with {}",
                        device.iommugroup,
                        listed(shared)
                    );
                    Check::warning(
                        NAME,
                        message,
                        "they go to the VM together or not at all: use another slot",
                    )
                });
            }
        }
    }
    checks
}

/// Running VMs of others that hold the very device.
fn holders(facts: &Facts, identities: &Identities, node: &Node, source: &PciSource) -> Vec<Check> {
    let mut checks = Vec::new();
    for guest in facts.seen.guests.values().filter(|guest| guest.power == talmox_plan::Power::Running) {
        let own = matches!(identities.class(guest.vmid), Class::Ours(owned) if owned.mark.node == node.name);
        let Some(seen) = guest.seen().filter(|_| !own) else { continue };
        let held = seen.live.host_devices().unwrap_or_default();
        let same = held.values().any(|device| match source {
            // A mapping may have several devices, so another holder is none of our business.
            PciSource::Mapping(_) => false,
            PciSource::Address(address) => {
                device.host.as_ref().is_some_and(|devices| devices.0.contains(address))
            }
        });
        let on_our_host = node.vm.host.as_ref().is_none_or(|host| *host == guest.host);
        if same && on_our_host {
            let name = guest.name.as_deref().unwrap_or("without a name");
            let message = format!(
                "VM {} ({name}) on {} runs with the device {} wants",
                guest.vmid, guest.host, node.name
            );
            checks.push(Check::problem(NAME, message, "stop it, or give the node another device"));
        }
    }
    checks
}
