//! The images a machine's configuration names: what of Talos and Kubernetes it was last told to run.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret as _, SecretString};
use talmox_machine::{Config, Source};

/// Where images are named.
const PLACES: [&str; 6] = [
    "machine.install.image",
    "machine.kubelet.image",
    "cluster.apiServer.image",
    "cluster.controllerManager.image",
    "cluster.scheduler.image",
    "cluster.proxy.image",
];

/// Each image by the place it is named at; nothing of a configuration that cannot be read.
pub(super) fn named_in(config: &SecretString) -> BTreeMap<String, String> {
    let source = Source { name: "what the machine has", text: config.expose_secret() };
    let Ok(config) = Config::parse(source) else { return BTreeMap::new() };
    let named = |place: &&str| {
        let path: Vec<&str> = place.split('.').collect();
        Some(((*place).to_owned(), config.at(&path)?.as_text()?.to_owned()))
    };
    PLACES.iter().filter_map(named).collect()
}
