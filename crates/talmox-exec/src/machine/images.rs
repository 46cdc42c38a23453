//! The images a machine's configuration names: what of Talos and Kubernetes it was last told to run.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret as _, SecretString};
use talmox_machine::{Config, Source, Value};
use talmox_plan::Component;

/// Where the image of Talos itself is named.
const INSTALLER: &str = "machine.install.image";

/// Each image by the place it is named at; nothing of a configuration that cannot be read.
pub(crate) fn named_in(config: &SecretString) -> BTreeMap<String, String> {
    let source = Source { name: "what the machine has", text: config.expose_secret() };
    Config::parse(source).map(|config| of(&config)).unwrap_or_default()
}

/// The same of one that was read.
pub(crate) fn of(config: &Config) -> BTreeMap<String, String> {
    let mut images = BTreeMap::new();
    let mut note = |place: &str, value: Option<&Value>| {
        let text = value.and_then(Value::as_text).filter(|text| !text.is_empty());
        images.extend(text.map(|text| (place.to_owned(), text.to_owned())));
    };
    let at = |place: &str| config.at(&place.split('.').collect::<Vec<_>>());
    note(INSTALLER, at(INSTALLER));
    for component in Component::ALL {
        let [place, document] = component.keys();
        note(&place, at(&place));
        note(&document, config.document(component.document()).and_then(|one| one.at(&["image"])));
    }
    images
}
