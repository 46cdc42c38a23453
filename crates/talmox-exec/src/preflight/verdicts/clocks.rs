//! Clocks: tickets, certificates and etcd all take them at their word.

use crate::preflight::facts::Facts;
use crate::preflight::report::Check;

/// Seconds that clocks may differ. Answers come in whole seconds and take a moment.
const TOLERANCE: u64 = 5;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    let mut agreeing = Vec::new();
    for (host, host_facts) in facts.hosts.iter().filter(|(_, host)| host.online) {
        match &host_facts.clock {
            Ok(apart) if apart.unsigned_abs() <= TOLERANCE => agreeing.push(host),
            Ok(apart) => {
                let way = if *apart > 0 { "ahead of" } else { "behind" };
                let message = format!("the clock of {host} is {} s {way} ours", apart.unsigned_abs());
                let remedy = "one of them is wrong: on the host chronyc tracking, here timedatectl";
                checks.push(Check::warning("clock", message, remedy));
            }
            Err(words) => {
                checks.push(Check::not_checked("clock", format!("of {host}: {words}"), None));
            }
        }
    }
    if !agreeing.is_empty() {
        checks.push(Check::ok("clock", format!("{} and this machine agree", super::listed(agreeing))));
    }
    checks
}
