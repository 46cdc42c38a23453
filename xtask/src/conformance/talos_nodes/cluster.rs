//! Machines on a simulated Proxmox that boot Talos.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, ensure};
use talmox_sim::serve::{CallLog, LoggedCall, Server, Settings};
use talmox_sim::{FactoryRequest, Starter, World};
use talmox_sim_talos::serve::{Beside, NodesServer};

use super::layout::Layout;
use super::programs::{PATIENCE, PAUSE};
use crate::conformance::view;
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

/// The hardware address of a machine's network device.
pub(super) fn mac(index: usize, slot: usize) -> String {
    format!("bc:24:11:0a:{slot:02x}:{index:02x}")
}

/// What is there before anybody comes.
pub(super) enum Beginning {
    /// Three machines for control planes and one for a worker, each with so many network devices.
    Machines { nics: usize },
    /// A Proxmox without machines, whose Image Factory knows these schematics.
    Nothing { schematics: &'static [&'static str] },
}

/// How often anything was told to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writes {
    /// Calls to Proxmox.
    pub(super) proxmox: usize,
    /// Calls to machines and to Kubernetes.
    pub(super) machines: u64,
}

impl Cluster {
    /// Starts what is there, in a network of its own.
    pub(super) async fn start(layout: Layout, beginning: Beginning) -> anyhow::Result<Self> {
        let epoch = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
        let mut world = Starter::new(1, epoch, epoch).build().world;
        match beginning {
            Beginning::Machines { nics } => {
                fetch(&mut world, layout.version)?;
                for (index, address) in layout.everybody().enumerate() {
                    start(&mut world, index, address, nics)?;
                }
            }
            Beginning::Nothing { schematics } => {
                for schematic in schematics {
                    register(&mut world, schematic)?;
                }
                let token = world.starter_token().context("there is a token")?;
                view::see_all(&mut world, &token);
            }
        }
        let token = world.starter_token().context("there is a token")?;
        let beside = Arc::new(Beside::of_world(&world, epoch));
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

    /// How often anything was told to change something so far.
    pub(super) fn writes(&self) -> anyhow::Result<Writes> {
        let calls = self.log.read(CALLS)?;
        let calls: Result<Vec<LoggedCall>, _> = calls.lines().map(serde_json::from_str).collect();
        let proxmox = calls?.iter().filter(|call| call.method != "GET").count();
        Ok(Writes { proxmox, machines: self.beside.nodes().changing_calls })
    }

    /// Waits until every control plane's pods follow the configurations. No call tells: until a kubelet looks, all is as it was.
    pub(super) fn settle(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.beside.nodes().pods_have_settled() {
            ensure!(Instant::now() < deadline, "the control planes' pods do not follow their configurations");
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// The network has an address for a device that asks.
    pub(super) fn reserve(&self, mac: &str, address: Ipv4Addr) {
        self.beside.nodes().leases.insert(mac.to_ascii_lowercase(), address.into());
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

/// Has the Image Factory know a schematic.
fn register(world: &mut World, schematic: &str) -> anyhow::Result<()> {
    let factory = world.factory.as_mut().context("there is an Image Factory")?;
    let request = FactoryRequest {
        method: "POST".to_owned(),
        authority: "factory.talos.dev".to_owned(),
        target: "/schematics".to_owned(),
        body: schematic.as_bytes().to_vec(),
    };
    let reply = factory.handle(&request).context("the factory is dead")?;
    ensure!(reply.status == 201, "the factory says {} to {schematic}", reply.status);
    Ok(())
}

fn start(world: &mut World, index: usize, address: Ipv4Addr, nics: usize) -> anyhow::Result<()> {
    let (id, [a, b, c, _]) = ((FIRST_ID + index).to_string(), address.octets());
    let name = name(index);
    let network = format!("ip={address}/24,gw={a}.{b}.{c}.1");
    let devices: Vec<(String, String)> = (0..nics)
        .map(|slot| (format!("net{slot}"), format!("virtio={},bridge=vmbr0", mac(index, slot))))
        .collect();
    let mut vm = vec![
        ("vmid", id.as_str()),
        ("name", &name),
        ("scsi0", "local-zfs:0,import-from=local:import/talos.qcow2"),
        ("ide2", "local-zfs:cloudinit"),
        ("ipconfig0", &network),
        ("boot", "order=scsi0"),
        ("cores", "2"),
        ("memory", "4096"),
    ];
    vm.extend(devices.iter().map(|(slot, device)| (slot.as_str(), device.as_str())));
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
