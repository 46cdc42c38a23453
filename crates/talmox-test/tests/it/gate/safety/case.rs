//! One case: a cluster, changes, trouble, and what must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join;
use talmox_plan::{Goal, HostsRequest, Request};
use talmox_sim_talos::{MachineId, Trouble as Sick};
use talmox_test::{BYSTANDER, ClientId, Fault, Lab, When};
use talmox_types::NodeName;

use super::Sum;
use super::besides::Besides;
use super::trouble::Trouble;
use super::wish::{Ask, Wish};
use crate::chance::Chance;
use crate::gate::bed::{Bed, Handed, Secrets};

/// How often a description changes.
const CHANGES: usize = 4;
/// VMs of somebody else's: one off, one that runs amidst ours, and a template.
const FOREIGN: [u32; 3] = [150, 2002, 9005];

/// Who makes calls: two actors, others with their hands on Proxmox, and whoever looks after it.
pub(super) const ACTORS: [ClientId; 2] = [0, 1];
pub(super) const OTHERS: ClientId = BYSTANDER;
const CHECKER: ClientId = BYSTANDER + 1;

pub(super) struct Case {
    pub(super) lab: Lab,
    /// The file everybody has.
    secrets: Arc<Mutex<Arc<Secrets>>>,
    number: u32,
    pub(super) sum: Sum,
    /// What happened so far, for whoever has to understand a failure.
    pub(super) story: Vec<String>,
}

impl Case {
    pub(super) fn new(seed: u64) -> Self {
        let lab = Lab::one_host(seed).with_nodes();
        let vm = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        lab.world(|world| {
            let disk = |id: u32| format!("local-zfs:vm-{id}-disk-0,size=8G");
            let [web, running, template] = FOREIGN;
            world.add_vm("pve1", web, vm(&[("name", "web"), ("scsi0", &disk(web))]), false);
            // It has the name of one of ours, and is none.
            world.add_vm("pve1", running, vm(&[("name", "worker-9"), ("memory", "1024")]), true);
            world.add_vm("pve1", template, vm(&[("name", "talos"), ("template", "1")]), false);
        });
        lab.transport().watch_etcd();
        let secrets = Bed::in_lab(lab.by(CHECKER), Wish::first(&Chance::new(seed)).desired()).secrets;
        Self { lab, secrets, number: 1, sum: Sum::default(), story: Vec::new() }
    }

    /// A cluster that is brought up and changed, again and again.
    pub(super) async fn run(&mut self, chance: &Chance) -> Sum {
        let theirs = self.foreign();
        let mut wish = Wish::first(chance);
        let first = wish.ask();
        let trouble = Trouble::draw_first(chance);
        wish = self.change(wish, first, (&trouble, &Besides::default()), chance).await;
        for _ in 0..CHANGES {
            let ask = wish.change(chance);
            let (trouble, besides) = (Trouble::draw(chance, &wish, &ask), Besides::draw(chance, &ask));
            wish = self.change(wish, ask, (&trouble, &besides), chance).await;
            assert_eq!(self.foreign(), theirs, "somebody else's VM was touched");
        }
        self.nothing_foreign_was_asked_for();
        assert_eq!(self.bootstraps(), 1);
        self.ends(&wish, chance).await;
        let transport = self.lab.transport();
        let watched = transport.watched();
        self.sum.calls = ACTORS.iter().map(|client| transport.call_count(*client)).sum();
        (self.sum.looks, self.sum.falls) = (watched.looks, watched.falls);
        (self.sum.lost_by_others, self.sum.struck) = (watched.lost_by_others, transport.faults_struck());
        std::mem::take(&mut self.sum)
    }

    /// The cluster in the hands of somebody who has this description.
    pub(super) fn bed(&self, client: ClientId, wish: &Wish) -> Bed {
        let bed = Bed::in_lab(self.lab.by(client), wish.desired());
        let handed = Handed { patches: wish.patches(), ..Handed::default() };
        Bed { handed, secrets: Arc::clone(&self.secrets), ..bed }
    }

