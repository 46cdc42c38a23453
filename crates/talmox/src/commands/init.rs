//! `talmox init`

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context as _;
use talmox_config::describe::{FileKind, json_schema};
use talmox_config::init::{Answers, CLUSTER_SCHEMA, NODES_SCHEMA, SCHEMA_FOLDER, cluster_yaml, nodes_yaml};
use talmox_types::{BridgeName, Cidr, ClusterName, ClusterUid, HostName, StorageId};

use crate::args::Init;
use crate::failure::Failure;
use crate::printer::Printer;

pub(super) fn run(args: &Init, printer: &Printer) -> anyhow::Result<()> {
    refuse_existing(&args.folder)?;
    let asker = Asker { asks: !args.yes && Printer::can_ask() };
    let answers = answers(args, &asker)?;
    fs::create_dir_all(args.folder.join(SCHEMA_FOLDER))
        .with_context(|| format!("could not make the folder {}", args.folder.display()))?;
    for (name, kind) in [(CLUSTER_SCHEMA, FileKind::Cluster), (NODES_SCHEMA, FileKind::Nodes)] {
        let path = args.folder.join(SCHEMA_FOLDER).join(name);
        let text = serde_json::to_string_pretty(&json_schema(kind))? + "\n";
        // Generated, and of no use but to editors: the one kind of file that may be replaced.
        fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
    }
    write_new(&args.folder.join("cluster.yaml"), &cluster_yaml(&answers), printer)?;
    write_new(&args.folder.join("nodes.yaml"), &nodes_yaml(&answers), printer)?;
    let flag =
        if args.folder == Path::new(".") { String::new() } else { format!(" -f {}", args.folder.display()) };
    printer.say(&format!("\nnext:  talmox validate{flag}\n       talmox explain{flag} cp-1"));
    Ok(())
}

fn refuse_existing(folder: &Path) -> Result<(), Failure> {
    let existing = ["cluster.yaml", "nodes.yaml"].into_iter().find(|name| folder.join(name).exists());
    match existing {
        None => Ok(()),
        Some(name) => Err(Failure::new(format!("{} is there already", folder.join(name).display()))
            .with_hint("nothing was changed; name another folder, or remove the file yourself")),
    }
}

/// Writes a file that must not exist: between the first look and now somebody may have made it.
fn write_new(path: &Path, text: &str, printer: &Printer) -> anyhow::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .with_context(|| format!("could not write {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("could not write {}", path.display()))?;
    printer.say(&format!("wrote {}", path.display()));
    Ok(())
}

fn answers(args: &Init, asker: &Asker) -> anyhow::Result<Answers> {
    let name: ClusterName = asker.value("Name of the cluster", "--name", args.name.as_deref(), "homelab")?;
    let endpoint: Url =
        asker.value("Proxmox API", "--endpoint", args.endpoint.as_deref(), "https://pve.lan:8006")?;
    let host: HostName = asker.value("Proxmox host", "--host", args.host.as_deref(), "pve")?;
    let storage: StorageId =
        asker.value("Storage for disks", "--storage", args.storage.as_deref(), "local-zfs")?;
    let bridge: BridgeName = asker.value("Bridge", "--bridge", args.bridge.as_deref(), "vmbr0")?;
    let node_cidr: Cidr =
        asker.value("Network of the nodes", "--node-cidr", args.node_cidr.as_deref(), "10.0.7.0/24")?;
    let gateway: IpAddr =
        asker.value("Gateway", "--gateway", args.gateway.as_deref(), &node_cidr.first_host().to_string())?;
    let given = args.control_planes.map(|number| number.to_string());
    let control_planes: ControlPlanes =
        asker.value("Control planes (1, 3 or 5)", "--control-planes", given.as_deref(), "3")?;
    let given = args.workers.map(|number| number.to_string());
    let workers: u16 = asker.value("Workers", "--workers", given.as_deref(), "3")?;
    let count = usize::from(control_planes.0) + usize::from(workers);
    let first = default_first(node_cidr, gateway, count)?;
    let first: IpAddr = asker.value(
        "Address of the first node",
        "--first-address",
        args.first_address.as_deref(),
        &first.to_string(),
    )?;
    let vip = if control_planes.0 > 1 {
        let before = node_cidr.hosts().iter().take_while(|ip| *ip < first).last();
        let suggested = before.filter(|ip| *ip != gateway).unwrap_or(node_cidr.hosts().last());
        Some(asker.value(
            "Virtual address of the API",
            "--vip",
            args.vip.as_deref(),
            &suggested.to_string(),
        )?)
    } else {
        None
    };
    let addresses: Vec<IpAddr> = node_cidr
        .hosts()
        .iter()
        .skip_while(|ip| *ip < first)
        .filter(|ip| *ip != gateway && Some(*ip) != vip)
        .take(count)
        .collect();
    if addresses.len() < count {
        return Err(Failure::new(format!("{node_cidr} has no {count} addresses from {first} on"))
            .with_hint("choose a larger network with --node-cidr, or a lower --first-address")
            .into());
    }
    Ok(Answers {
        name,
        uid: new_uid()?,
        endpoint: endpoint.0,
        host,
        storage,
        bridge,
        node_cidr: node_cidr.network(),
        gateway,
        vip,
        addresses,
        control_planes: usize::from(control_planes.0),
    })
}

fn new_uid() -> anyhow::Result<ClusterUid> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system has no random numbers: {error}"))?;
    Ok(ClusterUid::from(bytes))
}

