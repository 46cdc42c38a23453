//! Machines on a simulated Proxmox that boot Talos.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, ensure};
use talmox_sim::serve::{CallLog, LoggedCall, Server, Settings};
use talmox_sim::{Starter, World};
use talmox_sim_talos::serve::{Beside, NodesServer};

use super::layout::Layout;
use crate::scratch::Scratch;

/// Simulated seconds per second.
const SPEED: f64 = 4.0;
/// Firmware and kernel of a machine that is watched while it restarts, in simulated milliseconds: `talosctl` looks again
/// after some seconds, and waits for ever if it is up by then.
const SLOW_BOOT: u64 = 10_000;
/// The schematic of images without changes.
const PLAIN: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

pub(super) struct Cluster {
    pub(super) layout: Layout,
    beside: Arc<Beside>,
    server: Server,
    nodes: NodesServer,
    token: String,
    /// Where every call to Proxmox is written down.
    log: Scratch,
}

/// The file of the calls.
const CALLS: &str = "calls.jsonl";

/// The machine of an address: its VMID.
const FIRST_ID: usize = 101;

/// The names of the machines, in the order of the layout.
pub(super) fn name(index: usize) -> String {
    format!("node-{}", FIRST_ID + index)
}

impl Cluster {
    /// Starts three machines for control planes and one for a worker, in a network of their own.
    pub(super) async fn start(layout: Layout) -> anyhow::Result<Self> {
        let epoch = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
        let mut world = Starter::new(1, epoch, epoch).build().world;
        fetch(&mut world, layout.version)?;
        for (index, address) in layout.everybody().enumerate() {
            start(&mut world, index, address)?;
        }
        let token = world.starter_token().context("there is a token")?;
        let beside = Arc::new(Beside::of_world(&mut world, epoch));
        let log = Scratch::new("talos-calls")?;
        let settings = Settings {
            log: Some(CallLog::create(Path::new(&log.file(CALLS)))?),
            latency: Duration::from_millis(1),
            speed: SPEED,
            companion: Some(Arc::<Beside>::clone(&beside)),
            ..Settings::default()
        };
        let server = Server::start(world, settings).await?;
        let nodes = NodesServer::start(server.handle(), Arc::clone(&beside), []).await?;
        Ok(Self { layout, beside, server, nodes, token, log })
    }

    /// Where Proxmox listens, the certificate that vouches for it, and a token.
    pub(super) fn proxmox(&self) -> anyhow::Result<(String, &str, &str)> {
        let host = self.server.hosts().first().context("there is a host")?;
        Ok((host.endpoint(), self.server.authority(), &self.token))
    }

    /// How often Proxmox was told to change something so far.
    pub(super) fn writes(&self) -> anyhow::Result<usize> {
        let calls = self.log.read(CALLS)?;
        let calls: Result<Vec<LoggedCall>, _> = calls.lines().map(serde_json::from_str).collect();
        Ok(calls?.iter().filter(|call| call.method != "GET").count())
    }

    /// Machines take as long to boot as real ones from now on.
    pub(super) fn boot_slowly(&self) {
        self.beside.nodes().timing.kernel = SLOW_BOOT;
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.nodes.stop().await?;
        Ok(self.server.stop().await?)
    }
}

fn fetch(world: &mut World, version: &str) -> anyhow::Result<()> {
    let url = format!("https://factory.talos.dev/image/{PLAIN}/v{version}/nocloud-amd64.qcow2");
    let form = [("url", url.as_str()), ("content", "import"), ("filename", "talos.qcow2")];
    work(world, "/nodes/pve1/storage/local/download-url", &form)
}

fn start(world: &mut World, index: usize, address: Ipv4Addr) -> anyhow::Result<()> {
    let (id, [a, b, c, _]) = ((FIRST_ID + index).to_string(), address.octets());
    let name = name(index);
    let network = format!("ip={address}/24,gw={a}.{b}.{c}.1");
    let vm = [
        ("vmid", id.as_str()),
        ("name", &name),
        ("scsi0", "local-zfs:0,import-from=local:import/talos.qcow2"),
        ("ide2", "local-zfs:cloudinit"),
        ("net0", "virtio,bridge=vmbr0"),
        ("ipconfig0", &network),
        ("boot", "order=scsi0"),
        ("cores", "2"),
        ("memory", "4096"),
    ];
    work(world, "/nodes/pve1/qemu", &vm)?;
    let resized = [("disk", "scsi0"), ("size", "20G")];
    let answer = world.root_call("PUT", &format!("/nodes/pve1/qemu/{id}/resize"), &resized);
    finish(world, answer)?;
    work(world, &format!("/nodes/pve1/qemu/{id}/status/start"), &[])
}

/// A call of the administrator's, and its task to the end.
fn work(world: &mut World, path: &str, form: &[(&str, &str)]) -> anyhow::Result<()> {
    let answer = world.root_call("POST", path, form);
    finish(world, answer).with_context(|| path.to_owned())
}

fn finish(world: &mut World, answer: Result<serde_json::Value, String>) -> anyhow::Result<()> {
    let answer = answer.map_err(|words| anyhow!(words))?;
    let Some(upid) = answer.as_str().map(str::to_owned) else { return Ok(()) };
    while world.task_status(&upid) == Some(None) {
        let next = world.next_event().context("the task does not end")?;
        world.advance_to(next);
    }
    let status = world.task_status(&upid).flatten().unwrap_or_default().to_owned();
    ensure!(status == "OK", "{status}");
    Ok(())
}
