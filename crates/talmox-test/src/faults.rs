//! What goes wrong, and at which call.

use std::time::Duration;

use talmox_pve::client::Method;
use talmox_sim::{Calls, FaultPlan, Reach};
use talmox_sim_talos::CallFault;
use talmox_talos::Code;

/// What happens to a call instead of an answer, or along with it.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The host answers this and does nothing.
    Reply { status: u16, reason: String },
    /// The host does what was asked; the connection breaks before the reply.
    ReplyLost,
    /// The host does what was asked; the reply breaks off.
    BodyCut,
    /// The host does what was asked, and something on the way makes the reply end early without saying so. Of a stream of a
    /// node the first message comes and no other.
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
    /// What the simulator's own plans know and none of the others is.
    Simulated(talmox_sim::Fault),
    /// A node answers a call of the Talos API with this and does nothing.
    Status { code: Code, message: String },
    /// What simulated nodes know to go wrong with a call of the Talos or the Kubernetes API.
    Node(CallFault),
    /// The client dies: before this call is sent, or after it arrived. Every later call fails at once.
    KillClient { sent: bool },
}

impl Fault {
    /// A refusal of the host.
    pub fn reply(status: u16, reason: &str) -> Self {
        Self::Reply { status, reason: reason.to_owned() }
    }

    /// A refusal of a node.
    pub fn status(code: Code, message: &str) -> Self {
        Self::Status { code, message: message.to_owned() }
    }

    /// Whether it makes a difference to whatever call it meets. The others need a worker or a VM.
    pub(crate) fn always_strikes(&self) -> bool {
        use talmox_sim::Fault as Sim;
        !matches!(
            self,
            Self::KillWorker { .. }
                | Self::FailWorker { .. }
                | Self::Simulated(Sim::Backup { .. } | Sim::DiskError | Sim::CloseIdle)
        )
    }
}

impl From<talmox_sim::Fault> for Fault {
    fn from(fault: talmox_sim::Fault) -> Self {
        use talmox_sim::Fault as Sim;
        match fault {
            Sim::LoseReply => Self::ReplyLost,
            Sim::Hang => Self::Hang { reached: false },
            Sim::CutBody { .. } => Self::BodyCut,
            Sim::KillWorker { after } => Self::KillWorker { after: Duration::from_millis(after) },
            Sim::FailWorker { after, text } => {
                Self::FailWorker { after: Duration::from_millis(after), words: text }
            }
            other @ (Sim::Answer { .. }
            | Sim::Slow { .. }
            | Sim::CloseIdle
            | Sim::HostDown
            | Sim::LoseHost { .. }
            | Sim::JumpClock { .. }
            | Sim::BusyHost { .. }
            | Sim::Backup { .. }
            | Sim::DiskError) => Self::Simulated(other),
        }
    }
}

/// Which call a fault meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    calls: Calls,
    /// Of those the n-th after this was planned, counted from 1; every one if there is no number.
    nth: Option<u64>,
}

impl When {
    /// The n-th call after this is planned, counted from 1.
    pub fn call(number: u64) -> Self {
        Self { calls: Calls::any(), nth: Some(number) }
    }

    /// Every call.
    pub fn always() -> Self {
        Self { calls: Calls::any(), nth: None }
    }

    /// Every one of these calls.
    pub fn all(calls: Calls) -> Self {
        Self { calls, nth: None }
    }

    /// The first call of the Talos API whose name begins so: `Bootstrap`.
    pub fn talos(name: &str) -> Self {
        Self::nth_talos(name, 1)
    }

    /// The n-th call of the Talos API whose name begins so, counted from 1.
    pub fn nth_talos(name: &str, nth: u64) -> Self {
        Self { calls: Calls::any().at(&format!("*/{name}*")), nth: Some(nth) }
    }

    /// The first call with this method and this part in its path.
    pub fn first(method: Method, part: &str) -> Self {
        Self::nth(method, part, 1)
    }

    /// The n-th such call, counted from 1.
    pub fn nth(method: Method, part: &str, nth: u64) -> Self {
        Self { nth: Some(nth), ..Self::every(method, part) }
    }

    /// Every such call.
    pub fn every(method: Method, part: &str) -> Self {
        Self { calls: Calls::to(method.as_str(), &format!("*{part}*")), nth: None }
    }

    /// Puts a fault at these calls into a plan.
    pub(crate) fn plan(self, plan: &mut FaultPlan<Fault>, fault: Fault) {
        match self.nth {
            Some(nth) => plan.at(nth, self.calls, fault),
            None => plan.always(self.calls, fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_meet_the_calls_they_are_planned_for() {
        let mut plan = FaultPlan::default();
        When::call(2).plan(&mut plan, Fault::Refused);
        When::nth(Method::Post, "/clone", 2).plan(&mut plan, Fault::ReplyLost);
        When::every(Method::Delete, "/qemu").plan(&mut plan, Fault::BodyCut);
        let mut meet = |method: Method, path| plan.take("a", method.as_str(), path);
        assert_eq!(meet(Method::Post, "/nodes/a/qemu/1/clone"), None);
        assert_eq!(meet(Method::Get, "/version"), Some(Fault::Refused));
        assert_eq!(meet(Method::Get, "/clone"), None);
        assert_eq!(meet(Method::Post, "/nodes/a/qemu/2/clone"), Some(Fault::ReplyLost));
        assert_eq!(meet(Method::Post, "/nodes/a/qemu/2/clone"), None);
        assert_eq!(meet(Method::Delete, "/nodes/a/qemu/2"), Some(Fault::BodyCut));
        assert_eq!(meet(Method::Delete, "/nodes/a/qemu/2"), Some(Fault::BodyCut));
    }
}
