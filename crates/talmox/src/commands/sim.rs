//! `talmox sim`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use serde::Serialize;
use talmox_sim::serve::{CallLog, Keep, ServeError, Server, Settings, StateFolder};
use talmox_sim::{Starter, Versions, World};
use talmox_sim_talos::serve::{Api, Beside, NodesServer, Opened};

use super::configs::read_text;
use super::signals::Signals;
use crate::args::{Format, Sim, SimBehaviours, SimWhat};
use crate::failure::Failure;
use crate::printer::{BOLD, Printer};
use crate::simulate::faults;

pub(super) fn run(args: &Sim, printer: &Printer) -> anyhow::Result<()> {
    match &args.what {
        Some(SimWhat::Behaviours(args)) => behaviours(args, printer),
        None => serve(args, printer),
    }
}

fn serve(args: &Sim, printer: &Printer) -> anyhow::Result<()> {
    let versions = versions(args)?;
    let (keep, _temporary) = keep(args.state.as_deref())?;
    let world = world(args, versions.as_ref(), &keep)?;
    let beside = Arc::new(Beside::of_world(&world, random_seed()?));
    if let Some(file) = &args.config_ca {
        beside.trust(&read_text(file)?);
    }
    let latency = Duration::from_millis(args.latency);
    let log = args.call_log.as_deref().map(log).transpose()?;
    let settings = Settings {
        latency,
        speed: args.speed,
        port: args.port,
        keep,
        log,
        companion: Some(Arc::<Beside>::clone(&beside)),
        ..Settings::default()
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("could not start")?;
    runtime.block_on(async {
        // Heard from now on: whoever starts us may end us as soon as we are ready.
        let signals = Signals::listen()?;
        let ready = Ready::new(&world, &settings)?;
        let simulation = faults::simulation(world, &beside, args.fault.as_deref(), printer)?;
        let server = Server::start(simulation, settings).await.map_err(in_words)?;
        let nodes = NodesServer::start(server.handle(), beside, []).await?;
        ready.with_hosts(&server).show(args.output.output, printer)?;
        server.run_until(until_asked(signals, nodes, printer)).await?;
        printer.say("ended");
        Ok(())
    })
}

/// Waits for the end, and tells where nodes are as they come up.
async fn until_asked(signals: Signals, mut nodes: NodesServer, printer: &Printer) {
    let mut end = std::pin::pin!(signals.once());
    loop {
        tokio::select! {
            () = end.as_mut() => break,
            opened = nodes.opened() => match opened {
                Some(opened) => tell(opened, printer),
                None => break,
            },
        }
    }
    if let Err(error) = nodes.stop().await {
        printer.say(&error.to_string());
    }
}

fn tell(Opened { address, api, real }: Opened, printer: &Printer) {
    let is_there = real.ip() == address;
    match api {
        Api::Talos if is_there => {
            printer.say(&format!("a Talos node has {address}: talosctl -e {address} -n {address} …"));
        }
        Api::Talos => printer.say(&format!("a Talos node has {address}: talosctl -e {real} -n {address} …")),
        Api::Kubernetes => printer.say(&format!("its Kubernetes, if it has one: https://{real}")),
    }
}

fn log(path: &Path) -> anyhow::Result<CallLog> {
    CallLog::create(path).with_context(|| format!("could not write {}", path.display()))
}

/// The versions that were asked for.
fn versions(args: &Sim) -> anyhow::Result<Option<Versions>> {
    let Some(text) = &args.version else { return Ok(None) };
    let versions: Versions = text.parse().map_err(|error: talmox_sim::UnknownRelease| {
        Failure::new(error.to_string()).with_hint("leave --version out")
    })?;
    Ok(Some(versions))
}

/// Whether a world has every host that was named with a version.
fn check_hosts(world: &World, versions: &Versions) -> anyhow::Result<()> {
    let Some(unknown) = versions.hosts().find(|host| !world.nodes.contains_key(*host)) else {
        return Ok(());
    };
    let names: Vec<&str> = world.nodes.keys().map(String::as_str).collect();
    let said = format!("--version names a host '{unknown}' that is not there");
    let hint = format!(
        "there {} {}; --hosts says how many",
        if names.len() == 1 { "is" } else { "are" },
        names.join(", ")
    );
    Err(Failure::new(said).with_hint(hint).into())
}

/// A world from its folder, or a new one.
fn world(args: &Sim, versions: Option<&Versions>, keep: &Keep) -> anyhow::Result<World> {
    let saved = match keep {
        Keep::World(folder) => folder.load()?,
        Keep::Nothing | Keep::Access(_) => None,
    };
    let Some(world) = saved else {
        let seed = args.seed.map_or_else(random_seed, Ok)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = u64::try_from(now.as_millis()).unwrap_or_default();
        let starter = Starter::new(args.hosts.unwrap_or(1), seed, epoch).storages(args.storages.clone());
        let versions = versions.cloned().unwrap_or_default();
        let world = starter.versions(versions.clone()).build().world;
        check_hosts(&world, &versions)?;
        return Ok(world);
    };
    let hosts = world.nodes.len();
    let differs = args.hosts.is_some_and(|asked| usize::try_from(asked) != Ok(hosts));
    let version = versions.filter(|asked| !world.is_of(asked));
    let contradiction = match args.seed {
        _ if differs => {
            format!("the world that was kept has {hosts} host{}", if hosts == 1 { "" } else { "s" })
        }
        _ if version.is_some() => format!("the world that was kept is Proxmox VE {}", versions_of(&world)),
        _ if !args.storages.is_empty() => "the world that was kept has its storages already".to_owned(),
        Some(_) => "the world that was kept has a seed already".to_owned(),
        None => return Ok(world),
    };
    let hint = "leave --hosts, --version, --storage and --seed out, or name another folder";
    Err(Failure::new(contradiction).with_hint(hint).into())
}

/// `9.2.11`, or each host's: `8.4.21 (pve1), 9.2.11 (pve2, pve3)`.
fn versions_of(world: &World) -> String {
    let mut hosts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for host in world.nodes.keys() {
        hosts.entry(world.version_of(host)).or_default().push(host);
    }
    if hosts.len() == 1 {
        return hosts.keys().copied().collect();
    }
    let each = hosts.iter().map(|(version, hosts)| format!("{version} ({})", hosts.join(", ")));
    each.collect::<Vec<_>>().join(", ")
}

fn random_seed() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// A folder that goes with the simulator.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // A folder left behind in the place for temporary ones is no loss.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn keep(state: Option<&Path>) -> anyhow::Result<(Keep, Option<Temporary>)> {
    if let Some(path) = state {
        return Ok((Keep::World(StateFolder::open(path)?), None));
    }
    let path = std::env::temp_dir().join(format!("talmox-sim-{:016x}", random_seed()?));
    let folder = StateFolder::open(&path)?;
    Ok((Keep::Access(folder), Some(Temporary(path))))
}

