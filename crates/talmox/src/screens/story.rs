//! A plan as people think of it: what happens to each machine, instead of which step follows which.

use std::collections::BTreeSet;

use talmox_plan::{Change, Effect, IN_THE_END, Intent, Plan, Planned, Step, Upkeep, Volume};
use talmox_pve::property::{DiskSize, IpConfig, Ipv4Setting, Ipv6Setting};
use talmox_types::desired::{Desired, FactorySchematic, Node, NodeAddress};
use talmox_types::{HostName, NodeName, PoolName, Realm, VmId};

/// What happens to a thing as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sign {
    Create,
    Change,
    Replace,
    Destroy,
}

impl Sign {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Create => "+",
            Self::Change => "~",
            Self::Replace => "-/+",
            Self::Destroy => "-",
        }
    }
}

/// What happens to one VM, template, image, schematic or pool.
pub(crate) struct Act<'p> {
    pub(crate) sign: Sign,
    pub(crate) subject: Subject<'p>,
    /// Where it is or will be.
    pub(crate) at: Option<(VmId, &'p HostName)>,
    pub(crate) steps: Vec<&'p Planned>,
    pub(crate) later: Vec<&'p Intent>,
}

#[derive(Clone, Copy)]
pub(crate) enum Subject<'p> {
    Vm(&'p NodeName),
    Pool(&'p PoolName),
    /// What an Image Factory is told.
    Schematic(&'p FactorySchematic),
    /// A file on a storage.
    Image(&'p str),
    Template(&'p str),
    HaGroup(&'p str),
    HaRule(&'p str),
    /// What is done once, to the cluster as a whole.
    Cluster(&'static str),
}

/// What is told of a machine that will be made.
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) memory: String,
    pub(super) disk: String,
    pub(super) address: String,
}

/// A plan, told.
pub(crate) struct Story<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) desired: &'p Desired,
    pub(crate) acts: Vec<Act<'p>>,
}

impl<'p> Story<'p> {
    pub(crate) fn new(plan: &'p Plan, desired: &'p Desired) -> Self {
        let things: Vec<Act<'p>> = things(plan);
        // What machines stand on is made before them and removed after them, and is told there.
        let (removed, mut acts): (Vec<_>, Vec<_>) =
            things.into_iter().partition(|act| act.sign == Sign::Destroy);
        acts.extend(nodes_in_order(plan, desired).into_iter().flat_map(|node| vm_acts(plan, node)));
        acts.extend(removed);
        Self { plan, desired, acts }
    }

    pub(crate) fn count(&self, sign: Sign) -> usize {
        self.acts.iter().filter(|act| act.sign == sign && !act.is_wait()).count()
    }

    /// Whether what waits for a restart of a node's VM takes effect while its Talos is upgraded.
    pub(super) fn is_carried(&self, act: &Act<'_>) -> bool {
        self.plan.steps.iter().any(|planned| {
            planned.node.is_some()
                && planned.node.as_ref() == act.node()
                && matches!(&planned.step, Step::Upkeep(Upkeep::UpgradeNode { carries: Some(_), .. }))
        })
    }

    /// Nodes whose Talos becomes another one.
    pub(super) fn upgraded(&self) -> usize {
        self.acts.iter().filter(|act| act.is_upgraded()).count()
    }

    /// Nodes that are up and go down for a while or for good, with what is done to them.
    pub(super) fn interrupted(&self, effect: Effect) -> Vec<String> {
        let hit = self.acts.iter().filter(|act| act.effects().any(|e| e == effect));
        hit.filter_map(|act| act.node().map(ToString::to_string)).collect()
    }

    /// Every volume that is gone afterwards.
    pub(super) fn destroyed(&self) -> (usize, DiskSize) {
        let volumes = self.acts.iter().flat_map(Act::destroys);
        let (count, bytes) = volumes.fold((0, 0_u64), |(count, bytes), volume| {
            (count + 1, bytes.saturating_add(volume.size.map_or(0, DiskSize::bytes)))
        });
        (count, DiskSize::from_bytes(bytes))
    }

    /// Whether every declared node is made, and nothing else happens.
    pub(super) fn is_from_nothing(&self) -> bool {
        let made: BTreeSet<&NodeName> =
            self.acts.iter().filter(|act| act.sign == Sign::Create).filter_map(Act::node).collect();
        !made.is_empty()
            && self.acts.iter().all(|act| act.sign == Sign::Create)
            && self.desired.nodes.iter().all(|node| made.contains(&node.name))
    }

    pub(super) fn machine(&self, act: &Act<'_>) -> Option<Machine> {
        let node = self.desired.nodes.iter().find(|node| Some(&node.name) == act.node())?;
        let vm = &node.vm;
        let disks = vm.extra_disks.iter().map(|disk| disk.size);
        let disk: Vec<String> =
            std::iter::once(vm.disk_size).chain(disks).map(|gib| gib.to_string()).collect();
        Some(Machine {
            cpu: format!("{} cpu", vm.cores * vm.sockets),
            memory: super::text::memory(vm.memory),
            disk: format!("{} GiB", disk.join("+")),
            address: address(node, act),
        })
    }
}

fn address(node: &Node, act: &Act<'_>) -> String {
    match &node.address {
        NodeAddress::Declared(pair) => pair.to_string(),
        NodeAddress::FromPool(_) => {
            let taken = act.steps.iter().find_map(|planned| {
                let Step::ConfigureVm { set, .. } = &planned.step else { return None };
                Some(static_addresses(set.get("ipconfig0")?))
            });
            match taken {
                Some(addresses) if !addresses.is_empty() => addresses.join(", "),
                Some(_) | None => "from its pool".to_owned(),
            }
        }
    }
}

/// The addresses a VM is given by its cloud-init drive.
fn static_addresses(text: &str) -> Vec<String> {
    let Ok(config) = IpConfig::parse(text) else { return Vec::new() };
    let mut addresses = Vec::new();
    if let Some(Ipv4Setting::Static(cidr)) = config.ip {
        addresses.push(cidr.address().to_string());
    }
    if let Some(Ipv6Setting::Static(cidr)) = config.ip6 {
        addresses.push(cidr.address().to_string());
    }
    addresses
}

/// Declared nodes in their order, then the others by name.
fn nodes_in_order<'p>(plan: &'p Plan, desired: &'p Desired) -> Vec<&'p NodeName> {
    let steps = plan.steps.iter().filter_map(|step| step.node.as_ref());
    let touched: BTreeSet<&NodeName> =
        steps.chain(plan.later.iter().filter_map(|intent| intent.node.as_ref())).collect();
    let declared = desired.nodes.iter().map(|node| &node.name).filter(|name| touched.contains(name));
    let mut order: Vec<&NodeName> = declared.collect();
    let others: Vec<&NodeName> = touched.iter().copied().filter(|name| !order.contains(name)).collect();
    order.extend(others);
    order
}

/// What happens to the VM of a node; of one that has two, and all of whose VMs go, each is told: nobody shall agree to the end of a VM
/// they were not shown.
fn vm_acts<'p>(plan: &'p Plan, node: &'p NodeName) -> Vec<Act<'p>> {
    let steps: Vec<&Planned> = plan.steps.iter().filter(|step| step.node.as_ref() == Some(node)).collect();
    let later: Vec<&Intent> = plan.later.iter().filter(|intent| intent.node.as_ref() == Some(node)).collect();
    let removed = steps.iter().filter(|planned| matches!(planned.step, Step::RemoveVm { .. }));
    let going = removed.filter_map(|planned| planned.step.vm().map(talmox_plan::Expected::vmid));
    let mut others: BTreeSet<VmId> = going.collect();
    // The first is told with all that has no VM of its own.
    others.pop_first();
    let mut acts = Vec::new();
    let mut rest = steps;
    for vmid in others {
        let (own, left): (Vec<&Planned>, Vec<&Planned>) =
            rest.into_iter().partition(|planned| planned.step.vm().is_some_and(|vm| vm.vmid() == vmid));
        acts.push(vm_act(node, own, Vec::new()));
        rest = left;
    }
    acts.insert(0, vm_act(node, rest, later));
    acts
}

fn vm_act<'p>(node: &'p NodeName, steps: Vec<&'p Planned>, later: Vec<&'p Intent>) -> Act<'p> {
    let made = steps.iter().find_map(|planned| {
        let (Step::CloneVm { host, mark, .. } | Step::CreateVm { host, mark, .. }) = &planned.step else {
            return None;
        };
        Some((mark.vmid, host))
    });
    let there = steps.iter().find_map(|planned| planned.step.vm().map(|vm| (vm.vmid(), &vm.host)));
    let mut act = Act { sign: Sign::Change, subject: Subject::Vm(node), at: made.or(there), steps, later };
    act.sign = act.sign_by_effects();
    act
}

/// What happens to pools, schematics, images and templates, in the order it is done; a template that is built and converted
/// is one thing, and so is an authority that is replaced phase by phase.
fn things(plan: &Plan) -> Vec<Act<'_>> {
    let mut acts: Vec<Act<'_>> = Vec::new();
    for planned in &plan.steps {
        let Some(act) = thing(planned) else { continue };
        let same = |other: &&mut Act<'_>| match (other.subject, act.subject) {
            (Subject::Template(_), Subject::Template(_)) => other.at == act.at,
            (Subject::Cluster(known), Subject::Cluster(name)) => known == name,
            _ => false,
        };
        match acts.iter_mut().find(same) {
            Some(known) => known.steps.push(planned),
            None => acts.push(act),
        }
    }
    acts.sort_by_key(Act::rank);
    acts
}

