//! Selectors: by labels, and by the few fields the server knows.

use serde_json::Value;

use super::failure::Failure;
use super::kinds::Resource;
use super::object::{along, items, text};

/// One requirement on labels.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl Requirement {
    fn holds(&self, labels: Option<&Value>) -> bool {
        let label = |key: &String| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        let among = |values: &[String], value: &str| values.iter().any(|one| one == value);
        match self {
            Self::In(key, values) => label(key).is_some_and(|value| among(values, value)),
            Self::NotIn(key, values) => label(key).is_none_or(|value| !among(values, value)),
            Self::Exists(key) => label(key).is_some(),
            Self::Missing(key) => label(key).is_none(),
        }
    }
}

/// Requirements that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(Vec<Requirement>);

impl Labels {
    /// `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    pub(super) fn parse(selector: &str) -> Result<Self, Failure> {
        let wrong = |part: &str| Failure::bad_request(format!("unable to parse requirement: {part}"));
        let parts = split(selector).into_iter().filter(|part| !part.is_empty());
        parts.map(|part| requirement(part).ok_or_else(|| wrong(part))).collect::<Result<_, _>>().map(Self)
    }

    /// A selector of an object: `matchLabels` and `matchExpressions`. One that is not there selects nothing.
    pub(super) fn of(selector: Option<&Value>) -> Option<Self> {
        let selector = selector.filter(|selector| selector.is_object())?;
        let mut all = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            all.push(Requirement::In(key.clone(), vec![value.as_str().unwrap_or_default().to_owned()]));
        }
        for expression in items(selector, "/matchExpressions") {
            let key = text(expression, "/key").to_owned();
            let values =
                items(expression, "/values").iter().filter_map(Value::as_str).map(str::to_owned).collect();
            all.push(match text(expression, "/operator") {
                "In" => Requirement::In(key, values),
                "NotIn" => Requirement::NotIn(key, values),
                "Exists" => Requirement::Exists(key),
                "DoesNotExist" => Requirement::Missing(key),
                _ => return None,
            });
        }
        Some(Self(all))
    }

    pub(super) fn select(&self, body: &Value) -> bool {
        let labels = along(body, "/metadata/labels");
        self.0.iter().all(|requirement| requirement.holds(labels))
    }
}

/// At commas that are not in brackets.
fn split(selector: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, character) in selector.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(selector[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(selector[begin..].trim());
    parts
}

fn requirement(part: &str) -> Option<Requirement> {
    let one = |value: &str| vec![value.trim().to_owned()];
    let name = |key: &str| {
        let key = key.trim();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        (!key.is_empty() && key.chars().all(fits)).then(|| key.to_owned())
    };
    if let Some((key, values)) = part.split_once("!=") {
        return Some(Requirement::NotIn(name(key)?, one(values)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some(Requirement::In(name(key)?, one(value)));
    }
    if let Some((head, values)) = part.split_once('(') {
        let values = values.strip_suffix(')')?.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, operator) = head.trim().rsplit_once(' ')?;
        return match operator {
            "in" => Some(Requirement::In(name(key)?, values)),
            "notin" => Some(Requirement::NotIn(name(key)?, values)),
            _ => None,
        };
    }
    match part.strip_prefix('!') {
        Some(key) => Some(Requirement::Missing(name(key)?)),
        None => Some(Requirement::Exists(name(part)?)),
    }
}

/// Fields besides name and namespace that can be selected by.
fn selectable(resource: &Resource) -> &'static [&'static str] {
    match resource.plural.as_str() {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "secrets" => &["type"],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "reason",
            "type",
        ],
        _ => &[],
    }
}

/// Whether an object is among those a field selector asks for.
pub(super) fn fields_select(selector: &str, resource: &Resource, body: &Value) -> Result<bool, Failure> {
    for part in selector.split(',').filter(|part| !part.is_empty()) {
        let unequal = part.split_once("!=").map(|(field, value)| (field, value, false));
        let equal = || {
            part.split_once("==").or_else(|| part.split_once('=')).map(|(field, value)| (field, value, true))
        };
        let Some((field, value, wanted)) = unequal.or_else(equal) else {
            return Err(Failure::bad_request(format!(
                "invalid selector: '{selector}'; can't understand '{part}'"
            )));
        };
        let known = match field {
            "metadata.name" => true,
            "metadata.namespace" => resource.namespaced,
            _ => selectable(resource).contains(&field),
        };
        if !known {
            return Err(Failure::bad_request(format!("field label not supported: {field}")));
        }
        let pointer = format!("/{}", field.replace('.', "/"));
        let found = match along(body, &pointer) {
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(other) => other.as_str().unwrap_or_default().to_owned(),
            // Nothing said of a flag is no.
            None if field == "spec.unschedulable" || field == "spec.hostNetwork" => "false".to_owned(),
            None => String::new(),
        };
        if (found == value) != wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_of_all_forms() {
        let body = json!({ "metadata": { "labels": { "app": "web", "tier": "front", "empty": "" } } });
        let table = [
            ("", true),
            ("app=web,tier==front", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (db, web)", true),
            ("app notin (db),tier in (back)", false),
            ("app,!other", true),
            ("!app", false),
            ("empty", true),
            ("empty=", true),
        ];
        for (selector, expected) in table {
            assert_eq!(Labels::parse(selector).unwrap().select(&body), expected, "{selector}");
        }
        for wrong in ["app in web", "a b", "app of (x)", "=x", "app in (x"] {
            assert_eq!(Labels::parse(wrong).unwrap_err().code, 400, "{wrong}");
        }
    }

    #[test]
    fn field_selectors_know_few_fields() {
        let pods = super::super::kinds::find("", "pods").unwrap();
        let body = json!({ "metadata": { "name": "a" }, "spec": { "nodeName": "n" }, "status": { "phase": "Running" } });
        let select = |selector: &str| fields_select(selector, &pods, &body);
        assert_eq!(select("spec.nodeName=n,status.phase!=Failed"), Ok(true));
        assert_eq!(select("metadata.name=b"), Ok(false));
        assert_eq!(select("spec.priority=1").unwrap_err().code, 400);
    }
}
