//! What nodes run with that has a key of its own: labels, annotations, taints, kernel modules, schematics, mirrors, a region.
//!
//! Each key is tried, and stays only if what is rendered with it is nearer to what runs; else patches say it. What all nodes share is
//! said once for all, what a role shares for the role, the rest for each node.

use std::collections::{BTreeMap, BTreeSet};

use talmox_config::edit::Yaml;
use talmox_machine::{Config, Map, Value};
use talmox_types::desired::Role;
use talmox_types::{Contract, NodeName};

use super::draft::Draft;
use super::facts::schematic_of_node;
use super::proof::distance;
use super::{DescribeError, LiveCluster, LiveNode};

const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Labels and taints that follow from a node's role.
const OF_THE_ROLE: [&str; 2] =
    ["node.kubernetes.io/exclude-from-external-load-balancers", "node-role.kubernetes.io/control-plane"];

/// What is tried, in this order: labels depend on whether there is a region.
const KEYS: [&str; 8] = [
    "region",
    "registry_mirrors",
    "kubespan",
    "schematic_id",
    "labels",
    "annotations",
    "taints",
    "kernel_modules",
];

/// A key that may make the description nearer to what runs.
pub(super) struct Candidate {
    pub(super) key: &'static str,
    pub(super) said: Said,
    /// Whether it may stay where it makes no difference to what is rendered.
    even: bool,
}

/// Where a key would stand.
pub(super) enum Said {
    /// At the top of `cluster.yaml`.
    Cluster(Yaml),
    Nodes(Scoped),
}

/// A setting of nodes, by whom it is for.
#[derive(Default)]
pub(super) struct Scoped {
    pub(super) all: Option<Yaml>,
    pub(super) roles: BTreeMap<Role, Yaml>,
    pub(super) nodes: BTreeMap<NodeName, Yaml>,
}

impl Scoped {
    fn is_empty(&self) -> bool {
        self.all.is_none() && self.roles.is_empty() && self.nodes.is_empty()
    }
}

/// Tries every key.
pub(super) fn add(
    live: &LiveCluster<'_>,
    draft: &mut Draft,
    contract: Contract,
) -> Result<(), DescribeError> {
    let mut least = distance(live, draft, contract)?;
    let mut region = false;
    for key in KEYS {
        let Some(candidate) = candidate(live, key, region) else { continue };
        let before = draft.saved();
        let nearer = draft.try_add(&candidate).then(|| distance(live, draft, contract).ok()).flatten();
        match nearer {
            Some(steps) if steps < least || candidate.even && steps == least => {
                least = steps;
                region |= key == "region";
            }
            Some(_) | None => draft.restore(before),
        }
    }
    Ok(())
}

fn candidate(live: &LiveCluster<'_>, key: &'static str, region: bool) -> Option<Candidate> {
    let nodes = &live.nodes;
    let cluster = |value: Option<Yaml>| value.map(Said::Cluster);
    let scoped = |scoped: Scoped| (!scoped.is_empty()).then_some(Said::Nodes(scoped));
    let said = match key {
        "region" => cluster(shared_region(nodes)),
        "registry_mirrors" => cluster(nodes.first().and_then(|node| mirrors(&node.config))),
        "kubespan" => cluster(nodes.iter().all(|node| kubespan(&node.config)).then_some(Yaml::Bool(true))),
        "schematic_id" => scoped(schematics(nodes)),
        "labels" => scoped(by_key(nodes, |node| labels(node, region))),
        "annotations" => scoped(by_key(nodes, |node| pairs(&node.config, "nodeAnnotations", "annotations"))),
        "taints" => scoped(as_a_whole(nodes, |node| Some(taints(node)))),
        _ => scoped(as_a_whole(nodes, modules)),
    };
    Some(Candidate { key, said: said?, even: key == "schematic_id" })
}

/// What the nodes of a configuration are given in Kubernetes, in either layout.
fn pairs(config: &Config, section: &str, key: &str) -> BTreeMap<String, String> {
    let document = || config.document("KubeNodeConfig")?.at(&[key]);
    let found = config.at(&["machine", section]).or_else(document).and_then(Value::as_map);
    let pairs = found.into_iter().flat_map(Map::iter);
    let pairs = pairs.filter(|(name, _)| !OF_THE_ROLE.contains(name));
    pairs.filter_map(|(name, value)| Some((name.to_owned(), value.as_text()?.to_owned()))).collect()
}

fn labels(node: &LiveNode, region: bool) -> BTreeMap<String, String> {
    let mut labels = pairs(&node.config, "nodeLabels", "labels");
    if region {
        labels.remove(REGION);
        let host = node.vm.as_ref().map(|vm| vm.host.to_string());
        if labels.get(ZONE) == host.as_ref() {
            labels.remove(ZONE);
        }
    }
    labels
}

fn shared_region(nodes: &[LiveNode]) -> Option<Yaml> {
    let regions: BTreeSet<Option<String>> =
        nodes.iter().map(|node| pairs(&node.config, "nodeLabels", "labels").remove(REGION)).collect();
    let mut regions = regions.into_iter();
    regions.next().flatten().filter(|_| regions.next().is_none()).map(Yaml::text)
}

fn taints(node: &LiveNode) -> Vec<Yaml> {
    let taints = pairs(&node.config, "nodeTaints", "taints");
    let one = |(key, text): (String, String)| match text.split_once(':') {
        Some((value, effect)) => Yaml::text(format!("{key}={value}:{effect}")),
        None => Yaml::text(format!("{key}:{text}")),
    };
    taints.into_iter().map(one).collect()
}

