//! What a case wants of its cluster, and how that changes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use talmox_plan::{Goal, HostsRequest, Request};
use talmox_render::PatchText;
use talmox_types::desired::Desired;
use talmox_types::{NodeName, Realm};

use crate::chance::Chance;
use crate::gate::bed::{desired, healthy};

/// Versions that follow each other, and whatever pair of them is supported.
const TALOS: [&str; 3] = ["1.13.6", "1.13.9", "1.14.0"];
const KUBERNETES: [&str; 3] = ["1.35.4", "1.36.3", "1.36.4"];

/// A description, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    controllers: BTreeSet<u8>,
    workers: BTreeSet<u8>,
    /// Control planes that are described as workers, which cannot be.
    demoted: BTreeSet<u8>,
    /// Workers that are described as control planes.
    promoted: BTreeSet<u8>,
    controller_memory: u64,
    worker_memory: u64,
    /// Counts that become settings Talos takes over at once, on trial, or at a restart.
    sysctl: u64,
    hosts_entry: u64,
    environment: u64,
    talos: usize,
    kubernetes: usize,
    more_extensions: bool,
    at_a_time: usize,
}

/// A wish, what is asked for with it, and in words.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) wish: Wish,
    pub(super) request: Request,
    /// Authorities that are replaced.
    pub(super) rotate: BTreeSet<Realm>,
    /// What is described once it is known that this cannot be.
    instead: Option<Wish>,
    /// What kind of change it is, for counting.
    pub(super) kind: &'static str,
}

impl Ask {
    fn new(kind: &'static str, wish: Wish) -> Self {
        let request = wish.request();
        Self { wish, request, rotate: BTreeSet::new(), instead: None, kind }
    }

    /// Whether control planes go down one by one.
    pub(super) fn restarts_control_planes(&self) -> bool {
        let kinds = ["memory of control planes", "setting with restart", "memory and restart"];
        self.upgrades() || kinds.contains(&self.kind)
    }

    /// Whether machines get another Talos, or other extensions.
    pub(super) fn upgrades(&self) -> bool {
        matches!(self.kind, "Talos" | "extensions")
    }

    /// Whether all of it can be written down now and wait for a restart.
    pub(super) fn can_be_staged(&self) -> bool {
        self.upgrades() || self.kind == "setting with restart"
    }

    pub(super) fn is_about_hosts(&self) -> bool {
        self.request.goal == Goal::Hosts
    }

    /// What can be had of it.
    pub(super) fn possible(&self) -> &Wish {
        self.instead.as_ref().unwrap_or(&self.wish)
    }
}

fn named(role: &str, number: u8) -> NodeName {
    NodeName::parse(&format!("{role}-{number}")).unwrap()
}

fn pick(chance: &Chance, from: &BTreeSet<u8>) -> u8 {
    chance.pick(&from.iter().copied().collect::<Vec<_>>())
}

/// The least number that is not taken.
fn free(taken: &BTreeSet<u8>) -> u8 {
    (1..=u8::MAX).find(|number| !taken.contains(number)).unwrap()
}

impl Wish {
    pub(super) fn first(chance: &Chance) -> Self {
        Self {
            controllers: (1..=chance.pick(&[3, 3, 5])).collect(),
            workers: (1..=chance.pick(&[2, 2, 3])).collect(),
            demoted: BTreeSet::new(),
            promoted: BTreeSet::new(),
            controller_memory: 4096,
            worker_memory: 4096,
            sysctl: 0,
            hosts_entry: 0,
            environment: 0,
            talos: 0,
            kubernetes: 0,
            more_extensions: false,
            at_a_time: 1,
        }
    }

    /// As it is.
    pub(super) fn ask(&self) -> Ask {
        Ask::new("as it is", self.clone())
    }

