//! A cluster as its owner has it before talmox comes: a template, storages, and nobody called talmox.

use secrecy::SecretString;
use talmox_config::{Files, read_files};
use talmox_exec::preflight::{
    Account, Certificates, Facts, Preflight, Report, Told, Trusted, collect, report,
};
use talmox_exec::{Event, Gate, GateFuture, Interruption, Limits, Reporter, Run, apply, observe};
use talmox_plan::{Nonce, Request, check, plan};
use talmox_pve::client::{BoxFuture, Client, CreateVm, Credentials, Endpoint, Params, Settings, Upid};
use talmox_pve::property::VmConfig;
use talmox_sim::{PciDevice, Starter, World};
use talmox_test::{Lab, Latency, host, vmid};
use talmox_types::Fingerprint;
use talmox_types::desired::Desired;
use tokio_util::sync::CancellationToken;

/// Unix milliseconds at which the hosts booted.
const EPOCH: u64 = 1_790_000_000_000;
/// A card of the host, as a mapping names it.
const CARD: &str = "id=10de:20b0,iommugroup=12,node=pve1,path=0000:01:00.0,subsystem-id=10de:20b0";

pub(crate) const ACCOUNT: &str = "talmox-lab@pve";

pub(crate) struct Bed {
    pub(crate) lab: Lab,
    root_password: String,
}

impl Bed {
    /// One host of that version with the template 9000, which has no cloud-init drive, and the mapping `gpu`.
    pub(crate) async fn new(release: &str, arrange: impl FnOnce(&mut World)) -> Self {
        let mut started = Starter::new(1, 7, EPOCH).release(release).unwrap().build();
        let card = PciDevice {
            address: "0000:01:00.0".into(),
            class: "0x030200".into(),
            vendor: "0x10de".into(),
            device: "0x20b0".into(),
            iommu_group: 12,
        };
        started.world.nodes.get_mut("pve1").unwrap().pci.push(card);
        arrange(&mut started.world);
        let root_password = started.root_password;
        let bed = Self { lab: Lab::of(started.world, 7, Latency::NONE), root_password };
        bed.furnish().await;
        bed
    }

    async fn furnish(&self) {
        let root = self.root();
        let config = VmConfig::from_iter([
            ("name", "talos-template"),
            ("scsi0", "local-zfs:8"),
            ("scsihw", "virtio-scsi-pci"),
            ("net0", "virtio,bridge=vmbr0"),
            ("memory", "2048"),
        ]);
        let vm = CreateVm { vmid: vmid(9000), config, pool: None, storage: None };
        let made = root.create_vm(&host(1), &vm).await.unwrap();
        self.lab.done(&root, &made).await.unwrap();
        let turned: Option<Upid> = root.make_template(&host(1), vmid(9000)).await.unwrap();
        if let Some(task) = turned {
            self.lab.done(&root, &task).await.unwrap();
        }
        let mapping = Params::new().with("id", "gpu").with("map", CARD);
        root.post::<()>("/cluster/mapping/pci", mapping).await.unwrap();
        // Until the others know of the template.
        tokio::time::sleep(std::time::Duration::from_secs(21)).await;
    }

    /// `root@pam`, who pastes.
    pub(crate) fn root(&self) -> Client {
        self.client(&self.root_credentials())
    }

    pub(crate) fn root_credentials(&self) -> Credentials {
        let password = SecretString::from(self.root_password.clone());
        Credentials::password("root@pam", password).unwrap()
    }

    pub(crate) fn client(&self, credentials: &Credentials) -> Client {
        self.lab.client_as(credentials, Settings::default())
    }

    fn now(&self) -> u64 {
        self.lab.world(|world| (EPOCH + world.clock()) / 1000)
    }

    pub(crate) async fn facts(&self, desired: &Desired, client: &Client) -> Facts {
        // As a description would that names one endpoint.
        let named = client.endpoints().into_iter().take(1);
        let each: Vec<(Endpoint, Client)> = named.map(|endpoint| (endpoint, client.clone())).collect();
        let now = || self.now();
        let preflight = Preflight {
            desired,
            client,
            each: &each,
            certificates: self,
            trusted: Trusted::Fingerprints,
            now: &now,
        };
        collect(&preflight).await
    }

    pub(crate) async fn check(&self, desired: &Desired, client: &Client) -> Report {
        report(desired, &self.facts(desired, client).await)
    }

    pub(crate) fn account(&self) -> Account {
        Account {
            user: ACCOUNT.to_owned(),
            token: "talmox".to_owned(),
            expire: self.now() + 365 * 86_400,
            exists: false,
        }
    }

