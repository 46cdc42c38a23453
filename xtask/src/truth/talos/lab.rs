//! The machines the recordings were made on, as simulated ones, brought into the states the recordings name.
//!
//! Everything is done as a person would do it: machines are switched on with an image in them, get their configuration in
//! maintenance, one control plane is bootstrapped, and time passes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use talmox_proto::machine::{
    ApplyConfigurationRequest, BootstrapRequest, EtcdLeaveClusterRequest, apply_configuration_request::Mode,
};
use talmox_proto::resource::{GetRequest, GetResponse};
use talmox_proto::{Duration, Message};
use talmox_sim_talos::{
    ApiCall, ApiReply, Content, Disk, DiskId, Drive, Hardware, Image, Listener, MachineId, Nic, Nodes, Peer,
    Platform, Status, Streamed, Timing, Trouble,
};

use super::environment::Environment;
use super::file::Payloads;
use super::live::NewAuthority;

/// How long a machine is given to get where it should be.
const PATIENCE: u64 = 15 * 60 * 1000;
const GIB: u64 = 1 << 30;
/// The repository of an image that was not always there.
const KUBELET: &str = "ghcr.io/siderolabs/kubelet";
/// Some time; certificates of the recordings hold then.
pub(super) const EPOCH: u64 = 1_794_700_000_000;

/// What a machine is, as far as the recordings tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) state: String,
    pub(super) role: String,
    pub(super) group: String,
}

#[derive(Clone)]
pub(super) struct Lab {
    pub(super) nodes: Nodes,
    version: String,
    pub(super) machines: BTreeMap<IpAddr, Machine>,
    /// Machines that were ever made: none gets the number of another.
    made: u32,
    /// The authority of the cluster, in DER.
    pub(super) authority: Vec<u8>,
    /// The one there was at first.
    first_authority: Vec<u8>,
    environment: Environment,
    /// The last snapshot of etcd that was taken.
    pub(super) snapshot: Vec<u8>,
    /// Authorities that take the place of others, by the group and section they are of.
    pub(super) rotated: BTreeMap<(String, &'static str), NewAuthority>,
    /// What machines had before the last change.
    pub(super) former: BTreeMap<IpAddr, String>,
    /// Whose Kubernetes was given a network plugin.
    pub(super) networked: BTreeSet<MachineId>,
    /// The authority of Kubernetes, in DER.
    pub(super) kubernetes_authority: Vec<u8>,
}

#[derive(Clone)]
pub(super) struct Machine {
    pub(super) id: MachineId,
    /// What it was configured to be when it was made, and the last state it was brought into.
    role: String,
    state: String,
    platform: Platform,
}

/// What a state of the recordings asks of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Maintenance,
    /// Configured, its cluster not there.
    Booting,
    /// Configured and bootstrapped.
    Etcd,
    /// All of Kubernetes up, on so many control planes and workers.
    Running {
        control_planes: usize,
        workers: usize,
    },
    Tried,
    Stranded,
}

impl Lab {
    pub(super) fn new(version: &str, files: &Payloads, missing: &[String]) -> Self {
        let mut nodes = Nodes::new(1, EPOCH);
        nodes.timing = Timing::recorded();
        nodes.missing_images = missing.iter().cloned().collect();
        Self {
            nodes,
            version: version.to_owned(),
            machines: BTreeMap::new(),
            made: 100,
            authority: authority(files, "certs.os.crt").unwrap_or_default(),
            first_authority: authority(files, "certs.os.crt").unwrap_or_default(),
            environment: Environment::default(),
            snapshot: Vec::new(),
            rotated: BTreeMap::new(),
            former: BTreeMap::new(),
            networked: BTreeSet::new(),
            kubernetes_authority: authority(files, "certs.k8s.crt").unwrap_or_default(),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.nodes.clock()
    }

    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.machines.contains_key(&address)
    }

