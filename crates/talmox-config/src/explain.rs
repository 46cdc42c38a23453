//! Where a value came from.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::NodeName;
use talmox_types::desired::{ConfigDelivery, DiskEncryption};

use crate::description::Description;
use crate::file::{CloudInit, Cluster, NodeBlock, Settings, show_drift};
use crate::layers::{Member, Rank};
use crate::read::{Block, KeyInfo, Shown, Value as _, show_map, suggest};
use crate::resolve::{Computed, cluster, node, vm};

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

/// Keys of the files that are not fields of a node: the node itself, and blocks that only carry settings.
const NOT_FIELDS: [&str; 7] = [
    "name",
    "nodes",
    "node_pools",
    "proxmox_vm_defaults",
    "proxmox_vm_controller_defaults",
    "proxmox_vm_worker_defaults",
    "proxmox_vm_advanced",
];

/// Every field of a node, by its first name, those of the node itself before those of the whole cluster.
pub fn fields() -> Vec<&'static str> {
    let settings = Settings::info();
    let own = NodeBlock::info().keys.iter().map(|key| key.name);
    let top = Cluster::info().keys.iter().map(|key| key.name).filter(|name| settings.key(name).is_none());
    own.chain(top).filter(|name| !NOT_FIELDS.contains(name)).collect()
}

/// Explains one field of a node; fields of the whole cluster are fields of each node too.
pub fn explain(
    description: &Description,
    member: &Member<'_>,
    field: &str,
) -> Result<Explanation, UnknownField> {
    let key = find(field)?.name;
    let mut candidates = if Settings::info().key(key).is_some() {
        from_layers(description, member, key)
    } else {
        from_blocks(description, member, key)
    };
    if let Some((over, value)) = overruled(description, member, key) {
        for candidate in &mut candidates {
            candidate.wins = false;
        }
        candidates.insert(0, over);
        return Ok(Explanation { field: key, value: Some(value), candidates });
    }
    if candidates.is_empty()
        && let Some(computed) = description.computed(key, member)
    {
        let candidates = vec![computed_candidate(&computed)];
        return Ok(Explanation { field: key, value: Some(computed.text), candidates });
    }
    let value = value(description, member, key);
    Ok(Explanation { field: key, value, candidates })
}

fn computed_candidate(computed: &Computed) -> Candidate {
    Candidate {
        place: "computed".to_owned(),
        text: format!("{} ({})", computed.text, computed.reason),
        rank: Rank::BuiltIn,
        wins: true,
    }
}

fn find(field: &str) -> Result<&'static KeyInfo, UnknownField> {
    let (node, cluster) = (NodeBlock::info(), Cluster::info());
    let known = node.key(field).or_else(|| cluster.key(field));
    if let Some(key) = known.filter(|key| !NOT_FIELDS.contains(&key.name)) {
        // A name that is an alias of a setting means that setting, wherever it is looked up.
        return Ok(node.key(key.name).unwrap_or(key));
    }
    let suggestion =
        suggest(field, node.names().chain(cluster.names()).filter(|name| !NOT_FIELDS.contains(name)));
    Err(UnknownField { field: field.to_owned(), suggestion })
}

/// Something else decides a field, whatever its own key says.
fn overruled(description: &Description, member: &Member<'_>, key: &str) -> Option<(Candidate, String)> {
    let computed = |text: &str, reason: &str| {
        let computed = Computed { text: text.to_owned(), reason: reason.to_owned() };
        Some((computed_candidate(&computed), computed.text))
    };
    match key {
        "tpm" => {
            let encrypted = member.value(|s| s.disk_encryption.as_ref()) == DiskEncryption::Tpm;
            let own = member.value(|s| s.tpm.as_ref());
            if encrypted && !own { computed("true", "disk_encryption: tpm brings it along") } else { None }
        }
        "disk" => {
            let disk = node::install_disk(member);
            let other = disk != member.value(|s| s.disk.as_ref()).0;
            if other { computed(&disk, "the first disk on disk_bus virtio") } else { None }
        }
        "boot" => {
            let decided = description.boot(member) != member.value(|s| s.boot.as_ref());
            if decided {
                computed("iso", "before Talos 1.14 only the ISO brings the keys of Secure Boot")
            } else {
                None
            }
        }
        "cloud_init" => {
            let delivery = description.top_default(|file| file.config_delivery.as_ref());
            let own = member.value(|s| s.cloud_init.as_ref());
            let why = match delivery {
                ConfigDelivery::Maintenance => None,
                ConfigDelivery::Cidata => Some("config_delivery: cidata brings a drive of its own"),
                ConfigDelivery::Url => Some("with config_delivery: url a machine reads no drive"),
            };
            why.filter(|_| own == CloudInit::On).and_then(|why| computed("off", why))
        }
        "mac_addr" | "mtu" | "network_bridge" | "node_vlan_tag" => first_device(description, member, key),
        _ => None,
    }
}

