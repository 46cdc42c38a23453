//! What is wrong with Talos nodes: with their machines, and with calls to them.
//!
//! ```yaml
//! machines:
//!   - {trouble: never-boots, vm: 2001}
//!   - {trouble: api-flaps, address: 10.0.7.12, up: 20s, down: 3s}
//! node_calls:
//!   - {fault: error, code: Unavailable, calls: '*/Bootstrap', address: 10.0.7.11}
//!   - {fault: hang, calls: GET /api/v1/nodes*, times: 3}
//! ```

use std::net::IpAddr;

use serde_json::{Value, json};
use talmox_config::Code;
use talmox_sim_talos::{CallFault, Code as Status, Flapping, Hardware, MachineId, Nodes, Trouble};
use talmox_yaml::{Node, NodeKind};

use super::kinds::{Form, Key, Kind, key, kind_schema};
use super::values::Given;
use super::{Fields, Reader};

/// Ids of machines that are no VM: those of VMs begin at 100.
const STRANGERS: std::ops::Range<u32> = 1..100;

const VM: Key = key("vm", Form::Number { least: 100, most: 999_999_999 }, "the id of its VM");

#[rustfmt::skip]
const TROUBLES: &[Kind] = &[
    Kind { name: "never-boots", meaning: "it is on, and nothing happens", keys: &[VM] },
    Kind { name: "boot-fails", meaning: "a version does not come up on it", keys: &[
        VM,
        key("version", Form::Text, "such as 1.13.9"),
    ] },
    Kind { name: "wrong-address", meaning: "it comes up at another address than it was told", keys: &[
        VM,
        key("address", Form::Address, "where it is instead"),
    ] },
    Kind { name: "stranger", meaning: "a machine of somebody else's is at an address, with Talos in maintenance mode", keys: &[
        key("address", Form::Address, "the address"),
    ] },
    Kind { name: "clock-off", meaning: "its clock never agrees with a time server", keys: &[VM] },
    Kind { name: "crashes", meaning: "a program of it cannot start, and is started again every five seconds", keys: &[
        VM,
        key("service", Form::Text, "etcd or kubelet"),
    ] },
    Kind { name: "discovery-away", meaning: "no machine reaches the discovery service", keys: &[] },
    Kind { name: "slow-install", meaning: "installers take longer on it", keys: &[
        VM,
        key("factor", Form::Number { least: 1, most: 1_000_000 }, "so many times as long"),
    ] },
    Kind { name: "dies-in-install", meaning: "it loses power in the middle of an installation, once", keys: &[VM] },
    Kind { name: "dies-in-upgrade", meaning: "it loses power in the middle of an upgrade, once", keys: &[VM] },
    Kind { name: "installer-fails", meaning: "an installer ends and has changed nothing", keys: &[
        VM,
        key("code", Form::Number { least: 1, most: 255 }, "what it ends with; default: 1"),
    ] },
    Kind { name: "etcd-lost", meaning: "the data of its etcd is lost, once, when there are two other members", keys: &[VM] },
    Kind { name: "api-flaps", meaning: "its API, and that of its Kubernetes, comes and goes", keys: &[
        key("address", Form::Address, "its address"),
        key("up", Form::Duration, "how long it is there, in simulated time; default: 20s"),
        key("down", Form::Duration, "how long it is away; default: 3s"),
    ] },
];

const CALLS: &[Key] = &[
    key(
        "calls",
        Form::Text,
        "a path of the Talos API such as */Bootstrap, or a method and path of Kubernetes such as GET /api/v1/nodes; \
         * stands for any text; default: every call",
    ),
    key("address", Form::Address, "only calls to this address"),
    key(
        "at",
        Form::Number { least: 1, most: u64::MAX },
        "the first matching call that goes wrong, counted from 1; default: 1",
    ),
    key("times", Form::Times, "how many matching calls go wrong from there on, or all; default: 1"),
];

