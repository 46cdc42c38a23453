//! The lines to paste on a Proxmox host: roles, a user, a token, and what they are granted where.
//!
//! A role holds exactly what one kind of path needs. Entries reach no further than their path unless they must: what
//! Proxmox does not grant, no mistake of ours can use.
//!
//! Root runs these lines, and storages, zones and versions in them are a server's words: every word of a command is
//! quoted, and a comment stays on its line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use talmox_pve::client::StorageState;
use talmox_types::desired::{Desired, TemplateRef};
use talmox_types::shell::{command, quoted};
use talmox_types::{StorageId, visible};

use super::facts::Facts;
use super::needs::{Need, TEMPLATES_POOL, Weight, needs, templates};
use super::verdicts::{content_with, uses};

/// What lines that were made without asking Proxmox cannot know.
const UNASKED: &str = "\
# Nobody was asked: pools that are there already, and what storages take, are not known here.
# On Proxmox VE 8 write VM.Monitor in place of VM.GuestAgent.Audit.
";

/// Whom the lines make, and give what is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// `talmox-lab@pve`.
    pub user: String,
    /// The token's name, without the user.
    pub token: String,
    /// Unix seconds.
    pub expire: u64,
    /// Whether it is there already: then it only gets what it lacks.
    pub exists: bool,
}

/// A command and what it is for. One that is off is shown and not run.
struct Line {
    command: String,
    why: String,
    on: bool,
}

impl Line {
    fn new(command: String, why: impl Into<String>) -> Self {
        Self { command, why: why.into(), on: true }
    }
}

/// A kind of path, and the role for it.
struct Area {
    role: String,
    privileges: BTreeSet<&'static str>,
    paths: Vec<(String, String)>,
}

/// The whole block.
pub fn setup(desired: &Desired, facts: &Facts, account: &Account) -> String {
    let version = if facts.version.is_empty() { "9" } else { &facts.version };
    let mut text = format!(
        "# For cluster {} on Proxmox VE {}. Paste it as root on any one host of the Proxmox cluster.\n",
        desired.name,
        visible(version),
    );
    if facts.version.is_empty() {
        text.push_str(UNASKED);
    }
    let (advised, offered): (Vec<Need>, Vec<Need>) =
        needs(desired, facts).into_iter().partition(|need| need.weight != Weight::Could);
    let areas = areas(desired, &advised, "");
    let mut lines = pools(&areas, desired, facts);
    lines.extend(contents(desired, facts));
    lines.extend(areas.iter().map(role));
    lines.extend(account_lines(desired, account));
    lines.extend(areas.iter().flat_map(|area| entries(area, account)));
    lines.extend(unseen_templates(desired, facts, account));
    for need in &offered {
        let name = need.privilege.replace('.', "-").to_lowercase();
        let extra = self::areas(desired, std::slice::from_ref(need), &format!("-{name}"));
        let extra = extra.iter().flat_map(|area| std::iter::once(role(area)).chain(entries(area, account)));
        lines.extend(extra.map(|line| Line { on: false, ..line }));
    }
    for Line { command, why, on } in lines {
        let off = if on { "" } else { "# " };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{off}{command}  # {}", visible(&why));
    }
    let Account { user, token, exists, .. } = account;
    if !exists {
        let credentials = format!("{user}!{token}=SECRET");
        let _ = writeln!(
            text,
            "# The secret is shown once, by `user token add`. Where talmox runs:\n\
             #   export PROXMOX_VE_API_TOKEN={}",
            quoted(&credentials),
        );
    }
    text
}

/// Paths that need the same, each kind with a role.
fn areas(desired: &Desired, needs: &[Need], suffix: &str) -> Vec<Area> {
    let mut paths: BTreeMap<&str, (BTreeSet<&'static str>, Vec<&'static str>)> = BTreeMap::new();
    for need in needs {
        let (privileges, whys) = paths.entry(&need.path).or_default();
        privileges.insert(need.privilege);
        if !whys.contains(&need.why) {
            whys.push(need.why);
        }
    }
    let mut areas: Vec<Area> = Vec::new();
    for (path, (privileges, whys)) in paths {
        let word = word(path);
        let why = reason(path, &whys);
        let fits =
            |area: &&mut Area| area.privileges == privileges && area.role.contains(&format!("-{word}"));
        if let Some(area) = areas.iter_mut().find(fits) {
            area.paths.push((path.to_owned(), why));
            continue;
        }
        let base = format!("talmox-{}-{word}{suffix}", desired.name);
        let taken = areas.iter().filter(|area| area.role.starts_with(&base)).count();
        let role = if taken == 0 { base } else { format!("{base}-{}", taken + 1) };
        areas.push(Area { role, privileges, paths: vec![(path.to_owned(), why)] });
    }
    areas
}

/// What a role for this path is called.
fn word(path: &str) -> &'static str {
    let mut parts = path.split('/').skip(1);
    match (parts.next(), parts.next()) {
        (Some("vms"), Some(_)) => "template",
        (Some("vms"), None) => "every-vm",
        (Some("pool"), Some(TEMPLATES_POOL)) => "templates",
        (Some("pool"), _) => "vms",
        (Some("storage"), _) => "storage",
        (Some("nodes"), _) => "host",
        (Some("sdn"), _) => "network",
        (Some("mapping"), _) => "device",
        _ => "root",
    }
}

