//! talmox at a cluster of talhelper: the real one makes secrets, configurations and talosconfig from a `talconfig.yaml` as people have it,
//! with the secrets encrypted by the real `sops`, and `talosctl` gives them to machines, as `talhelper gencommand` says.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, ensure};

use super::adoption::Adoption;
use super::cluster::{Cluster, mac};
use super::layout::Layout;
use super::own::talmox;
use super::programs::{Program, Talosctl};
use super::sealed::{self, Keys};
use super::steps;
use crate::scratch::Scratch;

const CLUSTER: &str = "lab";
/// Where Talos listens.
const TALOS_PORT: u16 = 50_000;
/// The names of the nodes, in the order of the layout. Their VMs have others.
const NAMES: [&str; 4] = ["cp-1", "cp-2", "cp-3", "w-1"];

/// What they all have.
const HEAD: &str = "\
additionalApiServerCertSans: [k8s.lab.internal]
additionalMachineCertSans: [SHARED, talos.lab.internal]
domain: lab.internal
allowSchedulingOnControlPlanes: false
clusterPodNets: [10.42.0.0/16]
clusterSvcNets: [10.43.0.0/16]
patches:
  - |-
    machine:
      sysctls:
        net.core.somaxconn: \"65535\"
      kubelet:
        extraArgs:
          rotate-server-certificates: \"true\"
  - |-
    apiVersion: v1alpha1
    kind: RegistryMirrorConfig
    name: docker.io
    endpoints:
      - url: https://mirror.lab.internal
  - \"@./patches/registry.yaml\"
controlPlane:
  schematic:
    customization:
      extraKernelArgs: [net.ifnames=0]
      systemExtensions:
        officialExtensions: [siderolabs/qemu-guest-agent]
  nodeLabels: {pool: planes}
  patches:
    - |-
      cluster:
        apiServer:
          extraArgs:
            feature-gates: MutatingAdmissionPolicy=true
        controllerManager:
          extraArgs:
            bind-address: 0.0.0.0
  extensionServices:
    - name: nut-client
      environment: [A=b]
worker:
  schematic:
    customization:
      systemExtensions:
        officialExtensions: [siderolabs/iscsi-tools, siderolabs/qemu-guest-agent]
  kernelModules: [{name: nbd}]
  nodeTaints: {dedicated: \"storage:NoSchedule\"}
  nodeLabels: {tier: gold, rack: one}
nodes:
";

/// A patch with a secret in it, which talhelper takes from its environment.
const REGISTRY: &str = "\
apiVersion: v1alpha1
kind: RegistryAuthConfig
name: registry.lab.internal
username: robot
password: ${REGISTRY_PASSWORD}
";

/// Programs of others, and ours.
pub(super) struct Peers<'a> {
    pub(super) own: &'a Path,
    pub(super) talhelper: &'a Path,
    pub(super) talosctl: &'a Path,
    pub(super) sops: &'a Path,
}

/// Runs everything; gives the number of calls.
pub(super) fn run(peers: &Peers<'_>, cluster: &Cluster) -> anyhow::Result<usize> {
    let (layout, scratch) = (&cluster.layout, Scratch::new("talos-adopt-talhelper")?);
    let keys = Keys::new(&scratch)?;
    generate(peers, &scratch, layout, &keys)?;
    let talosconfig = scratch.path().join("clusterconfig/talosconfig");
    let mut talosctl = Talosctl::new(peers.talosctl, scratch.path(), talosconfig, layout.first());
    for (node, name) in layout.everybody().zip(NAMES) {
        let (node, file) = (node.to_string(), format!("clusterconfig/{CLUSTER}-{name}.yaml"));
        talosctl.wait(&["version", "--insecure", "-n", &node], &["Tag:"])?;
        talosctl.ask(&["apply-config", "--insecure", "-n", &node, "--file", &file])?.well(&[])?;
    }
    let first = scratch.read(&format!("clusterconfig/{CLUSTER}-{}.yaml", NAMES[0]))?;
    scratch.write("controlplane.yaml", &first)?;
    steps::bootstrap(&mut talosctl, layout)?;
    steps::look(&mut talosctl, layout)?;

    let own = talmox(peers.own, scratch.path());
    let names = NAMES.map(str::to_owned).to_vec();
    let adoption = Adoption { own: &own, scratch: &scratch, cluster, names };
    refused(&adoption, peers.talhelper, &scratch)?;
    // With talhelper's talosconfig, and with its secrets at the address the control planes share.
    adoption.describe("by-talosconfig", &["--talosconfig", "clusterconfig/talosconfig"])?;
    let shared = layout.address(10).to_string();
    adoption.describe("lab", &["--secrets", "talsecret.yaml", "--nodes", &shared])?;
    same(&scratch, "by-talosconfig", "lab")?;
    let with_key = Program { environment: keys.with(&own.environment), ..talmox(peers.own, scratch.path()) };
    let sealed = Adoption { own: &with_key, names: adoption.names.clone(), ..adoption };
    sealed::described(&adoption, &sealed, peers.sops, &keys)?;
    adoption.mark("lab")?;
    adoption.unchanged("lab", &mut talosctl)?;
    sealed.unchanged("sealed", &mut talosctl)?;
    own.ask(&["plan", "-f", "sealed"])?.badly(&["could not decrypt", "SOPS_AGE_KEY_FILE"])?;
    adoption.unchanged("by-talosconfig", &mut talosctl)?;
    adoption.is_never_begun_again("lab", &mut talosctl)?;
    Ok(talosctl.calls)
}