fn in_words(error: ServeError) -> anyhow::Error {
    let said = match &error {
        ServeError::Listen { address, source } => format!("could not listen on {address}: {source}"),
        ServeError::Ports { .. } => error.to_string(),
        ServeError::Certificate { .. }
        | ServeError::State { .. }
        | ServeError::Load { .. }
        | ServeError::InUse { .. }
        | ServeError::NoHost { .. } => return error.into(),
    };
    Failure::new(said).with_hint("--port 0 takes any port that is free").into()
}

/// What those who want to use the simulator need.
#[derive(Serialize)]
struct Ready {
    endpoint: String,
    ca_file: String,
    fingerprint: String,
    token: String,
    token_file: String,
    root_password: String,
    /// Of the host at the endpoint.
    version: String,
    hosts: Vec<Host>,
    /// Of all of them, for people.
    #[serde(skip)]
    versions: String,
    /// The simulated Image Factory.
    factory: Option<String>,
}

#[derive(Serialize)]
struct Host {
    name: String,
    version: String,
    endpoint: String,
    fingerprint: String,
}

impl Ready {
    fn new(world: &World, settings: &Settings) -> anyhow::Result<Self> {
        let (Keep::Access(folder) | Keep::World(folder)) = &settings.keep else {
            anyhow::bail!("there is no folder for the certificate");
        };
        Ok(Self {
            endpoint: String::new(),
            ca_file: folder.certificate_file().display().to_string(),
            fingerprint: String::new(),
            token: world.starter_token().unwrap_or_default(),
            token_file: folder.token_file().display().to_string(),
            root_password: world.root_password().unwrap_or_default().to_owned(),
            version: String::new(),
            hosts: Vec::new(),
            versions: versions_of(world),
            factory: None,
        })
    }

