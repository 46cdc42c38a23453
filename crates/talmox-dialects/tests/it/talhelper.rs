//! What becomes of a `talconfig.yaml`.

use std::collections::BTreeMap;

use talmox_config::{Colour, Files, read_files, report};
use talmox_dialects::talhelper::{Converted, Surroundings, Verdict, convert_text};

/// Files and variables of a test.
#[derive(Default)]
struct Around {
    files: BTreeMap<&'static str, &'static str>,
    variables: BTreeMap<&'static str, &'static str>,
}

impl Surroundings for Around {
    fn file(&self, name: &str) -> Result<String, String> {
        self.files.get(name).map(|text| (*text).to_owned()).ok_or_else(|| "there is none".to_owned())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|text| (*text).to_owned())
    }
}

const HEAD: &str = "\
clusterName: lab
talosVersion: v1.13.0
kubernetesVersion: v1.35.0
endpoint: https://10.0.7.10:6443
";

fn converted(text: &str) -> Converted {
    let converted = convert_text("talconfig.yaml", &format!("{HEAD}{text}"), &Around::default());
    assert!(
        !converted.has_errors(),
        "{}",
        report(&converted.sources, converted.problems.iter(), Colour::Never)
    );
    converted
}

fn file<'c>(converted: &'c Converted, name: &str) -> &'c str {
    let found = converted.files.iter().find(|(path, _)| path == name);
    let names: Vec<&str> = converted.files.iter().map(|(path, _)| path.as_str()).collect();
    assert!(found.is_some(), "no {name} in {names:?}");
    found.map(|(_, text)| text.as_str()).unwrap_or_default()
}

fn verdict(converted: &Converted, path: &str) -> (Verdict, String) {
    let found = converted.fields.iter().find(|field| field.path == path);
    assert!(found.is_some(), "no {path} in {:#?}", converted.fields);
    found.map_or((Verdict::Unsupported, String::new()), |field| (field.verdict, field.note.clone()))
}

