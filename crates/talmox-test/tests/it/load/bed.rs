//! Three hosts with every storage type, and descriptions of many nodes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use secrecy::SecretString;
use talmox_config::{Files, read_files};
use talmox_exec::{Event, Gate, GateFuture, Interruption, Limits, Reporter, Run, Summary, apply, observe};
use talmox_plan::{Nonce, Plan, Request, check, managed_template, plan};
use talmox_pve::client::{Client, Credentials, Settings};
use talmox_sim::{Fit, FitHost, FitStorage, FitTemplate, Starter, TaskRecord, World};
use talmox_test::{Before, Bound, Lab, Latency, Shelf};
use talmox_types::desired::Desired;
use tokio_util::sync::CancellationToken;

/// Unix milliseconds at which the hosts booted.
const EPOCH: u64 = 1_767_225_600_000;
const GIB: u64 = 1 << 30;

/// Storages that hold disks, by type. What a type cannot hold it does not get.
pub(crate) const DISKS: [(&str, &str); 7] = [
    ("folder", "dir"),
    ("export", "nfs"),
    ("thin", "lvmthin"),
    ("thick", "lvm"),
    ("pool", "zfspool"),
    ("ceph", "rbd"),
    ("tree", "btrfs"),
];

/// The one that holds images only.
pub(crate) const IMAGES: (&str, &str) = ("files", "cephfs");

/// The template on a storage.
pub(crate) fn template(storage: &str) -> String {
    format!("talos-on-{storage}")
}

fn world(seed: u64) -> World {
    let mut world = Starter::bare(seed, EPOCH).world;
    let hosts: Vec<String> = (1..=3).map(|number| format!("pve{number}")).collect();
    let set = |words: &[&str]| -> BTreeSet<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let storage = |(id, kind): (&str, &str), content: &[&str]| FitStorage {
        id: id.to_owned(),
        kind: Some(kind.to_owned()),
        content: set(content),
        size: 65_536 * GIB,
    };
    let fit = Fit {
        cluster: "lab".to_owned(),
        hosts: hosts
            .iter()
            .map(|name| FitHost { name: name.clone(), cpus: 256, memory: 2048 * GIB, ..FitHost::default() })
            .collect(),
        storages: DISKS
            .map(|named| storage(named, &["images", "rootdir"]))
            .into_iter()
            .chain([storage(IMAGES, &["import", "iso"])])
            .collect(),
        bridges: set(&["vmbr0"]),
        templates: DISKS
            .map(|(id, _)| FitTemplate {
                vmid: None,
                first_id: 8000,
                name: template(id),
                tags: set(&["talos"]),
                hosts: hosts.clone(),
                storage: id.to_owned(),
                bridge: "vmbr0".to_owned(),
                uefi: true,
                talos: None,
            })
            .into(),
        ..Fit::default()
    };
    world.fit(&fit).unwrap();
    world
}

/// A node of a description: where its disk is, and whether it comes from a template that is there.
pub(crate) struct NodeSpec {
    pub(crate) storage: &'static str,
    pub(crate) from_template: bool,
}

/// A cluster of these nodes, the first three of which are control planes, on whatever hosts suit.
pub(crate) fn description(nodes: &[NodeSpec]) -> Desired {
    let mut text = format!(
        "cluster_name: lab\ncluster_uid: \"8c1f6a2b90d347e5\"\nproxmox_endpoint: https://pve1:8006\n\
         proxmox_storage: pool\nproxmox_image_storage: {}\nproxmox_bridge: vmbr0\nnode_cidr: 10.0.0.0/16\n\
         node_gateway: 10.0.0.1\ncluster_api_addr: 10.0.0.10\ntalos_version: 1.13.9\nkubernetes_version: 1.36.3\n\
         factory_url: https://images.example\nproxmox_vm_defaults: {{disk_size: 20}}\nnodes:\n",
        IMAGES.0
    );
    for (number, NodeSpec { storage, from_template }) in nodes.iter().enumerate() {
        let controller = number < 3;
        let name = if controller { format!("cp-{}", number + 1) } else { format!("worker-{}", number - 2) };
        let (third, fourth) = (1 + number / 200, 1 + number % 200);
        let _ = writeln!(
            text,
            "  - name: {name}\n    address: 10.0.{third}.{fourth}\n    controller: {controller}\n    \
             proxmox_storage: {storage}"
        );
        if *from_template {
            let _ = writeln!(text, "    template: {}", template(storage));
        }
    }
    let outcome = read_files(Files::from_texts(&text, None));
    assert!(!outcome.has_errors(), "{:#?}", outcome.problems);
    outcome.desired.unwrap()
}

