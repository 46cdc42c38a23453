//! Facts in, verdicts out: one module per subject.

mod access;
mod addresses;
mod agents;
mod capacity;
mod clocks;
mod devices;
mod networks;
mod planned;
mod reach;
mod storages;

use talmox_types::desired::Desired;

pub(super) use storages::{content_with, uses};

use super::facts::Facts;
use super::report::{Check, Report};

/// Judges what was found. Without an answer of any endpoint there is nothing but that to judge.
pub fn report(desired: &Desired, facts: &Facts) -> Report {
    let mut checks = reach::checks(facts);
    if let Err(words) = &facts.reached {
        checks.push(Check::not_checked("everything else", format!("Proxmox was not asked: {words}"), None));
        return Report { checks };
    }
    checks.extend(reach::versions(desired, facts));
    checks.extend(clocks::checks(facts));
    checks.extend(access::checks(desired, facts));
    checks.extend(storages::checks(desired, facts));
    checks.extend(networks::checks(desired, facts));
    checks.extend(addresses::checks(desired, facts));
    checks.extend(capacity::checks(desired, facts));
    checks.extend(devices::checks(desired, facts));
    checks.extend(agents::checks(desired, facts));
    let so_far = Report { checks };
    let planned = planned::checks(desired, facts, so_far.has_problem());
    Report { checks: so_far.checks.into_iter().chain(planned).collect() }
}

/// `a, b and c`.
fn listed<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `412 GiB`.
fn gib(bytes: u64) -> String {
    format!("{} GiB", bytes >> 30)
}
