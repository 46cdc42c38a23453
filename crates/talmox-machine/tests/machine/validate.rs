//! What Talos would refuse, by example.

use talmox_machine::Role;
use talmox_machine::validate::{Mode, Severity};
use talmox_machine::{Config, patch};

use crate::{config, contract, parse, read_patch};

/// Errors of a generated config once a patch is applied.
fn errors(minor: u16, role: Role, mode: Mode, text: &str) -> Vec<String> {
    let patched = patch::apply(config(minor, role), "base", &[read_patch(text)]).unwrap();
    list(&patched.into_config("base").unwrap(), mode, minor)
}

fn list(config: &Config, mode: Mode, minor: u16) -> Vec<String> {
    let problems = config.validate(mode, contract(minor));
    problems.iter().filter(|one| one.severity == Severity::Error).map(ToString::to_string).collect()
}

const LEGACY: &str = "the document with machine and cluster";

#[test]
#[expect(clippy::too_many_lines, reason = "a table: what is patched in, and what is said about it")]
fn each_rule_is_found_where_it_is_broken() {
    use Role::{ControlPlane, Worker};
    let table: [(u16, Role, &str, &str); 26] = [
        (13, Worker, "persist: false", "persist: must not be false"),
        (
            13,
            Worker,
            "machine: {ca: {crt: YQ==, key: YQ==}}",
            "machine.ca.key: only control planes may have it",
        ),
        (13, ControlPlane, "machine: {ca: {crt: YQ==}}", "machine.ca.key: a control plane needs it"),
        (
            13,
            Worker,
            "machine: {install: {extraKernelArgs: [a=b]}}",
            "machine.install.extraKernelArgs: excludes machine.install.grubUseUKICmdline; put kernel arguments into the schematic",
        ),
        (
            13,
            Worker,
            "machine: {kubelet: {extraConfig: {port: 1}}}",
            "machine.kubelet.extraConfig.port: Talos decides this itself",
        ),
        (
            13,
            Worker,
            "machine: {kubelet: {nodeIP: {validSubnets: ['!10.0.0.0/8', nonsense]}}}",
            "machine.kubelet.nodeIP.validSubnets[1]: is no address or subnet",
        ),
        (
            13,
            Worker,
            "machine: {nodeLabels: {'bad key!': x}}",
            "machine.nodeLabels.bad key!: is no label Kubernetes takes",
        ),
        (
            13,
            Worker,
            "machine: {network: {hostname: a}}",
            "machine.network.hostname: excludes the document HostnameConfig; set auto: \"off\" and hostname there",
        ),
        (
            13,
            Worker,
            "machine: {network: {interfaces: [{interface: eth0, vip: {ip: 10.0.0.9}}]}}",
            "machine.network.interfaces[0].vip: is for control planes only",
        ),
        (
            13,
            Worker,
            "machine: {network: {interfaces: [{mtu: 1}]}}",
            "machine.network.interfaces[0]: needs either interface or deviceSelector",
        ),
        (
            13,
            Worker,
            "machine: {network: {interfaces: [{interface: eth0, routes: [{metric: 1}]}]}}",
            "machine.network.interfaces[0].routes[0]: needs network or gateway",
        ),
        (
            13,
            Worker,
            "machine: {network: {interfaces: [{interface: bond0, bond: {interfaces: [eth0], mode: 802.3ad, miimon: 100, updelay: 150}}]}}",
            "machine.network.interfaces[0].bond.updelay: is a multiple of miimon",
        ),
        (
            13,
            Worker,
            "machine: {network: {interfaces: [{interface: br0, bridge: {interfaces: [eth0]}}, {interface: eth0, dhcp: true}]}}",
            "machine.network.interfaces[1]: is part of a bond or bridge and so has no addresses of its own",
        ),
        (
            13,
            ControlPlane,
            "cluster: {network: {cni: {name: cilium}}}",
            "cluster.network.cni.name: is flannel, custom or none",
        ),
        (
            13,
            ControlPlane,
            "cluster: {network: {cni: {name: none, urls: ['https://x']}}}",
            "cluster.network.cni.urls: is for `custom` only",
        ),
        (
            13,
            ControlPlane,
            "cluster: {etcd: {advertisedSubnets: [x]}}",
            "cluster.etcd.advertisedSubnets[0]: is no address or subnet",
        ),
        (
            13,
            ControlPlane,
            "cluster: {inlineManifests: [{name: a, contents: ''}, {name: a, contents: ''}]}",
            "cluster.inlineManifests[1].name: is there twice",
        ),
        (13, Worker, "cluster: {etcd: {ca: {crt: YQ==}}}", "cluster.etcd: is for control planes only"),
        (
            13,
            Worker,
            "machine: {systemDiskEncryption: {state: {provider: luks2, keys: [{slot: 0, nodeID: {}}, {slot: 0, tpm: {}}]}}}",
            "machine.systemDiskEncryption.state.keys[1].slot: is there twice",
        ),
        (
            14,
            Worker,
            "machine: {kubelet: {extraArgs: {v: '2'}}}",
            "machine.kubelet: excludes the document KubeletConfig; say it there, or use the contract 1.13",
        ),
        (
            14,
            ControlPlane,
            "cluster: {network: {cni: {name: none}}}",
            "cluster.network: excludes the document KubeNetworkConfig; say it there, or use the contract 1.13",
        ),
        (
            13,
            Worker,
            "machine: {logging: {destinations: [{endpoint: 'http://x', format: json_lines}]}}",
            "machine.logging.destinations[0].endpoint: begins with tcp:// or udp://",
        ),
        (
            13,
            Worker,
            "machine: {nodeTaints: {a: Never}}",
            "machine.nodeTaints.a: is no taint: `Effect` or `value:Effect`, where Effect is NoSchedule, PreferNoSchedule or NoExecute",
        ),
        (
            13,
            ControlPlane,
            "cluster: {controlPlane: {endpoint: 'http://x'}}",
            "cluster.controlPlane.endpoint: is https:// and a host",
        ),
        (
            13,
            Worker,
            "machine: {features: {nodeAddressSortAlgorithm: v3}}",
            "machine.features.nodeAddressSortAlgorithm: is v1 or v2",
        ),
        (
            13,
            Worker,
            "machine: {disks: [{device: /dev/sdb, partitions: [{mountpoint: /a}, {size: 1GB}]}]}",
            "machine.disks[0]: a partition without a size takes the whole disk and so comes last",
        ),
    ];
    for (minor, role, text, expected) in table {
        let found = errors(minor, role, Mode::Metal, text);
        assert!(found.contains(&format!("{LEGACY}: {expected}")), "{text}: {found:?}");
    }
}

