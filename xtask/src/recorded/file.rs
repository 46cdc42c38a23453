//! A recording as it lies on disk.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub(crate) struct Recording {
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) pve_version: String,
    pub(crate) exchanges: Vec<Exchange>,
}

#[derive(Deserialize)]
pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) query: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) form: BTreeMap<String, String>,
    /// Code and words: `200 OK`.
    status: String,
    /// The round trip in milliseconds.
    #[serde(default)]
    pub(crate) ms: f64,
    pub(crate) reply: Value,
}

impl Recording {
    #[expect(clippy::disallowed_methods, reason = "test data, not a description file")]
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut recording: Self = serde_json::from_slice(&bytes)
            .with_context(|| format!("{} has another shape", path.display()))?;
        recording.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(recording)
    }

    /// The cluster the recorded server is part of: a login tells.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.exchanges.iter().find_map(|exchange| exchange.reply["data"]["clustername"].as_str())
    }
}

impl Exchange {
    pub(crate) fn code(&self) -> u16 {
        self.status.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn reason(&self) -> &str {
        self.status.split_once(' ').map_or("", |(_, words)| words)
    }

    pub(crate) fn data(&self) -> &Value {
        &self.reply["data"]
    }

    /// Entries of the reply, if it is a list.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Value> {
        self.data().as_array().into_iter().flatten()
    }

    /// The host and the VM a path is about.
    pub(crate) fn vm(&self) -> Option<(&str, &str)> {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        match parts[..] {
            ["nodes", host, "qemu", vmid, ..] => Some((host, vmid)),
            _ => None,
        }
    }
}
