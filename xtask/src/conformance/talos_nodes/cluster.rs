//! Machines on a simulated Proxmox that boot Talos.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, ensure};
use talmox_sim::serve::{Server, Settings};
use talmox_sim::{Starter, World};
use talmox_sim_talos::serve::{Beside, NodesServer};

/// Simulated seconds per second. Whoever waits for a node to restart looks once a second, and has to see it happen.
const SPEED: f64 = 3.0;
/// The schematic of images without changes.
const PLAIN: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";
const CONTROL_PLANES: u8 = 3;

pub(super) struct Cluster {
    /// `1.13.9`.
    pub(super) version: &'static str,
    /// The version an upgrade goes to.
    pub(super) next: &'static str,
    pub(super) control_planes: Vec<Ipv4Addr>,
    pub(super) worker: Ipv4Addr,
    server: Server,
    nodes: NodesServer,
}

impl Cluster {
    /// Starts three machines for control planes and one for a worker, in a network of their own.
    pub(super) async fn start(version: &str) -> anyhow::Result<Self> {
        let (version, next) = if version == "1.12" { ("1.12.6", "1.12.7") } else { ("1.13.9", "1.13.10") };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let epoch = u64::try_from(now.as_millis())?;
        // Whoever else runs this at the same time has another network, most likely.
        let [a, b] =
            [now.subsec_nanos() >> 3, std::process::id()].map(|number| u8::try_from(number % 200 + 20));
        let (a, b) = (a?, b?);
        let address = |last: u8| Ipv4Addr::new(127, a, b, last);
        let control_planes: Vec<Ipv4Addr> = (1..=CONTROL_PLANES).map(|number| address(10 + number)).collect();
        let worker = address(21);
        let mut world = Starter::new(1, epoch, epoch).build().world;
        fetch(&mut world, version)?;
        for (index, address) in control_planes.iter().chain([&worker]).enumerate() {
            start(&mut world, 101 + index, *address)?;
        }
        let beside = Arc::new(Beside::of_world(&mut world, epoch));
        let settings = Settings {
            latency: Duration::from_millis(1),
            speed: SPEED,
            companion: Some(Arc::<Beside>::clone(&beside)),
            ..Settings::default()
        };
        let server = Server::start(world, settings).await?;
        let nodes = NodesServer::start(server.handle(), beside, []).await?;
        Ok(Self { version, next, control_planes, worker, server, nodes })
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

fn start(world: &mut World, vmid: usize, address: Ipv4Addr) -> anyhow::Result<()> {
    let (id, [a, b, c, _]) = (vmid.to_string(), address.octets());
    let name = format!("node-{vmid}");
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
