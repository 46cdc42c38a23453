//! Who we are, and whether we may.

use talmox_types::desired::Desired;
use talmox_types::shell::command;

use crate::preflight::facts::{Facts, Login};
use crate::preflight::needs::{Need, TEMPLATES_POOL, Weight, needs};
use crate::preflight::report::Check;

/// Days before a token ends at which it is worth a word.
const SOON: u64 = 14;
const DAY: u64 = 86_400;

pub(super) fn checks(desired: &Desired, facts: &Facts) -> Vec<Check> {
    let mut checks = vec![login(&facts.login, facts.now)];
    checks.extend(pools(desired, facts));
    checks.extend(tags(desired, facts));
    let needs = needs(desired, facts);
    let count = needs.iter().filter(|need| need.weight == Weight::Must).count();
    let mut missing: Vec<Check> = needs.iter().filter_map(|need| privilege(need, facts)).collect();
    missing.extend(hidden_vms(&needs, facts));
    if !missing.iter().any(|check| check.verdict == crate::preflight::Verdict::Problem) {
        checks.push(Check::ok("privilege", format!("all {count} privileges that are needed are there")));
    }
    checks.extend(missing);
    checks
}

fn login(login: &Login, now: u64) -> Check {
    let Login { name, token, root } = login;
    let kind = "token";
    let info = match token {
        None if *root => {
            return Check::warning(
                "login",
                format!("{name} by password may do everything"),
                "a token may do less: talmox check --setup prints how to make one",
            );
        }
        None => return Check::ok("login", format!("{name} by password")),
        Some(Err(_)) => {
            let user = name.split('!').next().unwrap_or(name);
            return Check::not_checked(
                kind,
                format!(
                    "{name}: when it ends and whether it is privilege-separated; tokens may not read that"
                ),
                Some(format!("on a host: {}", command(&["pveum", "user", "token", "list", user]))),
            );
        }
        Some(Ok(info)) => info,
    };
    if !info.privsep {
        return Check::warning(
            kind,
            format!("{name} is not privilege-separated: it may do whatever its user may"),
            "talmox check --setup prints how to make one that is",
        );
    }
    match info.expire {
        0 => Check::warning(
            kind,
            format!("{name} is privilege-separated and never expires"),
            "give it an end: pveum user token modify USER NAME --expire SECONDS",
        ),
        end if end <= now => {
            Check::problem(kind, format!("{name} has expired"), "make a new one: talmox check --setup")
        }
        end => {
            let days = (end - now) / DAY;
            let message = format!("{name} is privilege-separated and expires in {days} days");
            if days < SOON {
                Check::warning(kind, message, "make the next one in time: talmox check --setup")
            } else {
                Check::ok(kind, message)
            }
        }
    }
}

/// A pool that is missing can be made by whoever may, and by nobody else.
fn pools(desired: &Desired, facts: &Facts) -> Vec<Check> {
    let Some(pool) = &desired.proxmox.pool else { return Vec::new() };
    let builds = needs(desired, facts).iter().any(|need| need.path == format!("/pool/{TEMPLATES_POOL}"));
    let names = std::iter::once(pool.as_str()).chain(builds.then_some(TEMPLATES_POOL));
    let one = |name: &str| {
        let path = format!("/pool/{name}");
        let visible = facts.holds(&path, "Pool.Audit") == Some(true);
        if facts.pools.iter().any(|pool| pool.as_str() == name) {
            Check::ok("pool", format!("{name} is there"))
        } else if facts.holds(&path, "Pool.Allocate") == Some(true) {
            Check::ok("pool", format!("{name} is not there yet; apply makes it"))
        } else if visible {
            Check::problem(
                "pool",
                format!("{name} is not there, and Pool.Allocate to make it is missing on {path}"),
                format!("on a host: pveum pool add {name}"),
            )
        } else {
            let message = format!("{name}: Pool.Audit to see it is missing on {path}");
            Check::not_checked("pool", message, None)
        }
    };
    names.map(one).collect()
}

/// Tags that the data centre has registered are for those who may change the data centre.
fn tags(desired: &Desired, facts: &Facts) -> Option<Check> {
    let used = desired.nodes.iter().flat_map(|node| &node.vm.tags);
    let registered = used.filter(|tag| facts.registered_tags.contains(&tag.as_str().to_ascii_lowercase()));
    let tag = registered.min()?;
    if facts.holds("/", "Sys.Modify") != Some(false) {
        return None;
    }
    let message = format!("the tag {tag} is registered in the data centre: using it needs Sys.Modify on /");
    Some(Check::problem(
        "tag",
        message,
        "use another tag, or take it out of Datacenter, Options, Registered Tags",
    ))
}

/// VMs with an entry of their own, which replaces what is granted on every VM.
fn hidden_vms(needs: &[Need], facts: &Facts) -> Vec<Check> {
    let hidden = facts.observed.as_ref().map(|observed| observed.rights.unseen_vms()).unwrap_or_default();
    let is_told = |path: &String| needs.iter().any(|need| need.privilege == "VM.Audit" && need.path == *path);
    let one = |path: String| {
        let message = format!(
            "VM.Audit is missing on {path}: an entry of its own replaces what is granted on /vms, so it cannot be seen"
        );
        Check::problem("privilege", message, "add VM.Audit to the role of that entry, or remove the entry")
    };
    hidden.into_iter().filter(|path| !is_told(path)).map(one).collect()
}

fn privilege(need: &Need, facts: &Facts) -> Option<Check> {
    let Need { privilege, path, instead, weight, why } = need;
    let held = std::iter::once(path).chain(instead).map(|path| facts.holds(path, privilege));
    let held: Vec<Option<bool>> = held.collect();
    // The right to change the data centre is one to have hosts fetch images, too.
    let changes = || ["Sys.Audit", "Sys.Modify"].iter().all(|one| facts.holds("/", one) == Some(true));
    if held.contains(&Some(true)) || *privilege == "Sys.AccessNetwork" && changes() {
        return None;
    }
    if held.first() == Some(&None) {
        let words = facts.rights.get(path).and_then(|told| told.as_ref().err());
        let words = words.map_or("nobody asked", String::as_str);
        return Some(Check::not_checked("privilege", format!("{privilege} on {path}: {words}"), None));
    }
    let message = format!("{privilege} is missing on {path}: {why}");
    let remedy = "talmox check --setup prints the lines that grant it";
    Some(match weight {
        Weight::Must => Check::problem("privilege", message, remedy),
        Weight::Should => Check::warning("privilege", message, remedy),
        Weight::Could => {
            let remedy = "it can do much more than that; talmox check --setup has the lines, commented out";
            Check::warning("privilege", message, remedy)
        }
    })
}
