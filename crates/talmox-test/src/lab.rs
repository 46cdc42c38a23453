//! Simulated clusters to test against.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use talmox_exec::Factories;
use talmox_image::Factory;
use talmox_image::client::FactoryClient;
use talmox_pve::client::{
    Client, CreateVm, Credentials, Endpoint, Settings, Silent, TaskEnd, TaskError, Transport, Upid,
};
use talmox_pve::property::VmConfig;
use talmox_sim::{AclEntry, PciDevice, Storage, Token, User, World};
use talmox_sim_talos::Nodes;
use talmox_types::{HostName, StorageId, VmId};

use crate::pve::PveMemory;
use crate::{
    CallLog, ClientId, FactoryTransport, Fault, KubeMemory, Latency, MemoryTransport, Seeded, TalosMemory,
    When,
};

/// Names and addresses of the hosts, in the order they are added.
pub const HOSTS: [(&str, &str); 3] = [("pve1", "192.0.2.11"), ("pve2", "192.0.2.12"), ("pve3", "192.0.2.13")];
/// The token [`Lab::client`] has; it may do what [`ROLE`] says and nothing else.
pub const TOKEN: &str = "talmox@pve!ci";
/// The secret of every token in a lab.
pub const SECRET: &str = "8f4d0f52-1a7b-4a05-9c64-d3a0c0ffee00";
/// The password of `root@pam`.
pub const ROOT_PASSWORD: &str = "correct horse";

/// What provisioning needs: images by URL and upload, create and clone, configuration, power, agent, delete.
pub const ROLE: &[&str] = &[
    "VM.Allocate",
    "VM.Clone",
    "VM.Audit",
    "VM.PowerMgmt",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.GuestAgent.Audit",
    "Datastore.AllocateSpace",
    "Datastore.AllocateTemplate",
    "Datastore.Audit",
    "SDN.Use",
    "Sys.AccessNetwork",
    "Sys.Audit",
    "Pool.Audit",
    "Mapping.Use",
];

/// Unix milliseconds at which the hosts of every lab booted: 2026-01-01.
const EPOCH: u64 = 1_767_225_600_000;

/// How long tests wait for a task, in simulated time.
const TASK_LIMIT: Duration = Duration::from_mins(10);

/// A simulated cluster and the way to it.
pub struct Lab {
    transport: Arc<MemoryTransport>,
    endpoints: Vec<Endpoint>,
    seed: u64,
    client: ClientId,
}

impl Lab {
    /// One host that stands alone.
    pub fn one_host(seed: u64) -> Self {
        Self::of(world(1, seed), seed, Latency::RECORDED)
    }

    /// Three hosts in a cluster, with a storage `shared` that all of them see.
    pub fn three_hosts(seed: u64) -> Self {
        Self::of(world(3, seed), seed, Latency::RECORDED)
    }

    /// A lab around a world one has arranged, asked through its hosts in the order of their names.
    pub fn of(world: World, seed: u64, latency: Latency) -> Self {
        let names: Vec<String> = world.nodes.keys().cloned().collect();
        let transport = Arc::new(MemoryTransport::new(world, seed, latency));
        let endpoints = names.iter().map(|name| Endpoint::parse(name).expect("hosts have host names"));
        Self { transport, endpoints: endpoints.collect(), seed, client: 0 }
    }

    /// One host, and requests that take no time to travel: those of one moment arrive together.
    pub fn without_latency(seed: u64) -> Self {
        Self::of(world(1, seed), seed, Latency::NONE)
    }

    /// Lets Talos nodes come up in the cluster's machines.
    #[must_use]
    pub fn with_nodes(self) -> Self {
        self.transport.add_nodes(self.seed);
        self
    }

    /// The way to the nodes' Talos API.
    pub fn talos(&self) -> Arc<TalosMemory> {
        Arc::new(TalosMemory::new(Arc::clone(&self.transport), self.client))
    }

    /// The way to the clusters' Kubernetes API.
    pub fn kubernetes(&self) -> Arc<KubeMemory> {
        Arc::new(KubeMemory::new(Arc::clone(&self.transport), self.client))
    }

    /// What everything goes through.
    pub fn shared(&self) -> Arc<MemoryTransport> {
        Arc::clone(&self.transport)
    }

