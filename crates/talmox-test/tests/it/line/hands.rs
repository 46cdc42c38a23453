//! VMs made by other hands: with the calls Terraform's bpg provider, Ansible and the web page make, each in its own
//! spelling and with its own defaults left out.

use talmox_sim::World;

use crate::chance::Chance;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hand {
    Bpg,
    Ansible,
    WebPage,
}

/// A VM somebody made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) hand: Hand,
    pub(crate) vmid: u32,
    pub(crate) host: String,
    pub(crate) name: String,
    pub(crate) mac: String,
    /// The static address its cloud-init drive gives it, if it has one.
    pub(crate) address: Option<String>,
    pub(crate) running: bool,
    pub(crate) notes: Option<String>,
    form: Vec<(String, String)>,
    snapshot: bool,
}

impl Made {
    /// The n-th VM, counted from 1.
    pub(crate) fn by(chance: &Chance, number: usize, hosts: usize) -> Self {
        let hand = [Hand::Bpg, Hand::Ansible, Hand::WebPage][number % 3];
        let mut made = Self {
            hand,
            vmid: 100 + u32::try_from(number).unwrap(),
            host: format!("pve{}", 1 + number % hosts),
            name: format!("node-{number}"),
            mac: format!("BC:24:11:{:02X}:00:{number:02X}", chance.number(0, 255)),
            address: None,
            running: chance.percent(70),
            notes: chance
                .pick(&[None, Some("rack 4"), Some("two\n\nparagraphs, äöü"), Some("talmox:v0 mine")])
                .map(str::to_owned),
            form: Vec::new(),
            snapshot: chance.percent(15),
        };
        match hand {
            Hand::Bpg => made.bpg(chance),
            Hand::Ansible => made.ansible(chance),
            Hand::WebPage => made.web_page(chance),
        }
        if let Some(notes) = made.notes.clone() {
            made.set("description", &notes);
        }
        made
    }

    fn set(&mut self, key: &str, value: &str) {
        self.form.push((key.to_owned(), value.to_owned()));
    }

    fn maybe(&mut self, chance: &Chance, percent: u64, key: &str, value: &str) {
        if chance.percent(percent) {
            self.set(key, value);
        }
    }

    /// Every default said aloud, options in front of what they belong to, flags as numbers.
    fn bpg(&mut self, chance: &Chance) {
        let bus = chance.pick(&["scsi", "scsi", "virtio", "sata"]);
        let size = chance.number(8, 120);
        let aio = if bus == "scsi" { ",aio=io_uring,iothread=1" } else { "" };
        let backup = chance.pick(&["1", "0"]);
        self.set(
            &format!("{bus}0"),
            &format!("file=local-zfs:{size}{aio},backup={backup},cache=none,discard=on,replicate=0"),
        );
        self.set("acpi", "1");
        self.set(
            "agent",
            chance.pick(&["enabled=1,fstrim_cloned_disks=1,type=virtio", "enabled=0,type=virtio"]),
        );
        self.set("bios", "seabios");
        self.set("boot", &format!("order={bus}0;net0"));
        self.set("cores", &chance.number(1, 12).to_string());
        self.set("cpu", chance.pick(&["cputype=x86-64-v2-AES", "cputype=host,flags=+aes", "qemu64"]));
        self.set("memory", &(512 * chance.number(1, 40)).to_string());
        self.set("balloon", chance.pick(&["0", "512"]));
        self.set("numa", chance.pick(&["0", "1"]));
        self.set("ostype", chance.pick(&["l26", "other"]));
        self.set("onboot", "1");
        self.set("protection", chance.pick(&["0", "0", "1"]));
        self.set("scsihw", chance.pick(&["virtio-scsi-pci", "virtio-scsi-single", "pvscsi"]));
        self.set("sockets", chance.pick(&["1", "1", "2"]));
        self.set("tablet", "1");
        self.set("vga", "type=std,memory=16");
        self.set("keyboard", "en-us");
        self.maybe(chance, 60, "serial0", "socket");
        self.maybe(chance, 50, "tags", "terraform;k8s");
        self.maybe(chance, 40, "startup", "order=3,up=60,down=60");
        self.maybe(chance, 30, "machine", "type=q35");
        let queues = chance.pick(&["", ",queues=4", ",queues=8"]);
        let (mac, tag) = (self.mac.clone(), chance.pick(&["", ",tag=20"]));
        self.set("net0", &format!("bridge=vmbr0,firewall=0,macaddr={mac},model=virtio{queues}{tag}"));
        if chance.percent(80) {
            self.cloud_init("ide2", "file=local-zfs:cloudinit,media=cdrom", chance);
        }
        if chance.percent(30) {
            self.set("scsi1", &format!("file=local-zfs:{},backup=1,iothread=0", chance.number(1, 40)));
        }
        if chance.percent(20) {
            self.set("smbios1", "family=Zm9v,manufacturer=YWNtZQ==,base64=1");
        }
    }

