//! The calls, by area, and the table that leads from an endpoint to its code.

pub(crate) mod access;
pub(crate) mod cluster;
pub(crate) mod ha;
pub(crate) mod mapping;
pub(crate) mod nodes;
pub(crate) mod pools;
pub(crate) mod storage;
pub(crate) mod tasks;
pub(crate) mod transfer;
pub(crate) mod users;

use serde_json::{Value, json};

use crate::access::Caller;
use crate::files::FileFacts;
use crate::qemu::{
    agent, clone, cloudinit, create, destroy, migrate, power, power::Action, reshape, snapshot,
    snapshot::Step, update, view,
};
use crate::reply::{Answer, ApiError};
use crate::schema::{Args, Route};
use crate::tasks::Job;
use crate::world::World;

/// A call that passed authentication, permission and schema.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    /// The host the call is about.
    pub(crate) node: String,
    /// The host that was contacted.
    pub(crate) contact: String,
    pub(crate) args: Args,
    pub(crate) file: Option<FileFacts>,
}

impl Call {
    pub(crate) fn vmid(&self) -> u32 {
        self.args.int("vmid").and_then(|id| u32::try_from(id).ok()).unwrap_or_default()
    }

    /// A worker acting for the caller that started it.
    pub(crate) fn of_job(job: &Job, vmid: u32) -> Self {
        let mut args = Args::default();
        args.values.insert("vmid".into(), vmid.to_string());
        Self {
            caller: job.caller.clone(),
            node: job.node.clone(),
            contact: job.node.clone(),
            args,
            file: None,
        }
    }
}

/// An index: one entry per name.
pub(crate) fn subdirs(key: &str, names: &str) -> Value {
    names.split_whitespace().map(|name| json!({key: name})).collect()
}

pub(crate) fn dispatch(world: &mut World, route: &Route, call: &Call) -> Answer {
    let template = route.template.as_str();
    if let Some(rest) = template.strip_prefix("/nodes/{node}/qemu") {
        return vm_call(world, &route.method, rest, call);
    }
    match template.split('/').nth(1).unwrap_or_default() {
        "access" => access::dispatch(world, &route.method, template, call),
        "cluster" => cluster::dispatch(world, &route.method, template, call),
        "nodes" => nodes::dispatch(world, &route.method, template, call),
        "pools" => pools::dispatch(world, &route.method, template, call),
        "storage" => storage::dispatch(world, &route.method, template, call),
        "version" => Ok(version(world, &call.contact)),
        _ => Ok(subdirs("subdir", "version cluster nodes storage access pools")),
    }
}

pub(crate) fn version(world: &World, host: &str) -> Value {
    let own = world.nodes.get(host).and_then(|node| node.release.as_ref());
    let release = own.unwrap_or(&world.release);
    json!({"version": world.version_of(host), "release": release, "repoid": world.repoid})
}

/// An endpoint the table knows and the code does not; the tests see to it that there is none.
pub(crate) fn unknown(method: &str, template: &str) -> Answer {
    Err(ApiError::Status(501, format!("Method '{method} {template}' not implemented")))
}

fn vm_call(world: &mut World, method: &str, rest: &str, call: &Call) -> Answer {
    let inner = rest.strip_prefix("/{vmid}");
    match (method, inner) {
        ("GET", None) => Ok(view::list(world, call)),
        ("POST", None) => create::create(world, call),
        ("GET", Some("")) => Ok(view::index()),
        ("DELETE", Some("")) => destroy::destroy(world, call),
        (_, Some(path)) if path.starts_with("/agent") => agent_call(world, path, method, call),
        (_, Some(path)) if path.starts_with("/status") => status_call(world, path, call),
        (_, Some(path)) if path.starts_with("/snapshot") => snapshot_call(world, method, path, call),
        ("GET", Some(path)) => vm_read(world, path, call),
        (method, Some(path)) => vm_write(world, method, path, call),
        (method, None) => unknown(method, rest),
    }
}

