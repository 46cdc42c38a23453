//! talmox at a cluster of OpenTofu: the real program and the bpg provider make the VMs. The provider for Talos itself is not to be
//! had here; it makes its configurations with the library that is in `talosctl` too, so that one makes them: bare, without comments,
//! and with a list of patches for each node.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::adoption::Adoption;
use super::cluster::Cluster;
use super::layout::Layout;
use super::own::talmox;
use super::programs::{Program, Talosctl};
use super::steps;
use crate::conformance::{folder, provider};
use crate::scratch::Scratch;

/// What the image is made of, and its id.
pub(super) const SCHEMATIC: &str = "customization:\n    systemExtensions:\n        officialExtensions:\n            - siderolabs/qemu-guest-agent\n";
const SCHEMATIC_ID: &str = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";

const NAMES: [&str; 4] = ["talos-cp-01", "talos-cp-02", "talos-cp-03", "talos-worker-01"];
const WORKER_MAC: &str = "BC:24:11:2E:C8:21";

/// What everybody gets beside its name.
const ALL: &str = "\
machine:
  install:
    disk: /dev/sda
    image: factory.talos.dev/nocloud-installer/SCHEMATIC:vVERSION
  kubelet:
    extraArgs:
      rotate-server-certificates: \"true\"
    nodeIP:
      validSubnets: [NETWORK/24]
  nodeLabels:
    topology.kubernetes.io/region: homelab
    topology.kubernetes.io/zone: pve1
  sysctls:
    fs.inotify.max_user_watches: \"1048576\"
";

/// What control planes get besides.
const PLANES: &str = "\
machine:
  network:
    interfaces:
      - deviceSelector: {physical: true}
        dhcp: true
        vip: {ip: SHARED}
  certSANs: [SHARED]
cluster:
  allowSchedulingOnControlPlanes: true
  proxy: {disabled: true}
  apiServer:
    certSANs: [SHARED, k8s.homelab.internal]
  extraManifests:
    - https://example.org/kubelet-serving-cert-approver.yaml
";

/// What the worker gets besides.
const WORKER: &str = "\
machine:
  kubelet:
    extraMounts:
      - destination: /var/lib/longhorn
        type: bind
        source: /var/lib/longhorn
        options: [bind, rshared, rw]
  kernel:
    modules:
      - name: iscsi_tcp
";

/// Runs everything; gives the number of calls.
pub(super) fn run(
    own: &Path,
    (tofu, bpg): (&Path, &Path),
    talosctl: &Path,
    cluster: &Cluster,
) -> anyhow::Result<usize> {
    let (layout, scratch) = (&cluster.layout, Scratch::new("talos-adopt-tofu")?);
    cluster.reserve(WORKER_MAC, layout.worker);
    let tofu = Tofu::prepare((tofu, bpg), &scratch, cluster)?;
    tofu.run(&["init"])?;
    tofu.run(&["apply", "-auto-approve"])?;

    let talosconfig = scratch.path().join("talosconfig");
    let mut talosctl = Talosctl::new(talosctl, scratch.path(), talosconfig, layout.first());
    configure(&mut talosctl, &scratch, layout)?;
    steps::bootstrap(&mut talosctl, layout)?;
    steps::look(&mut talosctl, layout)?;

    let own = talmox(own, scratch.path());
    let names = NAMES.map(str::to_owned).to_vec();
    let adoption = Adoption { own: &own, scratch: &scratch, cluster, names };
    let first = layout.first();
    adoption.describe("homelab", &["--talosconfig", "talosconfig", "--nodes", &first])?;
    adoption.mark("homelab")?;
    adoption.unchanged("homelab", &mut talosctl)?;
    // OpenTofu sees mark and witness, and nothing else that it would touch.
    tofu.only_the_mark_differs()?;
    adoption.is_never_begun_again("homelab", &mut talosctl)?;
    Ok(talosctl.calls)
}

