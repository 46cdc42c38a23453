//! The real `talosctl` and simulated nodes. The nodes are at addresses of their own within 127.0.0.0/8, on Talos' and
//! Kubernetes' own ports.
//!
//! ```text
//! talos-nodes     talosctl alone: from machines in maintenance mode to a healthy cluster, an upgrade and a reset
//! talos-cluster   talmox apply makes a cluster, talosctl and kubectl look at it with the files it wrote, and talosctl upgrades and
//!                 resets a node of it
//! talos-adopt     talosctl makes clusters, with patches drawn from a seed; talmox describes and adopts them, and has nothing to change
//! talos-adopt-talhelper   the same with a cluster whose secrets, configurations and talosconfig talhelper made, and whose secrets sops
//!                         encrypted
//! talos-adopt-tofu        the same with VMs that OpenTofu and the bpg provider made
//! talos-day-two   talosctl upgrades, reconfigures, restarts, rotates, snapshots and restores a cluster of talmox, which says each time
//!                 what is true, and goes on with it
//! ```

mod adopted;
mod adoption;
mod brought_up;
mod cluster;
mod day_two;
mod drawn;
mod from_talhelper;
mod from_tofu;
mod layout;
mod own;
mod programs;
mod sealed;
mod steps;

use std::time::Instant;

use anyhow::{Context as _, bail};

use super::peers::{self, Peer};
use crate::own_program;
use cluster::Beginning;

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
    let count = with_machines(version, MACHINES, |cluster| steps::run(&folder.join("talosctl"), cluster))?;
    Ok(told(&format!("talosctl {version} and nodes"), count, begin))
}

/// `talosctl` and `kubectl` at a cluster that talmox made.
pub(super) fn judge_brought_up() -> anyhow::Result<String> {
    let title = "talosctl 1.13 and kubectl at a cluster of talmox";
    let (talosctl, kubernetes) = match (peers::get("talosctl113")?, peers::get("kubernetes")?) {
        (Peer::Folder(talosctl), Peer::Folder(kubernetes)) => (talosctl, kubernetes),
        (Peer::Unavailable(excuse), _) | (_, Peer::Unavailable(excuse)) => {
            return Ok(format!("{title}: not run: {excuse}"));
        }
    };
    let own = own_program::build(&[])?;
    let begin = Instant::now();
    let count = brought_up::run(&own, &talosctl.join("talosctl"), &kubernetes.join("kubectl"))?;
    Ok(told(title, count, begin))
}

/// `talosctl` looks after a cluster that talmox made, and the other way round.
pub(super) fn judge_day_two() -> anyhow::Result<String> {
    let title = "talosctl 1.13 and talmox, day two";
    let talosctl = match peers::get("talosctl113")? {
        Peer::Folder(folder) => folder.join("talosctl"),
        Peer::Unavailable(excuse) => return Ok(format!("{title}: not run: {excuse}")),
    };
    let own = own_program::build(&[])?;
    let begin = Instant::now();
    let count = day_two::run(&own, &talosctl)?;
    Ok(told(title, count, begin))
}

/// talmox at a cluster that `talosctl` made.
pub(super) fn judge_adopted() -> anyhow::Result<String> {
    let title = "talmox at a cluster of talosctl 1.13";
    let folder = match peers::get("talosctl113")? {
        Peer::Folder(folder) => folder,
        Peer::Unavailable(excuse) => return Ok(format!("{title}: not run: {excuse}")),
    };
    let own = own_program::build(&[])?;
    let talosctl = folder.join("talosctl");
    let begin = Instant::now();
    let sets = drawn::compare(&talosctl)?;
    let drawn = format!("{title}: {sets}, {:.1} s", begin.elapsed().as_secs_f64());
    let begin = Instant::now();
    let count = with_machines("1.13", MACHINES, |cluster| adopted::run(&own, &talosctl, cluster))?;
    Ok(format!("{drawn}\n{}", told(title, count, begin)))
}

/// talmox at a cluster that talhelper made.
pub(super) fn judge_adopted_from_talhelper() -> anyhow::Result<String> {
    let title = "talmox at a cluster of talhelper 3.1.17 with sops 3.13.3";
    let mut folders = Vec::new();
    for name in ["talosctl113", "talhelper", "sops"] {
        match peers::get(name)? {
            Peer::Folder(folder) => folders.push(folder.join(name.trim_end_matches("113"))),
            Peer::Unavailable(excuse) => return Ok(format!("{title}: not run: {excuse}")),
        }
    }
    let [talosctl, talhelper, sops] = folders.as_slice() else { bail!("three programs are needed") };
    let own = own_program::build(&[])?;
    let begin = Instant::now();
    let count = with_machines("1.13", Beginning::Machines { nics: 2 }, |cluster| {
        let peers = from_talhelper::Peers { own: &own, talhelper, talosctl, sops };
        from_talhelper::run(&peers, cluster)
    })?;
    Ok(told(title, count, begin))
}

/// talmox at a cluster whose VMs OpenTofu made.
pub(super) fn judge_adopted_from_tofu() -> anyhow::Result<String> {
    let title = "talmox at a cluster of OpenTofu 1.12.6 with bpg 0.112.0";
    let mut folders = Vec::new();
    for name in ["tofu", "bpg", "talosctl113"] {
        match peers::get(name)? {
            Peer::Folder(folder) => folders.push(folder),
            Peer::Unavailable(excuse) => return Ok(format!("{title}: not run: {excuse}")),
        }
    }
    let [tofu, bpg, talosctl] = folders.as_slice() else { bail!("three programs are needed") };
    let (tofu, talosctl) = (tofu.join("tofu"), talosctl.join("talosctl"));
    let own = own_program::build(&[])?;
    let begin = Instant::now();
    let beginning = Beginning::Nothing { schematics: &[from_tofu::SCHEMATIC] };
    let count =
        with_machines("1.13", beginning, |cluster| from_tofu::run(&own, (&tofu, bpg), &talosctl, cluster))?;
    Ok(told(title, count, begin))
}

/// Machines in maintenance mode, with one network device each.
const MACHINES: Beginning = Beginning::Machines { nics: 1 };

/// Does something with a cluster's machines.
fn with_machines(
    version: &str,
    beginning: Beginning,
    run: impl FnOnce(&cluster::Cluster) -> anyhow::Result<usize>,
) -> anyhow::Result<usize> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let layout = layout::Layout::new(version)?;
    let cluster = runtime.block_on(cluster::Cluster::start(layout, beginning));
    let cluster = cluster.context("the nodes do not come up")?;
    let outcome = run(&cluster);
    runtime.block_on(cluster.stop())?;
    outcome
}

fn told(title: &str, calls: usize, begin: Instant) -> String {
    format!("{title}: {calls} calls as expected, {:.1} s", begin.elapsed().as_secs_f64())
}
