//! The keys of `cluster.yaml`.

use std::net::IpAddr;

use talmox_types::{
    Cidr, ClusterName, ClusterUid, Contract, FamilyPair, Fingerprint, HostName, Ratio, SecretRef, StorageId,
    Version,
    desired::{
        Boot, Cni, ConfigDelivery, DiskEncryption, NetworkMode, Patch, ProviderId, Spread, TemplateRef,
    },
};

use super::{
    Advanced, ApiUrl, Argv, Bootloader, CloudInit, Drift, ExtensionServiceBlock, FileOrUrl, Images, Meta,
    Mirrors, NodeBlock, PoolBlock, PoolChoice, Settings, WebUrl,
};
use crate::read::{
    At, CertificateName, Domain, Host, Int, LabelValue, OneOrMore, Text, VlanTag, Word, block,
};

block! {
    /// The description of a cluster.
    pub struct Cluster as "cluster.yaml" {
        /// Name of the cluster.
        cluster_name: ClusterName = "cluster_name",
        /// What tells this cluster from others of its name: sixteen hexadecimal digits, written by `talmox init`.
        /// Never change it: VMs are recognised by it.
        cluster_uid: ClusterUid = "cluster_uid",

        /// Proxmox API, one or several: `https://pve.lan:8006`. Default: the environment (`PROXMOX_VE_ENDPOINT`).
        proxmox_endpoint: OneOrMore<ApiUrl> = "proxmox_endpoint" | "proxmox_api_url",
        /// The API token, never in plain text: `env:NAME`, `file:PATH`, `sops:FILE#KEY` or `exec:["program", "argument"]`.
        proxmox_api_token: SecretRef = "proxmox_api_token",
        /// CA certificate file that signs the API's certificate. It counts where you yourself switched checking off; elsewhere `TALMOX_CA_FILE` does.
        proxmox_ca_file: Text = "proxmox_ca_file",
        /// SHA-256 fingerprints: the certificate must have one of them, besides being one that you trust (`TALMOX_FINGERPRINT`, `talmox trust`).
        proxmox_fingerprints: OneOrMore<Fingerprint> = "proxmox_fingerprints",
        /// Not obeyed: whether a certificate is checked is up to you (`PROXMOX_VE_INSECURE`), never to a description.
        proxmox_insecure: bool = "proxmox_insecure",
        /// The Proxmox host for all VMs that name none.
        proxmox_node: HostName = "proxmox_node",
        /// Proxmox hosts that may carry VMs. Default: all.
        proxmox_nodes: Vec<At<HostName>> = "proxmox_nodes",
        /// Storage of the disks.
        proxmox_storage: StorageId = "proxmox_storage" | "storage_pool" | "disk_pool",
        /// Storage downloaded disk images go to. Default: the first that takes `import` content.
        proxmox_image_storage: StorageId = "proxmox_image_storage",
        /// Storage ISO images go to.
        proxmox_iso_storage: StorageId = "proxmox_iso_storage",
        /// Storage configuration ISOs go to; they hold keys, so not one other tenants may attach from.
        proxmox_seed_storage: StorageId = "proxmox_seed_storage",
        /// Bridge of the first network device.
        proxmox_bridge: talmox_types::BridgeName = "proxmox_bridge" | "network_bridge",
        /// Resource pool the VMs live in; `none` to do without. Default: `talmox-<cluster_name>`.
        proxmox_pool: PoolChoice = "proxmox_pool",
        /// VMIDs for nodes that name none.
        proxmox_vmid_range: VmIdRangeBlock = "proxmox_vmid_range",
        /// VMIDs for managed templates.
        proxmox_template_vmid_range: VmIdRangeBlock = "proxmox_template_vmid_range",
        /// How full a host may become.
        placement: PlacementBlock = "placement",
        /// Whether control planes must be on distinct hosts, or only where hosts allow.
        control_plane_spread: Spread = "control_plane_spread",
        /// What is done about a field of a VM that is not as described: `correct` it, only `show` it, or `ignore` it.
        drift: Drift = "drift",
        /// Fields of a VM whose difference is shown and never corrected: short for `drift` with `show`.
        ignore_drift: Vec<At<Text>> = "ignore_drift",

        /// Settings for all nodes.
        proxmox_vm_defaults: Settings = "proxmox_vm_defaults",
        /// Settings for control planes.
        proxmox_vm_controller_defaults: Settings = "proxmox_vm_controller_defaults",
        /// Settings for workers.
        proxmox_vm_worker_defaults: Settings = "proxmox_vm_worker_defaults",
        /// The hardware profile of all nodes.
        proxmox_vm_advanced: Advanced = "proxmox_vm_advanced",

        /// Talos version.
        talos_version: Version = "talos_version",
        /// Kubernetes version. Default: the one the Talos version was made for.
        kubernetes_version: Version = "kubernetes_version",
        /// Layout of machine configuration, by Talos version. Default: that of `talos_version`, at most 1.13,
        /// the newest in which patches of the layout everybody has still apply.
        talos_contract: Contract = "talos_contract",
        /// What the Image Factory puts into the image.
        schematic: SchematicBlock = "schematic",
        /// A template somebody else made, by name, VMID or tags, cloned instead of a managed one.
        talos_template: TemplateRef = "talos_template" | "template",
        /// Where the first boot comes from.
        boot: Boot = "boot",
        /// How machine configuration reaches a node. With `maintenance` it is sent over the network to a machine that proves
        /// itself by its SMBIOS uuid only, which others can claim. With `cidata` it comes on a drive, and nothing secret crosses
        /// a connection on which the machine has not proved itself.
        config_delivery: ConfigDelivery = "config_delivery",
        /// Whether machines boot with Secure Boot (UEFI only).
        secure_boot: bool = "secure_boot" | "secureboot",
        /// Whether VMs have a TPM 2.0.
        tpm: bool = "tpm",
        /// Encryption of Talos's STATE and EPHEMERAL volumes: `tpm` seals the key to the TPM, `node-id` derives it from the
        /// machine's uuid. `encrypt_disk: true` means `tpm`.
        disk_encryption: DiskEncryption = "disk_encryption" | "encrypt_disk",
        /// The Image Factory; another one for places without internet.
        factory_url: WebUrl = "factory_url",
        /// Install images by provider: proxmox, kubevirt, libvirt, kvm, vmware, virtualbox, hyperv, default.
        install_images: Images = "install_images",
        /// Patches to every node's machine configuration: YAML in place, or the name of a file.
        patches: Vec<At<Patch>> = "patches",
        /// The secrets bundle. Default: secrets.sops.yaml or secrets.yaml beside the description.
        secrets_file: Text = "secrets_file",
        /// Where snapshots of etcd go, which are taken before risky steps and by `talmox etcd snapshot`.
        etcd_backup: EtcdBackupBlock = "etcd_backup",
        /// Configuration of system extensions' services.
        extension_services: Vec<At<ExtensionServiceBlock>> = "extension_services",
        /// Kernel modules to load.
        kernel_modules: Vec<At<Word>> = "kernel_modules",

        /// Network plugin: `flannel`, `none`, `{urls: [...]}` or `{manifest: FILE}`.
        cni: Cni = "cni",
        /// Whether kube-proxy runs.
        kube_proxy: bool = "kube_proxy",
        /// Whether workloads may run on control planes. Default: only if there are no workers.
        allow_scheduling_on_control_planes: bool = "allow_scheduling_on_control_planes",
        /// Manifests (files or URLs) applied as soon as the API answers.
        bootstrap_manifests: Vec<At<FileOrUrl>> = "bootstrap_manifests",
        /// A program and its arguments, run once after bootstrap.
        post_bootstrap: Argv = "post_bootstrap",
        /// Mirrors by registry: `docker.io: [https://mirror.lan]`.
        registry_mirrors: Mirrors = "registry_mirrors",
        /// Whether nodes talk through KubeSpan (WireGuard).
        kubespan: bool = "kubespan",
        /// DNS domain of services.
        dns_domain: Domain = "dns_domain",
        /// Whether nodes find each other through the discovery service.
        discovery: bool = "discovery",
        /// Whether nodes reach the API through a local load balancer.
        kubeprism: bool = "kubeprism",
        /// Provider id of Kubernetes nodes.
        provider_id: ProviderId = "provider_id",
        /// Region label of the nodes. The zone is the Proxmox host.
        region: LabelValue = "region",

        /// Network of the nodes. Default: the /24 (or /64) around the first node's address.
        node_cidr: FamilyPair<Cidr> = "node_cidr",
        /// Whether addresses are static or come by DHCP (then `address` is the reservation).
        node_network: NetworkMode = "node_network",
        /// Whether Proxmox's cloud-init drive gives address and name for the first boot.
        cloud_init: CloudInit = "cloud_init",
        /// Default gateway. Default: the first address of `node_cidr`.
        node_gateway: FamilyPair<IpAddr> = "node_gateway" | "node_default_gateway" | "gateway_address",
        /// Name servers.
        dns_servers: OneOrMore<IpAddr> = "dns_servers" | "node_dns_servers",
        /// Time servers.
        ntp_servers: OneOrMore<Host> = "ntp_servers" | "node_ntp_servers",
        /// VLAN tag of the first network device, on the Proxmox side only.
        node_vlan_tag: VlanTag = "node_vlan_tag",
        /// A VLAN inside the guest.
        guest_vlan: VlanTag = "guest_vlan",
        /// Virtual address the control planes share. Needed with several of them unless `cluster_endpoint` is set.
        cluster_api_addr: FamilyPair<IpAddr> = "cluster_api_addr",
        /// URL of the Kubernetes API, if something else balances it. Default: port 6443 of `cluster_api_addr`,
        /// or of the only control plane.
        cluster_endpoint: ApiUrl = "cluster_endpoint",
        /// Further names the API's certificate is valid for.
        cluster_api_tls_sans: OneOrMore<CertificateName> = "cluster_api_tls_sans",
        /// Network of pods.
        cluster_pod_cidr: FamilyPair<Cidr> = "cluster_pod_cidr",
        /// Network of services.
        cluster_svc_cidr: FamilyPair<Cidr> = "cluster_svc_cidr",
        /// Networks the kubelet takes its address from. Default: `node_cidr`.
        node_ip_subnets: OneOrMore<Cidr> = "node_ip_subnets",
        /// Networks etcd listens on. Default: `node_cidr`.
        etcd_subnets: OneOrMore<Cidr> = "etcd_subnets",
        /// Routes besides the default one.
        node_routes: Vec<At<RouteBlock>> = "node_routes",

        /// The nodes; in a file of their own, `nodes.yaml`, or here.
        nodes: Vec<At<NodeBlock>> = "nodes",
        /// Nodes that differ in nothing but name and address.
        node_pools: Vec<At<PoolBlock>> = "node_pools",
    }
}

