//! The real `talosctl` against simulated nodes: from machines in maintenance mode to a healthy cluster, and through an
//! upgrade and a reset. The nodes are at addresses of their own within 127.0.0.0/8, on Talos' and Kubernetes' own ports.

mod cluster;
mod steps;

use std::time::Instant;

use anyhow::{Context as _, bail};

use super::peers::{self, Peer};

/// Runs the steps against nodes of a version with the `talosctl` of that version; gives what to print.
pub(super) fn judge(version: &str) -> anyhow::Result<String> {
    let peer = match version {
        "1.12" => "talosctl112",
        "1.13" => "talosctl113",
        _ => bail!("there is a talosctl of 1.12 and of 1.13, not of {version}"),
    };
    let folder = match peers::get(peer)? {
        Peer::Folder(folder) => folder,
        Peer::Unavailable(excuse) => return Ok(format!("talosctl {version} and nodes: not run: {excuse}")),
    };
    let begin = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let cluster = runtime.block_on(cluster::Cluster::start(version)).context("the nodes do not come up")?;
    let outcome = steps::run(&folder.join("talosctl"), &cluster);
    runtime.block_on(cluster.stop())?;
    let count = outcome?;
    Ok(format!(
        "talosctl {version} and nodes: {count} calls as expected, {:.1} s",
        begin.elapsed().as_secs_f64()
    ))
}