/// Names of modules; none where one has parameters, for which there is no word.
fn modules(node: &LiveNode) -> Option<Vec<Yaml>> {
    let legacy = node.config.at(&["machine", "kernel", "modules"]).and_then(Value::as_list);
    let legacy = legacy.unwrap_or_default().iter();
    let legacy = legacy.map(|module| (module.at(&["name"]), module.at(&["parameters"])));
    let documents = node.config.of_kind("KernelModuleConfig");
    let documents = documents.map(|module| (module.at(&["name"]), module.at(&["parameters"])));
    let plain = |(name, parameters): (Option<&Value>, Option<&Value>)| {
        name.and_then(Value::as_text).filter(|_| parameters.is_none()).map(Yaml::text)
    };
    legacy.chain(documents).map(plain).collect()
}

fn schematics(nodes: &[LiveNode]) -> Scoped {
    let one = |node: &LiveNode| schematic_of_node(node).map(|id| vec![Yaml::text(id)]);
    let mut scoped = as_a_whole(nodes, one);
    // The one most nodes have is said already.
    scoped.all = None;
    let first = |value: &mut Yaml| {
        if let Yaml::List(items) = value
            && let Some(id) = items.pop()
        {
            *value = id;
        }
    };
    scoped.roles.values_mut().chain(scoped.nodes.values_mut()).for_each(first);
    scoped
}

fn mirrors(config: &Config) -> Option<Yaml> {
    let urls = |endpoints: Option<&Value>| {
        let endpoints = endpoints.and_then(Value::as_list).unwrap_or_default();
        let url = |one: &Value| one.as_text().or_else(|| one.at(&["url"])?.as_text()).map(Yaml::text);
        Yaml::List(endpoints.iter().filter_map(url).collect())
    };
    let legacy = config.at(&["machine", "registries", "mirrors"]).and_then(Value::as_map);
    let legacy = legacy.into_iter().flat_map(Map::iter);
    let legacy = legacy.map(|(name, mirror)| (name.to_owned(), urls(mirror.at(&["endpoints"]))));
    let documents = config.of_kind("RegistryMirrorConfig").filter_map(|document| {
        let name = document.at(&["name"])?.as_text()?.to_owned();
        Some((name, urls(document.at(&["endpoints"]))))
    });
    let mirrors: Vec<(String, Yaml)> = legacy.chain(documents).collect();
    (!mirrors.is_empty()).then_some(Yaml::Map(mirrors))
}

fn kubespan(config: &Config) -> bool {
    let document = || config.document("KubeSpanConfig")?.at(&["enabled"]);
    let found = config.at(&["machine", "network", "kubespan", "enabled"]).or_else(document);
    found.and_then(Value::as_bool) == Some(true)
}

/// The nodes of a role, if there are several: of one alone nobody can tell what is its own.
fn peers(nodes: &[LiveNode], role: Role) -> Vec<&LiveNode> {
    let members: Vec<&LiveNode> = nodes.iter().filter(|node| node.role == role).collect();
    if members.len() > 1 { members } else { Vec::new() }
}

/// A setting whose entries add up: each is said where all below have it.
fn by_key(nodes: &[LiveNode], of: impl Fn(&LiveNode) -> BTreeMap<String, String>) -> Scoped {
    type Pairs = BTreeSet<(String, String)>;
    let own = |node: &LiveNode| of(node).into_iter().collect::<Pairs>();
    let common = |members: &[&LiveNode]| {
        let mut all = members.iter().map(|node| own(node));
        let first = all.next().unwrap_or_default();
        all.fold(first, |common, other| common.intersection(&other).cloned().collect())
    };
    let map = |pairs: Pairs| {
        let map = pairs.into_iter().map(|(key, value)| (key, Yaml::Text(value))).collect::<Vec<_>>();
        (!map.is_empty()).then_some(Yaml::Map(map))
    };
    let everybody: Vec<&LiveNode> = nodes.iter().collect();
    let all = if nodes.len() > 1 { common(&everybody) } else { Pairs::new() };
    let mut scoped = Scoped { all: map(all.clone()), ..Scoped::default() };
    for role in [Role::Controller, Role::Worker] {
        let shared: Pairs = common(&peers(nodes, role)).difference(&all).cloned().collect();
        for node in nodes.iter().filter(|node| node.role == role) {
            let rest: Pairs = own(node).difference(&all).cloned().collect();
            let rest = rest.difference(&shared).cloned().collect();
            scoped.nodes.extend(map(rest).map(|rest| (node.name.clone(), rest)));
        }
        scoped.roles.extend(map(shared).map(|shared| (role, shared)));
    }
    scoped
}

/// A setting that is taken whole from the nearest place.
fn as_a_whole(nodes: &[LiveNode], of: impl Fn(&LiveNode) -> Option<Vec<Yaml>>) -> Scoped {
    let said = |list: &Option<Vec<Yaml>>| list.clone().filter(|list| !list.is_empty()).map(Yaml::List);
    let alike = |members: &[&LiveNode]| {
        let mut lists = members.iter().map(|node| of(node));
        let first = lists.next()?;
        lists.all(|other| other == first).then_some(first)
    };
    let everybody: Vec<&LiveNode> = nodes.iter().collect();
    if let Some(list) = alike(&everybody).filter(|_| nodes.len() > 1) {
        return Scoped { all: said(&list), ..Scoped::default() };
    }
    let mut scoped = Scoped::default();
    for role in [Role::Controller, Role::Worker] {
        match alike(&peers(nodes, role)) {
            Some(list) => scoped.roles.extend(said(&list).map(|list| (role, list))),
            None => {
                for node in nodes.iter().filter(|node| node.role == role) {
                    scoped.nodes.extend(said(&of(node)).map(|list| (node.name.clone(), list)));
                }
            }
        }
    }
    scoped
}