    /// Everything a cluster lives through: from nothing, a change of everything, one more, one less, the end. Tells what
    /// did not work.
    pub(crate) async fn live(&self, client: &Client) -> Result<(), String> {
        self.converge(client, &small(), &Request::default()).await?;
        let reboots = Request { allow_reboot: true, ..Request::default() };
        self.converge(client, &changed(), &reboots).await?;
        self.converge(client, &larger(), &reboots).await?;
        let remove = talmox_types::NodeName::parse("worker-2").unwrap();
        self.converge(client, &changed(), &Request { remove: [remove].into(), ..reboots }).await?;
        let destroy = Request { goal: talmox_plan::Goal::Destroy, ..Request::default() };
        self.converge(client, &changed(), &destroy).await?;
        let left = self.lab.world(|world| (2000..3000).filter(|id| world.has_vm(*id)).count());
        if left == 0 { Ok(()) } else { Err(format!("{left} VMs are left")) }
    }

    /// It comes, and it goes.
    pub(crate) async fn come_and_go(&self, client: &Client, desired: &Desired) -> Result<(), String> {
        self.converge(client, desired, &Request::default()).await?;
        let destroy = Request { goal: talmox_plan::Goal::Destroy, ..Request::default() };
        self.converge(client, desired, &destroy).await
    }

    /// The cluster stands.
    pub(crate) async fn live_a_little(&self, client: &Client) {
        self.converge(client, &small(), &Request::default()).await.unwrap();
    }

    pub(crate) async fn converge(
        &self,
        client: &Client,
        desired: &Desired,
        request: &Request,
    ) -> Result<(), String> {
        let look = || async { observe(client, desired).await.map_err(|error| told(&error)) };
        let (observed, nonce) = (look().await?, Nonce::new(1));
        let approved = plan(desired, &observed, request, &nonce);
        if let Some(refusal) = approved.refusals.first() {
            return Err(refusal.problem.clone());
        }
        assert_eq!(check(&approved, desired, &observed, request), []);
        let stop = CancellationToken::new();
        let (limits, images) = (Limits::default(), self.lab.images());
        let run = Run {
            client,
            images: &images,
            desired,
            request,
            nonce: &nonce,
            gate: &Open,
            reporter: &Deaf,
            stop: &stop,
            reach: None,
            limits,
        };
        apply(&run, &approved).await.map_err(|error| told(&error))?;
        let left = plan(desired, &look().await?, request, &nonce);
        if left.is_empty() { Ok(()) } else { Err(format!("not done: {:?}", left.steps.first())) }
    }
}

impl Certificates for Bed {
    fn of<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, Told<Fingerprint>> {
        let shown = self.lab.world(|world| {
            let is_meant = |(name, node): &(&String, &talmox_sim::Node)| {
                name.as_str() == endpoint.host() || node.ip == endpoint.host()
            };
            world.nodes.iter().find(is_meant).map(|(_, node)| node.fingerprint.clone()).unwrap_or_default()
        });
        Box::pin(async move { Fingerprint::parse(&shown).map_err(|error| error.to_string()) })
    }
}

/// An error and everything that led to it.
fn told(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

struct Open;

impl Gate for Open {
    fn pass<'a>(&'a self, _interruption: Interruption<'a>) -> GateFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

struct Deaf;

impl Reporter for Deaf {
    fn event(&self, _event: Event<'_>) {}
}

/// A description with these lines beside those every cluster has.
pub(crate) fn described(lines: &str, nodes: &str) -> Desired {
    let text = format!(
        "cluster_name: lab\ncluster_uid: \"8c1f6a2b90d347e5\"\nproxmox_endpoint: https://pve1:8006\n\
         proxmox_storage: local-zfs\nproxmox_bridge: vmbr0\nnode_vlan_tag: 7\nnode_cidr: 10.0.7.0/24\n\
         node_gateway: 10.0.7.1\n{lines}nodes:\n{nodes}"
    );
    let outcome = read_files(Files::from_texts(&text, None));
    assert!(!outcome.has_errors(), "{:#?}\n{text}", outcome.problems);
    outcome.desired.unwrap()
}

const TEMPLATE: &str = "talos_template: 9000\n";
const NODES: &str = "  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n  - name: worker-1\n    \
                     address: 10.0.7.21\n    vm_pci: [{mapping: gpu}]\n";

pub(crate) fn small() -> Desired {
    described(TEMPLATE, NODES)
}

/// Another size of everything, and another tag.
pub(crate) fn changed() -> Desired {
    described(&format!("{TEMPLATE}{LARGER}"), NODES)
}

const LARGER: &str =
    "proxmox_vm_defaults: {disk_size: 120, cores: 6, memory: 12288}\nproxmox_vm_advanced: {tags: [larger]}\n";

pub(crate) fn larger() -> Desired {
    described(&format!("{TEMPLATE}{LARGER}"), &format!("{NODES}  - name: worker-2\n    address: 10.0.7.22\n"))
}