    /// Looks at the nodes, or changes something about them by other means than their API.
    pub fn nodes<R>(&self, look: impl FnOnce(&mut Nodes) -> R) -> R {
        self.transport.nodes(|nodes, _| look(nodes)).expect("the lab was made with nodes")
    }

    /// A client with the least-privilege token.
    pub fn client(&self) -> Client {
        self.client_as(&token(TOKEN), Settings::default())
    }

    /// A client of `root@pam`, logged in by password.
    pub fn root(&self) -> Client {
        let password = SecretString::from(ROOT_PASSWORD);
        let credentials = Credentials::password("root@pam", password).expect("root is a user");
        self.client_as(&credentials, Settings::default())
    }

    /// A client with the least-privilege token that asks the n-th host only, counted from 1.
    pub fn client_through(&self, number: usize) -> Client {
        self.through(number).client()
    }

    /// The same cluster, asked through the n-th host only, counted from 1.
    #[must_use]
    pub fn through(&self, number: usize) -> Self {
        let endpoint = self.endpoints[number - 1].clone();
        Self { endpoints: vec![endpoint], ..self.by(self.client) }
    }

    /// The same cluster, asked by another client: one may die and the other live.
    #[must_use]
    pub fn by(&self, client: ClientId) -> Self {
        let (transport, endpoints) = (Arc::clone(&self.transport), self.endpoints.clone());
        Self { transport, endpoints, seed: self.seed, client }
    }

    /// Whether a fault killed this client.
    pub fn died(&self) -> bool {
        self.transport.died(self.client)
    }

    pub fn client_as(&self, credentials: &Credentials, settings: Settings) -> Client {
        self.client_over(credentials, settings, |transport| transport)
    }

    /// The same over a transport made from the lab's own, such as one that changes what the hosts say.
    pub fn client_over(
        &self,
        credentials: &Credentials,
        settings: Settings,
        wrap: impl FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport>,
    ) -> Client {
        let transport =
            wrap(Arc::new(PveMemory { cluster: Arc::clone(&self.transport), client: self.client }));
        let entropy = Arc::new(Seeded::new(self.seed));
        Client::with_entropy(self.endpoints.clone(), credentials, transport, settings, entropy)
            .expect("a lab has hosts and its credentials go anywhere")
    }

    /// The factory the hosts can reach, as steps see it.
    pub fn images(&self) -> Factories {
        let transport = FactoryTransport { cluster: Arc::clone(&self.transport) };
        Factories::new(Arc::new(transport), talmox_image::client::Settings::default())
    }

    /// A client of the factory the hosts can reach, by the public one's name.
    pub fn factory(&self) -> FactoryClient {
        let transport = Arc::new(FactoryTransport { cluster: Arc::clone(&self.transport) });
        FactoryClient::new(Factory::official(), transport, talmox_image::client::Settings::default())
    }

    /// Plans a fault.
    pub fn plan(&self, when: When, fault: Fault) {
        self.transport.plan(when, fault);
    }

    pub fn calls(&self) -> CallLog {
        self.transport.calls()
    }

    pub fn transport(&self) -> &MemoryTransport {
        &self.transport
    }

    /// Looks at the cluster, or changes it by other means than its API.
    pub fn world<R>(&self, look: impl FnOnce(&mut World) -> R) -> R {
        self.transport.world(look)
    }

    /// Follows a task to its end.
    pub async fn done(&self, client: &Client, upid: &Upid) -> Result<TaskEnd, TaskError> {
        let name = match upid.id() {
            "" => upid.kind().to_owned(),
            id => format!("{} of {id}", upid.kind()),
        };
        client.follow(upid, &name, TASK_LIMIT, &Silent).await
    }