fn thing(planned: &Planned) -> Option<Act<'_>> {
    let (sign, subject, at) = match &planned.step {
        Step::CreatePool { pool, .. } => (Sign::Create, Subject::Pool(pool), None),
        Step::DeletePool { pool, .. } => (Sign::Destroy, Subject::Pool(pool), None),
        Step::RegisterSchematic { schematic } => (Sign::Create, Subject::Schematic(schematic), None),
        Step::FetchImage { image, .. } => (Sign::Create, Subject::Image(&image.file), None),
        Step::RemoveImage { volume, .. } => (Sign::Destroy, Subject::Image(volume.file_name()), None),
        Step::BuildTemplate { host, mark, name, .. } => {
            (Sign::Create, Subject::Template(name), Some((mark.vmid, host)))
        }
        Step::ConvertTemplate { template } | Step::ConfigureTemplate { template, .. } => {
            (Sign::Change, Subject::Template(&template.name), Some((template.vmid(), &template.host)))
        }
        Step::RemoveTemplate { template } => {
            (Sign::Destroy, Subject::Template(&template.name), Some((template.vmid(), &template.host)))
        }
        Step::SetHaGroup { group, .. } => (Sign::Change, Subject::HaGroup(group), None),
        Step::SetHaRule { rule } => (Sign::Change, Subject::HaRule(&rule.id), None),
        Step::DeleteHaRule { rule } => (Sign::Destroy, Subject::HaRule(&rule.id), None),
        Step::ApplyManifests { .. } => (Sign::Create, Subject::Cluster("manifests"), None),
        Step::PostBootstrap { .. } => (Sign::Create, Subject::Cluster("post_bootstrap"), None),
        Step::RemoveSeed { .. } => (Sign::Destroy, Subject::Cluster("configuration drive"), None),
        Step::AwaitHealth => (Sign::Change, Subject::Cluster("health"), None),
        Step::Upkeep(Upkeep::SnapshotEtcd { .. }) => (Sign::Create, Subject::Cluster("etcd snapshot"), None),
        Step::Upkeep(Upkeep::UpgradeKubernetes { .. }) => {
            (Sign::Change, Subject::Cluster("Kubernetes"), None)
        }
        Step::Upkeep(Upkeep::RotateAuthority { realm, .. } | Upkeep::SettleAuthority { realm, .. }) => {
            let subject = match realm {
                Realm::Talos => "Talos CA",
                Realm::Kubernetes => "Kubernetes CA",
            };
            (Sign::Change, Subject::Cluster(subject), None)
        }
        Step::CloneVm { .. }
        | Step::CreateVm { .. }
        | Step::ConfigureVm { .. }
        | Step::AddDisk { .. }
        | Step::GrowDisk { .. }
        | Step::JoinPool { .. }
        | Step::StartVm { .. }
        | Step::StopVm { .. }
        | Step::RebootVm { .. }
        | Step::MoveVm { .. }
        | Step::AddHa { .. }
        | Step::AttachSeed { .. }
        | Step::EjectSeed { .. }
        | Step::PublishConfig { .. }
        | Step::WithdrawConfig { .. }
        | Step::ConfigureNode { .. }
        | Step::Bootstrap { .. }
        | Step::RecordBootstrap { .. }
        | Step::RecordConfigured { .. }
        | Step::Upkeep(_)
        | Step::RemoveVm { .. } => return None,
    };
    Some(Act { sign, subject, at, steps: vec![planned], later: Vec::new() })
}

