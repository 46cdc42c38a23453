//! Clusters as people make them with `talosctl`: generated, patched for all, for a role and for single nodes. What is drawn
//! follows from a seed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use talmox_adopt::Nonce;
use talmox_adopt::cluster::{LiveCluster, LiveNode, describe};
use talmox_machine::sample::Sampler;
use talmox_machine::secrets::from_config;
use talmox_machine::{Config, Source};
use talmox_types::desired::Role;
use talmox_types::{ClusterUid, NodeName, Version};

use crate::scratch::Scratch;
use crate::side_by_side;

/// How many sets of patches are drawn.
const SETS: usize = 50;

/// What `talosctl` is given to make a cluster's configurations.
pub(super) struct Drawn {
    pub(super) flags: Vec<String>,
    pub(super) all: String,
    pub(super) planes: String,
    pub(super) workers: String,
    /// A patch for each node, or none.
    pub(super) nodes: Vec<Option<String>>,
}

/// Patches every node of any layout takes.
const ANYBODY: [&str; 18] = [
    "machine:\n  sysctls:\n    net.core.somaxconn: \"NUMBER\"\n    vm.nr_hugepages: \"1024\"\n",
    "machine:\n  nodeLabels:\n    rack: rNUMBER\n    zone: 'yes'\n",
    "machine:\n  nodeAnnotations:\n    example.com/owner: team-NUMBER\n",
    "machine:\n  kubelet:\n    extraArgs:\n      rotate-server-certificates: \"true\"\n      v: \"NUMBER\"\n",
    "machine:\n  kubelet:\n    extraConfig:\n      maxPods: NUMBER\n      featureGates:\n        GracefulNodeShutdown: true\n",
    "machine:\n  kubelet:\n    extraMounts:\n      - destination: /var/mnt/NUMBER\n        type: bind\n        source: /var/mnt/NUMBER\n        options: [bind, rshared, rw]\n",
    "machine:\n  files:\n    - content: |\n        [metrics]\n        address = \"0.0.0.0:NUMBER\"\n        # ${NOT_A_VARIABLE} $$ ${HOME:-x}\n        key = '${HOME}'\n      path: /etc/cri/conf.d/20-customization.part\n      op: create\n      permissions: 0o644\n",
    "machine:\n  env:\n    http_proxy: http://proxy.lan:NUMBER\n    no_proxy: 10.0.0.0/8,${X}\n",
    "machine:\n  time:\n    servers: [time.cloudflare.com, ntpNUMBER.lan]\n",
    "machine:\n  kernel:\n    modules:\n      - name: br_netfilter\n        parameters: [nfNUMBER=1]\n      - name: dm_thin_pool\n",
    "machine:\n  logging:\n    destinations:\n      - endpoint: udp://127.0.0.1:NUMBER/\n        format: json_lines\n        extraTags:\n          node: nNUMBER\n",
    "machine:\n  certSANs: [lab.example.com, nNUMBER.lan]\n",
    "machine:\n  udev:\n    rules:\n      - SUBSYSTEM==\"drm\", KERNEL==\"renderD*\", GROUP=\"NUMBER\", MODE=\"0660\"\n",
    "machine:\n  sysfs:\n    devices.system.cpu.cpu0.cpufreq.scaling_governor: performance\n",
    "machine:\n  features:\n    hostDNS:\n      enabled: true\n      forwardKubeDNSToHost: false\n      resolveMemberNames: true\n",
    "machine:\n  features:\n    kubePrism:\n      port: 7NUMBER\n",
    "cluster:\n  discovery:\n    registries:\n      kubernetes:\n        disabled: false\n",
    "cluster:\n  network:\n    cni:\n      name: none\n",
];

