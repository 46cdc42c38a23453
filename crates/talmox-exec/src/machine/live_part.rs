//! The part of a described configuration that a machine takes over while it runs.

use secrecy::{ExposeSecret as _, SecretString};
use talmox_machine::{Config, Map, Source, Value, print};

use super::config::needs_restart;

/// What is described, but for what needs a restart: of that the machine keeps what is in force. So what could cut it off can be
/// tried by itself, and what is written down for the restart comes after.
pub(crate) fn live_part(wanted: &SecretString, in_force: &SecretString) -> Result<SecretString, String> {
    let (wanted, in_force) = (read("what is described", wanted)?, read("what the machine has", in_force)?);
    let main = |config: &Config| config.document("").map(|document| document.to_value().without_nulls());
    let (Some(Value::Map(mut live)), Some(Value::Map(has))) = (main(&wanted), main(&in_force)) else {
        return Err("it has no part `machine`".to_owned());
    };
    for section in ["machine", "cluster"] {
        let mut part = map(live.get(section));
        let had = map(has.get(section));
        let keys: Vec<String> = part.keys().chain(had.keys()).map(str::to_owned).collect();
        for key in keys.iter().filter(|key| needs_restart(&format!("{section}.{key}"))) {
            match had.get(key) {
                Some(value) => part.set(key.as_str(), value.clone()),
                None => drop(part.remove(key)),
            }
        }
        if !part.is_empty() {
            live.set(section, part);
        }
    }
    let others = wanted.documents().iter().filter(|document| !document.kind().is_empty());
    let texts = std::iter::once(print(&Value::Map(live))).chain(others.map(|one| print(&one.to_value())));
    Ok(SecretString::from(texts.collect::<Vec<_>>().join("---\n")))
}

fn map(value: Option<&Value>) -> Map {
    value.and_then(Value::as_map).cloned().unwrap_or_default()
}

/// What is wrong with a configuration could show a part of it.
fn read(name: &str, text: &SecretString) -> Result<Config, String> {
    Config::parse(Source { name, text: text.expose_secret() }).map_err(|_| format!("{name} cannot be read"))
}

#[cfg(test)]
mod tests {
    use talmox_plan::NETWORK_KINDS;

    use super::*;

    #[test]
    fn only_what_needs_a_restart_stays_as_it_is() {
        let has = "version: v1alpha1\nmachine:\n  type: worker\n  env: {A: old}\n  sysctls: {a: \"1\"}\ncluster:\n  \
                   etcd: {extraArgs: {a: b}}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: old\n";
        let wanted = "version: v1alpha1\nmachine:\n  type: worker\n  env: {A: new}\n  sysctls: {a: \"2\"}\n  files:\n    - path: \
                      /var/a\n      content: a\n      op: create\n---\napiVersion: v1alpha1\nkind: StaticHostConfig\nname: \
                      10.0.7.53\nhostnames: [ns.lab]\n";
        let text = |text: &str| SecretString::from(text);
        let live = live_part(&text(wanted), &text(has)).unwrap();
        let config = |text: &SecretString| read("test", text).unwrap();
        let differs = |one: &SecretString, other: &SecretString| -> Vec<String> {
            let found = config(one).differences(&config(other)).into_iter();
            found.map(|one| format!("{} {}", one.document, one.path).trim_end().to_owned()).collect()
        };
        let main = "the document with machine and cluster";
        assert_eq!(
            differs(&text(has), &live),
            [
                format!("{main} machine.sysctls.a"),
                "HostnameConfig".into(),
                "StaticHostConfig 10.0.7.53".into()
            ]
        );
        let left = differs(&live, &text(wanted));
        assert!(left.contains(&format!("{main} machine.env.A")), "{left:?}");
        assert!(
            left.iter().all(|key| ["env", "files", "etcd", "cluster"].iter().any(|part| key.contains(part))),
            "{left:?}"
        );
        // Nothing of it is shown.
        assert_eq!(live_part(&text("{"), &text(has)).unwrap_err(), "what is described cannot be read");
        assert!(!needs_restart("machine.network"), "or what could cut a machine off would be held back");
    }

    /// The kinds that the schema takes from its tables of the network.
    #[test]
    fn every_kind_of_the_network_is_tried() {
        let schema = include_str!("../../../talmox-machine/src/schema/kinds.rs");
        let kinds = schema.lines().filter(|line| line.contains("&network::"));
        let kinds: Vec<&str> = kinds.filter_map(|line| line.split('"').nth(1)).collect();
        assert!(kinds.len() > 20, "{kinds:?}");
        // They look at the network, or use it.
        let harmless = ["HTTPProbeConfig", "TCPProbeConfig", "TimeSyncConfig"];
        let forgotten: Vec<&&str> =
            kinds.iter().filter(|kind| !NETWORK_KINDS.contains(kind) && !harmless.contains(kind)).collect();
        assert!(forgotten.is_empty(), "changed without a trial: {forgotten:?}");
        let unknown: Vec<&&str> = NETWORK_KINDS.iter().filter(|kind| !kinds.contains(kind)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
