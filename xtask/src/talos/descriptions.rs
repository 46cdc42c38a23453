//! Descriptions drawn at random, rendered, and judged by Talos' own library.

use anyhow::{Context as _, bail, ensure};
use talmox_config::{Files, read_files};
use talmox_image::install::InstallImages;
use talmox_machine::Bundle;
use talmox_machine::sample::Sampler;
use talmox_render::{Inputs, PatchText, Variables, Whereabouts, render};
use talmox_types::desired::{Desired, Node, NodeAddress};
use talmox_types::{HostName, VmId};

/// How many are judged by each version.
pub(crate) const DESCRIPTIONS: usize = 64;

/// Lines that may stand in any description, each alone or with any of the others.
const LINES: [&[&str]; 16] = [
    &["", "cni: none\n", "cni: {urls: ['https://example.org/cni.yaml']}\n", "cni: {manifest: cni.yaml}\n"],
    &["", "kube_proxy: false\n"],
    &["", "allow_scheduling_on_control_planes: true\n"],
    &["", "kubespan: true\n"],
    &["", "kubeprism: false\n"],
    &[
        "",
        "registry_mirrors: {docker.io: ['https://mirror.lan', 'http://10.0.7.5:5000'], '*': ['https://all.lan']}\n",
    ],
    &["", "region: lab\n", "region: lab\nprovider_id: proxmox\n", "provider_id: uuid\n"],
    &["", "cluster_api_tls_sans: [k8s.lan, 10.0.7.9]\n"],
    &["", "dns_domain: lab.internal\n"],
    &["", "dns_servers: [10.0.7.1]\nntp_servers: [time.lan]\n"],
    &["", "guest_vlan: 30\n"],
    &["", "node_network: dhcp\n"],
    &[
        "",
        "node_routes: [{network: 10.9.0.0/16, gateway: 10.0.7.2, metric: 50}, {network: 10.7.0.0/16, gateway: 10.0.7.3}]\n",
    ],
    &["", "kernel_modules: [nbd, zfs]\n"],
    &["", "disk_encryption: tpm\n", "disk_encryption: node-id\n"],
    &[
        "",
        "extension_services:\n  - {name: nut-client, config_files: [{mount_path: /etc/nut.conf, content: 'MODE=x'}], environment: [A=b]}\n",
    ],
];

/// Settings of all nodes.
const SETTINGS: [&[&str]; 6] = [
    &["", "  mtu: 9000\n"],
    &["", "  disk_bus: virtio\n", "  disk: S3R1AL\n", "  disk: /dev/disk/by-id/x\n"],
    &["", "  labels: {tier: gold, rack: ''}\n  annotations: {a.b/c: 'd e'}\n"],
    &["", "  taints: ['gpu=yes:NoSchedule', 'slow:PreferNoSchedule']\n"],
    &[
        "",
        "  vm_disks: [{slot: 1, size: 10, mount: data}, {slot: 2, size: 20}, {slot: 3, size: 5, mount: more-data}]\n",
    ],
    &["", "  patches: [{machine: {sysctls: {vm.nr_hugepages: '1024'}}}]\n"],
];

/// A description for a version of Talos, and the contract it is for.
fn draw(sampler: &mut Sampler, version: &str, minor: u16) -> anyhow::Result<String> {
    let contract = 8 + u16::try_from(sampler.below(usize::from(minor) - 7))?;
    let mut text = format!("talos_version: {version}\ntalos_contract: \"1.{contract}\"\n");
    for choices in LINES {
        text.push_str(sampler.one_of(choices));
    }
    let two = sampler.below(3) == 0;
    if two {
        text.push_str(
            "node_cidr: [10.0.7.0/24, 'fd00:7::/64']\ncluster_pod_cidr: [10.42.0.0/16, 'fd00:42::/56']\n\
             cluster_svc_cidr: [10.43.0.0/16, 'fd00:43::/112']\n",
        );
    } else {
        text.push_str("node_cidr: 10.0.7.0/24\n");
    }
    text.push_str(match (sampler.below(3), two && contract >= 12) {
        (0, _) => "",
        (1, true) => "cluster_api_addr: [10.0.7.10, 'fd00:7::10']\n",
        _ => "cluster_api_addr: 10.0.7.10\n",
    });
    let settings: String = SETTINGS.iter().map(|choices| sampler.one_of(choices)).collect();
    if !settings.is_empty() {
        text.push_str(&format!("proxmox_vm_defaults:\n{settings}"));
    }
    let address =
        |last: u8| if two { format!("[10.0.7.{last}, 'fd00:7::{last}']") } else { format!("10.0.7.{last}") };
    text.push_str(&format!(
        "nodes:\n  - {{name: cp-1, address: {}, controller: true}}\n  - {{name: worker-1, address: {}, \
         vm_networks: [{{slot: 1, addresses: 10.8.0.14/24}}]}}\n",
        address(11),
        address(14)
    ));
    Ok(text)
}

/// One drawn description and the configs of its nodes, by name.
pub(crate) struct Case {
    pub text: String,
    pub configs: Vec<(String, String)>,
}

/// Draws and renders; both nodes of it must come out.
pub(crate) fn case(seed: u64, version: &str, minor: u16, bundle: &Bundle) -> anyhow::Result<Case> {
    let mut sampler = Sampler::new(seed + 1, minor);
    let text = draw(&mut sampler, version, minor)?;
    let outcome = read_files(Files::from_texts(&text, None));
    let Some(desired) = &outcome.desired else {
        let problems: Vec<&str> = outcome.problems.iter().map(|problem| problem.message.as_str()).collect();
        bail!("a description that is not one: {}\n{text}", problems.join("; "));
    };
    let known = sampler.below(2) == 0;
    let config = |node: &Node| {
        let config = config_of(desired, node, known, bundle).with_context(|| text.clone())?;
        Ok((node.name.to_string(), config))
    };
    let configs = desired.nodes.iter().map(config).collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(configs.len() == 2, "a description of two nodes has {}", configs.len());
    Ok(Case { text, configs })
}

fn config_of(desired: &Desired, node: &Node, known: bool, bundle: &Bundle) -> anyhow::Result<String> {
    let NodeAddress::Declared(address) = node.address else { bail!("drawn nodes have an address") };
    let mut whereabouts = Whereabouts::at(address);
    if known {
        whereabouts.vmid = Some(VmId::try_from(2000 + node.position)?);
        whereabouts.host = Some(HostName::parse("pve1")?);
        whereabouts.uuid = Some("3f0c6a1e-0000-4000-8000-000000000001".to_owned());
    }
    let patch = |(index, patch): (usize, &talmox_types::desired::Patch)| match patch {
        talmox_types::desired::Patch::Inline(text) => {
            Ok(PatchText { name: format!("patch {index}"), text: text.clone() })
        }
        talmox_types::desired::Patch::File(path) => bail!("no drawn patch is a file: {path}"),
    };
    let patches = node.patches.iter().enumerate().map(patch).collect::<anyhow::Result<Vec<_>>>()?;
    let rendered = render(&Inputs {
        desired,
        node,
        bundle,
        whereabouts: &whereabouts,
        install_images: &InstallImages::default(),
        patches: &patches,
        cni_manifest: Some("apiVersion: v1\nkind: Namespace\nmetadata: {name: cni}\n"),
        variables: &Variables::default(),
    })?;
    Ok(rendered.config.to_yaml())
}
