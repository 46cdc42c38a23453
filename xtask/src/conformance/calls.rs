//! What a program called.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use talmox_sim::serve::LoggedCall;

pub(super) struct Calls(Vec<LoggedCall>);

impl Calls {
    pub(super) fn parse(log: &str) -> anyhow::Result<Self> {
        let calls: Result<Vec<LoggedCall>, _> = log.lines().map(serde_json::from_str).collect();
        Ok(Self(calls.context("the log of the calls cannot be read")?))
    }

    /// What the simulator has no answer for.
    pub(super) fn unknown(&self) -> Vec<String> {
        let unknown = self.0.iter().filter(|call| call.endpoint.is_none() || call.status == Some(501));
        let names: BTreeSet<String> = unknown.map(|call| format!("{} {}", call.method, call.path)).collect();
        names.into_iter().collect()
    }

    pub(super) fn headline(&self) -> String {
        let endpoints = self.table_rows().len();
        let unknown = self.unknown().len();
        format!("{} calls to {endpoints} endpoints, {unknown} of them unknown", self.0.len())
    }

    pub(super) fn table(&self) -> String {
        let rows = self.table_rows();
        rows.into_iter()
            .map(|((endpoint, method), (count, statuses))| {
                let statuses: Vec<String> = statuses
                    .into_iter()
                    .map(|(status, count)| match status {
                        Some(200) => format!("{count} ok"),
                        Some(status) => format!("{count} × {status}"),
                        None => format!("{count} unanswered"),
                    })
                    .collect();
                format!("{count:>6}  {method:<6} {endpoint:<58} {}\n", statuses.join(", "))
            })
            .collect()
    }

    #[expect(clippy::type_complexity, reason = "a table of counts")]
    fn table_rows(&self) -> BTreeMap<(&str, &str), (u64, BTreeMap<Option<u16>, u64>)> {
        let mut rows = BTreeMap::new();
        for call in &self.0 {
            let endpoint = call.endpoint.as_deref().unwrap_or(&call.path);
            let (count, statuses): &mut (u64, BTreeMap<_, u64>) =
                rows.entry((endpoint, call.method.as_str())).or_default();
            *count += 1;
            *statuses.entry(call.status).or_default() += 1;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str, endpoint: &str, status: u16) -> String {
        format!(
            r#"{{"host":"pve1","method":"GET","path":"{path}","endpoint":{endpoint},"status":{status},"milliseconds":3}}"#
        )
    }

    #[test]
    fn unknown_endpoints_are_named_once() {
        let log = [
            line("/api2/json/version", "\"/version\"", 200),
            line("/api2/json/x", "null", 501),
            line("/api2/json/x", "null", 501),
            line("/api2/json/y", "null", 401),
        ];
        let calls = Calls::parse(&log.join("\n")).unwrap();
        assert_eq!(calls.unknown(), ["GET /api2/json/x", "GET /api2/json/y"]);
        assert_eq!(calls.headline(), "4 calls to 3 endpoints, 2 of them unknown");
        assert!(calls.table().contains("2 × 501"), "{}", calls.table());
    }
}