impl<'p> Act<'p> {
    pub(crate) fn node(&self) -> Option<&'p NodeName> {
        match self.subject {
            Subject::Vm(node) => Some(node),
            Subject::Pool(_)
            | Subject::Schematic(_)
            | Subject::Image(_)
            | Subject::Template(_)
            | Subject::HaGroup(_)
            | Subject::HaRule(_)
            | Subject::Cluster(_) => None,
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self.subject {
            Subject::Vm(_) => "vm",
            Subject::Pool(_) => "pool",
            Subject::Schematic(_) => "schematic",
            Subject::Image(_) => "image",
            Subject::Template(_) => "template",
            Subject::HaGroup(_) => "HA group",
            Subject::HaRule(_) => "HA rule",
            Subject::Cluster(_) => "cluster",
        }
    }

    pub(super) fn name(&self) -> &'p str {
        match self.subject {
            Subject::Vm(node) => node.as_str(),
            Subject::Pool(pool) => pool.as_str(),
            Subject::Schematic(schematic) => &schematic.id.as_str()[..12],
            Subject::Image(name)
            | Subject::Template(name)
            | Subject::HaGroup(name)
            | Subject::HaRule(name)
            | Subject::Cluster(name) => name,
        }
    }

    /// Where it stands among what is no machine: images before the templates that are made from them.
    fn rank(&self) -> u8 {
        match (self.subject, self.sign == Sign::Destroy) {
            (Subject::Schematic(_), _) => 0,
            (Subject::Image(_), false) => 1,
            (Subject::Template(_), _) => 2,
            (Subject::Image(_), true) => 3,
            (Subject::HaGroup(_) | Subject::HaRule(_), _) => 4,
            (Subject::Pool(_) | Subject::Vm(_), _) => 5,
            (Subject::Cluster(_), _) => 6,
        }
    }

    pub(super) fn changes(&self) -> impl Iterator<Item = &'p Change> {
        self.steps.iter().flat_map(|planned| &planned.changes)
    }

    pub(super) fn destroys(&self) -> impl Iterator<Item = &'p Volume> {
        self.steps.iter().flat_map(|planned| &planned.destroys)
    }

    /// Where else what is removed will not be named any more.
    pub(super) fn purges(&self) -> impl Iterator<Item = &'p String> {
        self.steps.iter().flat_map(|planned| {
            if let Step::RemoveVm { purges, .. } = &planned.step { purges.as_slice() } else { &[] }
        })
    }

    pub(super) fn effects(&self) -> impl Iterator<Item = Effect> {
        let now = self.steps.iter().map(|planned| planned.effect);
        now.chain(self.later.iter().map(|intent| intent.effect))
    }

    /// The VM that goes so that another takes its place.
    pub(super) fn replaced(&self) -> Option<(VmId, &'p HostName)> {
        let mut removals = self.steps.iter().filter(|planned| planned.step.word() == "remove");
        removals.find_map(|planned| planned.step.vm().map(|vm| (vm.vmid(), &vm.host)))
    }

    fn has(&self, word: &str) -> bool {
        self.steps.iter().any(|planned| planned.step.word() == word)
            || self.later.iter().any(|intent| intent.step == word)
    }

    fn sign_by_effects(&self) -> Sign {
        match (self.has("clone") || self.has("create"), self.has("remove")) {
            _ if self.effects().any(|effect| effect == Effect::Replace) => Sign::Replace,
            (true, true) => Sign::Replace,
            (true, false) => Sign::Create,
            (false, true) => Sign::Destroy,
            (false, false) => Sign::Change,
        }
    }

    /// Whether its machine is away for a while.
    pub(super) fn goes_down(&self) -> bool {
        self.effects().any(|effect| matches!(effect, Effect::Reboot | Effect::Stop))
    }

    /// Whether nothing is done, and something is only waited for.
    pub(super) fn is_wait(&self) -> bool {
        self.node().is_none() && self.effects().all(|effect| effect == Effect::Wait)
    }

    /// Whether that is only the end of all that is done.
    pub(super) fn is_last_wait(&self) -> bool {
        self.is_wait() && self.steps.iter().all(|planned| planned.reason == IN_THE_END)
    }

    /// Whether it is there before and after.
    pub(super) fn stays(&self) -> bool {
        self.sign == Sign::Change
    }

    /// Whether its Talos becomes another one.
    pub(super) fn is_upgraded(&self) -> bool {
        self.sign == Sign::Change && self.node().is_some() && self.has("upgrade-node")
    }

    /// Whether the VM is restarted, now or later.
    pub(super) fn reboots(&self) -> bool {
        self.effects().any(|effect| effect == Effect::Reboot)
    }
}
