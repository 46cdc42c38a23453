//! The types of resources a node knows, by version, and how `talosctl get` finds them.
//!
//! Source: the definitions genuine nodes list (transcripts, group `maintenance-cosi`). Names that follow from a type's name are made
//! from it; the tables hold the rest.

/// A type of resource.
pub(super) struct Kind {
    /// `MachineStatuses.runtime.talos.dev`.
    pub(super) name: &'static str,
    pub(super) namespace: &'static str,
    /// The first minor version that has it, and the last.
    since: u16,
    until: u16,
    /// For administrators only.
    pub(super) sensitive: bool,
}

const fn kind(name: &'static str, namespace: &'static str, since: u16, until: u16, sensitive: bool) -> Kind {
    Kind { name, namespace, since, until, sensitive }
}

/// No version is known that dropped it.
const ON: u16 = u16::MAX;

#[rustfmt::skip]
const KINDS: [Kind; 197] = [
    kind("AcquireConfigSpecs.v1alpha1.talos.dev", "runtime", 0, ON, false),
    kind("AcquireConfigStatuses.v1alpha1.talos.dev", "runtime", 0, ON, false),
    kind("AddressSpecs.net.talos.dev", "network", 0, ON, false),
    kind("AddressStatuses.net.talos.dev", "network", 0, ON, false),
    kind("AdjtimeStatuses.v1alpha1.talos.dev", "runtime", 0, ON, false),
    kind("AdmissionControlConfigs.kubernetes.talos.dev", "controlplane", 0, ON, false),
    kind("Affiliates.cluster.talos.dev", "cluster", 0, ON, false),
    kind("ApiCertificates.secrets.talos.dev", "secrets", 0, ON, true),
    kind("APIServerConfigs.kubernetes.talos.dev", "controlplane", 0, ON, true),
    kind("APIServiceConfigs.runtime.talos.dev", "runtime", 13, ON, false),
    kind("AuditPolicyConfigs.kubernetes.talos.dev", "controlplane", 0, ON, true),
    kind("AuthenticationConfigs.kubernetes.talos.dev", "controlplane", 14, ON, true),
    kind("AuthorizationConfigs.kubernetes.talos.dev", "controlplane", 0, ON, true),
    kind("BaseRuntimeSpecConfigs.cri.talos.dev", "cri", 14, ON, false),
    kind("BGPInstanceConfigs.net.talos.dev", "network", 14, ON, false),
    kind("BGPPeerStatuses.net.talos.dev", "network", 14, ON, false),
    kind("BlockDevices.block.talos.dev", "runtime", 0, ON, false),
    kind("BlockSymlinks.block.talos.dev", "runtime", 0, ON, false),
    kind("BootedEntries.talos.dev", "runtime", 0, ON, false),
    kind("BootIDs.runtime.talos.dev", "runtime", 14, ON, false),
    kind("BootstrapManifestsConfigs.kubernetes.talos.dev", "controlplane", 0, ON, false),
    kind("CertSANs.secrets.talos.dev", "secrets", 0, ON, true),
    kind("ConfigStatuses.kubernetes.talos.dev", "controlplane", 0, ON, false),
    kind("ContainerSpecs.containers.talos.dev", "containers", 14, ON, false),
    kind("ControllerManagerConfigs.kubernetes.talos.dev", "controlplane", 0, ON, false),
    kind("CPUCores.hardware.talos.dev", "hardware", 14, ON, false),
    kind("CPUStats.perf.talos.dev", "perf", 0, ON, false),
    kind("CustomizationConfigs.cri.talos.dev", "cri", 14, ON, true),
    kind("DeviceConfigSpecs.net.talos.dev", "network", 0, ON, true),
    kind("DevicesStatuses.runtime.talos.dev", "runtime", 0, ON, false),
    kind("Diagnostics.runtime.talos.dev", "runtime", 0, ON, false),
    kind("DiscoveredVolumes.block.talos.dev", "runtime", 0, ON, false),
    kind("DiscoveryConfigs.cluster.talos.dev", "config", 0, ON, true),
    kind("DiscoveryRefreshRequests.block.talos.dev", "runtime", 0, ON, false),
    kind("DiscoveryRefreshStatuses.block.talos.dev", "runtime", 0, ON, false),
    kind("Disks.block.talos.dev", "runtime", 0, ON, false),
    kind("DNSResolveCaches.net.talos.dev", "network", 0, ON, false),
    kind("DNSUpstreams.net.talos.dev", "network", 0, ON, false),
    kind("EncryptionSalts.secrets.talos.dev", "secrets", 0, ON, true),
    kind("Endpoints.kubernetes.talos.dev", "controlplane", 0, ON, false),
    kind("Environments.runtime.talos.dev", "runtime", 13, ON, false),
    kind("EtcdConfigs.etcd.talos.dev", "etcd", 0, ON, false),
    kind("EtcdEncryptionConfigs.kubernetes.talos.dev", "k8s", 14, ON, true),
    kind("EtcdMembers.etcd.talos.dev", "etcd", 0, ON, false),
    kind("EtcdRootSecrets.secrets.talos.dev", "secrets", 0, ON, true),
    kind("EtcdSecrets.secrets.talos.dev", "secrets", 0, ON, true),
    kind("EtcdSpecs.etcd.talos.dev", "etcd", 0, ON, false),
    kind("EtcFileSpecs.files.talos.dev", "files", 0, ON, true),
    kind("EtcFileStatuses.files.talos.dev", "files", 0, ON, false),
    kind("EthernetSpecs.net.talos.dev", "network", 0, ON, false),
    kind("EthernetStatuses.net.talos.dev", "network", 0, ON, false),
    kind("EventSinkConfigs.runtime.talos.dev", "runtime", 0, ON, false),
    kind("ExtensionServiceConfigs.runtime.talos.dev", "runtime", 0, ON, true),
    kind("ExtensionServiceConfigStatuses.runtime.talos.dev", "runtime", 0, ON, false),
    kind("ExtensionStatuses.runtime.talos.dev", "runtime", 0, ON, false),
    kind("ExtraManifestsConfigs.kubernetes.talos.dev", "controlplane", 0, ON, false),
    kind("FSScrubSchedules.block.talos.dev", "runtime", 14, ON, false),
    kind("FSScrubStatuses.block.talos.dev", "runtime", 14, ON, false),
    kind("HardwareAddresses.net.talos.dev", "network", 0, ON, false),
    kind("HostDNSConfigs.net.talos.dev", "network", 0, ON, false),
    kind("HostnameSpecs.net.talos.dev", "network", 0, ON, false),
    kind("HostnameStatuses.net.talos.dev", "network", 0, ON, false),
    kind("Identities.cluster.talos.dev", "cluster", 0, ON, false),
    kind("ImageCacheConfigs.cri.talos.dev", "cri", 0, ON, false),
    kind("ImageFactorySchematics.runtime.talos.dev", "runtime", 14, ON, false),
    kind("ImageVerificationRules.security.talos.dev", "security", 13, ON, false),
    kind("Infos.cluster.talos.dev", "cluster", 0, ON, false),
    kind("KernelCmdlines.runtime.talos.dev", "runtime", 0, ON, false),
    kind("KernelModuleSpecs.runtime.talos.dev", "runtime", 0, ON, false),
    kind("KernelModuleStatuses.runtime.talos.dev", "runtime", 14, ON, false),
    kind("KernelParamDefaultSpecs.runtime.talos.dev", "runtime", 0, ON, false),
    kind("KernelParamSpecs.runtime.talos.dev", "runtime", 0, ON, false),
    kind("KernelParamStatuses.runtime.talos.dev", "runtime", 0, ON, false),
    kind("KmsgLogConfigs.runtime.talos.dev", "runtime", 0, ON, false),
    kind("KubeletConfigs.kubernetes.talos.dev", "k8s", 0, ON, true),
    kind("KubeletKubeconfigs.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("KubeletLifecycles.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("KubeletSecrets.secrets.talos.dev", "secrets", 0, ON, true),
    kind("KubeletSpecs.kubernetes.talos.dev", "k8s", 0, ON, true),
    kind("KubeletStatuses.kubernetes.talos.dev", "k8s", 14, ON, false),
    kind("KubePrismConfigs.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("KubePrismEndpoints.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("KubePrismStatuses.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("KubernetesAccessConfigs.cluster.talos.dev", "config", 0, ON, false),
    kind("KubernetesDynamicCerts.secrets.talos.dev", "secrets", 0, ON, true),
    kind("KubernetesRootSecrets.secrets.talos.dev", "secrets", 0, ON, true),
    kind("KubernetesSecrets.secrets.talos.dev", "secrets", 0, ON, true),
    kind("KubeSpanConfigs.kubespan.talos.dev", "config", 0, ON, true),
    kind("KubeSpanEndpoints.kubespan.talos.dev", "kubespan", 0, ON, false),
    kind("KubeSpanIdentities.kubespan.talos.dev", "kubespan", 0, ON, true),
    kind("KubeSpanPeerSpecs.kubespan.talos.dev", "kubespan", 0, ON, false),
    kind("KubeSpanPeerStatuses.kubespan.talos.dev", "kubespan", 0, ON, false),
    kind("LinkAliasSpecs.net.talos.dev", "network", 0, ON, false),
    kind("LinkRefreshes.net.talos.dev", "network", 0, ON, false),
    kind("LinkSpecs.net.talos.dev", "network", 0, ON, true),
    kind("LinkStatuses.net.talos.dev", "network", 0, ON, false),
    kind("LoadedKernelModules.runtime.talos.dev", "runtime", 0, ON, false),
    kind("LVMLogicalVolumeSpecs.storage.talos.dev", "storage", 14, ON, false),
    kind("LVMLogicalVolumeStatuses.storage.talos.dev", "storage", 14, ON, false),
    kind("LVMPhysicalVolumeSpecs.storage.talos.dev", "storage", 14, ON, false),
    kind("LVMPhysicalVolumeStatuses.storage.talos.dev", "storage", 14, ON, false),
    kind("LVMRefreshRequests.storage.talos.dev", "storage", 14, ON, false),
    kind("LVMValidationErrors.storage.talos.dev", "storage", 14, ON, false),
    kind("LVMVolumeGroupSpecs.storage.talos.dev", "storage", 14, ON, false),
    kind("LVMVolumeGroupStatuses.storage.talos.dev", "storage", 14, ON, false),
    kind("MachineConfigs.config.talos.dev", "config", 0, ON, true),
    kind("MachineResetSignals.runtime.talos.dev", "runtime", 0, ON, false),
    kind("MachineStatuses.runtime.talos.dev", "runtime", 0, ON, false),
    kind("MachineTypes.config.talos.dev", "config", 0, ON, false),
    kind("MaintenanceRootSecrets.secrets.talos.dev", "secrets", 0, ON, true),
    kind("MaintenanceServiceCertificates.secrets.talos.dev", "secrets", 0, 12, true),
    kind("MaintenanceServiceConfigs.runtime.talos.dev", "runtime", 0, ON, false),
    kind("MaintenanceServiceRequests.runtime.talos.dev", "runtime", 0, ON, false),
    kind("Manifests.kubernetes.talos.dev", "controlplane", 0, ON, false),
    kind("ManifestStatuses.kubernetes.talos.dev", "controlplane", 0, ON, false),
    kind("MDArraySpecs.storage.talos.dev", "storage", 14, ON, false),
    kind("MDArrayStatuses.storage.talos.dev", "storage", 14, ON, false),
    kind("MDRefreshRequests.storage.talos.dev", "storage", 14, ON, false),
    kind("Members.cluster.talos.dev", "cluster", 0, ON, false),
    kind("MemoryModules.hardware.talos.dev", "hardware", 0, ON, false),
    kind("MemoryStats.perf.talos.dev", "perf", 0, ON, false),
    kind("MetaKeys.runtime.talos.dev", "runtime", 0, ON, false),
    kind("MetaLoads.runtime.talos.dev", "runtime", 0, ON, false),
    kind("MountRequests.block.talos.dev", "runtime", 0, ON, false),
    kind("MountStatuses.block.talos.dev", "runtime", 0, ON, false),
    kind("MountStatuses.runtime.talos.dev", "runtime", 0, ON, false),
    kind("Namespaces.meta.cosi.dev", "meta", 0, ON, false),
    kind("NetworkStatuses.net.talos.dev", "network", 0, ON, false),
    kind("NfTablesChains.net.talos.dev", "network", 0, ON, false),
    kind("NodeAddresses.net.talos.dev", "network", 0, ON, false),
    kind("NodeAddressFilters.net.talos.dev", "network", 0, ON, false),
    kind("NodeAddressSortAlgorithms.net.talos.dev", "network", 0, ON, false),
    kind("NodeAnnotationSpecs.k8s.talos.dev", "k8s", 0, ON, true),
    kind("NodeCordonedSpecs.k8s.talos.dev", "k8s", 0, ON, true),
    kind("NodeIPConfigs.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("NodeIPs.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("NodeLabelSpecs.k8s.talos.dev", "k8s", 0, ON, true),
    kind("Nodenames.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("NodeStatuses.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("NodeTaintSpecs.k8s.talos.dev", "k8s", 0, ON, true),
    kind("OOMActions.talos.dev", "runtime", 0, ON, true),
    kind("OperatorSpecs.net.talos.dev", "network", 0, ON, true),
    kind("OSRootSecrets.secrets.talos.dev", "secrets", 0, ON, true),
    kind("PCIDevices.hardware.talos.dev", "hardware", 0, ON, false),
    kind("PCIDriverRebindConfigs.runtime.talos.dev", "hardware", 0, ON, false),
    kind("PCIDriverRebindStatuses.runtime.talos.dev", "hardware", 0, ON, false),
    kind("PCRStatuses.hardware.talos.dev", "hardware", 0, ON, false),
    kind("PKIStatuses.etcd.talos.dev", "etcd", 0, ON, false),
    kind("PlatformConfigs.net.talos.dev", "network", 0, ON, false),
    kind("PlatformMetadatas.talos.dev", "runtime", 0, ON, false),
    kind("ProbeSpecs.net.talos.dev", "network", 0, ON, false),
    kind("ProbeStatuses.net.talos.dev", "network", 0, ON, false),
    kind("Processors.hardware.talos.dev", "hardware", 0, ON, false),
    kind("RebootRequests.runtime.talos.dev", "runtime", 14, ON, false),
    kind("RegistryConfigs.cri.talos.dev", "cri", 0, ON, true),
    kind("ResolverSpecs.net.talos.dev", "network", 0, ON, false),
    kind("ResolverStatuses.net.talos.dev", "network", 0, ON, false),
    kind("ResourceDefinitions.meta.cosi.dev", "meta", 0, ON, false),
    kind("RouteSpecs.net.talos.dev", "network", 0, ON, false),
    kind("RouteStatuses.net.talos.dev", "network", 0, ON, false),
    kind("RoutingRuleSpecs.net.talos.dev", "network", 13, ON, false),
    kind("RoutingRuleStatuses.net.talos.dev", "network", 13, ON, false),
    kind("SBOMItems.talos.dev", "runtime", 0, ON, false),
    kind("SchedulerConfigs.kubernetes.talos.dev", "controlplane", 0, ON, false),
    kind("SeccompProfiles.cri.talos.dev", "cri", 0, ON, false),
    kind("SecretStatuses.kubernetes.talos.dev", "controlplane", 0, ON, false),
    kind("SecurityStates.talos.dev", "runtime", 0, ON, false),
    kind("ServicePIDs.runtime.talos.dev", "runtime", 13, ON, false),
    kind("Services.v1alpha1.talos.dev", "runtime", 0, ON, false),
    kind("SiderolinkConfigs.siderolink.talos.dev", "config", 0, ON, true),
    kind("SiderolinkStatuses.siderolink.talos.dev", "config", 0, ON, false),
    kind("SiderolinkTunnels.siderolink.talos.dev", "config", 0, ON, true),
    kind("StaticHosts.net.talos.dev", "network", 14, ON, false),
    kind("StaticPods.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("StaticPodServerStatuses.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("StaticPodStatuses.kubernetes.talos.dev", "k8s", 0, ON, false),
    kind("SwapStatuses.block.talos.dev", "runtime", 0, ON, false),
    kind("SystemDisks.block.talos.dev", "runtime", 0, ON, false),
    kind("SystemInformations.hardware.talos.dev", "hardware", 0, ON, false),
    kind("TimeServerSpecs.net.talos.dev", "network", 0, ON, false),
    kind("TimeServerStatuses.net.talos.dev", "network", 0, ON, false),
    kind("TimeStatuses.v1alpha1.talos.dev", "runtime", 0, ON, false),
    kind("TrustdCertificates.secrets.talos.dev", "secrets", 0, ON, true),
    kind("TUFTrustedRoots.security.talos.dev", "security", 13, ON, false),
    kind("UnattendedInstallStatuses.runtime.talos.dev", "runtime", 14, ON, false),
    kind("UniqueMachineTokens.runtime.talos.dev", "runtime", 0, ON, false),
    kind("UserDiskConfigStatuses.block.talos.dev", "runtime", 0, ON, false),
    kind("Versions.runtime.talos.dev", "runtime", 0, ON, false),
    kind("VolumeConfigs.block.talos.dev", "runtime", 0, ON, true),
    kind("VolumeLifecycles.block.talos.dev", "runtime", 0, ON, false),
    kind("VolumeMountRequests.block.talos.dev", "runtime", 0, ON, false),
    kind("VolumeMountStatuses.block.talos.dev", "runtime", 0, ON, false),
    kind("VolumeStatuses.block.talos.dev", "runtime", 0, ON, false),
    kind("VolumeTrimSchedules.block.talos.dev", "runtime", 14, ON, false),
    kind("WatchdogTimerConfigs.runtime.talos.dev", "runtime", 0, ON, false),
    kind("WatchdogTimerStatuses.runtime.talos.dev", "runtime", 0, ON, false),
    kind("ZswapStatuses.block.talos.dev", "runtime", 0, ON, false),
];

/// Names a type has besides those that follow from its own.
#[rustfmt::skip]
const ALIASES: [(&str, &[&str]); 33] = [
    ("AddressStatuses.net.talos.dev", &["address", "addresses"]),
    ("ContainerSpecs.containers.talos.dev", &["containerspecs"]),
    ("CPUCores.hardware.talos.dev", &["cpucores"]),
    ("Environments.runtime.talos.dev", &["env"]),
    ("EthernetStatuses.net.talos.dev", &["ethtool"]),
    ("ExtensionStatuses.runtime.talos.dev", &["extensions"]),
    ("HostnameStatuses.net.talos.dev", &["hostname"]),
    ("KernelCmdlines.runtime.talos.dev", &["cmdline"]),
    ("KernelModuleStatuses.runtime.talos.dev", &["module", "modules"]),
    ("KernelParamStatuses.runtime.talos.dev", &["sysctls", "kernelparameters", "kernelparams"]),
    ("LinkStatuses.net.talos.dev", &["link", "links"]),
    ("LVMLogicalVolumeStatuses.storage.talos.dev", &["lvs"]),
    ("LVMPhysicalVolumeStatuses.storage.talos.dev", &["pvs"]),
    ("LVMVolumeGroupStatuses.storage.talos.dev", &["vgs"]),
    ("MemoryModules.hardware.talos.dev", &["memorymodules", "ram"]),
    ("MetaKeys.runtime.talos.dev", &["meta"]),
    ("MountStatuses.runtime.talos.dev", &["mounts"]),
    ("NetworkStatuses.net.talos.dev", &["netstatus", "netstatuses"]),
    ("NfTablesChains.net.talos.dev", &["chain", "chains"]),
    ("OOMActions.talos.dev", &["oomactions"]),
    ("PCIDevices.hardware.talos.dev", &["devices", "device"]),
    ("PCIDriverRebindStatuses.runtime.talos.dev", &["pcidriverrebinds"]),
    ("ProbeStatuses.net.talos.dev", &["probe", "probes"]),
    ("Processors.hardware.talos.dev", &["cpus", "cpu"]),
    ("ResolverStatuses.net.talos.dev", &["resolvers"]),
    ("ResourceDefinitions.meta.cosi.dev", &["api-resources"]),
    ("RouteStatuses.net.talos.dev", &["route", "routes"]),
    ("RoutingRuleStatuses.net.talos.dev", &["routingrule", "routingrules"]),
    ("SBOMItems.talos.dev", &["sbom", "sboms"]),
    ("Services.v1alpha1.talos.dev", &["svc"]),
    ("StaticPodStatuses.kubernetes.talos.dev", &["podstatus"]),
    ("SwapStatuses.block.talos.dev", &["swap", "swaps"]),
    ("TimeServerStatuses.net.talos.dev", &["timeserver", "timeservers"]),
];

/// Columns `talosctl get` shows, and where in a resource they are found.
#[rustfmt::skip]
const COLUMNS: [(&str, &[(&str, &str)]); 28] = [
    ("AddressStatuses.net.talos.dev", &[("Address", "{.address}"), ("Link", "{.linkName}")]),
    ("Affiliates.cluster.talos.dev", &[("Hostname", "{.hostname}"), ("Machine Type", "{.machineType}"), ("Addresses", "{.addresses}")]),
    ("Diagnostics.runtime.talos.dev", &[("Message", "{.message}")]),
    ("Disks.block.talos.dev", &[("Size", "{.pretty_size}"), ("Read Only", "{.readonly}"), ("Transport", "{.transport}"), ("Rotational", "{.rotational}"), ("WWID", "{.wwid}"), ("Model", "{.model}"), ("Serial", "{.serial}")]),
    ("EtcdMembers.etcd.talos.dev", &[("Member ID", "{.memberID}")]),
    ("ExtensionStatuses.runtime.talos.dev", &[("Name", "{.metadata.name}"), ("Version", "{.metadata.version}")]),
    ("HostnameStatuses.net.talos.dev", &[("Hostname", "{.hostname}"), ("Domainname", "{.domainname}")]),
    ("Infos.cluster.talos.dev", &[("Cluster ID", "{.clusterId}"), ("Cluster Name", "{.clusterName}")]),
    ("KubePrismStatuses.kubernetes.talos.dev", &[("HOST", "{.host}"), ("HEALTHY", "{.healthy}")]),
    ("LinkStatuses.net.talos.dev", &[("Alias", "{.alias}"), ("Type", "{.type}"), ("Kind", "{.kind}"), ("Hw Addr", "{.hardwareAddr}"), ("Oper State", "{.operationalState}"), ("Link State", "{.linkState}")]),
    ("MachineStatuses.runtime.talos.dev", &[("Stage", "{.stage}"), ("Ready", "{.status.ready}")]),
    ("MachineTypes.config.talos.dev", &[("Type", "{@}")]),
    ("Members.cluster.talos.dev", &[("Hostname", "{.hostname}"), ("Machine Type", "{.machineType}"), ("OS", "{.operatingSystem}"), ("Addresses", "{.addresses}")]),
    ("MetaKeys.runtime.talos.dev", &[("Value", "{.value}")]),
    ("NetworkStatuses.net.talos.dev", &[("Address", "{.addressReady}"), ("Connectivity", "{.connectivityReady}"), ("Hostname", "{.hostnameReady}"), ("Etc", "{.etcFilesReady}")]),
    ("NodeAddresses.net.talos.dev", &[("Addresses", "{.addresses}"), ("SortAlgorithm", "{.sortAlgorithm}")]),
    ("Nodenames.kubernetes.talos.dev", &[("Nodename", "{.nodename}")]),
    ("NodeStatuses.kubernetes.talos.dev", &[("Ready", "{.nodeReady}"), ("Unschedulable", "{.unschedulable}")]),
    ("PlatformMetadatas.talos.dev", &[("Platform", "{.platform}"), ("Type", "{.instanceType}"), ("Region", "{.region}"), ("Zone", "{.zone}")]),
    ("ResourceDefinitions.meta.cosi.dev", &[("Aliases", "{.aliases[:]}")]),
    ("SecurityStates.talos.dev", &[("SecureBoot", "{.secureBoot}"), ("UKISigningKeyFingerprint", "{.ukiSigningKeyFingerprint}"), ("PCRSigningKeyFingerprint", "{.pcrSigningKeyFingerprint}"), ("SELinuxState", "{.selinuxState}"), ("ModuleSignatureEnforced", "{.moduleSignatureEnforced}")]),
    ("Services.v1alpha1.talos.dev", &[("Running", "{.running}"), ("Healthy", "{.healthy}"), ("Health Unknown", "{.unknown}")]),
    ("StaticPodStatuses.kubernetes.talos.dev", &[("Ready", "{.conditions[?(@.type==\"Ready\")].status}")]),
    ("SystemDisks.block.talos.dev", &[("Disk", "{.diskID}")]),
    ("SystemInformations.hardware.talos.dev", &[("Manufacturer", "{.manufacturer}"), ("ProductName", "{.productName}"), ("Version", "{.version}"), ("SerialNumber", "{.serialnumber}"), ("UUID", "{.uuid}"), ("WakeUpType", "{.wakeUpType}"), ("SKUNumber", "{.skuNumber}")]),
    ("TimeStatuses.v1alpha1.talos.dev", &[("Synced", "{.synced}")]),
    ("Versions.runtime.talos.dev", &[("Name", "{.name}"), ("Version", "{.version}")]),
    ("VolumeStatuses.block.talos.dev", &[("Type", "{.type}"), ("Phase", "{.phase}"), ("Location", "{.location}"), ("Size", "{.prettySize}")]),
];

/// Namespaces, with the first minor version that has them.
#[rustfmt::skip]
pub(super) const NAMESPACES: [(&str, u16); 19] = [
    ("cluster", 0), ("cluster-raw", 0), ("config", 0), ("containers", 14), ("controlplane", 0), ("cri", 0), ("etcd", 0), ("files", 0),
    ("hardware", 0), ("k8s", 0), ("kubespan", 0), ("meta", 0), ("network", 0), ("network-config", 0), ("perf", 0), ("runtime", 0),
    ("secrets", 0), ("security", 13), ("storage", 14),
];

/// The types of a version, in the order of their names.
pub(super) fn kinds(minor: u16) -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(move |kind| (kind.since..=kind.until).contains(&minor))
}

pub(super) fn find(name: &str, minor: u16) -> Option<&'static Kind> {
    kinds(minor).find(|kind| kind.name == name)
}

impl Kind {
    /// `MachineStatus` of `MachineStatuses.runtime.talos.dev`.
    pub(super) fn display(&self) -> String {
        let plural = self.name.split('.').next().unwrap_or_default();
        let singular = match plural.strip_suffix("ies") {
            Some(stem) => return format!("{stem}y"),
            None => plural.strip_suffix("es").filter(|stem| {
                stem.ends_with("ss") || stem.ends_with("us") || stem.ends_with("sh") || stem.ends_with("ch")
            }),
        };
        singular.or_else(|| plural.strip_suffix('s')).unwrap_or(plural).to_owned()
    }

    /// Short names: words of its own, the singular, initials.
    pub(super) fn aliases(&self) -> Vec<String> {
        let display = self.display();
        let own = ALIASES.iter().find(|(name, _)| *name == self.name).map_or(&[][..], |(_, aliases)| aliases);
        let mut aliases: Vec<String> = own.iter().map(|alias| (*alias).to_owned()).collect();
        aliases.push(display.to_lowercase());
        let initials: String =
            display.chars().filter(char::is_ascii_uppercase).collect::<String>().to_lowercase();
        if initials.len() > 1 {
            let plural = format!("{initials}s");
            aliases.push(initials.clone());
            if !initials.ends_with('s') {
                aliases.push(plural);
            }
        }
        aliases
    }

    /// Every name it is found by, besides the whole one.
    pub(super) fn all_aliases(&self) -> Vec<String> {
        let lower = self.name.to_lowercase();
        let parts: Vec<&str> = lower.split('.').collect();
        let prefixes = (1..parts.len()).map(|length| parts[..length].join("."));
        prefixes.chain(self.aliases()).collect()
    }

    pub(super) fn columns(&self) -> &'static [(&'static str, &'static str)] {
        COLUMNS.iter().find(|(name, _)| *name == self.name).map_or(&[], |(_, columns)| columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_types() {
        let machine = find("MachineStatuses.runtime.talos.dev", 13).unwrap();
        assert_eq!(machine.display(), "MachineStatus");
        let expected = [
            "machinestatuses",
            "machinestatuses.runtime",
            "machinestatuses.runtime.talos",
            "machinestatus",
            "ms",
        ];
        assert_eq!(machine.all_aliases(), expected);
        let identity = find("Identities.cluster.talos.dev", 13).unwrap();
        assert_eq!(
            (identity.display().as_str(), identity.aliases()),
            ("Identity", vec!["identity".to_owned()])
        );
        let configs = find("AdmissionControlConfigs.kubernetes.talos.dev", 13).unwrap();
        assert_eq!(configs.aliases(), ["admissioncontrolconfig", "acc", "accs"]);
    }

    #[test]
    fn versions_differ() {
        assert!(find("APIServiceConfigs.runtime.talos.dev", 12).is_none());
        assert!(find("APIServiceConfigs.runtime.talos.dev", 13).is_some());
        assert!(find("MaintenanceServiceCertificates.secrets.talos.dev", 13).is_none());
    }
}
