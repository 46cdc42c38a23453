//! Descriptions made by chance, and changes to them. What is made here can be built: every refusal is a fault.

use std::fmt::Write as _;

use talmox_config::{Files, read_files};
use talmox_types::desired::Desired;

use crate::chance::Chance;

pub(crate) const UID: &str = "8c1f6a2b90d347e5";

/// The name of every template for these descriptions.
pub(crate) const TEMPLATE: &str = "talos-1.13.9";

/// How the template is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Name,
    Tag,
    NameAndTag,
    Id,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the description")]
pub(crate) struct Spec {
    pub(crate) uid: String,
    pub(crate) cluster: String,
    /// How many hosts there are: `pve1` and so on.
    pub(crate) hosts: usize,
    /// Storage of the system disks and of the template.
    pub(crate) storage: &'static str,
    /// Storage of further disks.
    pub(crate) second: &'static str,
    pub(crate) template: Named,
    /// None for the default pool, `none` to do without.
    pub(crate) pool: Option<&'static str>,
    pub(crate) machine_tags: Vec<&'static str>,
    pub(crate) cloud_init: bool,
    pub(crate) uefi: bool,
    pub(crate) tpm: bool,
    pub(crate) dhcp: bool,
    pub(crate) nodes: Vec<NodeSpec>,
    /// Members of a node pool with addresses of its own.
    pub(crate) pooled: usize,
    /// Nodes there ever were: no name, address or id comes twice.
    pub(crate) counted: usize,
}

#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the description")]
pub(crate) struct NodeSpec {
    pub(crate) name: String,
    /// The last part of its address.
    pub(crate) address: usize,
    pub(crate) controller: bool,
    pub(crate) host: Option<usize>,
    pub(crate) id: Option<u32>,
    pub(crate) cores: u64,
    pub(crate) memory: u64,
    pub(crate) disk: u64,
    /// Slot, size and whether it is on the second storage.
    pub(crate) disks: Vec<(u64, u64, bool)>,
    /// Slot, bridge and VLAN of further network devices.
    pub(crate) nics: Vec<(u64, u64, Option<u64>)>,
    pub(crate) mapping: Option<&'static str>,
    pub(crate) protection: bool,
    pub(crate) stopped: bool,
    pub(crate) onboot: Option<bool>,
    pub(crate) delay: u64,
    pub(crate) balloon: bool,
}

const LOCAL: [&str; 3] = ["local-zfs", "local-lvm", "vmstore"];
const SHARED: [&str; 2] = ["ceph-vm", "nfs-vm"];
const TAGS: [&str; 5] = ["kubernetes", "talos", "prod", "a.b", "Zone_1"];

impl Spec {
    /// A cluster `lab` without nodes: UEFI, cloud-init, static addresses, the default pool.
    pub(crate) fn plain(hosts: usize, storage: &'static str, template: Named) -> Self {
        Self {
            uid: UID.to_owned(),
            cluster: "lab".to_owned(),
            hosts,
            storage,
            second: storage,
            template,
            pool: None,
            machine_tags: vec!["talos"],
            cloud_init: true,
            uefi: true,
            tpm: false,
            dhcp: false,
            nodes: Vec::new(),
            pooled: 0,
            counted: 0,
        }
    }

    /// A cluster on so many hosts, `cp-1` and so on, then `worker-1` and so on, on the hosts in turn.
    pub(crate) fn lab(hosts: usize, controllers: usize, workers: usize) -> Self {
        let node = |number: usize| {
            let controller = number <= controllers;
            let name =
                if controller { format!("cp-{number}") } else { format!("worker-{}", number - controllers) };
            NodeSpec {
                name,
                address: 10 + number,
                controller,
                host: Some(1 + number % hosts),
                cores: 2,
                memory: 4096,
                disk: 20,
                delay: 15,
                ..NodeSpec::default()
            }
        };
        let nodes = (1..=controllers + workers).map(node).collect();
        Self { nodes, ..Self::plain(hosts, "local-zfs", Named::Name) }
    }

