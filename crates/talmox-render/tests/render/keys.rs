//! Every other key, in every layout.

use talmox_render::RenderError;

use crate::support::{Around, MINORS, NODES, at, config, desired, names, of, pinned, rendered, try_render};

/// A key's lines, and where it is found: before 1.14, and from then on.
struct Row {
    lines: &'static str,
    node: &'static str,
    old: (&'static str, &'static str),
    new: (&'static str, &'static str, &'static str),
}

const ROWS: [Row; 12] = [
    Row {
        lines: "proxmox_vm_worker_defaults: {labels: {tier: gold, empty: ''}}\n",
        node: "worker-1",
        old: ("machine.nodeLabels", "empty: \"\"\ntier: gold"),
        new: ("KubeNodeConfig", "labels", "empty: \"\"\ntier: gold"),
    },
    Row {
        lines: "proxmox_vm_worker_defaults: {annotations: {a.b/c: d}}\n",
        node: "worker-1",
        old: ("machine.nodeAnnotations", "a.b/c: d"),
        new: ("KubeNodeConfig", "annotations", "a.b/c: d"),
    },
    Row {
        lines: "proxmox_vm_worker_defaults: {taints: ['gpu=yes:NoSchedule', 'slow:NoExecute']}\n",
        node: "worker-1",
        old: ("machine.nodeTaints", "gpu: yes:NoSchedule\nslow: NoExecute"),
        new: ("KubeNodeConfig", "taints", "gpu: yes:NoSchedule\nslow: NoExecute"),
    },
    Row {
        lines: "cluster_api_addr: 10.0.7.10\ncluster_api_tls_sans: [k8s.lan, 10.0.7.10]\n",
        node: "cp-1",
        old: ("machine.certSANs", "- 10.0.7.10\n- k8s.lan"),
        new: ("KubeAPIServerConfig", "certExtraSANs", "- 10.0.7.10\n- k8s.lan"),
    },
    Row {
        lines: "kube_proxy: false\n",
        node: "cp-1",
        old: ("cluster.proxy.disabled", "true"),
        new: ("KubeProxyConfig", "enabled", "false"),
    },
    Row {
        lines: "allow_scheduling_on_control_planes: true\n",
        node: "cp-1",
        old: ("cluster.allowSchedulingOnControlPlanes", "true"),
        new: ("KubeNodeConfig", "taints", "-"),
    },
    Row {
        lines: "dns_domain: lab.internal\n",
        node: "worker-1",
        old: ("cluster.network.dnsDomain", "lab.internal"),
        new: ("KubeNetworkConfig", "dnsDomain", "lab.internal"),
    },
    Row {
        lines: "cni: {urls: ['https://example.org/cni.yaml']}\n",
        node: "cp-1",
        old: ("cluster.network.cni.urls", "- https://example.org/cni.yaml"),
        new: ("KubeExternalManifestConfig", "url", "https://example.org/cni.yaml"),
    },
    Row {
        lines: "kubeprism: false\n",
        node: "worker-1",
        old: ("machine.features.kubePrism", "-"),
        new: ("KubePrismConfig", "port", "-"),
    },
    Row {
        lines: "discovery: false\n",
        node: "worker-1",
        old: ("cluster.discovery.enabled", "false"),
        new: ("DiscoveryServiceConfig", "endpoint", "-"),
    },
    Row {
        lines: "node_ip_subnets: 10.0.0.0/8\n",
        node: "worker-1",
        old: ("machine.kubelet.nodeIP.validSubnets", "- 10.0.0.0/8"),
        new: ("KubeNodeConfig", "nodeIP.validSubnets", "- 10.0.0.0/8"),
    },
    Row {
        lines: "kernel_modules: [nbd]\n",
        node: "worker-1",
        old: ("machine.kernel.modules", "- name: nbd"),
        new: ("KernelModuleConfig", "name", "nbd"),
    },
];

#[test]
fn keys_are_where_each_layout_has_them() {
    for row in &ROWS {
        for minor in MINORS {
            let config = config(minor, row.lines, row.node);
            if minor >= 14 {
                let (kind, path, expected) = row.new;
                assert_eq!(of(&config, kind, path), expected, "1.{minor}: {}", row.lines);
            } else {
                let (path, expected) = row.old;
                assert_eq!(at(&config, path), expected, "1.{minor}: {}", row.lines);
            }
        }
    }
}

#[test]
fn no_network_plugin_and_one_of_ones_own() {
    let manifest = Around { manifest: Some("kind: DaemonSet\n# ${LEFT_ALONE}\n"), ..Around::default() };
    for minor in MINORS {
        for (lines, around) in
            [("cni: none\n", &Around::default()), ("cni: {manifest: cni.yaml}\n", &manifest)]
        {
            let text = format!("{}{lines}{NODES}", pinned(minor));
            let control_plane = rendered(&text, "cp-1", around).config;
            let worker = rendered(&text, "worker-1", around).config;
            let said = if minor >= 14 {
                assert!(control_plane.document("KubeFlannelCNIConfig").is_none());
                of(&control_plane, "KubeInlineManifestConfig cni", "manifest")
            } else {
                assert_eq!(at(&control_plane, "cluster.network.cni.name"), "none");
                at(&control_plane, "cluster.inlineManifests")
            };
            assert_eq!(said.contains("kind: DaemonSet\n"), around.manifest.is_some(), "{said}");
            assert_eq!(said.contains("# ${LEFT_ALONE}"), around.manifest.is_some(), "{said}");
            assert!(!worker.to_yaml().contains("DaemonSet"));
        }
    }
    let text = format!("{}cni: {{manifest: cni.yaml}}\n{NODES}", pinned(13));
    let error = try_render(&text, "cp-1", &Around::default()).unwrap_err();
    assert_eq!(error, RenderError::MissingManifest("cni.yaml".to_owned()));
}

#[test]
fn encryption_is_sealed_to_the_tpm_or_bound_to_the_machine() {
    for (word, key) in [("tpm", "tpm: {}"), ("node-id", "nodeID: {}")] {
        for minor in MINORS {
            let config = config(minor, &format!("disk_encryption: {word}\n"), "worker-1");
            for volume in ["STATE", "EPHEMERAL"] {
                let said = if minor >= 11 {
                    of(&config, &format!("VolumeConfig {volume}"), "encryption")
                } else {
                    at(&config, &format!("machine.systemDiskEncryption.{}", volume.to_lowercase()))
                };
                assert!(said.contains("provider: luks2") && said.contains(key), "1.{minor}\n{said}");
            }
            if minor >= 14 {
                assert_eq!(of(&config, "VolumeConfig EPHEMERAL", "mount.secure"), "true");
            }
        }
        let desired = desired(&format!("{}disk_encryption: {word}\n{NODES}", pinned(13)));
        assert_eq!(desired.nodes[1].vm.tpm, word == "tpm");
    }
}

#[test]
fn disks_with_a_mount_become_user_volumes_by_their_slot() {
    let lines =
        "proxmox_vm_worker_defaults:\n  vm_disks: [{slot: 1, size: 10, mount: data}, {slot: 2, size: 20}]\n";
    for minor in MINORS {
        let config = config(minor, lines, "worker-1");
        let link = "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi1";
        if minor >= 10 {
            assert_eq!(names(&config, "UserVolumeConfig"), ["data"]);
            let selector = of(&config, "UserVolumeConfig data", "provisioning.diskSelector.match");
            assert_eq!(selector, format!("'\"{link}\" in disk.symlinks'"));
            assert_eq!(of(&config, "UserVolumeConfig data", "provisioning.grow"), "true");
        } else {
            let disks = at(&config, "machine.disks");
            assert!(disks.contains(link) && disks.contains("mountpoint: /var/mnt/data"), "{disks}");
        }
    }
}

#[test]
fn the_install_disk_follows_from_the_bus_unless_it_is_written() {
    let cases = [
        ("", "/dev/sda"),
        ("proxmox_vm_defaults: {disk_bus: virtio}\n", "/dev/vda"),
        ("proxmox_vm_defaults: {disk_bus: sata}\n", "/dev/sda"),
        ("proxmox_vm_defaults: {disk_bus: virtio, disk: /dev/sdb}\n", "/dev/sdb"),
        ("proxmox_vm_defaults: {disk: S3R1AL}\n", "S3R1AL"),
    ];
    for minor in MINORS {
        for (lines, disk) in cases {
            let config = config(minor, lines, "worker-1");
            let serial = !disk.starts_with('/');
            if minor >= 14 {
                let field = if serial { "disk.serial" } else { "disk.dev_path" };
                let selector = of(&config, "UnattendedInstallConfig", "provisioning.diskSelector.match");
                assert_eq!(selector, format!("{field} == \"{disk}\""));
                assert_eq!(of(&config, "UnattendedInstallConfig", "provisioning.wipe"), "false");
                assert!(
                    of(&config, "UnattendedInstallConfig", "installer.image").contains("nocloud-installer")
                );
            } else if serial {
                assert_eq!(at(&config, "machine.install.diskSelector.serial"), disk);
                assert_eq!(at(&config, "machine.install.disk"), "-");
            } else {
                assert_eq!(at(&config, "machine.install.disk"), disk);
            }
        }
    }
}

#[test]
fn the_install_image_is_that_of_the_schematic_or_the_providers() {
    let id = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";
    for (lines, around, expected) in [
        ("", Around::default(), format!("factory.talos.dev/nocloud-installer/{id}:v1.13.9")),
        (
            "proxmox_vm_defaults: {secure_boot: true}\n",
            Around::default(),
            format!("factory.talos.dev/nocloud-installer-secureboot/{id}:v1.13.9"),
        ),
        (
            "factory_url: https://factory.lan:8443\n",
            Around::default(),
            format!("factory.lan:8443/nocloud-installer/{id}:v1.13.9"),
        ),
        (
            "",
            Around { images: vec![("proxmox", "example.org/i:v1")], ..Around::default() },
            "example.org/i:v1".to_owned(),
        ),
        (
            "",
            Around { images: vec![("default", "example.org/d:v1")], ..Around::default() },
            "example.org/d:v1".to_owned(),
        ),
    ] {
        let text = format!("{}{lines}{NODES}", pinned(13));
        let config = rendered(&text, "worker-1", &around).config;
        assert_eq!(at(&config, "machine.install.image"), expected);
    }
    let old = config(9, "", "worker-1");
    assert_eq!(at(&old, "machine.install.image"), format!("factory.talos.dev/installer/{id}:v1.9.6"));
}

#[test]
fn arguments_of_the_kernel_are_in_the_config_only_where_talos_heeds_them_there() {
    let lines = "schematic: {extensions: [siderolabs/qemu-guest-agent], kernel_args: [nosmt]}\n";
    for (minor, expected) in [
        (8, "- console=ttyS0,115200\n- nosmt"),
        (9, "- console=ttyS0,115200\n- nosmt"),
        (10, "- console=ttyS0,115200"),
        (11, "- console=ttyS0,115200"),
        (12, "-"),
        (13, "-"),
    ] {
        let config = config(minor, lines, "worker-1");
        assert_eq!(at(&config, "machine.install.extraKernelArgs"), expected, "1.{minor}");
    }
    // The layout is old, and Talos is not.
    let text = pinned(13).replace("\"1.13\"", "\"1.9\"");
    let config = rendered(&format!("{text}{lines}{NODES}"), "worker-1", &Around::default()).config;
    assert_eq!(at(&config, "machine.install.extraKernelArgs"), "-");
}

#[test]
fn kubespan_and_mirrors() {
    let lines = "kubespan: true\nregistry_mirrors: {docker.io: ['https://mirror.lan']}\n";
    for minor in MINORS {
        let config = config(minor, lines, "worker-1");
        let kubespan = if minor >= 13 {
            of(&config, "KubeSpanConfig", "enabled")
        } else {
            at(&config, "machine.network.kubespan.enabled")
        };
        assert_eq!(kubespan, "true");
        let mirror = if minor >= 12 {
            of(&config, "RegistryMirrorConfig docker.io", "endpoints")
        } else {
            at(&config, "machine.registries.mirrors")
        };
        assert!(mirror.contains("https://mirror.lan"), "{mirror}");
    }
}

#[test]
fn extension_services_have_a_document_each() {
    let lines = "extension_services:\n  - name: nut-client\n    config_files: [{mount_path: /etc/nut, content: hush-hush}]\n    \
        environment: [A=b]\n";
    for minor in MINORS {
        let config = config(minor, lines, "worker-1");
        let files = of(&config, "ExtensionServiceConfig nut-client", "configFiles");
        assert!(files.contains("content: hush-hush") && files.contains("mountPath: /etc/nut"), "{files}");
        assert_eq!(of(&config, "ExtensionServiceConfig nut-client", "environment"), "- A=b");
        assert!(!config.redacted().to_yaml().contains("hush-hush"));
    }
}

#[test]
fn where_a_machine_is_is_told_once_it_is_known() {
    let known = Around {
        vmid: Some(2001),
        host: Some("pve2"),
        uuid: Some("3f0c6a1e-0000-4000-8000-000000000001"),
        ..Around::default()
    };
    for minor in MINORS {
        for (kind, id) in
            [("proxmox", "proxmox://lab/2001"), ("uuid", "proxmox://3f0c6a1e-0000-4000-8000-000000000001")]
        {
            let lines = format!("region: lab\nprovider_id: {kind}\n");
            let text = format!("{}{lines}{NODES}", pinned(minor));
            let full = rendered(&text, "worker-1", &known);
            let bare = rendered(&text, "worker-1", &Around::default());
            let look = |config: &talmox_machine::Config| {
                if minor >= 14 {
                    (of(config, "KubeletConfig", "config.providerID"), of(config, "KubeNodeConfig", "labels"))
                } else {
                    (at(config, "machine.kubelet.extraConfig.providerID"), at(config, "machine.nodeLabels"))
                }
            };
            let labels = "topology.kubernetes.io/region: lab\ntopology.kubernetes.io/zone: pve2";
            assert_eq!(look(&full.config), (id.to_owned(), labels.to_owned()));
            assert!(full.left_out.is_empty());
            assert_eq!(look(&bare.config).0, "-");
            assert_eq!(look(&bare.config).1, "topology.kubernetes.io/region: lab");
            assert_eq!(bare.left_out.len(), 2, "{:?}", bare.left_out);
            let annotated = full.config.to_yaml().contains("proxmox.sinextra.dev/instance-id: \"2001\"");
            assert_eq!(annotated, kind == "uuid");
        }
    }
}

#[test]
fn a_label_somebody_wrote_wins_over_the_zone() {
    let lines = "region: lab\nproxmox_vm_defaults: {labels: {topology.kubernetes.io/zone: rack-1}}\n";
    let around = Around { host: Some("pve2"), ..Around::default() };
    let config = rendered(&format!("{}{lines}{NODES}", pinned(13)), "worker-1", &around).config;
    assert!(at(&config, "machine.nodeLabels").contains("topology.kubernetes.io/zone: rack-1"));
}

#[test]
fn two_taints_of_one_key_are_refused() {
    let lines = "proxmox_vm_worker_defaults: {taints: ['a=b:NoSchedule', 'a=b:NoExecute']}\n";
    let text = format!("{}{lines}{NODES}", pinned(13));
    let error = try_render(&text, "worker-1", &Around::default()).unwrap_err();
    assert_eq!(error, RenderError::TwoTaints("a".to_owned()));
}

#[test]
fn what_talos_refuses_of_the_description_itself_is_told() {
    let text = format!("{}extension_services: [{{name: tailscale}}]\n{NODES}", pinned(13));
    let error = try_render(&text, "worker-1", &Around::default()).unwrap_err().to_string();
    assert!(error.contains("Talos 1.13 would refuse what the description says"), "{error}");
}

#[test]
fn no_secret_is_in_debug_output() {
    let rendered = rendered(&format!("{}{NODES}", pinned(14)), "cp-1", &Around::default());
    let shown = format!("{rendered:?}");
    assert!(!shown.contains("PRIVATE KEY") && !shown.contains("LS0tLS1"), "{shown}");
}
