//! A description to start from.

use std::fmt::Write as _;
use std::net::IpAddr;

use talmox_types::desired::VmIdRange;
use talmox_types::{
    BridgeName, Cidr, ClusterName, ClusterUid, Fingerprint, HostName, PoolName, StorageId, support,
};

/// Folder of the schemas that editors read, beside the description.
pub const SCHEMA_FOLDER: &str = ".talmox";
pub const CLUSTER_SCHEMA: &str = "cluster.schema.json";
pub const NODES_SCHEMA: &str = "nodes.schema.json";

/// What a first description says.
#[derive(Clone, Debug)]
pub struct Answers {
    pub name: ClusterName,
    pub uid: ClusterUid,
    pub endpoint: String,
    /// The certificate somebody compared.
    pub fingerprint: Option<Fingerprint>,
    pub host: HostName,
    pub storage: StorageId,
    pub image_storage: Option<StorageId>,
    /// None: the one that is made by default.
    pub pool: Option<PoolName>,
    /// None: those that are used by default.
    pub ids: Option<VmIdRange>,
    pub bridge: BridgeName,
    pub node_cidr: Cidr,
    pub gateway: IpAddr,
    pub vip: Option<IpAddr>,
    /// One address per node, control planes first.
    pub addresses: Vec<IpAddr>,
    pub control_planes: usize,
}

/// A value as it must be written so that every YAML reader takes it for the same text.
fn written(text: &str) -> String {
    let scalar = talmox_yaml::Scalar { text: text.to_owned(), style: talmox_yaml::Style::Plain };
    let plain = scalar.meaning() == talmox_yaml::PlainMeaning::Text
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:".contains(&b))
        && !text.starts_with(':')
        && !text.ends_with(':');
    if plain { text.to_owned() } else { format!("\"{text}\"") }
}

/// `cluster.yaml`, with a comment on everything somebody will want to change.
pub fn cluster_yaml(answers: &Answers) -> String {
    let Answers { uid, node_cidr, .. } = answers;
    let [network, gateway] = [node_cidr.to_string(), answers.gateway.to_string()].map(|text| written(&text));
    let vip = answers.vip.map(|vip| written(&vip.to_string()));
    let [name, endpoint, host, storage, bridge] = [
        answers.name.as_str(),
        answers.endpoint.as_str(),
        answers.host.as_str(),
        answers.storage.as_str(),
        answers.bridge.as_str(),
    ]
    .map(written);
    let talos = support::DEFAULT_TALOS;
    let kubernetes =
        support::line_of(&talos).map(|line| line.default_kubernetes().to_string()).unwrap_or_default();
    let contract = support::default_contract(&talos);
    // The defaults for pods, services and name servers are IPv4.
    let networks = if node_cidr.is_ipv4() {
        "# dns_servers: [1.1.1.1, 1.0.0.1]\n"
    } else {
        "dns_servers: [\"2606:4700:4700::1111\", \"2606:4700:4700::1001\"]\n\
         ntp_servers: [time.cloudflare.com]\n\
         cluster_pod_cidr: \"fd42::/56\"\ncluster_svc_cidr: \"fd43::/112\"\n"
    };
    let vip = match vip {
        Some(vip) => format!(
            "# Virtual address the control planes share; free, and inside node_cidr.\ncluster_api_addr: {vip}\n"
        ),
        None => {
            "# With several control planes they need an address to share:\n# cluster_api_addr: 10.0.7.10\n"
                .to_owned()
        }
    };
    let (pinned, more) = (pinned(answers), chosen(answers));
    format!(
        "\
# yaml-language-server: $schema={SCHEMA_FOLDER}/{CLUSTER_SCHEMA}
# The cluster. The nodes are in nodes.yaml. `talmox validate` checks both, `talmox explain NODE` shows what comes of them.
cluster_name: {name}
# Tells this cluster from others of its name. Never change it: VMs are recognised by it.
cluster_uid: \"{uid}\"

# ---- Proxmox ----
proxmox_endpoint: {endpoint}
{pinned}# A reference to the API token, never the token itself: env:NAME, file:PATH, sops:FILE#KEY or exec:[\"program\", \"argument\"].
proxmox_api_token: env:PROXMOX_VE_API_TOKEN
# The host for all VMs. With several hosts, remove it and list them: proxmox_nodes: [pve1, pve2, pve3]
proxmox_node: {host}
proxmox_storage: {storage}
proxmox_bridge: {bridge}
{more}
# ---- Machines ----
# Defaults are 4 cores and 8 GiB for control planes, 8 cores and 16 GiB for workers, 100 GiB disks.
# proxmox_vm_controller_defaults: {{cores: 4, memory: 8192}}
# proxmox_vm_worker_defaults: {{cores: 8, memory: 16384, disk_size: 100}}

# ---- Network ----
node_cidr: {network}
node_gateway: {gateway}
{networks}# VLAN of the machines' network device, on the Proxmox side:
# node_vlan_tag: 7
{vip}
# ---- Talos and Kubernetes ----
# Change a version to upgrade.
talos_version: {talos}
kubernetes_version: {kubernetes}
talos_contract: \"{contract}\"
schematic:
  extensions:
    - siderolabs/qemu-guest-agent
# Snapshots of etcd go here before upgrades and whatever else is risky, and when `talmox etcd snapshot` asks for one. They hold every
# Secret of the cluster: keep them on another machine too, and encrypt them with age: [age1…].
etcd_backup: {{dir: etcd-backup}}
"
    )
}

