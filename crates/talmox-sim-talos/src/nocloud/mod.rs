//! The nocloud platform: where a node's name, network and configuration come from before it has any of its own.

mod model;
mod v1;
mod v2;

use std::collections::BTreeMap;
use std::io::Read as _;

use talmox_machine::{Source, Value, read_values};

use crate::disk::Written;
use crate::hardware::{Content, DiskId, Drive, Hardware};

use model::Links;
pub(crate) use model::PlatformNetwork;

/// A bound for what is unpacked: no configuration is near it.
const LARGEST: u64 = 16 << 20;

/// The files of a seed, in the order they are fetched.
const FILES: [&str; 3] = ["meta-data", "network-config", "user-data"];

/// Where a machine with this serial number fetches its seed; ends with a slash.
fn source(serial: &str) -> Option<String> {
    let mut words = serial.split(';');
    let over_net = words.clone().any(|word| word == "ds=nocloud-net");
    let url = words.find_map(|word| word.strip_prefix("s=")).filter(|_| over_net)?;
    let is_web = url.starts_with("http://") || url.starts_with("https://");
    is_web.then(|| if url.ends_with('/') { url.to_owned() } else { format!("{url}/") })
}

/// The files a machine with this serial number fetches before it knows its configuration.
pub(crate) fn wanted(serial: &str) -> Vec<String> {
    let base = source(serial);
    base.map(|base| FILES.map(|name| format!("{base}{name}")).to_vec()).unwrap_or_default()
}

/// The files of a seed, whichever way they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seed {
    pub(crate) user_data: Option<Vec<u8>>,
    pub(crate) meta_data: Option<Vec<u8>>,
    pub(crate) network_config: Option<Vec<u8>>,
    /// `h=` and `i=` of the SMBIOS serial number.
    hostname: Option<String>,
    instance: Option<String>,
    /// Over HTTP a file that is empty is as good as none.
    over_http: bool,
}

impl Seed {
    /// What the serial number and the drives of a machine offer.
    pub(crate) fn of(
        hardware: &Hardware,
        disks: &BTreeMap<DiskId, Written>,
        sites: &BTreeMap<String, Vec<u8>>,
    ) -> Self {
        let word =
            |key: &str| hardware.serial.split(';').find_map(|part| part.strip_prefix(key)).map(str::to_owned);
        let (hostname, instance) = (word("h="), word("i="));
        let seed = match source(&hardware.serial) {
            Some(base) => Self::over_http(&base, sites),
            None => Self::on_drive(hardware, disks),
        };
        Self { hostname, instance, ..seed }
    }

    fn over_http(base: &str, sites: &BTreeMap<String, Vec<u8>>) -> Self {
        let file = |name: &str| sites.get(&format!("{base}{name}")).filter(|file| !file.is_empty()).cloned();
        Self {
            user_data: file("user-data"),
            meta_data: file("meta-data"),
            network_config: file("network-config"),
            over_http: true,
            ..Self::default()
        }
    }

    fn on_drive(hardware: &Hardware, disks: &BTreeMap<DiskId, Written>) -> Self {
        let files = hardware.drives.iter().find_map(|drive| match drive {
            Drive::Cd(Content::Cidata(files)) => Some(files),
            Drive::Cd(_) => None,
            Drive::Disk(disk) => match disks.get(&disk.id).map(|written| &written.other) {
                Some(Content::Cidata(files)) => Some(files),
                _ => None,
            },
        });
        let file = |name: &str| files.and_then(|files| files.get(name)).cloned();
        Self {
            user_data: file("user-data"),
            meta_data: file("meta-data"),
            network_config: file("network-config"),
            ..Self::default()
        }
    }

    /// The machine configuration it holds, if it holds one; or why what it holds cannot be used.
    pub(crate) fn config(&self, sites: &BTreeMap<String, Vec<u8>>) -> Result<Option<String>, String> {
        let Some(raw) = &self.user_data else { return Ok(None) };
        if raw.is_empty() && !self.over_http {
            return Err("user-data is empty".to_owned());
        }
        let text = unpacked(raw)?;
        match text.lines().next().map(str::trim) {
            Some("#cloud-config") => Ok(None),
            Some("#include") => included(&text, sites).map(Some),
            _ => Ok(Some(text)),
        }
    }

    /// Name and network. Without a network configuration the name is dropped too.
    pub(crate) fn network(&self, hardware: &Hardware) -> PlatformNetwork {
        let links = Links::of(hardware);
        self.network_with(&links).unwrap_or_default()
    }

    fn network_with(&self, links: &Links) -> Result<PlatformNetwork, String> {
        let Some(raw) = &self.network_config else { return Ok(PlatformNetwork::default()) };
        let mut network = read_network(raw, links)?;
        let meta = self.meta();
        let name = self
            .hostname
            .clone()
            .or_else(|| ["hostname", "local-hostname"].into_iter().find_map(|key| text(meta.as_ref(), key)));
        network.hostname = name.or_else(|| self.user_data_name()).filter(|name| !name.is_empty());
        network.instance = self.instance.clone().or_else(|| text(meta.as_ref(), "instance-id"));
        network.region = text(meta.as_ref(), "region");
        network.zone = text(meta.as_ref(), "zone");
        network.instance_type = text(meta.as_ref(), "instance-type");
        network.provider = text(meta.as_ref(), "provider-id");
        Ok(network)
    }

    fn meta(&self) -> Option<Value> {
        first_value(self.meta_data.as_deref()?)
    }

    /// This is how Proxmox' own `#cloud-config` names a node.
    fn user_data_name(&self) -> Option<String> {
        let value = first_value(self.user_data.as_deref()?)?;
        ["hostname", "local-hostname"].into_iter().find_map(|key| text(Some(&value), key))
    }
}

fn text(value: Option<&Value>, key: &str) -> Option<String> {
    match value?.at(&[key])? {
        Value::Text(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Octal(_) | Value::Float(_) | Value::List(_) | Value::Map(_) => {
            None
        }
    }
}

fn first_value(raw: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(raw).ok()?;
    read_values(Source { name: "seed", text }).ok()?.into_iter().next()
}

/// `network-config`, bare or wrapped.
fn read_network(raw: &[u8], links: &Links) -> Result<PlatformNetwork, String> {
    let value = first_value(raw).ok_or("network-config is not YAML")?;
    let inner = value.at(&["network"]).unwrap_or(&value);
    match inner.at(&["version"]).and_then(Value::as_integer) {
        Some(1) => Ok(v1::read(inner, links)),
        Some(2) => Ok(v2::read(inner, links)),
        _ => Err("network-config metadata version is not supported".to_owned()),
    }
}

/// The text of a file that may be compressed.
fn unpacked(raw: &[u8]) -> Result<String, String> {
    let plain = if raw.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(raw).take(LARGEST);
        decoder.read_to_end(&mut plain).map_err(|error| format!("user-data cannot be unpacked: {error}"))?;
        plain
    } else {
        raw.to_vec()
    };
    String::from_utf8(plain).map_err(|_| "user-data is not text".to_owned())
}

/// Exactly one URL below `#include`.
fn included(text: &str, sites: &BTreeMap<String, Vec<u8>>) -> Result<String, String> {
    let urls: Vec<&str> = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()).collect();
    let [url] = urls.as_slice() else { return Err("#include wants exactly one URL".to_owned()) };
    let raw =
        sites.get(*url).ok_or_else(|| format!("failed to download config from {url}: 404 Not Found"))?;
    unpacked(raw)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::shared_data;