/// Patches for control planes.
const PLANES: [&str; 13] = [
    "cluster:\n  apiServer:\n    extraArgs:\n      feature-gates: MutatingAdmissionPolicy=true\n      v: \"NUMBER\"\n",
    "cluster:\n  apiServer:\n    certSANs: [api.example.com, apiNUMBER.lan]\n",
    "cluster:\n  apiServer:\n    admissionControl:\n      $patch: delete\n",
    "cluster:\n  apiServer:\n    auditPolicy:\n      $patch: delete\n",
    "cluster:\n  apiServer:\n    auditPolicy:\n      rules:\n        - level: RequestResponse\n          users: [uNUMBER]\n",
    "cluster:\n  controllerManager:\n    extraArgs:\n      bind-address: 0.0.0.0\n      node-cidr-mask-size: \"2NUMBER\"\n",
    "cluster:\n  scheduler:\n    config:\n      apiVersion: kubescheduler.config.k8s.io/v1\n      kind: KubeSchedulerConfiguration\n      profiles:\n        - schedulerName: s-NUMBER\n",
    "cluster:\n  proxy:\n    disabled: true\n",
    "cluster:\n  etcd:\n    extraArgs:\n      listen-metrics-urls: http://0.0.0.0:NUMBER\n    advertisedSubnets: [10.0.7.0/24]\n",
    "cluster:\n  inlineManifests:\n    - name: space-NUMBER\n      contents: |\n        apiVersion: v1\n        kind: Namespace\n        metadata:\n          name: space-NUMBER\n        ---\n        # a comment\n",
    "cluster:\n  extraManifests:\n    - https://example.com/NUMBER.yaml\n  extraManifestHeaders:\n    Token: hush-NUMBER\n",
    "cluster:\n  allowSchedulingOnControlPlanes: true\n",
    "cluster:\n  coreDNS:\n    disabled: true\n",
];

/// Documents, which layouts from 1.12 on have of their own.
const DOCUMENTS: [&str; 10] = [
    "apiVersion: v1alpha1\nkind: WatchdogTimerConfig\ndevice: /dev/watchdog0\ntimeout: 2mNUMBERs\n",
    "apiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: docker.io\nendpoints:\n  - url: https://mirrorNUMBER.lan\nskipFallback: true\n",
    "apiVersion: v1alpha1\nkind: RegistryAuthConfig\nname: ghcr.io\nusername: robot\npassword: \"hush \\\"NUMBER\\\" ${A}\"\n",
    "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: tailscale\nenvironment:\n  - TS_AUTHKEY=hush-NUMBER\nconfigFiles:\n  - content: |\n      secret: hush-NUMBER\n      more: lines\n    mountPath: /etc/tailscale.conf\n",
    "apiVersion: v1alpha1\nkind: ResolverConfig\nnameservers:\n  - address: 9.9.9.9\n  - address: 10.0.7.NUMBER\nsearchDomains:\n  domains: [lab.lan]\n",
    "apiVersion: v1alpha1\nkind: TimeSyncConfig\nntp:\n  servers: [ntpNUMBER.lan]\n",
    "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data-NUMBER\nprovisioning:\n  diskSelector:\n    match: disk.transport == \"nvme\"\n  minSize: 1NUMBERGB\n  grow: true\n",
    "apiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: kubelet-NUMBER\nportSelector:\n  ports: [10250]\n  protocol: tcp\ningress:\n  - subnet: 10.0.0.0/8\n",
    "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: \"off\"\nhostname: somebody-NUMBER\n",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth1\nmtu: 15NUMBER\naddresses:\n  - address: 10.9.0.NUMBER/24\nroutes:\n  - destination: 10.10.0.0/16\n    gateway: 10.9.0.1\n",
];

/// What Talos takes over with a restart only, and what would cut machines off or exclude another piece.
const NOT_WHILE_IT_RUNS: [&str; 11] = [
    "  env:",
    "  files:",
    "  kernel:",
    "  time:",
    "udev:",
    "cni:",
    "kubePrism",
    "HostnameConfig",
    "UserVolume",
    "LinkConfig",
    "NetworkRule",
];

/// Contracts whose layouts differ.
const CONTRACTS: [u16; 5] = [8, 10, 11, 12, 13];

