//! What nodes have alone or in a group.
//!
//! A node's own value takes the place of its group's, except for what adds up. Where no node of a group has its own, the
//! value goes to the role; else to each node that has none.

use talmox_config::read::{At, Text};
use talmox_types::Contract;
use talmox_yaml::Node;

use super::cluster::contents_of;
use super::draft::{Draft, Place, Whom};
use super::file::{GroupBlock, NodeBlock, TalconfigBlock};
use super::variables::has_variables;
use crate::tree::{self, Tree};

/// A value, with where it stands and whom it is for.
pub(super) struct Given<'c, T> {
    pub place: Place,
    pub at: &'c At<T>,
}

/// A part of what nodes have, picked out of a block.
pub(super) type Pick<T> = for<'b> fn(&'b GroupBlock) -> Option<&'b At<T>>;

fn nodes(config: &TalconfigBlock) -> impl Iterator<Item = (usize, &NodeBlock)> {
    config.nodes.iter().flat_map(|nodes| nodes.value.iter()).map(|node| &node.value).enumerate()
}

pub(super) fn is_control_plane(node: &NodeBlock) -> bool {
    node.control_plane.as_ref().is_some_and(|at| at.value)
}

/// As nodes are called in the report.
pub(super) fn path_of(index: usize, node: &NodeBlock) -> String {
    let name = node.hostname.as_ref().map_or_else(|| index.to_string(), |name| name.value.0.clone());
    format!("nodes[{name}]")
}

/// Every place a part is given at. `own` says which nodes do not take their group's.
pub(super) fn given<'c, T>(
    config: &'c TalconfigBlock,
    key: &str,
    pick: Pick<T>,
    own: &dyn Fn(&NodeBlock) -> bool,
) -> Vec<Given<'c, T>> {
    let mut found = Vec::new();
    for (group, name, whole, control_planes) in [
        (&config.control_plane, "controlPlane", Whom::ControlPlanes, true),
        (&config.worker, "worker", Whom::Workers, false),
    ] {
        let Some(at) = group.as_ref().and_then(|group| pick(&group.value)) else { continue };
        let members = || nodes(config).filter(|(_, node)| is_control_plane(node) == control_planes);
        let takers = members().filter(|(_, node)| !own(node)).map(|(index, _)| Whom::Node(index));
        let whom = if members().any(|(_, node)| own(node)) { takers.collect() } else { vec![whole] };
        found.push(Given { place: Place { path: format!("{name}.{key}"), whom }, at });
    }
    for (index, node) in nodes(config) {
        if let Some(at) = pick(&node.group) {
            let path = format!("{}.{key}", path_of(index, node));
            found.push(Given { place: Place { path, whom: vec![Whom::Node(index)] }, at });
        }
    }
    found
}

/// Parts whose nearest value counts.
pub(super) fn nearest<'c, T>(config: &'c TalconfigBlock, key: &str, pick: Pick<T>) -> Vec<Given<'c, T>> {
    given(config, key, pick, &|node| pick(&node.group).is_some())
}

fn set(at: Option<&At<bool>>) -> Option<&At<bool>> {
    at.filter(|at| at.value)
}

pub(super) fn convert(draft: &mut Draft<'_>, config: &TalconfigBlock, contract: Option<Contract>) {
    for given in nearest(config, "nodeLabels", |group| group.labels.as_ref()) {
        words(draft, &given, "labels");
    }
    for given in nearest(config, "nodeAnnotations", |group| group.annotations.as_ref()) {
        words(draft, &given, "annotations");
    }
    for given in nearest(config, "nodeTaints", |group| group.taints.as_ref()) {
        taints(draft, &given);
    }
    for given in nearest(config, "machineDisks", |group| group.disks.as_ref()) {
        draft.legacy(&given.place, &["machine", "disks"], &given.at.value.0);
    }
    for given in nearest(config, "machineFiles", |group| group.files.as_ref()) {
        files(draft, &given);
    }
    for given in nearest(config, "kernelModules", |group| group.kernel_modules.as_ref()) {
        kernel_modules(draft, &given);
    }
    for given in nearest(config, "disableSearchDomain", |group| set(group.disable_search_domain.as_ref())) {
        search_domain(draft, &given.place, contract);
    }
    documents(draft, config);
    added(draft, config);
    without_a_counterpart(draft, config);
}

