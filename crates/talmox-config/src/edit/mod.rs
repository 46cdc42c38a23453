//! Writing into a description: values of single nodes, each set at its place. Comments, order and everything else that
//! people wrote stay byte for byte.

mod text;
mod yaml;

pub use yaml::Yaml;

use talmox_types::NodeName;
use talmox_types::desired::Role;
use talmox_yaml::{Entry, Node, NodeKind};

use crate::description::Description;
use crate::file::{NetworkBlock, NodeBlock};
use crate::read::{At, Block as _};
use crate::source::SourceId;
use text::{Draft, InTheWay, Patch};

/// What is to be written for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A key and its value.
    Value { key: &'static str, value: Yaml },
    /// Some keys of a mapping, whose others stay.
    Entries { key: &'static str, entries: Vec<(String, Yaml)> },
    /// Elements of a list that are known by their slot. Where the node has the list already only keys in `changed` are
    /// written, and elements it lacks; else the whole list.
    Items { key: &'static str, items: Vec<Item> },
}

/// An element of a list, known by its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub slot: u8,
    /// Everything but the slot.
    pub entries: Vec<(&'static str, Yaml)>,
    pub changed: Vec<&'static str>,
}

impl Item {
    fn print(&self) -> Yaml {
        let slot = ("slot".to_owned(), Yaml::Integer(i64::from(self.slot)));
        let others = self.entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        Yaml::Map(std::iter::once(slot).chain(others).collect())
    }
}

impl Setting {
    /// A key and its value, if that is all.
    fn plain(&self) -> Option<(&'static str, &Yaml)> {
        match self {
            Self::Value { key, value } => Some((key, value)),
            Self::Entries { .. } | Self::Items { .. } => None,
        }
    }

    pub fn key(&self) -> &'static str {
        match self {
            Self::Value { key, .. } | Self::Entries { key, .. } | Self::Items { key, .. } => key,
        }
    }
}

/// Why a description cannot be edited by us.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("{node} is one of the pool {pool}, whose members have no settings of their own")]
    PoolMember { node: NodeName, pool: String },
    #[error("the description has no node {node}")]
    NoNode { node: NodeName },
    #[error("{key} of {node} cannot be written into {file}: {reason}")]
    InTheWay { node: NodeName, key: &'static str, file: String, reason: &'static str },
    #[error("{node} cannot be added to {file}: {reason}")]
    NotAdded { node: NodeName, file: String, reason: &'static str },
}

/// Keys of the first network device that a list of devices decides for a node, wherever that list stands.
pub fn first_device_keys(description: &Description, node: &NodeName) -> Vec<&'static str> {
    let Ok(member) = description.member(node.as_str()) else { return Vec::new() };
    let listed = member.pick(|settings| settings.vm_networks.as_ref());
    let is_first =
        |device: &&At<NetworkBlock>| device.slot.as_ref().is_some_and(|slot| slot.value.to::<u8>() == 0);
    let Some(first) = listed.and_then(|list| list.value.iter().find(is_first)) else { return Vec::new() };
    let keys = [
        ("bridge", first.bridge.is_some()),
        ("vlan", first.vlan.is_some()),
        ("mtu", first.mtu.is_some()),
        ("mac", first.mac.is_some()),
        ("firewall", first.firewall.is_some()),
    ];
    keys.into_iter().filter(|(_, there)| *there).map(|(key, _)| key).collect()
}

/// The text of a file after an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    pub source: SourceId,
    pub text: String,
}

