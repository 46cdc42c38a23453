//! The mark by which a VM is known to be ours.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::invalid::text_conversions;
use crate::{ClusterName, ClusterUid, HostName, Invalid, NodeName, VmId};

/// The last line of a VM's description. What people write above it is theirs.
///
/// Clone and restore copy it, so it names the VMID it was written for: on another one it proves a copy, not ownership.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mark {
    pub uid: ClusterUid,
    pub cluster: ClusterName,
    pub node: NodeName,
    pub vmid: VmId,
    /// Changes whenever the VM is built anew.
    pub incarnation: String,
    /// Whether the cluster is to be bootstrapped on this node, or was. At most one VM of a cluster has the intent; that it was done
    /// may stand in another's too, where the VM it was done on goes.
    pub bootstrap: Option<BootstrapWord>,
    /// Who works on the cluster, where Kubernetes cannot tell yet.
    pub lease: Option<LeaseWord>,
    /// Why the VM does not run, or not where it was, if that was our doing.
    pub away: Option<AwayWord>,
    /// Whether the VM's machine has answered with a certificate of the cluster. Its configuration holds the cluster's keys, and
    /// a machine without one proves itself by nothing that others do not know: from then on it is given none unasked.
    pub configured: bool,
    /// Whether this is not the node's VM, but one that holds disks of the node while that VM is built anew.
    pub shelf: bool,
    /// Words of a later version, kept as they are.
    pub others: Vec<String>,
}

/// What a mark says of the bootstrap. It is written before the call is made: whoever comes after a run that died in
/// between knows which node it may have reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BootstrapWord {
    /// The incarnation of the VM it was meant for.
    pub incarnation: String,
    /// Whether etcd was seen to run afterwards. From then on nothing may bootstrap again, even if all data is lost.
    pub done: bool,
    /// The snapshot etcd begins with, by the first digits of its digest; none for an empty etcd.
    pub snapshot: Option<String>,
}

/// Who works on the cluster, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseWord {
    /// No white space, no `@`.
    pub holder: String,
    /// Seconds since 1970 when it was taken or last renewed.
    pub renewed: u64,
}

/// Why a VM is not where, or not as, it would be otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwayWord {
    /// Hosts were drained and are not back: the VM was moved away from them, or stopped on the one it is on.
    Drained(Drained),
    /// It was moved away from this host, which is back; it stayed where it is.
    From(HostName),
    /// The machine has left its cluster and is wiped, or about to be: it must not be started again.
    Retired,
}

/// Hosts a VM had to leave.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Drained {
    /// Those that are not back yet, in the order they were drained; never empty.
    pub hosts: Vec<HostName>,
    /// Where it was before the first of them.
    pub home: HostName,
}

const PREFIX: &str = "talmox:v1";
/// Between hosts a VM had to leave: no host has it in its name.
const AND: char = '+';
/// Comes before the host it was on first, where that is not the first of them.
const HOME: &str = "/from/";
/// Of a VM whose machine has answered with a certificate of the cluster.
const CONFIGURED: &str = "configured";
/// Of a VM that only holds disks of its node.
const SHELF: &str = "shelf";
/// Follows the node in such a VM's name.
const SHELF_NAME: &str = "-kept";
/// As long as a name in the domain name system may be.
const NAME_LENGTH: usize = 63;
/// Follows the incarnation in a bootstrap that was seen to work.
const DONE: &str = "/done";
/// Comes before the digits of the snapshot etcd begins with.
const FROM: &str = "/from-";
/// How many digits of a snapshot's digest a mark has.
const DIGITS: usize = 16;

impl BootstrapWord {
    fn parse(text: &str) -> Option<Self> {
        let (rest, done) = text.strip_suffix(DONE).map_or((text, false), |rest| (rest, true));
        let (incarnation, snapshot) =
            rest.split_once(FROM).map_or((rest, None), |(rest, digits)| (rest, Some(digits.to_owned())));
        (!incarnation.is_empty()).then(|| Self { incarnation: incarnation.to_owned(), done, snapshot })
    }

    /// What of a snapshot's digest stands in a mark.
    pub fn digits(digest: &str) -> String {
        digest.chars().take(DIGITS).collect()
    }
}

impl fmt::Display for BootstrapWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.incarnation)?;
        if let Some(digits) = &self.snapshot {
            write!(f, "{FROM}{digits}")?;
        }
        f.write_str(if self.done { DONE } else { "" })
    }
}

