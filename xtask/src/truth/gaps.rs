//! What happened between the recorded pairs: the recordings leave out clean-ups and what an administrator did on the host,
//! but later replies prove it. Every such assumption is listed in the report.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use talmox_sim::{FileFacts, Reach, World};

use super::data::Pair;
use super::evidence::{Lock, Sightings, locks, noted_lock, noted_reach, reaches};

/// Removals of VMs that a later create or clone of the same id proves, by the pair they come before.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    removals: BTreeMap<usize, Vec<u32>>,
    last_mention: BTreeMap<u32, usize>,
    /// The last request that says anything of a name, by number; all requests as text.
    requests: Vec<(usize, String)>,
    pools: Vec<(usize, String)>,
    /// Snippets of listings: no call can write them, so somebody put them there before they were first named.
    snippets: BTreeMap<String, (usize, u64)>,
    exits: BTreeMap<String, String>,
    /// Locks that were set from outside and are still there.
    outside_locks: BTreeSet<u32>,
    lock_sightings: Sightings<u32, Lock>,
    reach_sightings: Sightings<String, Reach>,
    /// Pairs whose own reply alone tells what was done before them.
    self_evident: BTreeSet<usize>,
}

fn request_text(pair: &Pair) -> String {
    format!("{} {}", pair.request.path, pair.request.params)
}

/// The pool a request names.
fn named_pool(pair: &Pair) -> Option<String> {
    let by_path = match pair.parts()[..] {
        ["pools", pool] => Some(pool.to_owned()),
        _ => None,
    };
    by_path.or_else(|| pair.param("poolid")).or_else(|| pair.param("pool"))
}

/// The VMs a request names.
fn mentions(pair: &Pair) -> BTreeSet<u32> {
    let mut found: BTreeSet<u32> = pair.vm().into_iter().chain(pair.claims()).collect();
    found.extend(pair.param("vmid").and_then(|text| text.parse::<u32>().ok()));
    if let Some(upid) = pair.request.path.split('/').find(|part| part.starts_with("UPID:")) {
        found.extend(upid.split(':').nth(6).and_then(|id| id.parse::<u32>().ok()));
    }
    found
}

impl Gaps {
    /// Looks through the pairs of one chain, given with their numbers.
    pub(crate) fn find(pairs: &[(usize, &Pair)]) -> Self {
        let mut gaps = Self::default();
        gaps.requests = pairs.iter().map(|(number, pair)| (*number, request_text(pair))).collect();
        gaps.pools = pairs.iter().filter_map(|(number, pair)| Some((*number, named_pool(pair)?))).collect();
        gaps.snippets = gaps.listed_snippets(pairs);
        for (_, pair) in pairs {
            gaps.exits.extend(recorded_exits(pair));
        }
        gaps.self_evident = lonely_agent_answers(pairs);
        gaps.lock_sightings = locks(pairs, &gaps.exits);
        gaps.reach_sightings = reaches(pairs);
        // The last pair that named a VM since it was made, and the clones that carry the target only in their call.
        let mut alive: BTreeMap<u32, usize> = BTreeMap::new();
        let mut targets: BTreeMap<String, u32> = BTreeMap::new();
        for (number, pair) in pairs {
            let upid = pair.request.path.split('/').find(|part| part.starts_with("UPID:"));
            let target = upid.and_then(|upid| targets.get(upid)).copied();
            for vmid in mentions(pair).into_iter().chain(target) {
                gaps.last_mention.insert(vmid, *number);
                let claimed_anew =
                    pair.claims() == Some(vmid) && pair.new_task().is_some() && !pair.is_parallel();
                match alive.get_mut(&vmid) {
                    Some(last) if claimed_anew => {
                        gaps.removals.entry(*last + 1).or_default().push(vmid);
                        // That the create went well is told by the pairs that read its task, or by it alone.
                        if pair.new_task().is_some_and(|upid| !gaps.exits.contains_key(upid)) {
                            gaps.self_evident.insert(*number);
                        }
                    }
                    Some(last) => *last = *number,
                    None => {}
                }
            }
            if let (Some(vmid), Some(upid)) = (pair.claims(), pair.new_task()) {
                targets.insert(upid.to_owned(), vmid);
                let failed = gaps.exits.get(upid).is_some_and(|exit| exit != "OK");
                if failed {
                    alive.remove(&vmid);
                } else {
                    alive.insert(vmid, *number);
                }
            }
            let deleted =
                pair.request.method == "DELETE" && pair.parts().len() == 4 && pair.new_task().is_some();
            if let (true, Some(vmid)) = (deleted, pair.vm()) {
                let done =
                    pair.new_task().and_then(|upid| gaps.exits.get(upid)).is_none_or(|exit| exit == "OK");
                if done {
                    alive.remove(&vmid);
                }
            }
        }
        gaps
    }

