//! A world in lines: what is there after a program is done.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use regex_lite::Regex;
use serde_json::Value;
use talmox_sim::{AclEntry, Delivery, Request, Simulation, World};

/// Long enough for every task to end and every figure to be known.
const LATER: u64 = 3_600_000;
/// Made up by the server; the same VM has others in every run.
const MADE_UP: [&str; 3] = ["digest", "meta", "vmgenid"];

/// What is there once everything under way has ended.
pub(super) fn lines(world: World) -> anyhow::Result<String> {
    let mut view = View::new(world)?;
    let mut text = String::new();
    view.vms(&mut text)?;
    view.volumes(&mut text)?;
    view.pools(&mut text)?;
    Ok(masked(&text))
}

/// What is set up beside VMs and volumes: storages, rights, watched VMs, devices. Some of it is there from the beginning.
pub(super) fn settings(world: World) -> anyhow::Result<Vec<String>> {
    let mut view = View::new(world)?;
    let mut lines = Vec::new();
    for (path, keys) in [
        ("/storage", ["storage", "type", "content"]),
        ("/access/roles", ["roleid", "privs", ""]),
        ("/access/acl", ["path", "ugid", "roleid"]),
        ("/cluster/ha/resources", ["sid", "state", "comment"]),
        ("/cluster/ha/rules", ["rule", "resources", "nodes"]),
        ("/cluster/mapping/pci", ["id", "description", "map"]),
    ] {
        for entry in view.list(path, keys[0])? {
            let told = keys.iter().filter_map(|key| entry.get(*key)).map(plain).collect::<Vec<_>>();
            lines.push(format!("{} {}", path.trim_start_matches('/'), told.join(" ")));
        }
    }
    Ok(lines)
}

struct View {
    simulation: Simulation,
    authorization: String,
    now: u64,
}

impl View {
    fn new(mut world: World) -> anyhow::Result<Self> {
        let token = world.starter_token().context("the world has lost its token")?;
        see_all(&mut world, &token);
        let now = world.clock() + LATER;
        world.advance_to(now);
        let simulation = Simulation::new(world);
        Ok(Self { simulation, authorization: format!("PVEAPIToken={token}"), now })
    }

    fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let request = Request {
            method: "GET".into(),
            path: format!("/api2/json{path}"),
            authorization: Some(self.authorization.clone()),
            ..Request::default()
        };
        let Delivery::Reply(reply) = self.simulation.handle(&request, self.now) else {
            bail!("{path} was not answered")
        };
        let mut body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if reply.status != 200 {
            bail!("{path}: {} {}", reply.status, reply.reason);
        }
        Ok(body["data"].take())
    }

    /// A list, in the order of one of its keys.
    fn list(&mut self, path: &str, key: &str) -> anyhow::Result<Vec<Value>> {
        let mut list = self.get(path)?.as_array().cloned().unwrap_or_default();
        list.sort_by_key(|entry| entry[key].to_string());
        Ok(list)
    }

    fn vms(&mut self, text: &mut String) -> anyhow::Result<()> {
        for node in self.list("/nodes", "node")? {
            let node = plain(&node["node"]);
            for vm in self.list(&format!("/nodes/{node}/qemu"), "vmid")? {
                let vmid = plain(&vm["vmid"]);
                writeln!(text, "vm {vmid} on {node}: {}", plain(&vm["status"]))?;
                let config = self.get(&format!("/nodes/{node}/qemu/{vmid}/config"))?;
                let mut pairs: Vec<_> = config.as_object().into_iter().flatten().collect();
                pairs.sort_by_key(|(key, _)| *key);
                for (key, value) in pairs.into_iter().filter(|(key, _)| !MADE_UP.contains(&key.as_str())) {
                    writeln!(text, "  {key}: {}", plain(value).trim_end().replace('\n', "\\n"))?;
                }
            }
        }
        Ok(())
    }

    fn volumes(&mut self, text: &mut String) -> anyhow::Result<()> {
        for node in self.list("/nodes", "node")? {
            let node = plain(&node["node"]);
            for storage in self.list(&format!("/nodes/{node}/storage"), "storage")? {
                let path = format!("/nodes/{node}/storage/{}/content", plain(&storage["storage"]));
                for volume in self.list(&path, "volid")? {
                    writeln!(
                        text,
                        "volume {} on {node}: {}",
                        plain(&volume["volid"]),
                        plain(&volume["size"])
                    )?;
                }
            }
        }
        Ok(())
    }

    fn pools(&mut self, text: &mut String) -> anyhow::Result<()> {
        for pool in self.list("/pools", "poolid")? {
            let name = plain(&pool["poolid"]);
            let members = self.get(&format!("/pools/{name}"))?["members"].clone();
            let mut members: Vec<String> =
                members.as_array().into_iter().flatten().map(|member| plain(&member["id"])).collect();
            members.sort();
            writeln!(text, "pool {name}: {}", members.join(" "))?;
        }
        Ok(())
    }
}

/// Lists leave out what their reader may not see.
pub(super) fn see_all(world: &mut World, token: &str) {
    world.access.acl.push(AclEntry {
        path: "/".into(),
        kind: "user".into(),
        subject: token.split('!').next().unwrap_or_default().into(),
        role: "Administrator".into(),
        propagate: true,
    });
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Addresses and ids the server made up.
fn masked(text: &str) -> String {
    let address = Regex::new("(?i)\\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\\b").expect("a constant");
    let uuid = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").expect("a constant");
    uuid.replace_all(&address.replace_all(text, "MAC"), "UUID").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use talmox_sim::Starter;

    #[test]
    fn an_empty_world_has_no_lines() {
        assert_eq!(lines(Starter::new(2, 1, 0).build().world).unwrap(), "");
    }

    #[test]
    fn what_the_server_makes_up_is_masked() {
        let text =
            "net0: virtio=BC:24:11:0a:ff:00,bridge=vmbr0 uuid=0f0f0f0f-1111-2222-3333-444444444444 10:00";
        assert_eq!(masked(text), "net0: virtio=MAC,bridge=vmbr0 uuid=UUID 10:00");
    }
}
