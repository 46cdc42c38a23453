//! What a run was asked for and did not bring about, and the command that goes on with it.
//!
//! The exit code follows from it: 0 only if nothing is left. Nodes that the request does not cover, VMs that are not
//! described and notes of the plan do not count.

use serde::Serialize;
use talmox_plan::{Goal, Request, Waiting};
use talmox_types::NodeName;

use crate::failure::Told;
use crate::printer::Printer;
use crate::screens::{left_lines, waits};

/// One thing that is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Left {
    pub(crate) what: String,
    pub(crate) nodes: Vec<String>,
    /// What goes on with it.
    pub(crate) command: String,
    /// Whether it only waits for a lock, a window, a host, or the permission to restart: `--allow-incomplete` lets that pass.
    pub(crate) waits: bool,
}

/// How a run ended, as the last line for programs.
#[derive(Serialize)]
struct Ended<'a> {
    event: &'static str,
    complete: bool,
    left: &'a [Left],
}

/// What of a plan still waits within what was asked for.
pub(super) fn of_waiting(
    waiting: &[Waiting],
    request: &Request,
    command: impl Fn(&Request) -> String,
) -> Vec<Left> {
    let counted = waiting.iter().filter(|one| counts(one, request));
    let left = counted.map(|one| Left {
        what: waits(one),
        nodes: waiting_nodes(one).iter().map(ToString::to_string).collect(),
        command: command(&goes_on(one, request)),
        waits: only_waits(one),
    });
    left.collect()
}

/// Says what is left, below everything else, and makes the exit code of it.
pub(super) fn conclude(left: &[Left], allow_incomplete: bool, printer: &Printer) -> anyhow::Result<()> {
    let passes = left.is_empty() || (allow_incomplete && left.iter().all(|one| one.waits));
    let lines = left_lines(left);
    match (lines.trim_end(), passes) {
        ("", _) => {}
        (lines, true) => printer.say(lines),
        (lines, false) => printer.problem(lines),
    }
    tell_programs(left, printer);
    if passes { Ok(()) } else { Err(Told.into()) }
}

/// The last line of a run that is told as JSON.
pub(super) fn tell_programs(left: &[Left], printer: &Printer) {
    let ended = Ended { event: "ended", complete: left.is_empty(), left };
    // Texts and switches can always be written as JSON.
    if let (true, Ok(line)) = (printer.talks_json(), serde_json::to_string(&ended)) {
        printer.line(&line);
    }
}

/// Nodes that something is waited for at.
pub(super) fn waiting_nodes(waiting: &Waiting) -> &[NodeName] {
    match waiting {
        Waiting::InFlight { .. } => &[],
        Waiting::Locked { node, .. }
        | Waiting::Reboot { node, .. }
        | Waiting::Trial { node, .. }
        | Waiting::Answer { node, .. } => std::slice::from_ref(node),
        Waiting::Bootstrap { missing, .. } => missing,
        Waiting::Workers { held, .. } => held,
        Waiting::HostDown { nodes, .. } => nodes,
    }
}

fn counts(waiting: &Waiting, request: &Request) -> bool {
    // The restart that `--stage` leaves for later is what was asked for.
    if request.upkeep.stage && matches!(waiting, Waiting::Reboot { .. }) {
        return false;
    }
    let nodes = waiting_nodes(waiting);
    nodes.is_empty() || nodes.iter().any(|node| request.covers(node))
}

/// The request that goes on once, or although, this waits.
fn goes_on(waiting: &Waiting, request: &Request) -> Request {
    let mut request = request.clone();
    if matches!(waiting, Waiting::Reboot { .. }) && request.goal == Goal::Converge {
        request.allow_reboot = true;
    }
    request
}

fn only_waits(waiting: &Waiting) -> bool {
    match waiting {
        Waiting::InFlight { .. }
        | Waiting::Locked { .. }
        | Waiting::HostDown { .. }
        | Waiting::Reboot { .. }
        | Waiting::Trial { .. } => true,
        // A machine that should answer and does not, and what depends on it, is no matter of time alone.
        Waiting::Answer { .. } | Waiting::Workers { .. } | Waiting::Bootstrap { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::parse(name).unwrap()
    }

    fn reboot(name: &str) -> Waiting {
        let vmid = talmox_types::VmId::try_from(2000).unwrap();
        Waiting::Reboot { node: node(name), vmid, keys: vec!["memory".to_owned()] }
    }

    fn left(waiting: &[Waiting], request: &Request) -> Vec<(String, bool)> {
        let command = |request: &Request| format!("apply reboot={}", request.allow_reboot);
        of_waiting(waiting, request, command).into_iter().map(|left| (left.command, left.waits)).collect()
    }

    #[test]
    fn only_what_the_run_was_asked_for_counts() {
        let mut request = Request::default();
        let waiting = [reboot("cp-1"), reboot("cp-2")];
        assert_eq!(left(&waiting, &request).len(), 2);
        request.targets.insert(node("cp-2"));
        assert_eq!(left(&waiting, &request), [("apply reboot=true".to_owned(), true)]);
        request.targets.insert(node("cp-3"));
        request.targets.remove(&node("cp-2"));
        assert_eq!(left(&waiting, &request), []);
        let staged = Request {
            upkeep: talmox_plan::UpkeepRequest { stage: true, ..talmox_plan::UpkeepRequest::default() },
            ..Request::default()
        };
        assert_eq!(left(&waiting, &staged), []);
    }

    #[test]
    fn a_machine_that_does_not_answer_is_more_than_a_wait() {
        let silent = Waiting::Bootstrap { node: node("cp-1"), missing: vec![node("cp-2")] };
        assert_eq!(left(&[silent], &Request::default()), [("apply reboot=false".to_owned(), false)]);
    }
}