    /// Makes a template on the first host through the API: UEFI, a disk of 8 GiB, a cloud-init drive, one NIC.
    pub async fn template(&self, client: &Client, vmid: VmId) {
        let config = VmConfig::from_iter([
            ("name", "talos-template"),
            ("bios", "ovmf"),
            ("efidisk0", "local-zfs:1,efitype=4m"),
            ("scsi0", "local-zfs:8,discard=on,ssd=1"),
            ("scsihw", "virtio-scsi-pci"),
            ("ide2", "local-zfs:cloudinit"),
            ("net0", "virtio,bridge=vmbr0"),
            ("memory", "2048"),
            ("ostype", "l26"),
        ]);
        let node = host(1);
        let vm = CreateVm { vmid, config, pool: None, storage: None };
        let made = client.create_vm(&node, &vm).await.expect("the template's VM is accepted");
        self.done(client, &made).await.expect("the template's VM is made");
        let turned = client.make_template(&node, vmid).await.expect("it may become a template");
        if let Some(task) = turned {
            self.done(client, &task).await.expect("it becomes a template");
        }
    }
}

/// The credentials of a token of a lab.
pub fn token(id: &str) -> Credentials {
    Credentials::token_parts(id, SecretString::from(SECRET)).expect("the lab's tokens are tokens")
}

/// The n-th host, counted from 1.
pub fn host(number: usize) -> HostName {
    let (name, _) = HOSTS[number - 1];
    HostName::parse(name).expect("a host name")
}

pub fn vmid(id: u32) -> VmId {
    VmId::try_from(id).expect("an id of a VM")
}

pub fn storage(id: &str) -> StorageId {
    StorageId::parse(id).expect("a storage's id")
}

fn world(hosts: usize, seed: u64) -> World {
    let mut world = World::new(seed, EPOCH);
    world.factory = Some(talmox_sim::Factory::default());
    for (name, ip) in &HOSTS[..hosts] {
        let node = world.add_node(name, ip);
        node.pci.push(gpu());
        // As much as any test wants: what is too much is tested on plans.
        (node.memory, node.cpus) = (1 << 40, 256);
    }
    if hosts > 1 {
        world.cluster = Some(("lab".to_owned(), 1));
        world.storages.push(kept("shared", "nfs", "/mnt/pve/shared", "images,iso", true));
    }
    world.storages.push(kept(
        "local",
        "dir",
        "/var/lib/vz",
        "backup,images,import,iso,snippets,vztmpl",
        false,
    ));
    world.storages.push(kept("local-zfs", "zfspool", "rpool/data", "images,rootdir", false));
    add_access(&mut world);
    world
}

fn kept(id: &str, kind: &str, place: &str, content: &str, shared: bool) -> Storage {
    Storage {
        id: id.to_owned(),
        kind: kind.to_owned(),
        place: place.to_owned(),
        content: content.split(',').map(str::to_owned).collect(),
        shared,
        total: Some(64 << 40),
        ..Storage::default()
    }
}

fn gpu() -> PciDevice {
    PciDevice {
        address: "0000:01:00.0".to_owned(),
        class: "0x030000".to_owned(),
        vendor: "0x10de".to_owned(),
        device: "0x2204".to_owned(),
        iommu_group: 12,
    }
}

/// Users `root@pam` and `talmox@pve`; of the latter a token with the least-privilege role, one that has expired, and one
/// that may only look.
fn add_access(world: &mut World) {
    let (user, name) = TOKEN.split_once('!').expect("a token has a user and a name");
    let token = |expire| Token { secret: SECRET.to_owned(), privsep: true, expire, comment: None };
    let tokens = BTreeMap::from([
        (name.to_owned(), token(0)),
        ("old".to_owned(), token(EPOCH / 1000 - 1)),
        ("looker".to_owned(), token(0)),
    ]);
    let root = User { password: Some(ROOT_PASSWORD.to_owned()), ..User::default() };
    let access = &mut world.access;
    access.users.insert("root@pam".to_owned(), root);
    access.users.insert(user.to_owned(), User { tokens, ..User::default() });
    let role: BTreeSet<String> = ROLE.iter().map(|&name| name.to_owned()).collect();
    access.roles.insert("TalmoxProvisioner".to_owned(), role);
    // A token with privilege separation has only what both it and its user have.
    for (kind, subject, role) in [
        ("user", user, "TalmoxProvisioner"),
        ("token", TOKEN, "TalmoxProvisioner"),
        ("token", "talmox@pve!looker", "PVEAuditor"),
    ] {
        access.acl.push(AclEntry {
            path: "/".to_owned(),
            kind: kind.to_owned(),
            subject: subject.to_owned(),
            role: role.to_owned(),
            propagate: true,
        });
    }
}
