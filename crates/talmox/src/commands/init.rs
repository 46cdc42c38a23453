//! `talmox init`

mod offer;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context as _;
use talmox_config::describe::{FileKind, json_schema};
use talmox_config::init::{Answers, CLUSTER_SCHEMA, NODES_SCHEMA, SCHEMA_FOLDER, cluster_yaml, nodes_yaml};
use talmox_config::{Files, read_files};
use talmox_pve::client::Endpoint;
use talmox_trust::Certificate;
use talmox_types::desired::VmIdRange;
use talmox_types::{
    BridgeName, Cidr, ClusterName, ClusterUid, Contract, Fingerprint, HostName, PoolName, StorageId, Url,
    VmId,
};

use super::secrets::FirstBundle;
use crate::args::{Init, Simulate};
use crate::connect::{allow_typed, visit};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::prompt;
use crate::trust::Folder;

/// Where the description that `init` writes has its token.
const TOKEN: &str = "env:PROXMOX_VE_API_TOKEN";

pub(super) fn run(args: &Init, printer: &Printer) -> anyhow::Result<()> {
    refuse_existing(&args.folder)?;
    let asker = Asker { asks: !args.yes && Printer::can_ask(), printer };
    let (answers, certificate) = answers(args, &asker, printer)?;
    let (cluster, nodes) = (cluster_yaml(&answers), nodes_yaml(&answers));
    let contract = refuse_invalid(&cluster, &nodes, printer)?;
    fs::create_dir_all(&args.folder)
        .with_context(|| format!("could not make the folder {}", args.folder.display()))?;
    let folder = Folder::open(&args.folder, &args.trust)?;
    let bundle = FirstBundle::choose(&folder, printer)?;
    fs::create_dir_all(args.folder.join(SCHEMA_FOLDER))
        .with_context(|| format!("could not make the folder {}", args.folder.display()))?;
    for (name, kind) in [(CLUSTER_SCHEMA, FileKind::Cluster), (NODES_SCHEMA, FileKind::Nodes)] {
        let path = args.folder.join(SCHEMA_FOLDER).join(name);
        let text = serde_json::to_string_pretty(&json_schema(kind))? + "\n";
        // Generated, and of no use but to editors: the one kind of file that may be replaced.
        fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
    }
    write_new(&args.folder.join("cluster.yaml"), &cluster, printer)?;
    write_new(&args.folder.join("nodes.yaml"), &nodes, printer)?;
    bundle.make(contract, printer)?;
    if let Some(certificate) = certificate.filter(|_| args.connection.simulate == Simulate::Off) {
        let endpoint = Endpoint::parse(&answers.endpoint).map_err(|error| Failure::new(error.to_string()))?;
        allow_typed(TOKEN, &endpoint, certificate, &folder, printer)?;
    }
    let flag =
        if args.folder == Path::new(".") { String::new() } else { format!(" -f {}", args.folder.display()) };
    let simulate = match &args.connection.simulate {
        Simulate::Off => String::new(),
        Simulate::Here => " --simulate".to_owned(),
        Simulate::Folder(folder) => format!(" --simulate={}", folder.display()),
    };
    printer.say(&format!("\nnext:  talmox validate{flag}\n       talmox check{flag}{simulate}\n       talmox explain{flag} cp-1"));
    Ok(())
}

/// The fingerprint the person compared, or none where the system vouches for the endpoint.
fn certificate(fingerprint: Option<Fingerprint>) -> Certificate {
    fingerprint.map_or(Certificate::System, |fingerprint| Certificate::Fingerprints([fingerprint].into()))
}

fn refuse_existing(folder: &Path) -> Result<(), Failure> {
    let existing = ["cluster.yaml", "nodes.yaml"].into_iter().find(|name| folder.join(name).exists());
    match existing {
        None => Ok(()),
        Some(name) => Err(Failure::new(format!("{} is there already", folder.join(name).display()))
            .with_hint("nothing was changed; name another folder, or remove the file yourself")),
    }
}

