//! etcd and its members, and what to do where something is wrong.

use anstyle::Style;
use serde::Serialize;
use talmox_exec::etcd::Etcd;
use talmox_talos::{Alarm, EtcdHealth};
use talmox_types::NodeName;

use super::plan_text::{RED, YELLOW};
use super::table::{Cell, table};
use super::text::{listed, padded, safe, size, width};
use crate::printer::{DIM, GREEN};

/// Something that is wrong with etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "trouble", rename_all = "snake_case")]
pub(crate) enum Trouble {
    /// More than half of the members do not answer: nothing can be decided any more.
    NoQuorum { answering: Vec<NodeName> },
    /// A member that nobody answers for; one that is not described was not asked.
    LostMember { member: String, declared: bool },
    /// A database is as large as it may be: nothing can be written.
    NoSpace { member: String },
    /// A member's data differs from that of the others.
    Corrupt { member: String },
}

/// What is wrong, worst first.
pub(crate) fn troubles<'n>(
    etcd: &Etcd,
    declared: &(impl Iterator<Item = &'n NodeName> + Clone),
) -> Vec<Trouble> {
    if etcd.is_there() && !etcd.has_quorum() {
        let answering = etcd.nodes.iter().filter(|(_, health)| health.is_ok());
        return vec![Trouble::NoQuorum { answering: answering.map(|(node, _)| node.clone()).collect() }];
    }
    let lost = etcd.lost().into_iter().map(|member| {
        let declared = declared.clone().any(|node| node.as_str() == member);
        Trouble::LostMember { member, declared }
    });
    let alarms = etcd.alarms.iter().map(|(id, alarm)| {
        let member = etcd.name_of(*id);
        match alarm {
            Alarm::NoSpace => Trouble::NoSpace { member },
            Alarm::Corrupt => Trouble::Corrupt { member },
        }
    });
    lost.chain(alarms).collect()
}

impl Trouble {
    fn words(&self) -> String {
        match self {
            Self::NoQuorum { answering } => {
                let names: Vec<String> = answering.iter().map(ToString::to_string).collect();
                format!(
                    "etcd has lost its quorum: only {} {}, and nothing can be written any more",
                    listed(&names),
                    if names.len() == 1 { "answers" } else { "answer" }
                )
            }
            Self::LostMember { member, declared: true } => {
                format!("etcd counts {} as a member, and it does not answer", safe(member))
            }
            Self::LostMember { member, declared: false } => {
                format!("etcd counts {} as a member, which is not described and was not asked", safe(member))
            }
            Self::NoSpace { member } => {
                format!("etcd on {} is out of space (NOSPACE), and nothing can be written", safe(member))
            }
            Self::Corrupt { member } => {
                format!("etcd on {} has other data than the others (CORRUPT)", safe(member))
            }
        }
    }

    /// Commands, and what they are for.
    fn remedies(&self, flags: &str) -> Vec<(String, &'static str)> {
        let command = |verb: &str| format!("talmox {verb}{flags}");
        match self {
            Self::NoQuorum { .. } => vec![
                (command("apply"), "starts VMs that are off: with their data back nothing is lost"),
                (command("etcd snapshot etcd.snapshot"), "keeps what is left, before anything else is done"),
                (
                    command("apply --restore etcd.snapshot --quorum-lost"),
                    "if the others are gone for good: etcd begins anew with what was kept",
                ),
            ],
            Self::LostMember { member, declared: true } => vec![
                (command("apply"), "starts its VM if that is off; after host drain, host return does"),
                (command(&format!("apply --replace {member}")), "builds it anew if it is gone for good"),
            ],
            Self::LostMember { member, declared: false } => {
                vec![(
                    command(&format!("apply --remove {member}")),
                    "takes it out of etcd; or describe it, if it is to stay",
                )]
            }
            Self::NoSpace { .. } => vec![
                (command("etcd snapshot etcd.snapshot"), "keeps what there is, before anything else is done"),
                (command("etcd defrag --disarm"), "gives back what is not in use, and takes the alarm back"),
            ],
            Self::Corrupt { member } => vec![
                (command("etcd snapshot etcd.snapshot"), "keeps what another member has"),
                (
                    "talosctl etcd alarm disarm".to_owned(),
                    "while the alarm stands etcd takes and gives nothing, and no member may go",
                ),
                (
                    command(&format!("apply --replace {member}")),
                    "right after: builds it anew from the others' data",
                ),
            ],
        }
    }
}

