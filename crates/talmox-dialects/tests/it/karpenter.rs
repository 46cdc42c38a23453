//! Manifests of Karpenter for Proxmox, sound and faulty.

use insta::assert_snapshot;
use talmox_config::{Colour, Severity, report};
use talmox_dialects::karpenter::{Manifests, are_manifests, read_text};
use talmox_pve::property::VmConfig;
use talmox_types::desired::{Compression, TemplateRef};

/// A managed template as the documentation of the project shows one, word for word but for its comments.
const DOCUMENTED: &str = "\
apiVersion: karpenter.proxmox.sinextra.dev/v1alpha1
kind: ProxmoxTemplate
metadata:
  name: default
spec:
  sourceImage:
    url: https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img
    imageName: ubuntu-amd64.qcow2
    checksum: <checksum>
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

const SMALL: &str = "\
apiVersion: karpenter.proxmox.sinextra.dev/v1alpha1
kind: ProxmoxTemplate
metadata: {name: small}
spec:
  sourceImage: {url: https://example.org/images/debian.qcow2}
  storageIDs: [local]
  network: [{bridge: vmbr0}]
";

fn read(text: &str) -> Manifests {
    read_text("template.yaml", text)
}

fn told(manifests: &Manifests) -> String {
    report(&manifests.sources, &manifests.problems, Colour::Never)
}

/// A small manifest with more keys in its spec.
fn with(spec: &str) -> Manifests {
    read(&format!("{SMALL}{spec}"))
}

/// Everything that is wrong with a manifest, one line for each.
fn messages(manifests: &Manifests) -> Vec<String> {
    manifests.problems.iter().map(|problem| problem.message.clone()).collect()
}

fn option<'m>(manifests: &'m Manifests, key: &str) -> Option<&'m str> {
    assert!(!manifests.has_errors(), "{}", told(manifests));
    manifests.templates[0].options.get(key).map(String::as_str)
}

#[test]
fn the_documented_manifest_lacks_its_checksum() {
    let manifests = read(DOCUMENTED);
    assert_eq!(manifests.errors(), 1);
    assert!(manifests.templates.is_empty());
    assert_snapshot!(told(&manifests));
}

#[test]
fn with_a_checksum_every_field_arrives() {
    let manifests = read(&DOCUMENTED.replace("<checksum>", "D41D8CD98F00B204E9800998ECF8427E"));
    assert_eq!(manifests.errors(), 0, "{}", told(&manifests));
    let [warning] = manifests.problems.as_slice() else { panic!("{}", told(&manifests)) };
    assert_eq!(warning.severity, Severity::Warning);
    let template = &manifests.templates[0];
    assert_eq!(template.owner.as_deref(), Some("ProxmoxTemplate/default"));
    let options = template.options.iter().map(|(key, value)| format!("{key}: {value}\n")).collect::<String>();
    let rest = format!(
        "{options}image {} {}\n{}\nfrom {:?} to {:?}\ndisk {} efi {} tpm {:?} tags {:?} pool {:?} notes {:?}",
        template.image.file,
        template.image.checksum.as_ref().unwrap(),
        template.image.url,
        template.image_storages,
        template.disk_storages,
        template.disk_options,
        template.efi,
        template.tpm,
        template.tags,
        template.pool,
        template.notes,
    );
    assert_snapshot!(rest);
}

#[test]
fn what_is_left_out_is_as_the_controller_has_it() {
    let manifests = with("");
    assert_eq!(manifests.problems, []);
    let template = &manifests.templates[0];
    let option = |key: &str| template.options.get(key).map(String::as_str);
    assert_eq!(option("machine"), Some("q35"));
    assert_eq!(option("cpu"), Some("x86-64-v2-AES"));
    assert_eq!(option("net0"), Some("virtio,bridge=vmbr0,mtu=1500"));
    assert_eq!(option("ipconfig0"), Some("ip=dhcp,ip6=auto"));
    assert_eq!(
        (option("agent"), option("vga"), option("serial0"), option("onboot")),
        (None, None, None, None)
    );
    assert!(!template.efi && template.tpm.is_none() && template.image.checksum.is_none());
    assert_eq!(template.disk_options, "iothread=1");
    assert_eq!(template.pool.as_ref().unwrap().as_str(), "talmox-templates");
}

#[test]
fn every_other_field() {
    let manifests = with(
        "  description: for the lab
  bios: ovmf
  tpm: {}
  agent: {enabled: true, fsFreezeOnBackup: false, fsTrimClonedDisks: true, type: isa}
  cpu: {type: host, flags: [+aes, -pcid]}
  vga: {memory: 32}
  pciDevices: [{mapping: gpu, mdev: nvidia-63, pcie: true, xvga: true}, {mapping: nic}]
  resourcePool: lab/templates
  onBoot: false
",
    );
    assert_eq!(
        option(&manifests, "agent"),
        Some("enabled=1,freeze-fs-on-backup=0,fstrim_cloned_disks=1,type=isa")
    );
    assert_eq!(option(&manifests, "cpu"), Some("host,flags=+aes;-pcid"));
    assert_eq!(option(&manifests, "vga"), Some("std,memory=32"));
    assert_eq!(option(&manifests, "hostpci0"), Some("mapping=gpu,mdev=nvidia-63,pcie=1,x-vga=1"));
    assert_eq!(option(&manifests, "hostpci1"), Some("mapping=nic"));
    assert_eq!(option(&manifests, "onboot"), Some("0"));
    let template = &manifests.templates[0];
    assert!(template.efi);
    assert_eq!(template.tpm.as_deref(), Some("v2.0"));
    assert_eq!(template.notes.as_deref(), Some("for the lab"));
    assert_eq!(template.pool.as_ref().unwrap().as_str(), "lab/templates");
}

