//! Kinds of calls, and what is tried at each.

use talmox_sim::Calls;
use talmox_test::{Call, When};

use crate::matrix::faults::{self, Mishap};
use crate::matrix::scenarios::Scenario;

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

/// Method and path, with `*` for what names a host, VM, storage, pool, task or file.
pub(crate) fn kind(call: &Call) -> String {
    let (method, path) = (call.method, call.path.as_str());
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
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
            for call in asked.ends() {
                cases.extend(faults::all().into_iter().map(|mishap| case(Some(call), mishap)));
            }
            cases.extend(faults::lasting().into_iter().map(|mishap| case(None, mishap)));
        }
    }
    cases
}
