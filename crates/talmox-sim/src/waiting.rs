//! Calls that wait: for a privileged worker, or for the file lock of a VM.
//!
//! A call that waits makes no time pass for others: [`World::step`] says until when it waits, and is asked again then.
//! [`World::handle`] is for shells with one call at a time; it waits itself, and the world with it.

use serde_json::Value;

use crate::access::{Caller, ROOT};
use crate::locks::{LOCK_WAIT, lock_text};
use crate::reply::{Answer, ApiError};
use crate::schema::route_for;
use crate::storage::Allocations;
use crate::wire::{Param, Params, Reply, Request};
use crate::world::World;

/// How long a call may take behind the daemon that takes it: milliseconds.
const HOP_LIMIT: u64 = 30_000;

/// What a call that waits has got so far.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// It has a privileged worker, which is busy with it until then.
    pub(crate) worker_end: Option<u64>,
    lock_deadline: Option<u64>,
    /// When the call came.
    begun: Option<u64>,
    storage_deadline: Option<u64>,
}

/// How far a call came.
#[derive(Clone, Debug)]
pub enum Step {
    Done(Reply),
    /// Nothing was done yet: the same request goes on at that time, with what it has.
    Wait {
        until: u64,
        waiting: Waiting,
    },
}

/// The call at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallAtHand {
    pub(crate) waiting: Waiting,
    blocked: Option<u64>,
}

impl World {
    /// Answers one request, whatever it has to wait for. `now` is in milliseconds since boot; time never goes back.
    pub fn handle(&mut self, request: &Request, now: u64) -> Reply {
        let (mut at, mut waiting) = (now, Waiting::default());
        loop {
            match self.step(request, at, waiting) {
                Step::Done(reply) => return Reply { delay: reply.delay + (at - now), ..reply },
                Step::Wait { until, waiting: so_far } => (at, waiting) = (until, so_far),
            }
        }
    }

    /// Answers a request, or says until when it waits. `waiting` is what the step before gave.
    pub fn step(&mut self, request: &Request, now: u64, mut waiting: Waiting) -> Step {
        self.advance_to(now);
        waiting.begun = waiting.begun.or(Some(now));
        self.call = CallAtHand { waiting, blocked: None };
        let contact = request.via.clone().unwrap_or_else(|| self.contact.clone());
        let reply = self.as_host(&contact, |world| world.respond(request, now));
        let CallAtHand { waiting, blocked } = std::mem::take(&mut self.call);
        match blocked {
            Some(until) => Step::Wait { until: until.max(now + 1), waiting },
            None => Step::Done(reply),
        }
    }

    /// Does what the administrator does at the host's console: a call without a wire, whatever it has to wait for. The
    /// answer is the call's data, the error the server's words.
    pub fn root_call(&mut self, method: &str, path: &str, form: &[(&str, &str)]) -> Result<Value, String> {
        self.act_as_root(method, path, form).map_err(|error| error.text())
    }

