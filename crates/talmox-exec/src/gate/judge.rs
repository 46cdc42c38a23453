//! Whether etcd can do without a node, from what every member says. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use talmox_talos::{Member, MemberId};
use talmox_types::NodeName;

/// A control plane, or another member, and what it said a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) name: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) said: Said,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It has no VM, or one that was never finished and so never ran.
    NoMachine,
    /// Its VM does not run.
    Off,
    /// It runs and does not tell.
    Silent(String),
    /// It has no data of etcd.
    Empty,
    Member(Voice),
}

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Voice {
    /// Why it is not well; nothing if it is.
    pub(super) complaint: Option<String>,
    /// Everybody it knows of, if it could be asked.
    pub(super) members: Option<Vec<Member>>,
}

/// A node that is about to go down, and what was decided about it.
pub(super) struct Leaving<'a> {
    pub(super) node: &'a NodeName,
    /// How many control planes are described, and whether it is one of them.
    pub(super) declared: usize,
    pub(super) is_declared: bool,
    pub(super) fate: Fate,
    /// Every control plane is described as stopped: then nobody needs a quorum.
    pub(super) all_stop: bool,
    /// The mark of some VM says that etcd was begun, or was about to be.
    pub(super) begun: bool,
}

/// What becomes of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It comes back with it.
    Returns,
    Gone,
    /// It stays, and answers nobody for a moment.
    Busy,
    /// A snapshot takes the place of what all members have: etcd will never have a majority again, somebody said.
    GivenUp,
    /// It leaves etcd before it goes, so that the others need no vote of its.
    Leaves,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    /// It may become so.
    NotYet(String),
    Never(String),
}

pub(super) fn judge(leaving: &Leaving<'_>, asked: &[Asked]) -> Verdict {
    let own = asked.iter().find(|one| one.name == leaving.node.as_str());
    let (mut known, mut teller): (Option<&[Member]>, &str) = (None, "");
    for one in asked {
        let Some(members) = one.well() else { continue };
        match known {
            None => (known, teller) = (Some(members), &one.name),
            Some(known) if same(known, members) => {}
            Some(_) => {
                return Verdict::NotYet(format!("{teller} and {} disagree about the members", one.name));
            }
        }
    }
    match known {
        Some(members) => without(leaving, own, asked, members),
        None => nobody_tells(leaving, own, asked),
    }
}

/// Whether members that are well list a node; none if there is nobody well enough to say.
pub(super) fn lists(asked: &[Asked], node: &NodeName) -> Option<bool> {
    let own = asked.iter().find(|one| one.name == node.as_str());
    let is_own = |member: &Member| member.hostname == node.as_str() || own.is_some_and(|own| own.is(member));
    let mut lists = asked.iter().filter_map(Asked::well).peekable();
    lists.peek()?;
    Some(lists.any(|members| members.iter().any(is_own)))
}

/// Members that stay where those go that `goes` names.
pub(super) fn staying(asked: &[Asked], goes: impl Fn(&str) -> bool) -> Vec<String> {
    let stays = |member: &&Member| {
        let known = |one: &&Asked| goes(&one.name) && one.is(member);
        !goes(&member.hostname) && asked.iter().find(known).is_none()
    };
    let members = asked.iter().filter_map(Asked::well).flatten();
    members.filter(stays).map(called).collect::<BTreeSet<_>>().into_iter().collect()
}

impl Asked {
    /// The members a member knows that is well.
    fn well(&self) -> Option<&[Member]> {
        match &self.said {
            Said::Member(Voice { complaint: None, members }) => members.as_deref(),
            Said::Member(_) | Said::NoMachine | Said::Off | Said::Silent(_) | Said::Empty => None,
        }
    }

    /// Why it does not count as a member that is well.
    pub(super) fn complaint(&self) -> Option<String> {
        let why = match &self.said {
            Said::Member(Voice { complaint: None, members: Some(_) }) => return None,
            Said::Member(Voice { complaint: Some(why), .. }) => why.clone(),
            Said::Member(Voice { members: None, .. }) => "it does not say who the members are".to_owned(),
            Said::NoMachine => "it has no machine".to_owned(),
            Said::Off => "its VM does not run".to_owned(),
            Said::Silent(reason) => format!("it does not answer: {reason}"),
            Said::Empty => "it has no data of etcd".to_owned(),
        };
        Some(format!("{} is not well: {why}", self.name))
    }

    /// Whether nothing of it is seen to take part in etcd.
    fn has_no_part(&self) -> bool {
        match self.said {
            Said::NoMachine | Said::Off | Said::Silent(_) | Said::Empty => true,
            Said::Member(_) => false,
        }
    }

    fn is(&self, member: &Member) -> bool {
        self.name == member.hostname || peers(member).iter().any(|peer| self.addresses.contains(peer))
    }
}

fn same(one: &[Member], other: &[Member]) -> bool {
    let ids = |members: &[Member]| -> BTreeSet<(MemberId, bool)> {
        members.iter().map(|member| (member.id, member.is_learner)).collect()
    };
    ids(one) == ids(other)
}

/// Of `https://10.0.7.11:2380` or `https://[fd00::1]:2380`.
pub(crate) fn peers(member: &Member) -> Vec<IpAddr> {
    let host = |url: &String| {
        let rest = url.split_once("://")?.1;
        let host = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?.0,
            None => rest.split([':', '/']).next()?,
        };
        host.parse().ok()
    };
    member.peer_urls.iter().filter_map(host).collect()
}

/// A name for people.
fn called(member: &Member) -> String {
    if member.hostname.is_empty() { member.id.to_string() } else { member.hostname.clone() }
}