#[test]
fn documents_have_rules_of_their_own() {
    let table = [
        (
            "HostnameConfig",
            "hostname: a\n",
            "HostnameConfig: hostname: excludes automatic names: set auto to \"off\"",
        ),
        (
            "VLANConfig",
            "name: v\nvlanID: 5000\nparent: eth0\n",
            "VLANConfig v: vlanID: is a number from 1 to 4094",
        ),
        ("BondConfig", "name: b\nbondMode: 802.3ad\n", "BondConfig b: links: is empty"),
        ("Layer2VIPConfig", "name: a\nlink: eth0\n", "Layer2VIPConfig a: name: is the virtual address"),
        (
            "LinkConfig",
            "name: a\nroutes: [{destination: 0.0.0.0/0}]\n",
            "LinkConfig a: routes[0].destination: must not be all zeros; leave it out",
        ),
        ("VolumeConfig", "name: OTHER\n", "VolumeConfig OTHER: name: is one of EPHEMERAL, IMAGECACHE, STATE"),
        (
            "VolumeConfig",
            "name: STATE\nencryption: {provider: luks2, keys: [{slot: 0, tpm: {}, lockToState: true}]}\n",
            "VolumeConfig STATE: encryption.keys: STATE cannot be locked to itself (lockToState)",
        ),
        (
            "UserVolumeConfig",
            "name: data\nprovisioning: {minSize: 2GB, maxSize: 1GB, diskSelector: {match: system_disk}}\n",
            "UserVolumeConfig data: provisioning.minSize: is more than maxSize",
        ),
        (
            "UserVolumeConfig",
            "name: data\nvolumeType: directory\nfilesystem: {type: xfs}\n",
            "UserVolumeConfig data: filesystem: is not for directories",
        ),
        (
            "UserVolumeConfig",
            "name: data\n",
            "UserVolumeConfig data: provisioning.diskSelector.match: is missing",
        ),
        ("KubeSpanConfig", "mtu: 1000\n", "KubeSpanConfig: mtu: is at least 1280"),
    ];
    for (kind, rest, expected) in table {
        let text = format!("apiVersion: v1alpha1\nkind: {kind}\n{rest}");
        let found = errors(13, Role::Worker, Mode::Cloud, &text);
        assert!(found.contains(&expected.to_owned()), "{text}: {found:?}");
    }
    let network = "apiVersion: v1alpha1\nkind: KubeNetworkConfig\npodSubnets: [10.0.0.0/8, 10.1.2.3/16]\nserviceSubnets: [10.96.0.0/8]\n";
    assert_eq!(
        errors(14, Role::Worker, Mode::Cloud, network),
        [
            "KubeNetworkConfig: podSubnets: is one subnet, or one of each family",
            "KubeNetworkConfig: podSubnets[1]: has bits for hosts set",
            "KubeNetworkConfig: serviceSubnets[0]: has bits for hosts set",
            "KubeNetworkConfig: serviceSubnets: are as many as podSubnets",
            "KubeNetworkConfig: serviceSubnets: has more than 20 bits for hosts",
        ]
    );
}

