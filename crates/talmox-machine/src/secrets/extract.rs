//! A bundle from the config of a control plane, which holds all of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;

use super::{Authority, Bundle, Encryption, Rotation};
use crate::document::Config;
use crate::pki::{Certificate, PrivateKey};
use crate::value::Value;

/// A config does not hold all of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    #[error("the config has no {0}; take that of a control plane, with its secrets")]
    Missing(&'static str),
    #[error("{what} of the config cannot be read: {why}")]
    Unreadable { what: &'static str, why: String },
}

type Found<T> = Result<T, ExtractError>;

/// Takes the bundle out of a control plane's config, in either layout.
pub fn from_config(config: &Config) -> Found<Bundle> {
    let secret = |text: &str| SecretString::from(text);
    let cluster = |key| text(config.at(&["cluster", key]));
    let identity =
        |key| text(config.document("DiscoveryIdentityConfig").and_then(|document| document.at(&[key])));
    let id = cluster("id").or_else(|| identity("clusterID"));
    let cluster_secret = cluster("secret").or_else(|| identity("clusterSecret"));
    Ok(Bundle {
        cluster_id: id.ok_or(ExtractError::Missing("cluster id"))?.to_owned(),
        cluster_secret: cluster_secret.map(secret).ok_or(ExtractError::Missing("cluster secret"))?,
        bootstrap_token: cluster("token").map(secret).ok_or(ExtractError::Missing("bootstrap token"))?,
        encryption: encryption(config)?,
        trustd_token: text(config.at(&["machine", "token"]))
            .map(secret)
            .ok_or(ExtractError::Missing("machine token"))?,
        etcd: encoded(config, &["cluster", "etcd", "ca"], "etcd authority")?,
        kubernetes: either(config, "ca", "KubeAPIServerCAConfig", "Kubernetes authority")?,
        aggregator: either(config, "aggregatorCA", "KubeAggregatorCAConfig", "aggregator authority")?,
        service_account: service_account(config)?,
        os: encoded(config, &["machine", "ca"], "Talos authority")?,
        rotation: Rotation::default(),
    })
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_text).filter(|text| !text.is_empty() && *text != crate::scalar::REDACTED)
}

fn authority(what: &'static str, certificate: &str, key: SecretString) -> Found<Authority> {
    let unreadable = |why: String| ExtractError::Unreadable { what, why };
    Ok(Authority {
        certificate: Certificate::parse(certificate).map_err(|error| unreadable(error.to_string()))?,
        key: PrivateKey::parse(key).map_err(|error| unreadable(error.to_string()))?,
    })
}

/// From base64, as the document with `machine` and `cluster` has it.
fn decode(what: &'static str, value: Option<&Value>) -> Found<SecretString> {
    let encoded = text(value).ok_or(ExtractError::Missing(what))?;
    let bytes = STANDARD.decode(encoded).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(SecretString::from)
        .ok_or(ExtractError::Unreadable { what, why: "not PEM in base64".to_owned() })
}

fn encoded(config: &Config, path: &[&str], what: &'static str) -> Found<Authority> {
    use secrecy::ExposeSecret as _;
    let part = |key| config.at(path).and_then(|value| value.at(&[key]));
    let certificate = decode(what, part("crt"))?;
    let key = decode(what, part("key"))?;
    authority(what, certificate.expose_secret(), key)
}

/// From the old layout, else from the document of the new one, which has plain PEM.
fn either(config: &Config, key: &str, kind: &str, what: &'static str) -> Found<Authority> {
    if let Some(document) = config.document(kind) {
        let part = |key| text(document.at(&["issuingCA", key]));
        let certificate = part("cert").ok_or(ExtractError::Missing(what))?;
        let key = part("key").ok_or(ExtractError::Missing(what))?;
        return authority(what, certificate, SecretString::from(key));
    }
    encoded(config, &["cluster", key], what)
}

fn service_account(config: &Config) -> Found<PrivateKey> {
    let what = "service account key";
    let document = config.document("KubeServiceAccountConfig");
    let pem = match document.and_then(|document| text(document.at(&["issuer", "privateKey"]))) {
        Some(pem) => SecretString::from(pem),
        None => decode(what, config.at(&["cluster", "serviceAccount", "key"]))?,
    };
    PrivateKey::parse(pem).map_err(|error| ExtractError::Unreadable { what, why: error.to_string() })
}

fn encryption(config: &Config) -> Found<Encryption> {
    let cluster = |key| text(config.at(&["cluster", key])).map(SecretString::from);
    if let Some(secret) = cluster("secretboxEncryptionSecret") {
        return Ok(Encryption::Secretbox(secret));
    }
    if let Some(secret) = cluster("aescbcEncryptionSecret") {
        return Ok(Encryption::AesCbc(secret));
    }
    let document = config.document("KubeEtcdEncryptionConfig");
    let resources =
        document.and_then(|document| document.at(&["config", "resources"])).and_then(Value::as_list);
    resources
        .unwrap_or_default()
        .iter()
        .find(|resource| encrypts_secrets(resource))
        .and_then(first_provider)
        .ok_or(ExtractError::Missing("encryption secret"))
}

fn encrypts_secrets(resource: &Value) -> bool {
    let names = resource.at(&["resources"]).and_then(Value::as_list).unwrap_or_default();
    names.iter().any(|name| name.as_text() == Some("secrets"))
}

/// The secret new values are encrypted with: that of the first provider.
fn first_provider(resource: &Value) -> Option<Encryption> {
    let provider = resource.at(&["providers"])?.as_list()?.first()?;
    let secret = |kind: &str| {
        let key = provider.at(&[kind, "keys"])?.as_list()?.first()?;
        text(key.at(&["secret"])).map(SecretString::from)
    };
    secret("secretbox").map(Encryption::Secretbox).or_else(|| secret("aescbc").map(Encryption::AesCbc))
}
