//! Three hosts with nothing on them, and a factory that has what a description asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use secrecy::SecretString;
use talmox_config::{Files, read_files};
use talmox_exec::{ApplyError, Summary, apply, observe_for};
use talmox_plan::{Goal, Nonce, Plan, Request, check, managed_template, plan, wanted_templates};
use talmox_pve::client::{Client, Credentials, Settings};
use talmox_sim::{Dump, Starter, Storage, World};
use talmox_test::{Lab, Latency, Shelf};
use talmox_types::TemplateMark;
use talmox_types::desired::Desired;

use crate::exec::support::{Bench, UID};

/// Unix milliseconds at which the hosts booted.
const EPOCH: u64 = 1_767_225_600_000;
const FACTORY: &str = "https://images.example";

/// A qcow2 image of a disk of 2 GiB.
pub(super) fn image() -> Vec<u8> {
    let mut bytes = b"QFI\xfb\0\0\0\x03".to_vec();
    bytes.extend([0; 16]);
    bytes.extend((2_u64 << 30).to_be_bytes());
    bytes.resize(20_000, b'x');
    bytes
}

/// A cluster of that version of Talos, whose nodes have no template of somebody else.
pub(super) fn talos(version: &str, storage: &str, nodes: &[&str], more: &str) -> Desired {
    talos_from(FACTORY, version, storage, nodes, more)
}

/// The same with images of another factory.
pub(super) fn talos_from(factory: &str, version: &str, storage: &str, nodes: &[&str], more: &str) -> Desired {
    let node = |(number, name): (usize, &&str)| {
        format!("  - name: {name}\n    address: 10.0.7.{}\n    controller: {}\n", 11 + number, number == 0)
    };
    let nodes: String = nodes.iter().enumerate().map(node).collect();
    let text = format!(
        "cluster_name: lab\ncluster_uid: \"{UID}\"\nproxmox_endpoint: https://pve1:8006\nproxmox_storage: {storage}\n\
         proxmox_bridge: vmbr0\nnode_cidr: 10.0.7.0/24\nnode_gateway: 10.0.7.1\ncluster_api_addr: 10.0.7.10\n\
         talos_version: {version}\nkubernetes_version: 1.36.3\nfactory_url: {factory}\n\
         schematic:\n  extensions: [siderolabs/qemu-guest-agent]\n{more}nodes:\n{nodes}"
    );
    let outcome = read_files(Files::from_texts(&text, None));
    assert!(!outcome.has_errors(), "{:#?}\n{text}", outcome.problems);
    outcome.desired.unwrap()
}

/// Three hosts of a release: `local` and `local-zfs` on each, and `shared` on all.
pub(super) fn three_hosts(release: &str, seed: u64) -> World {
    let shared = Storage {
        id: "shared".to_owned(),
        kind: "nfs".to_owned(),
        place: "/mnt/pve/shared".to_owned(),
        content: ["images", "import", "iso"].map(str::to_owned).into(),
        shared: true,
        ..Storage::default()
    };
    Starter::new(3, seed, EPOCH).release(release).unwrap().storages(vec![shared]).build().world
}

pub(super) struct Yard {
    pub(super) lab: Lab,
    token: SecretString,
}

impl Yard {
    pub(super) fn of(world: World, seed: u64) -> Self {
        let token = SecretString::from(world.starter_token().unwrap());
        Self { lab: Lab::of(world, seed, Latency::RECORDED), token }
    }

    pub(super) fn new() -> Self {
        Self::of(three_hosts("9.2", 1), 1)
    }

    pub(super) fn client(&self) -> Client {
        self.lab.client_as(&Credentials::token(&self.token).unwrap(), Settings::default())
    }

    /// A bench whose shelf has every image the description asks for, for us and for the hosts.
    pub(super) fn bench(&self, desired: Desired, goal: Goal, nonce: u32) -> Bench {
        let mut bench = Bench::new(desired);
        bench.request = Request { goal, ..Request::default() };
        bench.nonce = Nonce::new(nonce);
        stock(&bench.shelf, &bench.desired);
        self.lab.world(|world| bench.shelf.serve(world));
        bench
    }

