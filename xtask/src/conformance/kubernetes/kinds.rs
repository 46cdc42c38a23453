//! Whether the simulated server lists its kinds as the genuine one does.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde_json::{Value, json};

use super::raw::{Who, World};

/// Every kind the simulated server lists is listed alike by the genuine one; gives how many.
pub(super) async fn compare(genuine: &World, simulated: &World) -> anyhow::Result<usize> {
    let groups = simulated.send(Who::Administrator, "GET /apis", &Value::Null).await?.body;
    let mut paths = vec!["/api/v1".to_owned()];
    for group in groups["groups"].as_array().into_iter().flatten() {
        for version in group["versions"].as_array().into_iter().flatten() {
            paths.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap_or_default()));
        }
    }
    let mut count = 0;
    for path in paths {
        let line = format!("GET {path}");
        let theirs = kinds(&genuine.send(Who::Administrator, &line, &Value::Null).await?.body);
        let ours = kinds(&simulated.send(Who::Administrator, &line, &Value::Null).await?.body);
        for (name, kind) in &ours {
            ensure!(
                theirs.get(name) == Some(kind),
                "{path} {name}: {kind}, genuinely {:?}",
                theirs.get(name)
            );
        }
        count += ours.len();
    }
    Ok(count)
}

fn kinds(list: &Value) -> BTreeMap<String, Value> {
    let resources = list["resources"].as_array().into_iter().flatten();
    resources
        .map(|one| {
            let said = json!([
                one["kind"],
                one["namespaced"],
                one["singularName"],
                one["shortNames"],
                one["group"],
                one["version"]
            ]);
            (one["name"].as_str().unwrap_or_default().to_owned(), said)
        })
        .collect()
}
