//! What is inside the machines: Talos, etcd, and the Kubernetes on top of them.
//!
//! ```text
//!  VM runs ─▶ answers ─▶ in maintenance: configure ─▶ every control plane without data: bootstrap ─▶ manifests ─▶ healthy
//!                │                                    any control plane with data: never
//!                └─ does not answer: waited for by name
//! ```
//!
//! What is not known yet becomes an intent, so that approving the first plan of a new cluster approves all of it. What is
//! configured already is compared, and kept up (`upkeep/`).

mod bootstrap;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_types::desired::{Cni, ConfigDelivery, Desired, Node, Power as WantedPower, Role};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{BootstrapWord, NodeName};

use super::configured::Configures;
use super::hosts::is_away;
use super::upkeep::{Living, UNKNOWN_PHASE};
use super::{Draft, Planner};
use crate::{
    Effect, Expected, Guest, Intent, Owned, Power, Proof, Reconfigure, SeenEtcd, SeenKubernetes, SeenMachine,
    SeenNode, Step, StepId, Until, Waiting, seed_in,
};

/// Why the last step of a plan waits until the cluster is healthy, where nothing else is the matter.
pub const IN_THE_END: &str = "everything has to work in the end";

/// The control plane that is bootstrapped: the first by name, whoever asks.
pub fn first_control_plane(desired: &Desired) -> Option<&NodeName> {
    desired.nodes.iter().filter(|node| node.role == Role::Controller).map(|node| &node.name).min()
}

/// How far a node is.
enum Standing<'a> {
    /// Described as stopped.
    Off,
    /// Stopped because its host was drained.
    Away,
    /// Its VM is not there, does not run, or is about to go down: what is inside follows later.
    Later,
    /// It runs, and what is inside is not known.
    Unknown,
    /// It gets its configuration in this plan.
    Fresh(StepId),
    Configured(&'a SeenNode),
    /// Nothing is done to it.
    Refused,
}

impl<'a> Standing<'a> {
    /// What a machine that has its configuration says.
    fn seen(&self) -> Option<&'a SeenNode> {
        match self {
            Self::Configured(seen) => Some(seen),
            Self::Off | Self::Away | Self::Later | Self::Unknown | Self::Fresh(_) | Self::Refused => None,
        }
    }
}

/// What a machine in maintenance mode said and showed.
#[derive(Clone, Copy)]
struct InMaintenance<'a> {
    address: IpAddr,
    uuid: &'a str,
    fingerprint: Option<&'a str>,
}

/// Whether a machine can answer once it has its configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Voice {
    /// A control plane; or a worker of a cluster whose control planes can sign its certificate.
    Own,
    /// A worker before the bootstrap, which this run makes, in this plan if it is `planned`. The worker may find no control plane
    /// before etcd has a leader, so no step waits for its answer until then.
    Early { planned: bool },
    /// A worker that this run configured before it bootstrapped the cluster.
    Awaited,
    /// Once a control plane is configured that this run is about to get there.
    Later,
    /// No control plane is configured, and this run does nothing about it.
    None,
}

