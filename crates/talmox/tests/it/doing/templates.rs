//! Templates: listed, shown, built from manifests and pruned.

use insta::assert_snapshot;
use serde_json::Value;

use crate::doing::{CLUSTER, Lab, NODES, filtered};
use crate::support::{Run, Scratch, command, finish, run};

/// Manifests in a folder of their own, beside a description of three hosts.
struct Yard {
    scratch: Scratch,
}

const MANAGED: &str = "\
apiVersion: karpenter.proxmox.sinextra.dev/v1alpha1
kind: ProxmoxTemplate
metadata:
  name: default
spec:
  sourceImage:
    url: https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img
    imageName: ubuntu-amd64.qcow2
    checksum: d41d8cd98f00b204e9800998ecf8427e
    checksumType: md5
  storageIDs:
    - local
    - system
  machine: q35
  cpu:
    type: x86-64-v2-AES
    flags: +pdpe1gb
  vga:
    type: serial0
    memory: 16
  network:
    - name: net0
      model: virtio
      bridge: vmbr0
      mtu: 1500
      vlan: 15
      firewall: true
  tags:
    - talos-k8s-proxmox
    - karpenter
";

const UNMANAGED: &str = "\
apiVersion: karpenter.proxmox.sinextra.dev/v1alpha1
kind: ProxmoxUnmanagedTemplate
metadata:
  name: default
spec:
  templateName: talos
";

const HOSTS: &str = "\
cluster_name: yard
cluster_uid: \"0123456789abcdef\"
proxmox_nodes: [pve1, pve2, pve3]
talos_template: talos
node_cidr: 10.0.7.0/24
nodes: [{name: cp-1, address: 10.0.7.11, controller: true}]
";

impl Yard {
    fn new(name: &str) -> Self {
        let yard = Self { scratch: Scratch::new(&format!("templates-{name}")) };
        yard.write("cluster.yaml", HOSTS);
        yard.write("template.yaml", MANAGED);
        yard.write("talos.yaml", UNMANAGED);
        yard
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.scratch.0.join(name), text).unwrap();
    }

    fn run(&self, arguments: &[&str], file: &str) -> Run {
        let simulate = format!("--simulate={}", self.scratch.path("world"));
        let file = self.scratch.path(file);
        let mut all = vec!["template"];
        all.extend(arguments);
        all.extend([simulate.as_str(), "-f", file.as_str()]);
        finish(&mut command(&all))
    }

    fn shown(&self, run: &Run) -> String {
        format!(
            "exit {}\n---- stdout\n{}---- stderr\n{}",
            run.code,
            filtered(&self.scratch, &run.stdout),
            filtered(&self.scratch, &run.stderr)
        )
    }

    fn list(&self, file: &str) -> Value {
        serde_json::from_str(&self.run(&["list", "-o", "json"], file).succeeded().stdout).unwrap()
    }
}

fn of<'v>(list: &'v Value, key: &str) -> Vec<&'v Value> {
    list[key].as_array().unwrap().iter().collect()
}

fn count(list: &Value, key: &str, flag: &str) -> usize {
    of(list, key).iter().filter(|entry| entry[flag] == true).count()
}

#[test]
fn a_manifest_is_built_on_every_host_and_then_nothing_is_left_to_do() {
    let yard = Yard::new("build");
    let build = ["build", "--auto-approve", "--parallelism", "1"];
    assert_snapshot!(yard.shown(&yard.run(&["build", "--plan-only"], "template.yaml").succeeded()));
    assert_snapshot!(yard.shown(&yard.run(&build, "template.yaml").succeeded()));
    let again = yard.run(&build, "template.yaml").succeeded();
    assert!(again.stdout.starts_with("No changes. The template is as described ("), "{}", again.stdout);
    assert_snapshot!(filtered(&yard.scratch, &yard.run(&["list"], "template.yaml").succeeded().stdout));
    let shown = yard.run(&["show", "default", "-o", "json"], "template.yaml").succeeded().stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(of(&shown, "templates").len(), 3);
    let config = &shown["templates"][0]["config"];
    assert_eq!(config["cpu"], "x86-64-v2-AES,flags=+pdpe1gb");
    assert_eq!(config["vga"], "serial0,memory=16");
    assert!(config["net0"].as_str().unwrap().ends_with(",bridge=vmbr0,firewall=1,mtu=1500,tag=15"));
    assert!(config["scsi0"].as_str().unwrap().starts_with("system:"), "{config}");
}

