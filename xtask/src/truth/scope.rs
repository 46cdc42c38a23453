//! What of the recordings the simulator does not answer for.

use super::data::Pair;

/// Why a pair is out of scope, if it is.
pub(crate) fn out_of_scope(pair: &Pair) -> Option<&'static str> {
    let path = pair.request.path.as_str();
    let parts = pair.parts();
    let has = |name: &str| parts.contains(&name);
    let edits = pair.request.method != "GET";
    if path.starts_with("/api2/extjs") {
        return Some("extjs");
    }
    if has("lxc") {
        return Some("containers");
    }
    let of_snapshot_task =
        ["qmsnapshot", "qmrollback", "qmdelsnapshot"].iter().any(|kind| path.contains(&format!(":{kind}:")));
    if has("snapshot") || of_snapshot_task || pair.param("snapshot").is_some() {
        return Some("snapshots");
    }
    if has("firewall") {
        return Some("firewall");
    }
    match parts[..] {
        ["access", "users"]
        | ["access", "users", _]
        | ["access", "domains" | "password" | "groups" | "tfa" | "openid", ..] => {
            return Some("users, realms, passwords");
        }
        ["cluster", "sdn", ..] | ["cluster", "ha", "groups", ..] if edits => {
            return Some("SDN and HA group editing");
        }
        ["cluster", "metrics", ..] => return Some("metrics"),
        ["cluster", "jobs" | "backup" | "replication", ..] => return Some("jobs"),
        ["cluster", "acme", ..] | ["nodes", _, "certificates", ..] => return Some("certificates"),
        ["nodes", _, "time" | "dns", ..] => return Some("host time and DNS"),
        _ => {}
    }
    if has("rrd") || has("rrddata") { Some("metrics") } else { None }
}