    /// What a machine is configured to be, if it is configured and answers.
    pub(super) fn role(&mut self, address: IpAddr) -> Option<String> {
        let role = self.resource(address, "config", "MachineTypes.config.talos.dev", "machine-type")?;
        Some(role.trim().to_owned())
    }

    /// From now on the surroundings are like this.
    pub(super) fn surround(&mut self, environment: Environment) {
        self.environment = environment;
        if environment.kubelet {
            self.nodes.missing_images.remove(KUBELET);
        } else {
            self.nodes.missing_images.insert(KUBELET.to_owned());
        }
        for machine in self.machines.values() {
            self.nodes.faults.mend(machine.id);
            if !environment.clock {
                self.nodes.faults.trouble(machine.id, Trouble::ClockOff);
            }
        }
    }

    /// Has a machine at the address that is what the recordings say.
    pub(super) fn bring(&mut self, address: IpAddr, known: &Known, in_a_vm: bool, files: &Payloads) {
        let wanted = wanted(&known.state, &known.role);
        let platform = platform(&known.state, in_a_vm);
        let running = matches!(wanted, Wanted::Running { .. });
        if running {
            self.surround(Environment::default());
        }
        if known.state.contains("before-bootstrap") {
            self.clear(address);
        }
        let there = self.machines.get(&address).is_some_and(|machine| machine.platform == platform);
        let role = known.role.as_str();
        if !there || !self.comes_to(address, wanted, role) && !self.led_to(address, wanted, role) {
            if role == "worker" {
                self.sponsor(address, platform, known, files);
            }
            self.make(address, platform, known, files);
            self.lead(address, wanted);
        }
        if let Some(machine) = self.machines.get_mut(&address) {
            machine.state.clone_from(&known.state);
        }
        if let Wanted::Running { control_planes, workers } = wanted {
            self.company(control_planes, workers, known, platform, files);
        }
    }

    /// A worker gets its certificate from a control plane: there is one, as far as its own state is.
    fn sponsor(&mut self, address: IpAddr, platform: Platform, known: &Known, files: &Payloads) {
        if self.machines.values().any(|machine| machine.role == "controlplane") {
            return;
        }
        let first = self.endpoint(files).filter(|first| *first != address).unwrap_or_else(|| after(address));
        let other = Known { role: "controlplane".to_owned(), ..known.clone() };
        self.make(first, platform, &other, files);
        self.lead(first, wanted(&other.state, &other.role));
    }