/// The eleventh address, where most home networks have room, unless the network is too small for that.
fn default_first(network: Cidr, gateway: IpAddr, count: usize) -> Result<IpAddr, Failure> {
    let hosts = network.hosts();
    let room = |skip: usize| hosts.iter().skip(skip).filter(|ip| *ip != gateway).take(count).count() == count;
    let skip = [10, 2, 1].into_iter().find(|skip| room(*skip));
    skip.and_then(|skip| hosts.iter().nth(skip)).ok_or_else(|| {
        Failure::new(format!("{network} has no room for {count} nodes"))
            .with_hint("choose a larger --node-cidr")
    })
}

/// An API address that at least looks like one; `validate` is strict.
struct Url(String);

impl FromStr for Url {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let host =
            text.strip_prefix("https://").filter(|rest| !rest.is_empty() && !rest.contains(['@', ' ']));
        host.map(|_| Self(text.to_owned()))
            .ok_or_else(|| format!("`{text}` is not a URL like https://pve.lan:8006"))
    }
}

struct ControlPlanes(u16);

impl FromStr for ControlPlanes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) if number % 2 == 1 && number <= 7 => Ok(Self(number)),
            _ => Err(format!("`{text}`: control planes come in odd numbers, use 1, 3 or 5")),
        }
    }
}

/// Gets values: from flags, else from a person, else the default.
struct Asker {
    asks: bool,
}

impl Asker {
    fn value<T: FromStr<Err: ToString>>(
        &self,
        question: &str,
        flag: &str,
        given: Option<&str>,
        default: &str,
    ) -> anyhow::Result<T> {
        if let Some(text) = given {
            return text
                .parse()
                .map_err(|error: T::Err| Failure::new(format!("{flag}: {}", error.to_string())).into());
        }
        loop {
            let text = if self.asks { ask(question, default)? } else { default.to_owned() };
            match text.parse() {
                Ok(value) => return Ok(value),
                Err(error) if self.asks => writeln!(io::stderr(), "  {}", error.to_string())?,
                Err(error) => return Err(Failure::new(format!("{flag}: {}", error.to_string())).into()),
            }
        }
    }
}

/// One question on stderr, so that stdout stays data; an empty answer is the default.
fn ask(question: &str, default: &str) -> anyhow::Result<String> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question} [{default}]: ")?;
    stderr.flush()?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    if read == 0 {
        return Err(Failure::new("no answer; nothing was written")
            .with_hint("--yes takes every default")
            .into());
    }
    let answer = line.trim();
    Ok(if answer.is_empty() { default.to_owned() } else { answer.to_owned() })
}