    /// How the recorded task ended.
    pub(crate) fn exit_of(&self, upid: &str) -> Option<&str> {
        self.exits.get(upid).map(String::as_str)
    }

    /// Brings the world to where the recorded server stood before this pair.
    pub(crate) fn fill(&mut self, number: usize, pair: &Pair, world: &mut World) -> Vec<String> {
        let mut said = Vec::new();
        for vmid in self.removals.remove(&number).unwrap_or_default() {
            if world.has_vm(vmid) {
                world.remove_vm(vmid);
                said.push(format!("VM {vmid} was removed"));
            }
        }
        let mut by_reply = self.removed_by_listing(number, pair, world);
        by_reply.extend(self.pools_gone(number, pair, world));
        by_reply.extend(self.volumes_gone(number, pair, world));
        if !by_reply.is_empty() {
            self.self_evident.insert(number);
        }
        said.extend(by_reply);
        said.extend(self.snippets(number, pair, world));
        said.extend(self.locks(number, pair, world));
        said.extend(self.reach(number, pair, world));
        said
    }

    /// A listing without a VM that nobody names again proves that it is gone.
    fn removed_by_listing(&self, number: usize, pair: &Pair, world: &mut World) -> Vec<String> {
        let lists_vms = match pair.parts()[..] {
            ["nodes", _, "qemu"] => pair.request.method == "GET",
            ["cluster", "resources"] => pair.param("type").is_none_or(|kind| kind == "vm"),
            _ => false,
        };
        let Some(entries) = pair.response.body["data"].as_array().filter(|_| lists_vms) else {
            return Vec::new();
        };
        // Who sees no VM at all may lack the right to.
        let listed: BTreeSet<u64> = entries.iter().filter_map(|entry| entry["vmid"].as_u64()).collect();
        if listed.is_empty() {
            return Vec::new();
        }
        let done = self
            .last_mention
            .iter()
            .filter(|(vmid, last)| **last < number && !listed.contains(&u64::from(**vmid)));
        let gone: Vec<u32> = done.map(|(vmid, _)| *vmid).filter(|vmid| world.has_vm(*vmid)).collect();
        for vmid in &gone {
            world.remove_vm(*vmid);
        }
        gone.iter().map(|vmid| format!("VM {vmid} was removed (a listing lacks it)")).collect()
    }

    fn named_later(&self, number: usize, name: &str) -> bool {
        self.requests.iter().any(|(at, text)| *at > number && text.contains(name))
    }

    /// Pools are cleaned up like VMs.
    fn pools_gone(&self, number: usize, pair: &Pair, world: &mut World) -> Vec<String> {
        let key = match pair.parts()[..] {
            ["pools"] if pair.request.method == "GET" && pair.param("poolid").is_none() => "poolid",
            ["cluster", "resources"] if pair.param("type").is_none() => "pool",
            _ => return Vec::new(),
        };
        let entries = pair.response.body["data"].as_array().into_iter().flatten();
        let listed: BTreeSet<&str> = entries.filter_map(|entry| entry[key].as_str()).collect();
        let lacking = world.pools.keys().filter(|pool| !listed.is_empty() && !listed.contains(pool.as_str()));
        let named = |pool: &&String| self.pools.iter().any(|(at, name)| *at > number && name == *pool);
        let gone: Vec<String> = lacking.filter(|pool| !named(pool)).cloned().collect();
        for pool in &gone {
            world.pools.remove(pool);
        }
        gone.iter().map(|pool| format!("pool '{pool}' was removed (a listing lacks it)")).collect()
    }

