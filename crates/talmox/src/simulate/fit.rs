//! What a simulated cluster needs so that a description can be built on it.

use std::collections::{BTreeMap, BTreeSet};

use talmox_sim::{Fit, FitFile, FitHost, FitMapping, FitStorage, FitTemplate, TalosImage};
use talmox_types::desired::{Bios, Desired, Node, PciSource, Template, TemplateRef, Vm};
use talmox_types::{HostName, StorageId};

/// What a host is called if the description names none.
const ANY_HOST: &str = "pve";
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// The smallest host and storage: what somebody would have at home.
const LEAST_MEMORY: u64 = 64 * GIB;
const LEAST_CPUS: u64 = 8;
const LEAST_STORAGE: u64 = 1024 * GIB;

/// Where a template lies that only a manifest names, and how large the images of described templates are.
const ANY_STORAGE: &str = "local-zfs";
const IMAGE_SIZE: u64 = 600 * MIB;
const IMAGE_DISK: u64 = 3584 * MIB;

/// What a description asks for, and templates somebody else made that must be there too. `there` are the hosts of a world
/// that was kept.
pub(super) fn fit(desired: &Desired, named: &[TemplateRef], there: &[String]) -> Fit {
    let hosts = hosts(desired, there);
    let vms = || desired.nodes.iter().map(|node| &node.vm);
    let of_templates = desired.templates.iter().flat_map(|template| options(template, "net", "bridge"));
    let mut templates = templates(desired, &hosts);
    templates.extend(named.iter().map(|template| named_template(desired, template, &hosts)));
    Fit {
        cluster: format!("{}-sim", desired.name),
        storages: storages(desired, !named.is_empty()),
        bridges: vms()
            .flat_map(|vm| &vm.nics)
            .map(|nic| nic.bridge.to_string())
            .chain(of_templates)
            .collect(),
        templates,
        mappings: mappings(desired),
        files: desired.templates.iter().map(|template| file(desired, template)).collect(),
        hosts: hosts.iter().map(|host| fit_host(desired, &hosts, host)).collect(),
    }
}