    pub(crate) fn by(chance: &Chance) -> Self {
        let hosts = chance.small(1, 4);
        let shared = chance.percent(35);
        let storage = if shared { chance.pick(&SHARED) } else { chance.pick(&LOCAL) };
        let mut names = vec![Named::Name, Named::Tag, Named::NameAndTag];
        // One id is one template, and on a storage that is not shared the others cannot reach it.
        if shared || hosts == 1 {
            names.push(Named::Id);
        }
        let mut spec = Self {
            cluster: chance.pick(&["lab", "kubernetes", "prod-1"]).to_owned(),
            second: chance.pick(&[LOCAL.as_slice(), SHARED.as_slice()].concat()),
            pool: chance.pick(&[None, None, Some("k8s/prod"), Some("none")]),
            machine_tags: TAGS.iter().copied().filter(|_| chance.percent(50)).collect(),
            cloud_init: chance.percent(75),
            uefi: chance.percent(80),
            tpm: chance.percent(15),
            dhcp: chance.percent(20),
            pooled: if chance.percent(25) { chance.small(1, 2) } else { 0 },
            ..Self::plain(hosts, storage, chance.pick(&names))
        };
        // A TPM needs UEFI to be of use, and the description insists.
        spec.tpm &= spec.uefi;
        let controllers = if chance.percent(40) { 3 } else { 1 };
        for _ in 0..controllers {
            spec.add_node(true, chance);
        }
        for _ in 0..chance.small(0, 7 - controllers - spec.pooled) {
            spec.add_node(false, chance);
        }
        spec
    }

    pub(crate) fn add_node(&mut self, controller: bool, chance: &Chance) {
        let kind = if controller { "cp" } else { "worker" };
        self.counted += 1;
        let address = 10 + self.counted;
        let disks = (1..=3)
            .filter(|_| chance.percent(15))
            .map(|slot| (slot, chance.number(1, 20), chance.percent(50)));
        let nics = (1..=2).filter(|_| chance.percent(15));
        let nics =
            nics.map(|slot| (slot, chance.number(0, 1), chance.percent(50).then(|| chance.number(2, 99))));
        self.nodes.push(NodeSpec {
            name: format!("{kind}-{}", self.counted),
            address,
            controller,
            host: chance.percent(40).then(|| chance.small(1, self.hosts)),
            id: chance.percent(15).then(|| 2500 + u32::try_from(address).unwrap()),
            cores: chance.number(1, 8),
            memory: 1024 * chance.number(2, 8),
            disk: chance.number(10, 60),
            disks: disks.collect(),
            nics: nics.collect(),
            mapping: chance.percent(10).then_some("gpu"),
            protection: chance.percent(10),
            stopped: chance.percent(12),
            onboot: chance.pick(&[None, Some(true), Some(false)]),
            delay: chance.number(0, 30),
            balloon: chance.percent(10),
        });
    }

    /// Changes what a description's owner may change without building anything anew. Says whether a node went that can
    /// be removed.
    pub(crate) fn edit(&mut self, chance: &Chance) -> bool {
        let mut removed = false;
        for _ in 0..chance.small(1, 4) {
            let count = self.nodes.len();
            let protected = self.nodes.iter().any(|node| node.protection);
            let node = &mut self.nodes[chance.small(0, count - 1)];
            match chance.number(0, 13) {
                0 => node.cores = chance.number(1, 8),
                1 => node.memory = 1024 * chance.number(2, 8),
                2 => node.disk += chance.number(1, 20),
                3 => {
                    let slot = (4..12).find(|slot| node.disks.iter().all(|disk| disk.0 != *slot)).unwrap();
                    node.disks.push((slot, chance.number(1, 9), chance.percent(50)));
                }
                4 => {
                    let slot = (3..9).find(|slot| node.nics.iter().all(|nic| nic.0 != *slot)).unwrap();
                    node.nics.push((slot, 0, None));
                }
                5 => node.protection = !node.protection,
                6 => node.stopped = !node.stopped,
                7 => node.onboot = Some(chance.percent(50)),
                8 => node.delay = chance.number(0, 30),
                9 => self.machine_tags = TAGS.iter().copied().filter(|_| chance.percent(70)).collect(),
                // Proxmox takes no drive from a protected VM.
                10 if !self.cloud_init || !protected => {
                    self.cloud_init = !self.cloud_init;
                }
                11 if count < 8 => self.add_node(false, chance),
                12 => removed |= self.remove_worker(),
                13 => {
                    for disk in &mut node.disks {
                        disk.1 += chance.number(0, 5);
                    }
                }
                _ => node.balloon = !node.balloon,
            }
        }
        removed
    }