/// Answers that are fine one by one may still not go together, such as a network the pods have by default. Gives the
/// contract of those that do.
fn refuse_invalid(cluster: &str, nodes: &str, printer: &Printer) -> Result<Contract, Failure> {
    let outcome = read_files(Files::from_texts(cluster, Some(nodes)));
    if let Some(desired) = outcome.desired.as_ref().filter(|_| !outcome.has_errors()) {
        return Ok(desired.talos.contract);
    }
    super::validate::show_problems(&outcome, printer);
    Err(Failure::new("these answers do not go together; nothing was written").with_hint("choose others"))
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

/// What the description says, and how the certificate of its endpoint is checked if the person has said so.
fn answers(
    args: &Init,
    asker: &Asker<'_>,
    printer: &Printer,
) -> anyhow::Result<(Answers, Option<Certificate>)> {
    let any = |_: &_| Ok(());
    let name: ClusterName =
        asker.value("Name of the cluster", "--name", args.name.as_deref(), "homelab", any)?;
    let endpoint = endpoint(args, asker, printer)?;
    let place = place(args, &name, &endpoint, asker, printer)?;
    let given = args.control_planes.map(|number| number.to_string());
    let control_planes: u16 =
        asker.value("Control planes (1, 3, 5 or 7)", "--control-planes", given.as_deref(), "3", is_odd)?;
    let given = args.workers.map(|number| number.to_string());
    let workers: u16 = asker.value("Workers", "--workers", given.as_deref(), "3", |_| Ok(()))?;
    let count = usize::from(control_planes) + usize::from(workers);
    let network = network(args, asker, count, control_planes > 1)?;
    let Place { certificate, fingerprint, host, storage, image_storage, pool, ids, bridge } = place;
    let answers = Answers {
        name,
        uid: new_uid()?,
        endpoint: endpoint.to_string(),
        fingerprint,
        host,
        storage,
        image_storage,
        pool,
        ids,
        bridge,
        node_cidr: network.cidr.network(),
        gateway: network.gateway,
        vip: network.vip,
        addresses: network.addresses,
        control_planes: usize::from(control_planes),
    };
    Ok((answers, certificate))
}

/// Where Proxmox is: as the flag says, else as the environment says, else as somebody answers.
fn endpoint(args: &Init, asker: &Asker<'_>, printer: &Printer) -> anyhow::Result<Url> {
    let of_environment = visit::endpoint_of_environment()?;
    let (default, from) = match &of_environment {
        Some((variable, endpoint)) => (endpoint.to_string(), variable.as_str()),
        None => ("https://pve.lan:8006".to_owned(), "the default"),
    };
    let url: Url = asker.value("Proxmox API", "--endpoint", args.endpoint.as_deref(), &default, is_api)?;
    if printer.is_verbose() {
        let from = if args.endpoint.is_some() {
            "--endpoint"
        } else if url.to_string() == default {
            from
        } else {
            "the answer"
        };
        printer.say(&format!("endpoint {url} from {from}"));
    }
    Ok(url)
}

/// What of Proxmox is used.
struct Place {
    /// None: nobody has looked at the endpoint's certificate yet.
    certificate: Option<Certificate>,
    fingerprint: Option<Fingerprint>,
    host: HostName,
    storage: StorageId,
    image_storage: Option<StorageId>,
    pool: Option<PoolName>,
    ids: Option<VmIdRange>,
    bridge: BridgeName,
}

/// Chosen from what is there, where it can be asked.
fn place(
    args: &Init,
    name: &ClusterName,
    url: &Url,
    asker: &Asker<'_>,
    printer: &Printer,
) -> anyhow::Result<Place> {
    // A default nobody named is nobody to ask.
    let named = args.endpoint.is_some()
        || args.connection.simulate != Simulate::Off
        || asker.asks
        || visit::endpoint_of_environment()?.is_some();
    let address = Endpoint::parse(&url.to_string()).map_err(|error| Failure::new(error.to_string()))?;
    let offer = if named { offer::ask(args, name, &address, asker, printer)? } else { None };
    let Some(offer) = offer else { return unasked_place(args, asker) };
    let hosts: Vec<(String, String)> =
        offer.hosts.iter().map(|host| (host.to_string(), String::new())).collect();
    let host: HostName = asker.choice("Proxmox host", "--host", args.host.as_deref(), &hosts, "pve")?;
    let storages = offer.storages(&host, "images");
    let storage: StorageId =
        asker.choice("Storage for disks", "--storage", args.storage.as_deref(), &storages, "local-zfs")?;
    let images = offer.storages(&host, "import");
    let given = args.image_storage.as_deref();
    let image_storage: Option<StorageId> = if images.is_empty() && given.is_none() {
        printer.say(&format!(
            "No storage of {host} takes disk images (import): talmox check --setup has the line that changes that"
        ));
        None
    } else {
        Some(asker.choice("Storage for disk images", "--image-storage", given, &images, "local")?)
    };
    let bridges = offer.bridges(&host);
    let bridge: BridgeName = asker.choice("Bridge", "--bridge", args.bridge.as_deref(), &bridges, "vmbr0")?;
    let question = format!("Ids of the VMs ({} are taken elsewhere)", offer.taken_ids());
    let ids: Ids = asker.said(&question, "--ids", args.ids.as_deref(), &offer.free_ids())?;
    let pools: Vec<String> = offer.pools.iter().map(ToString::to_string).collect();
    let question =
        if pools.is_empty() { "Pool".to_owned() } else { format!("Pool (there are {})", pools.join(", ")) };
    let default = format!("talmox-{name}");
    let pool: PoolName = asker.said(&question, "--pool", args.pool.as_deref(), &default)?;
    Ok(Place {
        certificate: Some(certificate(offer.fingerprint)),
        fingerprint: offer.fingerprint,
        host,
        storage,
        image_storage,
        pool: Some(pool),
        ids: Some(ids.0),
        bridge,
    })
}

/// Chosen without anybody to ask.
fn unasked_place(args: &Init, asker: &Asker<'_>) -> anyhow::Result<Place> {
    let host = asker.value("Proxmox host", "--host", args.host.as_deref(), "pve", |_| Ok(()))?;
    let storage =
        asker.value("Storage for disks", "--storage", args.storage.as_deref(), "local-zfs", |_| Ok(()))?;
    let bridge = asker.value("Bridge", "--bridge", args.bridge.as_deref(), "vmbr0", |_| Ok(()))?;
    let given = |flag: &str, text: &Option<String>| -> anyhow::Result<Option<String>> {
        text.as_ref().map(|text| asker.value("", flag, Some(text), "", |_: &String| Ok(()))).transpose()
    };
    let image_storage = given("--image-storage", &args.image_storage)?;
    let pool = given("--pool", &args.pool)?;
    let refused = |flag: &str, error: String| Failure::new(format!("{flag}: {error}"));
    let fingerprint = args.connection.fingerprint.first().copied();
    Ok(Place {
        certificate: fingerprint.map(|fingerprint| certificate(Some(fingerprint))),
        fingerprint,
        host,
        storage,
        bridge,
        image_storage: image_storage
            .map(|text| {
                StorageId::parse(&text).map_err(|error| refused("--image-storage", error.to_string()))
            })
            .transpose()?,
        pool: pool
            .map(|text| PoolName::parse(&text).map_err(|error| refused("--pool", error.to_string())))
            .transpose()?,
        ids: args
            .ids
            .as_ref()
            .map(|text| text.parse::<Ids>().map(|ids| ids.0).map_err(|error| refused("--ids", error)))
            .transpose()?,
    })
}

/// `2000-2999`.
struct Ids(VmIdRange);

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is no first and last id, like 2000-2999");
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let id = |part: &str| part.trim().parse::<u32>().ok().and_then(|id| VmId::try_from(id).ok());
        let (start, end) = id(first).zip(id(last)).ok_or_else(wrong)?;
        if start <= end { Ok(Self(VmIdRange { start, end })) } else { Err(wrong()) }
    }
}

