//! A simulated Image Factory: schematics in, images out.
//!
//! It keeps no bytes: an image is made anew whenever it is asked for, always the same from schematic, version and name.
//! The hosts of the simulated Proxmox reach it without a network ([`Factory::fetch`]); a server around it speaks HTTP.

mod catalogue;
pub(crate) mod identity;
mod images;
mod pack;
mod schematic;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::contents::TalosImage;
use crate::files::FileFacts;

/// The public factory's name: inside a simulation there is no other.
pub const PUBLIC: &str = "factory.talos.dev";

/// The schematic of images without changes, which a factory knows from the beginning.
const EMPTY: &str = "customization: {}\n";

const PLATFORMS: [&str; 18] = [
    "akamai",
    "aws",
    "azure",
    "cloudstack",
    "digital-ocean",
    "equinixMetal",
    "exoscale",
    "gcp",
    "hcloud",
    "metal",
    "nocloud",
    "opennebula",
    "openstack",
    "oracle",
    "scaleway",
    "upcloud",
    "vmware",
    "vultr",
];

/// A factory, and what is wrong with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Factory {
    /// Canonical texts by id. Only these have images.
    schematics: BTreeMap<String, String>,
    /// `host:port` under which the simulated hosts find it.
    authorities: BTreeSet<String>,
    #[serde(default)]
    pub trouble: Trouble,
}

/// What is wrong with a factory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Nobody answers.
    pub dead: bool,
    /// Every answer comes so many milliseconds later.
    pub slow: u64,
    /// Images break off after so many bytes.
    pub cut: Option<u64>,
    /// Versions it lists, and has nothing of: `v1.13.9`.
    pub missing: BTreeSet<String>,
}

/// A request to the factory.
#[derive(Clone, Debug, Default)]
pub struct FactoryRequest {
    pub method: String,
    /// `Host` of the request.
    pub authority: String,
    /// Path and query.
    pub target: String,
    pub body: Vec<u8>,
}

/// What the factory answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactoryReply {
    pub status: u16,
    pub content_type: &'static str,
    pub location: Option<String>,
    pub body: Vec<u8>,
    /// The body is said to be this long; it is what a `HEAD` tells without one.
    pub length: u64,
    /// Milliseconds until it answers.
    pub delay: u64,
    /// The body breaks off after so many bytes.
    pub cut: Option<u64>,
}

impl FactoryReply {
    fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        let length = body.len() as u64;
        Self { status, content_type, location: None, body, length, delay: 0, cut: None }
    }

    fn text(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n").into_bytes())
    }

    fn json(status: u16, value: &serde_json::Value) -> Self {
        Self::new(status, "application/json", format!("{value}\n").into_bytes())
    }
}

/// What a simulated host gets from a URL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fetched {
    /// The file, where it was redirected to, and how late it begins.
    File { file: FileFacts, location: Option<String>, delay: u64 },
    /// It broke off: bytes that came, and bytes there are.
    Cut { came: u64, size: u64 },
    /// An error, with its status.
    Refused { status: u16 },
    /// Nobody answers.
    Dead,
}

impl Default for Factory {
    fn default() -> Self {
        let mut factory = Self {
            schematics: BTreeMap::new(),
            authorities: BTreeSet::from([PUBLIC.to_owned()]),
            trouble: Trouble::default(),
        };
        if let Ok(empty) = schematic::accept(EMPTY) {
            factory.schematics.insert(empty.id, empty.text);
        }
        factory
    }
}

impl Factory {
    /// Says where it listens, in place of where it listened before.
    pub fn listen_on(&mut self, authority: &str) {
        self.authorities.retain(|known| !known.starts_with("127.0.0.1:"));
        self.authorities.insert(authority.to_owned());
    }

    /// Lets the simulated hosts find it under another name too.
    pub fn answer_to(&mut self, authority: &str) {
        self.authorities.insert(authority.to_owned());
    }

    /// The system extensions in images of a schematic; none of one nobody registered.
    pub(crate) fn extensions(&self, id: &str) -> Vec<String> {
        self.schematics.get(id).map(|text| schematic::extensions(text)).unwrap_or_default()
    }

    /// How many schematics were registered. None is ever forgotten.
    pub fn count(&self) -> usize {
        self.schematics.len()
    }

    /// The system extensions of every schematic, by id.
    pub fn schematics(&self) -> BTreeMap<String, Vec<String>> {
        self.schematics.iter().map(|(id, text)| (id.clone(), schematic::extensions(text))).collect()
    }