    /// Something else than before, if that can be had; else nothing.
    fn other(&self, chance: &Chance) -> Option<Ask> {
        let mut wish = self.clone();
        let ask = |kind, wish: Wish| Some(Ask::new(kind, wish));
        match chance.number(0, 20) {
            0 => {
                wish.controller_memory += 1024;
                ask("memory of control planes", wish)
            }
            1 => {
                (wish.worker_memory, wish.at_a_time) = (wish.worker_memory + 1024, chance.small(1, 2));
                ask("memory of workers", wish)
            }
            2 => {
                wish.sysctl += 1;
                ask("setting taken over", wish)
            }
            3 => {
                wish.hosts_entry += 1;
                ask("setting on trial", wish)
            }
            4 => {
                wish.environment += 1;
                ask("setting with restart", wish)
            }
            5 => {
                (wish.controller_memory, wish.environment) =
                    (wish.controller_memory + 1024, wish.environment + 1);
                ask("memory and restart", wish)
            }
            6 | 7 if wish.talos + 1 < TALOS.len() => {
                wish.talos += 1;
                ask("Talos", wish)
            }
            8 if wish.kubernetes + 1 < KUBERNETES.len() => {
                wish.kubernetes += 1;
                ask("Kubernetes", wish)
            }
            9 => {
                wish.more_extensions = !wish.more_extensions;
                ask("extensions", wish)
            }
            10 if wish.workers.len() < 4 => {
                wish.workers.insert(free(&wish.workers));
                ask("another worker", wish)
            }
            11 if wish.controller_count() < 5 => {
                // They come in odd numbers.
                wish.controllers.insert(free(&wish.controllers));
                wish.controllers.insert(free(&wish.controllers));
                ask("more control planes", wish)
            }
            12 if wish.mere_workers().len() > 1 => {
                let number = pick(chance, &wish.mere_workers());
                wish.workers.remove(&number);
                Some(Ask::new("worker removed", wish).removing([named("worker", number)].into(), chance))
            }
            13 | 14 if wish.controller_count() > 3 => {
                let mut gone = BTreeSet::new();
                for _ in 0..2 {
                    let node = wish.some_controller(chance);
                    wish.forget(&node);
                    gone.insert(node);
                }
                Some(Ask::new("control planes removed", wish).removing(gone, chance))
            }
            15 => {
                let node = self.some_node(chance);
                let mut ask = Ask::new("replaced", wish);
                ask.request.replace = [node].into();
                Some(ask)
            }
            16 => {
                let node = self.some_node(chance);
                let mut ask = Ask::new("host drained", wish);
                ask.request.goal = Goal::Hosts;
                ask.request.hosts = HostsRequest { drain: Some(talmox_test::host(1)), ..Default::default() };
                ask.request.targets = [node].into();
                Some(ask)
            }
            number @ 17.. => self.other_inside(number, chance),
            _ => None,
        }
    }

    /// Other roles, or other authorities, if that can be had.
    fn other_inside(&self, number: u64, chance: &Chance) -> Option<Ask> {
        let mut wish = self.clone();
        match number {
            17 if wish.controllers.len() > 2 => {
                // One or three are left, which are valid numbers, and workers go two at a time.
                while wish.demoted.len() < 2 {
                    wish.demoted.insert(pick(chance, &wish.controllers));
                }
                (wish.worker_memory, wish.at_a_time) = (wish.worker_memory + 1024, 2);
                let instead = Some(Self { demoted: BTreeSet::new(), ..wish.clone() });
                Some(Ask { instead, ..Ask::new("control planes as workers", wish) })
            }
            18 if wish.controller_count() == 3 && wish.mere_workers().len() > 2 => {
                for _ in 0..2 {
                    wish.promoted.insert(pick(chance, &wish.mere_workers()));
                }
                if chance.percent(50) {
                    let instead = Some(self.clone());
                    return Some(Ask { instead, ..Ask::new("workers as control planes", wish) });
                }
                let replace = wish.promoted_since(self);
                let mut ask = Ask::new("workers built anew as control planes", wish);
                ask.request.replace = replace;
                Some(ask)
            }
            19 | 20 => {
                let mut ask = Ask::new("authorities replaced", wish);
                let realms = [&[Realm::Talos][..], &[Realm::Kubernetes], &Realm::ALL];
                ask.rotate = chance.pick(&realms).iter().copied().collect();
                Some(ask)
            }
            _ => None,
        }
    }

    /// Something else than before.
    pub(super) fn change(&self, chance: &Chance) -> Ask {
        loop {
            if let Some(ask) = self.other(chance) {
                return ask;
            }
        }
    }

    /// A control plane more often than a worker.
    pub(super) fn some_node(&self, chance: &Chance) -> NodeName {
        if chance.percent(70) {
            self.some_controller(chance)
        } else {
            named("worker", pick(chance, &self.mere_workers()))
        }
    }

    pub(super) fn some_controller(&self, chance: &Chance) -> NodeName {
        chance.pick(&self.control_planes())
    }

    /// Workers that are no control planes.
    fn mere_workers(&self) -> BTreeSet<u8> {
        &self.workers - &self.promoted
    }

    /// Names of all that have a vote in etcd.
    pub(super) fn control_planes(&self) -> Vec<NodeName> {
        let controllers = self.controllers.iter().map(|number| named("cp", *number));
        controllers.chain(self.promoted.iter().map(|number| named("worker", *number))).collect()
    }

    /// Workers that are control planes now, and were not before.
    pub(super) fn promoted_since(&self, before: &Self) -> BTreeSet<NodeName> {
        (&self.promoted - &before.promoted).iter().map(|number| named("worker", *number)).collect()
    }

