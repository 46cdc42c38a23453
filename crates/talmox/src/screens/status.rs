//! Every node and its VM at one moment.

use anstyle::Style;
use serde::Serialize;
use talmox_plan::{DriveView, NodeState, NodeView, Power, SeenMachine, View};

use super::inside::InsideView;
use super::plan_text::{RED, YELLOW, difference};
use super::table::{Cell, table};
use super::text::{listed, padded, plural, safe, short_uid, width};
use crate::printer::{BOLD, DIM, GREEN};

/// The state of a cluster for programs.
#[derive(Serialize)]
pub(crate) struct StatusData<'v> {
    format: &'static str,
    #[serde(flatten)]
    view: &'v View,
    /// What is inside the machines; none if there was no way to ask them.
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<&'v InsideView>,
}

impl<'v> StatusData<'v> {
    pub(crate) fn new(view: &'v View, inside: Option<&'v InsideView>) -> Self {
        Self { format: "talmox.status/v1", view, inside }
    }
}

/// A sum, a line for each node, and what to type about it. `flags` lead to the same description and world.
pub(crate) fn status_text(view: &View, inside: Option<&InsideView>, flags: &str) -> String {
    let uid =
        view.uid.as_ref().map_or_else(|| "no uid yet".to_owned(), |uid| format!("uid {}", short_uid(uid)));
    let mut head = format!("{BOLD}{}{BOLD:#}  {} · {uid}\n", view.cluster, sum(view));
    if let Some(inside) = inside {
        head.push_str(&format!("{}  {}\n", " ".repeat(view.cluster.as_str().len()), inside.sum()));
        head.push_str(&inside.warnings());
    }
    let declared = view.nodes.iter().map(|node| row(node, remarks(node), inside));
    let undeclared = view.undeclared.iter().map(|node| {
        let mut remarks = vec!["not in the description".to_owned()];
        remarks.extend(obstacles(node));
        row(node, remarks, inside)
    });
    let titles: &[&str] = match inside {
        Some(_) => &["NODE", "VM", "HOST", "ADDRESS", "TALOS", "KUBERNETES", "NOTES"],
        None => &["NODE", "VM", "HOST", "ADDRESS", "NOTES"],
    };
    let advice = inside.map(|inside| inside.advice(flags)).unwrap_or_default();
    head + &table(titles, declared.chain(undeclared)) + &advice + &drives(view) + &next(view, inside, flags)
}

/// Drives that hold the cluster's keys, and who has them.
fn drives(view: &View) -> String {
    if view.drives.is_empty() {
        return String::new();
    }
    let names: Vec<String> = view.drives.iter().map(|drive| safe(&drive.volume.to_string())).collect();
    let width = width(names.iter().map(String::as_str));
    let line = |(drive, name): (&DriveView, &String)| {
        let holder = match drive.vmid {
            Some(vmid) => format!("in VM {vmid}"),
            None => format!("{YELLOW}no VM has it{YELLOW:#}"),
        };
        format!("  {}  on {}  {holder}\n", padded(name, width), drive.host)
    };
    let lines: String = view.drives.iter().zip(&names).map(line).collect();
    format!("\nConfiguration drives, which hold the cluster's keys:\n{lines}")
}

/// Whether nothing waits for a configuration drive any more: no VM has it, or the machine of the VM is configured.
fn is_spare(drive: &DriveView, view: &View, inside: Option<&InsideView>) -> bool {
    let Some(holder) = view.nodes.iter().find(|node| drive.vmid.is_some() && node.vmid == drive.vmid) else {
        return true;
    };
    let seen = inside.and_then(|inside| inside.talos.get(&holder.node));
    seen.and_then(SeenMachine::configured).is_some()
}

