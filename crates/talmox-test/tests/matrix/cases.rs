//! Kinds of calls, and what is tried at each.

use std::collections::BTreeMap;

use talmox_pve::client::Entropy as _;
use talmox_sim::Calls;
use talmox_test::{CallLog, Seeded, When};

use crate::faults::{self, Mishap};
use crate::scenarios::Scenario;

/// A kind of call within some work, and the numbers of the first and the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) kind: String,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// One run: a fault at one call of one piece of work.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) scenario: usize,
    pub(crate) work: &'static str,
    pub(crate) kind: String,
    /// The number of the call, from 1; none for every call of the kind.
    pub(crate) call: Option<usize>,
    pub(crate) mishap: Mishap,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let call = self.call.map(|number| format!(" (call {number})")).unwrap_or_default();
        format!("{}: {} at {}{call}", self.work, self.mishap.name, self.kind)
    }

    /// The calls the fault meets.
    pub(crate) fn when(&self) -> Vec<When> {
        if let Some(number) = self.call {
            return vec![When::call(u64::try_from(number).unwrap())];
        }
        let (method, path) = self.kind.split_once(' ').unwrap();
        let bare = When::all(Calls::to(method, path));
        let further = if path.contains('?') { format!("{path}&*") } else { format!("{path}?*") };
        vec![bare, When::all(Calls::to(method, &further))]
    }
}

/// The kinds of calls of some work. Runs repeat exactly, so a number finds the same call again.
pub(crate) fn kinds(log: &CallLog) -> Vec<Asked> {
    let mut asked: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for call in log.iter() {
        let kind = kind(call.method, &call.path);
        asked.entry(kind).or_insert((call.number, call.number)).1 = call.number;
    }
    asked.into_iter().map(|(kind, (first, last))| Asked { kind, first, last }).collect()
}

/// Method and path, with `*` for what names a host, VM, storage, pool, task or file.
fn kind(method: &str, path: &str) -> String {
    let (path, query) = path.split_once('?').map_or((path, ""), |(path, query)| (path, query));
    let parts: Vec<&str> = path.split('/').collect();
    let mut pattern: Vec<&str> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let named = index > 1
            && match parts[index - 1] {
                "nodes" | "qemu" | "storage" | "tasks" | "pools" | "resources" | "rules" | "groups" => true,
                "content" => !part.is_empty(),
                _ => false,
            };
        pattern.push(if named { "*" } else { part });
    }
    let by_type = query.split('&').find(|part| part.starts_with("type=") || part.starts_with("content="));
    match by_type {
        Some(query) => format!("{method} {}?{query}", pattern.join("/")),
        None => format!("{method} {}", pattern.join("/")),
    }
}

/// The whole product.
pub(crate) fn all(scenarios: &[Scenario]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        for asked in &scenario.asked {
            let case = |call, mishap| Case {
                scenario: index,
                work: scenario.name,
                kind: asked.kind.clone(),
                call,
                mishap,
            };
            let mut calls = vec![asked.first, asked.last];
            calls.dedup();
            for call in calls {
                cases.extend(faults::all().into_iter().map(|mishap| case(Some(call), mishap)));
            }
            cases.extend(faults::lasting().into_iter().map(|mishap| case(None, mishap)));
        }
    }
    cases
}

/// So many of them, always the same.
pub(crate) fn sample(mut cases: Vec<Case>, number: usize) -> Vec<Case> {
    let random = Seeded::new(20_260_801);
    cases.sort_by_cached_key(|_| random.next());
    cases.truncate(number);
    cases
}
