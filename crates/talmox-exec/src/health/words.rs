//! What a node last said, for those who have to find out why it does not get there.

use serde::Serialize;
use talmox_types::NodeName;

use super::machine::doing;
use super::member::Cluster;
use super::state::Missing;

/// Nodes that are asked, and lines of a log.
const NODES: usize = 3;
const LINES: u16 = 5;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastWords {
    pub node: NodeName,
    /// Stage and conditions that are not met, or why it does not say.
    pub state: String,
    /// The last lines of the service that is to blame.
    pub log: Vec<String>,
    /// How to read on.
    pub next: String,
}

impl std::fmt::Display for LastWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.node, self.state)?;
        for line in &self.log {
            write!(f, "\n  {line}")?;
        }
        write!(f, "\n  more: {}", self.next)
    }
}

pub(super) async fn collect(cluster: &Cluster, missing: &Missing) -> Vec<LastWords> {
    let mut names: Vec<&NodeName> = missing.nodes.iter().collect();
    names.dedup();
    let members: Vec<_> = names
        .into_iter()
        .take(NODES)
        .filter_map(|name| cluster.members.iter().find(|member| member.name == *name))
        .collect();
    let service = missing.service;
    let asked = cluster
        .ask(members.into_iter(), |client| {
            Box::pin(async move {
                let state = match client.machine_state().await? {
                    Some(state) => doing(&state),
                    None => "does not know yet what it is doing".to_owned(),
                };
                let log = match service {
                    Some(service) => client.logs(service, LINES).await.unwrap_or_default(),
                    None => String::new(),
                };
                Ok((state, log))
            })
        })
        .await;
    let words = asked.into_iter().map(|(member, answer)| {
        let address = member.addresses.primary();
        let (state, log) = match answer {
            Ok((state, log)) => (state, log.lines().map(|line| line.trim_end().to_owned()).collect()),
            Err(error) => (format!("does not say: {error}"), Vec::new()),
        };
        let next = match missing.service {
            Some(service) => format!("talosctl -n {address} logs {service}"),
            None => format!("talosctl -n {address} dmesg"),
        };
        LastWords { node: member.name.clone(), state, log, next }
    });
    words.collect()
}