impl LeaseWord {
    /// What of a name can stand in a mark.
    pub fn holder(name: &str) -> String {
        name.chars().map(|c| if c.is_whitespace() || c == '@' { '-' } else { c }).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let (holder, renewed) = text.rsplit_once('@')?;
        (!holder.is_empty()).then_some(())?;
        Some(Self { holder: holder.to_owned(), renewed: renewed.parse().ok()? })
    }
}

impl fmt::Display for LeaseWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.holder, self.renewed)
    }
}

impl AwayWord {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once('/') {
            None if text == "retired" => Some(Self::Retired),
            Some(("drained", hosts)) => Drained::parse(hosts).map(Self::Drained),
            Some(("from", host)) => HostName::parse(host).ok().map(Self::From),
            None | Some(_) => None,
        }
    }

    /// What is written when a host is drained that a VM is on.
    pub fn draining(before: Option<&Self>, host: &HostName) -> Self {
        // What was on its way already still has its home. Who stayed when its host came back is at home where it is. Who has left
        // its cluster never comes back.
        let (mut hosts, home) = match before {
            Some(Self::Drained(Drained { hosts, home })) => (hosts.clone(), home.clone()),
            Some(Self::From(_)) | None => (Vec::new(), host.clone()),
            Some(Self::Retired) => return Self::Retired,
        };
        if !hosts.contains(host) {
            hosts.push(host.clone());
        }
        Self::Drained(Drained { hosts, home })
    }

    /// What is left of it when a host is back and the VM is on another, or that one: nothing if it is at home and no other is drained.
    pub fn returning(&self, host: &HostName, now_on: &HostName) -> Option<Self> {
        let (hosts, home) = match self {
            Self::Drained(Drained { hosts, home }) => (hosts.as_slice(), home),
            Self::From(home) => (&[][..], home),
            Self::Retired => return Some(Self::Retired),
        };
        let hosts: Vec<HostName> = hosts.iter().filter(|one| *one != host).cloned().collect();
        match (hosts.is_empty(), now_on == home) {
            (true, true) => None,
            (true, false) => Some(Self::From(home.clone())),
            (false, _) => Some(Self::Drained(Drained { hosts, home: home.clone() })),
        }
    }

    /// Hosts that were drained and are not back.
    pub fn drained(&self) -> &[HostName] {
        match self {
            Self::Drained(Drained { hosts, .. }) => hosts,
            Self::From(_) | Self::Retired => &[],
        }
    }

    /// Where the VM was before it was moved.
    pub fn home(&self) -> Option<&HostName> {
        match self {
            Self::Drained(Drained { home, .. }) | Self::From(home) => Some(home),
            Self::Retired => None,
        }
    }
}

impl Drained {
    /// For which of them a VM is off that is on this host.
    pub fn stopped_for<'a>(&'a self, on: &'a HostName) -> &'a HostName {
        if self.hosts.contains(on) { on } else { self.hosts.last().unwrap_or(on) }
    }

    fn parse(text: &str) -> Option<Self> {
        let (hosts, home) = text.split_once(HOME).map_or((text, None), |(hosts, home)| (hosts, Some(home)));
        let hosts: Vec<HostName> =
            hosts.split(AND).map(|host| HostName::parse(host).ok()).collect::<Option<_>>()?;
        let home = match home {
            Some(home) => HostName::parse(home).ok()?,
            None => hosts.first()?.clone(),
        };
        Some(Self { hosts, home })
    }
}

impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hosts, home } = self;
        for (index, host) in hosts.iter().enumerate() {
            if index > 0 {
                write!(f, "{AND}")?;
            }
            write!(f, "{host}")?;
        }
        if hosts.first() == Some(home) { Ok(()) } else { write!(f, "{HOME}{home}") }
    }
}

impl fmt::Display for AwayWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drained(drained) => write!(f, "drained/{drained}"),
            Self::From(host) => write!(f, "from/{host}"),
            Self::Retired => f.write_str("retired"),
        }
    }
}

impl Mark {
    /// A mark that says whose a VM is and nothing else.
    pub fn new(
        uid: ClusterUid,
        cluster: ClusterName,
        node: NodeName,
        vmid: VmId,
        incarnation: impl Into<String>,
    ) -> Self {
        let incarnation = incarnation.into();
        let (bootstrap, lease, away, others) = (None, None, None, Vec::new());
        let (configured, shelf) = (false, false);
        Self { uid, cluster, node, vmid, incarnation, bootstrap, lease, away, configured, shelf, others }
    }