    /// A whole listing of a storage without a file that nobody names again proves that it was removed.
    fn volumes_gone(&self, number: usize, pair: &Pair, world: &mut World) -> Vec<String> {
        let (["nodes", node, "storage", storage, "content"], "GET") =
            (&pair.parts()[..], pair.request.method.as_str())
        else {
            return Vec::new();
        };
        let Some(entries) = pair.response.body["data"].as_array() else { return Vec::new() };
        let filtered = pair.param("content").is_some() || pair.param("vmid").is_some();
        let listed: BTreeSet<&str> = entries.iter().filter_map(|entry| entry["volid"].as_str()).collect();
        if filtered || listed.is_empty() {
            return Vec::new();
        }
        let sees_disks = entries.iter().any(|entry| entry["vmid"].is_number());
        let mut said = Vec::new();
        for (volid, owner) in world.volume_ids(node, storage) {
            if listed.contains(volid.as_str())
                || self.snippets.contains_key(&volid)
                || self.named_later(number, &volid)
            {
                continue;
            }
            match owner {
                None => {
                    world.remove_file(node, &volid);
                    said.push(format!("{volid} was removed (a listing lacks it)"));
                }
                Some(vmid)
                    if sees_disks && self.last_mention.get(&vmid).is_none_or(|last| *last < number) =>
                {
                    if world.has_vm(vmid) {
                        world.remove_vm(vmid);
                        said.push(format!("VM {vmid} was removed (a listing lacks its disk)"));
                    }
                }
                Some(_) => {}
            }
        }
        said
    }

    fn listed_snippets(&self, pairs: &[(usize, &Pair)]) -> BTreeMap<String, (usize, u64)> {
        let mut found = BTreeMap::new();
        for (number, pair) in pairs {
            let entries = pair.response.body["data"].as_array().into_iter().flatten();
            for entry in entries.filter(|entry| entry["content"] == "snippets") {
                let Some(volid) = entry["volid"].as_str() else { continue };
                let first = self
                    .requests
                    .iter()
                    .find(|(_, text)| text.contains(volid))
                    .map_or(*number, |(at, _)| *at);
                found
                    .entry(volid.to_owned())
                    .or_insert((first.min(*number), entry["size"].as_u64().unwrap_or_default()));
            }
        }
        found
    }

    fn snippets(&mut self, number: usize, pair: &Pair, world: &mut World) -> Vec<String> {
        let node = pair.host().unwrap_or_default().to_owned();
        let mut said = Vec::new();
        let listed = pair.response.body["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (volid, (first, size)) in self.snippets.iter().filter(|(_, (first, _))| *first == number) {
            world.add_file(&node, volid, FileFacts { size: *size, ..FileFacts::default() });
            if listed.iter().any(|entry| entry["volid"] == volid.as_str()) {
                self.self_evident.insert(number);
            }
            said.push(format!("{volid} was put there (first named in #{first})"));
        }
        said
    }

