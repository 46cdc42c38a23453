//! A description as written: typed, with places, before anything is merged.

use talmox_types::desired::Role;
use talmox_yaml::{FaultKind, Limit, Node, NodeKind, Span};

use crate::edit::Edited;
use crate::file::{CLUSTER_TEMPLATE_KEYS, Cluster, NodeBlock, PoolBlock, Settings};
use crate::load::Files;
use crate::problem::{Code, Problem, Severity};
use crate::read::{At, Block, Reading, read_block};
use crate::source::{Location, SourceId, Sources};

/// Everything the files say.
#[derive(Debug)]
pub struct Description {
    pub sources: Sources,
    pub(crate) cluster: Written,
    pub(crate) built_in: Written,
    pub(crate) nodes: Vec<At<NodeBlock>>,
    pub(crate) pools: Vec<At<PoolBlock>>,
    /// Where problems of the whole description are shown.
    pub(crate) top: Option<Location>,
    /// Whether a separate file of nodes is there and not of the right shape.
    pub(crate) nodes_unreadable: bool,
    /// The first key that is for Cilium, if one has a value.
    pub(crate) cilium: Option<Location>,
    roles: Roles,
}

/// Which text is what.
#[derive(Clone, Copy, Debug)]
struct Roles {
    cluster: Option<SourceId>,
    nodes: Option<SourceId>,
    nodes_are_optional: bool,
}

/// A cluster file with the settings that stand at its top level, and those of its hardware profile, as settings of
/// all nodes.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub file: Cluster,
    pub top: Settings,
    pub advanced: Settings,
    pub defaults: Settings,
    pub controller: Settings,
    pub worker: Settings,
}

impl Written {
    fn new(mut file: Cluster) -> Self {
        let mut top = Settings {
            storage: file.proxmox_storage.clone(),
            host: file.proxmox_node.clone(),
            node_vlan_tag: file.node_vlan_tag.clone(),
            node_network: file.node_network.clone(),
            cloud_init: file.cloud_init.clone(),
            boot: file.boot.clone(),
            template: file.talos_template.clone(),
            secure_boot: file.secure_boot.clone(),
            tpm: file.tpm.clone(),
            disk_encryption: file.disk_encryption.clone(),
            kernel_modules: file.kernel_modules.clone(),
            patches: file.patches.clone(),
            drift: file.drift.clone(),
            ..Settings::default()
        };
        top.advanced.network_bridge.clone_from(&file.proxmox_bridge);
        let advanced = Settings { advanced: take(&mut file.proxmox_vm_advanced), ..Settings::default() };
        Self {
            top,
            advanced,
            defaults: take(&mut file.proxmox_vm_defaults),
            controller: take(&mut file.proxmox_vm_controller_defaults),
            worker: take(&mut file.proxmox_vm_worker_defaults),
            file,
        }
    }

    pub(crate) fn role(&self, role: Role) -> &Settings {
        match role {
            Role::Controller => &self.controller,
            Role::Worker => &self.worker,
        }
    }
}

fn take<T: Default>(field: &mut Option<At<T>>) -> T {
    field.take().map(|at| at.value).unwrap_or_default()
}

