//! The guest agent: what the server says when it cannot answer, and what it passes through when it can.

use serde_json::{Value, json};

use crate::api::{Call, subdirs};
use crate::reply::{Answer, ApiError};
use crate::vm::Vm;
use crate::world::World;

/// How long the server waits for a sign of life, and for an answer: milliseconds.
const PING: u64 = 3_000;
const PATIENCE: u64 = 10_000;

pub(crate) fn index() -> Value {
    subdirs(
        "name",
        "exec exec-status file-read file-write fsfreeze-freeze fsfreeze-status fsfreeze-thaw fstrim get-fsinfo \
         get-host-name get-memory-block-info get-memory-blocks get-osinfo get-time get-timezone get-users get-vcpus info \
         network-get-interfaces ping set-user-password shutdown suspend-disk suspend-hybrid suspend-ram",
    )
}

pub(crate) fn command(world: &mut World, call: &Call, name: &str) -> Answer {
    let vmid = call.vmid();
    let vm = world.vm_on(&call.node, vmid)?;
    if !vm.config.contains_key("agent") {
        return Err(ApiError::plain("No QEMU guest agent configured"));
    }
    if vm.run.is_none() {
        return Err(ApiError::plain(format!("VM {vmid} is not running")));
    }
    let guest = vm.run.as_ref().and_then(|run| run.guest.as_ref());
    let silent = match guest {
        Some(answers) => answers.is_empty(),
        None => vm.agent.is_empty() && !world.reacts(vm),
    };
    let decides = guest.is_some();
    if silent {
        let node = call.node.clone();
        world.keep_worker(&node, PING);
        return Err(ApiError::plain("QEMU guest agent is not running"));
    }
    if vm.agent_late && name != "ping" {
        let node = call.node.clone();
        world.keep_worker(&node, PATIENCE);
        return Err(ApiError::plain(format!("VM {vmid} qga command 'guest-{name}' failed - got timeout")));
    }
    let result = answer(vmid, vm, name);
    if name == "shutdown" && decides {
        world.button_pressed(vmid);
    } else if name == "shutdown" {
        let node = call.node.clone();
        world.power_off(&node, vmid);
    }
    Ok(json!({"result": result}))
}

/// What the agent in the guest says: what it was told to, or what follows from the VM itself.
fn answer(vmid: u32, vm: &Vm, name: &str) -> Value {
    let guest = vm.run.as_ref().and_then(|run| run.guest.as_ref());
    if let Some(told) = guest.unwrap_or(&vm.agent).get(name) {
        return told.clone();
    }
    let known = ["ping", "info", "get-host-name", "network-get-interfaces", "get-osinfo", "shutdown"];
    match name {
        "ping" | "shutdown" => json!({}),
        "info" => {
            let commands = known.map(
                |name| json!({"name": format!("guest-{name}"), "enabled": true, "success-response": true}),
            );
            json!({"version": "9.2.0", "supported_commands": commands})
        }
        "get-host-name" => {
            json!({"host-name": vm.config.get("name").cloned().unwrap_or_else(|| format!("vm{vmid}"))})
        }
        "get-osinfo" => json!({"id": "talos", "name": "Talos", "machine": "x86_64"}),
        "network-get-interfaces" => interfaces(vm),
        other => {
            let text = format!("The command guest-{other} has not been found");
            json!({"error": {"class": "CommandNotFound", "desc": text}})
        }
    }
}

fn interfaces(vm: &Vm) -> Value {
    let loopback = json!({
        "name": "lo", "hardware-address": "00:00:00:00:00:00",
        "ip-addresses": [{"ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8}],
    });
    let mut all = vec![loopback];
    for key in vm.nic_keys() {
        let index = &key[3..];
        let mac =
            crate::schema::parse_as("net", &vm.config[&key]).get("macaddr").cloned().unwrap_or_default();
        let config =
            vm.config.get(&format!("ipconfig{index}")).map(|text| crate::schema::parse_as("ipconfig", text));
        let static_ip = config.and_then(|parsed| parsed.get("ip").cloned());
        let address = static_ip.as_deref().and_then(|cidr| cidr.split_once('/'));
        let addresses = address.map(|(ip, prefix)| {
            json!({"ip-address": ip, "ip-address-type": "ipv4", "prefix": prefix.parse::<u8>().unwrap_or_default()})
        });
        all.push(json!({
            "name": format!("eth{index}"), "hardware-address": mac.to_lowercase(),
            "ip-addresses": addresses.into_iter().collect::<Vec<_>>(),
        }));
    }
    Value::Array(all)
}