block! {
    /// A range of VMIDs, both ends included.
    pub struct VmIdRangeBlock as "proxmox_vmid_range" {
        /// The first VMID. Required.
        start: Int<100, 999_999_999> = "start",
        /// The last VMID. Required.
        end: Int<100, 999_999_999> = "end",
    }
}

block! {
    /// How full a host may become.
    pub struct PlacementBlock as "placement" {
        /// Memory in MiB of each host that VMs leave free.
        reserve_memory: Int<0, 33_554_432> = "reserve_memory",
        /// Virtual cores per core of the host.
        cpu_overcommit: Ratio = "cpu_overcommit",
        /// Thin-provisioned bytes per byte of a storage.
        storage_overcommit: Ratio = "storage_overcommit",
    }
}

block! {
    /// What the Image Factory puts into the image. The order of lists is kept: it changes the schematic's id.
    pub struct SchematicBlock as "schematic" {
        /// System extensions, like siderolabs/qemu-guest-agent.
        extensions: Vec<At<Word>> = "extensions",
        /// Extra kernel arguments.
        kernel_args: Vec<At<Text>> = "kernel_args",
        /// META values by key (0 to 255).
        meta: Meta = "meta",
        /// Overlay for single-board computers.
        overlay: OverlayBlock = "overlay",
        /// Boot loader, where the default is not wanted.
        bootloader: Bootloader = "bootloader",
    }
}

block! {
    /// An overlay.
    pub struct OverlayBlock as "overlay" {
        /// Image of the overlay. Required.
        image: Text = "image",
        /// Name of the overlay. Required.
        name: Text = "name",
    }
}

block! {
    /// Where snapshots of etcd go.
    pub struct EtcdBackupBlock as "etcd_backup" {
        /// Folder, relative to the description; made if it is not there. Required.
        dir: Text = "dir",
        /// Public keys of age (`age1…`) the snapshots are encrypted for. Without any they are not encrypted.
        age: OneOrMore<Word> = "age",
        /// How many snapshots stay. Default: 5.
        keep: Int<1, 1000> = "keep",
    }
}

block! {
    /// A route besides the default one.
    pub struct RouteBlock as "node_routes" {
        /// Destination. Required.
        network: Cidr = "network",
        /// Next hop. Required.
        gateway: IpAddr = "gateway",
        /// Metric.
        metric: Int<0, 4_294_967_295> = "metric",
    }
}
