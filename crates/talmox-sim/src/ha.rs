//! The HA manager: every ten seconds it looks at what it is asked for, and sees to it.
//!
//! ```text
//! host up:    started wanted, stopped found ──▶ qmstart     (given up after a second failure)
//!             stopped wanted, running found ──▶ qmshutdown
//! host lost:  two minutes ──▶ fenced ──▶ the VM's configuration moves to another host ──▶ qmstart there
//! ```

use std::collections::BTreeMap;

use crate::access::{Caller, ROOT};
use crate::jobs::Work;
use crate::qemu::power::PowerJob;
use crate::schema::split_list;
use crate::tasks::Event;
use crate::world::{Reach, World};

/// Milliseconds between two looks.
pub(crate) const ROUND: u64 = 10_000;
/// A host that was not heard of for so long has reset itself: its watchdog saw to it.
const FENCED: u64 = 120_000;
/// Starts of one VM that may fail: the first, and one more.
const TRIES: u32 = 2;
/// Locks that mean nothing once the host of whoever held them is gone.
const STALE_LOCKS: [&str; 6] = ["backup", "migrate", "mounted", "snapshot", "snapshot-delete", "rollback"];

impl World {
    /// The manager wakes up with its first resource, and looks again and again from then on.
    pub(crate) fn wake_ha(&mut self, after: u64) {
        if self.ha_since.is_none() {
            self.ha_since = Some(self.clock);
            self.schedule(self.clock + after, Event::HaRound);
        }
    }

    pub(crate) fn ha_round(&mut self) {
        self.schedule(self.clock + ROUND, Event::HaRound);
        if !self.ha_manager || !self.quorate() {
            return;
        }
        let now = self.clock;
        for (name, _) in self.nodes.iter().filter(|(_, node)| node.reach != Reach::Unreachable) {
            self.ha_heard.insert(name.clone(), now);
        }
        self.migrate_groups();
        for (sid, entry) in self.ha_resources.clone() {
            let wanted = entry.get("state").map_or("started", String::as_str);
            if let Some(vmid) = vm_of(&sid).filter(|vmid| self.vms.contains_key(vmid)) {
                self.see_to(&sid, vmid, wanted);
            }
        }
    }

    fn see_to(&mut self, sid: &str, vmid: u32, wanted: &str) {
        let Some(vm) = self.vms.get(&vmid) else { return };
        let (node, running) = (vm.node.clone(), vm.run.is_some());
        let busy = self.locks.contains_key(&vmid) || vm.is_template();
        let lost = self.nodes.get(&node).is_none_or(|node| node.reach == Reach::Unreachable);
        match wanted {
            "started" | "enabled" if lost => {
                let heard = self.ha_heard.get(&node).copied().unwrap_or_default();
                if self.clock >= heard + FENCED {
                    self.recover(sid, vmid);
                }
            }
            "started" | "enabled" if !running && !busy => self.try_start(sid, vmid, &node),
            "stopped" | "disabled" if running && !busy && !lost => {
                self.act_for_ha(&node, PowerJob::forced_shutdown(vmid));
            }
            "started" | "enabled" if running => drop(self.ha_tries.remove(sid)),
            _ => {}
        }
    }

    fn try_start(&mut self, sid: &str, vmid: u32, node: &str) {
        let tries = self.ha_tries.entry(sid.to_owned()).or_default();
        if *tries < TRIES {
            *tries += 1;
            self.act_for_ha(node, PowerJob::start(vmid));
        }
    }

    fn act_for_ha(&mut self, node: &str, job: PowerJob) {
        let root = Caller { user: ROOT.into(), token: None };
        let (kind, vmid) = (job.kind(), job.vmid().to_string());
        self.spawn(node, kind, &vmid, &root, Work::Power(job));
    }

    /// Whether the manager has given up on it.
    pub(crate) fn ha_failed(&self, sid: &str, vmid: u32) -> bool {
        let stopped = self.vms.get(&vmid).is_some_and(|vm| vm.run.is_none());
        stopped
            && !self.locks.contains_key(&vmid)
            && self.ha_tries.get(sid).is_some_and(|tries| *tries >= TRIES)
    }

    /// Takes the VM over from a host that is gone. Its disks come along only if they are shared: if not, it will not start.
    fn recover(&mut self, sid: &str, vmid: u32) {
        let Some(target) = self.place_for(sid) else { return };
        let Some(vm) = self.vms.get_mut(&vmid) else { return };
        if vm.lock().is_some_and(|lock| STALE_LOCKS.contains(&lock)) {
            vm.config.remove("lock");
        }
        vm.node.clone_from(&target);
        vm.stat = None;
        self.ha_tries.remove(sid);
        self.try_start(sid, vmid, &target);
    }

    /// The host with the fewest VMs of those the rules leave.
    fn place_for(&self, sid: &str) -> Option<String> {
        let up = self.nodes.iter().filter(|(_, node)| node.reach == Reach::Up).map(|(name, _)| name);
        let mut load: BTreeMap<&String, usize> = up.map(|name| (name, 0)).collect();
        for vm in self.vms.values() {
            load.entry(&vm.node).and_modify(|count| *count += 1);
        }
        let (preferred, strict) = self.bound_to(sid);
        let apart = |node: &String| crate::api::ha::kept_apart(self, sid, node).is_empty();
        let least = |wanted: &dyn Fn(&String) -> bool| {
            let fits = load.iter().filter(|(name, _)| wanted(name) && apart(name));
            fits.min_by_key(|(_, count)| **count).map(|(name, _)| (*name).clone())
        };
        if preferred.is_empty() {
            return least(&|_| true);
        }
        least(&|name| preferred.contains(name)).or_else(|| if strict { None } else { least(&|_| true) })
    }

    /// Hosts a rule names for a resource, and whether it may be nowhere else.
    fn bound_to(&self, sid: &str) -> (Vec<String>, bool) {
        let names = |rule: &BTreeMap<String, String>, key: &str| -> Vec<String> {
            let list = rule.get(key).map_or("", String::as_str);
            // A host may have a priority behind its name.
            split_list(list)
                .map(|name| {
                    if key == "nodes" { name.split(':').next().unwrap_or(name) } else { name }.to_owned()
                })
                .collect()
        };
        let of_kind =
            |rule: &&BTreeMap<String, String>| rule.get("type").is_some_and(|kind| kind == "node-affinity");
        let active = |rule: &&BTreeMap<String, String>| rule.get("disable").is_none_or(|flag| flag != "1");
        let rules = self.rules_in_force();
        let found = rules
            .values()
            .filter(of_kind)
            .filter(active)
            .find(|rule| names(rule, "resources").iter().any(|item| item == sid));
        found.map_or_else(
            || (Vec::new(), false),
            |rule| (names(rule, "nodes"), rule.get("strict").is_some_and(|flag| flag == "1")),
        )
    }
}

/// The VM of a resource: `vm:100`.
pub(crate) fn vm_of(sid: &str) -> Option<u32> {
    sid.strip_prefix("vm:").and_then(|id| id.parse().ok())
}