    /// Looks and plans; the plan must be a sound one.
    pub(super) async fn plan(&self, bench: &Bench) -> Plan {
        self.try_plan(bench).await.unwrap()
    }

    async fn try_plan(&self, bench: &Bench) -> Result<Plan, String> {
        let Bench { desired, request, nonce, .. } = bench;
        let observed = observe_for(&self.client(), desired, request.goal).await.map_err(|e| told(&e))?;
        let plan = plan(desired, &observed, request, nonce);
        assert_eq!(check(&plan, desired, &observed, request), [], "{plan:#?}");
        Ok(plan)
    }

    /// Looks, plans and carries out.
    pub(super) async fn apply(&self, bench: &Bench) -> Result<Summary, ApplyError> {
        let plan = self.plan(bench).await;
        assert_eq!(plan.refusals, []);
        apply(&bench.run(&self.client()), &plan).await
    }

    /// The same by a client that may die at any call.
    pub(super) async fn try_apply(&self, bench: &Bench) -> Result<Summary, String> {
        let plan = self.try_plan(bench).await?;
        apply(&bench.run(&self.client()), &plan).await.map_err(|error| told(&error))
    }

    /// Until the hosts have told each other everything.
    pub(super) async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(20)).await;
    }

    pub(super) fn dump(&self) -> Dump {
        self.lab.world(|world| world.dump())
    }

    /// Templates of ours that are ready: name, host and where the disk is, with their ids.
    pub(super) fn templates(&self) -> BTreeMap<(String, String, String), Vec<u32>> {
        let mut found: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for (vmid, vm) in &self.dump().vms {
            let Some(mark) = vm.config.get("description").and_then(|text| TemplateMark::of_description(text))
            else {
                continue;
            };
            assert_eq!(mark.vmid.get(), *vmid);
            assert_eq!(vm.config.get("template").map(String::as_str), Some("1"), "{vmid} is unfinished");
            let disk = vm.config["scsi0"].split(':').next().unwrap().to_owned();
            assert!(vm.config["scsi0"].contains(&format!("base-{vmid}-disk-")), "{}", vm.config["scsi0"]);
            found.entry((vm.config["name"].clone(), vm.node.clone(), disk)).or_default().push(*vmid);
        }
        found
    }

    /// Files on storages: place and volume.
    pub(super) fn files(&self) -> BTreeSet<String> {
        let dump = self.dump();
        dump.volumes.iter().filter(|(_, volume)| volume.owner.is_none()).map(|(key, _)| key.clone()).collect()
    }

    /// Every volume belongs to a VM that is there and names it, and every VM is free of locks.
    pub(super) fn assert_tidy(&self) {
        let dump = self.dump();
        for (key, volume) in &dump.volumes {
            let Some(owner) = volume.owner else { continue };
            let vm = dump.vms.get(&owner).unwrap_or_else(|| panic!("{key} is left without a VM"));
            let name = key.rsplit(['/', ':']).next().unwrap();
            assert!(
                vm.config.values().any(|value| value.contains(name)),
                "{owner} does not name {key}: {vm:?}"
            );
        }
        for (vmid, vm) in &dump.vms {
            assert_eq!(vm.config.get("lock"), None, "{vmid}");
        }
    }
}

/// Puts on a shelf what a description asks for.
fn stock(shelf: &Shelf, desired: &Desired) {
    shelf.offer(&["siderolabs/qemu-guest-agent", "siderolabs/iscsi-tools", "siderolabs/util-linux-tools"]);
    for template in wanted_templates(desired) {
        shelf.put(&template.image.url, image());
    }
    for node in &desired.nodes {
        shelf.put(&managed_template(desired, node).image.url, image());
        shelf.put(&talmox_plan::boot_iso(desired, node).url, vec![0; 4096]);
    }
}

/// An error and everything that led to it.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, "\nbecause: {error}");
        cause = error.source();
    }
    text
}