    /// As little as possible, numbers as numbers, the old boot letters.
    fn ansible(&mut self, chance: &Chance) {
        let bus = chance.pick(&["scsi", "virtio", "sata", "ide"]);
        self.set(&format!("{bus}0"), &format!("local-zfs:{},format=raw", chance.number(10, 60)));
        self.set("memory", &chance.pick(&[1024, 2048, 4096, 8192]).to_string());
        self.maybe(chance, 70, "cores", "2");
        self.maybe(chance, 40, "cpu", "host");
        self.maybe(chance, 50, "ostype", "l26");
        self.maybe(chance, 50, "onboot", "1");
        self.maybe(chance, 50, "agent", "1");
        self.maybe(chance, 30, "boot", "cdn");
        self.maybe(chance, 50, "scsihw", "virtio-scsi-pci");
        self.maybe(chance, 30, "startup", "2");
        self.maybe(chance, 30, "hotplug", "network,disk,usb,memory,cpu");
        let model = chance.pick(&["virtio", "virtio", "e1000", "vmxnet3"]);
        let mac = self.mac.to_lowercase();
        self.set("net0", &format!("{model}={mac},bridge=vmbr0"));
        if chance.percent(30) {
            let other = self.mac.replace("BC:24", "BC:26");
            self.set("net1", &format!("virtio={other},bridge=vmbr1,tag=30,firewall=1,mtu=1400"));
        }
        if chance.percent(40) && bus != "ide" {
            self.cloud_init("ide2", "local-zfs:cloudinit", chance);
        }
    }

    /// What the dialogue sends, with what it ticks.
    fn web_page(&mut self, chance: &Chance) {
        let ssd = chance.pick(&["", ",ssd=on"]);
        let discard = chance.pick(&["", ",discard=on"]);
        self.set("scsi0", &format!("local-zfs:{},iothread=on{discard}{ssd}", chance.number(16, 64)));
        self.set("ostype", "l26");
        self.set("scsihw", "virtio-scsi-single");
        self.set("sockets", "1");
        self.set("cores", &chance.number(1, 8).to_string());
        self.set("numa", "0");
        self.set("cpu", chance.pick(&["x86-64-v2-AES", "host", "x86-64-v3"]));
        self.set("memory", &(1024 * chance.number(2, 32)).to_string());
        let mac = self.mac.clone();
        self.set("net0", &format!("virtio={mac},bridge=vmbr0,firewall=1"));
        self.maybe(chance, 30, "agent", "enabled=1");
        self.maybe(chance, 30, "onboot", "1");
        self.maybe(chance, 30, "tags", "prod");
        if chance.percent(60) {
            self.set("bios", "ovmf");
            self.set("machine", "q35");
            self.set(
                "efidisk0",
                chance.pick(&["local-zfs:1,efitype=4m,pre-enrolled-keys=1", "local-zfs:1,efitype=2m"]),
            );
            self.maybe(chance, 50, "tpmstate0", "local-zfs:1,version=v2.0");
        }
        if chance.percent(30) {
            self.set("scsi1", &format!("local-zfs:{},iothread=on{discard}{ssd}", chance.number(1, 32)));
        }
        if chance.percent(20) {
            self.set("scsi5", "local-zfs:3,iothread=on,backup=0");
        }
        match chance.number(0, 2) {
            0 => self.set("ide2", "none,media=cdrom"),
            1 => self.cloud_init("ide0", "local-zfs:cloudinit", chance),
            _ => {}
        }
    }

