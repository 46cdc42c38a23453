//! A world and what goes wrong in it: what a shell puts its wire around.

use crate::auth::REFUSAL_DELAY;
use crate::faults::{Fault, FaultPlan};
use crate::waiting::{Step, Waiting};
use crate::wire::{Reply, Request};
use crate::world::{Reach, World};

/// A world with a fault plan.
#[derive(Clone)]
pub struct Simulation {
    pub world: World,
    pub faults: FaultPlan,
}

/// What becomes of a call on the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// The reply, after its delay.
    Reply(Reply),
    /// The reply; then the connection is closed without a word.
    ReplyThenClose(Reply),
    /// The reply's head and so many bytes of its body; then the connection breaks.
    Cut(Reply, usize),
    /// The connection breaks, at the time the reply would have come.
    Lost { delay: u64 },
    /// Silence until the caller gives up.
    Silence,
    /// Nobody is there (any more): connections break, new ones are refused or lead nowhere.
    HostDown,
}

impl Delivery {
    /// How long it takes beyond the time on the wire.
    #[cfg(feature = "serve")]
    pub(crate) fn delay(&self) -> u64 {
        match self {
            Self::Reply(reply) | Self::ReplyThenClose(reply) | Self::Cut(reply, _) => reply.delay,
            Self::Lost { delay } => *delay,
            Self::Silence | Self::HostDown => 0,
        }
    }
}

/// How far a call came.
pub enum Progress {
    Done(Delivery),
    /// It waits for a worker or a lock until then; others go on.
    Wait {
        until: u64,
        call: UnfinishedCall,
    },
}

/// A call that waits.
pub struct UnfinishedCall {
    fault: Option<Fault>,
    waiting: Waiting,
}

impl From<World> for Simulation {
    /// A world in which nothing goes wrong.
    fn from(world: World) -> Self {
        Self::new(world)
    }
}

impl Simulation {
    pub fn new(world: World) -> Self {
        Self { world, faults: FaultPlan::default() }
    }

    /// Answers one request, whatever it has to wait for; the world waits with it. For one call at a time.
    pub fn handle(&mut self, request: &Request, now: u64) -> Delivery {
        let mut progress = self.begin(request, now);
        loop {
            match progress {
                Progress::Done(delivery) => return delivery,
                Progress::Wait { until, call } => progress = self.resume(request, until, call),
            }
        }
    }

    /// Begins a call. `now` is in milliseconds since boot.
    pub fn begin(&mut self, request: &Request, now: u64) -> Progress {
        let host = &request.via.clone().unwrap_or_else(|| self.world.contact.clone());
        if self.world.nodes.get(host).is_none_or(|node| node.reach != Reach::Up) {
            return Progress::Done(Delivery::HostDown);
        }
        let fault = self.faults.take(host, &request.method, &request.path);
        match &fault {
            Some(Fault::Hang) => return Progress::Done(Delivery::Silence),
            Some(Fault::HostDown) => {
                self.set_reach(host, Reach::ProxyDown);
                return Progress::Done(Delivery::HostDown);
            }
            Some(fault) => {
                let now = now.max(self.world.clock());
                self.world.advance_to(now);
                if let Some(reply) = self.world.befall(fault, host, &request.path) {
                    return Progress::Done(Delivery::Reply(reply));
                }
            }
            None => {}
        }
        self.resume(request, now, UnfinishedCall { fault, waiting: Waiting::default() })
    }

    /// Goes on with a call that had to wait. Others may have been answered meanwhile.
    pub fn resume(&mut self, request: &Request, now: u64, call: UnfinishedCall) -> Progress {
        let UnfinishedCall { fault, waiting } = call;
        match self.world.step(request, now.max(self.world.clock()), waiting) {
            Step::Done(reply) => Progress::Done(self.deliver(reply, fault.as_ref())),
            Step::Wait { until, waiting } => {
                Progress::Wait { until, call: UnfinishedCall { fault, waiting } }
            }
        }
    }

