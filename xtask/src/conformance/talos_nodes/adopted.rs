//! talmox at a cluster it had no part in: the real `talosctl` made its secrets and configurations, gave them to machines
//! somebody else made, and bootstrapped it.

use std::path::Path;

use super::cluster::{Cluster, name};
use super::layout::Layout;
use super::own::talmox;
use super::programs::Talosctl;
use super::steps;
use crate::scratch::Scratch;

/// Runs everything; gives the number of calls.
pub(super) fn run(own: &Path, talosctl: &Path, cluster: &Cluster) -> anyhow::Result<usize> {
    let (layout, scratch) = (&cluster.layout, Scratch::new("talos-adopt")?);
    let talosconfig = scratch.path().join("talosconfig");
    let mut talosctl = Talosctl::new(talosctl, scratch.path(), talosconfig, layout.first());
    talosctl.ask(&["gen", "secrets"])?.well(&[])?;
    steps::generate(&mut talosctl, &["--with-secrets", "secrets.yaml"])?;
    steps::configure(&mut talosctl, layout)?;
    steps::bootstrap(&mut talosctl, layout)?;
    steps::look(&mut talosctl, layout)?;

    let (endpoint, authority, token) = cluster.proxmox()?;
    scratch.write("proxmox.pem", authority)?;
    scratch.write("token", token)?;
    scratch.write("as-generated.yaml", AS_GENERATED)?;
    scratch.write("cluster.yaml", &description(&endpoint, layout))?;
    let own = talmox(own, scratch.path());
    own.ask(&["adopt", "--all-matching", "--auto-approve"])?.well(&["4 VMs adopted"])?;
    own.ask(&["plan"])?.well(&["No changes."])?;
    for number in 0..=layout.control_planes.len() {
        own.ask(&["diff", &name(number)])?.well(&["No differences"])?;
    }
    own.ask(&["health"])?.well(&[])?;
    own.ask(&["apply", "--auto-approve"])?.well(&["No changes."])?;
    Ok(talosctl.calls)
}

/// What is not in configurations as `talosctl gen config` makes them, and talmox would add.
const AS_GENERATED: &str = "machine:
  kubelet:
    nodeIP: {$patch: delete}
---
apiVersion: v1alpha1
kind: HostnameConfig
$patch: delete
---
apiVersion: v1alpha1
kind: ResolverConfig
$patch: delete
---
apiVersion: v1alpha1
kind: TimeSyncConfig
$patch: delete
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: net0
$patch: delete
---
apiVersion: v1alpha1
kind: LinkConfig
name: net0
$patch: delete
";

fn description(endpoint: &str, layout: &Layout) -> String {
    let nodes = layout.everybody().enumerate().map(|(index, address)| {
        let controller = index < layout.control_planes.len();
        format!("  - {{name: {}, address: {address}, controller: {controller}}}\n", name(index))
    });
    let nodes: String = nodes.collect();
    let (version, first) = (layout.version, layout.first());
    let (network, gateway) = (layout.address(0), layout.address(1));
    format!(
        "cluster_name: lab
cluster_uid: \"5d2c9e7f10ab4368\"
proxmox_endpoint: {endpoint}
proxmox_ca_file: proxmox.pem
proxmox_api_token: file:token
proxmox_storage: local-zfs
proxmox_pool: none
node_cidr: {network}/24
node_gateway: {gateway}
cluster_endpoint: https://{first}:6443
cluster_pod_cidr: 10.244.0.0/16
cluster_svc_cidr: 10.96.0.0/12
talos_version: {version}
install_images:
  default: ghcr.io/siderolabs/installer:v{version}
patches:
  - as-generated.yaml
  - {{apiVersion: v1alpha1, kind: HostnameConfig, auto: stable}}
proxmox_vm_controller_defaults:
  patches:
    - cluster: {{etcd: {{advertisedSubnets: {{$patch: delete}}}}}}
nodes:
{nodes}"
    )
}
