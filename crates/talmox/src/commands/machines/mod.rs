//! The machines themselves: who we are to them, what each is to be configured with, and how they are reached.
//!
//! The engine asks for a node's configuration when it is about to send or compare it; it is made then, from description and
//! secrets, and goes nowhere else.

mod bootstrap;
mod ending;
mod kept;
mod known;
mod process;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::{ExposeSecret as _, SecretString};
use talmox_exec::etcd::look as look_at_etcd;
use talmox_exec::health::{Cluster, Member, expects_network, look};
use talmox_exec::{
    Clock, Compare, MachineConfig, Machines, MachinesFuture, Manifest, Pieces, Reach, SnapshotSink,
    Whereabouts, observe_machines,
};
use talmox_k8s::Server;
use talmox_machine::{Bundle, Config, Source, Time};
use talmox_plan::{Observed, SeenEtcd, SeenMachine, assigned_addresses, kept_off, view};
use talmox_talos::{Identity, kinds};
use talmox_types::desired::{Desired, Node, NodeAddress, Role};
use talmox_types::{NodeName, Phases, Realm};

use self::ending::day;
use self::known::Known;
use self::process::{ThisMachine, holder};
use crate::commands::client_files::{Clients, Home};
use crate::commands::configs::{Whole, now};
use crate::commands::shared::Job;
use crate::commands::standing::Standing;
use crate::connect::Ways;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::screens::{EtcdView, InsideView, SeenHealth, plural, rotation_words, safe};
use crate::secrets_file::{self, Loaded};
use crate::snapshot_file;

/// Where Talos has the Kubernetes API unless told otherwise.
const API_PORT: u16 = 6443;

/// The machines of a description.
pub(super) struct Inside<'a> {
    job: &'a Job,
    /// None while the cluster has no secrets, and so no machine that knows us.
    known: Mutex<Option<Arc<Known>>>,
    ways: Ways,
    clock: SystemClock,
    /// Where machines were found.
    addresses: Mutex<BTreeMap<NodeName, IpAddr>>,
    /// Snapshots of etcd this run kept, and when.
    kept: Mutex<Vec<(Time, PathBuf)>>,
    /// What a simulated run left out: programs that would run, and addresses that would be asked.
    left_out: Mutex<Vec<String>>,
    /// How far machines were with new authorities when somebody last looked.
    standing: Mutex<Standing>,
}

impl<'a> Inside<'a> {
    /// Gets ready to speak to machines, with the cluster's secrets if there are any.
    pub(super) fn open(job: &'a Job, printer: &Printer) -> anyhow::Result<Self> {
        let simulation = job.session.simulated_in();
        let has = simulation.is_some()
            || secrets_file::find(&job.desired, &job.folder).is_some_and(|path| path.exists());
        let known = if has { Some(Arc::new(Known::open(job, simulation, printer)?)) } else { None };
        let (known, ways) = (Mutex::new(known), job.session.ways());
        Ok(Self {
            job,
            known,
            ways,
            clock: SystemClock,
            addresses: Mutex::default(),
            kept: Mutex::default(),
            left_out: Mutex::default(),
            standing: Mutex::default(),
        })
    }

    /// Asks machines how far they are with new authorities, for files that are made after this. Where none is replaced nobody is
    /// asked.
    pub(super) async fn look_how_far(&self) -> anyhow::Result<Standing> {
        if self.rotating().is_empty() {
            return Ok(Standing::default());
        }
        let mut observed = self.job.observe().await?;
        let desired = &self.job.desired;
        observe_machines(&self.reach(false), desired, &mut observed, Compare::Configs).await;
        let standing = Standing::of(desired, &observed);
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
        Ok(standing)
    }

    pub(super) fn has_secrets(&self) -> bool {
        self.known().is_ok()
    }

