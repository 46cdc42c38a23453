//! Configs of every contract.

use std::collections::{BTreeMap, BTreeSet};

use talmox_machine::validate::{Mode, Severity};
use talmox_machine::{Config, InputError, Options, Role, Value};

use crate::{CONTRACTS, config, contract, input, parse};

fn kinds(config: &Config) -> Vec<&str> {
    config.documents().iter().map(talmox_machine::Document::kind).collect()
}

#[test]
fn what_is_printed_reads_back_as_the_same_config() {
    for minor in CONTRACTS {
        for role in [Role::ControlPlane, Role::Worker] {
            let config = config(minor, role);
            assert_eq!(parse(&config.to_yaml()), config, "1.{minor} {role:?}");
        }
    }
}

#[test]
fn talos_would_take_every_generated_config() {
    for minor in CONTRACTS {
        for role in [Role::ControlPlane, Role::Worker] {
            for mode in [Mode::Metal, Mode::Cloud, Mode::Container] {
                let problems = config(minor, role).validate(mode, contract(minor));
                let errors: Vec<_> = problems.iter().filter(|one| one.severity == Severity::Error).collect();
                assert!(errors.is_empty(), "1.{minor} {role:?} {mode:?}: {errors:?}");
            }
        }
    }
}

#[test]
fn a_contract_decides_the_documents() {
    assert_eq!(kinds(&config(11, Role::Worker)), [""]);
    assert_eq!(kinds(&config(12, Role::Worker)), ["", "HostnameConfig"]);
    let kinds14 = config(14, Role::Worker);
    assert_eq!(
        kinds(&kinds14),
        [
            "",
            "DiscoveryServiceConfig",
            "DiscoveryIdentityConfig",
            "UnattendedInstallConfig",
            "ResolverConfig",
            "VolumeConfig",
            "FilesystemTrimConfig",
            "SecurityProfileConfig",
            "HostnameConfig",
            "KubeClusterConfig",
            "KubeNodeConfig",
            "KubeletConfig",
            "KubeNetworkConfig",
            "KubeAPIServerCAConfig",
            "KubePrismConfig",
        ]
    );
}

#[test]
fn a_contract_after_the_newest_is_as_the_newest() {
    let mut newer = input(14, Options::default());
    newer.contract = contract(15);
    assert_eq!(
        newer.generate(Role::Worker).unwrap(),
        input(14, Options::default()).generate(Role::Worker).unwrap()
    );
}

#[test]
fn workers_have_no_key_of_any_authority() {
    for minor in CONTRACTS {
        let text = config(minor, Role::Worker).to_yaml();
        assert!(!text.contains("PRIVATE KEY"), "1.{minor}");
        // "-----BEGIN EC PRIVATE KEY" and "-----BEGIN ED25519 PRIVATE" in base64.
        assert!(!text.contains("LS0tLS1CRUdJTiBFQy") && !text.contains("LS0tLS1CRUdJTiBFRDI1"), "1.{minor}");
    }
}

#[test]
fn every_option_finds_its_place_in_either_layout() {
    let options = Options {
        debug: true,
        additional_sans: vec!["api.example.com".to_owned()],
        allow_scheduling_on_control_planes: true,
        install_disk: Some("/dev/vda".to_owned()),
        install_image: Some("factory.example/installer:v1".to_owned()),
        local_api_server_port: Some(5443),
        sysctls: BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "1".to_owned())]),
        cni_urls: vec!["https://example.com/cni.yaml".to_owned()],
        registry_mirrors: BTreeMap::from([("docker.io".to_owned(), vec!["https://mirror".to_owned()])]),
        registry_certificates: BTreeMap::from([("reg".to_owned(), "PEM".to_owned())]),
        insecure_registries: BTreeSet::from(["other".to_owned()]),
        discovery: false,
        kubespan: Some(true),
        kubeprism_port: None,
        ..Options::default()
    };
    let old = input(11, options.clone()).generate(Role::ControlPlane).unwrap();
    let text = |path: &[&str]| old.at(path).and_then(Value::as_text).map(str::to_owned);
    assert_eq!(text(&["machine", "install", "image"]).as_deref(), Some("factory.example/installer:v1"));
    assert_eq!(text(&["machine", "sysctls", "net.ipv4.ip_forward"]).as_deref(), Some("1"));
    assert!(old.at(&["machine", "registries", "mirrors", "docker.io"]).is_some());
    assert!(old.at(&["machine", "registries", "config", "other", "tls", "insecureSkipVerify"]).is_some());
    assert!(old.at(&["machine", "network", "kubespan", "enabled"]).is_some());
    assert!(old.at(&["machine", "features", "kubePrism"]).is_none());
    let names = old.at(&["cluster", "apiServer", "certSANs"]).and_then(Value::as_list).unwrap();
    assert_eq!(names.iter().filter_map(Value::as_text).collect::<Vec<_>>(), ["10.0.0.1", "api.example.com"]);

    let new = input(14, options).generate(Role::ControlPlane).unwrap();
    let kinds = kinds(&new);
    for present in [
        "SysctlConfig",
        "RegistryMirrorConfig",
        "RegistryTLSConfig",
        "KubeSpanConfig",
        "KubeExternalManifestConfig",
    ] {
        assert!(kinds.contains(&present), "{present}");
    }
    for absent in ["DiscoveryServiceConfig", "KubePrismConfig", "KubeFlannelCNIConfig"] {
        assert!(!kinds.contains(&absent), "{absent}");
    }
    assert_eq!(
        new.of_kind("RegistryTLSConfig").filter_map(|one| one.name()).collect::<Vec<_>>(),
        ["other", "reg"]
    );
    assert!(new.document("KubeNodeConfig").unwrap().at(&["taints"]).is_none());
    let wipe = new
        .document("UnattendedInstallConfig")
        .unwrap()
        .at(&["provisioning", "wipe"])
        .and_then(Value::as_bool);
    assert_eq!(wipe, Some(false));
}

#[test]
fn inputs_no_config_can_be_made_of_are_refused() {
    let made = |change: fn(&mut talmox_machine::Input<'_>)| {
        let mut input = input(13, Options::default());
        change(&mut input);
        input.generate(Role::Worker).map(|_| ()).unwrap_err()
    };
    assert_eq!(made(|input| input.contract = contract(7)), InputError::Contract("1.7".to_owned()));
    for endpoint in ["http://a", "https://", "https://a:0", "https://a:99999", "a:6443", "https://[::1"] {
        let mut input = input(13, Options::default());
        endpoint.clone_into(&mut input.endpoint);
        assert_eq!(
            input.generate(Role::Worker),
            Err(InputError::Endpoint(endpoint.to_owned())),
            "{endpoint}"
        );
    }
    assert_eq!(made(|input| "v".clone_into(&mut input.kubernetes)), InputError::Kubernetes);
    assert_eq!(
        made(|input| input.options.pod_subnets = vec!["10.0.0.0".to_owned()]),
        InputError::Subnet("10.0.0.0".to_owned())
    );
    assert_eq!(
        made(|input| input.options.cni_urls = vec![":x".to_owned()]),
        InputError::Url(":x".to_owned())
    );
}