/// Labels and annotations. Templates look into the config they are part of, which only talhelper does.
fn words(draft: &mut Draft<'_>, given: &Given<'_, Tree>, key: &str) {
    let mut kept = Vec::new();
    for (name, value) in tree::entries(&given.at.value.0) {
        let text = value.as_scalar().map(|scalar| scalar.text.as_str()).unwrap_or_default();
        let path = format!("{}.{name}", given.place.path);
        if text.contains("{{") {
            draft.unsupported(path, "a Go template; write what it stands for");
        } else if let Some(text) = draft.substituted(text, given.at.location) {
            kept.push((name.to_owned(), tree::text(text)));
            draft.honoured(path, key);
        }
    }
    if !kept.is_empty() {
        draft.setting(&given.place, key, &tree::map(kept));
    }
}

/// `key: value:Effect` or `key: Effect` become `key=value:Effect` and `key:Effect`.
fn taints(draft: &mut Draft<'_>, given: &Given<'_, Tree>) {
    let mut written = Vec::new();
    for (key, value) in tree::entries(&given.at.value.0) {
        let Some(value) = value.as_scalar() else { continue };
        let Some(value) = draft.substituted(&value.text, given.at.location) else { continue };
        let taint = match value.rsplit_once(':') {
            Some((value, effect)) if !value.is_empty() => format!("{key}={value}:{effect}"),
            Some((_, effect)) => format!("{key}:{effect}"),
            None => format!("{key}:{value}"),
        };
        written.push(tree::text(taint));
    }
    draft.setting(&given.place, "taints", &tree::list(written));
    draft.honoured(given.place.path.as_str(), "taints");
}

fn files(draft: &mut Draft<'_>, given: &Given<'_, Tree>) {
    let mut written = Vec::new();
    for file in tree::items(&given.at.value.0) {
        let content = tree::get_text(file, "content").unwrap_or_default();
        let skips = tree::get_text(file, "skipEnvsubst") == Some("true");
        let Some(content) = contents_of(draft, content, given.at.location) else { continue };
        if skips && has_variables(&content) {
            let path = format!("{}.skipEnvsubst", given.place.path);
            draft.unsupported(
                path,
                "variables of a patch are replaced: write $$ for a dollar sign that stays",
            );
        }
        let rest = tree::entries(file).filter(|(key, _)| !["content", "skipEnvsubst"].contains(key));
        let mut entries = vec![("content".to_owned(), tree::text(content))];
        entries.extend(rest.map(|(key, value)| (key.to_owned(), value.clone())));
        written.push(tree::map(entries));
    }
    draft.legacy(&given.place, &["machine", "files"], &tree::list(written));
}

fn kernel_modules(draft: &mut Draft<'_>, given: &Given<'_, Tree>) {
    let modules = tree::items(&given.at.value.0);
    let plain = modules.iter().all(|module| tree::get(module, "parameters").is_none());
    if plain {
        let names = modules.iter().filter_map(|module| tree::get_text(module, "name")).map(tree::text);
        draft.setting(&given.place, "kernel_modules", &tree::list(names));
        draft.honoured(given.place.path.as_str(), "kernel_modules");
    } else {
        draft.legacy(&given.place, &["machine", "kernel", "modules"], &given.at.value.0);
    }
}

/// From 1.12 on this is part of a document.
fn search_domain(draft: &mut Draft<'_>, place: &Place, contract: Option<Contract>) {
    if contract.is_some_and(|contract| contract < Contract { major: 1, minor: 12 }) {
        draft.legacy(place, &["machine", "network", "disableSearchDomain"], &tree::plain(&true));
    } else {
        let domains = tree::map([("disableDefault", tree::plain(&true))]);
        let resolver = document("ResolverConfig", [("searchDomains".to_owned(), domains)]);
        draft.documents(place, "ResolverConfig", &[resolver]);
    }
}

