//! The descriptions talmox grew from are read as they are: every key of theirs, and their defaults.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use talmox_config::{Files, Severity, read_files};
use talmox_types::desired::{
    Bios, Desired, DiskEncryption, MachineType, PciSource, ScsiController, TemplateRef,
};

fn read(cluster: &str, nodes: Option<&str>) -> Desired {
    let outcome = read_files(Files::from_texts(cluster, nodes));
    let errors: Vec<_> = outcome.problems.iter().filter(|p| p.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    outcome.desired.unwrap()
}

/// Everything the cluster template's two files can hold, hardware profile included.
#[test]
fn the_cluster_template_with_its_vm_settings() {
    let cluster = r#"
node_cidr: "192.168.22.0/24"
node_dns_servers: ["1.1.1.1", "1.0.0.1"]
node_ntp_servers: ["162.159.200.1"]
node_default_gateway: "192.168.22.1"
node_vlan_tag: "7"
cluster_api_addr: "192.168.22.100"
cluster_api_tls_sans: ["k8s.example.com"]
cluster_pod_cidr: "10.42.0.0/16"
cluster_svc_cidr: "10.43.0.0/16"
cluster_dns_gateway_addr: "192.168.22.101"
cluster_gateway_addr: "192.168.22.102"
repository_name: "me/home"
repository_branch: "main"
repository_visibility: "public"
cloudflare_domain: "example.com"
cloudflare_token: "not-ours"
cloudflare_gateway_addr: "192.168.22.103"
cni: none
bootstrap_manifests: ["https://example.com/cilium.yaml"]
cilium_loadbalancer_mode: "dsr"
cilium_bgp_router_addr: ""
cilium_bgp_router_asn: ""
cilium_bgp_node_asn: ""
proxmox_api_url: "https://192.168.22.10:8006"
proxmox_node: "pve"
proxmox_vm_defaults: {cores: 4, sockets: 1, memory: 8192, disk_size: 128}
proxmox_vm_controller_defaults: {cores: 4, sockets: 1, memory: 8192, disk_size: 64}
proxmox_vm_worker_defaults: {cores: 8, memory: 16384, disk_size: 256}
proxmox_vm_advanced:
  bios: "ovmf"
  machine: "q35"
  cpu_type: "host"
  scsi_hw: "virtio-scsi-pci"
  balloon: 0
  numa: true
  qemu_agent: true
  net_queues: 4
  disk_discard: true
  disk_ssd: true
  tags: ["kubernetes", "linux", "talos"]
  network_bridge: "vmbr0"
  ostype: "l26"
  disk_backup: false
  disk_replicate: false
"#;
    let nodes = r#"
nodes:
  - name: "k8s-cp-1"
    address: "192.168.22.11"
    controller: true
    disk: "/dev/sda"
    mac_addr: "bc:24:11:00:01:01"
    schematic_id: "29d123fd0e746fccd5ff52d37c0cdbd2d653e10ae29c39276b6edb9ffbd56cf4"
    mtu: 1500
    secureboot: true
    encrypt_disk: true
    kernel_modules: ["nvidia"]
    vm_cores: 2
    vm_sockets: 2
    vm_memory: 4096
    vm_disk_size: 40
    vm_startup_order: 9
    vm_startup_delay: 20
    vm_shutdown_delay: 90
  - name: "k8s-w-1"
    address: "192.168.22.12"
    controller: false
    disk: "S3Z1NX0K"
    mac_addr: "bc:24:11:00:01:02"
    schematic_id: "29d123fd0e746fccd5ff52d37c0cdbd2d653e10ae29c39276b6edb9ffbd56cf4"
"#;
    let desired = read(cluster, Some(nodes));
    let [first, second] = desired.nodes.as_slice() else { panic!("two nodes") };
    assert_eq!((first.vm.cores, first.vm.sockets, first.vm.memory, first.vm.disk_size), (2, 2, 4096, 40));
    assert_eq!((first.vm.startup.order, first.vm.startup.up, first.vm.startup.down), (9, 20, 90));
    assert_eq!(first.vm.nics[0].mtu, Some(1500));
    assert_eq!(first.vm.nics[0].vlan, Some(7));
    assert!(first.vm.secure_boot && first.vm.tpm && first.disk_encryption == DiskEncryption::Tpm);
    assert_eq!(first.kernel_modules, ["nvidia"]);
    assert_eq!((second.vm.cores, second.vm.memory, second.vm.disk_size), (8, 16384, 256));
    assert_eq!(second.vm.startup.order, 5, "position 2, plus 3");
    assert_eq!(second.install_disk, "S3Z1NX0K");
    assert_eq!(desired.proxmox.endpoints, ["https://192.168.22.10:8006"]);
}

/// What stands in no file has the deployed VM's value.
#[test]
fn defaults_are_those_of_the_deployed_vm() {
    let desired = read(
        "nodes:\n  - {name: a, address: 10.0.7.2, controller: true}\n  - {name: b, address: 10.0.7.3}\n",
        None,
    );
    let [controller, worker] = desired.nodes.as_slice() else { panic!("two nodes") };
    assert_eq!((controller.vm.cores, controller.vm.memory), (4, 8192));
    assert_eq!((worker.vm.cores, worker.vm.memory), (8, 16384));
    let vm = &controller.vm;
    assert_eq!((vm.sockets, vm.disk_size, vm.balloon), (1, 100, 0));
    assert_eq!(
        (vm.bios, vm.machine, vm.scsi_hw),
        (Bios::Ovmf, MachineType::Q35, ScsiController::VirtioScsiPci)
    );
    assert!(vm.numa && vm.agent && vm.disk_options.discard && vm.disk_options.ssd);
    assert!(!vm.disk_options.backup && !vm.disk_options.replicate);
    assert_eq!((vm.cpu_type.as_str(), vm.os_type.as_str(), vm.nics[0].queues), ("host", "l26", 4));
    assert_eq!(vm.nics[0].bridge.as_str(), "vmbr0");
    assert_eq!((vm.startup.order, vm.startup.up, vm.startup.down), (4, 15, 60));
    assert_eq!(vm.on_boot, None);
    assert_eq!(desired.name.as_str(), "kubernetes");
    assert_eq!(desired.network.pod_cidr.primary().to_string(), "10.42.0.0/16");
    assert_eq!(desired.network.gateway.primary().to_string(), "10.0.7.1");
    assert_eq!(desired.network.endpoint, "https://10.0.7.2:6443");
}

/// The inputs of the Terraform module, as keys of a node.
#[test]
fn the_terraform_modules_inputs() {
    let desired = read(
        "nodes:\n  - name: k3s-dev-gpu-1\n    address: 10.0.7.2\n    controller: true\n    node: pve\n    \
         template: talos-v1.12.4-base\n    cores: 8\n    memory_mb: 16384\n    disk_gb: 80\n    disk_pool: tank\n    \
         network_bridge: vmbr0\n    gpu_pci_bdf: \"0000:01:00.0\"\n    gpu_pcie_mode: true\n    gpu_rombar: false\n    \
         onboot: true\n",
        None,
    );
    let vm = &desired.nodes[0].vm;
    assert_eq!(vm.template, Some(TemplateRef::Name("talos-v1.12.4-base".to_owned())));
    assert_eq!((vm.cores, vm.memory, vm.disk_size, vm.storage.as_str()), (8, 16384, 80, "tank"));
    assert_eq!(vm.host.as_ref().unwrap().as_str(), "pve");
    assert_eq!(vm.on_boot, Some(true));
    let [gpu] = vm.pci.as_slice() else { panic!("one device") };
    assert!(matches!(&gpu.source, PciSource::Address(address) if address.to_string() == "0000:01:00.0"));
    assert!(gpu.pcie && !gpu.rombar);
}

/// The keys the automation research proposed for `cluster.yaml`, and its node fields.
#[test]
fn the_research_documents_keys() {
    let desired = read(
        "proxmox_endpoint: \"https://192.168.1.10:8006\"\nproxmox_node: \"pve\"\nproxmox_storage: \"local-zfs\"\n\
         proxmox_bridge: \"vmbr0\"\ntalos_template: \"talos-1.12.0\"\nnode_gateway: 192.168.22.1\n\
         dns_servers: [192.168.22.1]\nproxmox_insecure: false\n",
        Some(
            "nodes:\n  - name: k8s-cp-1\n    address: \"192.168.22.10\"\n    mac_addr: \"BC:24:11:00:01:01\"\n    \
             controller: true\n    disk: /dev/sda\n    cores: 4\n    memory: 8192\n    disk_size: 100\n",
        ),
    );
    assert_eq!(desired.nodes[0].vm.disk_size, 100);
    let other = read(
        "storage_pool: tank\ngateway_address: 10.0.7.1\nnetwork_bridge: vmbr3\nnodes:\n  - {name: a, address: 10.0.7.2, controller: true}\n",
        None,
    );
    assert_eq!(other.nodes[0].vm.storage.as_str(), "tank");
    assert_eq!(other.nodes[0].vm.nics[0].bridge.as_str(), "vmbr3");
}

/// Start orders stop at 100, where Proxmox's interface does.
#[test]
fn start_orders_are_capped() {
    let nodes: String = (0..120)
        .map(|n| {
            format!("  - {{name: n{n}, address: 10.1.{}.{}, controller: {}}}\n", n / 100, n % 100 + 2, n == 0)
        })
        .collect();
    let desired = read(&format!("node_cidr: 10.1.0.0/16\nnodes:\n{nodes}"), None);
    let orders: Vec<u16> = desired.nodes.iter().map(|node| node.vm.startup.order).collect();
    assert_eq!((orders[0], orders[96], orders[97], orders[119]), (4, 100, 100, 100));
}