#[rustfmt::skip]
const CALL_FAULTS: &[Kind] = &[
    Kind { name: "refused", meaning: "nobody listens", keys: &[] },
    Kind { name: "broken", meaning: "the call is not carried out, and the connection breaks", keys: &[] },
    Kind { name: "lost-reply", meaning: "the call is carried out, and the connection breaks before the reply", keys: &[] },
    Kind { name: "hang", meaning: "the call is never answered", keys: &[
        key("happens", Form::Flag, "the call is carried out all the same; default: no"),
    ] },
    Kind { name: "slow", meaning: "the call is answered later", keys: &[
        key("by", Form::Duration, "how much later, in simulated time"),
    ] },
    Kind { name: "error", meaning: "the call is answered with this", keys: &[
        key("code", Form::Text, "of Talos, in gRPC's words: Unavailable, PermissionDenied, …; default: Unavailable"),
        key("status", Form::Number { least: 400, most: 599 }, "of Kubernetes; default: 500"),
        key("text", Form::Text, "the words; default: something is wrong"),
        key("happens", Form::Flag, "the call is carried out all the same; default: no"),
    ] },
];

/// What a file says of nodes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct NodeFaults {
    machines: Vec<Wrong>,
    calls: Vec<Rule>,
}

#[derive(Debug, PartialEq)]
enum Wrong {
    Machine(MachineId, Trouble),
    Flaps(IpAddr, Flapping),
    Stranger(IpAddr),
    Discovery,
}

#[derive(Debug, PartialEq)]
struct Rule {
    path: String,
    to: Option<IpAddr>,
    at: u64,
    times: u64,
    fault: CallFault,
}

impl NodeFaults {
    /// From now on this goes wrong, and nothing else: what was wrong in an earlier run is not wrong for ever.
    pub(super) fn befall(self, nodes: &mut Nodes) {
        nodes.faults = talmox_sim_talos::Faults::default();
        nodes.reach_discovery(!self.machines.contains(&Wrong::Discovery));
        for id in STRANGERS {
            nodes.remove_machine(MachineId(id));
        }
        let mut strangers = STRANGERS;
        for wrong in self.machines {
            match wrong {
                Wrong::Machine(machine, trouble) => nodes.faults.trouble(machine, trouble),
                Wrong::Discovery => {}
                Wrong::Flaps(address, flapping) => nodes.faults.flap(address, flapping),
                Wrong::Stranger(address) => {
                    if let Some(id) = strangers.next() {
                        nodes.power_on(Hardware::stranger(MachineId(id), address));
                    }
                }
            }
        }
        for Rule { path, to, at, times, fault } in self.calls {
            match to {
                Some(to) => nodes.faults.call_to(to, &path, at, times, fault),
                None => nodes.faults.call(&path, at, times, fault),
            }
        }
    }
}

fn number(fields: &Fields<'_>, name: &str) -> Option<u64> {
    if let Some((Given::Number(number), _)) = fields.get(name) { Some(*number) } else { None }
}

fn time(fields: &Fields<'_>, name: &str) -> Option<u64> {
    if let Some((Given::Milliseconds(time), _)) = fields.get(name) { Some(time.unsigned_abs()) } else { None }
}

fn text(fields: &Fields<'_>, name: &str) -> Option<String> {
    if let Some((Given::Text(text), _)) = fields.get(name) { Some(text.clone()) } else { None }
}

fn address(fields: &Fields<'_>) -> Option<IpAddr> {
    if let Some((Given::Address(address), _)) = fields.get("address") { Some(*address) } else { None }
}

