//! What befalls hosts: they lose power and boot again, their clocks jump, their daemons are busy, backups run on them.

use crate::access::{Caller, ROOT};
use crate::jobs::Work;
use crate::qemu::power::PowerJob;
use crate::tasks::{Event, Job, Stage};
use crate::world::{Reach, World};

impl World {
    /// A host loses power: its workers die where they stand and clean nothing up, its VMs are gone. What it said last
    /// stays until it boots.
    pub fn lose_host(&mut self, name: &str) {
        if self.nodes.get(name).is_none_or(|node| node.reach == Reach::Unreachable) {
            return;
        }
        self.set_reach(name, Reach::Unreachable);
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.workers.fill(0);
        let here = self.vms.iter().filter(|(_, vm)| vm.node == name && vm.run.is_some());
        for vmid in here.map(|(vmid, _)| *vmid).collect::<Vec<_>>() {
            self.switched_off(vmid);
            if let Some(vm) = self.vms.get_mut(&vmid) {
                vm.run = None;
            }
        }
        // From the last to the first: a worker that waits for a lock shall not be handed it by one that dies.
        for task in (0..self.tasks.len()).rev() {
            if self.tasks[task].node == name && self.tasks[task].stage != Stage::Done {
                self.kill(task);
            }
        }
    }

    /// A host that was lost boots: VMs that are to start with it do, unless high availability sees to them.
    pub fn boot_host(&mut self, name: &str) {
        let now = self.clock();
        let Some(node) = self.nodes.get_mut(name).filter(|node| node.reach == Reach::Unreachable) else {
            return;
        };
        (node.reach, node.reach_since) = (Reach::Up, Some(now));
        let starts = self.vms.iter().filter(|(vmid, vm)| {
            let on_boot = vm.config.get("onboot").is_some_and(|flag| flag == "1");
            vm.node == name
                && on_boot
                && !vm.is_template()
                && !self.ha_resources.contains_key(&format!("vm:{vmid}"))
        });
        let root = Caller { user: ROOT.into(), token: None };
        for vmid in starts.map(|(vmid, _)| *vmid).collect::<Vec<_>>() {
            let start = PowerJob::start(vmid);
            self.spawn(name, start.kind(), &vmid.to_string(), &root, Work::Power(start));
        }
    }

    pub fn lose_host_at(&mut self, name: &str, at: u64) {
        self.schedule(at, Event::LoseHost(name.to_owned()));
    }

    pub fn boot_host_at(&mut self, name: &str, at: u64) {
        self.schedule(at, Event::BootHost(name.to_owned()));
    }

    /// When a host is lost or boots next, if that is decided.
    pub fn next_host_event(&self) -> Option<u64> {
        let of_host = |event: &Event| matches!(event, Event::LoseHost(_) | Event::BootHost(_));
        self.events.iter().find(|(_, events)| events.iter().any(of_host)).map(|(at, _)| *at)
    }

    /// The time of day jumps by so many milliseconds on all hosts. Work under way takes as long as before.
    pub fn jump_clock(&mut self, by: i64) {
        self.epoch = self.epoch.saturating_add_signed(by);
        // A ticket names the time it was made at; its age is what the clock on the wall makes of that.
        for session in self.sessions.values_mut() {
            session.jumped = session.jumped.saturating_add(by);
        }
    }

    /// Every privileged worker of a host is busy with something else for so long.
    pub fn occupy_workers(&mut self, name: &str, lasts: u64) {
        let until = self.clock + lasts;
        if let Some(node) = self.nodes.get_mut(name) {
            node.workers.iter_mut().for_each(|free| *free = until.max(*free));
        }
    }

    /// A backup of a VM begins; it is locked until it is done.
    pub fn back_up(&mut self, vmid: u32, lasts: u64) -> Option<String> {
        let node = self.vms.get(&vmid)?.node.clone();
        let root = Caller { user: ROOT.into(), token: None };
        let upid = self.spawn(&node, "vzdump", &vmid.to_string(), &root, Work::Backup { vmid, lasts });
        self.advance_to(self.clock + self.timing.fork);
        Some(upid)
    }
}

pub(crate) fn begin_backup(world: &mut World, job: &Job, vmid: u32) -> Result<(), String> {
    world.log(job, format!("INFO: Starting Backup of VM {vmid} (qemu)"));
    world.vm_for_job(&job.node, vmid)?.check_lock()?;
    world.set_lock(vmid, Some("backup"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn world() -> World {
        let mut world = World::new(1, 1_000_000);
        world.add_node("a", "192.0.2.1");
        world.add_node("b", "192.0.2.2");
        world.cluster = Some(("lab".into(), 1));
        world
    }

    fn config(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_host_that_boots_starts_what_is_to_start_with_it() {
        let mut world = world();
        world.add_vm("a", 100, config(&[("onboot", "1")]), true);
        world.add_vm("a", 101, config(&[]), true);
        world.add_vm("b", 102, config(&[]), true);
        world.advance_to(10_000);
        world.lose_host_at("a", 20_000);
        world.boot_host_at("a", 80_000);
        assert_eq!(world.next_host_event(), Some(20_000));
        world.advance_to(79_000);
        assert_eq!(world.nodes["a"].reach, Reach::Unreachable);
        assert!(world.vms[&100].stat.as_ref().unwrap().running, "what it said last stays");
        world.advance_to(120_000);
        let running: Vec<bool> = world.vms.values().map(|vm| vm.run.is_some()).collect();
        assert_eq!(running, [true, false, true]);
        assert_eq!(world.next_host_event(), None);
    }

    #[test]
    fn work_on_a_lost_host_is_left_as_it_stands() {
        let mut world = world();
        world.add_vm("a", 100, config(&[]), false);
        let upid = world.back_up(100, 60_000).unwrap();
        assert_eq!(world.lock_of_vm(100), Some("backup"));
        world.lose_host("a");
        assert_eq!(world.task_status(&upid), Some(Some("unexpected status")));
        assert_eq!(world.lock_of_vm(100), Some("backup"));
    }

    #[test]
    fn a_backup_unlocks_when_it_is_done() {
        let mut world = world();
        world.add_vm("a", 100, config(&[]), true);
        let upid = world.back_up(100, 60_000).unwrap();
        world.advance_to(61_000);
        assert_eq!((world.lock_of_vm(100), world.task_status(&upid)), (None, Some(Some("OK"))));
    }

    #[test]
    fn a_jump_changes_the_time_of_day_alone() {
        let mut world = world();
        world.jump_clock(-400_000);
        assert_eq!((world.unix(), world.clock()), (600, 0));
    }
}