#[test]
fn interfaces_have_numbers_addresses_and_name_servers() {
    let text = SMALL.replace(
        "[{bridge: vmbr0}]",
        "
    - {name: net1, bridge: vmbr1, model: e1000, vlan: 7, address4: 10.0.7.11/24, gateway4: 10.0.7.1, dnsServers: [1.1.1.1, 9.9.9.9]}
    - {name: net0, bridge: vmbr0, mtu: 1, address6: auto, dnsServers: [1.1.1.1]}",
    );
    let manifests = read(&text);
    assert_eq!(option(&manifests, "net1"), Some("e1000,bridge=vmbr1,tag=7"));
    assert_eq!(option(&manifests, "ipconfig1"), Some("ip=10.0.7.11/24,gw=10.0.7.1"));
    assert_eq!(option(&manifests, "net0"), Some("virtio,bridge=vmbr0,mtu=1"));
    assert_eq!(option(&manifests, "ipconfig0"), Some("ip6=auto"));
    assert_eq!(option(&manifests, "nameserver"), Some("1.1.1.1 9.9.9.9"));
}

/// Whatever is sent is what the reader of Proxmox's own spelling understands.
#[test]
fn proxmox_can_read_what_is_sent() {
    let full = read(&DOCUMENTED.replace("<checksum>", "d41d8cd98f00b204e9800998ecf8427e"));
    for template in full.templates.iter().chain(&with("").templates) {
        let mut config = VmConfig::default();
        for (key, value) in &template.options {
            config.set(key, value);
        }
        assert!(config.cpu().unwrap().unwrap().flags.is_none_or(|flags| flags.0.contains("+pdpe1gb")));
        assert_eq!(config.net_devices().unwrap().len(), 1);
        assert!(config.ip_configs().unwrap().len() == 1 && config.boot().unwrap().is_some());
        assert!(config.machine().unwrap().is_some());
    }
}

#[test]
fn what_an_image_is() {
    let image = |source: &str| {
        let manifests = read(&SMALL.replace("{url: https://example.org/images/debian.qcow2}", source));
        match manifests.templates.first() {
            Some(template) => {
                let file = template.image.file.strip_prefix("talmox-small-").unwrap().to_owned();
                Ok((file.split_once('.').unwrap().1.to_owned(), template.image.compression))
            }
            None => Err(messages(&manifests)),
        }
    };
    let is = |format: &str, compression| Ok((format.to_owned(), compression));
    assert_eq!(image("{url: https://example.org/a.vmdk}"), is("vmdk", None));
    assert_eq!(image("{url: https://example.org/a.raw}"), is("raw", None));
    assert_eq!(image("{url: https://example.org/a.img}"), is("qcow2", None));
    assert_eq!(image("{url: https://example.org/a.img, imageName: b.raw}"), is("raw", None));
    assert_eq!(image("{url: https://example.org/a.img, imageName: b}"), is("qcow2", None));
    assert_eq!(image("{url: https://example.org/latest, imageName: b.img}"), is("qcow2", None));
    assert_eq!(image("{url: https://example.org/nocloud-amd64.raw.xz}"), is("raw", Some(Compression::Xz)));
    assert_eq!(image("{url: https://example.org/a.qcow2.zst}"), is("qcow2", Some(Compression::Zst)));
    let refused = |words: &str| Err(vec![words.to_owned()]);
    assert_eq!(
        image("{url: https://example.org/a.raw.bz2}"),
        refused("this image is packed in a way nothing here unpacks")
    );
    assert_eq!(
        image("{url: https://example.org/latest}"),
        refused("nothing says what kind of image this is")
    );
    assert_eq!(
        image("{url: https://example.org/a.raw, imageName: b.qcow2}"),
        refused("imageName says qcow2, and the image is raw")
    );
}

