//! What is the command line's business in a real run: secrets, configurations, files.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use secrecy::{ExposeSecret as _, SecretString};
use talmox_exec::{MachineConfig, Machines, MachinesFuture, Manifest, Pieces, SnapshotSink, Whereabouts};
use talmox_image::install::InstallImages;
use talmox_machine::{Config, Hidden, Source};
use talmox_render::{Inputs, PatchText, Variables, render};
use talmox_talos::Identity;
use talmox_types::desired::Desired;
use talmox_types::{NodeName, Phases, Realm};

use super::{Bed, Secrets};

/// Whoever has the secrets.
pub(super) struct Keeper<'a> {
    desired: &'a Desired,
    secrets: &'a Mutex<Arc<Secrets>>,
    handed: &'a Handed,
    rendered: Mutex<BTreeMap<String, SecretString>>,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(bed: &'a Bed) -> Self {
        Self { desired: &bed.desired, secrets: &bed.secrets, handed: &bed.handed, rendered: Mutex::default() }
    }

    /// Somebody who has other secrets.
    pub(super) fn with(bed: &'a Bed, secrets: &'a Mutex<Arc<Secrets>>) -> Self {
        Self { secrets, ..Self::new(bed) }
    }

    fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(&self.secrets.lock().unwrap())
    }

    fn render(&self, node: &NodeName, at: &Whereabouts) -> Result<SecretString, String> {
        let declared = self.desired.nodes.iter().find(|one| one.name == *node).ok_or("no such node")?;
        let Whereabouts { address, vmid, host, uuid, phases } = at.clone();
        let bundle = &self.secrets().bundle;
        let rendered = render(&Inputs {
            desired: self.desired,
            node: declared,
            bundle: &bundle.issuing(phases),
            whereabouts: &talmox_render::Whereabouts { address, vmid, host, uuid },
            install_images: &InstallImages::new(&BTreeMap::new(), |_| None),
            patches: &self.handed.patches,
            cni_manifest: None,
            variables: &Variables::default(),
        });
        let rendered = rendered.map_err(|error| error.to_string())?;
        if let Some(kept) = rendered.accepts.iter().find(|one| bundle.next(one.realm).is_some()) {
            return Err(kept.to_string());
        }
        let config = rendered.config;
        let config = bundle.accept(config, phases).map_err(|error| error.to_string())?;
        Ok(SecretString::from(config.to_yaml()))
    }
}

impl Machines for Keeper<'_> {
    fn config(&self, node: &NodeName, at: &Whereabouts) -> Result<MachineConfig, String> {
        let mut rendered = self.rendered.lock().unwrap();
        let key = format!("{node} {at:?}");
        if let Some(text) = rendered.get(&key) {
            return Ok(MachineConfig { text: text.clone(), hidden: Hidden::default() });
        }
        let text = self.render(node, at)?;
        rendered.insert(key, text.clone());
        Ok(MachineConfig { text, hidden: Hidden::default() })
    }

    fn identity(&self) -> Option<Arc<Identity>> {
        Some(Arc::clone(&self.secrets().identity))
    }

    fn kubernetes(&self) -> Option<talmox_k8s::Access> {
        let server = talmox_k8s::Server::from_url(&self.desired.network.endpoint).unwrap();
        Some(talmox_k8s::Access { server, identity: Arc::clone(&self.secrets().kubernetes) })
    }

    fn rotating(&self) -> Vec<Realm> {
        self.secrets().bundle.rotating().collect()
    }

    fn phases_of(&self, config: &SecretString) -> Phases {
        let config = Config::parse(Source { name: "config", text: config.expose_secret() }).unwrap();
        self.secrets().bundle.phases_of(&config)
    }

    fn settle(&self, realm: Realm) -> Result<(), String> {
        let mut secrets = self.secrets.lock().unwrap();
        *secrets = Arc::new(Secrets::of(secrets.bundle.settled(realm)));
        self.rendered.lock().unwrap().clear();
        Ok(())
    }

    fn manifests(&self) -> MachinesFuture<'_, Vec<Manifest>> {
        let texts = self.desired.kubernetes.bootstrap_manifests.iter().map(|name| Manifest {
            name: name.clone(),
            text: SecretString::from(self.handed.manifests[name].clone()),
        });
        let texts = texts.collect();
        Box::pin(async move { Ok(texts) })
    }

    fn post_bootstrap<'b>(&'b self, command: &'b [String]) -> MachinesFuture<'b, ()> {
        self.handed.ran.lock().unwrap().push(command.join(" "));
        Box::pin(async { Ok(()) })
    }

    fn snapshot_sink(&self) -> Result<Box<dyn SnapshotSink + '_>, String> {
        Ok(Box::new(Sink { kept: &self.handed.snapshots, bytes: Vec::new() }))
    }

    fn snapshot(&self, path: &str) -> Result<Pieces, String> {
        let kept = self.handed.snapshots.lock().unwrap();
        let bytes = kept.get(path).ok_or_else(|| format!("there is no file {path}"))?.clone();
        let pieces: Vec<_> = bytes.chunks(10_000).map(|piece| Ok(piece.to_vec().into())).collect();
        Ok(Box::new(pieces.into_iter()))
    }
}

/// A snapshot that is kept in memory.
struct Sink<'a> {
    kept: &'a Mutex<BTreeMap<String, Vec<u8>>>,
    bytes: Vec<u8>,
}

impl SnapshotSink for Sink<'_> {
    fn write(&mut self, piece: &[u8]) -> Result<(), String> {
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    fn keep(self: Box<Self>) -> Result<String, String> {
        let mut kept = self.kept.lock().unwrap();
        let name = format!("snapshot-{}", kept.len() + 1);
        kept.insert(name.clone(), self.bytes);
        Ok(name)
    }
}

/// What a cluster is handed when it is bootstrapped.
#[derive(Default)]
pub struct Handed {
    /// Patches on top of what the description says.
    pub patches: Vec<PatchText>,
    /// By the names of the description.
    pub manifests: BTreeMap<String, String>,
    /// Programs that were run.
    pub ran: Mutex<Vec<String>>,
    /// Snapshots of etcd, by name.
    pub snapshots: Mutex<BTreeMap<String, Vec<u8>>>,
}
