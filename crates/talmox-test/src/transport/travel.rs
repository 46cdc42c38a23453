//! A call on its way: what befalls it, when it arrives, and what comes back.

use std::time::Duration;

use bytes::Bytes;
use talmox_pve::client::{HttpRequest, HttpResponse, Target, TransportError};
use talmox_sim::{Reach, Reply, Step, Waiting};
use talmox_sim_talos::CallFault;

use super::state::{Fate, vm_of};
use super::{BYSTANDER, ClientId, MemoryTransport, millis};
use crate::wire::arriving;
use crate::{Call, Fault};

pub(crate) const DEAD: &str = "the client was killed";

/// A call on its way.
pub(crate) struct Departed {
    pub(crate) client: ClientId,
    pub(crate) number: usize,
    pub(crate) fault: Option<Fault>,
    /// How long it travels there, and its reply back: milliseconds.
    pub(crate) there: u64,
    pub(crate) back: u64,
}

impl Departed {
    /// What simulated nodes themselves have to do wrong.
    pub(crate) fn node_fault(&self) -> Option<CallFault> {
        if let Some(Fault::Node(fault)) = &self.fault { Some(fault.clone()) } else { None }
    }
}

impl MemoryTransport {
    /// Notes the call and finds what will befall it.
    pub(crate) fn depart(
        &self,
        client: ClientId,
        host: &str,
        method: &'static str,
        path: &str,
        body: &[u8],
    ) -> Departed {
        let now = self.now();
        let travel = self.latency.least + self.random.below(self.latency.spread + 1);
        let mut state = self.state();
        let number = state.log.last_number() + 1;
        let mut call = Call::new(number, now, host, method, path);
        call.stir(body);
        let fault = match client {
            BYSTANDER.. => None,
            _ if state.dead.contains(&client) => Some(Fault::KillClient { sent: false }),
            _ => state.plan.take(host, method, &call.path),
        };
        state.note_order(&call);
        state.log.push(call);
        *state.asked.entry(client).or_default() += 1;
        state.struck += usize::from(fault.as_ref().is_some_and(Fault::always_strikes));
        Departed { client, number, fault, there: travel / 2, back: travel - travel / 2 }
    }

    pub(crate) async fn travel(
        &self,
        target: &Target,
        request: &HttpRequest,
        body: &[u8],
        departed: &Departed,
    ) -> Result<HttpResponse, TransportError> {
        self.before_sending(departed)?;
        pause(departed.there).await;
        let host = self.contacted(target)?;
        match &departed.fault {
            Some(Fault::Hang { reached: false }) => return std::future::pending().await,
            Some(Fault::Reply { status, reason }) => {
                pause(departed.back).await;
                return Ok(refusal(*status, reason));
            }
            Some(Fault::Simulated(fault)) => {
                if fault == &talmox_sim::Fault::HostDown {
                    self.world(|world| world.set_reach(&host, Reach::ProxyDown));
                    return Err(lost("Connection reset by peer"));
                }
                let refused = self.befall(fault, &host, &request.path);
                if let Some(reply) = refused {
                    pause(reply.delay + departed.back).await;
                    return Ok(response(&reply));
                }
            }
            _ => {}
        }
        let reply = self.answer(&arriving(request, body, &host)?, departed.fault.as_ref()).await;
        pause(reply.delay + departed.back).await;
        match &departed.fault {
            Some(Fault::Hang { .. }) => std::future::pending().await,
            Some(Fault::ReplyLost) => Err(lost("the connection was closed before a reply came")),
            Some(Fault::BodyCut) => Err(lost("the reply was cut off")),
            Some(Fault::KillClient { .. }) => Err(lost(DEAD)),
            Some(Fault::ReplyShortened) => {
                let mut response = response(&reply);
                response.body.truncate(response.body.len() / 2);
                Ok(response)
            }
            Some(Fault::Simulated(talmox_sim::Fault::Answer { status, text, .. })) => {
                Ok(refusal(*status, text))
            }
            Some(Fault::Simulated(talmox_sim::Fault::Slow { by })) => {
                pause(*by).await;
                Ok(response(&reply))
            }
            _ => Ok(response(&reply)),
        }
    }

