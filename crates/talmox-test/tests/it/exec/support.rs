//! Descriptions, marks and VMs for tests of the engine.

use std::collections::BTreeSet;
use std::sync::Mutex;

use talmox_config::{Files, read_files};
use talmox_exec::{Event, Gate, GateFuture, Interruption, Limits, Reporter, Run};
use talmox_plan::{
    DriveOptions, Effect, Expected, Nonce, Plan, Planned, Request, Step, StepId, TemplateSource, Volume,
};
use talmox_pve::client::{Client, CloneKind, CloneVm, CreateVm, Params, Waiting};
use talmox_pve::property::{Slot, VmConfig, VolumeId};
use talmox_test::{Lab, Shelf, host, vmid};
use talmox_types::desired::Desired;
use talmox_types::{ClusterName, ClusterUid, Mark, NodeName, PoolName, VmId};
use tokio_util::sync::CancellationToken;

/// The uid of every cluster described here.
pub(crate) const UID: &str = "8c1f6a2b90d347e5";
/// The pool a description gives its VMs unless it says otherwise.
pub(crate) const POOL: &str = "talmox-lab";

/// A description: `cp-1` to `cp-3` and `worker-1` to `worker-3`, as many of each as said, from template 9000.
pub(crate) fn description(controllers: usize, workers: usize, more: &str) -> Desired {
    let node = |name: String, last: usize, rest: &str| {
        format!("  - name: {name}\n    address: 10.0.7.{last}\n{rest}")
    };
    let controllers = (1..=controllers).map(|n| node(format!("cp-{n}"), 10 + n, "    controller: true\n"));
    let workers = (1..=workers).map(|n| node(format!("worker-{n}"), 20 + n, ""));
    let nodes: String = controllers.chain(workers).collect();
    described(&format!("{more}nodes:\n{nodes}"))
}

/// A description from lines of its own after those every cluster has.
pub(crate) fn described(more: &str) -> Desired {
    let text = format!(
        "cluster_name: lab\ncluster_uid: \"{UID}\"\nproxmox_endpoint: https://pve1:8006\nproxmox_storage: local-zfs\n\
         proxmox_bridge: vmbr0\nnode_cidr: 10.0.7.0/24\nnode_gateway: 10.0.7.1\ncluster_api_addr: 10.0.7.10\n\
         talos_version: 1.13.9\nkubernetes_version: 1.36.3\ntalos_template: 9000\n{more}"
    );
    let outcome = read_files(Files::from_texts(&text, None));
    assert!(!outcome.has_errors(), "{:#?}\n{text}", outcome.problems);
    outcome.desired.unwrap()
}

pub(crate) fn node(name: &str) -> NodeName {
    NodeName::parse(name).unwrap()
}

pub(crate) fn pool() -> PoolName {
    PoolName::parse(POOL).unwrap()
}

/// The mark of a node's VM.
pub(crate) fn mark(name: &str, id: u32, incarnation: &str) -> Mark {
    let line = format!("talmox:v1 uid={UID} cluster=lab node={name} vmid={id} incarnation={incarnation}");
    Mark::parse(&line).unwrap()
}

/// Makes the pool of the cluster.
pub(crate) async fn make_pool(lab: &Lab) {
    lab.root().create_pool(&pool(), None).await.unwrap();
}

/// Clones the template to a VM that carries a mark, in the pool of the cluster.
pub(crate) async fn make_node(lab: &Lab, client: &Client, mark: &Mark) {
    let clone = CloneVm {
        newid: mark.vmid,
        name: Some(mark.node.to_string()),
        description: Some(mark.to_string()),
        pool: Some(pool()),
        target: None,
        kind: CloneKind::Linked,
    };
    let task = client.clone_vm(&host(1), vmid(9000), &clone).await.unwrap();
    lab.done(client, &task).await.unwrap();
}

