//! Where a value came from.

use talmox_types::NodeName;

use crate::description::Description;
use crate::file::{Cluster, NodeBlock, Settings};
use crate::layers::{Member, Rank};
use crate::read::{Block, KeyInfo, Shown, suggest};

/// The value of a field, and every place that had something to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The field's first name.
    pub field: &'static str,
    /// `None`: nothing sets it, which is allowed.
    pub value: Option<String>,
    /// The winner first; for merged maps and lists that add up, the nearest first.
    pub candidates: Vec<Candidate>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// `nodes.yaml:22`, `built in`, or `computed`.
    pub place: String,
    /// As written: `vm_memory: 24576`.
    pub text: String,
    pub rank: Rank,
    pub wins: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no field {field}")]
pub struct UnknownField {
    pub field: String,
    pub suggestion: Option<&'static str>,
}

/// Settings whose places add up instead of beating each other.
const ADDED_UP: [&str; 3] = ["labels", "annotations", "patches"];

/// Every field of a node, by its first name, those of the node itself before those of the whole cluster.
pub fn fields() -> Vec<&'static str> {
    let skipped = [
        "nodes",
        "node_pools",
        "proxmox_vm_defaults",
        "proxmox_vm_controller_defaults",
        "proxmox_vm_worker_defaults",
        "proxmox_vm_advanced",
        "name",
    ];
    let own: Vec<&'static str> = NodeBlock::info().keys.iter().map(|key| key.name).collect();
    let settings = Settings::info();
    let cluster = Cluster::info();
    let top = cluster.keys.iter().map(|key| key.name).filter(|name| settings.key(name).is_none());
    own.iter().copied().chain(top).filter(|name| !skipped.contains(name)).collect()
}

/// Explains one field of a node; fields of the whole cluster are fields of each node too.
pub fn explain(
    description: &Description,
    member: &Member<'_>,
    field: &str,
) -> Result<Explanation, UnknownField> {
    let key = find(field)?;
    let candidates = if Settings::info().key(key.name).is_some() {
        from_layers(description, member, key.name)
    } else {
        from_blocks(description, member, key.name)
    };
    let mut explanation = Explanation { field: key.name, value: None, candidates };
    if explanation.candidates.is_empty()
        && let Some(computed) = description.computed(key.name, &description.members(), member)
    {
        explanation.candidates.push(Candidate {
            place: "computed".to_owned(),
            text: format!("{} ({})", computed.text, computed.reason),
            rank: Rank::BuiltIn,
            wins: true,
        });
        explanation.value = Some(computed.text);
        return Ok(explanation);
    }
    explanation.value = value(description, member, key.name);
    Ok(explanation)
}

fn find(field: &str) -> Result<&'static KeyInfo, UnknownField> {
    let (node, cluster) = (NodeBlock::info(), Cluster::info());
    if let Some(key) = node.key(field).or_else(|| cluster.key(field)) {
        // A name that is an alias of a setting means that setting, wherever it is looked up.
        return Ok(node.key(key.name).unwrap_or(key));
    }
    let suggestion = suggest(field, node.names().chain(cluster.names()));
    Err(UnknownField { field: field.to_owned(), suggestion })
}

fn from_layers(description: &Description, member: &Member<'_>, key: &str) -> Vec<Candidate> {
    let shown = member.shown(key);
    let adds_up = ADDED_UP.contains(&key);
    shown
        .into_iter()
        .enumerate()
        .map(|(index, (layer, shown))| {
            let role = if layer.rank == Rank::BuiltIn && layer.prefix.contains("er_defaults") {
                format!(" ({})", member.role.word())
            } else {
                String::new()
            };
            candidate(description, &shown, layer.rank, layer.prefix, &role, index == 0 || adds_up)
        })
        .collect()
}

/// Keys of a node itself, then of the cluster file, then of the built-in one.
fn from_blocks(description: &Description, member: &Member<'_>, key: &str) -> Vec<Candidate> {
    let node = member.node.and_then(|node| node.value.shown(key)).map(|shown| (Rank::Node, shown));
    let pool = member.pool.and_then(|pool| pool.value.shown(key)).map(|shown| (Rank::Pool, shown));
    let file = description.cluster.file.shown(key).map(|shown| (Rank::Cluster, shown));
    let built_in = description.built_in.file.shown(key).map(|shown| (Rank::BuiltIn, shown));
    [node, pool, file, built_in]
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(index, (rank, shown))| candidate(description, &shown, rank, "", "", index == 0))
        .collect()
}

fn candidate(
    description: &Description,
    shown: &Shown,
    rank: Rank,
    prefix: &str,
    suffix: &str,
    wins: bool,
) -> Candidate {
    let text = match rank {
        Rank::BuiltIn => format!("{}{suffix}", shown.text),
        Rank::Pool => format!("{}: {}", shown.key, shown.text),
        Rank::Cluster | Rank::Role | Rank::Node => format!("{prefix}{}: {}", shown.key, shown.text),
    };
    Candidate { place: description.sources.line_name(shown.location), text, rank, wins }
}

fn value(description: &Description, member: &Member<'_>, key: &str) -> Option<String> {
    if ADDED_UP.contains(&key) {
        return added_up(member, key);
    }
    let settings = member.shown(key).into_iter().next().map(|(_, shown)| shown);
    let node = member.node.and_then(|node| node.value.shown(key));
    let pool = member.pool.and_then(|pool| pool.value.shown(key));
    let file = description.cluster.file.shown(key);
    let built_in = description.built_in.file.shown(key);
    settings.or(node).or(pool).or(file).or(built_in).map(|shown| shown.text)
}

fn added_up(member: &Member<'_>, key: &str) -> Option<String> {
    let texts: Vec<String> = member.shown(key).into_iter().map(|(_, shown)| shown.text).collect();
    (!texts.is_empty()).then(|| texts.join(" + "))
}

impl Description {
    /// The node of a name, or the closest name there is.
    pub fn member(&self, name: &str) -> Result<Member<'_>, Option<NodeName>> {
        let members = self.members();
        let names: Vec<String> = members.iter().map(|member| member.name.to_string()).collect();
        let closest =
            suggest(name, names.iter().map(String::as_str)).and_then(|close| NodeName::parse(close).ok());
        members.into_iter().find(|member| member.name.as_str() == name).ok_or(closest)
    }
}
