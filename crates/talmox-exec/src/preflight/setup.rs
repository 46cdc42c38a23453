//! The lines to paste on a Proxmox host: roles, a user, a token, and what they are granted where.
//!
//! A role holds exactly what one kind of path needs. Entries reach no further than their path unless they must: what
//! Proxmox does not grant, no mistake of ours can use.
//!
//! Root runs these lines, and storages, zones and versions in them are a server's words: every word of a command is
//! quoted, and a comment stays on its line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use talmox_plan::{Area, Grantee, areas, entry_line, path_word, role_line};
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

impl Account {
    fn grantee(&self) -> Grantee<'_> {
        Grantee { user: &self.user, token: Some(&self.token) }
    }
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
    let granted = areas(desired, &advised, "");
    let mut lines = pools(&granted, desired, facts);
    lines.extend(contents(desired, facts));
    lines.extend(granted.iter().map(role));
    lines.extend(account_lines(desired, account));
    lines.extend(granted.iter().flat_map(|area| entries(area, account)));
    lines.extend(unseen_templates(desired, facts, account));
    for need in &offered {
        let name = need.privilege.replace('.', "-").to_lowercase();
        let extra = areas(desired, std::slice::from_ref(need), &format!("-{name}"));
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

fn reason(path: &str, whys: &[&'static str]) -> String {
    match path_word(path) {
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
        let is_the_clusters = desired.proxmox.pool.as_ref().is_some_and(|pool| pool.as_str() == name);
        let (comment, why) = if name == TEMPLATES_POOL || !is_the_clusters {
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

fn role(area: &Area) -> Line {
    let paths: Vec<&str> = area.paths.iter().map(|(path, _)| path.as_str()).collect();
    Line::new(role_line(area), format!("for {}", paths.join(" ")))
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

fn entries(area: &Area, account: &Account) -> Vec<Line> {
    let line = |(path, whys): &(String, Vec<&'static str>)| {
        Line::new(entry_line(path, &area.role, account.grantee()), reason(path, whys))
    };
    area.paths.iter().map(line).collect()
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
    let grant = entry_line("/vms/VMID", &role, account.grantee());
    [make, grant].map(|command| Line { command, why: why.clone(), on: false }).into()
}
