//! `talmox render vm`: the deployed VM talmox grew from, line by line.

use std::fs;

use crate::support::{Scratch, run};
use insta::assert_snapshot;

/// `qm config 2001` of the deployed machine, without what its description excludes: `tags`.
const DEPLOYED: &str = "\
agent: 1
balloon: 0
bios: ovmf
boot: order=scsi0;ide2;net0
cores: 4
cpu: host
efidisk0: local-zfs:vm-2001-disk-0,efitype=4m
ide2: local:iso/NAME.iso,media=cdrom
machine: q35
memory: 8192
name: talos-cplane-001
net0: virtio=BC:24:11:62:36:54,bridge=vmbr0,queues=4,tag=7
numa: 1
ostype: l26
scsi0: local-zfs:vm-2001-disk-1,backup=0,discard=on,replicate=0,size=256G,ssd=1
scsihw: virtio-scsi-pci
sockets: 1
startup: order=4,up=15,down=60
";

/// Keys that may differ from the deployed machine.
const FREE: [&str; 6] = ["description", "tags", "serial0", "smbios1", "vmgenid", "meta"];

#[test]
fn the_deployed_vm() {
    let scratch = Scratch::new("render");
    fs::write(
        scratch.0.join("cluster.yaml"),
        "cluster_uid: \"0123456789abcdef\"\ncloud_init: off\nnode_vlan_tag: 7\nproxmox_vm_defaults: {disk_size: 256}\n",
    )
    .unwrap();
    fs::write(
        scratch.0.join("nodes.yaml"),
        "nodes:\n  - name: talos-cplane-001\n    address: 192.168.22.11\n    controller: true\n    vm_id: 2001\n    \
         mac_addr: bc:24:11:62:36:54\n",
    )
    .unwrap();
    let rendered =
        run(&["render", "vm", "talos-cplane-001", "--boot", "iso", "-f", &scratch.path("")]).succeeded();
    let kept: String = rendered
        .stdout
        .lines()
        .filter(|line| !FREE.contains(&line.split(':').next().unwrap()))
        .map(|line| {
            // The ISO's name is generated.
            let start = line.find(":iso/").map(|at| at + 5);
            match (start, line.find(".iso")) {
                (Some(start), Some(end)) => format!("{}NAME{}\n", &line[..start], &line[end..]),
                _ => format!("{line}\n"),
            }
        })
        .collect();
    assert_eq!(kept, DEPLOYED);
}

#[test]
fn examples_as_proxmox_would_show_them() {
    assert_snapshot!(run(&["render", "vm", "cp-2", "-f", "examples/homelab"]).succeeded().whole());
    assert_snapshot!(run(&["render", "vm", "gpu-1", "-f", "examples/datacenter"]).succeeded().stdout);
    assert_snapshot!(
        run(&["render", "vm", "worker-3", "-q", "-f", "examples/datacenter"]).succeeded().whole()
    );
}

#[test]
fn as_json() {
    let run = run(&["render", "vm", "talos", "-o", "json", "-f", "examples/minimal"]).succeeded();
    let config: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(config["ipconfig0"], "ip=192.168.1.50/24,gw=192.168.1.1");
}

#[test]
fn a_node_that_is_not_there() {
    assert_snapshot!(run(&["render", "vm", "cp-9", "-f", "examples/homelab"]).failed().whole());
}