impl Drawn {
    /// A set for a cluster of this many nodes. `living`: what machines take over while they run, in their own layout.
    pub(super) fn new(seed: u64, nodes: usize, living: bool) -> (Self, u16) {
        let mut dice = Sampler::new(seed + 1, 13);
        let minor = if living { 13 } else { CONTRACTS[dice.below(CONTRACTS.len())] };
        let mut flags = vec![format!("--talos-version=v1.{minor}")];
        for (flag, chance) in
            [("--additional-sans=lab.example.org,10.0.7.9", 3), ("--with-cluster-discovery=false", 6)]
        {
            if dice.below(chance) == 0 && !living {
                flags.push(flag.to_owned());
            }
        }
        if dice.below(4) == 0 {
            flags.push("--registry-mirror=ghcr.io=https://ghcr.my-mirror.com".to_owned());
        }
        let documents: &[&str] = if minor >= 12 { &DOCUMENTS } else { &[] };
        let own: Vec<&str> = ANYBODY.iter().chain(documents).copied().collect();
        let fits = |text: &&&str| !living || !NOT_WHILE_IT_RUNS.iter().any(|word| text.contains(word));
        let own: Vec<&str> = own.iter().filter(fits).copied().collect();
        let planes: Vec<&str> = PLANES.iter().filter(fits).copied().collect();
        let all = pick(&mut dice, &own, 3);
        let for_planes = pick(&mut dice, &planes, 3);
        let for_workers = pick(&mut dice, &own, 1);
        let nodes = (0..nodes).map(|_| (dice.below(3) > 0).then(|| pick(&mut dice, &own, 1))).collect();
        (Self { flags, all, planes: for_planes, workers: for_workers, nodes }, minor)
    }

    /// Has `talosctl` make the configurations, and gives what each node gets. Secrets are in `secrets.yaml` above.
    pub(super) fn make(
        &self,
        scratch: &Scratch,
        talosctl: &Path,
        endpoint: &str,
        planes: usize,
    ) -> anyhow::Result<Vec<String>> {
        let run = |arguments: &[&str]| run(scratch, talosctl, arguments);
        let mut arguments: Vec<String> = ["gen", "config", "lab", endpoint].map(str::to_owned).to_vec();
        arguments.extend(
            ["--with-secrets=../secrets.yaml", "--with-docs=false", "--with-examples=false", "--force"]
                .map(str::to_owned),
        );
        arguments.extend(self.flags.iter().cloned());
        for (flag, name, text) in [
            ("--config-patch", "all.yaml", &self.all),
            ("--config-patch-control-plane", "planes.yaml", &self.planes),
            ("--config-patch-worker", "workers.yaml", &self.workers),
        ] {
            for (number, one) in text.split_inclusive("=====\n").enumerate() {
                let path = scratch.write(&format!("{number}-{name}"), one.trim_end_matches("=====\n"))?;
                arguments.push(format!("{flag}=@{path}"));
            }
        }
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
        let mut made = Vec::new();
        for (index, patch) in self.nodes.iter().enumerate() {
            let file = if index < planes { "controlplane.yaml" } else { "worker.yaml" };
            let Some(patch) = patch else {
                made.push(scratch.read(file)?);
                continue;
            };
            let patch = patch.trim_end_matches("=====\n");
            let written = scratch.write(&format!("node-{index}-patch.yaml"), patch)?;
            let output = format!("node-{index}.yaml");
            run(&["machineconfig", "patch", file, &format!("--patch=@{written}"), "--output", &output])?;
            made.push(scratch.read(&output)?);
        }
        Ok(made)
    }
}

/// Several of them, each once, with a line between.
fn pick(dice: &mut Sampler, pieces: &[&str], most: usize) -> String {
    let mut chosen: Vec<usize> = Vec::new();
    for _ in 0..=dice.below(most) {
        let index = dice.below(pieces.len());
        if !chosen.contains(&index) {
            chosen.push(index);
        }
    }
    let number = (10 + dice.below(40)).to_string();
    let texts: Vec<String> = chosen.iter().map(|index| pieces[*index].replace("NUMBER", &number)).collect();
    texts.join("=====\n")
}