/// The description beside manifests says where Proxmox is, and need not describe a cluster for that.
#[test]
fn what_lies_beside_manifests_needs_no_nodes() {
    let yard = Yard::new("beside");
    let settings: String =
        HOSTS.lines().filter(|line| !line.starts_with("node")).map(|line| format!("{line}\n")).collect();
    yard.write("cluster.yaml", &settings);
    let build = yard.run(&["build", "--plan-only", "-o", "json"], "template.yaml").succeeded();
    let plan: Value = serde_json::from_str(&build.stdout).unwrap();
    assert_eq!(plan["summary"]["create"], 7, "of three hosts:\n{}", build.stdout);
    let file = yard.scratch.path("template.yaml");
    let setup = run(&["check", "--setup", "-f", &file]).succeeded();
    let roles: Vec<&str> = setup.stdout.lines().filter(|line| line.contains("role add")).collect();
    for privilege in ["VM.Config.CPU", "VM.Config.Network"] {
        assert!(roles.iter().any(|role| role.contains(privilege)), "{privilege}:\n{}", setup.stdout);
    }
    // By itself it is no description.
    let alone = yard.run(&["build"], "cluster.yaml").failed();
    assert!(alone.stderr.contains("the description has no nodes"), "{}", alone.stderr);
}

#[test]
fn word_for_word_the_checksum_is_missing() {
    let yard = Yard::new("word");
    yard.write("template.yaml", &MANAGED.replace("d41d8cd98f00b204e9800998ecf8427e", "<checksum>"));
    assert_snapshot!(yard.shown(&yard.run(&["build"], "template.yaml").failed()));
}

#[test]
fn settings_change_in_place_and_another_image_is_built_beside() {
    let yard = Yard::new("change");
    yard.run(&["build", "--auto-approve"], "template.yaml").succeeded();
    yard.write(
        "template.yaml",
        &MANAGED.replace("memory: 16", "memory: 32").replace("    - karpenter\n", ""),
    );
    assert_snapshot!(yard.shown(&yard.run(&["build", "--plan-only"], "template.yaml").succeeded()));
    let list = yard.list("template.yaml");
    assert_eq!(of(&list, "templates").iter().filter(|one| !of(one, "changes").is_empty()).count(), 3);
    yard.run(&["build", "--auto-approve"], "template.yaml").succeeded();
    let list = yard.list("template.yaml");
    assert_eq!((count(&list, "templates", "wanted"), count(&list, "templates", "stale")), (3, 0));
    yard.write("template.yaml", &MANAGED.replace("noble/current", "noble/20261101"));
    yard.run(&["build", "--auto-approve"], "template.yaml").succeeded();
    let list = yard.list("template.yaml");
    assert_eq!((count(&list, "templates", "wanted"), count(&list, "templates", "removable")), (3, 3));
    assert_eq!((count(&list, "images", "wanted"), count(&list, "images", "removable")), (3, 3));
    assert_snapshot!(yard.shown(&yard.run(&["prune"], "template.yaml").failed()));
    // What is offered is a command of this verb.
    let all = yard.run(&["prune", "--all"], "template.yaml").failed().stderr;
    assert!(all.contains("talmox template prune --all") && !all.contains(" --prune"), "{all}");
    yard.run(&["prune", "--auto-approve"], "template.yaml").succeeded();
    let list = yard.list("template.yaml");
    assert_eq!((of(&list, "images").len(), count(&list, "templates", "wanted")), (3, 3));
    assert_eq!(count(&list, "templates", "stale"), 0);
    let nothing = yard.run(&["prune", "--auto-approve"], "template.yaml").succeeded().stdout;
    assert!(nothing.starts_with("No changes. No template or image of ours can go"), "{nothing}");
}