fn reason(path: &str, whys: &[&'static str]) -> String {
    match word(path) {
        "vms" => "the VMs of this pool, and no others, are made, configured, started and removed".to_owned(),
        "templates" => "templates in this pool are built and cloned".to_owned(),
        _ => whys.join("; "),
    }
}

/// Pools that are not there. With a comment that is not talmox's own: so `destroy` leaves them, and what is granted on
/// them.
fn pools(areas: &[Area], desired: &Desired, facts: &Facts) -> Vec<Line> {
    let paths = areas.iter().flat_map(|area| &area.paths).filter_map(|(path, _)| path.strip_prefix("/pool/"));
    let missing = paths.filter(|name| !facts.pools.iter().any(|pool| pool.as_str() == *name));
    let line = |name: &str| {
        let (comment, why) = if name == TEMPLATES_POOL {
            ("Talos templates".to_owned(), "templates that are built live in it")
        } else {
            (format!("Kubernetes cluster {}", desired.name), "the cluster's VMs live in it")
        };
        Line::new(command(&["pveum", "pool", "add", name, "--comment", &comment]), why)
    };
    missing.map(line).collect()
}

/// Storages that must take more than they do.
fn contents(desired: &Desired, facts: &Facts) -> Vec<Line> {
    let mut changed: BTreeMap<&StorageId, (StorageState, Vec<&str>)> = BTreeMap::new();
    let mut lines = Vec::new();
    for wanted in uses(desired, facts) {
        let on_host = |host| {
            let storages = facts.hosts.get(host)?.storages.as_ref().ok()?;
            storages.iter().find(|state| state.storage == *wanted.storage)
        };
        let (id, content) = (wanted.storage, wanted.content);
        let Some(state) = wanted.hosts.iter().find_map(on_host) else {
            if content != "images" {
                let list = format!("WHAT-IT-TAKES,{content}");
                let command = command(&["pvesm", "set", id.as_str(), "--content", &list]);
                let why = format!("if {id} does not take {content} yet: {}", wanted.why);
                lines.push(Line { command, why, on: false });
            }
            continue;
        };
        if !state.holds(content) {
            let (state, whys) = changed.entry(id).or_insert_with(|| (state.clone(), Vec::new()));
            whys.push(wanted.why);
            if let Some(all) = content_with(state, content) {
                state.content = all;
            }
        }
    }
    for (state, whys) in changed.values() {
        let all: Vec<&str> = state.content.iter().map(String::as_str).collect();
        lines.push(Line::new(
            command(&["pvesm", "set", state.storage.as_str(), "--content", &all.join(",")]),
            whys.join("; "),
        ));
    }
    lines
}

/// A role that is there already gets what is needed now.
fn role(area: &Area) -> Line {
    let privileges: Vec<&str> = area.privileges.iter().copied().collect();
    let (role, list) = (&area.role, privileges.join(","));
    let add = command(&["pveum", "role", "add", role]);
    let modify = command(&["pveum", "role", "modify", role, "--privs", &list]);
    let command = format!("{add} 2>/dev/null; {modify}");
    let paths: Vec<&str> = area.paths.iter().map(|(path, _)| path.as_str()).collect();
    Line::new(command, format!("for {}", paths.join(" ")))
}

fn account_lines(desired: &Desired, account: &Account) -> Vec<Line> {
    let Account { user, token, expire, exists } = account;
    if *exists {
        return Vec::new();
    }
    let (comment, expire) = (format!("talmox, cluster {}", desired.name), expire.to_string());
    vec![
        Line::new(
            command(&["pveum", "user", "add", user, "--comment", &comment]),
            "no password: it cannot log in",
        ),
        Line::new(
            command(&["pveum", "user", "token", "add", user, token, "--privsep", "1", "--expire", &expire]),
            "has what both it and its user are granted, until it expires; shows the secret once",
        ),
    ]
}

/// A token with privilege separation has only what both it and its user have, so both are granted it.
fn entries(area: &Area, account: &Account) -> Vec<Line> {
    let line = |(path, why): &(String, String)| Line::new(entry(path, &area.role, account), why.clone());
    area.paths.iter().map(line).collect()
}

fn entry(path: &str, role: &str, Account { user, token, .. }: &Account) -> String {
    // VMs are below this path; everything else is granted where it is.
    let propagate = if path == "/vms" { "1" } else { "0" };
    let token = format!("{user}!{token}");
    let to = ["--roles", role, "--users", user, "--tokens", &token, "--propagate", propagate];
    command(&[&["pveum", "acl", "modify", path][..], &to].concat())
}

/// Templates of others that are named and cannot be seen: their ids are not known.
fn unseen_templates(desired: &Desired, facts: &Facts, account: &Account) -> Vec<Line> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for template in desired.nodes.iter().filter_map(|node| node.vm.template.as_ref()) {
        match template {
            TemplateRef::Id(_) => {}
            TemplateRef::Name(name) => drop(names.insert(name.clone())),
            TemplateRef::Tagged { name, tags } => {
                let tags: Vec<String> = tags.iter().map(ToString::to_string).collect();
                names.insert(name.clone().unwrap_or_else(|| format!("tagged {}", tags.join(", "))));
            }
        }
    }
    if names.is_empty() || templates(desired, facts).next().is_some() {
        return Vec::new();
    }
    let names: Vec<String> = names.into_iter().collect();
    let role = format!("talmox-{}-template", desired.name);
    let why = format!("with the VMID of the template {}, which cannot be seen from here", names.join(", "));
    let make = command(&["pveum", "role", "add", &role, "--privs", "VM.Audit,VM.Clone"]);
    let grant = entry("/vms/VMID", &role, account);
    [make, grant].map(|command| Line { command, why: why.clone(), on: false }).into()
}
