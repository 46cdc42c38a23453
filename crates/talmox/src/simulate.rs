//! `--simulate`: a Proxmox of one's own, made to fit the description and kept in a folder.
//!
//! It is the simulator of `talmox sim` in this process, reached over real HTTPS. What a run began goes on in the next one;
//! `talmox sim --state FOLDER` serves the same world to others.

pub(crate) mod faults;
mod fit;
mod nodes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use secrecy::SecretString;
use talmox_exec::Pace;
use talmox_sim::serve::{Keep, ServeError, Server, Settings, StateFolder};
use talmox_sim::{RELEASE, Started, Starter, Timing, World};
use talmox_sim_talos::serve::{Api, Beside, NodesServer};
use talmox_types::desired::{Desired, TemplateRef};
use talmox_types::{ClusterName, Url};

use crate::args::{Connection, Simulate};
use crate::connect::Ways;
use crate::failure::Failure;
use crate::printer::Printer;

/// Simulated seconds per second unless `--speed` says otherwise: a shutdown takes one, a copy of a disk two, and bars still move.
const SPEED: f64 = 10.0;
/// A round trip within a rack. Like the speed, this is for people who wait.
const LATENCY: Duration = Duration::from_millis(3);
/// A killed process keeps its files that long at most.
const DYING: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A simulated cluster that listens on loopback.
pub(crate) struct Simulated {
    server: Server,
    nodes: NodesServer,
    beside: Arc<Beside>,
    token: SecretString,
    folder: PathBuf,
    speed: f64,
}

/// Opens the world kept in the folder, or makes one; adds to it what the description needs and templates that must be there,
/// and serves it.
pub(crate) async fn open(
    (desired, named): (&Desired, &[TemplateRef]),
    connection: &Connection,
    printer: &Printer,
) -> anyhow::Result<Simulated> {
    let path = folder_of(connection, &desired.name)?;
    let folder = own(&path).await?;
    let mut world = match folder.load().map_err(in_words)? {
        Some(world) => world,
        None => new_world(Starter::bare)?,
    };
    // A simulation has one factory, whichever the description names; worlds kept from before have none yet.
    let factory = world.factory.get_or_insert_default();
    if let Ok(url) = Url::parse(&desired.talos.factory_url) {
        factory.answer_to(url.authority());
    }
    let there: Vec<String> = world.nodes.keys().cloned().collect();
    world.fit(&fit::fit(desired, named, &there)).map_err(|error| {
        Failure::new(format!("the simulated Proxmox in {} cannot be extended: {error}", path.display()))
            .with_hint("repair it with talmox sim --state, or begin anew with another folder: --simulate=DIR")
    })?;
    serve(world, Some(desired), (folder, path), connection, printer).await
}

/// Opens the world kept for a cluster of that name, or makes one as its owner would have it before talmox comes.
pub(crate) async fn open_as_it_is(
    name: &ClusterName,
    connection: &Connection,
    printer: &Printer,
) -> anyhow::Result<Simulated> {
    let path = folder_of(connection, name)?;
    let folder = own(&path).await?;
    let world = match folder.load().map_err(in_words)? {
        Some(world) => world,
        None => new_world(|seed, now| Starter::new(1, seed, now).build())?,
    };
    serve(world, None, (folder, path), connection, printer).await
}

/// Where the world is kept.
fn folder_of(connection: &Connection, name: &ClusterName) -> anyhow::Result<PathBuf> {
    match &connection.simulate {
        Simulate::Folder(folder) => Ok(folder.clone()),
        Simulate::Here | Simulate::Off => default_folder(name),
    }
}

/// Takes the folder of a world. A process that was just killed has it until the system is done with it.
async fn own(path: &Path) -> anyhow::Result<StateFolder> {
    for _ in 0..DYING.as_millis() / LOOK_AGAIN.as_millis() {
        match StateFolder::open(path) {
            Err(ServeError::InUse { .. }) => tokio::time::sleep(LOOK_AGAIN).await,
            other => return other.map_err(in_words),
        }
    }
    StateFolder::open(path).map_err(in_words)
}

