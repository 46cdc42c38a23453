//! talosconfig and kubeconfig: shown and merged.

use anyhow::{Context as _, ensure};
use secrecy::ExposeSecret as _;
use talmox_machine::client::{
    self, ClientFile as _, Conflict, DEFAULT_LIFETIME, Kubeconfig, TalosRole, Talosconfig,
};
use talmox_machine::sample::Sampler;
use talmox_machine::{Map, Source, SystemRandom, Value, print};

use super::{NOW, Talosctl};
use crate::golden::compare;
use crate::scratch::Scratch;

const ADDRESSES: [&str; 5] = ["10.0.0.1", "10.0.0.2", "fd00::1", "a.example.com", "10.0.0.3"];

fn addresses(sampler: &mut Sampler) -> Vec<String> {
    (0..sampler.below(5)).map(|_| sampler.one_of(&ADDRESSES).to_owned()).collect()
}

/// It shows our file: context, roles, endpoints and nodes.
pub(super) fn shown(talosctl: &Talosctl, scratch: &Scratch, case: usize) -> anyhow::Result<()> {
    let mut sampler = Sampler::new(case as u64 + 1, talosctl.minor);
    let name = sampler.one_of(&["base", "yes", "1.10", "a b"]);
    let (endpoints, nodes) = (addresses(&mut sampler), addresses(&mut sampler));
    let roles = [TalosRole::ALL[case % TalosRole::ALL.len()], TalosRole::Reader];
    let client = talosctl.bundle.talos_client(&roles, NOW, DEFAULT_LIFETIME, &mut SystemRandom)?;
    let context = client::Context { name, endpoints: &endpoints, nodes: &nodes };
    let ours = Talosconfig::new(&context, &talosctl.bundle, &client);
    scratch.write("talosconfig", ours.to_yaml().expose_secret())?;
    let info = talosctl.run(scratch, &["config", "info", "-o", "json"])?.map_err(anyhow::Error::msg)?;
    let info: serde_json::Value = serde_json::from_str(&info).context("config info -o json")?;
    let listed = |key: &str| -> Vec<&str> {
        let items = info[key].as_array().into_iter().flatten();
        items.filter_map(serde_json::Value::as_str).collect()
    };
    ensure!(info["context"] == name, "context {}", info["context"]);
    ensure!(listed("endpoints") == endpoints, "endpoints {}", info["endpoints"]);
    ensure!(listed("nodes") == nodes, "nodes {}", info["nodes"]);
    let mut organizations: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    organizations.sort_unstable();
    organizations.dedup();
    ensure!(listed("roles") == organizations, "roles {}", info["roles"]);
    let contexts = talosctl.run(scratch, &["config", "contexts"])?.map_err(anyhow::Error::msg)?;
    ensure!(contexts.lines().count() == 2 && contexts.contains(name), "contexts: {contexts}");
    Ok(())
}

/// A file with some of the named contexts.
fn talosconfig(sampler: &mut Sampler, names: &[&str]) -> String {
    let mut contexts = Map::new();
    for name in names {
        if sampler.below(2) == 0 {
            let nodes = addresses(sampler);
            let context = Map::new()
                .with("endpoints", addresses(sampler))
                .with_some("nodes", (!nodes.is_empty()).then_some(nodes))
                .with("ca", sampler.one_of(&["YWJj", "ZGVm"]))
                .with("crt", "YWJj")
                .with("key", "YWJj");
            contexts.set(*name, context);
        }
    }
    let known: Vec<String> = contexts.keys().map(str::to_owned).collect();
    let current = known.get(sampler.below(known.len())).cloned().unwrap_or_default();
    print(&Value::Map(Map::new().with("context", current).with("contexts", contexts)))
}

/// Contexts whose names are taken get others. (Names of the file that comes are chosen so that the order, which is
/// random in `talosctl`, does not matter.)
pub(super) fn merged(talosctl: &Talosctl, scratch: &Scratch, case: usize) -> anyhow::Result<()> {
    let mut sampler = Sampler::new(case as u64 + 1, talosctl.minor);
    let base = talosconfig(&mut sampler, &["a", "a-1", "a-2", "b", "c-1", "yes"]);
    let other = talosconfig(&mut sampler, &["a", "b", "c", "yes"]);
    scratch.write("talosconfig", &base)?;
    let path = scratch.write("other", &other)?;
    talosctl.run(scratch, &["config", "merge", &path])?.map_err(anyhow::Error::msg)?;
    let mut ours = Talosconfig::parse(Source { name: "base", text: &base })?;
    ours.merge(&Talosconfig::parse(Source { name: "other", text: &other })?);
    let differences = compare::configs(&scratch.read("talosconfig")?, ours.to_yaml().expose_secret())?;
    ensure!(differences.is_empty(), "{}\n--- base\n{base}--- other\n{other}", differences.join(", "));
    Ok(())
}

