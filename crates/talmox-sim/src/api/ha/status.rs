//! What the manager of high availability tells of itself, its hosts and what it manages.

use serde_json::{Value, json};

use crate::api::Call;
use crate::calendar::Date;
use crate::world::World;

/// Manager and hosts report this often: seconds.
const ROUND: u64 = 10;

/// `GET status/current`. Where nothing is managed yet nobody is master.
pub(super) fn current(world: &World, call: &Call) -> Value {
    let quorate = world.quorate();
    let mut entries = vec![json!({
        "id": "quorum", "type": "quorum", "node": call.contact, "quorate": u8::from(quorate),
        "status": if quorate { "OK" } else { "No quorum on node" },
    })];
    let Some(master) = master(world) else {
        entries.push(json!({
            "id": "fencing", "type": "fencing", "node": call.contact, "armed-state": "standby",
            "status": "standby (CRM watchdog standby)",
        }));
        return entries.into();
    };
    let (timestamp, date) = last_round(world);
    entries.push(json!({
        "id": "master", "type": "master", "node": master, "timestamp": timestamp,
        "status": format!("{master} (active, {date})"),
    }));
    entries.push(json!({
        "id": "fencing", "type": "fencing", "node": master, "armed-state": "armed",
        "status": "armed (CRM watchdog active)",
    }));
    entries.extend(world.nodes.keys().map(|node| host(world, node)));
    entries.extend(world.ha_resources.keys().filter_map(|sid| service(world, sid)));
    entries.into()
}

/// `GET status/manager_status`.
pub(super) fn manager(world: &World, call: &Call) -> Value {
    let quorate = if world.quorate() { "1" } else { "0" };
    json!({"manager_status": {"node_status": {}}, "quorum": {"node": call.contact, "quorate": quorate}})
}

/// The first host, once there is something to manage.
fn master(world: &World) -> Option<&String> {
    world.nodes.keys().next().filter(|_| world.ha_active())
}

fn host(world: &World, node: &str) -> Value {
    let manages = |sid: &String| vm_of(world, sid).is_some_and(|(_, at)| at == node);
    let state = if world.ha_resources.keys().any(manages) {
        "active, watchdog active"
    } else {
        "idle, watchdog standby"
    };
    let (timestamp, date) = last_round(world);
    json!({
        "id": format!("lrm:{node}"), "type": "lrm", "node": node, "timestamp": timestamp,
        "status": format!("{node} ({state}, {date})"),
    })
}

/// A managed VM, and the host it is on.
fn vm_of<'a>(world: &'a World, sid: &str) -> Option<(bool, &'a str)> {
    let vmid: u32 = sid.split_once(':')?.1.parse().ok()?;
    world.vms.get(&vmid).map(|vm| (vm.run.is_some(), vm.node.as_str()))
}

fn service(world: &World, sid: &str) -> Option<Value> {
    let entry = world.ha_resources.get(sid)?;
    let (runs, node) = vm_of(world, sid)?;
    let wanted = entry.get("state").map_or("started", String::as_str);
    let state = if wanted == "started" && !runs { "starting" } else { wanted };
    let number = |key: &str| entry.get(key).and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    let mut shown = json!({
        "id": format!("service:{sid}"), "type": "service", "sid": sid, "node": node,
        "crm_state": wanted, "request_state": wanted, "state": state,
        "status": format!("{sid} ({node}, {state})"),
        "max_restart": number("max_restart"), "max_relocate": number("max_relocate"),
        "failback": number("failback"), "auto-rebalance": 1,
    });
    if let Some(comment) = entry.get("comment") {
        shown["comment"] = json!(comment);
    }
    Some(shown)
}

/// When the manager last reported, as a number and in words.
fn last_round(world: &World) -> (u64, String) {
    let unix = world.unix() - world.unix() % ROUND;
    (unix, in_words(unix))
}

/// A time as C prints it: `Thu Jul 23 12:36:14 2026`.
fn in_words(unix: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let Date { year, month, day, weekday, hour, minute, second } = Date::of(unix);
    let name = |names: &[&'static str], at: u64| {
        usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or_default()
    };
    let (weekday, month) = (name(&DAYS, weekday), name(&MONTHS, month - 1));
    format!("{weekday} {month} {day:>2} {hour:02}:{minute:02}:{second:02} {year}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_recorded() {
        assert_eq!(in_words(1_784_810_174), "Thu Jul 23 12:36:14 2026");
        assert_eq!(in_words(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(in_words(1_798_761_599), "Thu Dec 31 23:59:59 2026");
    }
}