#[test]
fn templates_somebody_else_made_are_found_on_every_host() {
    let yard = Yard::new("unmanaged");
    assert_snapshot!(yard.shown(&yard.run(&["build"], "talos.yaml").succeeded()));
    // What a plan file is to programs stays one.
    let both = format!("{MANAGED}---\n{UNMANAGED}");
    yard.write("both.yaml", &both);
    let run = yard.run(&["build", "--plan-only", "-o", "json"], "both.yaml").succeeded();
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["summary"]["create"], 7);
    let schema: Value = serde_json::from_str(&crate::support::run(&["schema", "plan"]).stdout).unwrap();
    assert!(jsonschema::draft7::new(&schema).unwrap().is_valid(&plan));
}

#[test]
fn templates_that_are_not_there_or_not_known() {
    let yard = Yard::new("missing");
    let unknown = yard.run(&["show", "talso"], "talos.yaml").failed();
    assert!(unknown.stderr.contains("did you mean talos?"), "{}", unknown.stderr);
    let nothing = yard.run(&["build"], "cluster.yaml").succeeded();
    assert!(nothing.stderr.contains("there is nothing to build"), "{}", nothing.stderr);
    let lost = yard.run(&["build"], "no-such.yaml").failed();
    assert!(lost.stderr.contains("there is no file"), "{}", lost.stderr);
}

#[test]
fn examples_are_built() {
    let scratch = Scratch::new("templates-examples");
    let simulate = format!("--simulate={}", scratch.path("world"));
    let built =
        run(&["template", "build", "--auto-approve", "-f", "examples/templates", &simulate]).succeeded();
    assert!(built.stderr.contains("1 template built"), "{}", built.stderr);
    assert!(built.stdout.contains("the template talos\n  ✓ "), "{}", built.stdout);
}

#[test]
fn templates_of_a_cluster_are_listed_with_what_stands_on_them() {
    let lab = Lab::new("list");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    let listed = lab.run(&["template", "list"]).succeeded().stdout;
    assert!(listed.contains("somebody else's"), "{listed}");
    assert!(lab.run(&["template", "prune", "--auto-approve"]).succeeded().stdout.starts_with("No changes."));
}

#[test]
fn a_new_version_is_built_beside_and_the_old_one_stays_while_disks_stand_on_it() {
    let lab = Lab::new("version");
    let cluster = CLUSTER.replace("talos_template: talos-1.13.9\n", "talos_version: 1.13.8\n");
    lab.describe(&cluster, NODES);
    lab.run(&["apply", "--auto-approve"]).succeeded();
    lab.describe(&cluster.replace("1.13.8", "1.13.9"), NODES);
    lab.run(&["template", "build", "--auto-approve"]).succeeded();
    assert_snapshot!(lab.shown(&lab.run(&["template", "list"]).succeeded()));
    assert_snapshot!(lab.shown(&lab.run(&["template", "prune", "--auto-approve"]).succeeded()));
    let shown = lab.run(&["template", "show", "9000"]).succeeded().stdout;
    assert!(shown.contains("the disks of cp-1 (2000 on pve), worker-1 (2001 on pve) and "), "{shown}");
    lab.run(&["destroy", "--auto-approve"]).succeeded();
    lab.run(&["template", "prune", "--auto-approve"]).succeeded();
    let left = lab.run(&["template", "list", "-o", "json"]).succeeded().stdout;
    let left: Value = serde_json::from_str(&left).unwrap();
    assert_eq!((of(&left, "templates").len(), of(&left, "images").len()), (1, 1));
}
