//! The tools, and how each is told to do the work.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::Context as _;

use super::Programs;
use super::measure::Phase;
use super::place::{Place, Ready, Run};
use crate::conformance::{provider, root};

pub(super) struct Tool {
    pub(super) name: &'static str,
    /// Who it is, however it is run.
    pub(super) family: &'static str,
    pub(super) title: &'static str,
    pub(super) prepare: fn(&Programs, &Place) -> anyhow::Result<()>,
    pub(super) run: fn(&Programs, &Place, Phase) -> anyhow::Result<Run>,
}

/// Forks of Ansible; more only wait for the same two cores.
const FORKS: u32 = 10;

pub(super) const TOOLS: [Tool; 6] = [
    Tool { name: "talmox", family: "talmox", title: "talmox", prepare: nothing, run: talmox },
    Tool {
        name: "bare-4",
        family: "bare",
        title: "bare client, 4 in flight",
        prepare: nothing,
        run: |programs, place, phase| Ok(place.bare(programs, phase.word(), 4)),
    },
    Tool {
        name: "bare-10",
        family: "bare",
        title: "bare client, 10 in flight like talmox",
        prepare: nothing,
        run: |programs, place, phase| Ok(place.bare(programs, phase.word(), 10)),
    },
    Tool {
        name: "tofu-10",
        family: "tofu",
        title: "OpenTofu + bpg, default parallelism",
        prepare: tofu_files,
        run: |programs, place, phase| Ok(tofu(programs, place, phase, "10")),
    },
    Tool {
        name: "tofu-50",
        family: "tofu",
        title: "OpenTofu + bpg, parallelism 50",
        prepare: tofu_files,
        run: |programs, place, phase| Ok(tofu(programs, place, phase, "50")),
    },
    Tool { name: "ansible", family: "ansible", title: "Ansible, 10 forks", prepare: nothing, run: ansible },
];

#[expect(clippy::unnecessary_wraps, reason = "like those that have something to do")]
fn nothing(_: &Programs, _: &Place) -> anyhow::Result<()> {
    Ok(())
}

fn talmox(programs: &Programs, place: &Place, phase: Phase) -> anyhow::Result<Run> {
    let folder = place.folder.join("description");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("cluster.yaml"), description(place, phase.memory()))?;
    let (verb, how_far) = if phase == Phase::Destroy {
        ("destroy", Vec::new())
    } else {
        // The others make VMs and know nothing of what is inside them.
        ("apply", vec!["--until".into(), "vms".into()])
    };
    let mut command =
        vec![programs.talmox.clone(), verb.into(), "--file".into(), folder, "--auto-approve".into()];
    command.extend(how_far);
    let environment = vec![
        ("PROXMOX_VE_ENDPOINT", place.ready.endpoint.clone()),
        ("PROXMOX_VE_API_TOKEN", place.ready.token.clone()),
        ("TALMOX_CA_FILE", place.ready.ca_file.clone()),
    ];
    Ok(Run { command, environment, input: String::new() })
}

/// Workers, but for the one control plane a cluster must have; none of them runs, as with the other tools.
fn description(place: &Place, memory: u32) -> String {
    let Ready { endpoint, .. } = &place.ready;
    let mut text = format!(
        "cluster_name: bench\ncluster_uid: \"8c1f6a2b90d347e5\"\nproxmox_endpoint: {endpoint}\n\
         proxmox_storage: local-zfs\nproxmox_bridge: vmbr0\nnode_cidr: 10.0.0.0/16\nnode_gateway: 10.0.0.1\n\
         cluster_api_addr: 10.0.0.10\ntalos_version: 1.13.9\nkubernetes_version: 1.36.3\ntemplate: 9000\n\
         cloud_init: \"off\"\nplacement: {{cpu_overcommit: 100}}\nproxmox_vm_defaults: {{cores: 2, memory: {memory}, disk_size: 10, vm_power: stopped}}\nnodes:\n"
    );
    for number in 0..place.vms {
        let _ = writeln!(
            text,
            "  - name: vm-{}\n    vm_id: {}\n    address: 10.0.1.{}\n    controller: {}",
            2001 + number,
            2001 + number,
            1 + number,
            number == 0
        );
    }
    text
}