    /// Everything a run reaches machines with.
    pub(super) fn reach(&self, take_over: bool) -> Reach<'_> {
        Reach {
            machines: self,
            talos: Arc::clone(&self.ways.talos),
            kubernetes: Some(Arc::clone(&self.ways.kubernetes)),
            handout: None,
            clock: &self.clock,
            pace: self.ways.pace,
            holder: holder(),
            processes: &ThisMachine,
            take_over,
        }
    }

    /// The files people reach the cluster by, with new certificates.
    pub(super) fn clients(&self) -> anyhow::Result<Clients> {
        let known = self.known().map_err(Failure::new)?;
        self.clients_of(&known.secrets.bundle)
    }

    fn clients_of(&self, bundle: &Bundle) -> anyhow::Result<Clients> {
        let standing = *self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        Clients::make(&self.job.desired, bundle, standing, &self.endpoints())
    }

    /// Where those files go.
    pub(super) fn home(&self) -> Home {
        match self.job.session.simulated_in() {
            Some(folder) => Home::Simulation(folder.to_owned()),
            None => Home::User,
        }
    }

    /// Control planes whose address is known, in the order of their names.
    pub(super) fn control_planes(&self, observed: &Observed) -> BTreeMap<NodeName, IpAddr> {
        let addresses = assigned_addresses(&self.job.desired, observed);
        let planes = self.job.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        let address = |node: &Node| Some((node.name.clone(), addresses.get(&node.name)?.primary()));
        planes.filter_map(address).collect()
    }

    /// The control planes, by their first addresses.
    fn endpoints(&self) -> Vec<String> {
        let seen = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let planes = self.job.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        let address = |node: &Node| match &node.address {
            NodeAddress::Declared(address) => Some(address.primary()),
            NodeAddress::FromPool(_) => seen.get(&node.name).copied(),
        };
        planes.filter_map(address).map(|address| address.to_string()).collect()
    }

    /// What is inside the machines, for people to look at.
    pub(super) async fn view(&self, observed: Observed) -> InsideView {
        let cluster = self.cluster(&observed);
        let etcd = if cluster.is_some() { self.etcd(&observed).await } else { None };
        let health = health(&self.job.desired, cluster.as_ref(), &observed).await;
        let rotation = rotation_words(&observed);
        let Observed { talos, kubernetes, .. } = observed;
        let certificates_end = self.certificates_end().map(day);
        let ending = self.ending(now());
        let described = self.job.desired.talos.version.to_string();
        InsideView { health, described, talos, kubernetes, etcd, certificates_end, ending, rotation }
    }

    /// Members, leader and size, as the control planes say that have a member.
    async fn etcd(&self, observed: &Observed) -> Option<EtcdView> {
        let declared = self.control_planes(observed);
        // Only those that have a member: the others would let the question hang.
        let has_member = |node: &NodeName| {
            let seen = observed.talos.get(node).and_then(SeenMachine::configured);
            matches!(seen.and_then(|seen| seen.etcd.as_ref()), Some(SeenEtcd::Member { .. }))
        };
        let asked = declared.iter().filter(|(node, _)| has_member(node));
        let asked = asked.map(|(node, address)| (node.clone(), *address)).collect();
        let etcd = look_at_etcd(&self.reach(false), &asked).await;
        EtcdView::of(observed, &etcd, &declared)
    }

    /// What a node runs with, and what it should run with.
    pub(super) async fn configs(
        &self,
        node: &Node,
        observed: &Observed,
    ) -> anyhow::Result<(SecretString, MachineConfig)> {
        let at = self.whereabouts(node, observed)?;
        let address = at.address.primary();
        let reach = self.reach(false);
        let client = reach.secure(address).ok_or_else(|| Failure::new("there is no secrets bundle"))?;
        let found = client.get::<kinds::MachineConfig>("persistent").await.map_err(|error| {
            Failure::new(format!("{} does not tell its configuration: {error}", node.name))
                .with_hint("talmox status shows how far it is")
        })?;
        let found = found.ok_or_else(|| Failure::new(format!("{} has no configuration yet", node.name)))?;
        let has = String::from_utf8(found.spec.yaml_marshalled)
            .map_err(|_| Failure::new(format!("the configuration of {} is no text", node.name)))?;
        let has = SecretString::from(has);
        let at = Whereabouts { phases: self.phases_of(&has), ..at };
        let wanted = self.make(&node.name, &at).map_err(Failure::new)?;
        Ok((has, wanted))
    }

    /// Where a node's machine is.
    fn whereabouts(&self, node: &Node, observed: &Observed) -> Result<Whereabouts, Failure> {
        let desired = &self.job.desired;
        let address = assigned_addresses(desired, observed).get(&node.name).copied();
        let address =
            address.ok_or_else(|| Failure::new(format!("nobody knows the address of {}", node.name)))?;
        let seen = view(desired, observed).nodes.into_iter().find(|seen| seen.node == node.name);
        let vmid = seen.as_ref().and_then(|seen| seen.vmid);
        let guest = vmid.and_then(|vmid| observed.guests.get(&vmid));
        let uuid = guest.and_then(|guest| guest.seen()?.live.smbios().ok()??.uuid);
        Ok(Whereabouts {
            address,
            vmid,
            host: seen.and_then(|seen| seen.host),
            uuid,
            phases: Phases::default(),
        })
    }

    /// The cluster as its health is asked; of a node whose address nobody knows yet nothing can be asked.
    pub(super) fn cluster(&self, observed: &Observed) -> Option<Cluster> {
        let known = self.known().ok()?;
        let desired = &self.job.desired;
        let addresses = assigned_addresses(desired, observed);
        let member = |node: &Node| {
            let addresses = *addresses.get(&node.name)?;
            Some(Member { name: node.name.clone(), role: node.role, addresses })
        };
        let kept_off = kept_off(desired, observed);
        let (off, members): (Vec<Member>, Vec<Member>) =
            desired.nodes.iter().filter_map(member).partition(|member| kept_off.contains(&member.name));
        Some(Cluster {
            kubernetes: self.servers(&known, &members),
            members,
            off,
            talos: Arc::clone(&self.ways.talos),
            identity: Arc::clone(&known.talos),
            has_network: expects_network(desired),
        })
    }

    /// The shared endpoint, and the control planes themselves if it does not answer.
    fn servers(&self, known: &Known, members: &[Member]) -> Vec<talmox_k8s::Client> {
        let shared = Server::from_url(&self.job.desired.network.endpoint).ok();
        let port = shared.as_ref().map_or(API_PORT, |server| server.port);
        let planes = members.iter().filter(|member| member.role == Role::Controller);
        let own = planes.map(|member| Server::new(member.addresses.primary().to_string(), port));
        let client = |server| {
            let access = talmox_k8s::Access { server, identity: Arc::clone(&known.kubernetes) };
            talmox_k8s::Client::new(Arc::clone(&self.ways.kubernetes), access)
        };
        shared.into_iter().chain(own).map(client).collect()
    }

    fn known(&self) -> Result<Arc<Known>, String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone().ok_or_else(|| "there is no secrets bundle (talmox secrets generate)".to_owned())
    }

    fn make(&self, node: &NodeName, at: &Whereabouts) -> Result<MachineConfig, String> {
        let known = self.known()?;
        let Job { outcome, desired, folder, .. } = self.job;
        let unknown = || format!("there is no node {node} in the description");
        let member = outcome.description.member(node.as_str()).map_err(|_| unknown())?;
        let declared = desired.nodes.iter().find(|one| one.name == *node).ok_or_else(unknown)?;
        let Whereabouts { address, vmid, host, uuid, phases } = at.clone();
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone(), address.primary());
        let whereabouts = talmox_render::Whereabouts { address, vmid, host, uuid };
        let bundle = known.secrets.bundle.issuing(phases);
        let whole = Whole { outcome, desired, bundle: &bundle, folder };
        let rendered = whole.render((declared, &member), &whereabouts, &whole.renderer(&known.ingredients));
        let rendered = rendered.map_err(|failure| failure.to_string())?;
        let bundle = &known.secrets.bundle;
        // In the end machines are to believe the new authority alone, and would not.
        if let Some(kept) = rendered.accepts.iter().find(|one| bundle.next(one.realm).is_some()) {
            return Err(kept.to_string());
        }
        let config = bundle.accept(rendered.config, phases).map_err(|error| error.to_string())?;
        Ok(MachineConfig { text: SecretString::from(config.to_yaml()), hidden: rendered.hidden })
    }

    /// The files people reach the cluster by get the new authority first: they are found by the old one, which nobody knows any
    /// more once the secrets are settled.
    fn settle_in_files(&self, realm: Realm) -> anyhow::Result<()> {
        let known = self.known().map_err(Failure::new)?;
        let Loaded { path, bundle } = &known.secrets;
        let settled = bundle.settled(realm);
        self.clients_of(&settled)?.succeed(&self.clients_of(bundle)?, &self.home())?;
        let path = match self.job.session.simulated_in() {
            // The description's own secrets are those of a cluster that is not simulated.
            Some(simulation) if !path.starts_with(simulation) => simulation.join("secrets.yaml"),
            Some(_) => path.clone(),
            None => {
                self.job.folder.writable_path(path)?;
                path.clone()
            }
        };
        secrets_file::store(&path, &settled)?;
        let secrets = Loaded { path, bundle: settled };
        let known = Known::of(secrets, Arc::clone(&known.ingredients))?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(known));
        Ok(())
    }
}