    fn act_as_root(&mut self, method: &str, path: &str, form: &[(&str, &str)]) -> Answer {
        let Some((route, found)) = route_for(method, path) else {
            return Err(ApiError::plain(format!("Method '{method} {path}' not implemented")));
        };
        let root = Caller { user: ROOT.into(), token: None };
        let request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            // Asked on the spot: another host may be down.
            via: found.get("node").cloned(),
            ..Request::default()
        };
        let params: Params =
            form.iter().map(|(key, value)| ((*key).to_owned(), Param::Text((*value).to_owned()))).collect();
        let mut waiting = Waiting::default();
        loop {
            self.call = CallAtHand { waiting, blocked: None };
            let (found, params) = (found.clone(), params.clone());
            let contact = request.via.clone().unwrap_or_else(|| self.contact.clone());
            let answer =
                self.as_host(&contact, |world| world.answer(&request, &root, path, route, found, params));
            let at_hand = std::mem::take(&mut self.call);
            let Some(until) = at_hand.blocked else { return answer };
            self.advance_to(until.max(self.clock + 1));
            waiting = at_hand.waiting;
        }
    }

    /// How long the call has its worker beyond the usual; others wait for another one meanwhile.
    pub(crate) fn keep_worker(&mut self, node: &str, more: u64) {
        let Some(end) = &mut self.call.waiting.worker_end else { return };
        let Some(host) = self.nodes.get_mut(node) else { return };
        if let Some(worker) = host.workers.iter_mut().find(|free| *free == end) {
            *worker += more;
        }
        *end += more;
    }

    /// The front daemon gives up on the privileged one after a while; what that does goes on.
    pub(crate) fn given_up(&self, end: u64) -> Option<Reply> {
        let limit = self.call.waiting.begun? + HOP_LIMIT;
        let late = Reply {
            delay: limit.saturating_sub(self.clock),
            ..Reply::plain(596, "Connection timed out", "")
        };
        (end > limit).then_some(late)
    }

    /// The privileged daemon has three workers; a call waits for one, and keeps it.
    pub(crate) fn take_worker(&mut self, node: &str) -> Result<(), ApiError> {
        if self.call.waiting.worker_end.is_some() {
            return Ok(());
        }
        let (clock, call) = (self.clock, self.timing.call);
        let Some(host) = self.nodes.get_mut(node) else { return Ok(()) };
        let (index, free) =
            host.workers.iter().copied().enumerate().min_by_key(|(_, free)| *free).unwrap_or_default();
        let start = free.max(clock);
        let end = start + call + u64::try_from(index).unwrap_or_default() * call / 3;
        if let Some(worker) = host.workers.get_mut(index) {
            *worker = end;
        }
        self.call.waiting.worker_end = Some(end);
        if start > clock { Err(self.block(start)) } else { Ok(()) }
    }

    /// What a synchronous call does about a lock that is held: it waits for a while, then fails.
    pub(crate) fn wait_for_lock(&mut self, vmid: u32) -> Result<(), ApiError> {
        if self.locks.get(&vmid).is_none_or(|lock| lock.holders.is_empty()) {
            return Ok(());
        }
        let deadline = *self.call.waiting.lock_deadline.get_or_insert(self.clock + LOCK_WAIT);
        if self.clock >= deadline {
            return Err(ApiError::Plain(lock_text(vmid, "got timeout")));
        }
        Err(self.block(self.next_event().map_or(deadline, |at| at.min(deadline))))
    }

    /// The same about the locks of storages; once none is held they are taken.
    pub(crate) fn wait_for_storages(&mut self, node: &str, wanted: &Allocations) -> Result<(), ApiError> {
        let Some((until, storage)) = self.storages_busy(node, wanted) else {
            self.queue_for(node, wanted);
            return Ok(());
        };
        let deadline = *self.call.waiting.storage_deadline.get_or_insert(self.clock + LOCK_WAIT);
        if self.clock >= deadline {
            return Err(ApiError::Plain(self.storage_lock_text(&storage, "got timeout")));
        }
        Err(self.block(until.min(deadline)))
    }

    /// Gives the call up for now. The error only ends the handler; nobody sees it.
    fn block(&mut self, until: u64) -> ApiError {
        self.call.blocked = Some(until);
        ApiError::Plain(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_call_waits_for_a_worker() {
        let mut world = World::new(1, 0);
        world.add_node("n", "192.0.2.1");
        let starts: Vec<u64> = (0..6)
            .map(|_| {
                world.call = CallAtHand::default();
                let taken = world.take_worker("n");
                assert_eq!(taken.is_err(), world.call.blocked.is_some());
                world.call.blocked.unwrap_or_default()
            })
            .collect();
        assert_eq!(starts, [0, 0, 0, 9, 12, 15]);
    }

    #[test]
    fn a_lock_is_waited_for_and_given_up() {
        let mut world = World::new(1, 0);
        assert!(world.wait_for_lock(100).is_ok());
        world.try_lock(100, 1, true);
        assert!(world.wait_for_lock(100).is_err());
        assert_eq!(world.call.blocked, Some(LOCK_WAIT), "nothing else happens before");
        world.advance_to(LOCK_WAIT);
        let text = "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout";
        assert_eq!(world.wait_for_lock(100), Err(ApiError::Plain(text.into())));
    }
}