/// Slot 0 of `vm_networks` is the device these keys speak of.
fn first_device(description: &Description, member: &Member<'_>, key: &str) -> Option<(Candidate, String)> {
    let inner = match key {
        "mac_addr" => "mac",
        "network_bridge" => "bridge",
        "node_vlan_tag" => "vlan",
        other => other,
    };
    let (layer, networks) =
        member.layers.iter().rev().find_map(|layer| Some((layer, layer.settings.vm_networks.as_ref()?)))?;
    let first =
        networks.value.iter().find(|at| at.slot.as_ref().is_some_and(|slot| slot.value.to::<u8>() == 0))?;
    let shown = first.value.shown(inner)?;
    let place = description.sources.line_name(shown.location);
    let text = format!("vm_networks, slot 0, {inner}: {}", shown.text);
    Some((Candidate { place, text, rank: layer.rank, wins: true }, shown.text))
}

fn from_layers(description: &Description, member: &Member<'_>, key: &str) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = member
        .shown(key)
        .into_iter()
        .enumerate()
        .map(|(index, (layer, shown))| {
            let role = if layer.rank == Rank::BuiltIn && layer.prefix.contains("er_defaults") {
                format!(" ({})", member.role.word())
            } else {
                String::new()
            };
            candidate(description, &shown, layer.rank, layer.prefix, &role, index == 0)
        })
        .collect();
    match key {
        // Patches apply one after another: shown in that order, and all of them count.
        "patches" => {
            for candidate in &mut candidates {
                candidate.wins = true;
            }
            candidates.reverse();
        }
        "labels" => mark_contributors(&mut candidates, member, |s| s.labels.as_ref().map(|at| &at.value.0)),
        "annotations" => {
            mark_contributors(&mut candidates, member, |s| s.annotations.as_ref().map(|at| &at.value.0));
        }
        "drift" => mark_contributors(&mut candidates, member, |s| s.drift.as_ref().map(|at| &at.value.0)),
        _ => {}
    }
    candidates
}

/// Of maps that merge key by key, those count that have a key nobody nearer has.
fn mark_contributors<'d, V: 'd>(
    candidates: &mut [Candidate],
    member: &Member<'d>,
    get: impl Fn(&'d Settings) -> Option<&'d BTreeMap<String, V>>,
) {
    let mut nearer: BTreeSet<&str> = BTreeSet::new();
    let maps = member.layers.iter().rev().filter_map(|layer| get(layer.settings));
    for (candidate, map) in candidates.iter_mut().zip(maps) {
        let before = nearer.len();
        nearer.extend(map.keys().map(String::as_str));
        candidate.wins = nearer.len() > before;
    }
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
        // The keys of placement have defaults of their own, so both places count.
        .map(|(index, (rank, shown))| {
            candidate(description, &shown, rank, "", "", index == 0 || key == "placement")
        })
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
    match key {
        "labels" => {
            return Some(node::labels(member)).filter(|map| !map.is_empty()).map(|map| show_map(&map));
        }
        "annotations" => {
            return Some(node::annotations(member)).filter(|map| !map.is_empty()).map(|map| show_map(&map));
        }
        "drift" => return Some(vm::drift(member)).filter(|map| !map.is_empty()).map(|map| show_drift(&map)),
        "patches" => return all_patches(member),
        "placement" => {
            let policy = cluster::placement(description);
            return Some(format!(
                "{{reserve_memory: {}, cpu_overcommit: {}, storage_overcommit: {}}}",
                policy.reserve_memory, policy.cpu_overcommit, policy.storage_overcommit
            ));
        }
        _ => {}
    }
    let settings = member.shown(key).into_iter().next().map(|(_, shown)| shown);
    let node = member.node.and_then(|node| node.value.shown(key));
    let pool = member.pool.and_then(|pool| pool.value.shown(key));
    let file = description.cluster.file.shown(key);
    let built_in = description.built_in.file.shown(key);
    settings.or(node).or(pool).or(file).or(built_in).map(|shown| shown.text)
}

/// Every patch in the order they apply.
fn all_patches(member: &Member<'_>) -> Option<String> {
    let texts: Vec<String> = member
        .all(|s| s.patches.as_ref())
        .flat_map(|(_, at)| at.value.iter().map(|patch| patch.value.show()))
        .collect();
    (!texts.is_empty()).then(|| format!("[{}]", texts.join(", ")))
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