impl Reader<'_> {
    pub(super) fn machines(&mut self, node: &Node) {
        for item in self.items(node, "machines") {
            let Some((kind, fields)) = self.one_of(item, "trouble", TROUBLES, &[]) else { continue };
            match wrong(kind.name, &fields) {
                Ok(wrong) => self.nodes.machines.push(wrong),
                Err(missing) => self.missing(kind, missing, item),
            }
        }
    }

    pub(super) fn node_calls(&mut self, node: &Node) {
        for item in self.items(node, "node_calls") {
            let Some((kind, fields)) = self.one_of(item, "fault", CALL_FAULTS, CALLS) else { continue };
            match self.call_fault(kind.name, &fields) {
                Ok(Some(fault)) => self.nodes.calls.push(Rule {
                    path: text(&fields, "calls").unwrap_or_else(|| "*".to_owned()),
                    to: address(&fields),
                    at: number(&fields, "at").unwrap_or(1),
                    times: number(&fields, "times").unwrap_or(1),
                    fault,
                }),
                Ok(None) => {}
                Err(missing) => self.missing(kind, missing, item),
            }
        }
    }

    /// Nothing if what was written has been reported.
    fn call_fault(&mut self, kind: &str, fields: &Fields<'_>) -> Result<Option<CallFault>, &'static str> {
        let happens = matches!(fields.get("happens"), Some((Given::Flag(true), _)));
        Ok(Some(match kind {
            "refused" => CallFault::Refuse,
            "broken" => CallFault::Break,
            "lost-reply" => CallFault::LoseReply,
            "hang" if happens => CallFault::HangAfter,
            "hang" => CallFault::Hang,
            "slow" => CallFault::Slow { by: time(fields, "by").ok_or("by")? },
            _ => {
                let Some(code) = self.code(fields) else { return Ok(None) };
                let message = text(fields, "text").unwrap_or_else(|| "something is wrong".to_owned());
                CallFault::Answer { code, message, happens }
            }
        }))
    }

    fn code(&mut self, fields: &Fields<'_>) -> Option<u16> {
        if let Some(status) = number(fields, "status") {
            return u16::try_from(status).ok();
        }
        let Some((Given::Text(name), node)) = fields.get("code") else {
            return Some(u16::from(Status::Unavailable as u8));
        };
        let found = Status::by_name(name);
        if found.is_none() {
            let text = format!("code: {name} is no code of gRPC");
            self.say(
                Code::InvalidValue,
                &text,
                node.place(),
                "such as Unavailable, Internal, PermissionDenied",
            );
        }
        found.map(|code| u16::from(code as u8))
    }

    fn items<'n>(&mut self, node: &'n Node, name: &str) -> &'n [Node] {
        if let NodeKind::Sequence(items) = &node.kind {
            return items;
        }
        let text = format!("{name}: not a list");
        self.say(Code::WrongType, &text, node.place(), "begin each line with `- {`");
        &[]
    }

    fn missing(&mut self, kind: &Kind, name: &str, item: &Node) {
        let meaning = kind.keys.iter().find(|key| key.name == name).map_or("", |key| key.meaning);
        let text = format!("{} needs {name}", kind.name);
        self.say(Code::MissingKey, &text, item.place(), &format!("{name}: {meaning}"));
    }
}

