//! `talmox schematic` and `talmox render install-image`, as a person uses them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::support::{self, Scratch, command, finish, run};
use talmox_image::client::{FactoryClient, HttpTransport, Settings};

const AGENT: &str = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";

#[test]
fn ids_of_known_lists() {
    let table: [(&[&str], &str); 4] = [
        (&["-f", "FILE"], "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"),
        (&["--extension", "siderolabs/qemu-guest-agent"], AGENT),
        (
            &["--extension", "siderolabs/qemu-guest-agent", "--kernel-arg", "console=ttyS0,115200"],
            "b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea",
        ),
        (
            &["--extension", "siderolabs/nfsrahead,siderolabs/qemu-guest-agent"],
            "29d123fd0e746fccd5ff52d37c0cdbd2d653e10ae29c39276b6edb9ffbd56cf4",
        ),
    ];
    let scratch = Scratch::new("schematic-ids");
    let file = scratch.path("schematic.yaml");
    std::fs::write(&file, "customization: {}\n").unwrap();
    for (flags, id) in table {
        let flags: Vec<&str> = flags.iter().map(|flag| if *flag == "FILE" { &file } else { *flag }).collect();
        let run = run(&[&["schematic", "id"], flags.as_slice()].concat()).succeeded();
        assert_eq!(run.stdout.trim_end(), id, "{flags:?}");
    }
}