    pub(super) fn next_number(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    /// A change with its trouble, until it is there; gives what is wanted now.
    async fn change(
        &mut self,
        before: Wish,
        mut ask: Ask,
        (trouble, besides): (&Trouble, &Besides),
        chance: &Chance,
    ) -> Wish {
        let Request { remove, replace, targets, prune, .. } = &ask.request;
        self.story.push(format!(
            "{}: {:?}, remove {remove:?}, prune {prune}, replace {replace:?}, targets {targets:?}, authorities {:?}; \
             {trouble:?}, {besides:?}",
            ask.kind, ask.wish, ask.rotate
        ));
        self.count(&ask, trouble, besides);
        let mut last = ask.clone();
        if !ask.rotate.is_empty() {
            // Into the file, beside the present ones.
            self.bed(CHECKER, &ask.wish).begin_rotation(&ask.rotate.iter().copied().collect::<Vec<_>>());
        }
        self.installers_take(besides.slow);
        let falls = self.lab.transport().watched().falls;
        ask.request = besides.request(&ask.request, self.now());
        match trouble {
            Trouble::Killed(calls) => {
                for (call, sent) in calls {
                    self.lab.plan(When::call(*call), Fault::KillClient { sent: *sent });
                    self.attempt(&ask).await;
                    self.calm();
                }
            }
            Trouble::NodeOff { node, after, seconds } => self.while_off(&ask, node, *after, *seconds).await,
            Trouble::Sick(node, sick) => {
                let machine = self.machine(node);
                if let Some(machine) = machine {
                    self.lab.nodes(|nodes| nodes.faults.trouble(machine, sick.clone()));
                }
                self.attempt(&ask).await;
                if let Some(machine) = machine {
                    self.lab.nodes(|nodes| nodes.faults.mend(machine));
                }
            }
            Trouble::TwoActors { other, after, .. } => {
                trouble.plan(&self.lab);
                let other = other.as_ref().map_or(&ask, |other| &**other);
                self.both(&ask, other, *after).await;
                last = both_asked(&before, &ask, other);
            }
            Trouble::None | Trouble::Faults(_) => {
                trouble.plan(&self.lab);
                self.attempt(&ask).await;
            }
        }
        self.calm();
        if besides.keeps_all_up(trouble) {
            assert_eq!(
                self.lab.transport().watched().falls,
                falls,
                "a member went, and it was to be put off"
            );
        }
        self.installers_take(None);
        self.arrives(last, chance).await
    }

    fn count(&mut self, ask: &Ask, trouble: &Trouble, besides: &Besides) {
        *self.sum.changes.entry(ask.kind).or_default() += 1;
        *self.sum.troubles.entry(trouble.kind()).or_default() += 1;
        for kind in besides.kinds() {
            *self.sum.besides.entry(kind).or_default() += 1;
        }
    }

    /// Seconds since 1970.
    fn now(&self) -> u64 {
        self.lab.world(|world| world.epoch() + world.clock()) / 1000
    }

    /// Installers of all machines take so many times as long, or as long as ever.
    fn installers_take(&self, times: Option<u64>) {
        let machines = self.lab.nodes(|nodes| nodes.addresses());
        for (_, machine) in machines {
            self.lab.nodes(|nodes| match times {
                Some(times) => nodes.faults.trouble(machine, Sick::SlowInstall(times)),
                None => nodes.faults.mend(machine),
            });
        }
    }

    /// Nothing goes wrong from now on, and who died is replaced.
    fn calm(&mut self) {
        let transport = self.lab.transport();
        self.sum.kills += ACTORS.iter().filter(|client| transport.died(**client)).count();
        transport.forget_faults();
        transport.revive_client();
    }

    /// Runs until the change is there or the run gives up; any end is a good one but for what is checked after.
    async fn attempt(&mut self, ask: &Ask) {
        let number = self.next_number();
        let bed = self.bed(ACTORS[0], &ask.wish);
        let ended = Box::pin(bed.converge_mortally(&ask.request, number)).await;
        self.note(0, ended.map(drop));
    }

    async fn both(&mut self, one: &Ask, other: &Ask, after: u64) {
        let numbers = (self.next_number(), self.next_number());
        let beds = (self.bed(ACTORS[0], &one.wish), self.bed(ACTORS[1], &other.wish));
        let later = async {
            tokio::time::sleep(Duration::from_secs(after)).await;
            beds.1.converge_mortally(&other.request, numbers.1).await
        };
        let (first, second) = Box::pin(join(beds.0.converge_mortally(&one.request, numbers.0), later)).await;
        self.note(0, first.map(drop));
        self.note(1, second.map(drop));
    }

    pub(super) fn note(&mut self, actor: usize, ended: Result<(), String>) {
        self.sum.runs += 1;
        self.sum.failed += usize::from(ended.is_err());
        let words = ended.map_or_else(|error| error, |()| "there".to_owned());
        self.story.push(format!("  actor {actor}: {words}"));
    }

    /// Runs while others switch a node off and on again.
    async fn while_off(&mut self, ask: &Ask, node: &NodeName, after: u64, seconds: u64) {
        if after == 0 {
            self.switch(node, false).await;
        }
        let number = self.next_number();
        let bed = self.bed(ACTORS[0], &ask.wish);
        let hands = async {
            if after > 0 {
                tokio::time::sleep(Duration::from_secs(after)).await;
                self.switch(node, false).await;
            }
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            self.switch(node, true).await;
        };
        let (ended, ()) = Box::pin(join(bed.converge_mortally(&ask.request, number), hands)).await;
        self.note(0, ended.map(drop));
    }

    /// The machine of a node, by the name of its VM.
    pub(super) fn machine(&self, node: &NodeName) -> Option<MachineId> {
        let vms = self.lab.world(|world| world.dump()).vms;
        let is = |name: Option<&String>| name.is_some_and(|name| name == node.as_str());
        vms.into_iter().find(|(_, vm)| is(vm.config.get("name"))).map(|(vmid, _)| MachineId(vmid))
    }

    /// Somebody at Proxmox switches a VM off or on, if it is there.
    async fn switch(&self, node: &NodeName, on: bool) {
        let Some(machine) = self.machine(node) else { return };
        let (lab, host, vmid) = (self.lab.by(OTHERS), talmox_test::host(1), talmox_test::vmid(machine.0));
        let client = lab.root();
        if !on {
            lab.transport().others_take(machine);
        }
        let task =
            if on { client.start_vm(&host, vmid).await } else { client.stop_vm(&host, vmid, false).await };
        if let Ok(task) = task {
            let _ = lab.done(&client, &task).await;
        }
    }

    /// Whatever happened before, runs without trouble get there.
    async fn arrives(&mut self, ask: Ask, chance: &Chance) -> Wish {
        let (wish, kind) = (ask.possible().clone(), ask.kind);
        let mut request = ask.request;
        if kind == "host drained" {
            let hosts = HostsRequest { back: Some(talmox_test::host(1)), ..HostsRequest::default() };
            let (targets, replace) = (BTreeSet::new(), BTreeSet::new());
            let back = Request { hosts, targets, replace, ..request.clone() };
            self.must_converge(&wish, &back).await;
            (request.goal, request.hosts, request.targets) =
                (Goal::Converge, HostsRequest::default(), BTreeSet::new());
        }
        // A node that is half built anew is finished without being asked for again, unless its VM is still there, wiped (`wiped`).
        if chance.percent(50) && kind == "replaced" {
            request.replace.clear();
        }
        self.must_converge(&wish, &request).await;
        request.replace.clear();
        self.holds(&wish, &request).await;
        wish
    }

    async fn must_converge(&mut self, wish: &Wish, request: &Request) {
        self.bed_converges(&self.bed(ACTORS[0], wish), request).await;
    }

    pub(super) async fn bed_converges(&mut self, bed: &Bed, request: &Request) {
        let (mut last, mut request) = (String::new(), request.clone());
        // A lease of a run that died is waited for; a machine that was cut off may need one more.
        for _ in 0..3 {
            let number = self.next_number();
            self.sum.runs += 1;
            match Box::pin(bed.converge(&request, number)).await {
                Ok(_) => return,
                Err(error) => last = error,
            }
            request.replace.extend(wiped(&last));
            self.story.push(format!("  again, because {last}"));
            tokio::time::sleep(Duration::from_mins(2)).await;
        }
        panic!("it does not get there: {last}");
    }

    /// What must hold after every change.
    async fn holds(&self, wish: &Wish, request: &Request) {
        let watched = self.lab.transport().watched();
        let faults: Vec<String> = watched.faults.iter().map(ToString::to_string).collect();
        assert!(faults.is_empty(), "{faults:#?}");
        let bed = self.bed(CHECKER, wish);
        bed.settles().await;
        assert_eq!(bed.cordoned().await, [""; 0], "closed to pods");
        assert_eq!((bed.etcd_clusters(), self.bootstraps()), (1, 1));
        let [quorum] = &self.lab.nodes(|nodes| nodes.quorums())[..] else { panic!("one etcd") };
        assert_eq!(quorum.voters.len(), wish.controller_count(), "{quorum:?}");
        let address = bed.control_planes().into_values().next().unwrap();
        let nodes = bed.kubernetes_at(&address.to_string()).nodes().await.unwrap();
        let names: BTreeSet<String> = nodes.iter().map(|node| node.name().to_owned()).collect();
        assert_eq!(names, wish.nodes());
        assert_eq!(bed.bundle().rotating().count(), 0, "an authority is still being replaced");
        let plan = bed.plan(request).await;
        assert!(plan.is_empty(), "{plan:#?}");
    }

    /// How often an etcd was begun, whether or not anybody heard of it.
    pub(super) fn bootstraps(&self) -> u64 {
        self.lab.nodes(|nodes| nodes.founded)
    }

    /// What is left of VMs of somebody else's.
    fn foreign(&self) -> Vec<Option<serde_json::Value>> {
        let vms = self.lab.world(|world| world.dump()).vms;
        let left = |id: &u32| vms.get(id).map(|vm| serde_json::json!([vm.running, vm.config]));
        FOREIGN.iter().map(left).collect()
    }

    fn nothing_foreign_was_asked_for(&self) {
        let calls = self.lab.calls();
        let theirs = |path: &str| FOREIGN.iter().any(|id| path.contains(&format!("/qemu/{id}/")));
        let touched: Vec<String> = calls
            .writes()
            .filter(|call| theirs(&format!("{}/", call.path)))
            .map(ToString::to_string)
            .collect();
        assert!(touched.is_empty(), "{touched:#?}");
    }
}

/// A node whose VM was wiped by a run that died before it was removed: nothing is destroyed unasked, so the way to go on is to ask for it
/// again, as the refusal says.
fn wiped(refused: &str) -> Option<NodeName> {
    let told = refused
        .strip_prefix("cannot be done: ")
        .filter(|told| told.contains("was wiped, to be built anew"))?;
    NodeName::parse(told.split(": VM ").next()?).ok()
}

/// What two who had their own copies of a file agree on, and what was asked for by either.
fn both_asked(before: &Wish, one: &Ask, other: &Ask) -> Ask {
    let wish = before.merged(one.possible(), other.possible());
    let mut last = wish.ask();
    last.request.prune = true;
    last.request.replace = wish.promoted_since(before);
    // What either had drained is taken up again.
    let drained = [one, other].into_iter().find(|ask| ask.kind == "host drained");
    if let Some(drained) = drained {
        (last.kind, last.request.goal) = (drained.kind, Goal::Hosts);
    }
    last
}

/// Counts by name, in one line.
pub(super) fn counted(counts: &BTreeMap<&'static str, usize>) -> String {
    let one = |(name, count): (&&str, &usize)| format!("{count} {name}");
    counts.iter().map(one).collect::<Vec<_>>().join(", ")
}