impl<'a> Planner<'a> {
    /// Plans what is inside the machines, as far as was asked for.
    pub(super) fn inside(&mut self) {
        if !self.request.looks_inside() {
            return;
        }
        let vms = self.own_vms();
        let moving = self.moving();
        let nodes = self.in_turn();
        let mut standings: Vec<(&Node, Standing<'a>)> = Vec::new();
        // Control planes first: a worker has its certificate from one that is configured, and cannot answer before.
        for role in [Role::Controller, Role::Worker] {
            let speaks = |(_, standing): &(&Node, Standing<'a>)| {
                matches!(standing, Standing::Configured(_) | Standing::Fresh(_))
            };
            let comes = |(node, standing): &(&Node, Standing<'a>)| {
                self.request.covers(&node.name) && matches!(standing, Standing::Later | Standing::Unknown)
            };
            let voice = if role == Role::Controller {
                Voice::Own
            } else if standings.iter().any(speaks) {
                self.voice_beside(&standings)
            } else if standings.iter().any(comes) {
                Voice::Later
            } else {
                Voice::None
            };
            for node in nodes.iter().copied().filter(|node| node.role == role) {
                let standing = self.standing(node, &vms, &moving, voice);
                standings.push((node, standing));
            }
        }
        self.tell_beyond();
        let living =
            standings.iter().filter_map(|(node, standing)| Some(Living { node, seen: standing.seen()? }));
        let living: Vec<Living<'a>> = living.collect();
        if self.request.until >= Until::Configured {
            self.upkeep(&living);
        }
        let mut configured: Vec<StepId> =
            standings.iter().filter_map(|(_, standing)| fresh(standing)).collect();
        let kept_up = self.plan.steps.iter().filter(|planned| matches!(planned.step, Step::Upkeep(_)));
        configured.extend(kept_up.map(|planned| planned.id.clone()));
        if self.request.until < Until::Bootstrapped {
            return;
        }
        let etcd = self.bootstrap(&vms, &standings);
        if self.request.until == Until::Healthy && self.request.targets.is_empty() {
            self.healthy(&standings, &etcd, configured);
        }
    }

    /// How a worker can answer beside control planes that are configured, or get their configuration in this plan.
    fn voice_beside(&self, controllers: &[(&Node, Standing<'a>)]) -> Voice {
        let is_covered = first_control_plane(self.desired).is_some_and(|first| self.request.covers(first));
        let begun = self.identities.marks().any(|mark| mark.bootstrap.as_ref().is_some_and(|word| word.done));
        let restores = self.request.upkeep.restore.is_some();
        let comes = |standing: &Standing<'a>| match standing {
            Standing::Configured(seen) => {
                matches!(seen.etcd, Some(SeenEtcd::Empty | SeenEtcd::Unknown { .. }))
            }
            Standing::Fresh(_) | Standing::Later | Standing::Unknown => true,
            Standing::Off | Standing::Away | Standing::Refused => false,
        };
        let bootstraps = self.request.until >= Until::Bootstrapped && is_covered && (!begun || restores);
        if !(bootstraps && controllers.iter().all(|(_, standing)| comes(standing))) {
            return Voice::Own;
        }
        let is_empty = |standing: &Standing<'a>| matches!(standing, Standing::Configured(seen) if seen.etcd == Some(SeenEtcd::Empty));
        Voice::Early { planned: controllers.iter().all(|(_, standing)| is_empty(standing)) }
    }

    /// Whether this run made the VM that etcd was begun on.
    fn began_in_this_run(&self) -> bool {
        let ours = |word: &BootstrapWord| word.done && word.incarnation == self.nonce.as_str();
        self.identities.marks().any(|mark| mark.bootstrap.as_ref().is_some_and(ours))
    }

    /// Whether the configuration of a node's machine is on a drive, or is fetched.
    fn finds_its_own(&self, owned: &Owned) -> bool {
        let guest = self.observed.guests.get(&owned.mark.vmid).and_then(Guest::seen);
        guest.is_some_and(|seen| seed_in(&seen.live).is_some()) || self.fetches(owned.mark.vmid)
    }

    /// The VM of each node; of a double the one that stays.
    fn own_vms(&self) -> BTreeMap<NodeName, Owned> {
        let mut vms = BTreeMap::new();
        for owned in self.identities.ours() {
            vms.entry(owned.mark.node.clone()).or_insert_with(|| owned.clone());
        }
        vms
    }

    /// Nodes this plan makes, starts or takes down, and nodes that are refused or busy.
    fn moving(&self) -> BTreeSet<NodeName> {
        let moves = |effect: Effect| effect.interrupts() || matches!(effect, Effect::Create | Effect::Start);
        let steps = self.plan.steps.iter().filter(|step| moves(step.effect)).filter_map(|s| s.node.clone());
        let later = self.plan.later.iter().filter_map(|intent| intent.node.clone());
        let refused = self.plan.refusals.iter().filter_map(|refusal| refusal.node.clone());
        let busy = self.plan.waiting.iter().flat_map(|waiting| match waiting {
            Waiting::Locked { node, .. } => std::slice::from_ref(node),
            Waiting::HostDown { nodes, .. } => nodes,
            Waiting::InFlight { .. }
            | Waiting::Reboot { .. }
            | Waiting::Trial { .. }
            | Waiting::Workers { .. }
            | Waiting::Answer { .. }
            | Waiting::Bootstrap { .. } => &[],
        });
        steps.chain(later).chain(refused).chain(busy.cloned()).collect()
    }

    fn standing(
        &mut self,
        node: &Node,
        vms: &BTreeMap<NodeName, Owned>,
        moving: &BTreeSet<NodeName>,
        voice: Voice,
    ) -> Standing<'a> {
        if let Some(last) = self.anew.get(&node.name) {
            return Standing::Fresh(last.clone());
        }
        if node.vm.power == WantedPower::Stopped {
            return Standing::Off;
        }
        let covered = self.request.covers(&node.name);
        let observed = self.observed;
        let vm = vms.get(&node.name);
        let guest = vm.and_then(|owned| observed.guests.get(&owned.mark.vmid));
        let runs = guest.is_some_and(|guest| guest.power == Power::Running);
        if let (Some(owned), Some(guest)) = (vm, guest)
            && is_away(owned, guest.power)
        {
            return Standing::Away;
        }
        let (Some(owned), true, false) = (vm, runs, moving.contains(&node.name)) else {
            if covered {
                self.configure_later(node, "once it runs and answers");
            }
            return Standing::Later;
        };
        match observed.talos.get(&node.name) {
            None => Standing::Unknown,
            Some(SeenMachine::Unreachable { address, reason }) => {
                self.unreachable(node, owned, (*address, reason), voice)
            }
            Some(SeenMachine::Maintenance { address, uuid, fingerprint, version: _ }) => {
                let seen = InMaintenance { address: *address, uuid, fingerprint: fingerprint.as_deref() };
                self.in_maintenance(node, owned, seen, voice)
            }
            Some(SeenMachine::Foreign { address, why }) => {
                self.refuse_stranger(node, *address, why);
                Standing::Refused
            }
            Some(SeenMachine::Configured(seen)) => {
                self.need_not_reconfigure(node);
                self.compare(node, seen);
                let vm = Expected { host: owned.host.clone(), mark: owned.mark.clone() };
                self.eject(node, &vm, None);
                self.withdraw(node, &vm, None);
                Standing::Configured(seen)
            }
        }
    }

    /// A VM this run made cannot have been configured by anybody else, and one that still has the address of its configuration
    /// fetches it; any other may be a node that lives.
    fn unreachable(
        &mut self,
        node: &Node,
        owned: &Owned,
        (address, reason): (IpAddr, &str),
        voice: Voice,
    ) -> Standing<'a> {
        let early = matches!(voice, Voice::Early { .. });
        let may_answer = match voice {
            Voice::Own | Voice::Awaited => true,
            // Whether it has found its configuration, its answer alone tells.
            Voice::Early { planned } => !planned && !self.finds_its_own(owned),
            Voice::Later | Voice::None => false,
        };
        let configures =
            self.request.until >= Until::Configured && self.request.covers(&node.name) && may_answer;
        if owned.mark.incarnation == self.nonce.as_str() && configures {
            let awaited = node.role == Role::Worker && self.began_in_this_run() && !self.finds_its_own(owned);
            let voice = if awaited { Voice::Awaited } else { voice };
            return self.configure_node(node, owned, ("it is new and does not answer yet", voice), None);
        }
        if self.fetches(owned.mark.vmid) && configures {
            return self.configure_node(node, owned, ("it waits for its configuration", voice), None);
        }
        // To wait for a worker that waits for a control plane of this very plan, or for the bootstrap, would be to wait for ever.
        if voice != Voice::Later && !early {
            self.plan.waiting.push(Waiting::Answer {
                node: node.name.clone(),
                vmid: owned.mark.vmid,
                address,
                reason: reason.to_owned(),
            });
        }
        let reason = match voice {
            Voice::Early { .. } => "once etcd runs, unless it turns out to be configured already",
            Voice::Own | Voice::Awaited | Voice::Later | Voice::None => {
                "unless it turns out to be configured already"
            }
        };
        self.configure_later(node, reason);
        Standing::Unknown
    }