    /// What is inside a packed image behind a URL of this factory.
    pub(crate) fn inside(&self, url: &str) -> Option<TalosImage> {
        let (_, path) = url.split_once("://")?.1.split_once('/')?;
        let parts: Vec<&str> = path.split('?').next()?.split('/').collect();
        let ["image", id, version, name] = parts.as_slice() else { return None };
        let plain = PACKED.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        identity::find(&self.make(id, version, plain).ok()?)
    }

    /// Whether a schematic was registered.
    pub fn knows(&self, id: &str) -> bool {
        self.schematics.contains_key(id)
    }

    /// Answers a request; none if it is dead.
    pub fn handle(&mut self, request: &FactoryRequest) -> Option<FactoryReply> {
        if self.trouble.dead {
            return None;
        }
        let mut reply = self.answer(request);
        reply.delay = self.trouble.slow;
        if request.method == "HEAD" {
            reply.body = Vec::new();
        }
        Some(reply)
    }

    fn answer(&mut self, request: &FactoryRequest) -> FactoryReply {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (request.method.as_str(), parts.as_slice()) {
            ("POST", ["schematics"]) => self.register(&request.body),
            ("GET", ["schematics", id]) => match self.schematics.get(*id) {
                Some(text) => FactoryReply::new(200, "application/yaml", text.clone().into_bytes()),
                None => FactoryReply::text(404, &format!("schematic {id:?} not found")),
            },
            ("GET", ["versions"]) => {
                let broken = query.split('&').any(|pair| pair == "broken=true");
                let versions = if broken { Vec::new() } else { catalogue::versions() };
                FactoryReply::json(200, &versions.into())
            }
            ("GET", ["version", version, what @ ("extensions" | "overlays"), "official"]) => {
                if !self.has_version(version) {
                    return FactoryReply::text(404, &format!("version {version} is not available"));
                }
                let extensions = *what == "extensions";
                let list =
                    if extensions { catalogue::extensions(version) } else { catalogue::overlays(version) };
                FactoryReply::json(200, &list)
            }
            ("GET" | "HEAD", ["image", id, version, name]) => {
                let reply = self.image(id, version, name);
                // A GET is sent to where the file is kept; a HEAD is answered at once.
                if request.method == "GET" && reply.status == 200 && is_kept_elsewhere(name) {
                    let location = format!("/kept/{id}/{version}/{name}");
                    return FactoryReply {
                        location: Some(location),
                        ..FactoryReply::new(302, "text/html", Vec::new())
                    };
                }
                reply
            }
            ("GET" | "HEAD", ["kept", id, version, name]) => self.image(id, version, name),
            ("GET", ["pxe", id, version, name]) => self.script(id, version, name, &request.authority),
            ("GET" | "HEAD", ["healthz"]) => FactoryReply::text(200, "OK"),
            _ => FactoryReply::text(404, "404 page not found"),
        }
    }

    fn register(&mut self, body: &[u8]) -> FactoryReply {
        let Ok(text) = std::str::from_utf8(body) else {
            return FactoryReply::text(400, "yaml: invalid leading UTF-8 octet");
        };
        match schematic::accept(text) {
            Ok(schematic::Accepted { id, text }) => {
                self.schematics.insert(id.clone(), text.clone());
                FactoryReply::json(201, &serde_json::json!({"id": id, "schematic": text}))
            }
            Err(reason) => FactoryReply::text(400, &reason),
        }
    }

    fn has_version(&self, version: &str) -> bool {
        !self.trouble.missing.contains(version) && catalogue::versions().iter().any(|known| known == version)
    }

    fn image(&self, id: &str, version: &str, name: &str) -> FactoryReply {
        match self.make(id, version, name) {
            Ok(bytes) => {
                let cut = self.trouble.cut;
                FactoryReply { cut, ..FactoryReply::new(200, "application/octet-stream", bytes) }
            }
            Err((status, text)) => FactoryReply::text(status, &text),
        }
    }

    /// The bytes of an image, or status and words against it.
    fn make(&self, id: &str, version: &str, name: &str) -> Result<Vec<u8>, (u16, String)> {
        let Some(text) = self.schematics.get(id) else {
            return Err((404, format!("schematic {id:?} not found")));
        };
        if [".sha256", ".sha512", ".sigstore.json"].iter().any(|suffix| name.ends_with(suffix)) {
            return Err((402, "this is an Enterprise feature".to_owned()));
        }
        if !self.has_version(version) {
            return Err((404, format!("version {version} is not available")));
        }
        let missing = schematic::extensions(text).into_iter().find(|name| !catalogue::offers(version, name));
        if let Some(missing) = missing {
            return Err((
                400,
                format!("official extension {missing:?} is not available for Talos version {version}"),
            ));
        }
        make_bytes(id, version, name).ok_or_else(|| (400, format!("invalid profile path: {name:?}")))
    }

