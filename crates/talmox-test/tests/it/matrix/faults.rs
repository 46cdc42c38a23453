//! What can go wrong, and why a fault may pass a call by.

use std::time::Duration;

use talmox_sim::Fault as Sim;
use talmox_test::Fault;

/// A fault under a name for tables.
#[derive(Clone, Debug)]
pub(crate) struct Mishap {
    pub(crate) name: &'static str,
    pub(crate) fault: Fault,
}

/// Every fault that is tried.
pub(crate) fn all() -> Vec<Mishap> {
    let simulated = simulated().into_iter().map(|(name, fault)| Mishap { name, fault: Fault::from(fault) });
    let own = [
        ("refused connection", Fault::Refused),
        ("shortened reply", Fault::ReplyShortened),
        ("silence after success", Fault::Hang { reached: true }),
    ];
    simulated.chain(own.map(|(name, fault)| Mishap { name, fault })).collect()
}

/// Those that are also tried at every call of a kind, for as long as the run lasts.
pub(crate) fn lasting() -> Vec<Mishap> {
    let lasting = [
        ("500 each time", answer(500, "something is wrong", false)),
        ("401 each time", answer(401, "authentication failure", false)),
        ("403 each time", answer(403, "Permission check failed (/vms/100, VM.Allocate)", false)),
        ("595 each time", answer(595, "No route to host", false)),
        ("lost reply each time", Sim::LoseReply),
        ("hang each time", Sim::Hang),
    ];
    lasting.map(|(name, fault)| Mishap { name, fault: Fault::from(fault) }).into()
}

fn answer(status: u16, text: &str, happens: bool) -> Sim {
    Sim::Answer { status, text: text.to_owned(), happens }
}

/// Tasks of the simulator take between 10 ms and 3 s; what is to die within one must be early.
fn simulated() -> Vec<(&'static str, Sim)> {
    let fails = |after| Sim::FailWorker { after, text: "command '/sbin/zfs' failed: exit code 1".to_owned() };
    let lose = |after, back| Sim::LoseHost { host: None, after, back };
    vec![
        ("500", answer(500, "something is wrong", false)),
        ("500 after success", answer(500, "something is wrong", true)),
        ("401", answer(401, "authentication failure", false)),
        ("403", answer(403, "Permission check failed (/vms/100, VM.Allocate)", false)),
        ("595", answer(595, "No route to host", false)),
        ("596", answer(596, "Connection timed out", false)),
        ("599", answer(599, "Too many redirections", false)),
        ("lost reply", Sim::LoseReply),
        ("hang", Sim::Hang),
        ("slow", Sim::Slow { by: 20_000 }),
        ("too slow", Sim::Slow { by: 100_000 }),
        ("cut body", Sim::CutBody { after: 10 }),
        ("closed idle connection", Sim::CloseIdle),
        ("worker killed at once", Sim::KillWorker { after: 5 }),
        ("worker killed late", Sim::KillWorker { after: 45 }),
        ("task fails at once", fails(5)),
        ("task fails late", fails(45)),
        ("host goes silent", Sim::HostDown),
        ("host lost for two minutes", lose(30, Some(120_000))),
        ("host lost", lose(300, None)),
        ("clock jumps ahead", Sim::JumpClock { by: 7_200_000 }),
        ("clock jumps back", Sim::JumpClock { by: -7_200_000 }),
        ("busy host", Sim::BusyHost { lasts: 20_000 }),
        ("backup", Sim::Backup { lasts: 60_000 }),
        ("disk error", Sim::DiskError),
    ]
}

/// The kinds there are. A new one fails to compile here until it is named, and then the test below until it is tried.
const KINDS: [&str; 14] = [
    "answer",
    "lost reply",
    "hang",
    "slow",
    "cut body",
    "close idle",
    "kill worker",
    "fail worker",
    "host down",
    "lose host",
    "jump clock",
    "busy host",
    "backup",
    "disk error",
];

fn kind(fault: &Sim) -> &'static str {
    match fault {
        Sim::Answer { .. } => "answer",
        Sim::LoseReply => "lost reply",
        Sim::Hang => "hang",
        Sim::Slow { .. } => "slow",
        Sim::CutBody { .. } => "cut body",
        Sim::CloseIdle => "close idle",
        Sim::KillWorker { .. } => "kill worker",
        Sim::FailWorker { .. } => "fail worker",
        Sim::HostDown => "host down",
        Sim::LoseHost { .. } => "lose host",
        Sim::JumpClock { .. } => "jump clock",
        Sim::BusyHost { .. } => "busy host",
        Sim::Backup { .. } => "backup",
        Sim::DiskError => "disk error",
    }
}

/// Why a fault that met its call may have made no difference.
pub(crate) fn why_it_may_miss(fault: &Fault) -> Option<&'static str> {
    match fault {
        Fault::KillWorker { .. } | Fault::FailWorker { .. } => {
            Some("the call starts no task, or it had ended by then")
        }
        Fault::Simulated(Sim::Backup { .. }) => Some("the call is about no VM, or it was locked already"),
        Fault::Simulated(Sim::DiskError) => Some("the call is about no VM that runs"),
        Fault::Simulated(Sim::CloseIdle) => {
            Some("in memory no connection is kept open; crates/talmox/tests/it/sim tries it over HTTPS")
        }
        Fault::Simulated(_)
        | Fault::Reply { .. }
        | Fault::ReplyLost
        | Fault::BodyCut
        | Fault::ReplyShortened
        | Fault::Hang { .. }
        | Fault::Refused
        | Fault::Status { .. }
        | Fault::Node(_)
        | Fault::HostDown { .. }
        | Fault::KillClient { .. } => None,
    }
}

/// Whether a worker may have died without cleaning up, so that a volume may be left which nobody knows of.
pub(crate) fn kills_workers(fault: &Fault) -> bool {
    matches!(fault, Fault::KillWorker { .. } | Fault::Simulated(Sim::LoseHost { .. }))
}

/// Whether a host is down afterwards, or was: what ran there may stand still, though the run had ended before.
pub(crate) fn takes_hosts_down(fault: &Fault) -> bool {
    matches!(fault, Fault::Simulated(Sim::LoseHost { .. } | Sim::HostDown) | Fault::HostDown { .. })
}

/// Longer than anything that may be waited for, in simulated time.
pub(crate) const BOUND: Duration = Duration::from_hours(12);

#[test]
fn every_kind_is_tried() {
    let tried: std::collections::BTreeSet<&str> = simulated().iter().map(|(_, fault)| kind(fault)).collect();
    assert_eq!(tried, KINDS.into());
}
