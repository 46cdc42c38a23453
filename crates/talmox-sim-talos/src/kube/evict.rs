//! Evictions.

use serde_json::{Value, json};

use super::Store;
use super::clock::rfc3339;
use super::delete::check_preconditions;
use super::failure::Failure;
use super::handle::Call;
use super::object::{has_condition, number, text};
use super::path::Place;
use super::selector::Labels;

/// When a client shall try again that came before a budget was worked out.
const RETRY_AFTER: u64 = 10;

impl Store {
    pub(super) fn evict(&mut self, call: &Call<'_>, place: &Place) -> Result<(u16, Value), Failure> {
        let Place { resource, namespace, name, .. } = place;
        let eviction: Value =
            serde_json::from_slice(call.body).map_err(|error| Failure::bad_request(error.to_string()))?;
        if text(&eviction, "/metadata/name") != name {
            return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
        }
        let options = eviction.get("deleteOptions").cloned().unwrap_or_default();
        let pod = self
            .get(&resource.table(), namespace, name)
            .ok_or_else(|| Failure::not_found(resource, name))?
            .clone();
        let phase = text(&pod.body, "/status/phase");
        let ignores_budgets = ["Succeeded", "Failed", "Pending"].contains(&phase) || pod.leaving.is_some();
        if !ignores_budgets {
            let budgets = self.budgets_of(&pod.body);
            match budgets.as_slice() {
                [] => {}
                [budget] => self.spend(budget, &pod.body, call)?,
                _ => return Ok((201, two_budgets())),
            }
        }
        check_preconditions(&options, resource, &pod)?;
        if !call.is_dry_run() {
            let grace = options.get("gracePeriodSeconds").and_then(Value::as_u64);
            self.take_leave(resource, pod, grace, call.now);
        }
        Ok((
            201,
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 }),
        ))
    }

    fn budgets_of(&self, pod: &Value) -> Vec<Value> {
        let near = |budget: &&Value| text(budget, "/metadata/namespace") == text(pod, "/metadata/namespace");
        let mine = |budget: &&Value| {
            Labels::of(budget.pointer("/spec/selector")).is_some_and(|labels| labels.select(pod))
        };
        self.bodies("policy", "poddisruptionbudgets").filter(near).filter(mine).cloned().collect()
    }

    /// Takes one disruption off a budget, if it has one left.
    fn spend(&mut self, budget: &Value, pod: &Value, call: &Call<'_>) -> Result<(), Failure> {
        let name = text(budget, "/metadata/name");
        let (healthy, needed) =
            (number(budget, "/status/currentHealthy"), number(budget, "/status/desiredHealthy"));
        let always = text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if !has_condition(pod, "Ready") && (always || (healthy >= needed && needed > 0)) {
            return Ok(());
        }
        if number(budget, "/status/observedGeneration") < number(budget, "/metadata/generation") {
            let cause = format!("The disruption budget {name} is still being processed by the server.");
            return Err(Failure::disruption(&cause, RETRY_AFTER));
        }
        let allowed = number(budget, "/status/disruptionsAllowed");
        if allowed == 0 {
            let cause = if healthy <= needed {
                format!(
                    "The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
                )
            } else {
                format!("The disruption budget {name} does not allow evicting pods currently")
            };
            return Err(Failure::disruption(&cause, 0));
        }
        if !call.is_dry_run() {
            let mut budget = budget.clone();
            budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
            budget["status"]["disruptedPods"][text(pod, "/metadata/name")] = rfc3339(call.now).into();
            self.update("policy", "poddisruptionbudgets", budget);
        }
        Ok(())
    }
}

/// The server says 201, and in the body that it failed.
fn two_budgets() -> Value {
    let message =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": 500 })
}
