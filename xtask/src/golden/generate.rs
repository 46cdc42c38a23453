//! Vectors that make configs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use talmox_machine::{Bundle, Input, Map, Options, Role, Source, Value, patch};
use talmox_types::Contract;

use super::{Unmet, patches, read, text, unmet};

pub(super) fn check(folder: &Path, vector: &Value) -> anyhow::Result<Unmet> {
    let given = |key: &str, default: &str| -> String {
        vector.at(&[key]).and_then(Value::as_text).unwrap_or(default).to_owned()
    };
    let file = given("secrets", "secrets.yaml");
    let secrets = Bundle::parse(Source { name: &file, text: &read(folder, &file)? })?;
    let contract = text(vector, "contract")?;
    let input = Input {
        contract: Contract::parse(contract.trim_start_matches('v')).context("contract")?,
        cluster_name: given("cluster", "base"),
        endpoint: given("endpoint", "https://base:6443"),
        kubernetes: given("kubernetes", "1.28.0"),
        secrets: &secrets,
        options: options(vector.at(&["options"]).and_then(Value::as_map))?,
    };
    let patches = patches(folder, vector)?;
    let expected = vector.at(&["expected"]).and_then(Value::as_map).context("a vector without `expected`")?;
    let mut all = Unmet::new();
    for (role, file) in expected.iter() {
        let file = file.as_text().context("an expected config is named by its file")?;
        let role = match role {
            "controlplane" => Role::ControlPlane,
            "worker" => Role::Worker,
            _ => bail!("a config is for controlplane or worker, not {role}"),
        };
        let made = input.generate(role).map_err(|error| error.to_string()).and_then(|config| {
            patch::apply(config, file, &patches).map(|done| done.to_yaml()).map_err(|error| error.to_string())
        });
        all.extend(unmet(folder, file, made)?);
    }
    Ok(all)
}

/// Every option that is given has to be understood.
fn options(given: Option<&Map>) -> anyhow::Result<Options> {
    let mut options = Options::default();
    for (key, value) in given.into_iter().flat_map(Map::iter) {
        set(&mut options, key, value).with_context(|| format!("option {key}"))?;
    }
    Ok(options)
}

fn set(options: &mut Options, key: &str, value: &Value) -> anyhow::Result<()> {
    match key {
        "debug" => options.debug = truth(value)?,
        "additional_sans" => options.additional_sans = texts(value)?,
        "allow_scheduling_on_control_planes" => options.allow_scheduling_on_control_planes = truth(value)?,
        "dns_domain" => options.dns_domain = one(value)?,
        "pod_subnets" => options.pod_subnets = texts(value)?,
        "service_subnets" => options.service_subnets = texts(value)?,
        "install_disk" => options.install_disk = Some(one(value)?),
        "install_image" => options.install_image = Some(one(value)?),
        "extra_kernel_args" => options.extra_kernel_args = texts(value)?,
        "local_api_server_port" => options.local_api_server_port = port(value)?,
        "sysctls" => options.sysctls = mapping(value, one)?,
        "cni_urls" => options.cni_urls = texts(value)?,
        "registry_mirrors" => options.registry_mirrors = mapping(value, texts)?,
        "registry_certificates" | "registry_ca_certs" => options.registry_certificates = mapping(value, one)?,
        "insecure_registries" | "registry_insecure" => {
            options.insecure_registries = texts(value)?.into_iter().collect();
        }
        "discovery" | "cluster_discovery" => options.discovery = truth(value)?,
        "kubespan" => options.kubespan = Some(truth(value)?),
        "kubeprism_port" => options.kubeprism_port = port(value)?,
        _ => bail!("not known"),
    }
    Ok(())
}

fn truth(value: &Value) -> anyhow::Result<bool> {
    value.as_bool().context("true or false is wanted")
}

/// A text; a number will do where the vector writes one.
fn one(value: &Value) -> anyhow::Result<String> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Null | Value::Octal(_) | Value::Float(_) | Value::List(_) | Value::Map(_) => {
            bail!("a text is wanted")
        }
    }
}

fn texts(value: &Value) -> anyhow::Result<Vec<String>> {
    value.as_list().context("a list is wanted")?.iter().map(one).collect()
}

/// A port; zero means off.
fn port(value: &Value) -> anyhow::Result<Option<u16>> {
    let port = u16::try_from(value.as_integer().context("a port is wanted")?)?;
    Ok((port > 0).then_some(port))
}

fn mapping<T>(value: &Value, read: fn(&Value) -> anyhow::Result<T>) -> anyhow::Result<BTreeMap<String, T>> {
    let entries = value.as_map().context("a mapping is wanted")?.iter();
    entries.map(|(key, value)| Ok((key.to_owned(), read(value)?))).collect()
}