#[test]
fn flags_add_to_a_file_and_order_is_kept() {
    let scratch = Scratch::new("schematic-flags");
    let file = scratch.path("schematic.yaml");
    std::fs::write(&file, "customization: {extraKernelArgs: [quiet]}\n").unwrap();
    let flags =
        ["--kernel-arg", "a: b", "--meta", "0xa={}", "--bootloader", "sd-boot", "--enroll-keys", "off"];
    let run =
        run(&[["schematic", "show", "-f", file.as_str()].as_slice(), flags.as_slice()].concat()).succeeded();
    insta::assert_snapshot!(run.stdout, @r#"
    customization:
        extraKernelArgs:
            - quiet
            - 'a: b'
        meta:
            - key: 10
              value: '{}'
        bootloader: sd-boot
        secureboot:
            enrollKeys: "off"
    "#);
    let run = support::run(&["schematic", "id", "-v", "--extension", "b", "--extension", "a", "-o", "json"])
        .succeeded();
    insta::assert_snapshot!(run.whole(), @r#"
    exit 0
    ---- stdout
    {
      "id": "8f62517040141a8047a68da16be93084d681e337599e62c82daf070c828f4cff"
    }
    ---- stderr
    note: the order of extensions counts; sorted, as the factory's page has them, the id is b82d26385b061e8011db3d77f81536f1dfcc12d905e8b194b7f857fcd8f27c8e
    "#);
}

#[test]
fn addresses_of_a_description() {
    insta::assert_snapshot!(run(&["schematic", "url", "-f", "examples/homelab"]).succeeded().stdout, @"
    qcow2      https://factory.talos.dev/image/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515/v1.13.9/nocloud-amd64.qcow2
    raw.xz     https://factory.talos.dev/image/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515/v1.13.9/nocloud-amd64.raw.xz
    iso        https://factory.talos.dev/image/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515/v1.13.9/nocloud-amd64.iso
    installer  factory.talos.dev/nocloud-installer/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515:v1.13.9
    pxe        https://pxe.talos.dev/pxe/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515/v1.13.9/nocloud-amd64
    ");
    let flags = ["schematic", "url", "-f", "examples/homelab", "--format"];
    let one = |format: &[&str]| run(&[flags.as_slice(), format].concat()).succeeded().stdout;
    let text = [
        one(&["iso", "--secure-boot", "--arch", "arm64"]),
        one(&["installer", "--talos-version", "1.9.6"]),
        one(&["raw.zst", "--platform", "metal", "--factory", "http://mirror.lan:8080/talos"]),
        one(&["installer", "--factory", "http://mirror.lan:8080/talos"]),
        one(&["qcow2", "-o", "json"]),
    ];
    insta::assert_snapshot!(text.concat(), @r#"
    https://factory.talos.dev/image/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515/v1.13.9/nocloud-arm64-secureboot.iso
    factory.talos.dev/installer/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515:v1.9.6
    http://mirror.lan:8080/talos/image/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515/v1.13.9/metal-amd64.raw.zst
    mirror.lan:8080/talos/nocloud-installer/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515:v1.13.9
    {
      "id": "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515",
      "talos_version": "1.13.9",
      "platform": "nocloud",
      "arch": "amd64",
      "secure_boot": false,
      "urls": [
        {
          "format": "qcow2",
          "url": "https://factory.talos.dev/image/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515/v1.13.9/nocloud-amd64.qcow2"
        }
      ]
    }
    "#);
}

#[test]
fn mistakes_are_explained() {
    let scratch = Scratch::new("schematic-mistakes");
    let file = scratch.path("schematic.yaml");
    std::fs::write(&file, "customization:\n  systemExtension: {}\n  bootloader: lilo\n").unwrap();
    let run = |arguments: &[&str]| support::run(arguments).failed().stderr.replace(&file, "schematic.yaml");
    insta::assert_snapshot!(run(&["schematic", "id", "-f", &file]), @"
    error: schematic.yaml is no schematic
      schematic.yaml:2:3: customization has no key systemExtension (did you mean systemExtensions?)
      schematic.yaml:3:15: lilo is not a boot loader (one of dual-boot, sd-boot, grub; leave it out for the default)
    ");
    insta::assert_snapshot!(run(&["schematic", "id", "-f", "nowhere.yaml"]), @"error: could not read nowhere.yaml: No such file or directory (os error 2)");
    insta::assert_snapshot!(run(&["schematic", "url", "--platform", "noclod"]), @"
    error: invalid value 'noclod' for '--platform <NAME>': noclod is not a platform of Talos: did you mean nocloud?

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(run(&["schematic", "id", "--meta", "300=x"]), @"
    error: invalid value '300=x' for '--meta <KEY=VALUE>': the key is a number from 0 to 255

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(run(&["render", "install-image", "--provider", "metal"]), @"
    error: metal names no virtual provider, so nothing is customized
    hint: a name with proxmox, kubevirt, libvirt, kvm, qemu, vmware, virtualbox or hyper-v in it
    ");
}

#[test]
fn install_images_by_provider() {
    let scratch = Scratch::new("install-image");
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let arguments = [["render", "install-image"].as_slice(), arguments].concat();
        finish(command(&arguments).current_dir(&scratch.0).envs(variables.iter().copied()))
            .succeeded()
            .whole()
    };
    insta::assert_snapshot!(run(&["--provider", "Proxmox-Prod", "--node", "cp-1"], &[]), @"
    exit 0
    ---- stdout
    provider   proxmox, recognised in Proxmox-Prod
    talos      1.13.9
    image      factory.talos.dev/nocloud-installer/b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea:v1.13.9  (none configured: that of the schematic below)
    adds       console=ttyS0,115200 to schematic
               Talos 1.12 and newer refuses install.extraKernelArgs beside grubUseUKICmdline
    adds       siderolabs/qemu-guest-agent to schematic
               extensions are part of the image; no version of Talos reads machine.install.customization
    schematic  b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea
    ---- stderr
    Detected virtual machine provider Proxmox-Prod for node cp-1, applying VM customizations (no custom install image configured)
    ");
    let kvm = ("TALOS_VM_INSTALL_IMAGE_KVM", "example.org/kvm-installer:v1.11.5");
    let default = ("TALOS_VM_INSTALL_IMAGE_DEFAULT", "example.org/default:v1.11.5");
    let flags = ["--provider", "qemu", "--node", "n", "--talos-version", "1.11.5"];
    insta::assert_snapshot!(run(&flags, &[kvm, default]), @"
    exit 0
    ---- stdout
    provider   kvm, recognised in qemu
    talos      1.11.5
    image      example.org/kvm-installer:v1.11.5  (TALOS_VM_INSTALL_IMAGE_KVM)
               its name does not say what is in it: what is added to the schematic must be in it already
    adds       console=ttyS0,115200 to machine.install.extraKernelArgs
               Talos before 1.12 takes it there; on UEFI, 1.10 and 1.11 heed only the image's own arguments
    adds       siderolabs/qemu-guest-agent to schematic
               extensions are part of the image; no version of Talos reads machine.install.customization
    schematic  ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515
    installer  factory.talos.dev/nocloud-installer/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515:v1.11.5  (of that schematic)
    ---- stderr
    Detected virtual machine provider qemu for node n, applying VM customizations with install image: example.org/kvm-installer:v1.11.5
    ");
    insta::assert_snapshot!(run(&["--provider", "vmware", "-o", "json"], &[kvm, default]), @r#"
    exit 0
    ---- stdout
    {
      "provider": "vmware",
      "recognised_as": "vmware",
      "talos_version": "1.13.9",
      "install_image": "example.org/default:v1.11.5",
      "from": "TALOS_VM_INSTALL_IMAGE_DEFAULT",
      "image_schematic": null,
      "additions": [
        {
          "what": "console=ttyS0,115200",
          "place": "schematic",
          "added": true,
          "why": "Talos 1.12 and newer refuses install.extraKernelArgs beside grubUseUKICmdline"
        },
        {
          "what": "siderolabs/qemu-guest-agent",
          "place": "schematic",
          "added": true,
          "why": "extensions are part of the image; no version of Talos reads machine.install.customization"
        }
      ],
      "schematic": "b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea",
      "installer": "factory.talos.dev/vmware-installer/b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea:v1.13.9",
      "log": []
    }
    ---- stderr
    "#);
    std::fs::write(
        scratch.path("cluster.yaml"),
        "cluster_uid: 0123456789abcdef\nproxmox_node: pve\n\
         install_images: {proxmox: 'factory.talos.dev/openstack-installer/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515:v1.11.5'}\n\
         nodes: [{name: cp-1, controller: true, address: 10.0.7.11}]\n",
    )
    .unwrap();
    insta::assert_snapshot!(run(&["--provider", "proxmox"], &[default]), @"
    exit 0
    ---- stdout
    provider   proxmox, recognised in proxmox
    talos      1.13.9
    image      factory.talos.dev/openstack-installer/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515:v1.11.5  (install_images.proxmox)
               its schematic is another than the one below: what is added there must be in it already
    adds       console=ttyS0,115200 to schematic
               Talos 1.12 and newer refuses install.extraKernelArgs beside grubUseUKICmdline
    adds       siderolabs/qemu-guest-agent to schematic
               extensions are part of the image; no version of Talos reads machine.install.customization
    schematic  b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea
    installer  factory.talos.dev/nocloud-installer/b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea:v1.13.9  (of that schematic)
    ---- stderr
    Detected virtual machine provider proxmox for node cp-1, applying VM customizations with install image: factory.talos.dev/openstack-installer/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515:v1.11.5
    ");
}

/// A simulator that ends with the test.
struct Simulator {
    child: Child,
    factory: String,
}

impl Simulator {
    /// Its world is kept in the test's folder: what is killed cleans nothing up.
    fn start(scratch: &Scratch, flags: &[&str]) -> Self {
        let state = scratch.path("world");
        let arguments = [["sim", "-o", "json", "--state", state.as_str()].as_slice(), flags].concat();
        let mut child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        Self { factory: ready["factory"].as_str().unwrap().to_owned(), child }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_schematic_is_registered_with_the_simulated_factory() {
    let scratch = Scratch::new("factory");
    let simulator = Simulator::start(&scratch, &[]);
    let register = |extension: &str| {
        let flags = ["schematic", "url", "--format", "qcow2", "--register", "--factory", &simulator.factory];
        let run = run(&[flags.as_slice(), &["--extension", extension]].concat());
        run.whole().replace(&simulator.factory, "http://factory")
    };
    insta::assert_snapshot!(register("siderolabs/qemu-guest-agent"), @"
    exit 0
    ---- stdout
    http://factory/image/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515/v1.13.9/nocloud-amd64.qcow2
    ---- stderr
    http://factory knows the schematic ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515
    ");
    insta::assert_snapshot!(register("siderolabs/qemu-agent"), @"
    exit 1
    ---- stdout
    ---- stderr
    there is no extension siderolabs/qemu-agent: did you mean siderolabs/qemu-guest-agent?
    error: Talos 1.13.9 does not have every extension; nothing was registered
    hint: http://factory/version/v1.13.9/extensions/official lists those it has
    ");
    let url = format!("{}/image/{AGENT}/v1.13.9/nocloud-amd64.qcow2", simulator.factory);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let size = runtime.block_on(async {
        let transport = std::sync::Arc::new(HttpTransport::new().unwrap());
        let factory = talmox_image::Factory::official();
        let client = FactoryClient::new(factory, transport, Settings::default());
        let mut bytes = Vec::new();
        let done = client.open_url(&url).await.unwrap().copy_to(&mut bytes, &mut |_, _| {}).await.unwrap();
        assert_eq!(&bytes[..4], b"QFI\xfb");
        done.size
    });
    assert_eq!(size, 6 * 65536);
}

#[test]
fn a_factory_in_trouble_is_named_with_a_remedy() {
    let scratch = Scratch::new("factory-trouble");
    let faults = scratch.path("faults.yaml");
    std::fs::write(&faults, "factory: {missing: [v1.13.9]}\n").unwrap();
    let simulator = Simulator::start(&scratch, &["--fault", &faults]);
    let flags = ["schematic", "url", "--register", "--extension", "siderolabs/qemu-guest-agent", "--factory"];
    let run = run(&[flags.as_slice(), &[simulator.factory.as_str()]].concat()).failed();
    insta::assert_snapshot!(run.stderr.replace(&simulator.factory, "http://factory"), @"
    error: could not list the extensions of Talos 1.13.9 at http://factory/version/v1.13.9/extensions/official: not found: version v1.13.9 is not available
    hint: is the Talos version one this factory has, and was the schematic registered with it?
    ");
}

#[test]
fn a_description_says_where_its_schematic_is_not_the_whole_story() {
    let scratch = Scratch::new("schematic-described");
    std::fs::write(
        scratch.path("cluster.yaml"),
        format!(
            "cluster_uid: 0123456789abcdef\nproxmox_node: pve\nschematic: {{extensions: [siderolabs/zfs, siderolabs/btrfs]}}\n\
             nodes: [{{name: cp-1, controller: true, address: 10.0.7.11, schematic_id: {AGENT}}}]\n"
        ),
    )
    .unwrap();
    let run = |arguments: &[&str]| finish(command(arguments).current_dir(&scratch.0)).succeeded().whole();
    insta::assert_snapshot!(run(&["schematic", "id"]), @"
    exit 0
    ---- stdout
    e94b426eb8bd44da6ce869a05d4ed096f74235cb06ab28b91aeb8251c733984c
    ---- stderr
    note: schematic_id gives cp-1 another schematic than this
    ");
    insta::assert_snapshot!(run(&["validate", "-v"]), @"
    exit 0
    ---- stdout
    valid: cluster kubernetes, 1 control plane, 0 workers, Talos 1.13.9, Kubernetes 1.36.3
    ---- stderr
    note: the order of extensions counts; sorted, as the factory's page has them, the id is 509cb04b6331946a165c82beec18bdf87594ad0877053950323c56afd0f303fe
    ");
    insta::assert_snapshot!(run(&["render", "install-image", "--provider", "proxmox", "--node", "cp-1"]), @"
    exit 0
    ---- stdout
    provider   proxmox, recognised in proxmox
    talos      1.13.9
    image      factory.talos.dev/nocloud-installer/ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515:v1.13.9  (none configured: that of the schematic below)
    needs      console=ttyS0,115200 in the node's own schematic
               Talos 1.12 and newer refuses install.extraKernelArgs beside grubUseUKICmdline
    needs      siderolabs/qemu-guest-agent in the node's own schematic
               extensions are part of the image; no version of Talos reads machine.install.customization
    schematic  ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515
    ---- stderr
    Detected virtual machine provider proxmox for node cp-1, applying VM customizations (no custom install image configured)
    ");
}
