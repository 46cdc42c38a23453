//! The node in Kubernetes, and Kubernetes itself.

use std::collections::BTreeMap;

use talmox_machine::{Map, Value};
use talmox_types::Taint;
use talmox_types::desired::{Cni, ProviderId};

use super::{Layer, is_control_plane, maps, since, texts};
use crate::inputs::Inputs;
use crate::render::RenderError;

/// The release whose layout has documents for Kubernetes.
const DOCUMENTS: u16 = 14;

const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Where the Proxmox cloud controller looks for the VMID if the provider id does not say it.
const INSTANCE_ID: &str = "proxmox.sinextra.dev/instance-id";

/// The name of the manifest that takes the place of Flannel.
const CNI_MANIFEST: &str = "cni";

pub(super) fn add(layer: &mut Layer, inputs: &Inputs<'_>) -> Result<(), RenderError> {
    let provider_id = provider_id(layer, inputs);
    let node = KubernetesNode {
        labels: labels(layer, inputs),
        annotations: annotations(inputs),
        taints: taints(&inputs.node.taints)?,
    };
    if since(inputs, DOCUMENTS) {
        node_documents(layer, inputs, &node, provider_id);
    } else {
        node_sections(layer, inputs, &node, provider_id);
    }
    cni(layer, inputs)?;
    if is_control_plane(inputs) {
        let subnets = &inputs.desired.network.etcd_subnets;
        if !subnets.is_empty() {
            layer.set(&["cluster", "etcd", "advertisedSubnets"], texts(subnets));
        }
        if !inputs.desired.kubernetes.kube_proxy {
            kube_proxy_off(layer, inputs);
        }
    }
    Ok(())
}

struct KubernetesNode {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    taints: BTreeMap<String, String>,
}

fn map(pairs: &BTreeMap<String, String>) -> Option<Map> {
    let map: Map = pairs.iter().map(|(key, value)| (key.clone(), Value::text(value))).collect();
    (!map.is_empty()).then_some(map)
}

fn subnets(inputs: &Inputs<'_>) -> Option<Value> {
    let subnets = &inputs.desired.network.node_ip_subnets;
    (!subnets.is_empty()).then(|| texts(subnets))
}

fn node_documents(
    layer: &mut Layer,
    inputs: &Inputs<'_>,
    node: &KubernetesNode,
    provider_id: Option<String>,
) {
    let body = Map::new()
        .with_some("nodeIP", subnets(inputs).map(|subnets| Map::new().with("validSubnets", subnets)))
        .with_some("labels", map(&node.labels))
        .with_some("annotations", map(&node.annotations))
        .with_some("taints", map(&node.taints));
    layer.document("KubeNodeConfig", body);
    if let Some(id) = provider_id {
        layer.document("KubeletConfig", Map::new().with("config", Map::new().with("providerID", id)));
    }
}

fn node_sections(layer: &mut Layer, inputs: &Inputs<'_>, node: &KubernetesNode, provider_id: Option<String>) {
    if let Some(subnets) = subnets(inputs) {
        layer.set(&["machine", "kubelet", "nodeIP", "validSubnets"], subnets);
    }
    for (section, pairs) in
        [("nodeLabels", &node.labels), ("nodeAnnotations", &node.annotations), ("nodeTaints", &node.taints)]
    {
        if let Some(map) = map(pairs) {
            layer.set(&["machine", section], map);
        }
    }
    if let Some(id) = provider_id {
        layer.set(&["machine", "kubelet", "extraConfig", "providerID"], id);
    }
}

/// With a region the host is the zone; labels somebody wrote win.
fn labels(layer: &mut Layer, inputs: &Inputs<'_>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    if let Some(region) = &inputs.desired.kubernetes.region {
        labels.insert(REGION.to_owned(), region.clone());
        match &inputs.whereabouts.host {
            Some(host) => {
                labels.insert(ZONE.to_owned(), host.to_string());
            }
            None => layer.left_out.push(format!("the label {ZONE}: the host is not known yet")),
        }
    }
    labels.extend(inputs.node.labels.clone());
    labels
}

fn annotations(inputs: &Inputs<'_>) -> BTreeMap<String, String> {
    let vmid = inputs.whereabouts.vmid.filter(|_| inputs.desired.kubernetes.provider_id == ProviderId::Uuid);
    let instance = vmid.map(|vmid| (INSTANCE_ID.to_owned(), vmid.to_string()));
    instance.into_iter().chain(inputs.node.annotations.clone()).collect()
}

/// Talos has one taint for each key.
fn taints(taints: &[Taint]) -> Result<BTreeMap<String, String>, RenderError> {
    let mut map = BTreeMap::new();
    for taint in taints {
        let effect = format!("{:?}", taint.effect);
        let text = match &taint.value {
            Some(value) => format!("{value}:{effect}"),
            None => effect,
        };
        if map.insert(taint.key.clone(), text).is_some() {
            return Err(RenderError::TwoTaints(taint.key.clone()));
        }
    }
    Ok(map)
}

/// A provider id cannot be changed once a node has one, so none is better than a guess.
fn provider_id(layer: &mut Layer, inputs: &Inputs<'_>) -> Option<String> {
    let whereabouts = inputs.whereabouts;
    let (id, unknown) = match inputs.desired.kubernetes.provider_id {
        ProviderId::None => return None,
        ProviderId::Proxmox => {
            let region = inputs.desired.kubernetes.region.as_deref().unwrap_or_default();
            (whereabouts.vmid.map(|vmid| format!("proxmox://{region}/{vmid}")), "the VMID")
        }
        ProviderId::Uuid => {
            (whereabouts.uuid.as_ref().map(|uuid| format!("proxmox://{uuid}")), "the VM's uuid")
        }
    };
    if id.is_none() {
        layer.left_out.push(format!("the provider id: {unknown} is not known yet"));
    }
    id
}

fn cni(layer: &mut Layer, inputs: &Inputs<'_>) -> Result<(), RenderError> {
    let manifest = match &inputs.desired.kubernetes.cni {
        // Part of the base.
        Cni::Flannel | Cni::Urls(_) => return Ok(()),
        Cni::None => None,
        Cni::Manifest(file) => {
            Some(inputs.cni_manifest.ok_or_else(|| RenderError::MissingManifest(file.clone()))?)
        }
    };
    let documents = since(inputs, DOCUMENTS);
    if !documents {
        layer.set(&["cluster", "network", "cni", "name"], "none");
    } else if is_control_plane(inputs) {
        layer.delete("KubeFlannelCNIConfig");
    }
    let Some(manifest) = manifest.filter(|_| is_control_plane(inputs)) else { return Ok(()) };
    if documents {
        let body = Map::new().with("name", CNI_MANIFEST).with("manifest", manifest);
        layer.document("KubeInlineManifestConfig", body);
    } else {
        let body = Map::new().with("name", CNI_MANIFEST).with("contents", manifest);
        layer.set(&["cluster", "inlineManifests"], maps([body]));
    }
    Ok(())
}

fn kube_proxy_off(layer: &mut Layer, inputs: &Inputs<'_>) {
    if since(inputs, DOCUMENTS) {
        layer.document("KubeProxyConfig", Map::new().with("enabled", false));
    } else {
        layer.set(&["cluster", "proxy", "disabled"], true);
    }
}