impl Description {
    pub(crate) fn read(files: Files) -> (Self, Vec<Problem>) {
        let Files { sources, cluster, nodes, nodes_are_optional, mut problems } = files;
        let roles = Roles { cluster, nodes, nodes_are_optional };
        let (built_in, _) = read_cluster(&sources, SourceId::BUILT_IN, &mut problems);
        let (mut file, cilium) =
            cluster.map(|id| read_cluster(&sources, id, &mut problems)).unwrap_or_default();
        let mut nodes_unreadable = false;
        let has_own = file.nodes.is_some() || file.node_pools.is_some();
        let nodes = nodes.filter(|id| {
            let ignored = nodes_are_optional && has_own;
            if ignored {
                let name = &sources.get(*id).name;
                problems.push(
                    Problem::note(
                        Code::KeyNotOurs,
                        format!("{name} is not read: the description has nodes of its own"),
                    )
                    .in_file(name.clone(), 1, 1),
                );
            }
            !ignored
        });
        if let Some(id) = nodes {
            let separate = read_nodes(&sources, id, &mut problems);
            nodes_unreadable = separate.nodes.is_none() && separate.node_pools.is_none();
            merge_nodes(&mut file.nodes, separate.nodes, &mut problems);
            merge_nodes(&mut file.node_pools, separate.node_pools, &mut problems);
        }
        // Nothing can be said of the whole where a part of it could not be read at all.
        let readable =
            !problems.iter().any(|problem| problem.severity == Severity::Error && problem.code.is_fatal());
        let top =
            cluster.filter(|_| readable).map(|source| Location { source, span: Span { start: 0, end: 0 } });
        let nodes = take(&mut file.nodes);
        let pools = take(&mut file.node_pools);
        let description = Self {
            sources,
            cluster: Written::new(file),
            built_in: Written::new(built_in),
            nodes,
            pools,
            top,
            nodes_unreadable,
            cilium,
            roles,
        };
        (description, problems)
    }
}

impl Description {
    /// The same files with other texts in some of them, to be read as if they had been written.
    pub fn with_texts(&self, edited: &[Edited]) -> Files {
        let Roles { cluster, nodes, nodes_are_optional } = self.roles;
        let mut sources = Sources::default();
        for id in std::iter::once(SourceId::BUILT_IN).chain(self.sources.written()) {
            let source = self.sources.get(id);
            let text =
                edited.iter().find(|edited| edited.source == id).map_or(&source.text, |edited| &edited.text);
            let folder = source.is_file.then(|| source.folder.clone());
            sources.add(source.name.clone(), text.clone(), folder);
        }
        Files { sources, cluster, nodes, nodes_are_optional, problems: Vec::new() }
    }
}

fn merge_nodes<T>(here: &mut Option<At<T>>, there: Option<At<T>>, problems: &mut Vec<Problem>) {
    match (&here, there) {
        (Some(first), Some(second)) => problems.push(
            Problem::error(Code::AliasConflict, format!("{} stands in both files", second.key))
                .at(second.location, "here")
                .related(first.location, "and here")
                .hint("keep all nodes in one of the two"),
        ),
        (None, there) => *here = there,
        (Some(_), None) => {}
    }
}

/// A `cluster.yaml`, and where it first says something to Cilium.
fn read_cluster(sources: &Sources, id: SourceId, problems: &mut Vec<Problem>) -> (Cluster, Option<Location>) {
    let Some(root) = parse(sources, id, problems) else { return <(Cluster, Option<Location>)>::default() };
    let mut cilium = None;
    let mut reading = Reading { source: id, problems };
    let file: Option<Cluster> = read_block(&root, &mut reading, &mut |key, entry, reading| {
        let ours = !CLUSTER_TEMPLATE_KEYS.contains(&key) && !key.starts_with("x-");
        if !ours {
            let location = reading.location(&entry.key);
            let says_something = entry.value.as_scalar().is_some_and(|value| !value.text.is_empty());
            if key.starts_with("cilium_") && says_something {
                cilium.get_or_insert(location);
            }
            reading.report(
                Problem::note(Code::KeyNotOurs, format!("{key} is left to other tools"))
                    .at(location, "not read by talmox"),
            );
        }
        !ours
    });
    // A file that is not a mapping at all has every key "broken": nothing in it is merely missing.
    let file = file.unwrap_or_else(|| Cluster { broken: vec!["cluster_uid", "nodes"], ..Cluster::default() });
    (file, cilium)
}