    /// Takes a control plane out of the description.
    fn forget(&mut self, node: &NodeName) {
        self.controllers.retain(|number| named("cp", *number) != *node);
        for workers in [&mut self.promoted, &mut self.workers] {
            workers.retain(|number| named("worker", *number) != *node);
        }
    }

    /// Both changes of a wish: what somebody writes into the file when two had their own copy of it.
    pub(super) fn merged(&self, one: &Self, other: &Self) -> Self {
        let numbers = |base: &BTreeSet<u8>, one: &BTreeSet<u8>, other: &BTreeSet<u8>| {
            if one == base { other.clone() } else { one.clone() }
        };
        Self {
            controllers: numbers(&self.controllers, &one.controllers, &other.controllers),
            workers: numbers(&self.workers, &one.workers, &other.workers),
            demoted: BTreeSet::new(),
            promoted: numbers(&self.promoted, &one.promoted, &other.promoted),
            controller_memory: one.controller_memory.max(other.controller_memory),
            worker_memory: one.worker_memory.max(other.worker_memory),
            sysctl: one.sysctl.max(other.sysctl),
            hosts_entry: one.hosts_entry.max(other.hosts_entry),
            environment: one.environment.max(other.environment),
            talos: one.talos.max(other.talos),
            kubernetes: one.kubernetes.max(other.kubernetes),
            more_extensions: if one.more_extensions == self.more_extensions {
                other.more_extensions
            } else {
                one.more_extensions
            },
            at_a_time: one.at_a_time,
        }
    }

    /// Names of all nodes, control planes first.
    pub(super) fn nodes(&self) -> BTreeSet<String> {
        let controllers = self.controllers.iter().map(|number| format!("cp-{number}"));
        let workers = self.workers.iter().map(|number| format!("worker-{number}"));
        controllers.chain(workers).collect()
    }

    pub(super) fn controller_count(&self) -> usize {
        self.controllers.len() + self.promoted.len()
    }

    pub(super) fn talos_version(&self) -> &'static str {
        TALOS[self.talos]
    }

    pub(super) fn desired(&self) -> Desired {
        let Self { controller_memory, worker_memory, .. } = self;
        let (talos, kubernetes) = (TALOS[self.talos], KUBERNETES[self.kubernetes]);
        let extra = if self.more_extensions { ", siderolabs/iscsi-tools" } else { "" };
        let mut text = format!(
            "talos_version: {talos}\nkubernetes_version: {kubernetes}\ntalos_contract: \"1.13\"\n\
             schematic: {{extensions: [siderolabs/qemu-guest-agent{extra}]}}\n\
             proxmox_vm_controller_defaults: {{memory: {controller_memory}}}\n\
             proxmox_vm_worker_defaults: {{memory: {worker_memory}}}\nnodes:\n"
        );
        for number in &self.controllers {
            let (last, is) = (10 + number, !self.demoted.contains(number));
            let _ = writeln!(text, "  - {{name: cp-{number}, address: 10.0.7.{last}, controller: {is}}}");
        }
        for number in &self.workers {
            let (last, is) = (20 + number, self.promoted.contains(number));
            let _ = writeln!(text, "  - {{name: worker-{number}, address: 10.0.7.{last}, controller: {is}}}");
        }
        desired(&text)
    }

    pub(super) fn patches(&self) -> Vec<PatchText> {
        let Self { sysctl, hosts_entry, environment, .. } = self;
        let mut parts = Vec::new();
        if *sysctl > 0 {
            parts.push(format!("sysctls: {{vm.max_map_count: \"{}\"}}", 262_144 + sysctl));
        }
        if *environment > 0 {
            parts.push(format!("env: {{ROUND: \"{environment}\"}}"));
        }
        let mut texts = Vec::new();
        if !parts.is_empty() {
            texts.push(format!("machine: {{{}}}", parts.join(", ")));
        }
        if *hosts_entry > 0 {
            let host =
                format!("apiVersion: v1alpha1\nkind: StaticHostConfig\nname: 10.0.7.{}", 100 + hosts_entry);
            texts.push(format!("{host}\nhostnames: [ns.lab]"));
        }
        let patch = |text| PatchText { name: "wish.yaml".to_owned(), text };
        texts.into_iter().map(patch).collect()
    }

    fn request(&self) -> Request {
        let mut request = healthy();
        request.upkeep.max_unavailable = std::num::NonZeroUsize::new(self.at_a_time);
        request
    }
}

impl Ask {
    /// By name, or as one of all that are not described.
    fn removing(mut self, nodes: BTreeSet<NodeName>, chance: &Chance) -> Self {
        if chance.percent(50) {
            self.request.remove = nodes;
        } else {
            self.request.prune = true;
        }
        self
    }
}