    /// Has a fault of the simulator's own happen; a reply if the call gets no further.
    fn befall(&self, fault: &talmox_sim::Fault, host: &str, path: &str) -> Option<Reply> {
        use talmox_sim::Fault as Sim;
        let (reply, struck) = self.world(|world| {
            let reply = world.befall(fault, host, path);
            let runs = |id: u32| world.dump().vms.get(&id).is_some_and(|vm| vm.running);
            let struck = (matches!(fault, Sim::DiskError) && vm_of(path).is_some_and(runs))
                || (matches!(fault, Sim::Backup { .. })
                    && world.dump().vms.values().any(|vm| vm.is_locked_by("backup")));
            (reply, struck)
        });
        self.state().struck += usize::from(struck);
        reply
    }

    /// Whether a fault takes the client's life before it sends its call, or just after.
    pub(crate) fn dies(&self, departed: &Departed) -> Option<bool> {
        let Some(Fault::KillClient { sent }) = departed.fault else { return None };
        self.state().dead.insert(departed.client);
        Some(sent)
    }

    fn before_sending(&self, departed: &Departed) -> Result<(), TransportError> {
        if self.dies(departed) == Some(false) {
            return Err(TransportError::Unsendable { reason: DEAD.to_owned() });
        }
        match &departed.fault {
            Some(Fault::Refused) => Err(TransportError::Connect { reason: "Connection refused".to_owned() }),
            Some(Fault::HostDown { host, reach }) => {
                self.world(|world| world.set_reach(host, *reach));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The host behind an endpoint, by name or address, if it can be reached.
    fn contacted(&self, target: &Target) -> Result<String, TransportError> {
        let wanted = target.endpoint.host();
        let state = self.state();
        let found = state.world.nodes.iter().find(|(name, node)| *name == wanted || node.ip == wanted);
        let reason = match found {
            Some((name, node)) if node.reach == Reach::Up => return Ok(name.clone()),
            Some((_, node)) if node.reach == Reach::ProxyDown => "Connection refused",
            Some(_) => "No route to host",
            None => "Name or service not known",
        };
        Err(TransportError::Connect { reason: reason.to_owned() })
    }

    /// Has the simulator answer, however long the call waits there for a worker or a lock.
    async fn answer(&self, request: &talmox_sim::Request, fault: Option<&Fault>) -> Reply {
        let mut waiting = Waiting::default();
        loop {
            match self.step(request, waiting, fault) {
                Step::Done(reply) => return reply,
                Step::Wait { until, waiting: so_far } => {
                    self.pause_until(until).await;
                    waiting = so_far;
                }
            }
        }
    }

    /// On a running clock the moment may have passed since it was named.
    pub(crate) async fn pause_until(&self, moment: u64) {
        pause(moment.saturating_sub(self.now())).await;
    }

    /// Hands the request to the simulator, and plans what befalls the worker it starts.
    fn step(&self, request: &talmox_sim::Request, waiting: Waiting, fault: Option<&Fault>) -> Step {
        let now = self.now();
        let mut state = self.state();
        state.catch_up(now);
        let step = state.world.step(request, now, waiting);
        state.link();
        self.changed.notify_waiters();
        let Step::Done(reply) = &step else { return step };
        if let (Some((after, fate)), Some(upid)) = (fault.and_then(Fate::of), upid_of(reply)) {
            state.later.entry(now + millis(after)).or_default().push((upid, fate));
        }
        step
    }
}

pub(crate) async fn pause(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

fn lost(reason: &str) -> TransportError {
    TransportError::Lost { reason: reason.to_owned() }
}

fn response(reply: &Reply) -> HttpResponse {
    HttpResponse { status: reply.status, reason: reply.reason.clone(), body: Bytes::from(reply.body.clone()) }
}

/// A refusal as Proxmox 9 words it; statuses of a hop come without a body.
fn refusal(status: u16, reason: &str) -> HttpResponse {
    let message = serde_json::json!({"data": null, "message": format!("{reason}\n")});
    let body = if status >= 595 { String::new() } else { message.to_string() };
    HttpResponse { status, reason: reason.to_owned(), body: Bytes::from(body) }
}

fn upid_of(reply: &Reply) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(&reply.body).ok()?;
    body["data"].as_str().filter(|text| text.starts_with("UPID:")).map(str::to_owned)
}
