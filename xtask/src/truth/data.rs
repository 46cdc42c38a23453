//! The recorded pairs and the worlds they start from.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pair {
    pub(crate) group: String,
    #[serde(default)]
    pub(crate) note: String,
    pub(crate) request: Asked,
    pub(crate) response: Answered,
    pub(crate) environment_artifact: Option<Value>,
    pub(crate) seconds_after_create: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Asked {
    pub(crate) auth: String,
    pub(crate) encoding: String,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) path: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Answered {
    pub(crate) body: Value,
    pub(crate) content_type: Option<String>,
    pub(crate) reason: String,
    pub(crate) status: u16,
}

impl Pair {
    /// The UPID the reply hands out.
    pub(crate) fn new_task(&self) -> Option<&str> {
        self.response.body.get("data").and_then(Value::as_str).filter(|text| text.starts_with("UPID:"))
    }

    pub(crate) fn param(&self, name: &str) -> Option<String> {
        let value = self.request.params.get(name).filter(|value| !value.is_null())?;
        Some(super::setup::text(value))
    }

    /// Path parts after the format: `nodes`, `pve1`, …
    pub(crate) fn parts(&self) -> Vec<&str> {
        self.request.path.split('/').filter(|part| !part.is_empty()).skip(2).collect()
    }

    /// The VM a path under `/nodes/{node}/qemu/{vmid}` is about.
    pub(crate) fn vm(&self) -> Option<u32> {
        match self.parts()[..] {
            ["nodes", _, "qemu", vmid, ..] => vmid.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn host(&self) -> Option<&str> {
        match self.parts()[..] {
            ["nodes", host, ..] => Some(host),
            _ => None,
        }
    }

    /// The id a create or clone asks for.
    pub(crate) fn claims(&self) -> Option<u32> {
        if self.request.method != "POST" {
            return None;
        }
        match self.parts()[..] {
            ["nodes", _, "qemu"] => self.param("vmid")?.parse().ok(),
            ["nodes", _, "qemu", _, "clone"] => self.param("newid")?.parse().ok(),
            _ => None,
        }
    }

    /// Pairs of one batch were sent at once.
    pub(crate) fn is_parallel(&self) -> bool {
        let count = self.note.split(' ').next().and_then(|word| word.parse::<u32>().ok());
        count.is_some() && self.note.split(' ').nth(1) == Some("parallel")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Worlds {
    pub(crate) common: Value,
    pub(crate) chains: Vec<Chain>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Chain {
    pub(crate) groups: Vec<String>,
    #[serde(default)]
    pub(crate) hosts: Vec<Host>,
    #[serde(default)]
    pub(crate) cluster: Option<Value>,
    #[serde(default)]
    pub(crate) storages: Vec<Value>,
    #[serde(default)]
    pub(crate) pools: Vec<Value>,
    #[serde(default)]
    pub(crate) vms_made_outside_the_recording: Vec<OutsideVm>,
    #[serde(default)]
    pub(crate) uploads: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) like: Option<String>,
    /// Web servers and whatever else a chain describes.
    #[serde(flatten)]
    pub(crate) more: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) ip: String,
    #[serde(default)]
    pub(crate) nodeid: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct OutsideVm {
    pub(crate) vmid: u32,
    pub(crate) before_pair: usize,
    #[serde(default)]
    pub(crate) node: Option<String>,
    #[serde(default)]
    pub(crate) running: bool,
    #[serde(default)]
    pub(crate) template: bool,
    #[serde(default)]
    pub(crate) config: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) note: String,
}

impl Worlds {
    /// The chain a group belongs to, with what it inherits filled in.
    pub(crate) fn chain_of(&self, group: &str) -> Option<(usize, Chain)> {
        let index = self.chains.iter().position(|chain| chain.groups.iter().any(|own| own == group))?;
        let chain = self.chains[index].clone();
        let Some(model) = chain.like.as_deref().and_then(|like| self.chain_of(like)) else {
            return Some((index, chain));
        };
        let filled = Chain {
            groups: chain.groups,
            vms_made_outside_the_recording: chain.vms_made_outside_the_recording,
            pools: chain.pools,
            ..model.1
        };
        Some((index, filled))
    }
}

/// Reads the pairs: a list, or an object that may name its worlds too.
pub(crate) fn read(transcripts: &Path, worlds: Option<&Path>) -> anyhow::Result<(Value, Value)> {
    let whole = read_json(transcripts)?;
    let beside = transcripts.with_file_name("pve-worlds.json");
    let named = whole.get("worlds").cloned();
    let pairs = whole.get("pairs").or_else(|| whole.get("transcripts")).unwrap_or(&whole).clone();
    let worlds = match (worlds, named) {
        (Some(file), _) => read_json(file)?,
        (None, Some(Value::String(name))) => read_json(&transcripts.with_file_name(name))?,
        (None, Some(inline)) => inline,
        (None, None) => read_json(&beside)?,
    };
    Ok((pairs, worlds))
}

pub(crate) fn parse(pairs: Value, worlds: Value) -> anyhow::Result<(Vec<Pair>, Worlds)> {
    let pairs = serde_json::from_value(pairs).context("the pairs have another shape")?;
    Ok((pairs, serde_json::from_value(worlds).context("the worlds have another shape")?))
}

#[expect(clippy::disallowed_methods, reason = "test data, not a description file")]
fn read_json(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))
}
