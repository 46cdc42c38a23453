//! Documents about the machine itself.

use secrecy::ExposeSecret as _;

use super::legacy::texts;
use super::{Input, document};
use crate::document::Document;
use crate::value::{Map, Value};

/// Documents of 1.14 and later, up to those about registries.
pub(super) fn discovery_and_install(input: &Input<'_>) -> Vec<Document> {
    let options = &input.options;
    let mut documents = Vec::new();
    if options.discovery {
        let body = Map::new().with("name", "default").with("endpoint", "https://discovery.talos.dev/");
        documents.push(document("DiscoveryServiceConfig", body));
    }
    let identity = Map::new()
        .with("clusterID", input.secrets.cluster_id.as_str())
        .with("clusterSecret", input.secrets.cluster_secret.expose_secret());
    documents.push(document("DiscoveryIdentityConfig", identity));
    documents.extend(options.install_disk.as_deref().map(|disk| install(input, disk)));
    let dns = Map::new().with("enabled", true).with("forwardKubeDNSToHost", true);
    documents.push(document("ResolverConfig", Map::new().with("hostDNS", dns)));
    if !options.sysctls.is_empty() {
        documents.push(document("SysctlConfig", Map::new().with("params", texts(&options.sysctls))));
    }
    let ephemeral = Map::new().with("name", "EPHEMERAL").with("mount", Map::new().with("secure", true));
    documents.push(document("VolumeConfig", ephemeral));
    documents.push(document("FilesystemTrimConfig", Map::new().with("interval", "168h0m0s")));
    documents.push(document("SecurityProfileConfig", Map::new().with("workloadIsolation", true)));
    documents
}

/// Wiping has to be refused in words: left out, it means yes.
fn install(input: &Input<'_>, disk: &str) -> Document {
    let matcher = format!("disk.dev_path == \"{}\"", disk.replace('\\', "\\\\").replace('"', "\\\""));
    let installer = input.options.install_image.as_deref().map(|image| Map::new().with("image", image));
    let provisioning = Map::new().with("diskSelector", Map::new().with("match", matcher)).with("wipe", false);
    let body = Map::new().with_some("installer", installer).with("provisioning", provisioning);
    document("UnattendedInstallConfig", body)
}

/// Registries from 1.12 on, by kind and name.
pub(super) fn registries(input: &Input<'_>) -> Vec<Document> {
    if !input.since(12) {
        return Vec::new();
    }
    let options = &input.options;
    let endpoint = |url: &String| Value::Map(Map::new().with("url", url.as_str()));
    let mirror = |(host, urls): (&String, &Vec<String>)| {
        let endpoints: Vec<Value> = urls.iter().map(endpoint).collect();
        let body = Map::new().with("name", host.as_str()).with("endpoints", endpoints);
        document("RegistryMirrorConfig", body)
    };
    let mut hosts: Vec<&String> =
        options.registry_certificates.keys().chain(&options.insecure_registries).collect();
    hosts.sort();
    hosts.dedup();
    let tls = |host: &String| {
        let body = Map::new()
            .with("name", host.as_str())
            .with_some("ca", options.registry_certificates.get(host).cloned())
            .with_some("insecureSkipVerify", options.insecure_registries.contains(host).then_some(true));
        document("RegistryTLSConfig", body)
    };
    options.registry_mirrors.iter().map(mirror).chain(hosts.into_iter().map(tls)).collect()
}

/// Host name from 1.12 on, KubeSpan from 1.13 on.
pub(super) fn network(input: &Input<'_>) -> Vec<Document> {
    let mut documents = Vec::new();
    if input.since(12) {
        documents.push(document("HostnameConfig", Map::new().with("auto", "stable")));
    }
    if let (true, Some(enabled)) = (input.since(13), input.options.kubespan) {
        documents.push(document("KubeSpanConfig", Map::new().with("enabled", enabled)));
    }
    documents
}