fn document(kind: &str, body: impl IntoIterator<Item = (String, Node)>) -> Node {
    let head =
        [("apiVersion", "v1alpha1"), ("kind", kind)].map(|(key, value)| (key.to_owned(), tree::text(value)));
    tree::map(head.into_iter().chain(body))
}

/// Lists whose elements are documents of Talos without their heads.
fn documents(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    let parts: [(&str, &str, Pick<Tree>); 3] = [
        ("extensionServices", "ExtensionServiceConfig", |group| group.extension_services.as_ref()),
        ("volumes", "VolumeConfig", |group| group.volumes.as_ref()),
        ("userVolumes", "UserVolumeConfig", |group| group.user_volumes.as_ref()),
    ];
    for (key, kind, pick) in parts {
        for given in nearest(config, key, pick) {
            let made: Vec<Node> =
                tree::items(&given.at.value.0).iter().map(|item| whole(kind, item)).collect();
            draft.documents(&given.place, kind, &made);
        }
    }
    for given in nearest(config, "ingressFirewall", |group| group.firewall.as_ref()) {
        firewall(draft, &given);
    }
}

fn whole(kind: &str, item: &Node) -> Node {
    document(kind, tree::entries(item).map(|(key, value)| (key.to_owned(), value.clone())))
}

fn firewall(draft: &mut Draft<'_>, given: &Given<'_, Tree>) {
    let firewall = &given.at.value.0;
    let action = tree::get(firewall, "defaultAction").cloned().unwrap_or_else(|| tree::text("accept"));
    let mut made = vec![document("NetworkDefaultActionConfig", [("ingress".to_owned(), action)])];
    let rules = tree::get(firewall, "rules").map(tree::items).unwrap_or_default();
    made.extend(rules.iter().map(|rule| whole("NetworkRuleConfig", rule)));
    draft.documents(&given.place, "NetworkDefaultActionConfig and NetworkRuleConfig", &made);
}

/// What of a group and of a node adds up, unless the node says otherwise.
fn added(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    let own = |node: &NodeBlock| set(node.override_sans.as_ref()).is_some();
    for given in given(config, "certSANs", |group| group.cert_sans.as_ref(), &own) {
        let names = tree::list(given.at.value.iter().map(|san| tree::text(&san.value.0)));
        draft.legacy(&given.place, &["machine", "certSANs"], &names);
    }
    for (index, node) in nodes(config) {
        for (at, key) in [
            (&node.override_patches, "overridePatches"),
            (&node.override_manifests, "overrideExtraManifests"),
            (&node.override_sans, "overrideMachineCertSANs"),
        ] {
            if set(at.as_ref()).is_some() {
                draft.translated(
                    format!("{}.{key}", path_of(index, node)),
                    "the group's go to the other nodes",
                );
            }
        }
    }
}

/// What only talhelper itself has a use for.
fn without_a_counterpart(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    for given in nearest(config, "filenameTmpl", |group| group.filename_template.as_ref()) {
        draft.unsupported(given.place.path, "configs are called by their node");
    }
    for given in nearest(config, "noSchematicValidate", |group| set(group.no_schematic_validate.as_ref())) {
        draft.unsupported(given.place.path, "the Image Factory judges schematics");
    }
}

/// The value that counts for each node, by its position.
pub(super) fn effective<T>(config: &TalconfigBlock, pick: Pick<T>) -> Vec<Option<&At<T>>> {
    let group = |node: &NodeBlock| {
        let group = if is_control_plane(node) { &config.control_plane } else { &config.worker };
        group.as_ref().and_then(|group| pick(&group.value))
    };
    nodes(config).map(|(_, node)| pick(&node.group).or_else(|| group(node))).collect()
}

/// Texts of a list.
pub(super) fn texts(list: &[At<Text>]) -> Vec<&str> {
    list.iter().map(|item| item.value.0.as_str()).collect()
}