/// How well a cluster is. It is asked only where every machine is there: the answer would take as long as the slowest call that
/// fails.
pub(super) async fn health(desired: &Desired, cluster: Option<&Cluster>, observed: &Observed) -> SeenHealth {
    let kept_off = kept_off(desired, observed);
    let there = |node: &&Node| observed.talos.get(&node.name).and_then(SeenMachine::configured).is_some();
    let expected = || desired.nodes.iter().filter(|node| !kept_off.contains(&node.name));
    let (count, all) = (expected().filter(there).count(), expected().count());
    let Some(cluster) = cluster.filter(|_| count == all) else {
        let why = format!("{count} of {} configured and reachable", plural(all, "node"));
        return SeenHealth::Unhealthy { why };
    };
    match look(cluster).await.missing() {
        // Kubernetes shows pods of before for half a minute after a machine came back. The machine itself knows better, and its row
        // says so.
        None => waits(expected(), observed).map_or(SeenHealth::Healthy, |why| SeenHealth::Unhealthy { why }),
        Some((name, missing)) => SeenHealth::Unhealthy { why: format!("{name}: {}", missing.why) },
    }
}

/// The first node whose machine says that it waits for something.
fn waits<'n>(nodes: impl Iterator<Item = &'n Node>, observed: &Observed) -> Option<String> {
    nodes.into_iter().find_map(|node| {
        let seen = observed.talos.get(&node.name).and_then(SeenMachine::configured)?;
        let unmet = seen.unmet.first().filter(|_| !seen.ready)?;
        Some(format!("{} waits for {}", node.name, safe(unmet)))
    })
}