/// What is wrong and what to type, below a table.
pub(super) fn advice(troubles: &[Trouble], flags: &str) -> String {
    let mut text = String::new();
    for trouble in troubles {
        text.push_str(&format!("\n{RED}{}{RED:#}\n", trouble.words()));
        let remedies = trouble.remedies(flags);
        let width = width(remedies.iter().map(|(command, _)| command.as_str()));
        for (command, what) in remedies {
            text.push_str(&format!("  {}  {DIM}{what}{DIM:#}\n", padded(&command, width)));
        }
    }
    text
}

/// etcd for programs.
#[derive(Serialize)]
pub(crate) struct EtcdData {
    format: &'static str,
    cluster: String,
    quorum: bool,
    leader: Option<NodeName>,
    nodes: Vec<NodeData>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    troubles: Vec<Trouble>,
}

#[derive(Serialize)]
struct NodeData {
    node: NodeName,
    #[serde(flatten)]
    member: Option<MemberData>,
    /// Why it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct MemberData {
    /// In hexadecimal digits, as etcd shows it.
    member: String,
    version: String,
    database_bytes: u64,
    used_bytes: u64,
    leads: bool,
    learner: bool,
    raft_term: u64,
    raft_index: u64,
    applied_index: u64,
    alarms: Vec<&'static str>,
    errors: Vec<String>,
}

impl EtcdData {
    pub(crate) fn new<'n>(
        cluster: &str,
        etcd: &Etcd,
        declared: &(impl Iterator<Item = &'n NodeName> + Clone),
    ) -> Self {
        let nodes = etcd.nodes.iter().map(|(node, health)| NodeData {
            node: node.clone(),
            member: health.as_ref().ok().map(|health| MemberData::new(health, etcd)),
            error: health.as_ref().err().cloned(),
        });
        Self {
            format: "talmox.etcd/v1",
            cluster: cluster.to_owned(),
            quorum: etcd.has_quorum(),
            leader: etcd.leader().cloned(),
            nodes: nodes.collect(),
            troubles: troubles(etcd, declared),
        }
    }
}

impl MemberData {
    fn new(health: &EtcdHealth, etcd: &Etcd) -> Self {
        let alarms = etcd.alarms.iter().filter(|(id, _)| *id == health.id).map(|(_, alarm)| match alarm {
            Alarm::NoSpace => "NOSPACE",
            Alarm::Corrupt => "CORRUPT",
        });
        let EtcdHealth { id, leader, version, database_bytes, used_bytes, .. } = health;
        Self {
            member: id.to_string(),
            version: version.clone(),
            database_bytes: *database_bytes,
            used_bytes: *used_bytes,
            leads: *leader == Some(*id),
            learner: health.is_learner,
            raft_term: health.raft_term,
            raft_index: health.raft_index,
            applied_index: health.applied_index,
            alarms: alarms.collect(),
            errors: health.errors.clone(),
        }
    }
}

/// A line for each control plane, and what to do where something is wrong.
pub(crate) fn etcd_text(data: &EtcdData, flags: &str) -> String {
    let rows = data.nodes.iter().map(|node| match (&node.member, &node.error) {
        (Some(member), _) => member_row(node, member),
        (None, error) => {
            let mut row = vec![Cell::plain(node.node.to_string())];
            row.extend((0..6).map(|_| Cell::plain("–".to_owned())));
            row.push(Cell { text: safe(error.as_deref().unwrap_or_default()), style: RED });
            row
        }
    });
    let titles = ["NODE", "MEMBER", "ETCD", "DATABASE", "IN USE", "TERM", "INDEX", "NOTES"];
    table(&titles, rows) + &advice(&data.troubles, flags)
}