    fn in_maintenance(
        &mut self,
        node: &Node,
        owned: &Owned,
        seen: InMaintenance<'_>,
        voice: Voice,
    ) -> Standing<'a> {
        let InMaintenance { address, uuid, fingerprint } = seen;
        let guest = self.observed.guests.get(&owned.mark.vmid);
        let own = guest.and_then(|guest| guest.seen()?.live.smbios().ok()??.uuid);
        let is_own = own.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(uuid));
        if !is_own && !sabotaged(Defect::UuidNotCompared) {
            let own = own.unwrap_or_else(|| "unknown".to_owned());
            let why = format!("its SMBIOS uuid is {uuid}, and that of VM {} is {own}", owned.mark.vmid);
            self.refuse_stranger(node, address, &why);
            return Standing::Refused;
        }
        if self.request.until < Until::Configured || !self.request.covers(&node.name) {
            return Standing::Unknown;
        }
        let Configures::Yes(reconfigure) = self.may_configure(node, owned, address, fingerprint) else {
            return Standing::Refused;
        };
        let waits_for = match voice {
            Voice::Own | Voice::Awaited => None,
            Voice::Early { .. } => self.finds_its_own(owned).then_some("once etcd runs"),
            Voice::Later | Voice::None => Some("once a control plane has its own"),
        };
        if let Some(waits_for) = waits_for {
            self.configure_later(node, waits_for);
            return Standing::Unknown;
        }
        let reason = match reconfigure {
            Some(_) => "it has lost its configuration, and may have it again, as asked",
            None => "it has no configuration",
        };
        self.configure_node(node, owned, (reason, voice), reconfigure)
    }

    fn refuse_stranger(&mut self, node: &Node, address: IpAddr, why: &str) {
        if !self.request.covers(&node.name) {
            return;
        }
        let problem = format!("the machine at {address} is not this node, and gets nothing: {why}");
        let choices = vec![
            format!("find out what has the address {address}, and take it away there"),
            "give the node another address".to_owned(),
            super::upkeep::OTHER_SECRETS.to_owned(),
        ];
        self.refuse(Some(&node.name), problem, choices);
    }

    fn configure_node(
        &mut self,
        node: &Node,
        owned: &Owned,
        (reason, voice): (&str, Voice),
        reconfigure: Option<Reconfigure>,
    ) -> Standing<'a> {
        let Some(address) = self.addresses.get(&node.name).copied() else { return Standing::Unknown };
        let vm = Expected { host: owned.host.clone(), mark: owned.mark.clone() };
        let proof = match voice {
            Voice::Early { .. } => Proof::LeftMaintenance,
            Voice::Awaited => Proof::Awaited,
            Voice::Own | Voice::Later | Voice::None => Proof::Certificate,
        };
        let step = Step::ConfigureNode { vm: vm.clone(), address, reconfigure, proof };
        let phase = if self.phase_is_unknown(node) { UNKNOWN_PHASE } else { "" };
        let reason = format!("{reason}{phase}");
        let configured = self.push(Draft::new(Some(&node.name), step, &reason, Effect::Create));
        self.eject(node, &vm, Some(configured.clone()));
        self.withdraw(node, &vm, Some(configured.clone()));
        Standing::Fresh(configured)
    }

    fn configure_later(&mut self, node: &Node, reason: &str) {
        if self.request.until >= Until::Configured && self.request.covers(&node.name) {
            self.follow(Some(&node.name), "configure-node", Effect::Create, reason);
            let cleans_up = match self.desired.talos.config_delivery {
                ConfigDelivery::Maintenance => return,
                ConfigDelivery::Cidata => "eject-seed",
                ConfigDelivery::Url => "withdraw-config",
            };
            self.follow(Some(&node.name), cleans_up, Effect::ChangeLive, "once it has its configuration");
        }
    }

    pub(super) fn follow(&mut self, node: Option<&NodeName>, step: &str, effect: Effect, reason: &str) {
        let (step, reason) = (step.to_owned(), reason.to_owned());
        self.plan.later.push(Intent { node: node.cloned(), step, effect, reason });
    }

    /// What follows the bootstrap, and whether anything is left to wait for.
    fn healthy(&mut self, standings: &[(&'a Node, Standing<'a>)], etcd: &Etcd, configured: Vec<StepId>) {
        let unknown = standings
            .iter()
            .any(|(_, standing)| matches!(standing, Standing::Later | Standing::Unknown | Standing::Refused));
        let mut needs = match etcd {
            Etcd::There => Vec::new(),
            Etcd::Made(step) => vec![step.clone()],
            Etcd::Later => {
                self.hand_over_later();
                return self.follow(None, "await-health", Effect::Wait, IN_THE_END);
            }
            Etcd::Not => return,
        };
        let handed_over = self.hand_over(&needs);
        needs.extend(handed_over);
        needs.extend(configured);
        if unknown {
            if !self.plan.is_empty() {
                self.follow(None, "await-health", Effect::Wait, IN_THE_END);
            }
            return;
        }
        let complaint = self.complaint(standings);
        let reason = match complaint {
            Some(complaint) => complaint,
            None if needs.is_empty() => return,
            None => IN_THE_END.to_owned(),
        };
        self.push(Draft::new(None, Step::AwaitHealth, &reason, Effect::Wait).after(needs));
    }

    /// Steps for manifests and the user's program, unless Kubernetes says that they were done.
    fn hand_over(&mut self, after: &[StepId]) -> Vec<StepId> {
        let kubernetes = &self.desired.kubernetes;
        let seen = match &self.observed.kubernetes {
            SeenKubernetes::Answers(cluster) => Some(cluster),
            SeenKubernetes::NotAsked | SeenKubernetes::Unreachable { .. } => None,
        };
        let (manifests, command) =
            (kubernetes.bootstrap_manifests.clone(), kubernetes.post_bootstrap.clone());
        let mut needs = after.to_vec();
        let mut pushed = Vec::new();
        if !manifests.is_empty() && seen.is_none_or(|seen| seen.manifests.is_none()) {
            let step = Step::ApplyManifests { manifests };
            let draft = Draft::new(None, step, "they are part of the description", Effect::Create);
            needs = vec![self.push(draft.after(needs))];
            pushed.clone_from(&needs);
        }
        if !command.is_empty() && seen.is_none_or(|seen| seen.post_bootstrap.is_none()) {
            let step = Step::PostBootstrap { command };
            let draft = Draft::new(None, step, "it takes over from here", Effect::Create);
            pushed = vec![self.push(draft.after(needs))];
        }
        pushed
    }

    fn hand_over_later(&mut self) {
        let kubernetes = &self.desired.kubernetes;
        let (manifests, command) =
            (!kubernetes.bootstrap_manifests.is_empty(), !kubernetes.post_bootstrap.is_empty());
        if manifests {
            self.follow(None, "apply-manifests", Effect::Create, "once Kubernetes answers");
        }
        if command {
            self.follow(None, "post-bootstrap", Effect::Create, "once the cluster is bootstrapped");
        }
    }

    /// What keeps a cluster that is there from being healthy, as far as one look shows.
    fn complaint(&self, standings: &[(&'a Node, Standing<'a>)]) -> Option<String> {
        // Whoever drained a host knows that something is missing.
        if standings.iter().any(|(_, standing)| matches!(standing, Standing::Away)) {
            return None;
        }
        let configured = || {
            standings.iter().filter_map(|(node, standing)| match standing {
                Standing::Configured(seen) => Some((*node, *seen)),
                Standing::Off
                | Standing::Away
                | Standing::Later
                | Standing::Unknown
                | Standing::Fresh(_)
                | Standing::Refused => None,
            })
        };
        if let Some((node, seen)) = configured().find(|(_, seen)| !seen.is_well()) {
            let well = configured().map(|(_, other)| other).filter(|other| other.is_well());
            return Some(seen.complaint_beside(node.name.as_str(), well));
        }
        let controllers: BTreeSet<&str> = configured()
            .filter(|(node, _)| node.role == Role::Controller)
            .map(|(node, _)| node.name.as_str())
            .collect();
        let declared = self.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        let declared: BTreeSet<&str> = declared.map(|node| node.name.as_str()).collect();
        for (node, seen) in configured() {
            let Some(SeenEtcd::Member { members: Some(members), .. }) = &seen.etcd else { continue };
            let known: BTreeSet<&str> = members.iter().map(String::as_str).collect();
            // One that is about to leave, or to be built anew, may still be among them.
            if !(controllers.is_subset(&known) && known.is_subset(&declared)) {
                return Some(format!("the members {} knows are {}", node.name, members.join(", ")));
            }
        }
        match &self.observed.kubernetes {
            SeenKubernetes::NotAsked => None,
            SeenKubernetes::Unreachable { reason } => Some(format!("Kubernetes does not answer: {reason}")),
            SeenKubernetes::Answers(cluster) => {
                let must_be_ready = self.desired.kubernetes.cni != Cni::None
                    || !self.desired.kubernetes.bootstrap_manifests.is_empty();
                configured().find_map(|(node, _)| match cluster.nodes.get(node.name.as_str()) {
                    None => Some(format!("{} is not in Kubernetes yet", node.name)),
                    Some(seen) if must_be_ready && !seen.ready => {
                        Some(format!("{} is not ready in Kubernetes", node.name))
                    }
                    Some(_) => None,
                })
            }
        }
    }
}

/// Where etcd is.
enum Etcd {
    There,
    Made(StepId),
    Later,
    /// Nothing is done about it.
    Not,
}

fn fresh(standing: &Standing<'_>) -> Option<StepId> {
    match standing {
        Standing::Fresh(step) => Some(step.clone()),
        Standing::Off
        | Standing::Away
        | Standing::Later
        | Standing::Unknown
        | Standing::Configured(_)
        | Standing::Refused => None,
    }
}
