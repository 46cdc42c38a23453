//! What happened between the recorded pairs: the recordings leave out clean-ups and what an administrator did on the host,
//! but later replies prove it. Every such assumption is listed in the report.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use talmox_sim::{FileFacts, Reach, World};

use super::data::Pair;

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
}

fn request_text(pair: &Pair) -> String {
    format!("{} {}", pair.request.path, pair.request.params)
}

/// What a pair proves of its VM's lock.
enum Lock {
    Held(String),
    Free,
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
                    Some(last) if claimed_anew => gaps.removals.entry(*last + 1).or_default().push(vmid),
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
        said.extend(self.removed_by_listing(number, pair, world));
        said.extend(self.pools_gone(number, pair, world));
        said.extend(self.volumes_gone(number, pair, world));
        said.extend(self.snippets(number, pair, world));
        said.extend(self.locks(pair, world));
        said.extend(reach(pair, world));
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

    fn snippets(&self, number: usize, pair: &Pair, world: &mut World) -> Vec<String> {
        let node = pair.host().unwrap_or_default().to_owned();
        let mut said = Vec::new();
        for (volid, (first, size)) in self.snippets.iter().filter(|(_, (first, _))| *first == number) {
            world.add_file(&node, volid, FileFacts { size: *size, ..FileFacts::default() });
            said.push(format!("{volid} was put there (first named in #{first})"));
        }
        said
    }

    /// Locks no call can set are set on the host; a call that succeeds proves that they are gone.
    fn locks(&mut self, pair: &Pair, world: &mut World) -> Vec<String> {
        let Some(vmid) = pair.vm().filter(|vmid| world.has_vm(*vmid)) else { return Vec::new() };
        match self.lock_evidence(pair) {
            Some(Lock::Held(lock))
                if world.lock_of_vm(vmid).is_none() && !matches!(lock.as_str(), "clone" | "create") =>
            {
                world.set_lock(vmid, Some(&lock));
                self.outside_locks.insert(vmid);
                vec![format!("lock '{lock}' was set on VM {vmid}")]
            }
            Some(Lock::Free) if self.outside_locks.remove(&vmid) => {
                world.set_lock(vmid, None);
                vec![format!("the lock of VM {vmid} was taken off")]
            }
            _ => Vec::new(),
        }
    }

    /// Does this pair prove that its VM is locked (and how), or that it is not?
    fn lock_evidence(&self, pair: &Pair) -> Option<Lock> {
        let locked = |text: &str| {
            let (_, rest) = text.split_once("VM is locked (")?;
            Some(rest.split(')').next()?.to_owned())
        };
        let exit = pair.new_task().and_then(|upid| self.exit_of(upid));
        if let Some(lock) = locked(&pair.response.reason).or_else(|| exit.and_then(locked)) {
            return Some(Lock::Held(lock));
        }
        let parts = pair.parts();
        let reads = matches!(parts[4..], ["config"] | ["status", "current"]) && pair.request.method == "GET";
        if reads && pair.response.status == 200 {
            let lock = pair.response.body.pointer("/data/lock").and_then(Value::as_str);
            return Some(lock.map_or(Lock::Free, |lock| Lock::Held(lock.to_owned())));
        }
        let checks_lock = matches!(
            parts[4..],
            ["config" | "snapshot" | "clone" | "template" | "resize", ..] | ["status", "start"] | []
        );
        let succeeded = exit == Some("OK")
            || (pair.request.method == "PUT" && pair.response.status == 200 && pair.new_task().is_none());
        (checks_lock && succeeded && pair.request.method != "GET").then_some(Lock::Free)
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

/// Whether other hosts answer is part of the environment; the replies of the hop and the cluster's status tell.
fn reach(pair: &Pair, world: &mut World) -> Vec<String> {
    let mut wanted: Vec<(String, Reach)> = Vec::new();
    if let Some(host) = pair.host() {
        match (pair.response.status, pair.response.reason.as_str()) {
            (595, "Connection refused") => wanted.push((host.to_owned(), Reach::ProxyDown)),
            (595, _) => wanted.push((host.to_owned(), Reach::Unreachable)),
            (200, _) => wanted.push((host.to_owned(), Reach::Up)),
            _ => {}
        }
    }
    if let (["cluster", "status"], Some(entries)) = (&pair.parts()[..], pair.response.body["data"].as_array())
    {
        for entry in entries.iter().filter(|entry| entry["type"] == "node") {
            let reach = if entry["online"] == 1 { Reach::Up } else { Reach::Unreachable };
            wanted.extend(entry["name"].as_str().map(|name| (name.to_owned(), reach)));
        }
    }
    if let ["nodes"] | ["cluster", "resources"] = &pair.parts()[..] {
        let entries = pair.response.body["data"].as_array().into_iter().flatten();
        for entry in entries.filter(|entry| entry["type"] == "node") {
            // A host whose API is down still counts as online here.
            let known = entry["node"].as_str().and_then(|name| Some((name, world.nodes.get(name)?.reach)));
            match (known, entry["status"].as_str()) {
                (Some((name, _)), Some("offline")) => wanted.push((name.to_owned(), Reach::Unreachable)),
                (Some((name, Reach::Unreachable)), Some("online")) => {
                    wanted.push((name.to_owned(), Reach::Up));
                }
                _ => {}
            }
        }
    }
    let mut said = Vec::new();
    for (name, reach) in wanted {
        if let Some(node) = world.nodes.get_mut(&name).filter(|node| node.reach != reach) {
            node.reach = reach;
            said.push(format!("host {name} became {reach:?}"));
        }
    }
    said
}

/// Answers of guest agents the recordings show, by VM.
pub(crate) fn agent_answers(pairs: &[(usize, &Pair)]) -> BTreeMap<u32, BTreeMap<String, Value>> {
    let mut found: BTreeMap<u32, BTreeMap<String, Value>> = BTreeMap::new();
    for (_, pair) in pairs {
        let parts = pair.parts();
        if let (["agent", command], Some(vmid), Some(result)) =
            (&parts.get(4..).unwrap_or_default(), pair.vm(), pair.response.body.pointer("/data/result"))
        {
            found.entry(vmid).or_default().insert((*command).to_owned(), result.clone());
        }
    }
    found
}