    fn deliver(&mut self, reply: Reply, fault: Option<&Fault>) -> Delivery {
        let Some(fault) = fault else { return Delivery::Reply(reply) };
        if let Some(upid) = upid_of(&reply) {
            self.world.befall_worker(fault, &upid);
        }
        match fault {
            Fault::Answer { status, text, .. } => Delivery::Reply(answer(*status, text)),
            Fault::Slow { by } => Delivery::Reply(Reply { delay: reply.delay + by, ..reply }),
            Fault::LoseReply => Delivery::Lost { delay: reply.delay },
            Fault::CutBody { after } => Delivery::Cut(reply, *after),
            Fault::CloseIdle => Delivery::ReplyThenClose(reply),
            Fault::Hang
            | Fault::HostDown
            | Fault::KillWorker { .. }
            | Fault::FailWorker { .. }
            | Fault::LoseHost { .. }
            | Fault::JumpClock { .. }
            | Fault::BusyHost { .. }
            | Fault::Backup { .. }
            | Fault::DiskError => Delivery::Reply(reply),
        }
    }

    /// Takes a host down or brings it back. How clients of that host see it is the shell's business.
    pub fn set_reach(&mut self, host: &str, reach: Reach) {
        self.world.set_reach(host, reach);
    }
}

impl World {
    /// What a fault does to the world before a call is looked at; a reply if the call gets no further.
    pub fn befall(&mut self, fault: &Fault, contact: &str, path: &str) -> Option<Reply> {
        let host = host_of(path).filter(|host| self.nodes.contains_key(*host)).unwrap_or(contact);
        match fault {
            Fault::Answer { status, text, happens: false } => return Some(answer(*status, text)),
            Fault::LoseHost { host: named, after, back } => {
                let (host, at) = (named.as_deref().unwrap_or(host).to_owned(), self.clock() + after);
                self.lose_host_at(&host, at);
                if let Some(back) = back {
                    self.boot_host_at(&host, at + back);
                }
            }
            Fault::JumpClock { by } => self.jump_clock(*by),
            Fault::BusyHost { lasts } => self.occupy_workers(host, *lasts),
            Fault::Backup { lasts } => {
                if let Some(vmid) = vm_of(path) {
                    self.back_up(vmid, *lasts);
                }
            }
            Fault::DiskError => {
                if let Some(run) = vm_of(path).and_then(|vmid| self.vms.get_mut(&vmid)?.run.as_mut()) {
                    run.io_error = true;
                }
            }
            Fault::Answer { .. }
            | Fault::LoseReply
            | Fault::Hang
            | Fault::Slow { .. }
            | Fault::CutBody { .. }
            | Fault::CloseIdle
            | Fault::KillWorker { .. }
            | Fault::FailWorker { .. }
            | Fault::HostDown => {}
        }
        None
    }

    /// What a fault does to the worker a call started.
    pub fn befall_worker(&mut self, fault: &Fault, upid: &str) {
        let now = self.clock();
        if let Fault::KillWorker { after } = fault {
            self.kill_worker_at(upid, now + after);
        }
        if let Fault::FailWorker { after, text } = fault {
            self.fail_worker_at(upid, now + after, text);
        }
    }
}

/// The host a path is about: `/nodes/HOST/…`.
fn host_of(path: &str) -> Option<&str> {
    after(path, "nodes")
}

/// The VM a path is about: `…/qemu/VMID/…`.
fn vm_of(path: &str) -> Option<u32> {
    after(path, "qemu")?.parse().ok()
}

fn after<'p>(path: &'p str, part: &str) -> Option<&'p str> {
    let mut parts = path.split('/').skip_while(|found| *found != part);
    parts.nth(1).filter(|found| !found.is_empty())
}

/// A reply in the server's form: a refusal to authenticate and the statuses of a hop have no body, and the first is late.
fn answer(status: u16, text: &str) -> Reply {
    match status {
        401 => Reply { delay: REFUSAL_DELAY, ..Reply::plain(401, text, "") },
        595.. => Reply::plain(status, text, ""),
        400.. => {
            let message = format!("{}\n", text.trim_end_matches('\n'));
            Reply::json(status, &message, &serde_json::json!({"data": null, "message": message}))
        }
        _ => Reply::plain(status, text, ""),
    }
}