/// A kubeconfig with the named clusters, each with a user and a context as Talos names them.
fn kubeconfig(sampler: &mut Sampler, clusters: &[&str]) -> String {
    let entry = |name: &str, key: &str, body: Map| Value::Map(Map::new().with("name", name).with(key, body));
    let (mut servers, mut users, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
    for cluster in clusters {
        let user = format!("admin@{cluster}");
        let server = sampler.one_of(&["https://10.0.0.1:6443", "https://10.0.0.2:6443"]);
        servers.push(entry(cluster, "cluster", Map::new().with("server", server)));
        users.push(entry(&user, "user", Map::new().with("token", sampler.one_of(&["one", "two"]))));
        let context = Map::new()
            .with("cluster", *cluster)
            .with("namespace", sampler.one_of(&["default", "other"]))
            .with("user", user.as_str());
        contexts.push(entry(&user, "context", context));
    }
    let current = clusters.last().map(|cluster| format!("admin@{cluster}")).unwrap_or_default();
    let root = Map::new()
        .with("apiVersion", "v1")
        .with("kind", "Config")
        .with("clusters", servers)
        .with("users", users)
        .with("contexts", contexts)
        .with("current-context", current);
    print(&Value::Map(root))
}

/// What a machine sends has one cluster; the user's file may have that name already, and names made of it.
pub(super) fn kubeconfigs(talosctl: &Talosctl, scratch: &Scratch, case: usize) -> anyhow::Result<()> {
    let mut sampler = Sampler::new(case as u64 + 1, talosctl.minor);
    let present: Vec<&str> =
        ["home", "home-1", "home-2", "lab"].into_iter().filter(|_| sampler.below(2) == 0).collect();
    let base = kubeconfig(&mut sampler, &present);
    let other = kubeconfig(&mut sampler, &["home"]);
    let (conflict, word) = if case.is_multiple_of(3) {
        (Conflict::Overwrite, "overwrite")
    } else {
        (Conflict::Rename, "rename")
    };
    let (file, from) = (scratch.write("base", &base)?, scratch.write("other", &other)?);
    talosctl.program("kubemerge", scratch, &[word, &file, &from])?.map_err(anyhow::Error::msg)?;
    let mut ours = Kubeconfig::parse(Source { name: "base", text: &base })?;
    ours.merge(&Kubeconfig::parse(Source { name: "other", text: &other })?, conflict);
    let theirs = sorted(&scratch.read("base")?)?;
    let ours = sorted(ours.to_yaml().expose_secret())?;
    let differences = compare::configs(&theirs, &ours)?;
    ensure!(differences.is_empty(), "{word}: {}\n--- base\n{base}--- other\n{other}", differences.join(", "));
    Ok(())
}

/// Lists by name, and what is empty left out: the library keeps no order, and writes empty lists as null.
fn sorted(text: &str) -> anyhow::Result<String> {
    let mut values = talmox_machine::read_values(Source { name: "kubeconfig", text })?;
    let Some(Value::Map(root)) = values.pop() else { anyhow::bail!("a kubeconfig is a mapping") };
    let mut tidy = Map::new();
    for (key, value) in root.iter() {
        match value {
            Value::List(items) if items.is_empty() => {}
            Value::Map(map) if map.is_empty() => {}
            Value::List(items) => {
                let mut items = items.clone();
                let name = |item: &Value| item.at(&["name"]).and_then(Value::as_text).map(str::to_owned);
                items.sort_by_key(name);
                tidy.set(key, Value::List(items));
            }
            Value::Map(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Octal(_)
            | Value::Float(_)
            | Value::Text(_) => tidy.set(key, value.clone()),
        }
    }
    Ok(print(&Value::Map(tidy)))
}
