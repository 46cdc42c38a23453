//! What the simulator asks of callers is what the documentation of the API says, call by call.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_sim::endpoints;
use talmox_test::shared_data;

fn texts(list: &Value, separator: &str) -> String {
    let words: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    words.join(separator)
}

/// A check in the words of the simulator's table.
fn words(check: &Value) -> String {
    let parts = || check.as_array().into_iter().flatten().skip(1).map(words).collect::<Vec<_>>().join(" ");
    let text = |index: usize| check[index].as_str().unwrap_or_default();
    match text(0) {
        kind @ ("and" | "or") => format!("{kind}({})", parts()),
        "perm" => {
            let option = |name: &str| {
                let found = check.as_array()?.iter().position(|word| word == name)?;
                check.get(found + 1)
            };
            let needed = option("require_param").and_then(Value::as_str).map(|name| format!("@{name}"));
            let separator = if option("any").is_some() { "|" } else { "+" };
            format!("perm({}{} {})", text(1), needed.unwrap_or_default(), texts(&check[2], separator))
        }
        "userid-group" => {
            let groups = if text(2) == "groups_param" { format!("@{}", text(3)) } else { String::new() };
            format!("usergroup({}{groups})", texts(&check[1], "|"))
        }
        "userid-param" => format!("userparam({})", text(1)),
        "perm-modify" => format!("permmodify({})", text(1)),
        other => format!("unknown {other}"),
    }
}

fn collect(node: &Value, found: &mut BTreeMap<(String, String), String>) {
    let path = node["path"].as_str().unwrap_or_default();
    for (method, info) in node["info"].as_object().into_iter().flatten() {
        let permissions = &info["permissions"];
        let said = match permissions["user"].as_str() {
            Some(user) => user.to_owned(),
            None if permissions["check"].is_array() => words(&permissions["check"]),
            None => "root".to_owned(),
        };
        found.insert((method.clone(), path.to_owned()), said);
    }
    node["children"].as_array().into_iter().flatten().for_each(|child| collect(child, found));
}

#[test]
fn every_call_asks_for_what_is_documented() {
    let Some(documentation) = shared_data::json("pve-apidoc.json.gz") else { return };
    let mut documented = BTreeMap::new();
    documentation.as_array().into_iter().flatten().for_each(|node| collect(node, &mut documented));
    let mut compared = 0;
    // The index of everything is documented nowhere.
    for endpoint in endpoints().filter(|endpoint| endpoint.path != "/") {
        let key = (endpoint.method, endpoint.path);
        assert_eq!(documented.get(&key), Some(&endpoint.permission), "{key:?}");
        compared += 1;
    }
    assert!(compared >= 170, "{compared}");
}