/// Makes configurations, each with its patches, and gives them to the machines.
fn configure(talosctl: &mut Talosctl<'_>, scratch: &Scratch, layout: &Layout) -> anyhow::Result<()> {
    let filled = |text: &str| {
        let text = text.replace("SCHEMATIC", SCHEMATIC_ID).replace("VERSION", layout.version);
        text.replace("NETWORK", &layout.address(0).to_string())
            .replace("SHARED", &layout.address(10).to_string())
    };
    talosctl.ask(&["gen", "secrets"])?.well(&[])?;
    let endpoint = format!("https://{}:6443", layout.address(10));
    let made = ["gen", "config", "homelab", &endpoint, "--with-secrets", "secrets.yaml"];
    let plain = ["--with-docs=false", "--with-examples=false", "--kubernetes-version", "1.36.3"];
    talosctl.ask(&[&made[..], &plain].concat())?.well(&["talosconfig"])?;
    scratch.write("all-patch.yaml", &filled(ALL))?;
    scratch.write("controlplane-patch.yaml", &filled(PLANES))?;
    scratch.write("worker-patch.yaml", &filled(WORKER))?;
    for (index, (node, name)) in layout.everybody().zip(NAMES).enumerate() {
        let role = if index < layout.control_planes.len() { "controlplane" } else { "worker" };
        let own = format!("apiVersion: v1alpha1\nkind: HostnameConfig\nauto: \"off\"\nhostname: {name}\n");
        scratch.write("own-patch.yaml", &own)?;
        let (base, output) = (format!("{role}.yaml"), format!("{name}.yaml"));
        let role = format!("@{role}-patch.yaml");
        let patches = ["-p", "@all-patch.yaml", "-p", &role, "-p", "@own-patch.yaml", "-o", &output];
        talosctl.ask(&[&["machineconfig", "patch", &base], &patches[..]].concat())?.well(&[])?;
        let node = node.to_string();
        talosctl.wait(&["version", "--insecure", "-n", &node], &["Tag:"])?;
        talosctl.ask(&["apply-config", "--insecure", "-n", &node, "--file", &output])?.well(&[])?;
    }
    Ok(())
}

/// OpenTofu with its folder.
struct Tofu<'a> {
    program: Program<'a>,
}

impl<'a> Tofu<'a> {
    fn prepare(
        (tofu, bpg): (&'a Path, &Path),
        scratch: &'a Scratch,
        cluster: &Cluster,
    ) -> anyhow::Result<Self> {
        let layout = &cluster.layout;
        let (endpoint, authority, token) = cluster.proxmox()?;
        std::fs::copy(folder("adopt-tofu").join("main.tf"), scratch.path().join("main.tf"))?;
        let planes: serde_json::Map<String, Value> = NAMES
            .iter()
            .zip(&layout.control_planes)
            .map(|(name, address)| ((*name).to_owned(), json!(address.to_string())))
            .collect();
        let version = layout.version;
        let variables = json!({
            "image_url":
                format!("https://factory.talos.dev/image/{SCHEMATIC_ID}/v{version}/nocloud-amd64.qcow2"),
            "worker_mac": WORKER_MAC,
            "control_planes": planes,
            "gateway": layout.address(1).to_string(),
        });
        scratch.write("terraform.tfvars.json", &variables.to_string())?;
        let environment: Vec<(&'static str, PathBuf)> = vec![
            ("CHECKPOINT_DISABLE", "1".into()),
            ("TF_CLI_CONFIG_FILE", provider::mirror(scratch.path(), bpg)?),
            ("TF_IN_AUTOMATION", "1".into()),
            ("PROXMOX_VE_ENDPOINT", endpoint.into()),
            ("PROXMOX_VE_API_TOKEN", token.into()),
            ("SSL_CERT_FILE", scratch.write("proxmox.pem", authority)?.into()),
            ("PATH", std::env::var_os("PATH").unwrap_or_default().into()),
        ];
        Ok(Self { program: Program { file: tofu, home: scratch.path(), environment } })
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let quiet = ["-no-color", "-input=false"];
        let (verb, rest) = arguments.split_at(1);
        self.program.ask(&[verb, &quiet, rest].concat())?.well(&[])?;
        Ok(())
    }

    /// What a plan would change, read from its own data.
    fn only_the_mark_differs(&self) -> anyhow::Result<()> {
        self.run(&["plan", "-out=after.plan"])?;
        let shown = self.program.output(&["show", "-json", "after.plan"])?;
        let plan: Value = serde_json::from_slice(&shown).context("tofu show prints JSON")?;
        let changes = plan["resource_changes"].as_array().context("a plan has changes")?;
        for change in changes {
            let (address, change) = (&change["address"], &change["change"]);
            let (Some(before), Some(after)) = (change["before"].as_object(), change["after"].as_object())
            else {
                anyhow::bail!("{address} would be made or removed");
            };
            for (field, value) in before {
                let same = after.get(field) == Some(value) || after.get(field).is_none();
                let marked = ["description", "smbios"].contains(&field.as_str());
                anyhow::ensure!(same || marked, "{address}: {field} would change");
            }
        }
        Ok(())
    }
}
