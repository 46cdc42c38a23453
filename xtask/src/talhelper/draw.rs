//! Drawn `talconfig.yaml` files.

use talmox_machine::sample::Sampler;

/// The variable they may have, and its value.
pub(super) const VARIABLE: (&str, &str) = ("LAB_WORD", "word");

/// Lines of the whole, each alone or with any of the others.
const CLUSTER: [&[&str]; 9] = [
    &["", "domain: lab.internal\n", "domain: ${LAB_WORD}.internal\n"],
    &["", "allowSchedulingOnMasters: true\n", "allowSchedulingOnControlPlanes: true\n"],
    &["", "additionalMachineCertSans: [10.0.7.9, m.lan]\n"],
    &["", "additionalApiServerCertSans: [k8s.lan]\n"],
    &["", "clusterPodNets: [10.42.0.0/16]\nclusterSvcNets: [10.43.0.0/16]\n"],
    &[
        "",
        "cniConfig: {name: none}\n",
        "cniConfig: {name: flannel}\n",
        "cniConfig: {name: custom, urls: ['https://example.org/cni.yaml']}\n",
    ],
    &["", "inlineManifests:\n  - {name: ns, contents: \"kind: Namespace\\nmetadata: {name: x}\\n\"}\n"],
    &[
        "",
        "patches:\n  - |\n    machine:\n      sysctls:\n        vm.nr_hugepages: \"1024\"\n",
        "patches:\n  - |\n    machine:\n      env:\n        WORD: ${LAB_WORD}\n  - |\n    cluster:\n      apiServer:\n        extraArgs:\n          v: \"2\"\n",
    ],
    &[
        "",
        "worker:\n  nodeLabels: {tier: gold}\n  kernelModules: [{name: nbd}]\n  certSANs: [w.lan]\n",
        "worker:\n  patches:\n    - |\n      machine:\n        kubelet:\n          extraArgs:\n            max-pods: \"200\"\n",
        "controlPlane:\n  nodeAnnotations: {a.b/c: d e}\n  certSANs: [cp.lan]\n  patches:\n    - |\n      machine:\n        features:\n          rbac: true\n",
    ],
];

/// Lines of a node.
const NODE: [&[&str]; 11] = [
    &[
        "    installDisk: /dev/sda\n",
        "    installDisk: /dev/vda\n",
        "    installDiskSelector: {model: QEMU*}\n",
    ],
    &["", "    nodeLabels: {rack: one, zone: ''}\n"],
    &["", "    nodeAnnotations: {example.org/x: '${LAB_WORD}'}\n"],
    &["", "    nodeTaints: {dedicated: 'gpu:NoSchedule', spot: PreferNoSchedule}\n"],
    &[
        "",
        "    machineFiles:\n      - {content: 'A=${LAB_WORD}', permissions: 0o644, path: /var/etc/x, op: create}\n",
    ],
    &[
        "",
        "    kernelModules: [{name: zfs}, {name: nbd}]\n",
        "    kernelModules: [{name: br_netfilter, parameters: [nf_conntrack_max=131072]}]\n",
    ],
    &["", "    disableSearchDomain: true\n"],
    &["", "    certSANs: [10.0.7.8]\n", "    certSANs: [n.lan]\n    overrideMachineCertSANs: true\n"],
    &[
        "",
        "    extensionServices:\n      - {name: nut-client, configFiles: [{content: MODE=x, mountPath: /etc/nut.conf}], environment: [A=b]}\n",
    ],
    &[
        "",
        "    ingressFirewall:\n      defaultAction: block\n      rules:\n        - name: apid\n          portSelector: {ports: [50000, 10250-10260], protocol: tcp}\n          ingress: [{subnet: 10.0.7.0/24, except: 10.0.7.1/32}]\n",
    ],
    &[
        "",
        "    patches:\n      - |\n        machine:\n          sysctls:\n            net.core.somaxconn: \"65535\"\n",
        "    overridePatches: true\n    patches:\n      - |\n        machine:\n          env: {OWN: \"1\"}\n",
    ],
];

/// Documents that came with a release.
const SINCE_1_11: [&str; 2] = [
    "    userVolumes:\n      - {name: data, provisioning: {diskSelector: {match: '!system_disk'}, minSize: 10GiB}, filesystem: {type: xfs}}\n",
    "    volumes:\n      - {name: EPHEMERAL, provisioning: {diskSelector: {match: system_disk}, maxSize: 50GiB}}\n",
];

pub(super) fn talconfig(sampler: &mut Sampler) -> String {
    let (talos, kubernetes, minor) = [
        ("v1.8.4", "v1.31.4", 8),
        ("v1.9.6", "v1.32.4", 9),
        ("v1.10.9", "v1.33.6", 10),
        ("v1.11.6", "v1.34.1", 11),
        ("v1.12.6", "v1.35.0", 12),
        ("v1.13.9", "v1.36.3", 13),
    ][sampler.below(6)];
    let mut text = format!(
        "clusterName: lab\ntalosVersion: {talos}\nkubernetesVersion: {kubernetes}\nendpoint: https://10.0.7.10:6443\n"
    );
    for choices in CLUSTER {
        text.push_str(sampler.one_of(choices));
    }
    let name_servers = sampler.one_of(&["", "    nameservers: [10.0.7.1, 1.1.1.1]\n"]);
    text.push_str("nodes:\n");
    for (name, last, controls) in [("cp-1", 11, true), ("w-1", 21, false), ("w-2", 22, false)] {
        text.push_str(&format!(
            "  - hostname: {name}\n    ipAddress: 10.0.7.{last}\n    controlPlane: {controls}\n"
        ));
        text.push_str(name_servers);
        text.push_str(&interface(sampler, last, controls));
        for choices in NODE {
            text.push_str(sampler.one_of(choices));
        }
        if minor >= 11 && sampler.below(2) == 0 {
            text.push_str(sampler.one_of(&SINCE_1_11));
        }
    }
    text
}

fn interface(sampler: &mut Sampler, last: u8, controls: bool) -> String {
    let vip = if controls && sampler.below(2) == 0 { ", vip: {ip: 10.0.7.10}" } else { "" };
    let device = match sampler.below(3) {
        0 => return String::new(),
        1 => "interface: eth0".to_owned(),
        _ => format!("deviceSelector: {{hardwareAddr: 'bc:24:11:00:00:{last}'}}"),
    };
    format!(
        "    networkInterfaces:\n      - {{{device}, addresses: [10.0.7.{last}/24], \
         routes: [{{network: 0.0.0.0/0, gateway: 10.0.7.1}}]{vip}}}\n"
    )
}