async fn serve(
    world: World,
    desired: Option<&Desired>,
    (folder, path): (StateFolder, PathBuf),
    connection: &Connection,
    printer: &Printer,
) -> anyhow::Result<Simulated> {
    let token = world.starter_token().ok_or_else(|| {
        Failure::new(format!("the simulated Proxmox in {} has lost its token", path.display()))
            .with_hint("begin anew with another folder: --simulate=DIR")
    })?;
    let beside = nodes::beside(&world, desired, random_seed()?);
    let simulation = faults::simulation(world, &beside, connection.fault.as_deref(), printer)?;
    let speed = connection.speed.unwrap_or(SPEED);
    let settings = Settings {
        latency: LATENCY,
        speed,
        keep: Keep::World(folder),
        companion: Some(Arc::<Beside>::clone(&beside)),
        ..Settings::default()
    };
    let server = Server::start(simulation, settings).await.map_err(in_words)?;
    let mut reachable = desired.map(nodes::reachable).unwrap_or_default();
    // Machines of nodes that the description does not name any more are still there.
    let others: Vec<_> = beside.nodes().addresses().into_iter().map(|(address, _)| address).collect();
    reachable.extend(others.into_iter().filter(|address| !reachable.contains(address)).collect::<Vec<_>>());
    let nodes = NodesServer::start(server.handle(), Arc::clone(&beside), reachable).await?;
    Ok(Simulated { server, nodes, beside, token: SecretString::from(token), folder: path, speed })
}

impl Simulated {
    /// Where its hosts listen: `https://127.0.0.1:PORT`.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.server.hosts().iter().map(talmox_sim::serve::HostAddress::endpoint).collect()
    }

    /// Where its Image Factory listens: `http://127.0.0.1:PORT`.
    pub(crate) fn factory(&self) -> Option<String> {
        self.server.factory()
    }

    /// The certificate, as PEM, of the authority that vouches for every host.
    pub(crate) fn authority(&self) -> &str {
        self.server.authority()
    }

    /// The token of a user with the rights provisioning needs.
    pub(crate) fn token(&self) -> &SecretString {
        &self.token
    }

    /// What people are told before anything else, so that nobody takes it for the real thing.
    pub(crate) fn banner(&self, described: &Path) -> String {
        let hosts = self.server.hosts().len();
        let plural = if hosts == 1 { "" } else { "s" };
        let (described, folder) = (described.display(), shown(&self.folder));
        format!(
            "Simulated Proxmox VE {RELEASE}, {hosts} host{plural}, made to fit {described} · kept in {folder}"
        )
    }

    /// How its machines are reached.
    pub(crate) fn ways(&self) -> Ways {
        let (talos, kubernetes) = self.dial();
        Ways::simulated(talos, kubernetes, Pace::times(self.speed))
    }

    /// Its machines trust these authorities, as PEM, when they fetch their configuration.
    pub(crate) fn have_machines_trust(&self, authorities: &str) {
        self.beside.trust(authorities);
    }

    /// The folder the world is kept in, for `talmox sim --state`.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the APIs of each address really are: of Talos, and of Kubernetes.
    fn dial(&self) -> (talmox_talos::DialMap, talmox_k8s::DialMap) {
        let talos = self.nodes.dial(Api::Talos).into_iter().collect();
        let kubernetes = self.nodes.dial(Api::Kubernetes);
        let by_name = kubernetes.into_iter().map(|(address, real)| (address.to_string(), real));
        (talmox_talos::DialMap(talos), talmox_k8s::DialMap(by_name.collect()))
    }

    /// Lets calls under way finish and saves the world. Tasks under way go on in the next run.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.nodes.stop().await?;
        self.server.stop().await.map_err(in_words)
    }
}

fn random_seed() -> anyhow::Result<u64> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    Ok(u64::from_le_bytes(seed))
}

fn new_world(make: impl FnOnce(u64, u64) -> Started) -> anyhow::Result<World> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut world = make(random_seed()?, u64::try_from(now.as_millis()).unwrap_or_default()).world;
    world.timing = modest();
    Ok(world)
}

/// The times of a small server: the simulator's own are those of an idle one with nothing on its disks.
fn modest() -> Timing {
    Timing {
        create: 1_000,
        per_disk: 300,
        destroy: 1_500,
        start: 4_000,
        stop: 2_000,
        guest_shutdown: 8_000,
        small: 400,
        copy_rate: 200 << 10,
        ..Timing::default()
    }
}

fn default_folder(name: &ClusterName) -> anyhow::Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| {
        Failure::new("there is no home folder to keep a simulated Proxmox in")
            .with_hint("--simulate=DIR names one")
    })?;
    Ok(state.join("talmox/sim").join(name.as_str()))
}

