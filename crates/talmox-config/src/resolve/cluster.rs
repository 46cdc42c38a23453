//! The parts of the model that belong to the whole cluster.

use talmox_types::PoolName;
use talmox_types::desired::{
    EtcdBackup, ExtensionService, Kubernetes, MachineFile, Network, PlacementPolicy, Proxmox, Route,
    Schematic, Talos,
};

use crate::description::Description;
use crate::file::{ExtensionServiceBlock, drift_field};
use crate::layers::Member;
use crate::read::{At, OneOrMore, Value};

/// How many snapshots stay where `etcd_backup` does not say.
const DEFAULT_SNAPSHOTS: u32 = 5;

fn texts<T: Clone + Into<String>>(list: Option<&At<Vec<At<T>>>>) -> Vec<String> {
    list.iter().flat_map(|at| &at.value).map(|text| text.value.clone().into()).collect()
}

fn many<T: Clone>(list: Option<&At<OneOrMore<T>>>) -> Vec<T> {
    list.iter().flat_map(|at| &at.value.0).map(|item| item.value.clone()).collect()
}

fn many_texts<T: Clone + Into<String>>(list: Option<&At<OneOrMore<T>>>) -> Vec<String> {
    many(list).into_iter().map(Into::into).collect()
}

fn text<T: Clone + Into<String>>(at: Option<&At<T>>) -> Option<String> {
    at.map(|at| at.value.clone().into())
}

pub(super) fn proxmox(description: &Description) -> Proxmox {
    let file = &description.cluster.file;
    let (vmid_range, template_vmid_range) = description.vmid_ranges();
    let default_pool = || PoolName::parse(&format!("talmox-{}", description.cluster_name())).ok();
    Proxmox {
        endpoints: many(file.proxmox_endpoint.as_ref()).into_iter().map(|url| url.0.to_string()).collect(),
        api_token: file.proxmox_api_token.as_ref().map(|at| at.value.clone()),
        ca_file: text(file.proxmox_ca_file.as_ref()),
        fingerprints: many(file.proxmox_fingerprints.as_ref()),
        insecure: description.top_default(|file| file.proxmox_insecure.as_ref()),
        hosts: file.proxmox_nodes.iter().flat_map(|at| &at.value).map(|at| at.value.clone()).collect(),
        pool: file.proxmox_pool.as_ref().map_or_else(default_pool, |at| at.value.0.clone()),
        image_storage: file.proxmox_image_storage.as_ref().map(|at| at.value.clone()),
        iso_storage: description.top_default(|file| file.proxmox_iso_storage.as_ref()),
        seed_storage: file.proxmox_seed_storage.as_ref().map(|at| at.value.clone()),
        vmid_range,
        template_vmid_range,
        placement: placement(description),
        control_plane_spread: description.top_default(|file| file.control_plane_spread.as_ref()),
        ignore_drift: texts(file.ignore_drift.as_ref()).into_iter().map(canonical_field).collect(),
    }
}

/// A field by its first name, however it was written.
fn canonical_field(name: String) -> String {
    drift_field(&name).map_or(name, str::to_owned)
}

/// Each key of the block falls back to the built-in one by itself.
pub(crate) fn placement(description: &Description) -> PlacementPolicy {
    let blocks = [&description.cluster.file.placement, &description.built_in.file.placement];
    let blocks: Vec<_> = blocks.into_iter().flatten().collect();
    let built_in = "built_in.yaml has all of placement";
    PlacementPolicy {
        reserve_memory: blocks.iter().find_map(|b| b.reserve_memory.as_ref()).expect(built_in).value.to(),
        cpu_overcommit: blocks.iter().find_map(|b| b.cpu_overcommit.as_ref()).expect(built_in).value,
        storage_overcommit: blocks.iter().find_map(|b| b.storage_overcommit.as_ref()).expect(built_in).value,
    }
}