/// A mirror with the one provider, our configuration, and `init`, which nobody measures.
fn tofu_files(programs: &Programs, place: &Place) -> anyhow::Result<()> {
    let mirror = place.folder.join("mirror");
    let within = mirror.join(provider::ADDRESS);
    fs::create_dir_all(&within)?;
    symlink(programs.bpg.join(provider::BINARY), within.join(provider::BINARY)).context("no mirror")?;
    fs::write(place.folder.join("tofurc"), provider::settings(&mirror))?;
    let folder = place.folder.join("configuration");
    fs::create_dir_all(&folder)?;
    fs::copy(root().join("conformance/bench/main.tf"), folder.join("main.tf"))?;
    place.run(programs, tofu_run(programs, place, "init", &[])).map(drop)
}

fn tofu(programs: &Programs, place: &Place, phase: Phase, parallelism: &str) -> Run {
    let verb = if phase == Phase::Destroy { "destroy" } else { "apply" };
    let (vms, memory) = (format!("vms={}", place.vms), format!("memory={}", phase.memory()));
    let parallelism = format!("-parallelism={parallelism}");
    tofu_run(programs, place, verb, &["-auto-approve", &parallelism, "-var", &vms, "-var", &memory])
}

fn tofu_run(programs: &Programs, place: &Place, verb: &str, rest: &[&str]) -> Run {
    let folder = format!("-chdir={}", place.folder.join("configuration").display());
    let words = [folder.as_str(), verb, "-no-color", "-input=false"].into_iter().chain(rest.iter().copied());
    let command = [programs.tofu.join("tofu")].into_iter().chain(words.map(PathBuf::from)).collect();
    let environment = vec![
        ("CHECKPOINT_DISABLE", "1".to_owned()),
        ("TF_CLI_CONFIG_FILE", place.folder.join("tofurc").display().to_string()),
        ("TF_IN_AUTOMATION", "1".to_owned()),
        ("PROXMOX_VE_ENDPOINT", place.ready.endpoint.clone()),
        ("PROXMOX_VE_API_TOKEN", place.ready.token.clone()),
        ("SSL_CERT_FILE", place.ready.ca_file.clone()),
    ];
    Run { command, environment, input: String::new() }
}

fn ansible(programs: &Programs, place: &Place, phase: Phase) -> anyhow::Result<Run> {
    let mut inventory = String::new();
    for id in 2001..2001 + place.vms {
        let _ = writeln!(inventory, "vm-{id} vmid={id}");
    }
    let file = place.folder.join("inventory");
    fs::write(&file, inventory)?;
    let wanted = if phase == Phase::Destroy { "absent" } else { "present" };
    let python = programs.ansible.join("python/bin/python");
    let words = [
        "--inventory",
        &file.display().to_string(),
        "--forks",
        &FORKS.to_string(),
        "--extra-vars",
        &format!("wanted={wanted} memory={}", phase.memory()),
    ]
    .map(PathBuf::from);
    let program = programs.ansible.join("python/bin/ansible-playbook");
    let command = [program, root().join("conformance/bench/vms.yaml")].into_iter().chain(words).collect();
    let Ready { endpoint, ca_file, token } = &place.ready;
    let (host, port) = endpoint.trim_start_matches("https://").rsplit_once(':').context("no port")?;
    let (id, secret) = token.split_once('=').context("no token")?;
    let (user, name) = id.split_once('!').context("no token")?;
    let environment = [
        ("ANSIBLE_COLLECTIONS_PATH", programs.ansible.join("collections").display().to_string()),
        ("ANSIBLE_NOCOLOR", "1".to_owned()),
        ("ANSIBLE_PYTHON_INTERPRETER", python.display().to_string()),
        ("REQUESTS_CA_BUNDLE", ca_file.clone()),
        ("PROXMOX_HOST", host.to_owned()),
        ("PROXMOX_PORT", port.to_owned()),
        ("PROXMOX_USER", user.to_owned()),
        ("PROXMOX_TOKEN_ID", name.to_owned()),
        ("PROXMOX_TOKEN_SECRET", secret.to_owned()),
        ("PROXMOX_CA_PATH", ca_file.clone()),
        ("PROXMOX_API_TIMEOUT", "30".to_owned()),
    ];
    Ok(Run { command, environment: environment.into(), input: String::new() })
}