/// Members are known: all the others that vote must be well, nobody may be joining, and they must be enough.
fn without(leaving: &Leaving<'_>, own: Option<&Asked>, asked: &[Asked], members: &[Member]) -> Verdict {
    let node = leaving.node.as_str();
    let is_own = |member: &&Member| match own {
        Some(own) => own.is(member),
        None => member.hostname == node,
    };
    let Some(own_member) = members.iter().find(is_own) else { return Verdict::Pass };
    if let Some(learner) = members.iter().find(|one| one.is_learner && one.id != own_member.id) {
        return Verdict::NotYet(format!("{} is joining etcd and does not vote yet", called(learner)));
    }
    let others: Vec<&Member> = members.iter().filter(|one| one.id != own_member.id).collect();
    if let Some((name, count)) = doubles(asked, members) {
        return Verdict::NotYet(format!(
            "etcd has {count} members that seem to be {name}, and one machine answers for one of them alone; talmox etcd members \
             shows them"
        ));
    }
    if leaving.fate == Fate::Gone && own.is_some_and(Asked::has_no_part) && most_are_well(&others, asked) {
        return Verdict::Pass;
    }
    for other in &others {
        let complaint = match asked.iter().find(|one| one.is(other)) {
            Some(one) => one.complaint(),
            None => Some(format!("nobody knows how the member {} is", called(other))),
        };
        if let Some(complaint) = complaint {
            return Verdict::NotYet(complaint);
        }
    }
    // One that does not vote takes no vote away.
    if own_member.is_learner {
        return Verdict::Pass;
    }
    let (voters, left) = (others.len() + 1, others.len());
    match left {
        0 => only_member(leaving),
        _ if left > voters / 2 => Verdict::Pass,
        // The vote to let it go is taken while it is still there.
        _ if lets_go(leaving) && own.and_then(Asked::complaint).is_none() => Verdict::Pass,
        _ if leaving.all_stop => Verdict::Pass,
        _ if leaving.declared > voters => Verdict::NotYet(format!(
            "etcd has {voters} members and cannot do without one; others are to join"
        )),
        _ => Verdict::Never(format!(
            "etcd has {voters} members and cannot do without one; with another control plane it could"
        )),
    }
}

/// Whether two members can spare one: it stays, or leaves for good. One that is built anew comes back, and so have others to that
/// are missing: they first.
fn lets_go(leaving: &Leaving<'_>) -> bool {
    match leaving.fate {
        Fate::Busy => true,
        Fate::Leaves => !(leaving.is_declared && leaving.declared > 2),
        Fate::Returns | Fate::Gone | Fate::GivenUp => false,
    }
}

/// Whether those that are well are a majority by themselves. Where two are dead, whoever goes first would have to wait for the
/// other for ever; what is dead takes nothing away.
fn most_are_well(others: &[&Member], asked: &[Asked]) -> bool {
    let is_well = |other: &&&Member| {
        let said = asked.iter().find(|one| one.is(other));
        said.is_some_and(|one| one.complaint().is_none())
    };
    others.iter().filter(is_well).count() > others.len().div_ceil(2)
}

/// A machine that more than one member is taken for: what it says is true of one of them, and the others' votes are nobody's.
fn doubles<'a>(asked: &'a [Asked], members: &[Member]) -> Option<(&'a str, usize)> {
    let count = |one: &Asked| members.iter().filter(|member| one.is(member)).count();
    asked.iter().map(|one| (one.name.as_str(), count(one))).find(|(_, count)| *count > 1)
}

/// Nothing keeps a quorum of one. Where one control plane is all that is described, whoever approved the plan knew.
fn only_member(leaving: &Leaving<'_>) -> Verdict {
    if leaving.fate == Fate::Busy {
        return Verdict::Pass;
    }
    if leaving.fate != Fate::Returns {
        return Verdict::Never(
            "it is the only member of etcd, and the cluster's data would go with it; `talmox destroy` is for a whole \
             cluster"
                .to_owned(),
        );
    }
    if leaving.all_stop || (leaving.declared == 1 && leaving.is_declared) {
        return Verdict::Pass;
    }
    Verdict::NotYet("it is the only member of etcd so far".to_owned())
}

/// No member is well enough to say who the others are.
fn nobody_tells(leaving: &Leaving<'_>, own: Option<&Asked>, asked: &[Asked]) -> Verdict {
    match own.map(|own| &own.said) {
        // Who has no data takes none away.
        Some(Said::Empty | Said::NoMachine) => return Verdict::Pass,
        Some(Said::Off | Said::Silent(_) | Said::Member(_)) | None => {}
    }
    if leaving.fate == Fate::GivenUp || (leaving.all_stop && leaving.fate == Fate::Returns) {
        return Verdict::Pass;
    }
    if leaving.declared == 1 && leaving.is_declared && asked.len() == 1 {
        return only_member(leaving);
    }
    // Before the bootstrap nobody has data: whoever is not described any more cannot take any away.
    let empty = |one: &Asked| matches!(one.said, Said::Empty | Said::NoMachine);
    let mut others = asked.iter().filter(|one| one.name != leaving.node.as_str()).peekable();
    if !leaving.begun && !leaving.is_declared && others.peek().is_some() && others.all(empty) {
        return Verdict::Pass;
    }
    let complaints: Vec<String> = asked.iter().filter_map(Asked::complaint).collect();
    Verdict::NotYet(format!("no member of etcd says how the others are: {}", complaints.join("; ")))
}

#[cfg(test)]
mod tests;
