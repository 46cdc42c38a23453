//! What a cloud-init drive would hold.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::api::Call;
use crate::contents::{Content, Secret};
use crate::drive::{is_nic, split_key};
use crate::files::sha1_hex;
use crate::reply::{Answer, ApiError};
use crate::schema;
use crate::vm::{Vm, shown};
use crate::wire::percent_decode;
use crate::world::World;

const KEYS: [&str; 8] =
    ["cicustom", "cipassword", "citype", "ciupgrade", "ciuser", "nameserver", "searchdomain", "sshkeys"];

pub(crate) fn pending(world: &World, call: &Call) -> Answer {
    let vm = world.vm_on(&call.node, call.vmid())?;
    let set = KEYS.iter().filter_map(|key| Some((key, vm.config.get(*key)?)));
    Ok(set.map(|(key, text)| json!({"key": key, "value": shown(key, text)})).collect())
}

pub(crate) fn regenerate(world: &mut World, call: &Call) -> Answer {
    let vm = world.vm_on(&call.node, call.vmid())?;
    vm.check_lock().map_err(ApiError::Plain)?;
    world.write_cloudinit(call.vmid());
    world.devices_changed(call.vmid());
    Ok(Value::Null)
}

impl World {
    /// Writes a VM's settings onto its cloud-init drive, in the form Linux reads: Windows has another one.
    pub(crate) fn write_cloudinit(&mut self, vmid: u32) {
        let Some(vm) = self.vms.get(&vmid) else { return };
        let drives = vm.drives();
        let Some(drive) = drives.iter().find(|drive| drive.is_cloudinit()) else { return };
        let of_windows = vm.config.get("ostype").is_some_and(|kind| kind.starts_with('w'));
        let kind =
            vm.config.get("citype").map_or(if of_windows { "configdrive2" } else { "nocloud" }, |kind| kind);
        let files = generated(self, vmid, vm).ok().filter(|_| kind == "nocloud");
        let content = files.map_or(Content::Other, Content::Cidata);
        let node = vm.node.clone();
        if let Some(volume) = self.volume_mut(&node, drive.file()) {
            volume.holds = content;
        }
    }
}

fn generated(world: &World, vmid: u32, vm: &Vm) -> Result<BTreeMap<String, Secret>, ApiError> {
    let name_server = world.nodes.get(&vm.node).map(|node| node.name_server.clone()).unwrap_or_default();
    let (user, network) = (user_data(vmid, vm), network_config(vm, &name_server)?);
    let meta = format!("instance-id: {}\n", sha1_hex(&format!("{user}{network}")));
    let files = [("user-data", user), ("network-config", network), ("meta-data", meta)];
    Ok(files.map(|(name, text)| (name.to_owned(), Secret(text.into_bytes()))).into())
}

pub(crate) fn dump(world: &World, call: &Call) -> Answer {
    let vmid = call.vmid();
    let vm = world.vm_on(&call.node, vmid)?;
    let name_server = world.nodes.get(&call.node).map(|node| node.name_server.clone()).unwrap_or_default();
    let user = user_data(vmid, vm);
    let text = match call.args.text("type") {
        "user" => user,
        "network" => network_config(vm, &name_server)?,
        _ => format!("instance-id: {}\n", sha1_hex(&format!("{user}{}", network_config(vm, &name_server)?))),
    };
    Ok(Value::from(text))
}

fn user_data(vmid: u32, vm: &Vm) -> String {
    let config = vm.merged();
    let get = |key: &str| config.get(key).map(String::as_str);
    let name = get("name").map_or_else(|| format!("VM{vmid}"), str::to_owned);
    let host = name.split('.').next().unwrap_or_default();
    let full = match get("searchdomain") {
        Some(domain) if !name.contains('.') => format!("{name}.{domain}"),
        _ => name.clone(),
    };
    let mut text = format!("#cloud-config\nhostname: {host}\nmanage_etc_hosts: true\nfqdn: {full}\n");
    if let Some(user) = get("ciuser") {
        let _ = writeln!(text, "user: {user}");
    }
    if let Some(password) = get("cipassword") {
        let _ = writeln!(text, "password: {password}");
    }
    if let Some(keys) = get("sshkeys").map(percent_decode) {
        text.push_str("ssh_authorized_keys:\n");
        let lines = keys.lines().filter(|line| !line.trim().is_empty());
        for line in lines {
            let _ = writeln!(text, "  - {line}");
        }
    }
    text.push_str("chpasswd:\n  expire: False\n");
    if get("ciuser") != Some("root") {
        text.push_str("users:\n  - default\n");
    }
    let upgrade = get("ciupgrade").is_none_or(|flag| flag == "1");
    let _ = writeln!(text, "package_upgrade: {upgrade}");
    text
}