    /// Reads one line.
    pub fn parse(line: &str) -> Result<Self, Invalid> {
        Self::read(line).ok_or_else(|| {
            Invalid::new("a mark", line, "talmox:v1 uid=… cluster=… node=… vmid=… incarnation=…")
        })
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        if words.next() != Some(PREFIX) {
            return None;
        }
        let mut value = |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=');
        let mut mark = Self::new(
            ClusterUid::parse(value("uid")?).ok()?,
            ClusterName::parse(value("cluster")?).ok()?,
            NodeName::parse(value("node")?).ok()?,
            VmId::try_from(value("vmid")?.parse::<u32>().ok()?).ok()?,
            value("incarnation").filter(|text| !text.is_empty())?,
        );
        for word in words.filter(|word| !word.is_empty()) {
            mark.add(word);
        }
        Some(mark)
    }

    /// Takes one of the words that need not be there.
    fn add(&mut self, word: &str) {
        let bootstrap = word.strip_prefix("bootstrap=").and_then(BootstrapWord::parse);
        let lease = word.strip_prefix("lease=").and_then(LeaseWord::parse);
        let away = word.strip_prefix("away=").and_then(AwayWord::parse);
        match (bootstrap, lease, away) {
            (Some(bootstrap), ..) => self.bootstrap = Some(bootstrap),
            (_, Some(lease), _) => self.lease = Some(lease),
            (.., Some(away)) => self.away = Some(away),
            (None, None, None) if word == CONFIGURED => self.configured = true,
            (None, None, None) if word == SHELF => self.shelf = true,
            (None, None, None) => self.others.push(word.to_owned()),
        }
    }

    /// A description with this mark, as its last line, in place of the one it has; every other byte stays. Of marks that differ
    /// none is taken away.
    pub fn in_description(&self, description: &str) -> String {
        if Self::of_description(description).is_none() {
            let text = description.trim_end();
            return if text.is_empty() { self.to_string() } else { format!("{text}\n{self}") };
        }
        let is_mark = |line: &&str| Self::parse(line.trim()).is_ok();
        let mut others: String = description.split_inclusive('\n').filter(|line| !is_mark(line)).collect();
        if !others.is_empty() && !others.ends_with('\n') {
            others.push('\n');
        }
        format!("{others}{self}")
    }

    /// The mark in a description: the one line that is one, wherever it stands. People write above it, and below.
    pub fn of_description(description: &str) -> Option<Self> {
        let mut marks = Self::all(description);
        let mark = marks.next()?;
        marks.all(|other| other == mark).then_some(mark)
    }

    /// The marks of a description that has several which differ: which of them is right cannot be told.
    pub fn contradictory(description: &str) -> Vec<Self> {
        let mut marks: Vec<Self> = Self::all(description).collect();
        marks.dedup();
        if marks.len() > 1 { marks } else { Vec::new() }
    }

    fn all(description: &str) -> impl Iterator<Item = Self> {
        description.lines().filter_map(|line| Self::parse(line.trim()).ok())
    }

    /// What the VM is called: like its node, unless it only holds disks of it.
    pub fn vm_name(&self) -> String {
        if self.shelf { shelf_name(&self.node) } else { self.node.to_string() }
    }

    /// The serial number of the second witness, which the Proxmox cloud controller reads too.
    pub fn witness_serial(&self) -> String {
        format!("h={};i={}", self.node, self.vmid)
    }

    /// The same with the place a machine fetches its configuration from when it boots: Talos reads that from the serial
    /// number too.
    pub fn witness_serial_from(&self, url: &str) -> String {
        format!("{}{SOURCE}{url}", self.witness_serial())
    }

    /// The family of the second witness.
    pub fn witness_family(&self) -> String {
        format!("{}.{}", self.uid, self.incarnation)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, cluster, node, vmid, incarnation, bootstrap, lease, away, configured, shelf, others } =
            self;
        write!(f, "{PREFIX} uid={uid} cluster={cluster} node={node} vmid={vmid} incarnation={incarnation}")?;
        if let Some(bootstrap) = bootstrap {
            write!(f, " bootstrap={bootstrap}")?;
        }
        if let Some(lease) = lease {
            write!(f, " lease={lease}")?;
        }
        if let Some(away) = away {
            write!(f, " away={away}")?;
        }
        if *configured {
            write!(f, " {CONFIGURED}")?;
        }
        if *shelf {
            write!(f, " {SHELF}")?;
        }
        others.iter().try_for_each(|word| write!(f, " {word}"))
    }
}

text_conversions!(Mark);

