//! Valid configs with one field made another: what we say of them, and what Talos' own library says.

use anyhow::{Context as _, ensure};
use talmox_machine::sample::Sampler;
use talmox_machine::validate::{Mode, Severity};
use talmox_machine::{Bundle, Config, Map, Source, Value, print, read_values};
use talmox_types::Contract;

use super::{descriptions, expressions};

/// How many are judged by each version.
pub(super) const MUTANTS: usize = 500;

/// What fields are replaced by; none removes them.
const CHANGES: [Change; 14] = [
    Change::Remove,
    Change::Text(""),
    Change::Text("nonsense value"),
    Change::Text("10.0.0.1"),
    Change::Text("10.0.0.0/8"),
    Change::Text("https://example.org"),
    Change::Text("5m"),
    Change::Text("eth0"),
    Change::Integer(-1),
    Change::Integer(0),
    Change::Integer(70_000),
    Change::Bool(true),
    Change::List,
    Change::Twice,
];

#[derive(Clone, Copy, Debug)]
enum Change {
    Remove,
    Text(&'static str),
    Integer(i128),
    Bool(bool),
    List,
    /// A list with its items twice, a mapping without anything, a list of anything else.
    Twice,
}

/// Documents that are valid together, with the release that brought the youngest of them.
const DOCUMENTS: [(u16, &str); 20] = [
    (
        12,
        "kind: BondConfig\nname: bond0\nlinks: [eth1, eth2]\nbondMode: 802.3ad\nmiimon: 100\nxmitHashPolicy: layer2+3\nlacpRate: fast\nmtu: 1500\naddresses: [{address: 10.1.0.2/24}]\n",
    ),
    (12, "kind: BridgeConfig\nname: br0\nlinks: [eth3]\nstp: {enabled: true}\n"),
    (
        12,
        "kind: VLANConfig\nname: eth0.5\nvlanID: 5\nparent: eth0\naddresses: [{address: 10.2.0.2/24}]\nroutes: [{destination: 10.3.0.0/16, gateway: 10.2.0.1, metric: 7}]\n",
    ),
    (
        12,
        "kind: WireguardConfig\nname: wg0\nprivateKey: GBtDMpQEgZTMzBPBD4BLTgFfLMQ5KXiLWLKyxmBDPFQ=\nlistenPort: 51820\npeers: [{publicKey: GBtDMpQEgZTMzBPBD4BLTgFfLMQ5KXiLWLKyxmBDPFQ=, endpoint: '10.0.0.9:51820', allowedIPs: [10.9.0.0/16]}]\n",
    ),
    (12, "kind: DHCPv4Config\nname: eth5\nrouteMetric: 1024\nclientIdentifier: mac\n"),
    (12, "kind: Layer2VIPConfig\nname: 10.0.7.99\nlink: eth0\n"),
    (12, "kind: StaticHostConfig\nname: 10.0.7.98\nhostnames: [a.lan, b]\n"),
    (12, "kind: TimeSyncConfig\nenabled: true\nbootTimeout: 2m\nntp: {servers: [time.lan]}\n"),
    (8, "kind: NetworkDefaultActionConfig\ningress: block\n"),
    (
        8,
        "kind: NetworkRuleConfig\nname: apid\nportSelector: {ports: [50000, 10250-10260], protocol: tcp}\ningress: [{subnet: 10.0.0.0/8, except: 10.1.0.0/16}]\n",
    ),
    (8, "kind: WatchdogTimerConfig\ndevice: /dev/watchdog0\ntimeout: 3m\n"),
    (8, "kind: KmsgLogConfig\nname: remote\nurl: tcp://10.0.0.7:514\n"),
    (8, "kind: EventSinkConfig\nendpoint: 10.0.0.7:8080\n"),
    (
        8,
        "kind: ExtensionServiceConfig\nname: nut\nconfigFiles: [{content: a, mountPath: /etc/nut.conf}]\nenvironment: [A=b]\n",
    ),
    (
        8,
        "kind: TrustedRootsConfig\nname: own\ncertificates: |\n  -----BEGIN CERTIFICATE-----\n  AAAA\n  -----END CERTIFICATE-----\n",
    ),
    (
        11,
        "kind: UserVolumeConfig\nname: data\nprovisioning: {diskSelector: {match: disk.size > 10u * GiB}, minSize: 10GiB, maxSize: 50GiB}\nfilesystem: {type: xfs}\nencryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}\n",
    ),
    (
        11,
        "kind: SwapVolumeConfig\nname: swap1\nprovisioning: {diskSelector: {match: '!system_disk'}, maxSize: 4GiB}\n",
    ),
    (
        10,
        "kind: EthernetConfig\nname: eth7\nfeatures: {tx-tcp-segmentation: true}\nrings: {rx: 256}\nchannels: {combined: 4}\n",
    ),
    (12, "kind: OOMConfig\ntriggerExpression: memory_full_avg10 > 12.0\nsampleInterval: 1s\n"),
    (13, "kind: RoutingRuleConfig\nname: '1000'\nsrc: 10.0.0.0/8\ntable: '100'\naction: unicast\n"),
];

/// A mutant and how it came about.
pub(super) struct Mutant {
    /// The document, the field and what became of it.
    pub change: String,
    pub text: String,
}

/// Draws a mutant of a version's configs.
pub(super) fn draw(seed: usize, version: &str, minor: u16, bundle: &Bundle) -> anyhow::Result<Mutant> {
    let mut sampler = Sampler::new(seed as u64 + 7_000, minor);
    let case = descriptions::case((seed % 16) as u64, version, minor, bundle)?;
    let (_, config) = &case.configs[seed % case.configs.len()];
    let mut documents = read_values(Source { name: "config", text: config })?;
    let known: Vec<&str> =
        DOCUMENTS.iter().filter(|(since, _)| *since <= minor).map(|(_, text)| *text).collect();
    let extra = format!("apiVersion: v1alpha1\n{}", known[sampler.below(known.len())]);
    let added = read_values(Source { name: "document", text: &extra })?;
    // Documents that are there already are not added again.
    let is_new = |document: &Value| !documents.iter().any(|known| head(known) == head(document));
    let added: Vec<Value> = added.into_iter().filter(is_new).collect();
    documents.extend(added);
    let index = if sampler.below(2) == 0 { documents.len() - 1 } else { sampler.below(documents.len()) };
    let mut paths = Vec::new();
    collect(&documents[index], &mut Vec::new(), &mut paths);
    let path = paths.get(sampler.below(paths.len())).context("a document has fields")?.clone();
    let change = CHANGES[sampler.below(CHANGES.len())];
    let mutated = apply(&documents[index], &path, change);
    let change = format!("{} {}: {change:?}", head(&documents[index]), shown(&path));
    documents[index] = mutated;
    let text = documents.iter().map(print).collect::<Vec<_>>().join("---\n");
    Ok(Mutant { change, text })
}

/// Draws a config with a document whose expression was changed.
pub(super) fn draw_expression(
    seed: usize,
    version: &str,
    minor: u16,
    bundle: &Bundle,
) -> anyhow::Result<Mutant> {
    let mut sampler = Sampler::new(seed as u64 + 90_000, minor);
    let case = descriptions::case((seed % 16) as u64, version, minor, bundle)?;
    let (_, config) = &case.configs[seed % case.configs.len()];
    let (document, change) = expressions::draw(&mut sampler, minor);
    Ok(Mutant { change, text: format!("{config}---\napiVersion: v1alpha1\n{document}") })
}

fn head(document: &Value) -> String {
    let text = |key| document.at(&[key]).and_then(Value::as_text).unwrap_or_default().to_owned();
    format!("{} {}", text("kind"), text("name")).trim().to_owned()
}

#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Item(usize),
}

fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) => text.push_str(&format!(".{key}")),
            Step::Item(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text.trim_start_matches('.').to_owned()
}

/// Every field of a document, save what says which one it is.
fn collect(value: &Value, path: &mut Vec<Step>, paths: &mut Vec<Vec<Step>>) {
    match value {
        Value::Map(map) => {
            for (key, value) in map.iter() {
                if path.is_empty() && ["apiVersion", "kind"].contains(&key) {
                    continue;
                }
                path.push(Step::Key(key.to_owned()));
                paths.push(path.clone());
                collect(value, path, paths);
                path.pop();
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Item(index));
                paths.push(path.clone());
                collect(item, path, paths);
                path.pop();
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Octal(_)
        | Value::Float(_)
        | Value::Text(_) => {}
    }
}

fn apply(value: &Value, path: &[Step], change: Change) -> Value {
    let Some((step, rest)) = path.split_first() else { return changed(value, change) };
    let removes = rest.is_empty() && matches!(change, Change::Remove);
    match (value, step) {
        (Value::Map(map), Step::Key(wanted)) => {
            let mut copy = Map::new();
            for (key, value) in map.iter().filter(|(key, _)| !(removes && key == wanted)) {
                copy.set(key, if key == wanted { apply(value, rest, change) } else { value.clone() });
            }
            Value::Map(copy)
        }
        (Value::List(items), Step::Item(wanted)) => {
            let items = items.iter().enumerate().filter(|(index, _)| !(removes && index == wanted));
            let items = items
                .map(|(index, item)| if index == *wanted { apply(item, rest, change) } else { item.clone() });
            Value::List(items.collect())
        }
        (other, _) => other.clone(),
    }
}

fn changed(value: &Value, change: Change) -> Value {
    match (change, value) {
        (Change::Text(text), _) => Value::text(text),
        (Change::Integer(number), _) => Value::Integer(number),
        (Change::Bool(truth), _) => Value::Bool(truth),
        (Change::List, _) => Value::List(Vec::new()),
        (Change::Twice, Value::List(items)) => Value::List(items.iter().chain(items).cloned().collect()),
        (Change::Twice, Value::Map(_)) | (Change::Remove, _) => Value::Map(Map::new()),
        (Change::Twice, value) => Value::List(vec![value.clone(), value.clone()]),
    }
}

/// Why we refuse a config, if we do.
pub(super) fn refused(text: &str, minor: u16) -> Option<String> {
    match Config::parse(Source { name: "config", text }) {
        Err(faults) => Some(faults.to_string()),
        Ok(config) => {
            let problems = config.validate(Mode::Metal, Contract { major: 1, minor });
            problems.iter().find(|problem| problem.severity == Severity::Error).map(ToString::to_string)
        }
    }
}

/// How verdicts compare, and every difference.
#[derive(Default)]
pub(super) struct Verdicts {
    both_take: usize,
    both_refuse: usize,
    different: Vec<String>,
}

impl Verdicts {
    pub(super) fn count(&mut self, change: &str, theirs: Option<String>, ours: Option<String>) {
        let first = |text: &str| {
            text.lines().map(str::trim).filter(|line| !line.is_empty()).take(4).collect::<Vec<_>>().join(" ")
        };
        match (theirs, ours) {
            (None, None) => self.both_take += 1,
            (Some(_), Some(_)) => self.both_refuse += 1,
            (Some(theirs), None) => {
                self.different.push(format!("only Talos refuses {change}: {}", first(&theirs)));
            }
            (None, Some(ours)) => self.different.push(format!("only we refuse {change}: {}", first(&ours))),
        }
    }

    pub(super) fn summary(self, version: &str) -> anyhow::Result<String> {
        let Self { both_take, both_refuse, different } = self;
        let total = both_take + both_refuse + different.len();
        let summary = format!(
            "Talos {version}: {} of {total} mutants judged alike ({both_take} taken, {both_refuse} refused)",
            both_take + both_refuse
        );
        ensure!(different.is_empty(), "{summary}\n{}", different.join("\n"));
        Ok(summary)
    }
}