#[test]
fn a_checksum_fits_its_type() {
    let sum = |checksum: &str| {
        let source = format!("{{url: https://example.org/a.raw, {checksum}}}");
        let manifests = read(&SMALL.replace("{url: https://example.org/images/debian.qcow2}", &source));
        match manifests.templates.first() {
            Some(template) => Ok(template.image.checksum.as_ref().map(ToString::to_string)),
            None => Err(messages(&manifests)),
        }
    };
    let md5 = "d41d8cd98f00b204e9800998ecf8427e";
    assert_eq!(sum(&format!("checksum: {md5}")), Ok(Some(format!("md5:{md5}"))));
    assert_eq!(sum(&format!("checksum: {md5}, checksumType: md5")), Ok(Some(format!("md5:{md5}"))));
    let refused = |words: &str| Err(vec![words.to_owned()]);
    assert_eq!(
        sum(&format!("checksum: {md5}, checksumType: sha256")),
        refused("a sha256 checksum has 64 digits, this has 32")
    );
    assert_eq!(sum("checksum: md5sum"), refused("a checksum is made of hexadecimal digits"));
    assert_eq!(sum("checksumType: md5"), Ok(None));
}

#[test]
fn every_mistake_is_told_at_once() {
    let manifests = read(
        "\
apiVersion: karpenter.proxmox.sinextra.dev/v1
kind: ProxmoxTemplate
metadata: {name: Default}
---
apiVersion: karpenter.proxmox.sinextra.dev/v1alpha1
kind: ProxmoxTempalte
metadata: {name: one}
---
apiVersion: karpenter.proxmox.sinextra.dev/v1alpha1
kind: ProxmoxTemplate
metadata: {name: two}
spec:
  sourceImage: {url: example.org/a.qcow2, checksum: abc, checksumType: sha3}
  storageIDs: []
  machin: q35
  cpu: {type: hots, flags: [aes]}
  vga: {memory: 2}
  network:
    - {mtu: 100, vlan: 4095, gateway4: fd00::1}
    - {bridge: vmbr0, name: net9, gateway4: 10.0.0.1}
  pciDevices: [{pcie: true}]
  onBoot: yes
",
    );
    assert!(manifests.templates.is_empty());
    assert_snapshot!(told(&manifests));
}

#[test]
fn what_excludes_each_other() {
    let manifests = with("  machine: pc\n  pciDevices: [{mapping: gpu, pcie: true}]\n  region: north\n");
    assert_eq!(
        messages(&manifests),
        ["a machine of type pc has no PCI Express", "region north decides nothing here"]
    );
    let twice = SMALL.replace("[{bridge: vmbr0}]", "[{bridge: vmbr0, name: net1}, {bridge: vmbr1}]");
    assert_eq!(messages(&read(&twice)), ["there are two net1"]);
    let mtu = SMALL.replace("bridge: vmbr0", "bridge: vmbr0, model: e1000, mtu: 9000");
    assert_eq!(messages(&read(&mtu)), ["mtu is left out: e1000 cannot be told one"]);
    assert_eq!(messages(&read(&format!("{SMALL}---\n{SMALL}"))), ["there are two of the name small"]);
}

#[test]
fn one_thing_is_taken_for_a_list_of_one() {
    let manifests = read(&SMALL.replace("[local]", "local").replace("[{bridge: vmbr0}]", "{bridge: vmbr0}"));
    assert_eq!(manifests.errors(), 0);
    assert_eq!(manifests.templates[0].image_storages.len(), 1);
    assert_snapshot!(told(&manifests));
}

#[test]
fn templates_somebody_else_made() {
    let unmanaged = |spec: &str| {
        read(&format!(
            "apiVersion: karpenter.proxmox.sinextra.dev/v1alpha1\nkind: ProxmoxUnmanagedTemplate\n\
             metadata: {{name: default}}\nspec: {spec}\n"
        ))
    };
    let manifests = unmanaged("{templateName: talos}");
    assert_eq!(manifests.problems, []);
    assert_eq!(manifests.references[0].name, "default");
    assert_eq!(manifests.references[0].template, TemplateRef::Name("talos".to_owned()));
    let both = unmanaged("{templateName: talos, tags: [a, b]}");
    let TemplateRef::Tagged { name, tags } = &both.references[0].template else { panic!("{both:?}") };
    assert_eq!((name.as_deref(), tags.len()), (Some("talos"), 2));
    assert_eq!(messages(&unmanaged("{}")), ["no template is named"]);
    assert_eq!(messages(&unmanaged("{tags: []}")), ["tags: the list is empty"]);
    assert_eq!(messages(&unmanaged("{templatename: talos}"))[0], "unknown key templatename");
}

#[test]
fn other_kinds_are_left_alone() {
    let others = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {}\n";
    let manifests = read(&format!("{others}---\n{SMALL}---\n"));
    assert_eq!((manifests.errors(), manifests.templates.len()), (0, 1));
    assert_eq!(messages(&manifests), ["ConfigMap is left to other tools"]);
    let nothing = read(others);
    assert_eq!(messages(&nothing)[0], "template.yaml has no template in it");
    assert!(
        are_manifests(others)
            && !are_manifests("cluster_name: lab\nnodes: []\n")
            && !are_manifests("- kind\n")
    );
}

#[test]
fn text_that_is_no_yaml() {
    assert_eq!(messages(&read("kind: [\n")), ["this is not valid YAML"]);
    assert!(messages(&read("kind: A\nkind: B\n")).contains(&"kind stands here twice".to_owned()));
}