#[test]
fn the_description_is_one_that_can_be_read() {
    let done = converted(
        "nodes:
  - hostname: cp-1
    ipAddress: 10.0.7.11
    controlPlane: true
    installDisk: /dev/vda
    networkInterfaces:
      - deviceSelector: {hardwareAddr: \"bc:24:11:00:00:01\"}
        addresses: [10.0.7.11/24]
        routes: [{network: 0.0.0.0/0, gateway: 10.0.7.1}]
        vip: {ip: 10.0.7.10}
        mtu: 1500
  - hostname: w-1
    ipAddress: 10.0.7.21
    nodeLabels: {zone: a}
    nodeTaints: {dedicated: \"gpu:NoSchedule\", spot: NoExecute}
    networkInterfaces: [{interface: eth0, dhcp: true}]
",
    );
    let read = read_files(Files::from_texts(file(&done, "cluster.yaml"), Some(file(&done, "nodes.yaml"))));
    assert!(!read.has_errors(), "{}", report(&read.description.sources, read.problems.iter(), Colour::Never));
    let desired = read.desired.unwrap();
    assert_eq!(desired.name.as_str(), "lab");
    let worker = &desired.nodes[1];
    let taints: Vec<String> = worker.taints.iter().map(ToString::to_string).collect();
    assert_eq!(taints, ["dedicated=gpu:NoSchedule", "spot:NoExecute"]);
    for (path, wanted) in [
        ("nodes[cp-1].networkInterfaces[0].vip.ip", "cluster_api_addr"),
        ("nodes[cp-1].networkInterfaces[0].routes[0]", "node_gateway"),
        ("nodes[cp-1].networkInterfaces[0].addresses", "address and node_cidr"),
    ] {
        assert_eq!(verdict(&done, path), (Verdict::Translated, wanted.to_owned()));
    }
}

/// A node's own value takes the place of its group's; then the group's goes to the others one by one.
#[test]
fn a_group_gives_to_those_without_their_own() {
    let done = converted(
        "worker:
  nodeLabels: {rack: one}
  kernelModules: [{name: nbd}]
  certSANs: [w.example]
nodes:
  - {hostname: w-1, ipAddress: 10.0.7.21, nodeLabels: {rack: two}}
  - {hostname: w-2, ipAddress: 10.0.7.22}
  - {hostname: w-3, ipAddress: 10.0.7.23, certSANs: [x.example]}
",
    );
    let (cluster, nodes) = (file(&done, "cluster.yaml"), file(&done, "nodes.yaml"));
    assert!(!cluster.contains("rack") && nodes.matches("rack: one").count() == 2, "{cluster}{nodes}");
    assert!(nodes.matches("rack: two").count() == 1, "{nodes}");
    assert!(cluster.contains("proxmox_vm_worker_defaults:\n  kernel_modules:\n    - nbd\n"), "{cluster}");
    assert_eq!(file(&done, "patches/workers.yaml"), "machine:\n  certSANs:\n    - w.example\n");
    assert_eq!(file(&done, "patches/w-3.yaml"), "machine:\n  certSANs:\n    - x.example\n");
}

/// Those for everybody run last, so each node names them after its own.
#[test]
fn patches_keep_their_order_and_their_text() {
    let around = Around {
        files: [("./patches/own.yaml", "# why\nmachine:\n  env: {A: \"${A}\"}\n")].into(),
        ..Around::default()
    };
    let text = format!(
        "{HEAD}patches:\n  - |\n    machine: {{sysctls: {{x: \"1\"}}}}\ncontrolPlane:\n  patches:\n    - \"@./patches/own.yaml\"\n\
         nodes:\n  - {{hostname: cp-1, ipAddress: 10.0.7.11, controlPlane: true}}\n"
    );
    let done = convert_text("talconfig.yaml", &text, &around);
    assert!(!done.has_errors(), "{:?}", done.problems);
    assert!(
        file(&done, "cluster.yaml")
            .contains("proxmox_vm_controller_defaults:\n  patches:\n    - patches/own.yaml\n")
    );
    assert!(file(&done, "nodes.yaml").contains("    patches:\n      - patches/all-patch.yaml\n"));
    assert_eq!(file(&done, "patches/own.yaml"), "# why\nmachine:\n  env: {A: \"${A}\"}\n");
    assert_eq!(file(&done, "patches/all-patch.yaml"), "machine: {sysctls: {x: \"1\"}}\n");
}

#[test]
fn documents_get_their_heads() {
    let done = converted(
        "nodes:
  - hostname: w-1
    ipAddress: 10.0.7.21
    disableSearchDomain: true
    userVolumes: [{name: data, provisioning: {minSize: 10GiB}}]
    ingressFirewall: {defaultAction: block, rules: [{name: api, portSelector: {ports: [50000], protocol: tcp}}]}
",
    );
    let patch = file(&done, "patches/w-1.yaml");
    let kinds: Vec<&str> = patch.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    assert_eq!(
        kinds,
        ["ResolverConfig", "UserVolumeConfig", "NetworkDefaultActionConfig", "NetworkRuleConfig"]
    );
    assert!(patch.lines().filter(|line| *line == "apiVersion: v1alpha1").count() == 4, "{patch}");
}

#[test]
fn what_has_no_place_here_is_said() {
    let done = converted(
        "nodes:
  - hostname: w-1
    ipAddress: 10.0.7.21
    ignoreHostname: true
    filenameTmpl: x
    nodeLabels: {image: \"{{ .MachineConfig }}\", zone: a}
    machineSpec: {arch: arm64}
    talosImageURL: example.org/mine
    networkInterfaces: [{interface: bond0, bond: {mode: 802.3ad}, dhcp: true}]
",
    );
    for path in [
        "nodes[w-1].ignoreHostname",
        "nodes[w-1].filenameTmpl",
        "nodes[w-1].nodeLabels.image",
        "nodes[w-1].machineSpec.arch",
        "nodes[w-1].talosImageURL",
        "nodes[w-1].networkInterfaces[0].bond",
    ] {
        assert_eq!(verdict(&done, path).0, Verdict::Unsupported, "{path}");
    }
    assert_eq!(verdict(&done, "nodes[w-1].nodeLabels.zone").0, Verdict::Honoured);
}

#[test]
fn mistakes_are_told_with_their_places() {
    let text = "clusterName: ${NAME}\nkubernetesVersion: v1.35.0\nendpont: x\nnodes:\n  - hostname: a\n    patches: [\"@gone.yaml\"]\n";
    let done = convert_text("talconfig.yaml", text, &Around::default());
    assert!(done.has_errors() && done.files.is_empty());
    let said = report(&done.sources, done.problems.iter(), Colour::Never);
    for part in
        ["NAME is not set", "did you mean endpoint?", "could not read gone.yaml", "talconfig.yaml:3:1"]
    {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert!(!said.contains("needs endpoint"), "misspelt is not missing\n{said}");
    let around = Around { variables: [("NAME", "lab")].into(), ..Around::default() };
    let set =
        convert_text("talconfig.yaml", &text.replace("endpont: x", "endpoint: https://a:6443"), &around);
    assert_eq!(set.problems.len(), 1, "only the file is missing: {:?}", set.problems);
}