/// The file of a node with settings written into it. None: there is nothing to write.
pub fn edit(
    description: &Description,
    node: &NodeName,
    settings: &[Setting],
) -> Result<Option<Edited>, EditError> {
    if settings.is_empty() {
        return Ok(None);
    }
    let no_node = || EditError::NoNode { node: node.clone() };
    let member = description.member(node.as_str()).map_err(|_| no_node())?;
    let Some(block) = member.node else {
        let pool = member.pool.and_then(|pool| pool.name.as_ref()).map(|at| at.value.to_string());
        return Err(EditError::PoolMember { node: node.clone(), pool: pool.unwrap_or_default() });
    };
    let source = block.location.source;
    let file = &description.sources.get(source).name;
    let mut text = description.sources.get(source).text.clone();
    let failed = |key: &'static str, InTheWay(reason): InTheWay| EditError::InTheWay {
        node: node.clone(),
        key,
        file: file.clone(),
        reason,
    };
    // Plain values all at once: parsing a file of many nodes for each of them would take its time.
    let values: Vec<(&'static str, &Yaml)> = settings.iter().filter_map(Setting::plain).collect();
    text = set_all(&text, node, &values).map_err(|(key, reason)| failed(key, reason))?;
    for setting in settings.iter().filter(|setting| setting.plain().is_none()) {
        text = write(&text, node, setting).map_err(|reason| failed(setting.key(), reason))?;
    }
    Ok(Some(Edited { source, text }))
}

/// A node to be added.
#[derive(Clone, Debug)]
pub struct NewNode {
    pub name: NodeName,
    pub role: Role,
    /// As it is written: one address, or two of both families.
    pub address: Yaml,
}

/// The file of the nodes with another one at the end of its list.
pub fn append_node(description: &Description, new: &NewNode) -> Result<Edited, EditError> {
    let not_added =
        |file: &str, reason| EditError::NotAdded { node: new.name.clone(), file: file.to_owned(), reason };
    let places = description.nodes.first().map(|node| node.location);
    let places = places.or_else(|| description.pools.first().map(|pool| pool.location));
    let source = places
        .map(|location| location.source)
        .ok_or_else(|| not_added("the description", "there are no nodes"))?;
    let file = description.sources.get(source);
    let mut entries =
        vec![("name".to_owned(), Yaml::text(&new.name)), ("address".to_owned(), new.address.clone())];
    if new.role == Role::Controller {
        entries.push(("controller".to_owned(), Yaml::Bool(true)));
    }
    let lines: Vec<String> = entries.iter().map(|(key, value)| format!("{key}: {}", value.print())).collect();
    let (element, block) = (Yaml::Map(entries).print(), lines.join("\n"));
    let parsed = talmox_yaml::parse(&file.text);
    let root = parsed.documents.first().ok_or_else(|| not_added(&file.name, "it is empty"))?;
    let Some(list) = value_of(root, "nodes") else {
        let newline = if file.text.ends_with('\n') { "" } else { "\n" };
        let below = block.replace('\n', "\n    ");
        return Ok(Edited { source, text: format!("{}{newline}nodes:\n  - {below}\n", file.text) });
    };
    let patch = Draft::new(&file.text).append(list, &element, &block);
    let patch = patch.map_err(|InTheWay(reason)| not_added(&file.name, reason))?;
    Ok(Edited { source, text: patch.apply(&file.text) })
}

fn write(text: &str, node: &NodeName, setting: &Setting) -> Result<String, InTheWay> {
    match setting {
        Setting::Value { key, value } => set_all(text, node, &[(key, value)]).map_err(|(_, reason)| reason),
        Setting::Entries { key, entries } => {
            let mut text = text.to_owned();
            for (entry, value) in entries {
                text = set_entry(&text, node, key, entry, value)?;
            }
            Ok(text)
        }
        Setting::Items { key, items } => {
            let has_own = in_node(text, node, |mapping| Ok(value_of(mapping, key).is_some()))?;
            if !has_own {
                let list = Yaml::List(items.iter().map(Item::print).collect());
                return set_all(text, node, &[(key, &list)]).map_err(|(_, reason)| reason);
            }
            let mut text = text.to_owned();
            for item in items {
                text = set_item(&text, node, key, item)?;
            }
            Ok(text)
        }
    }
}