/// Commands that would make it as described.
fn next(view: &View, inside: Option<&InsideView>, flags: &str) -> String {
    // A node with two VMs is listed twice, and named once.
    let names = |nodes: &[&NodeView]| {
        let mut names: Vec<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
        names.dedup();
        names.join(",")
    };
    let differs = |node: &&NodeView| {
        matches!(node.state, NodeState::Missing | NodeState::Unfinished)
            || !node.drift.is_empty()
            || node.power_differs
    };
    let different: Vec<&NodeView> = view.nodes.iter().filter(differs).collect();
    let pending: Vec<&NodeView> = view.nodes.iter().filter(|node| pending(node).next().is_some()).collect();
    let undeclared: Vec<&NodeView> = view.undeclared.iter().collect();
    let mut commands = Vec::new();
    if different.len() == view.nodes.len() || inside.is_some_and(InsideView::differs) {
        commands.push((format!("talmox apply{flags}"), "makes it as described"));
    } else if !different.is_empty() {
        let target = names(&different);
        let what = if different.len() == 1 { "makes it as described" } else { "makes them as described" };
        commands.push((format!("talmox apply --target {target}{flags}"), what));
    }
    let (spare, needed): (Vec<_>, Vec<_>) =
        view.drives.iter().partition(|drive| is_spare(drive, view, inside));
    if different.len() != view.nodes.len() {
        let apply = format!("talmox apply{flags}");
        if !needed.is_empty() {
            commands.push((apply, "goes on with the nodes that have not taken their configuration drive"));
        } else if !spare.is_empty() {
            commands.push((apply, "removes configuration drives that no node needs"));
        }
    }
    if !pending.is_empty() {
        let target = names(&pending);
        let command = format!("talmox apply --target {target} --allow-reboot{flags}");
        commands.push((command, "restarts for what is pending"));
    }
    if !undeclared.is_empty() {
        commands.push((
            format!("talmox apply --remove {}{flags}", names(&undeclared)),
            "removes what is undeclared",
        ));
    }
    let width = width(commands.iter().map(|(command, _)| command.as_str()));
    let lines = commands.iter().enumerate().map(|(index, (command, what))| {
        let lead = if index == 0 { "\nnext:" } else { "     " };
        format!("{lead} {}  {DIM}{what}{DIM:#}\n", padded(command, width))
    });
    lines.collect()
}

fn sum(view: &View) -> String {
    let count = |is: &dyn Fn(&NodeView) -> bool| view.nodes.iter().filter(|node| is(node)).count();
    let all = view.nodes.len();
    let running = count(&|node| node.power == Some(Power::Running) && node.halted.is_none());
    let style = if running == all { GREEN } else { YELLOW };
    let mut parts = vec![format!("{style}{running} of {} run{style:#}", plural(all, "VM"))];
    for (number, what) in [
        (count(&|node| node.halted.is_some()), "halted"),
        (count(&|node| node.state == NodeState::Missing), "missing"),
        (count(&|node| !node.drift.is_empty()), "not as described"),
        (count(&|node| pending(node).next().is_some()), "waiting for a restart"),
        (view.undeclared.len(), "undeclared"),
    ] {
        if number > 0 {
            parts.push(format!("{YELLOW}{number} {what}{YELLOW:#}"));
        }
    }
    parts.join(" · ")
}

fn row(node: &NodeView, mut remarks: Vec<String>, inside: Option<&InsideView>) -> Vec<Cell> {
    let nothing = || "–".to_owned();
    let power = match node.power {
        Some(Power::Running) if node.halted.is_some() => (" halted", RED),
        Some(Power::Running) => (" run", GREEN),
        Some(Power::Stopped) => (" stop", YELLOW),
        Some(Power::Unknown) => (" ?", YELLOW),
        None => ("", Style::new()),
    };
    let vm = node.vmid.map_or_else(nothing, |vmid| format!("{vmid}{}", power.0));
    let address = if node.addresses.is_empty() { nothing() } else { node.addresses.join(", ") };
    let style = match node.state {
        NodeState::Present | NodeState::Unfinished => Style::new(),
        NodeState::Missing | NodeState::Unknown => YELLOW,
        NodeState::Lost | NodeState::Double => RED,
    };
    let mut cells = vec![
        Cell::plain(node.node.to_string()),
        Cell { text: vm, style: power.1 },
        Cell::plain(node.host.as_ref().map_or_else(nothing, ToString::to_string)),
        Cell::plain(address),
    ];
    if let Some(inside) = inside.map(|inside| inside.of(&node.node)) {
        for (text, style) in [inside.talos, inside.kubernetes] {
            cells.push(Cell { text, style });
        }
        remarks.extend(inside.remarks);
    }
    cells.push(Cell { text: remarks.join(" · "), style });
    cells
}

/// What is written and waits; what is not written yet shows as a difference.
fn pending(node: &NodeView) -> impl Iterator<Item = &String> {
    node.pending.iter().filter(|key| !node.drift.iter().any(|change| change.key == **key))
}

