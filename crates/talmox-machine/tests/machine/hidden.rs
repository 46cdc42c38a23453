//! No type that holds a secret shows it.

use secrecy::ExposeSecret as _;
use talmox_machine::client::{Context, DEFAULT_LIFETIME, Kubeconfig, TalosRole, Talosconfig};
use talmox_machine::secrets::Encryption;
use talmox_machine::{Config, Difference, Hidden, Patched, Role, SystemRandom, Value, patch};

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

/// Fields into which people write what they like, in either layout.
const FREE: &str = "machine:
  env: {PASSWORD: hunter2}
  files: [{content: password hunter2, permissions: 0o600, path: /var/x, op: create}]
  pods: [{metadata: {name: agent}, spec: {containers: [{env: [{name: TOKEN, value: hunter2}]}]}}]
  kubelet: {credentialProviderConfig: {providers: [{env: [{name: TOKEN, value: hunter2}]}]}}
cluster:
  inlineManifests: [{name: sec, contents: 'stringData: {password: hunter2}'}]
  extraManifestHeaders: {Authorization: hunter2}
  apiServer: {env: {PASSWORD: hunter2}}
  controllerManager: {env: {PASSWORD: hunter2}}
  scheduler: {env: {PASSWORD: hunter2}}
---
apiVersion: v1alpha1
kind: ExtensionServiceConfig
name: agent
configFiles: [{content: hunter2, mountPath: /x}]
environment: [PASSWORD=hunter2]
---
apiVersion: v1alpha1
kind: EnvironmentConfig
variables: {PASSWORD: hunter2}
---
apiVersion: v1alpha1
kind: EtcFileConfig
name: x
mode: 0o600
contents: hunter2
---
apiVersion: v1alpha1
kind: CRICustomizationConfig
name: x
content: hunter2
---
apiVersion: v1alpha1
kind: KubeInlineManifestConfig
name: x
manifest: hunter2
---
apiVersion: v1alpha1
kind: KubeExternalManifestConfig
name: x
url: https://a.lan/
headers: {Authorization: hunter2}
---
apiVersion: v1alpha1
kind: KubeStaticPodConfig
name: x
pod: {spec: {containers: [{env: [{name: TOKEN, value: hunter2}]}]}}
---
apiVersion: v1alpha1
kind: KubeAPIServerConfig
image: a:v1
env: {PASSWORD: hunter2}
---
apiVersion: v1alpha1
kind: RegistryAuthConfig
name: registry.lan
username: robot
password: hunter2
---
apiVersion: v1alpha1
kind: WireguardConfig
name: wg0
privateKey: hunter2
peers: [{publicKey: x, presharedKey: hunter2}]
";

fn with(minor: u16, text: &str) -> Config {
    patched(&config(minor, Role::ControlPlane), text)
}

fn patched(before: &Config, text: &str) -> Config {
    patch::apply(before.clone(), "x", &[read_patch(text)]).unwrap().into_config("x").unwrap()
}

fn told(found: &[Difference]) -> String {
    format!("{found:?}")
}

#[test]
fn what_people_wrote_is_shown_in_no_difference() {
    let (before, one) = (config(13, Role::ControlPlane), with(13, FREE));
    let other = with(13, &FREE.replace("hunter2", "swordfish"));
    let empty = Config::default();
    for (from, to) in [(&before, &one), (&one, &before), (&one, &other), (&empty, &one), (&one, &empty)] {
        let found = from.differences(to);
        assert!(!told(&found).contains("hunter2") && !told(&found).contains("swordfish"), "{found:#?}");
    }
    let added = before.differences(&one);
    // Names, paths and keys are shown: what it is about is no secret.
    for part in ["sec", "/var/x", "PASSWORD", "robot", "agent"] {
        assert!(told(&added).contains(part), "{part}: {added:#?}");
    }
    // Others tell that one text took the place of another.
    let changed: Vec<Difference> = one.differences(&other);
    let file = changed.iter().find(|change| change.path == "machine.files[0].content").unwrap();
    let (old, new) = (file.before.as_deref().unwrap(), file.after.as_deref().unwrap());
    assert!(old.starts_with("****** ") && new.starts_with("****** ") && old != new, "{old} {new}");
    assert_eq!(before.differences(&one), before.differences(&one), "the same text is told alike");
}

const ADDRESSES: &str = "machine:
  kubelet:
    extraConfig:
      staticPodURL: https://robot:hunter2@pods.lan/
      staticPodURLHeader: {Authorization: [Bearer hunter2]}
      maxPods: 120
  logging: {destinations: [{endpoint: 'tcp://robot:hunter2@logs.lan:514/', format: json_lines, extraTags: {key: hunter2}}]}
  registries: {mirrors: {docker.io: {endpoints: ['https://robot:hunter2@mirror.lan']}}}
cluster:
  network: {cni: {name: custom, urls: ['https://robot:hunter2@cni.lan/x.yaml']}}
  extraManifests: ['https://files.lan/y.yaml?token=hunter2']
---
apiVersion: v1alpha1
kind: KmsgLogConfig
name: remote
url: tcp://robot:hunter2@kernel.lan:514/
";

