//! A few machines, the secrets of their cluster, and calls.

use std::net::IpAddr;
use std::sync::OnceLock;

use talmox_machine::secrets::Bundle;
use talmox_machine::{Input, Options, Role, SystemRandom, Time};
use talmox_proto::{Message, Method};
use talmox_sim_talos::{
    ApiCall, ApiReply, Code, Content, Disk, DiskId, Drive, Hardware, Image, MachineId, Nic, Nodes, Peer,
    Platform, Status,
};
use talmox_types::Contract;

pub(crate) const EPOCH: u64 = 1_790_000_000_000;

pub(crate) struct Lab {
    pub(crate) nodes: Nodes,
    pub(crate) now: u64,
    pub(crate) version: String,
    pub(crate) bundle: Bundle,
    pub(crate) options: Options,
    pub(crate) without_network_plugin: bool,
}

pub(crate) fn address(id: u32) -> IpAddr {
    format!("10.5.0.{id}").parse().unwrap()
}

/// Drawing an RSA key takes seconds: one bundle does for all.
static BUNDLE: OnceLock<Bundle> = OnceLock::new();

impl Lab {
    pub(crate) fn new(version: &str) -> Self {
        let contract = Contract::parse(version).unwrap();
        let now = Time::from_unix(i64::try_from(EPOCH / 1000).unwrap());
        let draw = || Bundle::generate(contract, now.plus(-1000), &mut SystemRandom).unwrap();
        let bundle = BUNDLE.get_or_init(draw).clone();
        let options = Options { install_disk: Some("/dev/sda".to_owned()), ..Options::default() };
        Self {
            nodes: Nodes::new(1, EPOCH),
            now: 0,
            version: version.to_owned(),
            bundle,
            options,
            without_network_plugin: false,
        }
    }

    pub(crate) fn image(&self, installed: bool) -> Image {
        Image {
            version: self.version.clone(),
            schematic: "ab".repeat(32),
            extensions: vec!["siderolabs/qemu-guest-agent".to_owned()],
            platform: Platform::Nocloud,
            installed,
        }
    }

    pub(crate) fn hardware(&self, id: u32) -> Hardware {
        let mac = format!("bc:24:11:00:00:{id:02x}");
        let network = format!(
            "version: 1\nconfig:\n- type: physical\n  name: eth0\n  mac_address: '{mac}'\n  subnets:\n  - type: static\n    \
             address: '{}'\n    netmask: '255.255.255.0'\n    gateway: '10.5.0.254'\n",
            address(id)
        );
        let files = [
            ("user-data", format!("#cloud-config\nhostname: node-{id}\n")),
            ("meta-data", "instance-id: x\n".to_owned()),
            ("network-config", network),
        ];
        let files = files.into_iter().map(|(name, text)| (name.to_owned(), text.into_bytes())).collect();
        Hardware {
            id: MachineId(id),
            uuid: format!("00000000-0000-4000-8000-{id:012}"),
            serial: String::new(),
            memory: 4 << 30,
            cpus: 2,
            nics: vec![Nic { mac, bridge: "vmbr0".to_owned(), vlan: None }],
            drives: vec![
                Drive::Disk(Disk {
                    id: DiskId(u64::from(id)),
                    copy_of: None,
                    name: "sda".to_owned(),
                    serial: String::new(),
                    size: 20 << 30,
                    content: Content::Talos(self.image(true)),
                }),
                Drive::Cd(Content::Cidata(files)),
            ],
        }
    }

    /// The same machine with an empty disk and an ISO.
    pub(crate) fn hardware_with_iso(&self, id: u32) -> Hardware {
        let mut hardware = self.hardware(id);
        if let Some(Drive::Disk(disk)) = hardware.drives.first_mut() {
            disk.content = Content::Empty;
        }
        hardware.drives.insert(1, Drive::Cd(Content::Talos(self.image(false))));
        hardware
    }

    pub(crate) fn config(&self, role: Role) -> Vec<u8> {
        let input = Input {
            contract: Contract::parse(&self.version).unwrap(),
            cluster_name: "lab".to_owned(),
            endpoint: "https://10.5.0.1:6443".to_owned(),
            kubernetes: "1.34.1".to_owned(),
            secrets: &self.bundle,
            options: self.options.clone(),
        };
        let config = input.generate(role).unwrap().to_yaml();
        let network = "    network:\n        dnsDomain";
        let none = "    network:\n        cni:\n            name: none\n        dnsDomain";
        let config = if self.without_network_plugin { config.replace(network, none) } else { config };
        config.into_bytes()
    }

    pub(crate) fn admin(&self) -> Peer {
        Peer::Certificate {
            authority: der(self.bundle.os.certificate.pem()),
            organisations: vec!["os:admin".to_owned()],
        }
    }

    pub(crate) fn wait(&mut self, milliseconds: u64) {
        self.now += milliseconds;
        self.nodes.advance_to(self.now);
    }

    pub(crate) fn raw<Request: Message, Reply>(
        &mut self,
        to: u32,
        peer: Peer,
        method: Method<Request, Reply>,
        request: &Request,
    ) -> ApiReply {
        let call = ApiCall {
            to: address(to),
            peer,
            path: method.path.to_owned(),
            metadata: Vec::new(),
            messages: vec![request.encode_to_vec().into()],
        };
        self.nodes.call(&call, self.now)
    }

    pub(crate) fn ask<Request: Message, Reply: Message + Default>(
        &mut self,
        to: u32,
        method: Method<Request, Reply>,
        request: &Request,
    ) -> Result<Reply, Status> {
        let peer = self.admin();
        done(self.raw(to, peer, method, request))
    }

    /// A call with a stream of requests.
    pub(crate) fn pour<Request: Message, Reply: Message + Default>(
        &mut self,
        to: u32,
        method: Method<Request, Reply>,
        requests: &[Request],
    ) -> Result<Reply, Status> {
        let messages = requests.iter().map(|request| request.encode_to_vec().into()).collect();
        let path = method.path.to_owned();
        let call = ApiCall { to: address(to), peer: self.admin(), path, metadata: Vec::new(), messages };
        done(self.nodes.call(&call, self.now))
    }

    /// Waits until it holds; panics after ten minutes.
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) -> u64 {
        let start = self.now;
        while !holds(self) {
            assert!(self.now < start + 600_000, "{what} did not come");
            self.wait(100);
        }
        self.now - start
    }
}

/// The one message of a call that went well.
pub(crate) fn done<Reply: Message + Default>(reply: ApiReply) -> Result<Reply, Status> {
    match reply {
        ApiReply::Done { messages, end, .. } if end.code == Code::Ok => {
            Ok(Reply::decode(messages.into_iter().next().unwrap_or_default()).unwrap())
        }
        ApiReply::Done { end, .. } => Err(end),
        ApiReply::Refused => Err(Status::new(Code::Unavailable, "refused")),
        ApiReply::NotTrusted { reason } => Err(Status::new(Code::Unavailable, reason)),
        ApiReply::HungUp => Err(Status::new(Code::Unavailable, "broken pipe")),
        ApiReply::Silence => Err(Status::new(Code::DeadlineExceeded, "silence")),
        ApiReply::Lost { .. } => Err(Status::new(Code::Unavailable, "lost")),
        ApiReply::Stream(_) => panic!("a stream"),
    }
}

pub(crate) fn der(pem: &str) -> Vec<u8> {
    use base64::Engine as _;
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    base64::engine::general_purpose::STANDARD.decode(body).unwrap()
}
