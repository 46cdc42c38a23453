//! No type that holds a secret shows it.

use secrecy::ExposeSecret as _;
use talmox_machine::client::{Context, DEFAULT_LIFETIME, Kubeconfig, TalosRole, Talosconfig};
use talmox_machine::secrets::Encryption;
use talmox_machine::{Patched, Role, SystemRandom, Value, patch};

use crate::{NOW, bundle, config, read_patch};

/// Every secret of the bundle, as it is and as it stands in files.
fn secrets() -> Vec<String> {
    use base64::Engine as _;
    let bundle = bundle();
    let (Encryption::Secretbox(encryption) | Encryption::AesCbc(encryption)) = &bundle.encryption;
    let mut secrets: Vec<String> =
        [&bundle.cluster_secret, &bundle.bootstrap_token, &bundle.trustd_token, encryption]
            .map(|secret| secret.expose_secret().to_owned())
            .into();
    for key in [
        &bundle.etcd.key,
        &bundle.kubernetes.key,
        &bundle.aggregator.key,
        &bundle.os.key,
        &bundle.service_account,
    ] {
        let pem = key.pem().expose_secret();
        secrets.push(pem.lines().nth(1).unwrap().to_owned());
        secrets.push(base64::engine::general_purpose::STANDARD.encode(pem));
    }
    secrets
}

fn assert_hidden(shown: &str, what: &str) {
    for secret in secrets() {
        assert!(!shown.contains(&secret), "{what} shows a secret");
    }
}

#[test]
fn bundle_and_its_parts() {
    let bundle = bundle();
    assert_hidden(&format!("{bundle:?}"), "Bundle");
    assert_hidden(&format!("{:?}", bundle.encryption), "Encryption");
    assert_hidden(&format!("{:?}", bundle.os), "Authority");
    assert_hidden(&format!("{:?}", bundle.os.key), "PrivateKey");
    assert_hidden(&format!("{:?}", bundle.cluster_secret), "SecretString");
    assert_hidden(&format!("{:?}", bundle.to_yaml()), "the written bundle");
}

#[test]
fn configs_and_their_parts() {
    for minor in [13, 14] {
        let config = config(minor, Role::ControlPlane);
        assert_hidden(&format!("{config:?}"), "Config");
        assert_hidden(&format!("{:?}", config.documents()), "Document");
        assert_hidden(&format!("{:?}", config.documents()[0].to_value()), "Value");
        let patched: Patched = patch::apply(config, "x", &[]).unwrap();
        assert_hidden(&format!("{patched:?}"), "Patched");
        let input = crate::input(minor, talmox_machine::Options::default());
        assert_hidden(&format!("{input:?}"), "Input");
    }
}

#[test]
fn patches() {
    let token = bundle().trustd_token.expose_secret().to_owned();
    let patch = read_patch(&format!("machine: {{token: {token}}}\n"));
    assert_hidden(&format!("{patch:?}"), "Patch");
    let json = read_patch(&format!("[{{op: add, path: /machine/token, value: {token}}}]"));
    assert_hidden(&format!("{json:?}"), "a JSON patch");
}

#[test]
fn client_files() {
    let client =
        bundle().talos_client(&[TalosRole::Admin], NOW, DEFAULT_LIFETIME, &mut SystemRandom).unwrap();
    let key = client.key.pem().expose_secret().lines().nth(1).unwrap().to_owned();
    let context = Context { name: "test", endpoints: &[], nodes: &[] };
    let talosconfig = Talosconfig::new(&context, bundle(), &client);
    let kubeconfig = Kubeconfig::new("test", "https://x:6443", bundle(), &client);
    for shown in [format!("{client:?}"), format!("{talosconfig:?}"), format!("{kubeconfig:?}")] {
        assert!(!shown.contains(&key), "{shown}");
        assert_hidden(&shown, "a client file");
        assert!(!shown.contains("LS0tLS1CRUdJTiBF"), "{shown}");
    }
}

#[test]
fn a_masked_config_holds_no_secret() {
    for minor in [8, 13, 14] {
        let masked = config(minor, Role::ControlPlane).redacted();
        assert_hidden(&masked.to_yaml(), "a masked config");
        assert!(masked.to_yaml().contains("******"));
    }
    // What is empty is no secret, and says that there is none.
    let worker = config(13, Role::Worker).redacted();
    assert_eq!(worker.at(&["machine", "ca", "key"]).and_then(Value::as_text), Some(""));
}

#[test]
fn a_difference_shows_that_a_secret_changed_and_not_to_what() {
    let before = config(13, Role::ControlPlane);
    let patch = read_patch(
        "machine: {token: abcdef.0123456789abcdef, certSANs: [a]}\ncluster: {proxy: {disabled: true}}\n",
    );
    let after = patch::apply(before.clone(), "x", &[patch]).unwrap().into_config("x").unwrap();
    let found = before.differences(&after);
    let seen: Vec<_> =
        found.iter().map(|one| (one.path.as_str(), one.before.as_deref(), one.after.as_deref())).collect();
    assert_eq!(
        seen,
        [
            ("machine.token", Some("******"), Some("******")),
            ("machine.certSANs[0]", None, Some("a")),
            ("cluster.proxy.disabled", None, Some("true")),
        ]
    );
    assert!(before.differences(&before).is_empty());
    let whole = config(11, Role::Worker).differences(&config(12, Role::Worker));
    assert!(
        whole
            .iter()
            .any(|one| one.document == "HostnameConfig" && one.path.is_empty() && one.before.is_none())
    );
    assert_hidden(&format!("{:?}", talmox_machine::Config::default().differences(&before)), "Difference");
}
