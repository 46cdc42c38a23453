//! The real `talosctl` and `kubectl` at a cluster that talmox brought up, with the files it wrote for them.

use std::path::Path;

use super::layout::Layout;
use super::own::{Simulator, talmox};
use super::programs::{Program, Talosctl, WAIT};
use super::steps;
use crate::scratch::Scratch;

/// Simulated seconds per second while others talk to the nodes.
const SPEED: &str = "4";
/// While a machine is watched that restarts: `talosctl` looks again after some seconds, and waits for ever if it is up by then.
const REAL_TIME: &str = "1";

/// Every node, and whether it is ready.
const READY: &str =
    "jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type==\"Ready\")].status} {end}";

/// Runs everything; gives the number of calls of others.
pub(super) fn run(own: &Path, talosctl: &Path, kubectl: &Path) -> anyhow::Result<usize> {
    let (layout, scratch) = (Layout::new("1.13")?, Scratch::new("talos-cluster")?);
    scratch.write("cluster.yaml", &description(&layout))?;
    let own = talmox(own, scratch.path());
    let folder = scratch.path().join("world");
    let simulate = format!("--simulate={}", folder.display());
    own.ask(&["apply", &simulate, "--auto-approve"])?.well(&["healthy, 4 nodes as described"])?;

    let simulator = Simulator::start(&own, &folder, SPEED)?;
    let home = scratch.inside("home")?;
    let mut talosctl = Talosctl::new(talosctl, home.path(), folder.join("talosconfig"), layout.first());
    let calls = ask(&mut talosctl, &layout)?;
    let kubeconfigs = [folder.join("kubeconfig"), home.path().join("kubeconfig")];
    for kubeconfig in kubeconfigs {
        let environment = vec![("KUBECONFIG", kubeconfig)];
        let kubectl = Program { file: kubectl, home: home.path(), environment };
        let ready = ["cp-1=True", "cp-2=True", "cp-3=True", "worker-1=True"];
        kubectl.ask(&["get", "nodes", "-o", READY])?.well(&ready)?;
    }
    drop(simulator);
    own.ask(&["plan", &simulate])?.well(&["No changes."])?;
    let rendered = own.output(&["render", "config", "worker-1", &simulate])?;
    std::fs::write(home.path().join("worker-1.yaml"), rendered)?;

    let simulator = Simulator::start(&own, &folder, REAL_TIME)?;
    talosctl.calls = 0;
    let more = renew(&mut talosctl, &layout)?;
    drop(simulator);
    // It runs a later version than described: the plan is to bring it back.
    own.ask(&["plan", "--no-snapshot", &simulate])?.well(&[layout.next])?;
    Ok(calls + 2 + more)
}

/// Upgrades the worker, resets it, and gives it back the configuration talmox has for it.
fn renew(talosctl: &mut Talosctl<'_>, layout: &Layout) -> anyhow::Result<usize> {
    let (first, worker) = (layout.first(), layout.worker.to_string());
    talosctl.wait(&["-e", &first, "-n", &worker, "version"], &["Server:"])?;
    steps::upgrade(talosctl, layout)?;
    steps::reset(talosctl, layout)?;
    let file = ["apply-config", "--insecure", "-n", &worker, "--file", "worker-1.yaml"];
    talosctl.ask(&file)?.well(&[])?;
    talosctl.wait(&["-e", &first, "-n", &worker, "get", "machinestatus"], &["running   true"])?;
    talosctl
        .of(&first, &["health", WAIT[0], WAIT[1]])?
        .well(&["waiting for all k8s nodes to report ready: OK"])?;
    Ok(talosctl.calls)
}

fn ask(talosctl: &mut Talosctl<'_>, layout: &Layout) -> anyhow::Result<usize> {
    let tag = format!("Tag:         v{}", layout.version);
    // Where to, and as whom, is in the talosconfig.
    talosctl.wait(&["version"], &[&tag, &format!("NODE:        {}", layout.first())])?;
    for node in layout.everybody() {
        talosctl.ask(&["-n", &node.to_string(), "version"])?.well(&[&tag])?;
    }
    let again = "code = AlreadyExists desc = etcd data directory is not empty";
    talosctl.ask(&["bootstrap"])?.badly(&[again])?;
    steps::look(talosctl, layout)?;
    steps::etcd(talosctl)?;
    Ok(talosctl.calls)
}

/// Three control planes and a worker.
pub(super) fn description(layout: &Layout) -> String {
    let node =
        |(index, address)| format!("  - {{name: cp-{}, address: {address}, controller: true}}\n", index + 1);
    let nodes: String = layout.control_planes.iter().enumerate().map(node).collect();
    let (version, worker) = (layout.version, layout.worker);
    let (network, gateway, shared) = (layout.address(0), layout.address(1), layout.address(10));
    format!(
        "cluster_name: lab
cluster_uid: \"8c1f6a2b90d347e5\"
proxmox_endpoint: https://127.0.0.1:8006
node_cidr: {network}/24
node_gateway: {gateway}
cluster_api_addr: {shared}
talos_version: {version}
nodes:
{nodes}  - {{name: worker-1, address: {worker}}}
"
    )
}
