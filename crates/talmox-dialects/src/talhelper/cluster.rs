//! What is said of the cluster as a whole.

use talmox_config::read::At;
use talmox_yaml::Node;

use super::draft::{Draft, Place, Whom};
use super::file::{ImageFactoryBlock, TalconfigBlock};
use crate::tree;

/// What talhelper takes where nothing is said; our own defaults are others.
const POD_NET: &str = "10.244.0.0/16";
const SERVICE_NET: &str = "10.96.0.0/12";

pub(super) fn convert(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    let without_v = |text: String| text.strip_prefix('v').map(str::to_owned).unwrap_or(text);
    let same = |text: String| text;
    for (at, path, key, written) in [
        (&config.cluster_name, "clusterName", "cluster_name", same as fn(String) -> String),
        (&config.talos_version, "talosVersion", "talos_version", without_v),
        (&config.kubernetes_version, "kubernetesVersion", "kubernetes_version", without_v),
        (&config.endpoint, "endpoint", "cluster_endpoint", same),
        (&config.domain, "domain", "dns_domain", same),
    ] {
        let Some(at) = at else { continue };
        if let Some(text) = draft.text(at) {
            draft.cluster_key(key, tree::text(written(text)));
            draft.honoured(path, key);
        }
    }
    scheduling(draft, config);
    networks(draft, config);
    certificates(draft, config);
    if let Some(manifests) = &config.inline_manifests {
        inline_manifests(draft, &manifests.value.0, manifests.location);
    }
    if let Some(cni) = &config.cni {
        cni_of(draft, &cni.value.0);
    }
    if let Some(factory) = &config.image_factory {
        image_factory(draft, factory);
    }
}

/// Said in any case: by default workloads run on control planes here if there are no workers.
fn scheduling(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    let allowed = config.allow_scheduling.as_ref().is_some_and(|at| at.value);
    draft.cluster_key("allow_scheduling_on_control_planes", tree::plain(&allowed));
    if let Some(at) = &config.allow_scheduling {
        draft.honoured(at.key, "allow_scheduling_on_control_planes");
    }
}

fn networks(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    for (at, path, key, default) in [
        (&config.pod_nets, "clusterPodNets", "cluster_pod_cidr", POD_NET),
        (&config.service_nets, "clusterSvcNets", "cluster_svc_cidr", SERVICE_NET),
    ] {
        let given = at.as_ref().map(|at| draft.texts(&at.value)).unwrap_or_default();
        if at.is_some() {
            draft.honoured(path, key);
        }
        draft.cluster_key(key, one_or_more(&given, default));
    }
}

/// One value without brackets, several as a list.
fn one_or_more(given: &[String], default: &str) -> Node {
    match given {
        [] => tree::text(default),
        [one] => tree::text(one),
        several => tree::list(several.iter().map(tree::text)),
    }
}

fn certificates(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    if let Some(at) = &config.api_server_sans {
        let names = draft.texts(&at.value);
        draft.cluster_key("cluster_api_tls_sans", tree::list(names.iter().map(tree::text)));
        draft.honoured("additionalApiServerCertSans", "cluster_api_tls_sans");
    }
    if let Some(at) = &config.machine_sans {
        let names = tree::list(at.value.iter().map(|san| tree::text(&san.value.0)));
        let place = Place { path: "additionalMachineCertSans".to_owned(), whom: vec![Whom::Everyone] };
        draft.legacy(&place, &["machine", "certSANs"], &names);
    }
}

fn inline_manifests(draft: &mut Draft<'_>, manifests: &Node, location: talmox_config::Location) {
    let place = Place { path: "inlineManifests".to_owned(), whom: vec![Whom::Everyone] };
    let mut whole = Vec::new();
    for manifest in tree::items(manifests) {
        let Some(contents) = tree::get_text(manifest, "contents") else { continue };
        let Some(contents) = contents_of(draft, contents, location) else { continue };
        let name = tree::get_text(manifest, "name").unwrap_or_default();
        whole.push(tree::map([("name", tree::text(name)), ("contents", tree::text(contents))]));
    }
    draft.legacy(&place, &["cluster", "inlineManifests"], &tree::list(whole));
}

/// A text, or that of the file it names.
pub(super) fn contents_of(
    draft: &mut Draft<'_>,
    contents: &str,
    location: talmox_config::Location,
) -> Option<String> {
    match contents.strip_prefix('@') {
        Some(name) if !contents.contains('\n') => draft.file(name, location),
        Some(_) | None => Some(contents.to_owned()),
    }
}

fn cni_of(draft: &mut Draft<'_>, cni: &Node) {
    let name = tree::get_text(cni, "name").unwrap_or("flannel");
    match name {
        "none" | "flannel" => {
            draft.cluster_key("cni", tree::text(name));
            draft.honoured("cniConfig.name", "cni");
        }
        "custom" => {
            let urls = tree::get(cni, "urls").cloned().unwrap_or_else(|| tree::list([]));
            draft.cluster_key("cni", tree::map([("urls", urls)]));
            draft.honoured("cniConfig.urls", "cni.urls");
        }
        other => draft.unsupported("cniConfig.name", format!("{other} is no network plugin of Talos")),
    }
    if let Some(flannel) = tree::get(cni, "flannel") {
        let place = Place { path: "cniConfig.flannel".to_owned(), whom: vec![Whom::ControlPlanes] };
        draft.legacy(&place, &["cluster", "network", "cni", "flannel"], flannel);
    }
}

fn image_factory(draft: &mut Draft<'_>, factory: &At<ImageFactoryBlock>) {
    let block = &factory.value;
    let protocol = block.protocol.as_ref().and_then(|at| draft.text(at));
    let host = block.registry_url.as_ref().and_then(|at| draft.text(at));
    let host_said = host.is_some();
    if host.is_some() || protocol.is_some() {
        let protocol = protocol.as_deref().unwrap_or("https");
        let host = host.as_deref().unwrap_or("factory.talos.dev");
        draft.cluster_key("factory_url", tree::text(format!("{protocol}://{host}")));
    }
    for (said, path) in
        [(host_said, "imageFactory.registryURL"), (block.protocol.is_some(), "imageFactory.protocol")]
    {
        if said {
            draft.translated(path, "factory_url");
        }
    }
    for (at, key) in [
        (&block.schematic_endpoint, "schematicEndpoint"),
        (&block.installer_template, "installerURLTmpl"),
        (&block.image_template, "ISOURLTmpl"),
    ] {
        if at.is_some() {
            draft.unsupported(
                format!("imageFactory.{key}"),
                "addresses are those of an Image Factory; install_images names installers of one's own",
            );
        }
    }
}