#[test]
fn a_version_refuses_what_came_after_it() {
    let newer = config(14, Role::Worker);
    let found = list(&newer, Mode::Cloud, 13);
    assert!(
        found.contains(&"KubeletConfig: Talos 1.13 does not know this document, 1.14 does".to_owned()),
        "{found:?}"
    );
    let found = list(&config(13, Role::Worker), Mode::Cloud, 11);
    assert!(
        found.contains(&format!(
            "{LEGACY}: machine.install.grubUseUKICmdline: Talos 1.11 does not know this field, 1.12 does"
        )),
        "{found:?}"
    );
    // The other way round all is well: Talos reads the layouts of its past.
    assert!(list(&config(10, Role::ControlPlane), Mode::Cloud, 14).is_empty());
}

#[test]
fn a_line_of_talos_runs_some_versions_of_kubernetes() {
    let kubelet = "machine: {kubelet: {image: 'ghcr.io/siderolabs/kubelet:v1.20.1@sha256:0'}}";
    let path = "machine.kubelet.image";
    assert_eq!(
        errors(13, Role::Worker, Mode::Cloud, kubelet),
        [format!("{LEGACY}: {path}: Talos 1.13 does not run Kubernetes 1.20.1")]
    );
    let untagged = "machine: {kubelet: {image: kubelet}}";
    assert_eq!(
        errors(13, Role::Worker, Mode::Cloud, untagged),
        [format!("{LEGACY}: {path}: has no tag with the version of Kubernetes")]
    );
}