    fn with_hosts(mut self, server: &Server) -> Self {
        let version = |host: &str| server.with(|simulation| simulation.world.version_of(host).to_owned());
        let hosts = server.hosts().iter().map(|host| Host {
            name: host.name.clone(),
            version: version(&host.name),
            endpoint: host.endpoint(),
            fingerprint: host.fingerprint.clone(),
        });
        self.hosts = hosts.collect();
        self.factory = server.factory();
        if let Some(first) = self.hosts.first() {
            self.endpoint.clone_from(&first.endpoint);
            self.fingerprint.clone_from(&first.fingerprint);
            self.version.clone_from(&first.version);
        }
        self
    }

    fn show(&self, format: Format, printer: &Printer) -> anyhow::Result<()> {
        match format {
            // One line, so that a program can read it while the simulator runs on.
            Format::Json => printer.data(&serde_json::to_string(self)?)?,
            Format::Yaml => printer.structured(format, self)?,
            Format::Table => printer.data(&self.table())?,
        }
        printer.say(&self.talk());
        Ok(())
    }

    fn table(&self) -> String {
        let rows = self
            .hosts
            .iter()
            .map(|host| format!("{:<6} {:<24} {}\n", host.name, host.endpoint, host.fingerprint));
        format!("{:<6} {:<24} FINGERPRINT\n{}", "HOST", "ENDPOINT", rows.collect::<String>())
    }

    fn talk(&self) -> String {
        let Self { endpoint, ca_file, token_file, versions, factory, .. } = self;
        let factory =
            factory.as_ref().map(|url| format!("simulated Image Factory at {url}\n")).unwrap_or_default();
        format!(
            "\nsimulated Proxmox VE {versions}; Ctrl-C ends it\n{factory}{BOLD}try{BOLD:#}: curl --cacert {ca_file} \\\n       \
             -H \"Authorization: PVEAPIToken=$(cat {token_file})\" \\\n       {endpoint}/api2/json/nodes"
        )
    }
}

/// A behaviour for programs.
#[derive(Serialize)]
struct Entry {
    id: &'static str,
    sentence: &'static str,
    proof: &'static str,
    source: &'static str,
}

fn behaviours(args: &SimBehaviours, printer: &Printer) -> anyhow::Result<()> {
    let entries: Vec<Entry> = talmox_sim::proof::every()
        .map(|behaviour| Entry {
            id: behaviour.id,
            sentence: behaviour.sentence,
            proof: behaviour.source.proof(),
            source: behaviour.source.reference(),
        })
        .collect();
    if args.output.output != Format::Table {
        return printer.structured(args.output.output, &entries);
    }
    let id_width = entries.iter().map(|entry| entry.id.len()).max().unwrap_or_default().max(9);
    let source = |entry: &Entry| format!("{} {}", entry.proof, entry.source).trim_end().to_owned();
    let source_width = entries.iter().map(|entry| source(entry).len()).max().unwrap_or_default().max(5);
    let mut text = format!("{:<id_width$}  {:<source_width$}  WHAT\n", "BEHAVIOUR", "PROOF");
    for entry in &entries {
        text.push_str(&format!(
            "{:<id_width$}  {:<source_width$}  {}\n",
            entry.id,
            source(entry),
            entry.sentence
        ));
    }
    printer.data(&text)
}