/// The node network and who is where in it.
struct NodeNetwork {
    cidr: Cidr,
    gateway: IpAddr,
    vip: Option<IpAddr>,
    addresses: Vec<IpAddr>,
}

fn network(args: &Init, asker: &Asker<'_>, count: usize, several: bool) -> anyhow::Result<NodeNetwork> {
    let needed = count + usize::from(several) + 1;
    let fits = |cidr: &Cidr| {
        let enough = cidr.hosts().count() >= needed as u64;
        if enough {
            Ok(())
        } else {
            Err(format!("{cidr} has no room for {count} nodes, choose a larger network"))
        }
    };
    let cidr: Cidr =
        asker.value("Network of the nodes", "--node-cidr", args.node_cidr.as_deref(), "10.0.7.0/24", fits)?;
    let inside = |ip: &IpAddr| {
        let hosts = cidr.hosts();
        let words = format!("{ip} is no host's address in {cidr}: {} to {}", hosts.first(), hosts.last());
        if hosts.contains(*ip) { Ok(()) } else { Err(words) }
    };
    let default = cidr.first_host().to_string();
    let gateway: IpAddr = asker.value("Gateway", "--gateway", args.gateway.as_deref(), &default, inside)?;
    let followers = |first: IpAddr, without: Option<IpAddr>| -> Vec<IpAddr> {
        let range = cidr.hosts().starting_at(first);
        let free = range.into_iter().flat_map(|range| range.iter());
        free.filter(|ip| *ip != gateway && Some(*ip) != without).take(count).collect()
    };
    let enough = |first: &IpAddr| {
        inside(first)?;
        let words = format!("{cidr} has no {count} free addresses from {first} on, choose a lower one");
        if followers(*first, None).len() == count { Ok(()) } else { Err(words) }
    };
    // The eleventh address, where most home networks have room, unless the network is too small for that.
    let candidates = [10, 2, 1, 0].into_iter().filter_map(|skip| cidr.hosts().iter().nth(skip));
    let default = candidates.into_iter().find(|first| enough(first).is_ok()).unwrap_or(cidr.first_host());
    let first: IpAddr = asker.value(
        "Address of the first node",
        "--first-address",
        args.first_address.as_deref(),
        &default.to_string(),
        enough,
    )?;
    let mut vip = None;
    if several {
        let before = cidr.hosts().before(first).filter(|ip| *ip != gateway);
        let free = |ip: &IpAddr| {
            inside(ip)?;
            let taken = *ip == gateway || followers(first, Some(*ip)).len() < count;
            if taken { Err(format!("{ip} is the gateway, or leaves too few addresses")) } else { Ok(()) }
        };
        let default = before.unwrap_or(cidr.hosts().last()).to_string();
        vip =
            Some(asker.value("Virtual address of the API", "--vip", args.vip.as_deref(), &default, free)?);
    }
    Ok(NodeNetwork { cidr, gateway, vip, addresses: followers(first, vip) })
}