fn run(scratch: &Scratch, talosctl: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(talosctl)
        .args(arguments)
        .env_clear()
        .env("HOME", scratch.path())
        .current_dir(scratch.path())
        .output()
        .context("could not run talosctl")?;
    ensure!(output.status.success(), "{}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Describes every set, and holds what is rendered against what `talosctl` made.
pub(super) fn compare(talosctl: &Path) -> anyhow::Result<String> {
    let scratch = Scratch::new("talos-drawn")?;
    run(&scratch, talosctl, &["gen", "secrets"])?;
    let outcomes = side_by_side::run(SETS, |set| {
        one(&scratch.inside(&format!("set-{set}"))?, talosctl, set as u64)
            .with_context(|| format!("set {set}"))
    });
    let mut steps = [0; 3];
    let mut wrong = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(counts) => {
                steps.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            Err(error) => wrong.push(format!("{error:#}")),
        }
    }
    if !wrong.is_empty() {
        bail!("{} of {SETS} sets are not described:\n{}", wrong.len(), wrong.join("\n"));
    }
    let [cluster, roles, nodes] = steps;
    Ok(format!(
        "{SETS} of {SETS} drawn sets of patches described, rendered equal ({cluster} steps for clusters, {roles} for roles, {nodes} for nodes)"
    ))
}

/// How many nodes the clusters have that are only described: control planes, and all.
const PLANES_AND_ALL: (usize, usize) = (3, 5);

/// Among how many sets one is looked for that Talos takes: some pieces exclude each other.
const TRIES: u64 = 8;

fn one(scratch: &Scratch, talosctl: &Path, set: u64) -> anyhow::Result<[usize; 3]> {
    let (planes, all) = PLANES_AND_ALL;
    for attempt in 0..TRIES {
        let (drawn, minor) = Drawn::new(set * TRIES + attempt, all, false);
        let made = drawn.make(scratch, talosctl, "https://10.0.7.10:6443", planes)?;
        if made.iter().all(|text| is_valid(scratch, talosctl, text)) {
            return described(&made, planes, minor);
        }
    }
    bail!("of {TRIES} sets Talos takes none")
}

fn is_valid(scratch: &Scratch, talosctl: &Path, text: &str) -> bool {
    let file = scratch.write("checked.yaml", text);
    file.is_ok_and(|file| run(scratch, talosctl, &["validate", "--mode=cloud", "--config", &file]).is_ok())
}

fn described(made: &[String], planes: usize, minor: u16) -> anyhow::Result<[usize; 3]> {
    let mut nodes = Vec::new();
    for (index, text) in made.iter().enumerate() {
        let config = Config::parse(Source { name: "live", text })?;
        let role = if index < planes { Role::Controller } else { Role::Worker };
        let last = u8::try_from(11 + index)?;
        let name = NodeName::parse(&format!("node-{index}"))?;
        nodes.push(LiveNode { name, role, address: [10, 0, 7, last].into(), prefix: None, config, vm: None });
    }
    let bundle = from_config(&nodes[0].config)?;
    let live = LiveCluster {
        name: None,
        uid: ClusterUid::from([7; 8]),
        talos: Version::new(1, 13, 9),
        bundle: &bundle,
        nodes,
        proxmox: "proxmox_endpoint: https://pve.lan:8006\nproxmox_pool: none\n".to_owned(),
        observed: None,
    };
    let described = describe(&live, &Nonce::new(7))?;
    ensure!(described.remaining.is_empty(), "contract 1.{minor}: left over: {:?}", described.remaining);
    for file in described.files.iter().filter(|file| !file.secret) {
        ensure!(!file.text.contains("hush"), "{} has a secret in it:\n{}", file.name, file.text);
    }
    let counts = described.patches;
    Ok([counts.cluster, counts.roles, counts.nodes])
}
