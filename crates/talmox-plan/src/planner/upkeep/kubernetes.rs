//! Kubernetes of another version.
//!
//! What nodes are told to run (images of their configuration), what runs (pods and kubelets, as Kubernetes says) and what is
//! described are compared; one step takes all of it there. Talos and Kubernetes support each other in windows, so where both
//! change, one of them has to go first:
//!
//! ```text
//!  Talos first ── if the new Talos still runs the old Kubernetes ──▶ then Kubernetes
//!  Kubernetes first ── if the old Talos runs the new one already ──▶ then Talos
//!  neither ──▶ refused, with the stations in between
//! ```
//!
//! The old Kubernetes is whatever is old of it: a kubelet may be behind its control plane, and a node whose kubelet the new Talos
//! does not run never comes back.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::Version;
use talmox_types::desired::{Power, Role};
use talmox_types::support::{Pair, line_of, release_of, stations};

use super::Living;
use crate::away::kept_off;
use crate::planner::{Draft, Planner};
use crate::{
    Component, Effect, NoteKind, Planned, SeenCluster, SeenKubernetes, Step, StepId, Upkeep, image_version,
};

/// How many minor versions a kubelet may be behind its API server.
const KUBELET_SKEW: u16 = 3;
const WORD: &str = "upgrade-kubernetes";

/// What a cluster runs, and whether that is what is described.
#[derive(Default)]
struct Running {
    /// Of the control plane's parts, as configured and as they run.
    control_plane: BTreeSet<Version>,
    /// Of kubelets, as configured and as they run.
    kubelets: BTreeSet<Version>,
    /// Of kubelets of nodes that do not answer, as far as Kubernetes remembers them: they come back as they are.
    silent: BTreeSet<Version>,
    /// What is not as described, for the plan's reason.
    behind: Vec<String>,
}

impl Running {
    fn lowest(&self) -> Option<&Version> {
        self.all().min()
    }

    fn all(&self) -> impl Iterator<Item = &Version> {
        self.control_plane.iter().chain(&self.kubelets)
    }
}

/// When Kubernetes has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Once everything this plan does inside nodes is done.
    Last,
    /// Before any of that.
    First,
    /// Once Talos was upgraded, which this plan does not do.
    Later,
}