fn pinned(answers: &Answers) -> String {
    let line = |fingerprint: &Fingerprint| {
        format!("# The certificate the endpoint must show.\nproxmox_fingerprints: [\"{fingerprint}\"]\n")
    };
    answers.fingerprint.as_ref().map(line).unwrap_or_default()
}

/// What was chosen beside the defaults.
fn chosen(answers: &Answers) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    if let Some(storage) = &answers.image_storage {
        let _ = writeln!(text, "# Where disk images are fetched to; it takes import content.");
        let _ = writeln!(text, "proxmox_image_storage: {}", written(storage.as_str()));
    }
    if let Some(pool) = &answers.pool {
        let _ = writeln!(text, "proxmox_pool: {}", written(pool.as_str()));
    }
    if let Some(VmIdRange { start, end }) = &answers.ids {
        let _ = writeln!(text, "proxmox_vmid_range: {{start: {start}, end: {end}}}");
    }
    text
}

/// `nodes.yaml`.
pub fn nodes_yaml(answers: &Answers) -> String {
    let mut text = format!(
        "\
# yaml-language-server: $schema={SCHEMA_FOLDER}/{NODES_SCHEMA}
# The nodes. A name is the name of VM, host and Kubernetes node at once; MAC addresses are derived unless given.
# Settings of one node stand beside its name: vm_cores, vm_memory, vm_disk_size, vm_host, gpu_pci_bdf and others.
nodes:
"
    );
    for (index, address) in answers.addresses.iter().enumerate() {
        let (name, controller) = match index.checked_sub(answers.control_planes) {
            None => (format!("cp-{}", index + 1), true),
            Some(worker) => (format!("worker-{}", worker + 1), false),
        };
        // Writing to a string cannot fail.
        let address = written(&address.to_string());
        let _ = writeln!(text, "  - name: {name}\n    address: {address}\n    controller: {controller}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Files, read_files};
    use talmox_types::VmId;

    fn answers(control_planes: usize, workers: usize, network: &str) -> Answers {
        let node_cidr = Cidr::parse(network).unwrap();
        Answers {
            // Names that some YAML readers would take for something else.
            name: ClusterName::parse("null").unwrap(),
            uid: ClusterUid::from([0x12; 8]),
            endpoint: "https://pve.lan:8006".to_owned(),
            fingerprint: (control_planes > 1).then(|| Fingerprint::from([7; 32])),
            host: HostName::parse("true").unwrap(),
            storage: StorageId::parse("on").unwrap(),
            image_storage: (control_planes > 1).then(|| StorageId::parse("yes").unwrap()),
            pool: (control_planes > 1).then(|| PoolName::parse("off").unwrap()),
            ids: (control_planes > 3).then(|| VmIdRange {
                start: VmId::try_from(4000).unwrap(),
                end: VmId::try_from(4999).unwrap(),
            }),
            bridge: BridgeName::parse("0755").unwrap(),
            node_cidr,
            gateway: node_cidr.first_host(),
            vip: (control_planes > 1).then(|| node_cidr.hosts().iter().nth(9).unwrap()),
            addresses: node_cidr.hosts().iter().skip(10).take(control_planes + workers).collect(),
            control_planes,
        }
    }

    #[test]
    fn what_it_writes_is_valid_without_a_remark() {
        for (control_planes, workers, network) in [
            (1, 0, "10.0.7.0/24"),
            (1, 2, "10.0.7.0/24"),
            (3, 0, "192.168.1.0/27"),
            (3, 3, "fd00:7::/64"),
            (5, 10, "10.0.7.0/24"),
        ] {
            let answers = answers(control_planes, workers, network);
            let outcome = read_files(Files::from_texts(&cluster_yaml(&answers), Some(&nodes_yaml(&answers))));
            assert_eq!(outcome.problems, [], "{control_planes} and {workers}");
            let desired = outcome.desired.unwrap();
            assert_eq!(desired.nodes.len(), control_planes + workers);
            assert_eq!(desired.uid.unwrap(), answers.uid);
        }
    }
}