/// What is wrong with a machine, or the key that is missing.
fn wrong(kind: &str, fields: &Fields<'_>) -> Result<Wrong, &'static str> {
    let machine = || number(fields, "vm").and_then(|id| u32::try_from(id).ok()).map(MachineId).ok_or("vm");
    let trouble = match kind {
        "stranger" => return Ok(Wrong::Stranger(address(fields).ok_or("address")?)),
        "api-flaps" => {
            let up = time(fields, "up").unwrap_or(20_000);
            let down = time(fields, "down").unwrap_or(3_000);
            return Ok(Wrong::Flaps(address(fields).ok_or("address")?, Flapping { up, down }));
        }
        "discovery-away" => return Ok(Wrong::Discovery),
        "crashes" => {
            let service = text(fields, "service").filter(|name| ["etcd", "kubelet"].contains(&name.as_str()));
            Trouble::Crashes(service.ok_or("service")?)
        }
        "never-boots" => Trouble::NeverBoots,
        "boot-fails" => {
            let version = text(fields, "version").ok_or("version")?;
            Trouble::BootFails(version.trim_start_matches('v').to_owned())
        }
        "wrong-address" => Trouble::WrongAddress(address(fields).ok_or("address")?),
        "clock-off" => Trouble::ClockOff,
        "slow-install" => Trouble::SlowInstall(number(fields, "factor").ok_or("factor")?),
        "dies-in-install" => Trouble::DiesInInstall,
        "dies-in-upgrade" => Trouble::DiesInUpgrade,
        "installer-fails" => {
            let code = number(fields, "code").and_then(|code| i32::try_from(code).ok());
            Trouble::InstallerFails(code.unwrap_or(1))
        }
        _ => Trouble::LosesEtcd,
    };
    Ok(Wrong::Machine(machine()?, trouble))
}

pub(super) fn machines_schema() -> Value {
    let kinds: Vec<Value> = TROUBLES.iter().map(|kind| kind_schema(kind, "trouble", &[])).collect();
    json!({
        "type": "array", "items": {"oneOf": kinds},
        "description": "what is wrong with Talos machines, from the beginning on",
    })
}

pub(super) fn calls_schema() -> Value {
    let kinds: Vec<Value> = CALL_FAULTS.iter().map(|kind| kind_schema(kind, "fault", CALLS)).collect();
    json!({
        "type": "array", "items": {"oneOf": kinds},
        "description": "what goes wrong with calls to the Talos and Kubernetes APIs of nodes, and when",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::faults::tests::read_nodes;

    #[test]
    fn every_trouble_and_every_call_fault_can_be_written() {
        let troubles = [
            ("never-boots, vm: 2001", Trouble::NeverBoots),
            ("boot-fails, vm: 2001, version: v1.13.9", Trouble::BootFails("1.13.9".to_owned())),
            (
                "wrong-address, vm: 2001, address: 10.0.7.99",
                Trouble::WrongAddress("10.0.7.99".parse().unwrap()),
            ),
            ("clock-off, vm: 2001", Trouble::ClockOff),
            ("crashes, vm: 2001, service: etcd", Trouble::Crashes("etcd".to_owned())),
            ("slow-install, vm: 2001, factor: 60", Trouble::SlowInstall(60)),
            ("dies-in-install, vm: 2001", Trouble::DiesInInstall),
            ("dies-in-upgrade, vm: 2001", Trouble::DiesInUpgrade),
            ("installer-fails, vm: 2001, code: 3", Trouble::InstallerFails(3)),
            ("etcd-lost, vm: 2001", Trouble::LosesEtcd),
        ];
        assert_eq!(troubles.len() + 3, TROUBLES.len(), "every trouble is tried");
        for (written, expected) in troubles {
            let (found, problems) = read_nodes(&format!("machines: [{{trouble: {written}}}]"));
            assert_eq!(problems, "");
            assert_eq!(found.machines, [Wrong::Machine(MachineId(2001), expected)]);
        }
        let (found, problems) = read_nodes(
            "machines:\n- {trouble: stranger, address: 10.0.7.12}\n- {trouble: api-flaps, address: 10.0.7.13, up: 5s}\n\
             - {trouble: discovery-away}\n",
        );
        assert_eq!(problems, "");
        let flapping = Flapping { up: 5_000, down: 3_000 };
        let (first, second) = ("10.0.7.12".parse().unwrap(), "10.0.7.13".parse().unwrap());
        assert_eq!(
            found.machines,
            [Wrong::Stranger(first), Wrong::Flaps(second, flapping), Wrong::Discovery]
        );
        let answer = |code, happens| CallFault::Answer { code, message: "no".to_owned(), happens };
        let faults = [
            ("refused", CallFault::Refuse),
            ("broken", CallFault::Break),
            ("lost-reply", CallFault::LoseReply),
            ("hang", CallFault::Hang),
            ("hang, happens: true", CallFault::HangAfter),
            ("slow, by: 3s", CallFault::Slow { by: 3_000 }),
            ("error, code: Internal, text: no, happens: true", answer(13, true)),
            ("error, status: 503, text: no", answer(503, false)),
        ];
        for (written, fault) in faults {
            let (found, problems) = read_nodes(&format!(
                "node_calls: [{{fault: {written}, calls: '*/Bootstrap', address: 10.0.7.12, at: 2, times: all}}]"
            ));
            assert_eq!(problems, "");
            let path = "*/Bootstrap".to_owned();
            assert_eq!(found.calls, [Rule { path, to: Some(first), at: 2, times: u64::MAX, fault }]);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (written, words) in [
            ("machines: {}", "machines: not a list"),
            ("machines: [{trouble: tired}]", "trouble: no such trouble"),
            ("machines: [{trouble: never-boots}]", "never-boots needs vm"),
            ("machines: [{trouble: never-boots, vm: 7}]", "vm: 7 will not do"),
            ("machines: [{trouble: stranger, address: here}]", "address: here will not do"),
            ("node_calls: [{fault: slow}]", "slow needs by"),
            ("node_calls: [{fault: error, code: Sorry}]", "code: Sorry is no code of gRPC"),
            ("node_calls: [{fault: hang, chance: 0.5}]", "hang has no chance"),
        ] {
            let (_, problems) = read_nodes(written);
            assert!(problems.contains(words), "{written}: {problems}");
        }
    }

    #[test]
    fn what_was_wrong_before_is_not_wrong_for_ever() {
        let mut nodes = Nodes::new(1, 0);
        let address: IpAddr = "10.0.7.12".parse().unwrap();
        let (found, _) = read_nodes("machines: [{trouble: stranger, address: 10.0.7.12}]");
        found.befall(&mut nodes);
        nodes.advance_to(60_000);
        assert!(nodes.addresses().iter().any(|(ip, _)| *ip == address));
        NodeFaults::default().befall(&mut nodes);
        assert!(nodes.addresses().is_empty());
        assert_eq!(nodes.faults, talmox_sim_talos::Faults::default());
    }
}