/// The values of an option of every numbered device: the bridge of each `netN`.
fn options(template: &Template, device: &str, option: &str) -> Vec<String> {
    let devices = template.options.iter().filter(|(key, _)| {
        key.strip_prefix(device).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let parts = devices.flat_map(|(_, value)| value.split(','));
    parts.filter_map(|part| Some(part.strip_prefix(option)?.strip_prefix('=')?.to_owned())).collect()
}

/// What a web server has for a template.
fn file(desired: &Desired, template: &Template) -> FitFile {
    let format = template.image.file.rsplit_once('.').map_or("raw", |(_, end)| end);
    FitFile {
        url: template.image.url.clone(),
        format: format.to_owned(),
        size: IMAGE_SIZE,
        virtual_size: IMAGE_DISK,
        talos: Some(image(desired)),
    }
}

/// What is in images and templates that somebody else made: the description's Talos, without extensions.
fn image(desired: &Desired) -> TalosImage {
    TalosImage {
        version: desired.talos.version.to_string(),
        schematic: String::new(),
        platform: "nocloud".to_owned(),
        iso: false,
    }
}

/// A template that is the same on every host.
fn named_template(desired: &Desired, template: &TemplateRef, hosts: &[String]) -> FitTemplate {
    let (vmid, name, tags) = asked_for(template);
    FitTemplate {
        vmid,
        first_id: desired.proxmox.template_vmid_range.start.get(),
        name: name.unwrap_or_else(|| format!("talos-{}", desired.talos.version)),
        tags,
        hosts: hosts.to_vec(),
        storage: ANY_STORAGE.to_owned(),
        bridge: "vmbr0".to_owned(),
        uefi: true,
        talos: Some(image(desired)),
    }
}

fn asked_for(template: &TemplateRef) -> (Option<u32>, Option<String>, BTreeSet<String>) {
    match template {
        TemplateRef::Id(id) => (Some(id.get()), None, BTreeSet::new()),
        TemplateRef::Name(name) => (None, Some(name.clone()), BTreeSet::new()),
        TemplateRef::Tagged { name, tags } => {
            (None, name.clone(), tags.iter().map(ToString::to_string).collect())
        }
    }
}

/// Every host the description names, else those that are there, else one that it may mean.
fn hosts(desired: &Desired, there: &[String]) -> Vec<String> {
    let pinned = desired.nodes.iter().filter_map(|node| node.vm.host.as_ref());
    let mut hosts: Vec<String> = Vec::new();
    for name in desired.proxmox.hosts.iter().chain(pinned).map(HostName::as_str) {
        if !hosts.iter().any(|host| host == name) {
            hosts.push(name.to_owned());
        }
    }
    match (hosts.is_empty(), there.is_empty()) {
        (false, _) => hosts,
        (true, false) => there.to_vec(),
        (true, true) => vec![ANY_HOST.to_owned()],
    }
}

/// A host that has room for its own VMs and its share of those that are placed, with as much again to grow into.
fn fit_host(desired: &Desired, hosts: &[String], name: &str) -> FitHost {
    let policy = &desired.proxmox.placement;
    let share = |amount: &dyn Fn(&Vm) -> u64| {
        let of =
            |own: bool| desired.nodes.iter().map(|node| &node.vm).filter(move |vm| vm.host.is_some() == own);
        let here = of(true).filter(|vm| vm.host.as_ref().is_some_and(|host| host.as_str() == name));
        let placed: u64 = of(false).map(amount).sum();
        let largest = of(false).map(amount).max().unwrap_or_default();
        here.map(amount).sum::<u64>() + placed.div_ceil(hosts.len().max(1) as u64) + largest
    };
    let memory = share(&|vm| u64::from(vm.memory) * MIB) + u64::from(policy.reserve_memory) * MIB;
    let cpus = share(&|vm| u64::from(vm.cores * vm.sockets));
    let devices =
        desired.nodes.iter().flat_map(|node| &node.vm.pci).filter_map(|device| match &device.source {
            PciSource::Address(address) => Some(address.to_string()),
            PciSource::Mapping(_) => None,
        });
    FitHost {
        name: name.to_owned(),
        cpus: u32::try_from(cpus.max(LEAST_CPUS).next_power_of_two()).unwrap_or(u32::MAX),
        memory: (2 * memory).max(LEAST_MEMORY).next_power_of_two(),
        devices: devices.collect(),
    }
}

fn storages(desired: &Desired, any: bool) -> Vec<FitStorage> {
    let mut content: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut size: BTreeMap<&str, u64> = BTreeMap::new();
    content.insert("local", BTreeSet::from(["backup", "import", "iso", "snippets", "vztmpl"]));
    for vm in desired.nodes.iter().map(|node| &node.vm) {
        let own = (&vm.storage, vm.disk_size);
        for (storage, gib) in vm.extra_disks.iter().map(|disk| (&disk.storage, disk.size)).chain([own]) {
            content.entry(storage.as_str()).or_default().extend(["images", "rootdir"]);
            *size.entry(storage.as_str()).or_default() += u64::from(gib) * GIB;
        }
    }
    if any {
        content.entry(ANY_STORAGE).or_default().extend(["images", "rootdir"]);
    }
    for template in &desired.templates {
        // The first storage that takes images is where the disk goes; `local` has files only unless there is no other.
        let disks = template.disk_storages.iter().map(StorageId::as_str);
        let other = disks.clone().find(|id| *id != "local");
        content.entry(other.unwrap_or("local")).or_default().extend(["images", "rootdir"]);
        let files = template.image_storages.iter().map(StorageId::as_str);
        let first = files.clone().find(|id| *id == "local").or_else(|| files.clone().next());
        content.entry(first.unwrap_or("local")).or_default().insert("import");
    }
    let proxmox = &desired.proxmox;
    let files = [(Some(&proxmox.iso_storage), "iso"), (proxmox.seed_storage.as_ref(), "iso")];
    let files = files.into_iter().chain([(proxmox.image_storage.as_ref(), "import")]);
    for (storage, kind) in files.filter_map(|(storage, kind)| Some((storage?, kind))) {
        content.entry(storage.as_str()).or_default().insert(kind);
    }
    let fit = |(id, kinds): (&str, BTreeSet<&str>)| FitStorage {
        id: id.to_owned(),
        kind: None,
        content: kinds.into_iter().map(str::to_owned).collect(),
        size: (2 * size.get(id).copied().unwrap_or_default()).max(LEAST_STORAGE).next_power_of_two(),
    };
    content.into_iter().map(fit).collect()
}

/// One entry for each template and storage its clones lie on, so that they need not be copied in full.
fn templates(desired: &Desired, hosts: &[String]) -> Vec<FitTemplate> {
    let mut wanted: Vec<(&TemplateRef, Vec<&Node>)> = Vec::new();
    for node in &desired.nodes {
        let Some(template) = &node.vm.template else { continue };
        match wanted.iter_mut().find(|(known, _)| *known == template) {
            Some((_, nodes)) => nodes.push(node),
            None => wanted.push((template, vec![node])),
        }
    }
    wanted.iter().flat_map(|(template, nodes)| template_of(desired, template, nodes, hosts)).collect()
}

fn is_shared(storage: &StorageId) -> bool {
    FitStorage { id: storage.to_string(), ..FitStorage::default() }.is_shared()
}

fn template_of(
    desired: &Desired,
    template: &TemplateRef,
    nodes: &[&Node],
    hosts: &[String],
) -> Vec<FitTemplate> {
    let mut by_storage: Vec<(&StorageId, Vec<String>)> = Vec::new();
    for host in hosts {
        let here = |node: &&&Node| node.vm.host.as_ref().is_none_or(|own| own.as_str() == host);
        // One name means one template on a host, and a clone on a storage that only this host sees can be made from no
        // other: the first node that wants that decides where it lies.
        let local = |node: &&&Node| !is_shared(&node.vm.storage);
        let Some(node) = nodes.iter().filter(here).find(local).or_else(|| nodes.iter().find(here)) else {
            continue;
        };
        match by_storage.iter_mut().find(|(storage, _)| **storage == node.vm.storage) {
            Some((_, hosts)) => hosts.push(host.clone()),
            None => by_storage.push((&node.vm.storage, vec![host.clone()])),
        }
    }
    let (vmid, name, tags) = asked_for(template);
    let bridge = nodes.first().and_then(|node| node.vm.nics.first()).map(|nic| nic.bridge.to_string());
    let fit = |(storage, hosts): (&StorageId, Vec<String>)| FitTemplate {
        vmid,
        first_id: desired.proxmox.template_vmid_range.start.get(),
        name: name.clone().unwrap_or_else(|| format!("talos-{}", desired.talos.version)),
        tags: tags.clone(),
        hosts,
        storage: storage.to_string(),
        bridge: bridge.clone().unwrap_or_else(|| "vmbr0".to_owned()),
        uefi: nodes.iter().any(|node| node.vm.bios == Bios::Ovmf),
        talos: Some(image(desired)),
    };
    by_storage.into_iter().map(fit).collect()
}

/// Of each mapping every host has as many devices as there are VMs that want one.
fn mappings(desired: &Desired) -> Vec<FitMapping> {
    let mut wanted: BTreeMap<String, u32> = BTreeMap::new();
    for name in desired.templates.iter().flat_map(|template| options(template, "hostpci", "mapping")) {
        *wanted.entry(name).or_default() += 1;
    }
    for device in desired.nodes.iter().flat_map(|node| &node.vm.pci) {
        if let PciSource::Mapping(name) = &device.source {
            *wanted.entry(name.to_string()).or_default() += 1;
        }
    }
    wanted.into_iter().map(|(name, devices)| FitMapping { name, devices }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desired(text: &str) -> Desired {
        let files = talmox_config::Files::from_texts(text, None);
        talmox_config::read_files(files).desired.unwrap()
    }

    fn fit_of(desired: &Desired) -> Fit {
        fit(desired, &[], &[])
    }

    #[test]
    fn manifests_get_storages_bridges_and_files() {
        let manifests = talmox_dialects::karpenter::read_text(
            "t.yaml",
            "apiVersion: karpenter.proxmox.sinextra.dev/v1alpha1\nkind: ProxmoxTemplate\nmetadata: {name: a}\nspec:\n  \
             sourceImage: {url: https://example.org/x/a.img}\n  storageIDs: [local, system]\n  \
             network: [{bridge: vmbr7}]\n  pciDevices: [{mapping: gpu}]\n",
        );
        let mut desired = talmox_config::without_cluster().desired.unwrap();
        desired.templates = manifests.templates;
        let talos = TemplateRef::Name("talos".to_owned());
        let fit = fit(&desired, &[talos], &["pve1".to_owned(), "pve2".to_owned()]);
        assert_eq!(fit.hosts.len(), 2);
        assert!(fit.bridges.contains("vmbr7"));
        assert_eq!(
            (fit.files[0].url.as_str(), fit.files[0].format.as_str()),
            ("https://example.org/x/a.img", "qcow2")
        );
        let takes = |id: &str, content: &str| {
            fit.storages.iter().any(|storage| storage.id == id && storage.content.contains(content))
        };
        assert!(takes("system", "images") && takes("local", "import") && !takes("local", "images"));
        assert!(takes("local-zfs", "images"));
        assert_eq!((fit.templates[0].name.as_str(), fit.templates[0].hosts.len()), ("talos", 2));
        assert_eq!(fit.mappings[0].name, "gpu");
    }

    const HEAD: &str = "cluster_uid: \"0123456789abcdef\"\nnode_cidr: 10.0.7.0/24\n";

    #[test]
    fn a_description_without_hosts_gets_one() {
        let fit = fit_of(&desired(&format!(
            "{HEAD}template: talos\nnodes: [{{name: cp-1, address: 10.0.7.11, controller: true}}]"
        )));
        assert_eq!(fit.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["pve"]);
        assert_eq!(fit.hosts[0].memory, 64 * GIB);
        let ids: Vec<&str> = fit.storages.iter().map(|storage| storage.id.as_str()).collect();
        assert_eq!(ids, ["local", "local-zfs"]);
        assert_eq!((fit.templates.len(), fit.templates[0].name.as_str()), (1, "talos"));
    }

    #[test]
    fn templates_lie_where_their_clones_can_be_made() {
        let fit = fit_of(&desired(&format!(
            "{HEAD}proxmox_nodes: [a, b]\nproxmox_storage: ceph\ntemplate: {{tags: [gold]}}\nnodes:\n  \
             - {{name: w-1, address: 10.0.7.12}}\n  \
             - {{name: cp-1, address: 10.0.7.11, controller: true, vm_host: b, proxmox_storage: local-lvm}}\n"
        )));
        let places: Vec<(&str, &[String])> =
            fit.templates.iter().map(|one| (one.storage.as_str(), one.hosts.as_slice())).collect();
        assert_eq!(places, [("ceph", &["a".to_owned()][..]), ("local-lvm", &["b".to_owned()][..])]);
        assert_eq!(fit.templates[0].name, "talos-1.13.9");
    }

    #[test]
    fn hosts_have_room_and_devices() {
        let fit = fit_of(&desired(&format!(
            "{HEAD}proxmox_nodes: [a]\ntemplate: 9000\nnodes:\n  \
             - {{name: cp-1, address: 10.0.7.11, controller: true, vm_memory: 102400, vm_pci: [{{mapping: gpu}}]}}\n  \
             - {{name: w-1, address: 10.0.7.12, gpu_pci_bdf: \"0000:41:00.0\", vm_pci: [{{mapping: gpu}}]}}\n"
        )));
        assert!(fit.hosts[0].memory >= 2 * 118 * GIB, "{}", fit.hosts[0].memory / GIB);
        assert!(fit.hosts[0].devices.contains("0000:41:00.0"));
        assert_eq!((fit.mappings[0].name.as_str(), fit.mappings[0].devices), ("gpu", 2));
        assert_eq!(fit.templates[0].vmid, Some(9000));
    }
}