fn member_row(node: &NodeData, member: &MemberData) -> Vec<Cell> {
    let mut notes: Vec<String> = Vec::new();
    notes.extend(member.leads.then(|| "leads".to_owned()));
    notes.extend(member.learner.then(|| "learner, has no vote yet".to_owned()));
    notes.extend(member.alarms.iter().map(|alarm| format!("alarm {alarm}")));
    notes.extend(member.errors.iter().filter(|error| !error.contains("alarm:")).map(|error| safe(error)));
    let behind = member.raft_index.saturating_sub(member.applied_index);
    notes.extend((behind > 0).then(|| format!("{behind} entries behind")));
    let style = if !member.errors.is_empty() || !member.alarms.is_empty() {
        RED
    } else if member.learner {
        YELLOW
    } else {
        GREEN
    };
    vec![
        Cell::plain(node.node.to_string()),
        Cell::plain(member.member.clone()),
        Cell::plain(safe(&member.version)),
        Cell::plain(bytes(member.database_bytes)),
        Cell::plain(bytes(member.used_bytes)),
        Cell::plain(member.raft_term.to_string()),
        Cell::plain(member.raft_index.to_string()),
        noted(&notes.join(", "), style),
    ]
}

/// An empty cell has no style: nothing would be styled at the end of a line.
fn noted(text: &str, style: Style) -> Cell {
    if text.is_empty() { Cell::plain(String::new()) } else { Cell { text: text.to_owned(), style } }
}

/// `20 KiB`.
pub(crate) fn bytes(number: u64) -> String {
    size(talmox_pve::property::DiskSize::from_bytes(number))
}

/// The members for programs.
#[derive(Serialize)]
pub(crate) struct MembersData {
    format: &'static str,
    cluster: String,
    members: Vec<ListedMember>,
}

#[derive(Serialize)]
struct ListedMember {
    /// In hexadecimal digits, as etcd shows it.
    id: String,
    /// Empty for one that has not started yet.
    hostname: String,
    peer_urls: Vec<String>,
    learner: bool,
    /// Whether it answers.
    answers: bool,
    /// Whether it was asked: only control planes of the description are.
    asked: bool,
}

impl MembersData {
    /// None if nobody can tell.
    pub(crate) fn new(cluster: &str, etcd: &Etcd) -> Option<Self> {
        let answers = |id| etcd.nodes.values().flatten().any(|health| health.id == id);
        // One that has no name yet is somebody who joins.
        let asked = |name: &str| name.is_empty() || etcd.nodes.keys().any(|node| node.as_str() == name);
        let members = etcd.members.as_ref()?.iter().map(|member| ListedMember {
            id: member.id.to_string(),
            hostname: member.hostname.clone(),
            peer_urls: member.peer_urls.clone(),
            learner: member.is_learner,
            answers: answers(member.id),
            asked: answers(member.id) || asked(&member.hostname),
        });
        Some(Self {
            format: "talmox.etcd-members/v1",
            cluster: cluster.to_owned(),
            members: members.collect(),
        })
    }
}

pub(crate) fn members_text(data: &MembersData) -> String {
    let rows = data.members.iter().map(|member| {
        let mut notes = Vec::new();
        if member.learner {
            notes.push("learner");
        }
        match (member.answers, member.asked) {
            (true, _) => {}
            (false, true) => notes.push("does not answer"),
            (false, false) => notes.push("not asked: not described"),
        }
        let style = if member.answers || !member.asked { YELLOW } else { RED };
        vec![
            Cell::plain(member.id.clone()),
            Cell::plain(safe(&member.hostname)),
            Cell::plain(safe(&member.peer_urls.join(", "))),
            noted(&notes.join(", "), style),
        ]
    });
    table(&["ID", "HOSTNAME", "PEER", "NOTES"], rows)
}

