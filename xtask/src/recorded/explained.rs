//! Where a production server and the simulator differ for a reason.

use super::file::Exchange;

struct Reason {
    why: &'static str,
    holds: fn(&Exchange, &str) -> bool,
}

const TABLE: &[Reason] = &[
    Reason {
        why: "the recorded user has a mail address; users have none here",
        holds: |exchange, difference| exchange.path == "/access/users" && difference == "data.email: missing",
    },
    Reason {
        why: "the manager shows a resource that was removed until its next round; here it is gone at once",
        holds: |exchange, difference| {
            exchange.path == "/cluster/resources" && difference == "data[qemu].hastate: missing"
        },
    },
];

pub(crate) fn reasons() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|reason| reason.why)
}

/// The reason of a difference, if there is one.
pub(crate) fn why(exchange: &Exchange, difference: &str) -> Option<&'static str> {
    TABLE.iter().find(|reason| (reason.holds)(exchange, difference)).map(|reason| reason.why)
}