fn vm_read(world: &World, path: &str, call: &Call) -> Answer {
    match path {
        "/config" => view::config(world, call),
        "/pending" => view::pending(world, call),
        "/feature" => view::feature(world, call),
        "/migrate" => migrate::preconditions(world, call),
        "/cloudinit" => cloudinit::pending(world, call),
        "/cloudinit/dump" => cloudinit::dump(world, call),
        "/firewall/options" => {
            world.vm_on(&call.node, call.vmid())?;
            Ok(json!({"digest": crate::files::sha1_hex("")}))
        }
        _ => unknown("GET", path),
    }
}

fn vm_write(world: &mut World, method: &str, path: &str, call: &Call) -> Answer {
    match (method, path) {
        ("PUT", "/config") => update::update_now(world, call),
        ("POST", "/config") => update::update_later(world, call),
        ("PUT", "/unlink") => update::unlink(world, call),
        ("PUT", "/resize") => reshape::resize(world, call),
        ("POST", "/template") => reshape::template(world, call),
        ("POST", "/move_disk") => reshape::move_disk(world, call),
        ("POST", "/clone") => clone::clone(world, call),
        ("POST", "/migrate") => migrate::migrate(world, call),
        ("PUT", "/cloudinit") => cloudinit::regenerate(world, call),
        _ => unknown(method, path),
    }
}

fn agent_call(world: &mut World, path: &str, method: &str, call: &Call) -> Answer {
    match path.strip_prefix("/agent/") {
        Some(name) => agent::command(world, call, name),
        None if method == "GET" => Ok(agent::index()),
        None => {
            let name = call.args.text("command").to_owned();
            agent::command(world, call, &name)
        }
    }
}

fn status_call(world: &mut World, path: &str, call: &Call) -> Answer {
    let action = match path {
        "/status/current" => return view::current(world, call),
        "/status/start" => Action::Start,
        "/status/stop" => Action::Stop,
        "/status/shutdown" => Action::Shutdown,
        "/status/reboot" => Action::Reboot,
        "/status/reset" => Action::Reset,
        "/status/suspend" => Action::Suspend,
        "/status/resume" => Action::Resume,
        _ => return Ok(subdirs("subdir", "current start stop reset shutdown suspend reboot")),
    };
    power::act(world, call, action)
}

fn snapshot_call(world: &mut World, method: &str, path: &str, call: &Call) -> Answer {
    match (method, path) {
        ("GET", "/snapshot") => snapshot::list(world, call),
        ("POST", "/snapshot") => snapshot::act(world, call, Step::Take),
        ("DELETE", _) => snapshot::act(world, call, Step::Remove),
        ("POST", _) => snapshot::act(world, call, Step::Rollback),
        ("PUT", _) => snapshot::describe(world, call),
        ("GET", path) if path.ends_with("/config") => snapshot::config(world, call),
        _ => Ok(subdirs("cmd", "rollback config")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::User;
    use std::collections::BTreeMap;

    /// The table and the code must know the same endpoints.
    #[test]
    fn every_endpoint_of_the_table_has_code() {
        let mut world = World::new(1, 0);
        world.add_node("pve1", "192.0.2.1");
        world.access.users.insert("root@pam".into(), User::default());
        let pairs = [
            ("node", "pve1"),
            ("vmid", "100"),
            ("userid", "root@pam"),
            ("groupid", "admins"),
            ("storage", "local"),
            ("volume", "local:iso/x.iso"),
        ];
        let values: BTreeMap<String, String> =
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        for route in crate::schema::routes() {
            world.add_vm("pve1", 100, BTreeMap::new(), false);
            let call = Call {
                caller: Caller { user: "root@pam".into(), token: None },
                node: "pve1".into(),
                contact: "pve1".into(),
                args: Args { values: values.clone(), ..Args::default() },
                file: None,
            };
            let answer = dispatch(&mut world, route, &call);
            let missing = matches!(&answer, Err(ApiError::Status(501, _)));
            assert!(!missing, "{} {}", route.method, route.template);
        }
    }
}