#[cfg(test)]
mod tests {
    use talmox_talos::{Member, MemberId};

    use super::*;

    fn name(text: &str) -> NodeName {
        NodeName::parse(text).unwrap()
    }

    fn member(id: u64) -> EtcdHealth {
        EtcdHealth {
            id: MemberId(id),
            leader: Some(MemberId(1)),
            version: "3.6.16".to_owned(),
            database_bytes: 3 << 20,
            used_bytes: 1 << 20,
            raft_term: 2,
            raft_index: 100,
            applied_index: 100,
            is_learner: false,
            errors: Vec::new(),
        }
    }

    fn three() -> Etcd {
        let listed = |(id, hostname): (u64, &str)| Member {
            id: MemberId(id),
            hostname: hostname.to_owned(),
            peer_urls: vec![format!("https://10.0.7.1{id}:2380")],
            is_learner: false,
        };
        Etcd {
            nodes: [
                (name("cp-1"), Ok(member(1))),
                (name("cp-2"), Ok(member(2))),
                (name("cp-3"), Ok(member(3))),
            ]
            .into(),
            members: Some([(1, "cp-1"), (2, "cp-2"), (3, "cp-3")].map(listed).to_vec()),
            alarms: Vec::new(),
        }
    }

    fn shown(etcd: &Etcd) -> String {
        let declared = [name("cp-1"), name("cp-2"), name("cp-3")];
        let text = etcd_text(&EtcdData::new("lab", etcd, &declared.iter()), " -f lab");
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn all_is_well() {
        insta::assert_snapshot!(shown(&three()));
    }

    #[test]
    fn a_member_that_is_lost() {
        let mut etcd = three();
        etcd.nodes.insert(name("cp-3"), Err("no answer within 5 s".to_owned()));
        insta::assert_snapshot!(shown(&etcd));
        let members = members_text(&MembersData::new("lab", &etcd).unwrap());
        insta::assert_snapshot!(anstream::adapter::strip_str(&members).to_string());
    }

    #[test]
    fn no_space_left() {
        let mut etcd = three();
        etcd.alarms = vec![(MemberId(2), Alarm::NoSpace)];
        insta::assert_snapshot!(shown(&etcd));
    }

    #[test]
    fn no_quorum_left() {
        let mut etcd = three();
        let alone =
            EtcdHealth { leader: None, errors: vec!["etcdserver: no leader".to_owned()], ..member(1) };
        etcd.nodes.insert(name("cp-1"), Ok(alone));
        for lost in ["cp-2", "cp-3"] {
            etcd.nodes.insert(name(lost), Err("no answer within 5 s".to_owned()));
        }
        etcd.members = None;
        insta::assert_snapshot!(shown(&etcd));
        assert!(MembersData::new("lab", &etcd).is_none());
    }

    #[test]
    fn nobody_asked_a_member_that_is_not_described() {
        let mut etcd = three();
        etcd.nodes.remove(&name("cp-3"));
        let members = members_text(&MembersData::new("lab", &etcd).unwrap());
        assert!(members.contains("not asked: not described"), "{members}");
        let declared = [name("cp-1"), name("cp-2")];
        let text = etcd_text(&EtcdData::new("lab", &etcd, &declared.iter()), " -f lab");
        assert!(text.contains("cp-3 as a member, which is not described and was not asked"), "{text}");
        assert!(text.contains("talmox apply --remove cp-3 -f lab"), "{text}");
    }

    #[test]
    fn a_member_whose_data_differs() {
        let mut etcd = three();
        etcd.alarms = vec![(MemberId(2), Alarm::Corrupt)];
        let text = shown(&etcd);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{text}"));
        assert!(at("talosctl etcd alarm disarm") < at("talmox apply --replace cp-2 -f lab"), "{text}");
    }
}