    /// Control planes that are part of a cluster.
    fn control_planes(&mut self) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = self.machines.keys().copied().collect();
        all.retain(|address| self.has_etcd(*address));
        all
    }

    /// The address of the first control plane, by the configuration.
    fn endpoint(&self, files: &Payloads) -> Option<IpAddr> {
        let text = files.file(&self.version, "controlplane.yaml").ok()?;
        text.split_once("endpoint: https://")?.1.split(':').next()?.parse().ok()
    }

    /// What a machine calls itself.
    pub(super) fn host(&mut self, address: IpAddr) -> Option<String> {
        let yaml = self.resource(address, "network", "HostnameStatuses.net.talos.dev", "hostname")?;
        let name = yaml.lines().find_map(|line| line.strip_prefix("hostname: "))?;
        Some(name.trim_matches('"').to_owned())
    }

    /// Nobody else has a cluster this machine could join.
    fn clear(&mut self, address: IpAddr) {
        let harmless = |machine: &Machine| {
            machine.role == "worker"
                || ["try-", "maintenance"].iter().any(|state| machine.state.starts_with(state))
        };
        let others = self.machines.iter().filter(|(other, machine)| **other != address && !harmless(machine));
        for other in others.map(|(other, _)| *other).collect::<Vec<IpAddr>>() {
            if let Some(machine) = self.machines.remove(&other) {
                self.nodes.power_off(machine.id);
            }
        }
    }

    /// Switches a new machine on and gives it its configuration.
    fn make(&mut self, address: IpAddr, platform: Platform, known: &Known, files: &Payloads) {
        if self.has_etcd(address) && self.control_planes().len() > 1 {
            let path = talmox_proto::machine::machine_service::ETCD_LEAVE_CLUSTER.path;
            self.ask(address, self.admin(), path, &EtcdLeaveClusterRequest {});
            self.pass(5000);
        }
        if let Some(old) = self.machines.remove(&address) {
            self.nodes.power_off(old.id);
        }
        self.made += 1;
        let id = MachineId(self.made);
        let mac = mac_of(address, self.made);
        self.nodes.leases.insert(mac.clone(), address);
        if !self.environment.clock {
            self.nodes.faults.trouble(id, Trouble::ClockOff);
        }
        self.nodes.power_on(hardware(id, mac, &host_name(address), platform, &self.version));
        let (role, state) = (known.role.clone(), known.state.clone());
        self.machines.insert(address, Machine { id, role, state, platform });
        self.wait(|lab| matches!(lab.nodes.listener(address), Listener::Maintenance { .. }));
        if wanted(&known.state, &known.role) == Wanted::Maintenance {
            return;
        }
        let tried = known.state.starts_with("try-");
        let name = if known.role == "worker" { "worker.yaml" } else { "controlplane.yaml" };
        let Ok(text) = files.file(&self.version, name) else { return };
        let text = self.live_config(&known.role).unwrap_or(text);
        self.configure(address, &text, tried);
    }

    fn configure(&mut self, address: IpAddr, text: &str, tried: bool) {
        let mode = if tried { Mode::Try } else { Mode::Auto };
        let request = ApplyConfigurationRequest {
            data: text.as_bytes().to_vec(),
            mode: mode.into(),
            try_mode_timeout: tried.then_some(Duration { seconds: 15, nanos: 0 }),
            ..ApplyConfigurationRequest::default()
        };
        let path = talmox_proto::machine::machine_service::APPLY_CONFIGURATION.path;
        self.ask(address, Peer::Nobody, path, &request);
    }

    /// Does what leads a configured machine to a state, and waits until it is there.
    fn lead(&mut self, address: IpAddr, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Maintenance => {}
            Wanted::Booting | Wanted::Tried => {
                return self.wait(|lab| matches!(lab.nodes.listener(address), Listener::Secure { .. }));
            }
            Wanted::Etcd | Wanted::Running { .. } => self.bootstrap(address),
            Wanted::Stranded => {
                self.wait(|lab| matches!(lab.nodes.listener(address), Listener::Secure { .. }));
            }
        }
        self.wait(|lab| lab.is(address, wanted))
    }

    /// Bootstraps the machine's cluster, unless it has one to join.
    fn bootstrap(&mut self, address: IpAddr) {
        self.wait(|lab| matches!(lab.nodes.listener(address), Listener::Secure { .. }));
        let worker = self.role(address).as_deref() == Some("worker");
        let joins = self.control_planes().iter().any(|other| *other != address);
        if worker || joins || self.has_etcd(address) {
            return;
        }
        let path = talmox_proto::machine::machine_service::BOOTSTRAP.path;
        for _ in 0..30 {
            let reply = self.ask(address, self.admin(), path, &BootstrapRequest::default());
            if matches!(reply, ApiReply::Done { ref end, .. } if *end == Status::ok()) {
                return;
            }
            self.pass(2000);
        }
    }

    /// The other machines a state speaks of: control planes and workers beside each other.
    fn company(
        &mut self,
        control_planes: usize,
        workers: usize,
        known: &Known,
        platform: Platform,
        files: &Payloads,
    ) {
        let Some(mut next) = self.control_planes().first().copied() else { return };
        let wanted = Wanted::Running { control_planes: 1, workers: 0 };
        for _ in 1..control_planes {
            next = after(next);
            if self.control_planes().len() < control_planes && !self.has_etcd(next) {
                let other = Known { role: "controlplane".to_owned(), ..known.clone() };
                self.make(next, platform, &other, files);
                self.lead(next, wanted);
            }
        }
        let all: Vec<IpAddr> = self.machines.keys().copied().collect();
        let there =
            all.into_iter().filter(|address| self.role(*address).as_deref() == Some("worker")).count();
        for _ in there..workers {
            next = after(next);
            let other = Known { role: "worker".to_owned(), ..known.clone() };
            self.make(next, platform, &other, files);
            self.lead(next, wanted);
        }
    }

    fn is(&mut self, address: IpAddr, wanted: Wanted) -> bool {
        let listener = self.nodes.listener(address);
        let secure = matches!(listener, Listener::Secure { .. });
        match wanted {
            Wanted::Maintenance => matches!(listener, Listener::Maintenance { .. }),
            Wanted::Booting => {
                secure
                    && self.lacks(address)
                    && self.status(address).contains("stage: booting")
                    && !self.has_etcd(address)
            }
            Wanted::Tried => secure,
            Wanted::Stranded => matches!(listener, Listener::Closed),
            Wanted::Etcd => secure && self.lacks(address) && self.has_etcd(address),
            Wanted::Running { .. } => {
                self.give_network(address);
                let status = self.status(address);
                secure && status.contains("stage: running") && status.contains("ready: true")
            }
        }
    }

    /// Whether it gets there if it is only given time; if so, it is there now.
    fn comes_to(&mut self, address: IpAddr, wanted: Wanted, role: &str) -> bool {
        let mut later = self.clone();
        let there = later.wait(|lab| lab.is(address, wanted) && lab.plays(address, role));
        if there {
            *self = later;
        }
        there
    }

    /// Whether it can be led there; if so, it is there now.
    fn led_to(&mut self, address: IpAddr, wanted: Wanted, role: &str) -> bool {
        let mut later = self.clone();
        let there = later.plays(address, role) && later.lead(address, wanted) && later.is(address, wanted);
        if there {
            *self = later;
        }
        there
    }

    fn plays(&mut self, address: IpAddr, role: &str) -> bool {
        role == "none" || self.role(address).as_deref() == Some(role)
    }

    fn wait(&mut self, mut until: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now() + PATIENCE;
        loop {
            if until(self) {
                return true;
            }
            match self.nodes.next_event() {
                Some(next) if next <= end => self.nodes.advance_to(next.max(self.now() + 1)),
                _ => return false,
            }
        }
    }

    pub(super) fn pass(&mut self, milliseconds: u64) {
        self.nodes.advance_to(self.now() + milliseconds);
    }

    /// The state of the machine in its own words.
    fn status(&mut self, address: IpAddr) -> String {
        self.resource(address, "runtime", "MachineStatuses.runtime.talos.dev", "machine").unwrap_or_default()
    }

    /// Whether it does without what the surroundings lack, and has the time if they give it.
    fn lacks(&mut self, address: IpAddr) -> bool {
        let kubelet = self.resource(address, "runtime", "Services.v1alpha1.talos.dev", "kubelet");
        let time = self.resource(address, "runtime", "TimeStatuses.v1alpha1.talos.dev", "node");
        let synced = time.is_some_and(|time| time.contains("synced: true"));
        (self.environment.kubelet || kubelet.is_none()) && self.environment.clock == synced
    }

    fn has_etcd(&mut self, address: IpAddr) -> bool {
        self.resource(address, "etcd", "EtcdMembers.etcd.talos.dev", "local").is_some()
    }

    fn resource(&mut self, address: IpAddr, namespace: &str, kind: &str, id: &str) -> Option<String> {
        let request = GetRequest {
            namespace: namespace.to_owned(),
            r#type: kind.to_owned(),
            id: id.to_owned(),
            ..GetRequest::default()
        };
        let reply = self.ask(address, self.admin(), talmox_proto::resource::state::GET.path, &request);
        let ApiReply::Done { messages, .. } = reply else { return None };
        let reply = GetResponse::decode(messages.first()?.clone()).ok()?;
        Some(reply.resource?.spec?.yaml_spec)
    }

    pub(super) fn ask(&mut self, to: IpAddr, peer: Peer, path: &str, request: &impl Message) -> ApiReply {
        let messages = vec![Bytes::from(request.encode_to_vec())];
        let call = ApiCall { to, peer, path: path.to_owned(), metadata: Vec::new(), messages };
        let now = self.now();
        self.nodes.call(&call, now)
    }

    /// Whoever has a certificate of the cluster with these roles.
    pub(super) fn peer(&self, roles: &[&str]) -> Peer {
        let organisations = roles.iter().map(|role| (*role).to_owned()).collect();
        Peer::Certificate { authority: self.authority.clone(), organisations }
    }

    /// Who has a certificate of the authority there was at first.
    pub(super) fn old_peer(&self) -> Peer {
        Peer::Certificate {
            authority: self.first_authority.clone(),
            organisations: vec!["os:admin".to_owned()],
        }
    }

    pub(super) fn admin(&self) -> Peer {
        self.peer(&["os:admin"])
    }

    pub(super) fn poll(&mut self, stream: talmox_sim_talos::StreamId) -> Streamed {
        let now = self.now();
        self.nodes.poll(stream, now)
    }
}

