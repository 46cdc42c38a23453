//! What the API server says when it does not do what it was asked.

use serde_json::{Value, json};

use super::kinds::Resource;

/// A `Status` that is a failure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) code: u16,
    reason: &'static str,
    message: String,
    details: Value,
}

impl Failure {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null }
    }

    fn with(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.full_name());
        Self::new(404, "NotFound", message).with(resource.details(name))
    }

    pub(super) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.full_name());
        Self::new(409, "AlreadyExists", message).with(resource.details(name))
    }

    pub(super) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.full_name());
        Self::new(409, "Conflict", message).with(resource.details(name))
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The object was made anew since somebody looked at it. Here the server names the kind, not the plural.
    pub(super) fn other_uid(resource: &Resource, name: &str, wanted: &str, uid: &str) -> Self {
        let kind = resource.full_kind();
        let message = format!(
            "Operation cannot be fulfilled on {kind} \"{name}\": the UID in the precondition ({wanted}) does not match the \
             UID in record ({uid}). The object might have been deleted and then recreated"
        );
        Self::new(409, "Conflict", message).with(resource.details(name))
    }

    /// A write that has to say which version it is for. Here the server names the plural, not the kind.
    pub(super) fn no_version(resource: &Resource, name: &str) -> Self {
        let (field, why) = ("metadata.resourceVersion", "Invalid value: 0: must be specified for an update");
        Self::invalid_one(resource, &resource.full_name(), name, field, why)
    }

    pub(super) fn invalid(resource: &Resource, name: &str, field: &str, why: &str) -> Self {
        Self::invalid_one(resource, &resource.full_kind(), name, field, why)
    }

    fn invalid_one(resource: &Resource, what: &str, name: &str, field: &str, why: &str) -> Self {
        let cause = json!({ "reason": "FieldValueInvalid", "message": why, "field": field });
        Self::new(422, "Invalid", format!("{what} \"{name}\" is invalid: {field}: {why}"))
            .with(json!({ "name": name, "group": resource.group, "kind": resource.kind, "causes": [cause] }))
    }

    /// A budget stands in the way.
    pub(super) fn disruption(cause: &str, retry_after: u64) -> Self {
        let mut details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] });
        if retry_after > 0 {
            details["retryAfterSeconds"] = retry_after.into();
        }
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Self::new(429, "TooManyRequests", message).with(details)
    }

    /// An apply meets fields of others: who, and the field.
    pub(super) fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let causes: Vec<Value> = conflicts
            .iter()
            .map(|(manager, field)| {
                let message = format!("conflict with {manager}");
                json!({ "reason": "FieldManagerConflict", "message": message, "field": field })
            })
            .collect();
        Self::new(409, "Conflict", conflict_message(conflicts)).with(json!({ "causes": causes }))
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { code, reason, message, details } = self;
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        });
        if !reason.is_empty() {
            status["reason"] = (*reason).into();
        }
        if !details.is_null() {
            status["details"] = details.clone();
        }
        status["code"] = (*code).into();
        status
    }
}

fn conflict_message(conflicts: &[(String, String)]) -> String {
    if let [(manager, field)] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {manager}: {field}");
    }
    let mut managers: Vec<&String> = conflicts.iter().map(|(manager, _)| manager).collect();
    managers.sort();
    managers.dedup();
    let mut lines = Vec::new();
    for manager in managers {
        lines.push(format!("conflicts with {manager}:"));
        let own = conflicts.iter().filter(|(one, _)| one == manager);
        lines.extend(own.map(|(_, field)| format!("- {field}")));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