/// The worker a reply names.
fn upid_of(reply: &Reply) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(&reply.body).ok()?;
    body["data"].as_str().filter(|text| text.starts_with("UPID:")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Calls;
    use crate::starter::Starter;
    use crate::wire::{Body, encode_form};

    fn simulation() -> (Simulation, Request) {
        let started = Starter::new(2, 7, 1_800_000_000_000).build();
        let request = Request {
            method: "POST".into(),
            path: "/api2/json/nodes/pve1/qemu".into(),
            authorization: Some(format!("PVEAPIToken={}", started.token)),
            body: Body::Bytes {
                content_type: None,
                bytes: encode_form([("vmid", "100"), ("scsi0", "local-zfs:1")]).into_bytes(),
            },
            ..Request::default()
        };
        (Simulation::new(started.world), request)
    }

    #[test]
    fn a_lost_reply_is_of_a_call_that_happened() {
        let (mut simulation, create) = simulation();
        simulation.faults.next(Calls::any(), Fault::LoseReply);
        assert!(matches!(simulation.handle(&create, 0), Delivery::Lost { .. }));
        assert!(simulation.world.has_vm(100));
    }

    #[test]
    fn a_hanging_call_did_not_happen() {
        let (mut simulation, create) = simulation();
        simulation.faults.next(Calls::any(), Fault::Hang);
        assert_eq!(simulation.handle(&create, 0), Delivery::Silence);
        assert!(!simulation.world.has_vm(100));
    }

    #[test]
    fn a_call_that_waits_keeps_nobody_else_waiting() {
        let (mut simulation, create) = simulation();
        let waiting = (0..4).map(|_| simulation.begin(&create, 1000)).last().unwrap();
        let Progress::Wait { until, call } = waiting else { panic!("three workers answered four calls") };
        assert!(until > 1000);
        let version = Request { method: "GET".into(), path: "/api2/json/version".into(), ..create.clone() };
        let version = Request { body: Body::Empty, ..version };
        assert!(
            matches!(simulation.begin(&version, 1000), Progress::Done(Delivery::Reply(reply)) if reply.status == 200)
        );
        assert_eq!(simulation.world.clock(), 1000);
        assert!(matches!(simulation.resume(&create, until, call), Progress::Done(Delivery::Reply(_))));
    }

    #[test]
    fn a_killed_worker_leaves_the_lock() {
        let (mut simulation, create) = simulation();
        simulation.faults.next(Calls::to("POST", "/nodes/*/qemu"), Fault::KillWorker { after: 20 });
        let Delivery::Reply(reply) = simulation.handle(&create, 0) else { panic!("no reply") };
        let upid = upid_of(&reply).unwrap();
        simulation.world.advance_to(19);
        assert_eq!(simulation.world.task_status(&upid), Some(None));
        simulation.world.advance_to(60_000);
        assert_eq!(simulation.world.task_status(&upid), Some(Some("unexpected status")));
        assert_eq!(simulation.world.lock_of_vm(100), Some("create"));
    }

    #[test]
    fn a_connection_to_a_host_whose_api_was_killed_breaks_once() {
        let (mut simulation, create) = simulation();
        let ask = Request {
            method: "GET".into(),
            path: "/api2/json/nodes/pve2/status".into(),
            body: Body::Empty,
            ..create
        };
        let answer = |simulation: &mut Simulation, at| {
            let Delivery::Reply(reply) = simulation.handle(&ask, at) else { panic!("no reply") };
            (reply.status, reply.reason, reply.delay)
        };
        simulation.set_reach("pve2", Reach::ProxyDown);
        assert_eq!(answer(&mut simulation, 0), (596, "Connection reset by peer".to_owned(), 0));
        assert_eq!(answer(&mut simulation, 0), (595, "Connection refused".to_owned(), 0));
        // One that lost power is missed for a while: each call waits for its answer.
        simulation.set_reach("pve2", Reach::Unreachable);
        let (status, _, delay) = answer(&mut simulation, 1000);
        assert!(status == 595 && delay > 1000, "{status} after {delay} ms");
        assert_eq!(answer(&mut simulation, 60_000), (595, "No route to host".to_owned(), 0));
    }

    #[test]
    fn a_host_goes_down_at_a_call_and_comes_back() {
        let (mut simulation, create) = simulation();
        let create = Request { via: Some("pve2".into()), ..create };
        simulation.faults.next(Calls::any().via("pve2"), Fault::HostDown);
        assert_eq!(simulation.handle(&create, 0), Delivery::HostDown);
        assert_eq!(simulation.handle(&create, 0), Delivery::HostDown);
        simulation.set_reach("pve2", Reach::Up);
        assert!(matches!(simulation.handle(&create, 0), Delivery::Reply(reply) if reply.status == 200));
    }
}