pub(super) fn network(description: &Description, members: &[Member<'_>]) -> Network {
    let file = &description.cluster.file;
    let has_nodes = "a description without errors has a node with an address";
    let node_cidr = description.node_cidr().expect(has_nodes);
    let subnets = |list: Option<&At<OneOrMore<talmox_types::Cidr>>>| {
        list.map_or_else(|| node_cidr.iter().map(|cidr| cidr.network()).collect(), |at| many(Some(at)))
    };
    Network {
        node_cidr,
        gateway: description.gateway().expect(has_nodes),
        dns_servers: many(description.top_value(|file| file.dns_servers.as_ref())),
        ntp_servers: many_texts(description.top_value(|file| file.ntp_servers.as_ref())),
        guest_vlan: file.guest_vlan.as_ref().and_then(|at| at.value.0),
        vip: file.cluster_api_addr.as_ref().map(|at| at.value),
        endpoint: description.endpoint(members).expect(has_nodes),
        api_tls_sans: many_texts(file.cluster_api_tls_sans.as_ref()),
        pod_cidr: description.pod_cidr(),
        service_cidr: description.service_cidr(),
        node_ip_subnets: subnets(file.node_ip_subnets.as_ref()),
        etcd_subnets: subnets(file.etcd_subnets.as_ref()),
        routes: file
            .node_routes
            .iter()
            .flat_map(|at| &at.value)
            .filter_map(|route| {
                Some(Route {
                    network: route.network.as_ref()?.value,
                    gateway: route.gateway.as_ref()?.value,
                    metric: route.metric.as_ref().map(|at| at.value.to()),
                })
            })
            .collect(),
    }
}

pub(super) fn talos(description: &Description) -> Talos {
    let file = &description.cluster.file;
    Talos {
        version: description.talos_version(),
        contract: description.contract(),
        schematic: schematic(description),
        factory_url: description.top_default(|file| file.factory_url.as_ref()).0.to_string(),
        install_images: file.install_images.as_ref().map(|at| at.value.0.clone()).unwrap_or_default(),
        config_delivery: description.top_default(|file| file.config_delivery.as_ref()),
        secrets_file: text(file.secrets_file.as_ref()),
        etcd_backup: file.etcd_backup.as_ref().and_then(|backup| {
            Some(EtcdBackup {
                dir: text(backup.dir.as_ref())?,
                age: many_texts(backup.age.as_ref()),
                keep: backup.keep.as_ref().map_or(DEFAULT_SNAPSHOTS, |at| at.value.to()),
            })
        }),
        extension_services: file
            .extension_services
            .iter()
            .flat_map(|at| &at.value)
            .filter_map(|service| extension_service(&service.value))
            .collect(),
    }
}

fn schematic(description: &Description) -> Schematic {
    let block = description.top_default(|file| file.schematic.as_ref());
    Schematic {
        extensions: texts(block.extensions.as_ref()),
        kernel_args: texts(block.kernel_args.as_ref()),
        meta: block.meta.as_ref().map(|at| at.value.0.clone()).unwrap_or_default(),
        overlay: block
            .overlay
            .as_ref()
            .and_then(|overlay| Some((text(overlay.image.as_ref())?, text(overlay.name.as_ref())?))),
        bootloader: block.bootloader.as_ref().map(|at| at.value.show()),
    }
}

fn extension_service(block: &ExtensionServiceBlock) -> Option<ExtensionService> {
    let files = block.config_files.iter().flat_map(|at| &at.value);
    Some(ExtensionService {
        name: text(block.name.as_ref())?,
        config_files: files
            .filter_map(|file| {
                Some(MachineFile {
                    mount_path: text(file.mount_path.as_ref())?,
                    content: text(file.content.as_ref())?,
                })
            })
            .collect(),
        environment: texts(block.environment.as_ref()),
    })
}

pub(super) fn kubernetes(description: &Description, members: &[Member<'_>]) -> Kubernetes {
    let file = &description.cluster.file;
    Kubernetes {
        version: description.kubernetes_version().expect("a description without errors names a known Talos"),
        cni: description.top_default(|file| file.cni.as_ref()),
        kube_proxy: description.top_default(|file| file.kube_proxy.as_ref()),
        allow_scheduling_on_control_planes: description.allow_scheduling(members),
        bootstrap_manifests: texts(file.bootstrap_manifests.as_ref()),
        post_bootstrap: file.post_bootstrap.as_ref().map(|at| at.value.0.clone()).unwrap_or_default(),
        registry_mirrors: file.registry_mirrors.as_ref().map(|at| at.value.0.clone()).unwrap_or_default(),
        kubespan: description.top_default(|file| file.kubespan.as_ref()),
        dns_domain: description.top_default(|file| file.dns_domain.as_ref()).0,
        discovery: description.top_default(|file| file.discovery.as_ref()),
        kubeprism: description.top_default(|file| file.kubeprism.as_ref()),
        provider_id: description.top_default(|file| file.provider_id.as_ref()),
        region: text(file.region.as_ref()),
    }
}