    /// Locks no call can set are set on the host, and taken off there.
    fn locks(&mut self, number: usize, pair: &Pair, world: &mut World) -> Vec<String> {
        let Some(vmid) = pair.vm().filter(|vmid| world.has_vm(*vmid)) else { return Vec::new() };
        let noted = |lock: &Lock| noted_lock(&pair.note, lock);
        let Some(verdict) = self.lock_sightings.judge(&vmid, number, &None, noted) else { return Vec::new() };
        if verdict.self_evident {
            self.self_evident.insert(number);
        }
        match verdict.state {
            Some(lock) if world.lock_of_vm(vmid).is_none() => {
                world.set_lock(vmid, Some(&lock));
                self.outside_locks.insert(vmid);
                vec![format!("lock '{lock}' was set on VM {vmid}")]
            }
            None if self.outside_locks.remove(&vmid) => {
                world.set_lock(vmid, None);
                vec![format!("the lock of VM {vmid} was taken off")]
            }
            _ => Vec::new(),
        }
    }

    /// Whether other hosts answer is part of the environment.
    fn reach(&mut self, number: usize, pair: &Pair, world: &mut World) -> Vec<String> {
        let mut said = Vec::new();
        for (name, node) in &mut world.nodes {
            let noted = |reach: &Reach| noted_reach(&pair.note, *reach);
            let Some(verdict) = self.reach_sightings.judge(name, number, &Reach::Up, noted) else { continue };
            if verdict.self_evident {
                self.self_evident.insert(number);
            }
            if node.reach != verdict.state {
                node.reach = verdict.state;
                said.push(format!("host {name} became {:?}", verdict.state));
            }
        }
        said
    }

    /// This pair's own reply was believed.
    pub(crate) fn believe(&mut self, number: usize) {
        self.self_evident.insert(number);
    }

    /// Is this pair the only one to tell of something that was done for it?
    pub(crate) fn is_self_evident(&self, number: usize) -> bool {
        self.self_evident.contains(&number)
    }
}

/// How tasks ended, as far as this pair shows: a status, the end of a log, or a list.
fn recorded_exits(pair: &Pair) -> Vec<(String, String)> {
    let data = &pair.response.body["data"];
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    if let (Some(upid), Some(exit)) = (text(data, "upid"), text(data, "exitstatus")) {
        return vec![(upid, exit)];
    }
    let entries = data.as_array().map(Vec::as_slice).unwrap_or_default();
    let named = pair.request.path.split('/').find(|part| part.starts_with("UPID:"));
    let last = entries.last().and_then(|line| text(line, "t"));
    if let (Some(upid), Some(line)) = (named, last) {
        let exit = if line == "TASK OK" { Some("OK") } else { line.strip_prefix("TASK ERROR: ") };
        return exit.map(|exit| (upid.to_owned(), exit.to_owned())).into_iter().collect();
    }
    let ended = entries.iter().filter(|entry| entry.get("endtime").is_some());
    ended.filter_map(|entry| Some((text(entry, "upid")?, text(entry, "status")?))).collect()
}

/// What the agent of a VM answered to a command.
fn agent_answer(pair: &Pair) -> Option<(u32, String, &Value)> {
    let (vmid, parts) = (pair.vm()?, pair.parts());
    let ["agent", command] = parts.get(4..)? else { return None };
    Some((vmid, (*command).to_owned(), pair.response.body.pointer("/data/result")?))
}

/// Answers of guest agents the recordings show, by VM.
pub(crate) fn agent_answers(pairs: &[(usize, &Pair)]) -> BTreeMap<u32, BTreeMap<String, Value>> {
    let mut found: BTreeMap<u32, BTreeMap<String, Value>> = BTreeMap::new();
    for (vmid, command, result) in pairs.iter().filter_map(|(_, pair)| agent_answer(pair)) {
        found.entry(vmid).or_default().insert(command, result.clone());
    }
    found
}

/// Pairs that are the only ones to show what an agent answers.
fn lonely_agent_answers(pairs: &[(usize, &Pair)]) -> BTreeSet<usize> {
    let all: Vec<_> =
        pairs.iter().filter_map(|(number, pair)| Some((*number, agent_answer(pair)?))).collect();
    let lonely =
        all.iter().filter(|(_, answer)| all.iter().filter(|(_, other)| other == answer).count() == 1);
    lonely.map(|(number, _)| *number).collect()
}
