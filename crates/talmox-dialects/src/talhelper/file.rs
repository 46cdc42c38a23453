//! The keys of `talconfig.yaml`. What has the shape Talos gives it is carried as a tree.

use talmox_config::read::{At, Text, block};

use crate::tree::Tree;

block! {
    /// What a `talconfig.yaml` says.
    pub struct TalconfigBlock as "talconfig.yaml" {
        /// Name of the cluster.
        cluster_name: Text = "clusterName",
        /// Version of Talos.
        talos_version: Text = "talosVersion",
        /// Version of Kubernetes.
        kubernetes_version: Text = "kubernetesVersion",
        /// Where the Kubernetes API is.
        endpoint: Text = "endpoint",
        /// DNS domain of services.
        domain: Text = "domain",
        /// Whether workloads may run on control planes.
        allow_scheduling: bool = "allowSchedulingOnControlPlanes" | "allowSchedulingOnMasters",
        /// Further names of machines' certificates.
        machine_sans: Vec<At<Text>> = "additionalMachineCertSans",
        /// Further names of the API's certificate.
        api_server_sans: Vec<At<Text>> = "additionalApiServerCertSans",
        /// Manifests that are part of the config.
        inline_manifests: Tree = "inlineManifests",
        /// Networks of pods.
        pod_nets: Vec<At<Text>> = "clusterPodNets",
        /// Networks of services.
        service_nets: Vec<At<Text>> = "clusterSvcNets",
        /// The network plugin.
        cni: Tree = "cniConfig",
        /// Patches for every node, applied last.
        patches: Vec<At<Tree>> = "patches",
        /// The nodes.
        nodes: Vec<At<NodeBlock>> = "nodes",
        /// Where images come from.
        image_factory: ImageFactoryBlock = "imageFactory",
        /// For control planes.
        control_plane: GroupBlock = "controlPlane",
        /// For workers.
        worker: GroupBlock = "worker",
    }
}

block! {
    /// Where images come from.
    pub struct ImageFactoryBlock as "imageFactory" {
        /// Its host.
        registry_url: Text = "registryURL",
        /// Where schematics are sent.
        schematic_endpoint: Text = "schematicEndpoint",
        /// How it is talked to.
        protocol: Text = "protocol",
        /// What an installer is called.
        installer_template: Text = "installerURLTmpl",
        /// What an image is called.
        image_template: Text = "ISOURLTmpl",
    }
}

block! {
    /// A node.
    pub struct NodeBlock as "nodes" {
        /// Its name.
        hostname: Text = "hostname",
        /// Its addresses, with commas between them.
        ip_address: Text = "ipAddress",
        /// Whether it is a control plane.
        control_plane: bool = "controlPlane",
        /// The disk Talos is installed to.
        install_disk: Text = "installDisk",
        /// What that disk looks like.
        install_disk_selector: Tree = "installDiskSelector",
        /// Whether its name is left out.
        ignore_hostname: bool = "ignoreHostname",
        /// Whether its patches take the place of the group's.
        override_patches: bool = "overridePatches",
        /// Whether its documents take the place of the group's.
        override_manifests: bool = "overrideExtraManifests",
        /// Whether its certificate's names take the place of the group's.
        override_sans: bool = "overrideMachineCertSANs",
        ..group: GroupBlock,
    }
}

block! {
    /// What nodes have alone or in a group.
    pub struct GroupBlock as "controlPlane" {
        /// Labels in Kubernetes.
        labels: Tree = "nodeLabels",
        /// Annotations in Kubernetes.
        annotations: Tree = "nodeAnnotations",
        /// Taints in Kubernetes.
        taints: Tree = "nodeTaints",
        /// Disks with partitions.
        disks: Tree = "machineDisks",
        /// Files.
        files: Tree = "machineFiles",
        /// Whether there is no search domain.
        disable_search_domain: bool = "disableSearchDomain",
        /// Kernel modules.
        kernel_modules: Tree = "kernelModules",
        /// Name servers.
        nameservers: Vec<At<Text>> = "nameservers",
        /// Network interfaces.
        interfaces: Tree = "networkInterfaces",
        /// Files with further documents.
        manifests: Vec<At<Text>> = "extraManifests",
        /// Further names of the machine's certificate.
        cert_sans: Vec<At<Text>> = "certSANs",
        /// Patches.
        patches: Vec<At<Tree>> = "patches",
        /// The installer, without its tag.
        image_url: Text = "talosImageURL",
        /// Whether schematics are not looked at.
        no_schematic_validate: bool = "noSchematicValidate",
        /// What the installer is made of.
        schematic: Tree = "schematic",
        /// What the first image is made of.
        image_schematic: Tree = "imageSchematic",
        /// What the machine is.
        machine_spec: MachineSpecBlock = "machineSpec",
        /// What may come in.
        firewall: Tree = "ingressFirewall",
        /// Configuration of system extensions' services.
        extension_services: Tree = "extensionServices",
        /// Talos' own volumes.
        volumes: Tree = "volumes",
        /// Volumes of the user's.
        user_volumes: Tree = "userVolumes",
        /// What the config's file is called.
        filename_template: Text = "filenameTmpl",
    }
}

block! {
    /// What a machine is.
    pub struct MachineSpecBlock as "machineSpec" {
        /// The platform.
        mode: Text = "mode",
        /// The architecture.
        arch: Text = "arch",
        /// Whether it boots with Secure Boot.
        secure_boot: bool = "secureboot",
        /// Whether it boots a unified kernel image.
        use_uki: bool = "useUKI",
        /// What it boots first.
        boot_method: Text = "bootMethod",
        /// What that file ends in.
        image_suffix: Text = "imageSuffix",
    }
}