/// Makes a VM that is nobody's.
pub(crate) async fn make_vm(lab: &Lab, client: &Client, number: usize, id: VmId, pairs: &[(&str, &str)]) {
    let config: VmConfig = pairs.iter().copied().collect();
    let vm = CreateVm { vmid: id, config, pool: None, storage: None };
    let task = client.create_vm(&host(number), &vm).await.unwrap();
    lab.done(client, &task).await.unwrap();
}

/// Puts another description into a VM, as somebody at the web interface would.
pub(crate) async fn describe(lab: &Lab, id: VmId, text: &str) {
    let path = format!("/nodes/{}/qemu/{id}/config", host(1));
    lab.root().put::<()>(&path, Params::new().with("description", text)).await.unwrap();
}

pub(crate) fn nonce() -> Nonce {
    Nonce::new(0xa1)
}

/// What a run is made of, so that tests need not hold each part.
pub(crate) struct Bench {
    pub(crate) desired: Desired,
    pub(crate) request: Request,
    pub(crate) nonce: Nonce,
    pub(crate) stop: CancellationToken,
    pub(crate) limits: Limits,
    pub(crate) shelf: Shelf,
    pub(crate) told: Told,
    pub(crate) gate: Guard,
}

impl Bench {
    pub(crate) fn new(desired: Desired) -> Self {
        Self {
            desired,
            request: Request::default(),
            nonce: nonce(),
            stop: CancellationToken::new(),
            limits: Limits::default(),
            shelf: Shelf::default(),
            told: Told::default(),
            gate: Guard::default(),
        }
    }

    pub(crate) fn run<'a>(&'a self, client: &'a Client) -> Run<'a> {
        Run {
            client,
            images: &self.shelf,
            desired: &self.desired,
            request: &self.request,
            nonce: &self.nonce,
            gate: &self.gate,
            reporter: &self.told,
            stop: &self.stop,
            reach: None,
            limits: self.limits,
        }
    }
}

/// Keeps every event as a line.
#[derive(Default)]
pub(crate) struct Told(Mutex<Vec<String>>);

impl Told {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn has(&self, part: &str) -> bool {
        self.lines().iter().any(|line| line.contains(part))
    }
}

impl Reporter for Told {
    fn event(&self, event: Event<'_>) {
        let line = match event {
            Event::Started { step } => format!("started {}", step.id),
            Event::Task { step, upid } => format!("task {} {}", step.id, upid.kind()),
            Event::Waiting { step, name, detail, .. } => format!("waiting {} for {name}: {detail}", step.id),
            Event::Still { step, name, .. } => format!("still {} waiting for {name}", step.id),
            Event::Warned { step, words } => format!("warned {}: {words}", step.id),
            Event::OtherId { step, vmid } => format!("other id {}: {vmid}", step.id),
            Event::Done { step, .. } => format!("done {}", step.id),
            Event::Failed { step, error } => format!("failed {}: {error}", step.id),
            Event::Skipped { step, because } => format!("skipped {}: {because}", step.id),
        };
        self.0.lock().unwrap().push(line);
    }
    fn waiting(&self, waiting: &Waiting<'_>) {
        self.0.lock().unwrap().push(format!("waiting for {}", waiting.name));
    }
}

/// A gate that lets everybody through but those it was told to stop, and remembers who asked.
#[derive(Default)]
pub(crate) struct Guard {
    pub(crate) refuses: BTreeSet<NodeName>,
    asked: Mutex<Vec<String>>,
    begun: Mutex<BTreeSet<String>>,
}

impl Guard {
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Nodes an etcd may miss that nobody could ask.
    pub(crate) fn begun(&self) -> BTreeSet<String> {
        self.begun.lock().unwrap().clone()
    }
}

impl Gate for Guard {
    fn pass<'a>(&'a self, interruption: Interruption<'a>) -> GateFuture<'a> {
        self.asked.lock().unwrap().push(interruption.node.to_string());
        if interruption.etcd_begun && !interruption.etcd_agrees {
            self.begun.lock().unwrap().insert(interruption.node.to_string());
        }
        let refused = self.refuses.contains(interruption.node);
        Box::pin(async move { if refused { Err("etcd would lose its majority".to_owned()) } else { Ok(()) } })
    }
}