/// A qcow2 image of a disk of 2 GiB.
fn image() -> Vec<u8> {
    let mut bytes = b"QFI\xfb\0\0\0\x03".to_vec();
    bytes.extend([0; 16]);
    bytes.extend((2 * GIB).to_be_bytes());
    bytes.resize(20_000, b'x');
    bytes
}

pub(crate) struct Bed {
    pub(crate) lab: Lab,
    token: SecretString,
    shelf: Shelf,
}

/// What a run took, and what it had to take at least.
pub(crate) struct Took {
    pub(crate) summary: Summary,
    pub(crate) time: Duration,
    pub(crate) bound: Bound,
    pub(crate) tasks: Vec<TaskRecord>,
    pub(crate) requests: usize,
}

impl Bed {
    pub(crate) fn new(seed: u64) -> Self {
        let world = world(seed);
        let token = SecretString::from(world.starter_token().unwrap());
        Self { lab: Lab::of(world, seed, Latency::RECORDED), token, shelf: Shelf::default() }
    }

    /// A client that knows every host.
    pub(crate) fn client(&self) -> Client {
        self.client_with(Settings::default())
    }

    /// The same with settings of its own.
    pub(crate) fn client_with(&self, settings: Settings) -> Client {
        self.client_of(&self.lab, settings)
    }

    /// A client that knows one host, as most descriptions have it.
    pub(crate) fn client_of_one(&self, settings: Settings) -> Client {
        self.client_of(&self.lab.through(1), settings)
    }

    fn client_of(&self, lab: &Lab, settings: Settings) -> Client {
        lab.client_as(&Credentials::token(&self.token).unwrap(), settings)
    }

    /// Has the image every node of the description may come from.
    pub(crate) fn stock(&self, desired: &Desired) {
        self.shelf.offer(&["siderolabs/qemu-guest-agent"]);
        for node in &desired.nodes {
            self.shelf.put(&managed_template(desired, node).image.url, image());
        }
        self.lab.world(|world| self.shelf.serve(world));
    }

    /// Looks and plans.
    pub(crate) async fn plan(&self, client: &Client, desired: &Desired) -> Plan {
        let request = Request::default();
        let observed = observe(client, desired).await.unwrap();
        let made = plan(desired, &observed, &request, &Nonce::new(1));
        assert!(made.refusals.is_empty(), "{:#?}", made.refusals);
        assert!(check(&made, desired, &observed, &request).is_empty());
        made
    }

    /// Looks, plans and carries out, from the first request to the last.
    pub(crate) async fn run(&self, desired: &Desired, limits: Limits) -> Took {
        let calls = self.lab.calls();
        let before = self.lab.world(|world| Before::of(world, &calls));
        let (earlier, requests) = (self.lab.world(|world| world.task_records().len()), calls.len());
        let start = self.lab.transport().now();
        let client = self.client();
        let approved = self.plan(&client, desired).await;
        let (request, nonce, stop) = (Request::default(), Nonce::new(1), CancellationToken::new());
        let run = Run {
            client: &client,
            images: &self.shelf,
            desired,
            request: &request,
            nonce: &nonce,
            gate: &Open,
            reporter: &Deaf,
            stop: &stop,
            reach: None,
            limits,
        };
        let summary = apply(&run, &approved).await.unwrap();
        let time = Duration::from_millis(self.lab.transport().now() - start);
        let calls = self.lab.calls();
        let trip = Duration::from_millis(Latency::RECORDED.least);
        self.lab.world(|world| Took {
            summary,
            time,
            bound: before.bound(world, &calls, limits.per_host, trip),
            tasks: world.task_records().split_off(earlier),
            requests: calls.len() - requests,
        })
    }
}

/// Lets everybody through.
struct Open;

impl Gate for Open {
    fn pass<'a>(&'a self, _interruption: Interruption<'a>) -> GateFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

/// Hears nothing.
struct Deaf;

impl Reporter for Deaf {
    fn event(&self, _event: Event<'_>) {}
}