    fn script(&self, id: &str, version: &str, name: &str, authority: &str) -> FactoryReply {
        if let Err((status, text)) = self.make(id, version, &format!("cmdline-{name}")) {
            return FactoryReply::text(status, &text);
        }
        let base = format!("http://{authority}/image/{id}/{version}");
        let arch = name.trim_end_matches("-secureboot").rsplit('-').next().unwrap_or_default();
        let boot = if name.ends_with("-secureboot") {
            format!("kernel {base}/{name}-uki.efi\n")
        } else {
            format!("kernel {base}/kernel-{arch} {}\ninitrd {base}/initramfs-{arch}.xz\n", command_line(name))
        };
        FactoryReply::new(200, "text/plain; charset=utf-8", format!("#!ipxe\n{boot}boot\n").into_bytes())
    }

    /// What a simulated host gets from a URL; none if the URL is not this factory's.
    pub(crate) fn fetch(&self, url: &str) -> Option<Fetched> {
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !self.authorities.contains(authority) {
            return None;
        }
        if self.trouble.dead {
            return Some(Fetched::Dead);
        }
        let parts: Vec<&str> = path.split('?').next().unwrap_or_default().split('/').collect();
        let ["image", id, version, name] = parts.as_slice() else {
            return Some(Fetched::Refused { status: 404 });
        };
        Some(match self.make(id, version, name) {
            Err((status, _)) => Fetched::Refused { status },
            Ok(bytes) => {
                let size = bytes.len() as u64;
                match self.trouble.cut.filter(|cut| *cut < size) {
                    Some(came) => Fetched::Cut { came, size },
                    None => Fetched::File {
                        file: FileFacts::of_bytes(&bytes),
                        location: is_kept_elsewhere(name).then(|| format!("/kept/{id}/{version}/{name}")),
                        delay: self.trouble.slow,
                    },
                }
            }
        })
    }
}

/// Large files lie in an object storage; small ones come from the factory itself.
fn is_kept_elsewhere(name: &str) -> bool {
    !name.starts_with("cmdline-")
}

/// `nocloud-amd64[-secureboot]`, if it is a platform and an architecture.
fn is_target(text: &str) -> bool {
    let text = text.strip_suffix("-secureboot").unwrap_or(text);
    let platform = text.strip_suffix("-amd64").or_else(|| text.strip_suffix("-arm64"));
    platform.is_some_and(|platform| PLATFORMS.contains(&platform))
}

fn command_line(target: &str) -> String {
    let platform =
        PLATFORMS.iter().find(|platform| target.starts_with(*platform)).copied().unwrap_or("metal");
    let console =
        if platform == "nocloud" { " console=tty1 console=ttyS0 net.ifnames=0" } else { " console=tty0" };
    format!("talos.platform={platform}{console} init_on_alloc=1 slab_nomerge pti=on")
}

/// How the names of packed files end.
const PACKED: [&str; 4] = [".tar.gz", ".gz", ".xz", ".zst"];

/// How a file is packed on its way.
type Packing = fn(Vec<u8>) -> Vec<u8>;

/// A file by its name. Kernels, boot programs and installers are none of a simulator's business.
fn make_bytes(id: &str, version: &str, name: &str) -> Option<Vec<u8>> {
    let identity = identity::line(id, version, name);
    if let Some(target) = name.strip_prefix("cmdline-").filter(|target| is_target(target)) {
        return Some(command_line(target).into_bytes());
    }
    if let Some(target) = name.strip_suffix(".iso") {
        return is_target(target).then(|| images::iso(&identity, version));
    }
    let packings: [(&str, Packing); 4] = [
        (".tar.gz", |bytes| pack::gzip(&pack::tar("disk.raw", &bytes))),
        (".gz", |bytes| pack::gzip(&bytes)),
        (".xz", |bytes| pack::xz(&bytes)),
        (".zst", |bytes| pack::zstd(&bytes)),
    ];
    let packed = packings.iter().find_map(|(suffix, pack)| Some((name.strip_suffix(suffix)?, *pack)));
    let (plain, pack): (&str, Packing) = packed.unwrap_or((name, |bytes| bytes));
    let (target, format) = plain.rsplit_once('.')?;
    // What is inside is the same however it is packed.
    let identity = identity.replace(name, plain);
    let bytes = match format {
        "raw" => images::raw(&identity),
        "qcow2" => images::qcow2(&identity),
        "vhd" => images::vhd(&identity),
        _ => return None,
    };
    is_target(target).then(|| pack(bytes))
}

#[cfg(test)]
mod tests;