/// A `nodes.yaml`: the same keys as in `cluster.yaml`, but only nodes and pools.
fn read_nodes(sources: &Sources, id: SourceId, problems: &mut Vec<Problem>) -> Cluster {
    let Some(root) = parse(sources, id, problems) else { return Cluster::default() };
    if matches!(root.kind, NodeKind::Sequence(_)) {
        let location = Location { source: id, span: root.place() };
        problems.push(
            Problem::error(Code::WrongType, "expected a mapping, found a list")
                .at(location, "a list")
                .hint("put a line nodes: above it and indent the list"),
        );
        return Cluster::default();
    }
    if let NodeKind::Mapping(entries) = &root.kind {
        let known = Cluster::info();
        for entry in entries {
            let key = entry.key.as_scalar().map_or("", |key| key.text.as_str());
            let elsewhere = !["nodes", "node_pools", "<<"].contains(&key) && known.key(key).is_some();
            if elsewhere {
                let location = Location { source: id, span: entry.key.place() };
                problems.push(
                    Problem::error(Code::UnknownKey, format!("{key} does not belong here"))
                        .at(location, "not about nodes")
                        .hint("move it to cluster.yaml"),
                );
            }
        }
    }
    let mut reading = Reading { source: id, problems };
    read_block(&root, &mut reading, &mut |_, _, _| false).unwrap_or_default()
}

/// The one document of a text, after every fault of its YAML has been reported.
fn parse(sources: &Sources, id: SourceId, problems: &mut Vec<Problem>) -> Option<Node> {
    let source = sources.get(id);
    let parsed = talmox_yaml::parse(&source.text);
    let broken = parsed.faults.iter().any(|fault| !matches!(fault.kind, FaultKind::DuplicateKey { .. }));
    for fault in parsed.faults {
        problems.push(fault_problem(&fault.kind, Location { source: id, span: fault.span }));
    }
    let mut documents = parsed.documents.into_iter().filter(|document| !document.is_null());
    let first = documents.next();
    if let Some(second) = documents.next() {
        problems.push(
            Problem::error(
                Code::YamlDocuments,
                "a description is one YAML document, this file holds several",
            )
            .at(
                Location { source: id, span: Span { end: second.span.start + 1, ..second.span } },
                "the second one",
            )
            .hint("join them, or remove the line ---"),
        );
    }
    if first.is_none() && !broken {
        problems.push(
            Problem::error(Code::FileEmpty, format!("{} holds no value", source.name))
                .in_file(source.name.clone(), 1, 1)
                .hint("talmox init writes a description to start from"),
        );
    }
    first.filter(|_| !broken)
}

fn limit_problem(limit: Limit) -> Problem {
    match limit {
        Limit::Depth => Problem::error(Code::YamlDepth, "this nests too deep"),
        Limit::Nodes => Problem::error(Code::FileTooLarge, "this file has more values than any description"),
        Limit::Anchors | Limit::AliasNodes | Limit::AddedBytes => {
            Problem::error(Code::YamlAlias, "these aliases unfold into too much")
        }
    }
}

/// What is wrong with a text as YAML, in words.
pub fn fault_problem(kind: &FaultKind, location: Location) -> Problem {
    match kind {
        FaultKind::Syntax(words) => {
            Problem::error(Code::YamlSyntax, "this is not valid YAML").at(location, words.clone())
        }
        FaultKind::Tab => Problem::error(Code::YamlTab, "a tab cannot indent YAML")
            .at(location, "a tab")
            .hint("replace it with blanks"),
        FaultKind::DuplicateKey { key, first } => {
            Problem::error(Code::DuplicateKey, format!("{key} stands here twice"))
                .at(location, "again")
                .related(Location { source: location.source, span: *first }, "first here")
                .hint("YAML readers disagree on which one counts; keep one")
        }
        FaultKind::UnknownAlias(name) => {
            Problem::error(Code::YamlAlias, format!("there is no &{name} before *{name}"))
                .at(location, "an alias without its anchor")
                .hint(format!("if *{name} is meant as text, put it in quotes"))
        }
        FaultKind::AliasKnot => Problem::error(Code::YamlAlias, "this alias unfolds without end")
            .at(location, "inside its own anchor"),
        FaultKind::Limit(limit) => limit_problem(*limit).at(location, limit.to_string()),
        FaultKind::ComplexKey => Problem::error(Code::YamlKey, "a key must be a single value")
            .at(location, "a list or mapping as key"),
    }
}