/// A path as people write it.
fn shown(path: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

fn in_words(error: ServeError) -> anyhow::Error {
    match &error {
        ServeError::InUse { .. } => Failure::new(error.to_string())
            .with_hint("wait for it to end, or use another folder: --simulate=DIR")
            .into(),
        ServeError::Load { path, .. } => {
            let hint = format!("it is no world of this version; remove {} to begin anew", path.display());
            let said = Failure::new(error.to_string()).with_hint(hint);
            anyhow::Error::from(error).context(said)
        }
        ServeError::Listen { .. }
        | ServeError::Ports { .. }
        | ServeError::Certificate { .. }
        | ServeError::State { .. }
        | ServeError::NoHost { .. } => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use talmox_pve::client::{
        Client, CloneKind, CloneVm, Credentials, Endpoint, HttpsTransport, Settings, Silent, Trust, VmPower,
    };
    use talmox_types::{HostName, VmId};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn kept_in(scratch: &Scratch) -> Connection {
        Connection {
            simulate: Simulate::Folder(scratch.0.clone()),
            fault: None,
            fingerprint: Vec::new(),
            ca_file: None,
            speed: None,
        }
    }

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("talmox-simulate-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn quiet() -> Printer {
        use clap::Parser as _;
        let cli = crate::args::Cli::try_parse_from(["talmox", "-q", "version"]).unwrap();
        Printer::new(&cli.global, false)
    }

    fn homelab() -> Desired {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/homelab");
        talmox_config::read_path(&path).desired.unwrap()
    }

    fn client(simulated: &Simulated) -> Client {
        let endpoints = simulated.endpoints().iter().map(|url| Endpoint::parse(url).unwrap()).collect();
        let trust = Trust::Authorities(simulated.authority().to_owned());
        let credentials = Credentials::token(simulated.token()).unwrap();
        let transport = Arc::new(HttpsTransport::new(trust).unwrap());
        Client::new(endpoints, &credentials, transport, Settings::default()).unwrap()
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn vmid(id: u32) -> VmId {
        VmId::try_from(id).unwrap()
    }

    #[test]
    fn what_one_run_began_the_next_one_finds_done() {
        let scratch = Scratch::new("goes-on");
        let (desired, pve) = (homelab(), HostName::parse("pve").unwrap());
        let talos = [TemplateRef::Name("talos".to_owned())];
        let begun = runtime().block_on(async {
            let simulated = open((&desired, &talos), &kept_in(&scratch), &quiet()).await.unwrap();
            let clone = CloneVm {
                newid: vmid(2000),
                name: Some("cp-1".into()),
                description: None,
                pool: None,
                target: None,
                kind: CloneKind::Full { storage: None, format: None },
            };
            client(&simulated).clone_vm(&pve, vmid(9000), &clone).await.unwrap()
            // Everything ends here as in a process that is killed: nothing more is saved.
        });
        runtime().block_on(async {
            let simulated = open((&desired, &talos), &kept_in(&scratch), &quiet()).await.unwrap();
            let client = client(&simulated);
            client.follow(&begun, "the clone of a run before", LIMIT, &Silent).await.unwrap();
            assert_eq!(client.vm_status(&pve, vmid(2000)).await.unwrap().status, VmPower::Stopped);
            simulated.close().await.unwrap();
        });
    }

    #[tokio::test]
    async fn a_folder_says_who_has_it() {
        let scratch = Scratch::new("in-use");
        let simulated = open((&homelab(), &[]), &kept_in(&scratch), &quiet()).await.unwrap();
        let second = open((&homelab(), &[]), &kept_in(&scratch), &quiet()).await.err().unwrap().to_string();
        let here = format!("is used by another simulator, process {}", std::process::id());
        assert!(second.ends_with(&here), "{second}");
        simulated.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_folder_whose_owner_is_just_ending_is_waited_for() {
        let scratch = Scratch::new("dying");
        let simulated = open((&homelab(), &[]), &kept_in(&scratch), &quiet()).await.unwrap();
        let (homelab, connection, printer) = (homelab(), kept_in(&scratch), quiet());
        let second = open((&homelab, &[]), &connection, &printer);
        let (second, first) = tokio::join!(second, simulated.close());
        first.unwrap();
        second.unwrap().close().await.unwrap();
    }

    #[tokio::test]
    async fn people_are_told_that_it_is_simulated() {
        let scratch = Scratch::new("banner");
        let simulated = open((&homelab(), &[]), &kept_in(&scratch), &quiet()).await.unwrap();
        assert_eq!(
            simulated.banner(Path::new("examples/homelab")),
            format!(
                "Simulated Proxmox VE 9.2, 1 host, made to fit examples/homelab · kept in {}",
                scratch.0.display()
            )
        );
        assert_eq!(simulated.folder(), scratch.0);
        simulated.close().await.unwrap();
    }

    #[tokio::test]
    async fn what_is_no_world_is_not_overwritten() {
        let scratch = Scratch::new("no-world");
        std::fs::create_dir_all(&scratch.0).unwrap();
        std::fs::write(scratch.0.join("world.json"), "{}").unwrap();
        let error = open((&homelab(), &[]), &kept_in(&scratch), &quiet()).await.err().unwrap();
        assert!(format!("{error:#}").contains("could not read"), "{error:#}");
        #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
        let left = std::fs::read_to_string(scratch.0.join("world.json")).unwrap();
        assert_eq!(left, "{}");
    }
}