fn authority(files: &Payloads, secret: &str) -> Option<Vec<u8>> {
    let pem = STANDARD.decode(files.secret(secret)?).ok()?;
    let pem = String::from_utf8(pem).ok()?;
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(body).ok()
}

fn wanted(state: &str, role: &str) -> Wanted {
    let running = |control_planes, workers| Wanted::Running { control_planes, workers };
    match state {
        _ if state.starts_with("maintenance") => Wanted::Maintenance,
        _ if state.starts_with("booting") => Wanted::Booting,
        "try-applied" => Wanted::Tried,
        "try-reverted" => Wanted::Stranded,
        "running-ready-3cp" => running(3, 0),
        "running-ready-3cp1w" => running(3, 1),
        "etcd-running" => Wanted::Etcd,
        _ if role == "none" => Wanted::Maintenance,
        _ => running(1, 0),
    }
}

fn platform(state: &str, in_a_vm: bool) -> Platform {
    match state {
        _ if !in_a_vm => Platform::Container,
        _ if state.contains("nocloud") => Platform::Nocloud,
        _ if state.contains("metal") => Platform::Metal,
        _ => Platform::Nocloud,
    }
}

/// The recordings' hosts are called after the end of their address: n1 is 10.77.0.11, w1 is 10.77.0.31.
fn host_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [.., last] = address.octets();
            let kind = if last / 10 == 3 { 'w' } else { 'n' };
            format!("{kind}{}", last % 10)
        }
        IpAddr::V6(_) => "n0".to_owned(),
    }
}