/// A step of a plan made by hand.
pub(crate) fn planned(name: &str, step: Step, effect: Effect, needs: &[&str]) -> Planned {
    let owner = NodeName::parse(name).ok();
    let id = |text: &str| match text.split_once('/') {
        Some((name, kind)) => StepId::new(Some(&node(name)), kind),
        None => StepId::new(None, text),
    };
    Planned {
        id: StepId::new(owner.as_ref(), step.word()),
        needs: needs.iter().map(|text| id(text)).collect(),
        node: owner,
        step,
        reason: "a test wants it".to_owned(),
        effect,
        changes: Vec::new(),
        destroys: Vec::new(),
    }
}

pub(crate) fn plan_of(steps: Vec<Planned>) -> Plan {
    Plan {
        cluster: ClusterName::parse("lab").unwrap(),
        uid: Some(ClusterUid::parse(UID).unwrap()),
        steps,
        later: Vec::new(),
        waiting: Vec::new(),
        refusals: Vec::new(),
        notes: Vec::new(),
    }
}

/// The VM of a node on the first host.
pub(crate) fn expected(name: &str, id: u32, incarnation: &str) -> Expected {
    Expected { host: host(1), mark: mark(name, id, incarnation) }
}

/// Clone, configure and start of a node on the first host.
pub(crate) fn create(name: &str, id: u32) -> Vec<Planned> {
    create_as(name, id, nonce().as_str())
}

/// The same by another run.
pub(crate) fn create_as(name: &str, id: u32, incarnation: &str) -> Vec<Planned> {
    let vm = expected(name, id, incarnation);
    let clone = Step::CloneVm {
        host: host(1),
        mark: vm.mark.clone(),
        template: TemplateSource { vmid: vmid(9000), host: host(1), name: "talos-template".to_owned() },
        clone: talmox_plan::CloneKind::Linked,
        pool: Some(pool()),
    };
    let configure = Step::ConfigureVm {
        vm: vm.clone(),
        set: [("memory", "4096"), ("cores", "2"), ("tags", "Talos")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        delete: BTreeSet::from(["nameserver".to_owned()]),
        drives: [(
            Slot::parse("scsi0").unwrap(),
            DriveOptions { discard: true, ssd: true, backup: false, replicate: false },
        )]
        .into(),
        witness: true,
        digest: None,
    };
    let (cloned, configured) = (format!("{name}/clone"), format!("{name}/configure"));
    vec![
        planned(name, clone, Effect::Create, &[]),
        planned(name, configure, Effect::Create, &[&cloned]),
        planned(name, Step::StartVm { vm }, Effect::Create, &[&configured]),
    ]
}

/// Stop and removal of a node, with the volumes a VM from the template has.
pub(crate) fn remove(name: &str, id: u32, incarnation: &str) -> Vec<Planned> {
    let vm = expected(name, id, incarnation);
    let first = planned(name, Step::StopVm { vm: vm.clone(), timeout: 60 }, Effect::Stop, &[]);
    let last = Step::RemoveVm { vm, detach: BTreeSet::new(), purges: Vec::new() };
    let mut removal = planned(name, last, Effect::Destroy, &[&format!("{name}/stop")]);
    let volume = |slot: &str, name: &str| Volume {
        slot: Slot::parse(slot).unwrap(),
        volume: VolumeId::parse(&format!("local-zfs:{name}")).unwrap(),
        size: None,
    };
    removal.destroys = vec![
        volume("efidisk0", &format!("base-9000-disk-0/vm-{id}-disk-0")),
        volume("scsi0", &format!("base-9000-disk-1/vm-{id}-disk-1")),
        volume("ide2", &format!("vm-{id}-cloudinit")),
    ];
    vec![first, removal]
}
