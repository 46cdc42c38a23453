//! What a plan waits for, and what would end the wait.

use talmox_plan::{Plan, Waiting};

use super::plan_text::YELLOW;
use super::text::{listed, safe, time_of_day};

/// What is waited for, with what would end the wait.
pub(super) fn waiting(plan: &Plan) -> String {
    plan.waiting.iter().map(|waiting| format!("  {YELLOW}…{YELLOW:#}   {}\n", waits(waiting))).collect()
}

pub(crate) fn waits(waiting: &Waiting) -> String {
    match waiting {
        Waiting::InFlight { vmid, host, lock } => {
            format!("VM {vmid} on {host} is being made ({}): whose it is shows when that is done", safe(lock))
        }
        Waiting::Locked { node, vmid, host, lock } => {
            format!(
                "{node}  VM {vmid} on {host} is locked ({}) and is left alone until it is not",
                safe(lock)
            )
        }
        Waiting::HostDown { host, nodes, reason } => {
            let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            let about = if names.is_empty() {
                String::new()
            } else {
                format!(", so {} cannot be told", listed(&names))
            };
            format!("host {host} does not answer{about}: {}", safe(reason))
        }
        Waiting::Reboot { node, vmid, keys } => {
            let keys: Vec<String> = keys.iter().map(|key| safe(key)).collect();
            let wait = if keys.len() == 1 { "waits" } else { "wait" };
            format!("{node}  {} of VM {vmid} {wait} for a restart: --allow-reboot", listed(&keys))
        }
        Waiting::Trial { node, keys, since } => {
            let keys: Vec<String> = keys.iter().map(|key| safe(key)).collect();
            let is = if keys.len() == 1 { "is" } else { "are" };
            let since = since.map_or_else(String::new, |at| format!(" since {}", time_of_day(at)));
            format!(
                "{node}  {} {is} on trial{since} (talosctl --mode=try): it goes back by itself when the time of the trial is up",
                listed(&keys)
            )
        }
        Waiting::Answer { node, vmid, address, reason } => {
            format!("{node}  VM {vmid} does not answer at {address}: {}", safe(reason))
        }
        Waiting::Workers { away, held, at_most: _ } => {
            let why: Vec<String> =
                away.iter().map(|(node, why)| format!("{node} is away ({})", safe(why))).collect();
            let replaced: Vec<String> = away.keys().map(|node| format!("--replace {node}")).collect();
            let held: Vec<String> = held.iter().map(ToString::to_string).collect();
            format!(
                "{}, so {} {} up (repair it, {}, or --max-unavailable {})",
                listed(&why),
                listed(&held),
                if held.len() == 1 { "stays" } else { "stay" },
                replaced.join(" "),
                away.len() + 1
            )
        }
        Waiting::Bootstrap { node, missing } => {
            let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
            format!("{node}  is bootstrapped once {} answered too", listed(&missing))
        }
    }
}
