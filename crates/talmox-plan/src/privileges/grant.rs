//! The commands that grant: a role for each kind of path, and the entry that gives it to a user or token there.
//!
//! An entry replaces what is handed down from the paths above it, so a role always has everything its path needs.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::desired::Desired;
use talmox_types::shell::command;

use super::table::{Need, TEMPLATES_POOL};

/// A kind of path, and the role for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    pub role: String,
    pub privileges: BTreeSet<&'static str>,
    /// Each with what its privileges are for.
    pub paths: Vec<(String, Vec<&'static str>)>,
}

/// Who is granted something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grantee<'a> {
    /// `talmox-lab@pve`.
    pub user: &'a str,
    /// The token's name, without the user.
    pub token: Option<&'a str>,
}

impl<'a> Grantee<'a> {
    /// From `talmox-lab@pve!ci`.
    pub fn of_login(login: &'a str) -> Self {
        match login.split_once('!') {
            Some((user, token)) => Self { user, token: Some(token) },
            None => Self { user: login, token: None },
        }
    }
}

/// Paths that need the same, each kind with a role.
pub fn areas(desired: &Desired, needs: &[Need], suffix: &str) -> Vec<Area> {
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
        let word = path_word(path);
        let fits =
            |area: &&mut Area| area.privileges == privileges && area.role.contains(&format!("-{word}"));
        if let Some(area) = areas.iter_mut().find(fits) {
            area.paths.push((path.to_owned(), whys));
            continue;
        }
        let base = format!("talmox-{}-{word}{suffix}", desired.name);
        let taken = areas.iter().filter(|area| area.role.starts_with(&base)).count();
        let role = if taken == 0 { base } else { format!("{base}-{}", taken + 1) };
        areas.push(Area { role, privileges, paths: vec![(path.to_owned(), whys)] });
    }
    areas
}

/// What a role for this path is called.
pub fn path_word(path: &str) -> &'static str {
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

/// Makes a role. One that is there already gets what is needed now.
pub fn role_line(area: &Area) -> String {
    let privileges: Vec<&str> = area.privileges.iter().copied().collect();
    let (role, list) = (&area.role, privileges.join(","));
    let add = command(&["pveum", "role", "add", role]);
    let modify = command(&["pveum", "role", "modify", role, "--privs", &list]);
    format!("{add} 2>/dev/null; {modify}")
}

/// Gives the user and the token a role at a path. A token with privilege separation has only what both it and its user have, so both
/// are granted it.
pub fn entry_line(path: &str, role: &str, to: Grantee<'_>) -> String {
    // VMs are below this path; everything else is granted where it is.
    let propagate = if path == "/vms" { "1" } else { "0" };
    let token = to.token.map(|token| format!("{}!{token}", to.user));
    let mut words = vec!["pveum", "acl", "modify", path, "--roles", role, "--users", to.user];
    if let Some(token) = &token {
        words.extend(["--tokens", token]);
    }
    words.extend(["--propagate", propagate]);
    command(&words)
}

/// What to type on a host so that the credentials have this privilege at this path, beside everything else that is
/// needed there.
pub fn grant_lines(
    desired: &Desired,
    needs: &[Need],
    privilege: &'static str,
    path: &str,
    login: &str,
) -> String {
    let mut wanted: Vec<Need> = needs.to_vec();
    if !wanted.iter().any(|need| need.privilege == privilege && need.path == path) {
        let (weight, why) = (super::Weight::Must, "");
        wanted.push(Need { privilege, path: path.to_owned(), instead: Vec::new(), weight, why });
    }
    wanted.retain(|need| need.weight != super::Weight::Could || need.privilege == privilege);
    let to = if login.is_empty() { "USER@REALM!TOKEN" } else { login };
    let area =
        areas(desired, &wanted, "").into_iter().find(|area| area.paths.iter().any(|(at, _)| at == path));
    // The path was added above if it was not there.
    area.map_or_else(String::new, |area| {
        format!("{}; {}", role_line(&area), entry_line(path, &area.role, Grantee::of_login(to)))
    })
}