fn network_config(vm: &Vm, host_server: &str) -> Result<String, ApiError> {
    let config = vm.merged();
    let mut text = String::from("version: 1\nconfig:\n");
    for (key, net) in config.iter().filter(|(key, _)| is_nic(key)) {
        let index = split_key(key).map_or(0, |(_, index)| index);
        let Some(ip) = config.get(&format!("ipconfig{index}")) else { continue };
        let net = schema::parse_as("net", net);
        let mac = net.get("macaddr").map(|mac| mac.to_lowercase()).unwrap_or_default();
        let _ = writeln!(
            text,
            "    - type: physical\n      name: eth{index}\n      mac_address: '{mac}'\n      subnets:"
        );
        text.push_str(&subnets(ip)?);
    }
    let servers = config.get("nameserver").map_or(host_server, String::as_str);
    text.push_str("    - type: nameserver\n      address:\n");
    for server in servers.split_whitespace() {
        let _ = writeln!(text, "      - '{server}'");
    }
    if let Some(domains) = config.get("searchdomain") {
        text.push_str("      search:\n");
        for domain in domains.split_whitespace() {
            let _ = writeln!(text, "      - '{domain}'");
        }
    }
    Ok(text)
}

fn subnets(ipconfig: &str) -> Result<String, ApiError> {
    let parsed = schema::parse_as("ipconfig", ipconfig);
    let mut text = String::new();
    let broken = |value: &str| ApiError::plain(format!("not a CIDR: {value}"));
    match parsed.get("ip").map(String::as_str) {
        None => {}
        Some("dhcp") => text.push_str("      - type: dhcp4\n"),
        Some(cidr) => {
            let (address, bits) = cidr.split_once('/').ok_or_else(|| broken(cidr))?;
            let bits: u32 = bits.parse().map_err(|_| broken(cidr))?;
            let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or_default());
            let _ = writeln!(
                text,
                "      - type: static\n        address: '{address}'\n        netmask: '{mask}'"
            );
            if let Some(gateway) = parsed.get("gw") {
                let _ = writeln!(text, "        gateway: '{gateway}'");
            }
        }
    }
    match parsed.get("ip6").map(String::as_str) {
        None => {}
        Some("dhcp") => text.push_str("      - type: dhcp6\n"),
        Some("auto") => text.push_str("      - type: ipv6_slaac\n"),
        Some(cidr) => {
            let _ = writeln!(text, "      - type: static6\n        address: '{cidr}'");
            if let Some(gateway) = parsed.get("gw6") {
                let _ = writeln!(text, "        gateway: '{gateway}'");
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(pairs: &[(&str, &str)]) -> Vm {
        let config: BTreeMap<String, String> =
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Vm { config, ..Vm::default() }
    }

    #[test]
    fn the_network_part_names_only_nics_with_an_address() {
        let vm = vm(&[
            ("net0", "virtio=BC:24:11:00:00:01"),
            ("net1", "virtio=BC:24:11:00:00:02"),
            ("ipconfig1", "ip=10.0.0.5/20,gw=10.0.0.1,ip6=auto"),
        ]);
        let text = network_config(&vm, "192.0.2.53").unwrap();
        assert!(text.contains("name: eth1") && !text.contains("name: eth0"));
        assert!(text.contains("netmask: '255.255.240.0'") && text.contains("type: ipv6_slaac"));
        assert!(text.ends_with("address:\n      - '192.0.2.53'\n"));
    }

    #[test]
    fn the_host_name_ends_at_the_first_dot() {
        assert!(
            user_data(100, &vm(&[("name", "a.b.c")]))
                .contains("hostname: a\nmanage_etc_hosts: true\nfqdn: a.b.c\n")
        );
        assert!(user_data(100, &vm(&[])).contains("hostname: VM100\n"));
    }
}
