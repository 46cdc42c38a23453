//! What goes wrong, and at which call.

use std::time::Duration;

use talmox_pve::client::Method;
use talmox_sim::Reach;

/// What happens to a call instead of an answer, or along with it.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The host answers this and does nothing.
    Reply { status: u16, reason: String },
    /// The host does what was asked; the connection breaks before the reply.
    ReplyLost,
    /// The host does what was asked; the reply breaks off.
    BodyCut,
    /// The host does what was asked, and something on the way makes the reply end early without saying so.
    ReplyShortened,
    /// Nobody answers. Whether the host did what was asked is in `reached`.
    Hang { reached: bool },
    /// There is no connection, so nothing is sent.
    Refused,
    /// The worker the reply names dies that much later without a word, and the VM keeps its lock.
    KillWorker { after: Duration },
    /// The worker the reply names fails that much later with these words, and cleans up.
    FailWorker { after: Duration, words: String },
    /// Before the call arrives, a host changes how it can be reached; it stays so.
    HostDown { host: String, reach: Reach },
    /// The client dies: before this call is sent, or after it arrived. Every later call fails at once.
    KillClient { sent: bool },
}

impl Fault {
    /// A refusal of the host.
    pub fn reply(status: u16, reason: &str) -> Self {
        Self::Reply { status, reason: reason.to_owned() }
    }
}

/// Which call a fault meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    calls: Calls,
    /// Of those the n-th after this was planned, counted from 1; every one if there is no number.
    nth: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Calls {
    Any,
    Asking { method: Method, part: String },
}

impl When {
    /// The n-th call after this is planned, counted from 1.
    pub const fn call(number: usize) -> Self {
        Self { calls: Calls::Any, nth: Some(number) }
    }

    /// Every call.
    pub const fn always() -> Self {
        Self { calls: Calls::Any, nth: None }
    }

    /// The first call with this method and this part in its path.
    pub fn first(method: Method, part: &str) -> Self {
        Self::nth(method, part, 1)
    }

    /// The n-th such call, counted from 1.
    pub fn nth(method: Method, part: &str, nth: usize) -> Self {
        Self { calls: Calls::Asking { method, part: part.to_owned() }, nth: Some(nth) }
    }

    /// Every such call.
    pub fn every(method: Method, part: &str) -> Self {
        Self { calls: Calls::Asking { method, part: part.to_owned() }, nth: None }
    }

    fn fits(&self, method: Method, path: &str) -> bool {
        match &self.calls {
            Calls::Any => true,
            Calls::Asking { method: wanted, part } => *wanted == method && path.contains(part.as_str()),
        }
    }
}

/// Faults to come, and how many calls each has seen.
#[derive(Debug, Default)]
pub(crate) struct Plan(Vec<Planned>);

#[derive(Debug)]
struct Planned {
    when: When,
    fault: Fault,
    seen: usize,
}

impl Plan {
    pub(crate) fn add(&mut self, when: When, fault: Fault) {
        self.0.push(Planned { when, fault, seen: 0 });
    }

    /// The fault this call meets: the one planned first, if several do. All of them have seen the call.
    pub(crate) fn meet(&mut self, method: Method, path: &str) -> Option<Fault> {
        let mut met = None;
        for planned in self.0.iter_mut().filter(|planned| planned.when.fits(method, path)) {
            planned.seen += 1;
            if planned.when.nth.is_none_or(|nth| nth == planned.seen) {
                met = met.or_else(|| Some(planned.fault.clone()));
            }
        }
        met
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_meet_the_calls_they_are_planned_for() {
        let mut plan = Plan::default();
        plan.add(When::call(2), Fault::Refused);
        plan.add(When::nth(Method::Post, "/clone", 2), Fault::ReplyLost);
        plan.add(When::every(Method::Delete, "/qemu"), Fault::BodyCut);
        let mut meet = |method, path| plan.meet(method, path);
        assert_eq!(meet(Method::Post, "/nodes/a/qemu/1/clone"), None);
        assert_eq!(meet(Method::Get, "/version"), Some(Fault::Refused));
        assert_eq!(meet(Method::Get, "/clone"), None);
        assert_eq!(meet(Method::Post, "/nodes/a/qemu/2/clone"), Some(Fault::ReplyLost));
        assert_eq!(meet(Method::Post, "/nodes/a/qemu/2/clone"), None);
        assert_eq!(meet(Method::Delete, "/nodes/a/qemu/2"), Some(Fault::BodyCut));
        assert_eq!(meet(Method::Delete, "/nodes/a/qemu/2"), Some(Fault::BodyCut));
    }
}
