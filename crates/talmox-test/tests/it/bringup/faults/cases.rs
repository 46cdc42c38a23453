//! Kinds of calls, and what is tried at each.

use std::net::IpAddr;

use talmox_sim::Calls;
use talmox_test::{Call, When};

use super::mishaps::{self, Layer, Mishap};
use super::scenarios::Scenario;

/// One run: a fault at one call of one bring-up.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) scenario: usize,
    pub(crate) work: &'static str,
    pub(crate) layer: Layer,
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
        let exactly = When::all(Calls::to(method, path));
        match self.layer {
            Layer::Talos => vec![exactly],
            Layer::Kubernetes => vec![exactly, When::all(Calls::to(method, &format!("{path}?*")))],
        }
    }
}

/// Of calls to nodes: method and path, of Kubernetes without the query. Hosts of Proxmox are asked by name.
pub(crate) fn kind(call: &Call) -> Option<(Layer, String)> {
    call.host.parse::<IpAddr>().ok()?;
    let package = call.path.split('/').nth(1)?;
    if package.contains('.') {
        return Some((Layer::Talos, format!("{} {}", call.method, call.path)));
    }
    let path = call.path.split('?').next()?;
    Some((Layer::Kubernetes, format!("{} {path}", call.method)))
}

/// The whole product.
pub(crate) fn all(scenarios: &[Scenario]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        for asked in &scenario.asked {
            let (layer, kind) = (asked.kind.0, &asked.kind.1);
            let case = |call, mishap| Case {
                scenario: index,
                work: scenario.name,
                layer,
                kind: kind.clone(),
                call,
                mishap,
            };
            for call in asked.ends() {
                cases.extend(mishaps::once(layer).into_iter().map(|mishap| case(Some(call), mishap)));
            }
            cases.extend(mishaps::lasting(layer).into_iter().map(|mishap| case(None, mishap)));
        }
    }
    cases
}