fn remarks(node: &NodeView) -> Vec<String> {
    let mut remarks: Vec<String> = match node.state {
        NodeState::Present => Vec::new(),
        NodeState::Missing => vec!["missing".to_owned()],
        NodeState::Unfinished => vec!["its making was interrupted".to_owned()],
        NodeState::Lost => vec!["a VM that may be it lacks its mark or its SMBIOS values".to_owned()],
        NodeState::Double => vec!["has more than one VM".to_owned()],
        NodeState::Unknown => vec!["not known".to_owned()],
    };
    remarks.extend(obstacles(node));
    remarks.extend(node.tasks.iter().map(|task| format!("under way: {}", safe(task))));
    remarks.extend(node.ha.as_ref().map(|state| format!("HA {}", safe(state))));
    let keys: Vec<String> = pending(node).map(|key| safe(key)).collect();
    if !keys.is_empty() {
        remarks.push(format!("pending: {} (reboot)", listed(&keys)));
    }
    if !node.drift.is_empty() {
        let drift: Vec<String> = node.drift.iter().map(difference).collect();
        remarks.push(format!("differs: {}", drift.join(", ")));
    }
    remarks.extend(node.notes.iter().map(|note| safe(note)));
    remarks
}

/// What stands in the way, and of what.
fn obstacles(node: &NodeView) -> Vec<String> {
    let vmid = node.vmid.map(|vmid| vmid.to_string()).unwrap_or_default();
    let lock = node.lock.as_deref().map(|lock| match lock {
        "suspended" => format!("suspended to disk: nothing changes on it until qm resume {vmid}"),
        "backup" | "snapshot" | "snapshot-delete" | "rollback" | "migrate" => {
            format!("busy ({lock}): changes, restarts, moves and removal wait until that is over")
        }
        _ => format!("busy ({})", safe(lock)),
    });
    let halted = node.halted.as_deref().map(|state| match state {
        "paused" => {
            format!("paused: it hears no shutdown, so a restart or removal pulls the plug; qm resume {vmid}")
        }
        "io-error" => {
            format!("halted, its disk took no more writes: look at its storage, then qm resume {vmid}")
        }
        other => format!("QEMU says {}", safe(other)),
    });
    let names: Vec<String> = node.snapshots.iter().map(|name| safe(name)).collect();
    let snapshots = (!names.is_empty()).then(|| {
        let noun = if names.len() == 1 { "snapshot" } else { "snapshots" };
        format!(
            "{noun} {}: they go with the VM, and keep it from moving live with local disks",
            listed(&names)
        )
    });
    lock.into_iter().chain(halted).chain(snapshots).collect()
}

/// What other tools want to know of a node, under the names they know it by.
#[derive(Serialize)]
pub(crate) struct OutputData<'v> {
    format: &'static str,
    cluster: &'v str,
    nodes: std::collections::BTreeMap<&'v str, NodeOutput<'v>>,
}

#[derive(Serialize)]
struct NodeOutput<'v> {
    vmid: Option<u32>,
    vm_name: &'v str,
    /// The Proxmox host.
    node: Option<&'v str>,
    ip_address: Option<&'v str>,
    ip_addresses: &'v [String],
    mac_address: Option<&'v str>,
    role: Option<talmox_types::desired::Role>,
}

impl<'v> OutputData<'v> {
    pub(crate) fn new(view: &'v View) -> Self {
        let one = |node: &'v NodeView| NodeOutput {
            vmid: node.vmid.map(talmox_types::VmId::get),
            vm_name: node.node.as_str(),
            node: node.host.as_ref().map(talmox_types::HostName::as_str),
            ip_address: node.addresses.first().map(String::as_str),
            ip_addresses: &node.addresses,
            mac_address: node.mac.as_deref(),
            role: node.role,
        };
        let nodes = view.nodes.iter().map(|node| (node.node.as_str(), one(node))).collect();
        Self { format: "talmox.output/v1", cluster: view.cluster.as_str(), nodes }
    }
}

pub(crate) fn output_text(view: &View) -> String {
    let text = |value: Option<String>| Cell::plain(value.unwrap_or_else(|| "–".to_owned()));
    let rows = view.nodes.iter().map(|node| {
        vec![
            Cell::plain(node.node.to_string()),
            text(node.vmid.map(|vmid| vmid.to_string())),
            text(node.host.as_ref().map(ToString::to_string)),
            text((!node.addresses.is_empty()).then(|| node.addresses.join(", "))),
            Cell { text: node.mac.clone().unwrap_or_default(), style: DIM },
        ]
    });
    table(&["NAME", "VMID", "HOST", "ADDRESS", "MAC"], rows)
}