impl Machines for Inside<'_> {
    fn config(&self, node: &NodeName, at: &Whereabouts) -> Result<MachineConfig, String> {
        self.make(node, at)
    }

    fn identity(&self) -> Option<Arc<Identity>> {
        self.known().ok().map(|known| Arc::clone(&known.talos))
    }

    fn kubernetes(&self) -> Option<talmox_k8s::Access> {
        let known = self.known().ok()?;
        let server = Server::from_url(&self.job.desired.network.endpoint).ok()?;
        Some(talmox_k8s::Access { server, identity: Arc::clone(&known.kubernetes) })
    }

    fn rotating(&self) -> Vec<Realm> {
        self.known().map(|known| known.secrets.bundle.rotating().collect()).unwrap_or_default()
    }

    fn phases_of(&self, config: &SecretString) -> Phases {
        let config = Config::parse(Source { name: "config", text: config.expose_secret() });
        match (self.known(), config) {
            (Ok(known), Ok(config)) => known.secrets.bundle.phases_of(&config),
            _ => Phases::default(),
        }
    }

    fn settle(&self, realm: Realm) -> Result<(), String> {
        self.settle_in_files(realm).map_err(|error| format!("{error:#}"))
    }

    fn manifests(&self) -> MachinesFuture<'_, Vec<Manifest>> {
        Box::pin(self.texts())
    }

    fn post_bootstrap<'a>(&'a self, command: &'a [String]) -> MachinesFuture<'a, ()> {
        Box::pin(self.run(command))
    }

    fn snapshot_sink(&self) -> Result<Box<dyn SnapshotSink + '_>, String> {
        Ok(Box::new(self.draft()?))
    }

    fn last_snapshot(&self) -> Option<u64> {
        let last = self.kept().last().map(|(time, _)| time.unix());
        last.and_then(|time| u64::try_from(time).ok())
    }

    fn snapshot(&self, path: &str) -> Result<Pieces, String> {
        snapshot_file::open(Path::new(path)).map(|(pieces, _)| pieces).map_err(|failure| failure.to_string())
    }
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> u64 {
        u64::try_from(now().unix()).unwrap_or_default()
    }
}