    fn cloud_init(&mut self, slot: &str, drive: &str, chance: &Chance) {
        self.set(slot, drive);
        let address = format!("10.0.7.{}", self.vmid - 90);
        match chance.number(0, 4) {
            0 => self.set("ipconfig0", "ip=dhcp"),
            1 => {}
            2 => {
                self.set("ipconfig0", &format!("gw=10.0.7.254,ip={address}/24"));
                self.address = Some(address);
            }
            _ => {
                self.set("ipconfig0", &format!("ip={address}/24,gw=10.0.7.1"));
                self.address = Some(address);
            }
        }
        self.maybe(chance, 50, "nameserver", "10.0.7.2");
        self.maybe(chance, 40, "ciuser", "ubuntu");
    }

    /// Makes it.
    pub(crate) fn put(&self, world: &mut World) {
        let vmid = self.vmid.to_string();
        let base = [("vmid".to_owned(), vmid.clone()), ("name".to_owned(), self.name.clone())];
        let form: Vec<(String, String)> = base.into_iter().chain(self.form.clone()).collect();
        let form: Vec<(&str, &str)> =
            form.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let path = format!("/nodes/{}/qemu", self.host);
        world.root_call("POST", &path, &form).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        self.settle(world);
        if self.snapshot {
            world.root_call("POST", &format!("{path}/{vmid}/snapshot"), &[("snapname", "before")]).unwrap();
            self.settle(world);
        }
        if self.running {
            world.root_call("POST", &format!("{path}/{vmid}/status/start"), &[]).unwrap();
            self.settle(world);
        }
    }

    fn settle(&self, world: &mut World) {
        for _ in 0..600 {
            let now = world.clock();
            world.advance_to(now + 1_000);
            if world.has_vm(self.vmid) && world.lock_of_vm(self.vmid).is_none() {
                break;
            }
        }
        assert!(world.lock_of_vm(self.vmid).is_none(), "{} is still being worked on", self.vmid);
        let now = world.clock();
        world.advance_to(now + 20_000);
    }

    /// Its entry in a description written by somebody who knows little of it, and may want a disk that is not there.
    pub(crate) fn entry(&self, number: usize, chance: &Chance, wants_more: bool) -> String {
        let address = self.address.clone().unwrap_or_else(|| format!("10.0.7.{}", self.vmid - 90));
        let mac = if chance.percent(70) { format!("mac_addr: {}", self.mac) } else { String::new() };
        if number.is_multiple_of(7) {
            let mac = if mac.is_empty() { mac } else { format!(", {mac}") };
            return format!("  - {{name: {}, address: {address}{mac}}} # on one line\n", self.name);
        }
        let mut text = format!(
            "  # {} was made by {:?}\n  - name: {}   # keep\n    address: {address}\n",
            self.name, self.hand, self.name
        );
        if !mac.is_empty() {
            text.push_str(&format!("    {mac} # from the label\n"));
        }
        match number % 5 {
            0 => text.push_str("    memory: 2048   # a guess\n"),
            1 => text.push_str("    labels:\n      # zone\n      zone: a\n"),
            2 if wants_more || self.form.iter().any(|(key, _)| key == "scsi1") => {
                text.push_str("    vm_disks:\n      - slot: 1 # data\n        size: 5\n");
            }
            _ => {}
        }
        if number <= 1 {
            text.push_str("    controller: true\n");
        }
        text
    }
}