/// Sets keys of a node.
fn set_all(
    text: &str,
    node: &NodeName,
    values: &[(&'static str, &Yaml)],
) -> Result<String, (&'static str, InTheWay)> {
    let Some((first, _)) = values.first() else { return Ok(text.to_owned()) };
    let draft = Draft::new(text);
    let patches = in_node(text, node, |mapping| {
        let patch = |(key, value): &(&'static str, &Yaml)| {
            let patch = draft.set(mapping, &names_of(key), &value.print());
            patch.map_err(|reason| (*key, reason))
        };
        Ok(values.iter().map(patch).collect::<Result<Vec<Patch>, _>>())
    });
    Ok(Patch::apply_all(patches.map_err(|reason| (*first, reason))??, text))
}

/// Every name a key may be written under, the first one first.
fn names_of(key: &'static str) -> Vec<&'static str> {
    let aliases = NodeBlock::info().key(key).map(|info| info.aliases.clone()).unwrap_or_default();
    std::iter::once(key).chain(aliases).collect()
}

fn set_entry(
    text: &str,
    node: &NodeName,
    key: &'static str,
    entry: &str,
    value: &Yaml,
) -> Result<String, InTheWay> {
    let patch = in_node(text, node, |mapping| match value_of(mapping, key) {
        Some(inner) if matches!(&inner.kind, NodeKind::Mapping(entries) if !entries.is_empty()) => {
            free(inner)?;
            Draft::new(text).set(inner, &names_of_entry(entry), &value.print())
        }
        _ => {
            let whole = Yaml::Map(vec![(entry.to_owned(), value.clone())]);
            Draft::new(text).set(mapping, &[key], &whole.print())
        }
    })?;
    Ok(patch.apply(text))
}

fn names_of_entry(entry: &str) -> [&str; 1] {
    [entry]
}

fn set_item(text: &str, node: &NodeName, key: &'static str, item: &Item) -> Result<String, InTheWay> {
    let mut text = text.to_owned();
    let there = in_node(&text, node, |mapping| Ok(element(mapping, key, item.slot).is_some()))?;
    if !there {
        let patch = in_node(&text, node, |mapping| {
            let list = value_of(mapping, key).ok_or(InTheWay("it is gone"))?;
            free(list)?;
            let printed = item.print().print();
            Draft::new(&text).append(list, &printed, &printed)
        })?;
        return Ok(patch.apply(&text));
    }
    for (name, value) in item.entries.iter().filter(|(name, _)| item.changed.contains(name)) {
        let patch: Patch = in_node(&text, node, |mapping| {
            let element = element(mapping, key, item.slot).ok_or(InTheWay("it is gone"))?;
            free(element)?;
            Draft::new(&text).set(element, &[name], &value.print())
        })?;
        text = patch.apply(&text);
    }
    Ok(text)
}

/// Looks at the mapping of a node.
fn in_node<T>(
    text: &str,
    node: &NodeName,
    look: impl FnOnce(&Node) -> Result<T, InTheWay>,
) -> Result<T, InTheWay> {
    let parsed = talmox_yaml::parse(text);
    let list = parsed.documents.first().and_then(|root| value_of(root, "nodes"));
    let Some(Node { kind: NodeKind::Sequence(items), alias, .. }) = list else {
        return Err(InTheWay("the list of nodes was not found"));
    };
    let named = |item: &&Node| {
        let name = value_of(item, "name").and_then(Node::as_scalar);
        name.is_some_and(|name| name.text == node.as_str())
    };
    let item = items.iter().find(named).ok_or(InTheWay("the node was not found"))?;
    if alias.is_some() {
        return Err(InTheWay("the nodes are written by an alias"));
    }
    free(item)?;
    look(item)
}

/// What an alias stands for is written elsewhere, and perhaps for others too.
fn free(node: &Node) -> Result<(), InTheWay> {
    if node.alias.is_some() { Err(InTheWay("it is written by an alias")) } else { Ok(()) }
}

/// The value of a key that stands in the mapping itself, not in one it merges.
fn value_of<'n>(mapping: &'n Node, key: &str) -> Option<&'n Node> {
    let NodeKind::Mapping(entries) = &mapping.kind else { return None };
    let named = |entry: &&Entry| entry.key.as_scalar().is_some_and(|name| name.text == key);
    entries.iter().find(named).map(|entry| &entry.value)
}

fn element<'n>(mapping: &'n Node, key: &str, slot: u8) -> Option<&'n Node> {
    let Some(Node { kind: NodeKind::Sequence(items), .. }) = value_of(mapping, key) else { return None };
    let held = |item: &&Node| {
        let written = value_of(item, "slot").and_then(Node::as_scalar);
        written.is_some_and(|written| written.text == slot.to_string())
    };
    items.iter().find(held)
}