impl<'a> Planner<'a> {
    /// Upgrades Kubernetes, before or after Talos as the two support each other.
    pub(super) fn kubernetes_upgrade(&mut self, living: &[Living<'a>]) {
        let observed = self.observed;
        let seen = match &observed.kubernetes {
            SeenKubernetes::Answers(cluster) => Some(cluster),
            SeenKubernetes::NotAsked | SeenKubernetes::Unreachable { .. } => None,
        };
        let mut running = running(self.desired.kubernetes.kube_proxy, living, seen);
        running.silent = self.silent_kubelets(living, seen);
        if running.behind.is_empty() {
            return self.kubelets_to_come(living, seen);
        }
        if !self.request.targets.is_empty() {
            let text = format!(
                "Kubernetes is left as it is, since only some nodes are asked for: {}",
                in_words(&running.behind)
            );
            self.note(None, NoteKind::Inside, text);
            return;
        }
        let silent = self.missing_control_planes(living);
        if seen.is_none() || !silent.is_empty() {
            let who = if silent.is_empty() {
                "Kubernetes answers".to_owned()
            } else {
                format!("{} is there", silent.join(", "))
            };
            self.follow(None, WORD, Effect::ChangeLive, &format!("once {who}"));
            return self.talos_after_kubernetes(&running);
        }
        let Some(from) = running.lowest().cloned() else { return };
        let to = self.desired.kubernetes.version.clone();
        if !self.is_within_skew(&running, living, &to) {
            return;
        }
        let Some(order) = self.order(&running, living, &to) else { return };
        if order == Order::Later {
            return self.follow(None, WORD, Effect::ChangeLive, "once every node runs the described Talos");
        }
        if !self.written_is_in_force(living, order == Order::First) {
            return;
        }
        let of_role = |role: Role| {
            let nodes = living.iter().filter(|one| one.node.role == role);
            nodes.map(|one| (one.node.name.clone(), one.seen.address)).collect::<BTreeMap<_, _>>()
        };
        let step = Step::Upkeep(Upkeep::UpgradeKubernetes {
            from: from.to_string(),
            to: to.to_string(),
            control_planes: of_role(Role::Controller),
            workers: of_role(Role::Worker),
        });
        let reason = in_words(&running.behind);
        self.put_in_order(Draft::new(None, step, &reason, Effect::ChangeLive), order);
    }

    /// Says that nodes which are yet to come back have kubelets of another version, as far as Kubernetes remembers them: whoever
    /// approves that they are started approves that they follow the others.
    fn kubelets_to_come(&mut self, living: &[Living<'a>], seen: Option<&SeenCluster>) {
        // One that stays away must not have all else refused for want of a place for snapshots.
        let has_place = self.request.upkeep.no_snapshot || self.desired.talos.etcd_backup.is_some();
        let Some(seen) = seen.filter(|_| has_place && self.request.targets.is_empty()) else { return };
        let lives: BTreeSet<&str> = living.iter().map(|one| one.node.name.as_str()).collect();
        let kept_off = kept_off(self.desired, self.observed);
        let wanted = &self.desired.kubernetes.version;
        let is_behind = |name: &str| {
            let has = seen.nodes.get(name).and_then(|node| Version::parse(&node.version).ok());
            has.is_some_and(|has| has != *wanted)
        };
        let behind = self.desired.nodes.iter().map(|node| &node.name);
        let mut behind = behind.filter(|name| !lives.contains(name.as_str()) && !kept_off.contains(*name));
        if let Some(node) = behind.find(|name| is_behind(name.as_str())) {
            self.follow(None, WORD, Effect::ChangeLive, &format!("once {node} is there"));
        }
    }

    /// The kubelets of nodes that are not among those that answer, and are not built anew.
    fn silent_kubelets(&self, living: &[Living<'a>], seen: Option<&SeenCluster>) -> BTreeSet<Version> {
        let lives: BTreeSet<&str> = living.iter().map(|one| one.node.name.as_str()).collect();
        let silent = self.desired.nodes.iter().map(|node| &node.name);
        let silent = silent.filter(|name| !lives.contains(name.as_str()) && !self.anew.contains_key(*name));
        let versions = silent.filter_map(|name| seen?.nodes.get(name.as_str()));
        versions.filter_map(|node| Version::parse(&node.version).ok()).collect()
    }

    /// Control planes that should be there and are not among those that answer: while one is away none may be restarted.
    fn missing_control_planes(&self, living: &[Living<'a>]) -> Vec<String> {
        let lives: BTreeSet<&str> = living.iter().map(|one| one.node.name.as_str()).collect();
        let wanted = self.desired.nodes.iter();
        let wanted = wanted.filter(|node| node.role == Role::Controller && node.vm.power != Power::Stopped);
        wanted.map(|node| node.name.to_string()).filter(|name| !lives.contains(name.as_str())).collect()
    }

    /// Refuses what Kubernetes does not support: down, over a minor version, or with a kubelet too far behind.
    fn is_within_skew(&mut self, running: &Running, living: &[Living<'a>], to: &Version) -> bool {
        let minors =
            |versions: &BTreeSet<Version>| versions.iter().map(Version::contract).collect::<BTreeSet<_>>();
        let (control_plane, kubelets) = (minors(&running.control_plane), minors(&running.kubelets));
        let wanted = to.contract();
        if let Some(higher) = control_plane.iter().chain(&kubelets).find(|minor| **minor > wanted) {
            let problem = format!(
                "Kubernetes {higher} runs, and {to} is described: it cannot go back to an older minor version"
            );
            let choice =
                release_of(*higher).map_or_else(|| higher.to_string(), |release| release.to_string());
            self.refuse(None, problem, vec![format!("kubernetes_version: {choice}, or another {higher}")]);
            return false;
        }
        let too_far = control_plane.iter().find(|minor| wanted.minor.saturating_sub(minor.minor) > 1);
        let silent = minors(&running.silent);
        let mut oldest = kubelets.iter().chain(&silent);
        let too_old = oldest.find(|minor| wanted.minor.saturating_sub(minor.minor) > KUBELET_SKEW);
        if let Some(from) = too_far.or(too_old) {
            let lowest = running.control_plane.iter().min().or_else(|| running.lowest());
            let problem = format!(
                "Kubernetes {from} cannot become {wanted} at once: it goes up one minor version at a time"
            );
            let choices = self.stations(living, lowest.unwrap_or(to), to);
            self.refuse(None, problem, choices);
            return false;
        }
        if running.lowest().is_some_and(|lowest| lowest > to) {
            let text = format!("Kubernetes goes back to {to}, an older release of the same minor version");
            self.note(None, NoteKind::Warning, text);
        }
        true
    }

    /// Which goes first. None: it was refused.
    fn order(&mut self, running: &Running, living: &[Living<'a>], to: &Version) -> Option<Order> {
        let wanted = self.desired.talos.version.clone();
        let talos: BTreeSet<Version> =
            living.iter().filter_map(|one| Version::parse(&one.seen.version).ok()).collect();
        let old_runs_new = talos.iter().all(|talos| runs(talos, to));
        let new_runs_old = running.all().all(|kubernetes| runs(&wanted, kubernetes));
        let upgrades = self.plan.steps.iter().any(|step| is_talos(step, |stage| !stage));
        // What is installed comes with any restart, whoever makes that: then Kubernetes must be one it runs.
        let comes_too_early =
            !new_runs_old && self.plan.steps.iter().any(|step| is_talos(step, |stage| stage));
        let upgrades = upgrades || comes_too_early;
        let later = talos.iter().any(|talos| talos.contract() != wanted.contract());
        match (upgrades, old_runs_new, new_runs_old) {
            (true, _, true) | (false, true, _) => Some(Order::Last),
            (true, true, false) => Some(Order::First),
            (false, false, _) if later && runs(&wanted, to) => Some(Order::Later),
            (true | false, false, _) => {
                let (talos, kubernetes) = (talos.iter().min()?, running.lowest()?);
                let problem = format!(
                    "Talos {talos} with Kubernetes {kubernetes} cannot become {wanted} with {to} at once: \
                                       on the way one of them would not run the other"
                );
                let choices = match running.control_plane.iter().max().filter(|runs| *runs > kubernetes) {
                    // Control planes cannot go back to where the kubelets are.
                    Some(ahead) => vec![format!(
                        "apply with kubernetes_version: {ahead} and talos_version: {talos}, so that no kubelet is behind"
                    )],
                    None => self.stations(living, kubernetes, to),
                };
                self.refuse(None, problem, choices);
                None
            }
        }
    }

    /// Kubernetes cannot be upgraded now. Where the new Talos does not run what is there, it waits for that too.
    fn talos_after_kubernetes(&mut self, running: &Running) {
        let wanted = &self.desired.talos.version;
        if running.all().all(|kubernetes| runs(wanted, kubernetes)) {
            return;
        }
        let upgraded: BTreeSet<_> = self
            .plan
            .steps
            .iter()
            .filter(|step| is_talos(step, |stage| !stage))
            .filter_map(|step| step.node.clone())
            .collect();
        let begins = |step: &Planned| {
            let goes_down = step.effect.interrupts();
            is_talos(step, |stage| stage)
                || goes_down && step.node.as_ref().is_some_and(|node| upgraded.contains(node))
        };
        let put_off = self.put_off(begins, "once Kubernetes was upgraded, which the new Talos needs");
        self.plan.later.extend(put_off);
    }

    /// What the description has to say one after the other to get there.
    fn stations(&self, living: &[Living<'a>], kubernetes: &Version, to: &Version) -> Vec<String> {
        let talos = living.iter().filter_map(|one| Version::parse(&one.seen.version).ok()).min();
        let talos = talos.unwrap_or_else(|| self.desired.talos.version.clone());
        let found = stations(Pair::of(&talos, kubernetes), Pair::of(&self.desired.talos.version, to));
        let Some(found) = found.filter(|found| found.len() > 1) else {
            return vec![
                "choose versions of Talos and Kubernetes that a supported upgrade leads to".to_owned(),
            ];
        };
        let each = found.iter().enumerate().map(|(index, pair)| {
            let release = release_of(pair.kubernetes);
            let release =
                release.map_or_else(|| format!("{}.x", pair.kubernetes), |release| release.to_string());
            let last = index + 1 == found.len();
            let kubernetes = if last { to.to_string() } else { release };
            let begin = if index == 0 { "apply" } else { "then" };
            let talos =
                if last { self.desired.talos.version.to_string() } else { format!("{}.x", pair.talos) };
            format!("{begin} with kubernetes_version: {kubernetes} (and talos_version: {talos})")
        });
        each.collect()
    }

    /// Puts the step after all that is done inside nodes, or before it: while control planes go down one by one for something
    /// else, none may be without its API server too.
    fn put_in_order(&mut self, draft: Draft<'_>, order: Order) {
        let inside = |step: &Planned| matches!(step.step, Step::Upkeep(_)) && step.node.is_some();
        let steps = &self.plan.steps;
        if order == Order::Last {
            let needs: Vec<StepId> =
                steps.iter().filter(|step| inside(step)).map(|step| step.id.clone()).collect();
            self.push(draft.after(needs));
            return;
        }
        let first = steps.iter().position(inside);
        let kubernetes = self.push(draft);
        let (Some(first), Some(step)) = (first, self.plan.steps.pop()) else { return };
        for step in self.plan.steps.iter_mut().filter(|step| inside(step)) {
            step.needs.push(kubernetes.clone());
        }
        // Steps are listed after those they need, and those without a node are known by their place.
        self.plan.steps.insert(first, step);
        self.shared.pop();
        for index in self.shared.iter_mut().filter(|index| **index >= first) {
            *index += 1;
        }
        self.shared.push(first);
    }
}

fn runs(talos: &Version, kubernetes: &Version) -> bool {
    line_of(talos).is_some_and(|line| line.supports(kubernetes))
}

/// Whether a step upgrades Talos, staged or not.
fn is_talos(step: &Planned, staged: impl Fn(bool) -> bool) -> bool {
    matches!(&step.step, Step::Upkeep(Upkeep::UpgradeNode { stage, .. }) if staged(*stage))
}

fn running(has_proxy: bool, living: &[Living<'_>], seen: Option<&SeenCluster>) -> Running {
    let mut running = Running::default();
    for one in living {
        // What cannot be compared is told elsewhere.
        let Some(changes) = &one.seen.config else { continue };
        let name = one.node.name.as_str();
        for component in Component::ALL {
            let change = changes.iter().find(|change| Component::of_change(change) == Some(component));
            let has = component.image_in(&one.seen.images);
            let runs = seen.and_then(|seen| what_runs(seen, component, name));
            let versions = match component {
                Component::Kubelet => &mut running.kubelets,
                Component::ApiServer
                | Component::ControllerManager
                | Component::Scheduler
                | Component::Proxy => &mut running.control_plane,
            };
            let has_version = has.and_then(image_version);
            // A kube-proxy that is switched off runs nothing, whatever its image is.
            if component != Component::Proxy || has_proxy {
                versions.extend(has_version.clone());
                versions.extend(runs.as_ref().and_then(|runs| runs.version.clone()));
            }
            let word = |image: Option<&str>| image.unwrap_or("none").to_owned();
            if let Some(change) = change {
                let (old, new) = (word(change.old.as_deref()), word(change.new.as_deref()));
                running.behind.push(format!("{} of {name}: {old} → {new}", component.name()));
            } else if let Some(runs) = runs
                && runs.differs(has, has_version.as_ref())
            {
                running.behind.push(format!("{} of {name} still runs {}", component.name(), runs.words));
            }
        }
    }
    running
}

/// What of a component runs on a node, as Kubernetes says.
struct Runs {
    words: String,
    version: Option<Version>,
    is_image: bool,
}

impl Runs {
    /// Whether that is something else than the node was told to run.
    fn differs(&self, image: Option<&str>, version: Option<&Version>) -> bool {
        let other_image = self.is_image && image.is_some_and(|image| image != self.words);
        other_image
            || !self.is_image
                && self.version.is_some()
                && version.is_some()
                && self.version.as_ref() != version
    }
}

fn what_runs(seen: &SeenCluster, component: Component, node: &str) -> Option<Runs> {
    let (words, is_image) = match component {
        Component::Kubelet => (seen.nodes.get(node)?.version.clone(), false),
        Component::Proxy => (seen.proxy.clone()?, true),
        Component::ApiServer | Component::ControllerManager | Component::Scheduler => {
            (seen.pods.get(&component)?.get(node)?.clone(), true)
        }
    };
    let version = if is_image { image_version(&words) } else { Version::parse(&words).ok() };
    Some(Runs { words, version, is_image })
}

/// The first of what differs, and how much more there is.
fn in_words(behind: &[String]) -> String {
    let first = behind.first().cloned().unwrap_or_default();
    match behind.len().saturating_sub(1) {
        0 => first,
        more => format!("{first}, and {more} more"),
    }
}