/// What people get wrong, and what they are told.
fn refused(adoption: &Adoption<'_>, talhelper: &Path, scratch: &Scratch) -> anyhow::Result<()> {
    let layout = &adoption.cluster.layout;
    let way = ["--talosconfig", "clusterconfig/talosconfig"];
    let unknown = "talmox@pve!nobody=00000000-0000-0000-0000-000000000000";
    adoption.refused(&way, Some(unknown), &["could not look at Proxmox; nothing was written"])?;
    let first = layout.first();
    let secret = |nodes: &str| ["--secrets", "talsecret.yaml", "--nodes", nodes].map(str::to_owned);
    let with = |words: [String; 4], told: &[&str]| {
        adoption.refused(&words.each_ref().map(String::as_str), None, told)
    };
    let (nobody, other) = (layout.address(99), layout.address(98));
    let unread = format!("the machine at {nobody} could not be read");
    with(secret(&format!("{first},{nobody}")), &[&unread, "nothing was written"])?;
    // Something that listens there, and is not Talos.
    let listener = std::net::TcpListener::bind((other, TALOS_PORT))?;
    let greeter = std::thread::spawn(move || {
        let greet = |mut guest: std::net::TcpStream| guest.write_all(b"220 mail.lab.internal\r\n");
        listener.incoming().take(1).flatten().try_for_each(greet)
    });
    let unread = format!("the machine at {other} could not be read");
    with(secret(&format!("{first},{other}")), &[&unread, "nothing was written"])?;
    greeter.join().map_err(|_| anyhow::anyhow!("the listener failed"))??;
    // Secrets of another cluster.
    let program = Program { file: talhelper, home: scratch.path(), environment: Vec::new() };
    let secrets = String::from_utf8(program.output(&["gensecret"])?).context("secrets are text")?;
    scratch.write("others.yaml", &secrets)?;
    let unread =
        format!("the machine at {first} could not be read: it is not of the cluster these secrets belong to");
    let others = ["--secrets", "others.yaml", "--nodes", &first];
    adoption.refused(&others, None, &[&unread, "nothing was written"])
}

/// Has talhelper make its secrets, sops encrypt them, and talhelper make everything from those.
fn generate(peers: &Peers<'_>, scratch: &Scratch, layout: &Layout, keys: &Keys) -> anyhow::Result<()> {
    let environment = keys.with(&[("REGISTRY_PASSWORD", "hush-registry".into())]);
    let program = Program { file: peers.talhelper, home: scratch.path(), environment };
    let secrets = String::from_utf8(program.output(&["gensecret"])?).context("secrets are text")?;
    scratch.write("talsecret.yaml", &secrets)?;
    scratch.write("talconfig.yaml", &talconfig(layout))?;
    std::fs::create_dir(scratch.path().join("patches"))?;
    scratch.write("patches/registry.yaml", REGISTRY)?;
    keys.seal(peers.sops, scratch, "talsecret.yaml", "talsecret.sops.yaml")?;
    let secrets = ["--secret-file", "talsecret.sops.yaml"];
    program.ask(&[&["genconfig", "--offline-mode", "--no-gitignore"], &secrets[..]].concat())?.well(&[])?;
    Ok(())
}

fn talconfig(layout: &Layout) -> String {
    let (version, shared, gateway) = (layout.version, layout.address(10), layout.address(1));
    let head = format!(
        "clusterName: {CLUSTER}\ntalosVersion: v{version}\nkubernetesVersion: v1.36.3\nendpoint: https://{shared}:6443\n{}",
        HEAD.replace("SHARED", &shared.to_string())
    );
    let node = |(index, (address, name)): (usize, (std::net::Ipv4Addr, &str))| {
        let controls = index < layout.control_planes.len();
        let vip = if controls { format!("        vip: {{ip: {shared}}}\n") } else { String::new() };
        let own = match index {
            0 => {
                "    patches:\n      - |-\n        machine:\n          nodeAnnotations:\n            example.com/first: \"yes\"\n"
            }
            3 => {
                "    machineFiles:\n      - {content: \"[metrics]\", permissions: 0o644, path: /etc/cri/conf.d/20-customization.part, op: create}\n"
            }
            _ => "",
        };
        format!(
            "  - hostname: {name}
    ipAddress: {address}
    controlPlane: {controls}
    installDisk: /dev/sda
    nameservers: [{gateway}, 9.9.9.9]
    networkInterfaces:
      - deviceSelector: {{hardwareAddr: \"{}\"}}
        addresses: [{address}/24]
        routes: [{{network: 0.0.0.0/0, gateway: {gateway}}}]
        mtu: 1500
{vip}      - deviceSelector: {{hardwareAddr: \"{}\"}}
        addresses: [10.9.0.{last}/24]
        routes: [{{network: 10.10.0.0/16, gateway: 10.9.0.1}}]
{own}",
            mac(index, 0),
            mac(index, 1),
            last = 11 + index
        )
    };
    head + &layout.everybody().zip(NAMES).enumerate().map(node).collect::<String>()
}

/// Both ways lead to the same description.
fn same(scratch: &Scratch, one: &str, other: &str) -> anyhow::Result<()> {
    for file in ["cluster.yaml", "nodes.yaml", "secrets.yaml", "patches/cluster.yaml", "talenv.yaml"] {
        let read = |folder: &str| scratch.read(&format!("{folder}/{file}"));
        ensure!(read(one)? == read(other)?, "{file} of {one} is not that of {other}");
    }
    Ok(())
}