/// What a VM is called that holds disks of a node while the node's own VM is built anew.
pub fn shelf_name(node: &NodeName) -> String {
    let name = format!("{node}{SHELF_NAME}");
    if name.len() <= NAME_LENGTH { name } else { node.to_string() }
}

/// What follows the witness in the serial number of a machine that fetches its configuration.
const SOURCE: &str = ";ds=nocloud-net;s=";

/// A VM's serial number taken apart: what may be a witness, and where its machine fetches its configuration from. The latter
/// is a secret: whoever knows it can fetch the same.
pub fn split_serial(serial: &str) -> (&str, Option<&str>) {
    serial.split_once(SOURCE).map_or((serial, None), |(witness, url)| (witness, Some(url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "talmox:v1 uid=0123456789abcdef cluster=home node=cp-1 vmid=2000 incarnation=a1";

    #[test]
    fn the_mark_is_a_line_of_the_notes() {
        let mark = Mark::of_description(&format!("notes of mine\n\n{LINE}\n")).unwrap();
        assert_eq!(mark.to_string(), LINE);
        assert_eq!(mark.witness_serial(), "h=cp-1;i=2000");
        assert_eq!(mark.witness_family(), "0123456789abcdef.a1");
        let with_source = mark.witness_serial_from("https://here/t/");
        assert_eq!(with_source, "h=cp-1;i=2000;ds=nocloud-net;s=https://here/t/");
        assert_eq!(split_serial(&with_source), ("h=cp-1;i=2000", Some("https://here/t/")));
        assert_eq!(split_serial("h=cp-1;i=2000"), ("h=cp-1;i=2000", None));
        assert_eq!(Mark::of_description(&format!("{LINE}\nsomething below")).as_ref(), Some(&mark));
        assert!(Mark::of_description(&format!("mine: {LINE}")).is_none());
    }

    #[test]
    fn words_that_need_not_be_there_are_read_and_those_of_others_kept() {
        let line = format!("{LINE} bootstrap=a1/done lease=ann.laptop-7@1767225600 later=x lease=?");
        let mark = Mark::parse(&line).unwrap();
        assert_eq!(
            mark.bootstrap,
            Some(BootstrapWord { incarnation: "a1".to_owned(), done: true, snapshot: None })
        );
        assert_eq!(mark.lease, Some(LeaseWord { holder: "ann.laptop-7".to_owned(), renewed: 1_767_225_600 }));
        assert_eq!(mark.others, ["later=x", "lease=?"]);
        assert_eq!(mark.to_string(), line);
        let intent = Mark::parse(&format!("{LINE} bootstrap=a1")).unwrap();
        assert!(intent.bootstrap.is_some_and(|word| !word.done));
        let line = format!("{LINE} bootstrap=a1/from-0123456789abcdef/done");
        let restored = Mark::parse(&line).unwrap();
        let word = restored.bootstrap.as_ref().unwrap();
        assert_eq!((word.snapshot.as_deref(), word.done), (Some("0123456789abcdef"), true));
        assert_eq!(restored.to_string(), line);
        assert_eq!(LeaseWord::holder("ann@the laptop"), "ann-the-laptop");
    }

    #[test]
    fn why_a_vm_is_away_is_in_its_mark() {
        let host = |name: &str| HostName::parse(name).unwrap();
        let drained = |hosts: &[&str], home: &str| {
            AwayWord::Drained(Drained {
                hosts: hosts.iter().map(|one| host(one)).collect(),
                home: host(home),
            })
        };
        for (word, away) in [
            ("away=retired", AwayWord::Retired),
            ("away=drained/pve1", drained(&["pve1"], "pve1")),
            ("away=drained/pve1+pve2", drained(&["pve1", "pve2"], "pve1")),
            ("away=drained/pve2/from/pve1", drained(&["pve2"], "pve1")),
            ("away=from/pve1", AwayWord::From(host("pve1"))),
        ] {
            let mark = Mark::parse(&format!("{LINE} {word}")).unwrap();
            assert_eq!(mark.away, Some(away));
            assert_eq!(mark.to_string(), format!("{LINE} {word}"));
        }
        for unknown in ["elsewhere", "drained/", "drained/pve1+", "drained/pve1/from/"] {
            let mark = Mark::parse(&format!("{LINE} away={unknown}")).unwrap();
            assert_eq!((mark.away, mark.others.len()), (None, 1), "{unknown}");
        }
    }

    #[test]
    fn a_vm_that_two_hosts_sent_away_knows_its_home() {
        let [one, two, three] = ["pve1", "pve2", "pve3"].map(|name| HostName::parse(name).unwrap());
        let first = AwayWord::draining(None, &one);
        let second = AwayWord::draining(Some(&first), &two);
        assert_eq!((second.drained(), second.home()), ([one.clone(), two.clone()].as_slice(), Some(&one)));
        assert_eq!(AwayWord::draining(Some(&second), &two), second, "asked for again");
        // The second is back: it is not where it belongs.
        assert_eq!(second.returning(&two, &three), Some(first.clone()));
        // The first is back, and it is at home: the second is still drained.
        let home = second.returning(&one, &one).unwrap();
        assert_eq!((home.to_string().as_str(), home.home()), ("drained/pve2/from/pve1", Some(&one)));
        assert_eq!(home.returning(&two, &one), None);
        // It stays where it is, and is at home there when that host is drained.
        let stays = first.returning(&one, &three).unwrap();
        assert_eq!((stays.clone(), stays.drained().len()), (AwayWord::From(one), 0));
        assert_eq!(AwayWord::draining(Some(&stays), &three).home(), Some(&three));
    }

    #[test]
    fn a_vm_that_only_holds_disks_says_so() {
        let line = format!("{LINE} shelf");
        let mark = Mark::parse(&line).unwrap();
        assert!(mark.shelf && mark.others.is_empty());
        assert_eq!((mark.to_string(), mark.vm_name()), (line, "cp-1-kept".to_owned()));
        assert_eq!(Mark::parse(LINE).unwrap().vm_name(), "cp-1");
    }

    #[test]
    fn a_vm_whose_machine_has_answered_says_so() {
        let line = format!("{LINE} bootstrap=a1/done configured later=x");
        let mark = Mark::parse(&line).unwrap();
        assert!(mark.configured);
        assert_eq!((mark.others.as_slice(), mark.to_string()), (["later=x".to_owned()].as_slice(), line));
        assert!(!Mark::parse(LINE).unwrap().configured);
        // Whatever is built anew, under whichever id, begins without it.
        let anew = Mark::new(mark.uid, mark.cluster, mark.node, mark.vmid, "b2");
        assert!(!anew.configured);
    }

    #[test]
    fn a_mark_takes_the_place_of_another_below_what_people_wrote() {
        let mut mark = Mark::parse(LINE).unwrap();
        mark.bootstrap = Some(BootstrapWord { incarnation: "a1".to_owned(), done: false, snapshot: None });
        let with = mark.in_description(&format!("mine\n\n  too \n{LINE}\n"));
        assert_eq!(with, format!("mine\n\n  too \n{LINE} bootstrap=a1"));
        assert_eq!(mark.in_description(LINE), mark.to_string());
        assert_eq!(mark.in_description(""), mark.to_string());
        assert_eq!(mark.in_description("mine"), format!("mine\n{mark}"));
        // What was typed below it is above it then, byte for byte.
        let below = format!("mine\r\n\n{LINE}\r\n  more \n\nand the end");
        assert_eq!(mark.in_description(&below), format!("mine\r\n\n  more \n\nand the end\n{mark}"));
        assert_eq!(mark.in_description(&format!("{LINE}\nbelow\n{LINE}\n")), format!("below\n{mark}"));
    }

    #[test]
    fn of_two_marks_that_differ_none_counts() {
        let other = LINE.replace("node=cp-1 vmid=2000", "node=cp-2 vmid=2001");
        let both = format!("{LINE}\n{other}");
        assert!(Mark::of_description(&both).is_none());
        assert_eq!(Mark::contradictory(&both).len(), 2);
        assert!(Mark::contradictory(&format!("{LINE}\n{LINE}")).is_empty());
        let mark = Mark::parse(LINE).unwrap();
        assert_eq!(mark.in_description(&both), format!("{both}\n{LINE}"), "nothing is lost");
    }

    #[test]
    fn half_a_mark_is_none() {
        for bad in
            ["", "talmox:v1", &LINE[..LINE.len() - 2], &LINE.replace("v1", "v2"), &LINE.replace("2000", "20")]
        {
            assert!(Mark::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn who_has_left_its_cluster_stays_so_whatever_becomes_of_its_host() {
        let host = HostName::parse("pve1").unwrap();
        assert_eq!(AwayWord::draining(Some(&AwayWord::Retired), &host), AwayWord::Retired);
        assert_eq!(AwayWord::Retired.returning(&host, &host), Some(AwayWord::Retired));
    }
}