#[test]
fn fields_are_checked_by_a_table() {
    let table = [
        (
            "KmsgLogConfig",
            "name: a\nurl: 'https://x:1'\n",
            "KmsgLogConfig a: url: is a URL that begins with tcp or udp",
        ),
        (
            "WatchdogTimerConfig",
            "device: /dev/watchdog0\ntimeout: 1s\n",
            "WatchdogTimerConfig: timeout: is at least 10s",
        ),
        ("StaticHostConfig", "name: a\nhostnames: [b]\n", "StaticHostConfig a: name: is an address"),
        ("StaticHostConfig", "name: 10.0.0.1\n", "StaticHostConfig 10.0.0.1: hostnames: is empty"),
        (
            "NetworkRuleConfig",
            "name: a\nportSelector: {ports: [80-90, 85], protocol: tcp}\n",
            "NetworkRuleConfig a: portSelector.ports: overlap, or go backwards",
        ),
        (
            "EnvironmentConfig",
            "variables: {1a: b}\n",
            "EnvironmentConfig: variables.1a: is no name of a variable",
        ),
        (
            "DHCPv4Config",
            "name: eth0\nclientIdentifier: duid\n",
            "DHCPv4Config eth0: duidRaw: and clientIdentifier duid need each other",
        ),
        (
            "RegistryAuthConfig",
            "name: a\nusername: b\nauth: c\n",
            "RegistryAuthConfig a: has username and password, auth, or identityToken: one of them",
        ),
        ("VRFConfig", "name: a\ntable: main\n", "VRFConfig a: table: is a table of its own, with a number"),
        ("RoutingRuleConfig", "name: a\ntable: '100'\n", "RoutingRuleConfig a: name: is a number"),
        ("ExtensionServiceConfig", "name: a\n", "ExtensionServiceConfig a: needs configFiles or environment"),
    ];
    for (kind, rest, expected) in table {
        let text = format!("apiVersion: v1alpha1\nkind: {kind}\n{rest}");
        assert_eq!(errors(13, Role::Worker, Mode::Cloud, &text), [expected], "{text}");
    }
}

#[test]
fn modes_differ() {
    let no_install = "machine: {install: {$patch: delete}}";
    assert_eq!(errors(13, Role::Worker, Mode::Cloud, no_install), Vec::<String>::new());
    assert_eq!(
        errors(13, Role::Worker, Mode::Metal, no_install),
        [format!("{LEGACY}: machine.install: is missing")]
    );
    let no_dns = "machine: {features: {hostDNS: {$patch: delete}}}";
    assert_eq!(errors(13, Role::Worker, Mode::Cloud, no_dns), Vec::<String>::new());
    assert_eq!(
        errors(13, Role::Worker, Mode::Container, no_dns),
        ["the config: in a container hostDNS and its forwardKubeDNSToHost have to be enabled"]
    );
}

#[test]
fn documents_of_control_planes_are_for_control_planes() {
    let proxy = "apiVersion: v1alpha1\nkind: KubeProxyConfig\nenabled: false\n";
    assert_eq!(errors(14, Role::Worker, Mode::Cloud, proxy), ["KubeProxyConfig: is for control planes only"]);
    let no_key = "apiVersion: v1alpha1\nkind: KubeEtcdEncryptionConfig\n$patch: delete\n";
    assert_eq!(
        errors(14, Role::ControlPlane, Mode::Cloud, no_key),
        [
            "the config: a control plane needs to know what secrets are encrypted with (KubeEtcdEncryptionConfig)"
        ]
    );
}

/// Before 1.14 Talos asks for discovery only where KubeSpan is in the section of `machine`.
#[test]
fn kubespan_without_discovery_is_refused_where_talos_does() {
    let document =
        "machine: {type: worker}\n---\napiVersion: v1alpha1\nkind: KubeSpanConfig\nenabled: true\n";
    let section = "machine: {type: worker, network: {kubespan: {enabled: true}}}\n";
    for (text, minor, refused) in [(document, 13, false), (document, 14, true), (section, 13, true)] {
        let problems = parse(text).validate(Mode::Cloud, contract(minor));
        let said = problems.iter().any(|problem| problem.message == "KubeSpan needs discovery");
        assert_eq!(said, refused, "1.{minor}: {problems:?}");
    }
}