    /// Takes out a worker whose VM holds nothing that must stay.
    fn remove_worker(&mut self) -> bool {
        let plain = |node: &NodeSpec| !node.controller && !node.protection && node.disks.is_empty();
        let Some(index) = self.nodes.iter().position(plain) else { return false };
        self.nodes.remove(index);
        true
    }

    pub(crate) fn text(&self) -> String {
        let on = |flag: bool| if flag { "\"on\"" } else { "\"off\"" };
        let mut text = format!(
            "cluster_name: {}\ncluster_uid: \"{}\"\nproxmox_endpoint: https://pve1:8006\nproxmox_storage: {}\n\
             proxmox_bridge: vmbr0\nnode_cidr: 10.0.7.0/24\nnode_gateway: 10.0.7.1\ncluster_api_addr: 10.0.7.10\n\
             talos_version: 1.13.9\nkubernetes_version: 1.36.3\nnode_network: {}\ncloud_init: {}\ntpm: {}\n",
            self.cluster,
            self.uid,
            self.storage,
            if self.dhcp { "dhcp" } else { "static" },
            on(self.cloud_init),
            self.tpm,
        );
        let template = match self.template {
            Named::Name => TEMPLATE.to_owned(),
            Named::Tag => "{tags: [gold]}".to_owned(),
            Named::NameAndTag => format!("{{name: {TEMPLATE}, tags: [gold]}}"),
            Named::Id => "9000".to_owned(),
        };
        let _ = writeln!(text, "template: {template}");
        let _ = self.pool.map(|pool| writeln!(text, "proxmox_pool: {pool}"));
        let bios = if self.uefi { "ovmf" } else { "seabios" };
        let _ =
            writeln!(text, "proxmox_vm_advanced: {{bios: {bios}, tags: [{}]}}", self.machine_tags.join(", "));
        if self.pooled > 0 {
            let _ = writeln!(
                text,
                "node_pools: [{{name: pool, count: {}, addresses: 10.0.7.100-109, vm_memory: 4096}}]",
                self.pooled
            );
        }
        text.push_str("nodes:\n");
        for node in &self.nodes {
            text.push_str(&self.node_text(node));
        }
        text
    }

    fn node_text(&self, node: &NodeSpec) -> String {
        let mut parts = vec![
            format!("name: {}", node.name),
            format!("address: 10.0.7.{}", node.address),
            format!("controller: {}", node.controller),
            format!("vm_cores: {}", node.cores),
            format!("vm_memory: {}", node.memory),
            format!("vm_disk_size: {}", node.disk),
            format!("protection: {}", node.protection),
            format!("vm_power: {}", if node.stopped { "stopped" } else { "running" }),
            format!("startup_delay: {}", node.delay),
            format!("balloon: {}", if node.balloon { 1024 } else { 0 }),
        ];
        parts.extend(node.host.map(|host| format!("vm_host: pve{host}")));
        parts.extend(node.id.map(|id| format!("vm_id: {id}")));
        parts.extend(node.onboot.map(|onboot| format!("onboot: {onboot}")));
        parts.extend(node.mapping.map(|name| format!("vm_pci: [{{mapping: {name}}}]")));
        let disks: Vec<String> = node
            .disks
            .iter()
            .map(|(slot, size, second)| {
                let storage = if *second { format!(", storage: {}", self.second) } else { String::new() };
                format!("{{slot: {slot}, size: {size}{storage}}}")
            })
            .collect();
        let nics: Vec<String> = node
            .nics
            .iter()
            .map(|(slot, bridge, vlan)| {
                let vlan = vlan.map(|vlan| format!(", vlan: {vlan}")).unwrap_or_default();
                format!("{{slot: {slot}, bridge: vmbr{bridge}{vlan}}}")
            })
            .collect();
        if !disks.is_empty() {
            parts.push(format!("vm_disks: [{}]", disks.join(", ")));
        }
        if !nics.is_empty() {
            parts.push(format!("vm_networks: [{}]", nics.join(", ")));
        }
        format!("  - {{{}}}\n", parts.join(", "))
    }

    pub(crate) fn desired(&self) -> Desired {
        let text = self.text();
        let outcome = read_files(Files::from_texts(&text, None));
        assert!(!outcome.has_errors(), "{:#?}\n{text}", outcome.problems);
        outcome.desired.unwrap()
    }
}