fn mac_of(address: IpAddr, made: u32) -> String {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    let [_, _, high, low] = made.to_be_bytes();
    format!("52:54:00:{high:02x}:{low:02x}:{last:02x}")
}

fn after(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from(u32::from(address).wrapping_add(1))),
        IpAddr::V6(address) => IpAddr::V6(address),
    }
}

fn hardware(id: MachineId, mac: String, name: &str, platform: Platform, version: &str) -> Hardware {
    let image = Image {
        version: version.to_owned(),
        schematic: "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba".to_owned(),
        extensions: Vec::new(),
        platform,
        installed: true,
    };
    let disk = Disk {
        id: DiskId(u64::from(id.0)),
        copy_of: None,
        name: "vda".to_owned(),
        serial: String::new(),
        size: 10 * GIB,
        content: Content::Talos(image),
    };
    let mut drives = vec![Drive::Disk(disk)];
    if platform != Platform::Container {
        drives.push(Drive::Cd(Content::Empty));
    }
    Hardware {
        id,
        uuid: format!("00000000-0000-4000-8000-{:012x}", id.0),
        serial: format!("h={name}"),
        memory: 4 * GIB,
        cpus: 2,
        nics: vec![Nic { mac, bridge: "vmbr0".to_owned(), vlan: None }],
        drives,
    }
}