#[test]
fn an_address_shows_where_something_is_and_not_who_asks_for_it() {
    let (before, one) = (config(13, Role::ControlPlane), with(13, ADDRESSES));
    let other = with(13, &ADDRESSES.replace("hunter2", "swordfish"));
    let empty = Config::default();
    for (from, to) in [(&before, &one), (&one, &before), (&one, &other), (&empty, &one), (&one, &empty)] {
        let found = told(&from.differences(to));
        for secret in ["hunter2", "swordfish", "robot"] {
            assert!(!found.contains(secret), "{found}");
        }
    }
    let added = told(&before.differences(&one));
    for part in ["cni.lan/x.yaml", "files.lan/y.yaml?", "logs.lan:514", "mirror.lan", "kernel.lan", "120"] {
        assert!(added.contains(part), "{part}: {added}");
    }
    // A password that changed is a change, told apart by its mark.
    let changed = one.differences(&other);
    assert_eq!(changed.len(), 8, "{changed:#?}");
    for Difference { path, before, after, .. } in &changed {
        assert!(before.is_some() && after.is_some() && before != after, "{path}: {before:?} {after:?}");
    }
    let guarded = one.guarded(&Hidden::default()).to_yaml();
    assert!(!guarded.contains("hunter2") && guarded.contains("https://******@cni.lan/x.yaml"), "{guarded}");
}

#[test]
fn a_mark_of_a_text_says_nothing_to_whoever_lacks_the_secrets() {
    let content = |seed: &str| {
        let text =
            format!("cluster: {{secret: {seed}, inlineManifests: [{{name: a, contents: hunter2}}]}}\n");
        let config = with(13, &text);
        let found = Config::default().differences(&config);
        let shown = found[0].after.clone().unwrap();
        shown.lines().find(|line| line.contains("contents")).unwrap().to_owned()
    };
    assert_ne!(content("b25lIHNlY3JldA=="), content("YW5vdGhlciBvbmU="));
}

#[test]
fn what_a_variable_stood_for_is_shown_nowhere() {
    let hidden = Hidden::from_iter(["hunter2", "v1.13.9", "/dev/vdb"]);
    let free = "machine:
  kubelet: {extraArgs: {token: x-hunter2-y}}
  install: {extraKernelArgs: [a=1, token=hunter2], disk: /dev/vdb}
  sysctls: {plain: \"1\"}
";
    let (before, one) = (config(13, Role::ControlPlane), with(13, free));
    let other = with(13, &free.replace("hunter2", "swordfish").replace("a=1, ", ""));
    for (from, to, changed) in
        [(&before, &one, false), (&one, &before, false), (&one, &other, true), (&other, &one, true)]
    {
        let found = from.differences_without(to, &hidden);
        // Nobody says of the other one that it is a secret, but it stands where one does.
        assert!(!told(&found).contains("hunter2"), "{found:#?}");
        assert!(!changed || !told(&found).contains("swordfish"), "{found:#?}");
    }
    let added = told(&before.differences_without(&one, &hidden));
    assert!(added.contains("/dev/vdb") && added.contains("plain: "), "{added}");
    let guarded = one.guarded(&hidden).to_yaml();
    assert!(!guarded.contains("hunter2") && guarded.contains("/dev/vdb"), "{guarded}");
}

#[test]
fn what_people_wrote_stays_as_it_is_in_a_config_whose_secrets_are_masked() {
    let redacted = with(13, FREE).redacted().to_yaml();
    assert!(redacted.contains("stringData") && !redacted.contains("privateKey: hunter2"));
}

#[test]
fn keys_and_names_that_came_out_of_variables_are_shown_nowhere() {
    let hidden = Hidden::from_iter(["hunter2", "swordfish", "machine", "904713862"]);
    let text = "machine:
  sysctls: {hunter2: \"1\", x-swordfish: \"2\", plain: 904713862}
  kubelet: {extraConfig: {hunter2: {a: [{swordfish: 1}]}, pin: 904713862}}
---
apiVersion: v1alpha1
kind: RegistryAuthConfig
name: hunter2.lan
username: someone
";
    let (before, one) = (config(13, Role::ControlPlane), with(13, text));
    let empty = Config::default();
    let other = with(13, &text.replace("\"1\"", "\"3\"").replace("a: [", "b: ["));
    for (from, to) in [(&before, &one), (&one, &before), (&one, &other), (&empty, &one)] {
        let found = told(&from.differences_without(to, &hidden));
        for secret in ["hunter2", "swordfish", "904713862"] {
            assert!(!found.contains(secret), "{found}");
        }
    }
    let added = told(&before.differences_without(&one, &hidden));
    for part in ["machine.sysctls", "plain", "RegistryAuthConfig ****** "] {
        assert!(added.contains(part), "{part}: {added}");
    }
    let guarded = one.guarded(&hidden);
    let shown = guarded.to_yaml();
    for secret in ["hunter2", "swordfish", "904713862"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    // Two keys are still two, and Talos' own keys are what they are.
    let sysctls = guarded.at(&["machine", "sysctls"]).and_then(Value::as_map).unwrap();
    assert_eq!(sysctls.keys().collect::<Vec<_>>(), ["******", "****** 2", "plain"]);
}
