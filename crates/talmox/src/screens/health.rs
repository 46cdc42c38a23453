//! Whether a cluster is healthy: a line for each check, and what nodes said last.

use std::time::Duration;

use serde::Serialize;
use talmox_exec::health::{Check, CheckState, Health, LastWords, Progress};

use super::plan_text::{RED, YELLOW};
use super::text::{duration, padded, plural, safe, width};
use crate::printer::{BOLD, DIM, GREEN};

/// What there is to show.
pub(crate) struct HealthData<'h> {
    pub(crate) cluster: &'h str,
    pub(crate) health: &'h Health,
    pub(crate) words: &'h [LastWords],
    pub(crate) elapsed: Duration,
}

/// The same for programs.
#[derive(Serialize)]
pub(crate) struct Told<'h> {
    format: &'static str,
    cluster: &'h str,
    healthy: bool,
    checks: &'h [Check],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    last_words: &'h [LastWords],
}

impl<'h> HealthData<'h> {
    pub(crate) fn told(&self) -> Told<'h> {
        Told {
            format: "talmox.health/v1",
            cluster: self.cluster,
            healthy: self.health.is_healthy(),
            checks: &self.health.checks,
            last_words: self.words,
        }
    }
}

/// What is waited for just now; nothing of checks that hold.
pub(crate) fn health_line(progress: &Progress<'_>) -> Option<String> {
    match progress.state {
        CheckState::Waiting(missing) => Some(format!(
            "waiting for {} ({} of {}): {}",
            progress.name,
            progress.held + 1,
            progress.of,
            safe(&missing.why)
        )),
        CheckState::Ok | CheckState::Skipped { .. } | CheckState::NotAsked => None,
    }
}

pub(crate) fn health_text(data: &HealthData<'_>) -> String {
    let checks = &data.health.checks;
    let width = width(checks.iter().map(|check| check.name));
    let mut text: String = checks.iter().map(|check| line(check, width)).collect();
    for words in data.words {
        text.push_str(&format!("\n{}\n", last_words(words)));
    }
    let asked = checks.iter().filter(|check| !matches!(check.state, CheckState::NotAsked)).count();
    let verdict = if data.health.is_healthy() {
        format!("{GREEN}healthy{GREEN:#}")
    } else {
        format!("{RED}not healthy{RED:#}")
    };
    let (cluster, elapsed) = (data.cluster, duration(data.elapsed));
    text + &format!("\n{BOLD}{cluster}{BOLD:#}  {verdict} · {} in {elapsed}\n", plural(asked, "check"))
}

fn line(check: &Check, width: usize) -> String {
    match &check.state {
        CheckState::Ok => format!("{GREEN}✓{GREEN:#} {}\n", check.name),
        CheckState::Waiting(missing) => {
            format!("{RED}✗{RED:#} {}  {}\n", padded(check.name, width), safe(&missing.why))
        }
        CheckState::Skipped { why } => {
            format!("{YELLOW}–{YELLOW:#} {}  {DIM}{}{DIM:#}\n", padded(check.name, width), safe(why))
        }
        CheckState::NotAsked => {
            format!("{DIM}·{DIM:#} {}  {DIM}not asked yet{DIM:#}\n", padded(check.name, width))
        }
    }
}

fn last_words(words: &LastWords) -> String {
    let log: String = words.log.iter().map(|line| format!("\n  {DIM}{}{DIM:#}", safe(line))).collect();
    format!("{} {}{log}\n  more: {}", words.node, safe(&words.state), words.next)
}

#[cfg(test)]
mod tests {
    use talmox_exec::health::Missing;
    use talmox_types::NodeName;

    use super::*;

    fn health() -> Health {
        let node = NodeName::parse("cp-2").unwrap();
        let missing = Missing {
            why: "cp-2: etcd is Preparing (Running pre state)".to_owned(),
            nodes: vec![node],
            service: Some("etcd"),
        };
        let check = |name, state| Check { name, state };
        Health {
            checks: vec![
                check("apid to be ready", CheckState::Ok),
                check(
                    "kube-proxy to report ready",
                    CheckState::Skipped { why: "there is no kube-proxy".to_owned() },
                ),
                check("etcd to be healthy", CheckState::Waiting(missing)),
                check("coredns to report ready", CheckState::NotAsked),
            ],
        }
    }

    fn words() -> Vec<LastWords> {
        vec![LastWords {
            node: NodeName::parse("cp-2").unwrap(),
            state: "is booting, waiting for services: etcd not running".to_owned(),
            log: vec!["waiting for bootstrap".to_owned()],
            next: "talosctl -n 10.0.7.12 logs etcd".to_owned(),
        }]
    }

    #[test]
    fn what_holds_what_does_not_and_what_nodes_said() {
        let (health, words) = (health(), words());
        let data = HealthData {
            cluster: "homelab",
            health: &health,
            words: &words,
            elapsed: Duration::from_secs(90),
        };
        insta::assert_snapshot!(anstream::adapter::strip_str(&health_text(&data)).to_string());
        insta::assert_snapshot!(serde_json::to_string_pretty(&data.told()).unwrap());
        let healthy = Health { checks: vec![Check { name: "apid to be ready", state: CheckState::Ok }] };
        let data = HealthData {
            cluster: "homelab",
            health: &healthy,
            words: &[],
            elapsed: Duration::from_millis(240),
        };
        insta::assert_snapshot!(anstream::adapter::strip_str(&health_text(&data)).to_string());
    }
}