fn is_api(url: &Url) -> Result<(), String> {
    let fits = url.is_https() && url.path().is_empty();
    if fits { Ok(()) } else { Err("https://host:port is wanted, without a path".to_owned()) }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "checks take what they check by reference")]
fn is_odd(number: &u16) -> Result<(), String> {
    let fits = number % 2 == 1 && *number <= 7;
    if fits { Ok(()) } else { Err(format!("{number}: control planes come in odd numbers, use 1, 3, 5 or 7")) }
}

pub(super) fn new_uid() -> anyhow::Result<ClusterUid> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system has no random numbers: {error}"))?;
    Ok(ClusterUid::from(bytes))
}

/// Gets values: from flags, else from a person, else the default.
struct Asker<'a> {
    asks: bool,
    printer: &'a Printer,
}

impl Asker<'_> {
    /// A value whose default came from Proxmox: without anybody to ask, it is said what was taken.
    fn said<T: FromStr<Err: ToString>>(
        &self,
        question: &str,
        flag: &str,
        given: Option<&str>,
        default: &str,
    ) -> anyhow::Result<T> {
        if given.is_none() && !self.asks {
            self.printer.say(&format!("{question}: {default}; {flag} names another"));
        }
        self.value(question, flag, given, default, |_| Ok(()))
    }

    /// One of what is there, by name or number. Without anybody to ask the first is taken, and that is said.
    fn choice<T: FromStr<Err: ToString>>(
        &self,
        question: &str,
        flag: &str,
        given: Option<&str>,
        options: &[(String, String)],
        otherwise: &str,
    ) -> anyhow::Result<T> {
        let names: Vec<&str> = options.iter().map(|(name, _)| name.as_str()).collect();
        let default =
            if names.contains(&otherwise) { otherwise } else { names.first().unwrap_or(&otherwise) };
        if given.is_some() || options.is_empty() {
            return self.value(question, flag, given, default, |_| Ok(()));
        }
        if !self.asks {
            let others = if names.len() > 1 { format!(" (of {})", names.join(", ")) } else { String::new() };
            return self.said(&format!("{question}{others}"), flag, None, default);
        }
        for (number, (name, words)) in options.iter().enumerate() {
            self.printer.say(format!("  {:>2}  {name}  {words}", number + 1).trim_end());
        }
        loop {
            let answer = ask(question, default)?;
            let picked = answer.parse::<usize>().ok().and_then(|number| names.get(number.checked_sub(1)?));
            let picked = picked.copied().or_else(|| names.iter().copied().find(|name| *name == answer));
            match picked {
                Some(name) => return self.value(question, flag, Some(name), default, |_| Ok(())),
                None => self.printer.problem(&format!("  {answer} is none of {}", names.join(", "))),
            }
        }
    }

    /// A value of its type that also passes a check; whoever can be asked is asked again.
    fn value<T: FromStr<Err: ToString>>(
        &self,
        question: &str,
        flag: &str,
        given: Option<&str>,
        default: &str,
        check: impl Fn(&T) -> Result<(), String>,
    ) -> anyhow::Result<T> {
        let read = |text: &str| -> Result<T, String> {
            let value: T = text.parse().map_err(|error: T::Err| error.to_string())?;
            check(&value).map(|()| value)
        };
        let refused = |words: String| Failure::new(format!("{flag}: {words}"));
        if let Some(text) = given {
            return read(text).map_err(|words| refused(words).into());
        }
        loop {
            let text = if self.asks { ask(question, default)? } else { default.to_owned() };
            match read(&text) {
                Ok(value) => return Ok(value),
                Err(words) if self.asks => {
                    writeln!(io::stderr(), "  {}", talmox_types::visible(&words))?;
                }
                Err(words) => return Err(refused(words).into()),
            }
        }
    }
}

/// One question; an empty answer is the default.
fn ask(question: &str, default: &str) -> anyhow::Result<String> {
    let Some(answer) = prompt::line(&format!("{question} [{default}]: "))? else {
        return Err(Failure::new("no answer; nothing was written")
            .with_hint("--yes takes every default")
            .into());
    };
    Ok(if answer.is_empty() { default.to_owned() } else { answer })
}
