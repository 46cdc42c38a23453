//! Nodes on sockets: the real client through TLS and HTTP/2, beside a Proxmox that switches them on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_machine::client::TalosRole;
use talmox_machine::{Bundle, Input, Options, Role, SystemRandom, Time};
use talmox_sim::serve::{Keep, Server, Settings, StateFolder};
use talmox_sim::{Starter, World};
use talmox_sim_talos::serve::{Api, Beside, NodesServer};
use talmox_talos::{Access, ApplyMode, Client, DialMap, GrpcTransport, Identity, Kind, TransportError};
use talmox_types::Contract;

const ADDRESS: &str = "10.5.0.7";
/// Simulated seconds per second.
const SPEED: f64 = 60.0;
/// Only what hangs gets there, however slow the machine is.
const PATIENCE: Duration = Duration::from_mins(5);
const PLAIN: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

fn address() -> IpAddr {
    ADDRESS.parse().unwrap()
}

/// A call of the administrator's, and its task to the end.
fn work(world: &mut World, method: &str, path: &str, form: &[(&str, &str)]) {
    let answer = world.root_call(method, path, form).unwrap();
    let Some(upid) = answer.as_str().map(str::to_owned) else { return };
    while world.task_status(&upid) == Some(None) {
        let next = world.next_event().unwrap();
        world.advance_to(next);
    }
    assert_eq!(world.task_status(&upid), Some(Some("OK")), "{path}");
}

/// A world in which a VM with Talos runs.
fn world(version: &str) -> World {
    let mut world = world_before_the_start(version);
    work(&mut world, "POST", "/nodes/pve1/qemu/100/status/start", &[]);
    world
}

/// The same while it is off.
fn world_before_the_start(version: &str) -> World {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut world = Starter::new(1, 7, u64::try_from(now.as_millis()).unwrap()).build().world;
    let url = format!("https://factory.talos.dev/image/{PLAIN}/{version}/nocloud-amd64.qcow2");
    let form = [("url", url.as_str()), ("content", "import"), ("filename", "talos.qcow2")];
    work(&mut world, "POST", "/nodes/pve1/storage/local/download-url", &form);
    let vm = [
        ("vmid", "100"),
        ("scsi0", "local-zfs:0,import-from=local:import/talos.qcow2"),
        ("ide2", "local-zfs:cloudinit"),
        ("net0", "virtio,bridge=vmbr0"),
        ("ipconfig0", "ip=10.5.0.7/24,gw=10.5.0.1"),
        ("boot", "order=scsi0"),
        ("memory", "4096"),
    ];
    work(&mut world, "POST", "/nodes/pve1/qemu", &vm);
    world
}

struct Running {
    server: Server,
    nodes: NodesServer,
    transport: Arc<GrpcTransport>,
}

async fn serve(world: World, keep: Keep) -> Running {
    serve_at(world, keep, SPEED).await
}

async fn serve_at(world: World, keep: Keep, speed: f64) -> Running {
    let beside = Arc::new(Beside::of_world(&world, 1));
    let settings = Settings {
        latency: Duration::from_millis(1),
        speed,
        keep,
        companion: Some(Arc::<Beside>::clone(&beside)),
        ..Settings::default()
    };
    let server = Server::start(world, settings).await.unwrap();
    let nodes = NodesServer::start(server.handle(), beside, [address()]).await.unwrap();
    let map = DialMap(nodes.dial(Api::Talos).into_iter().collect());
    Running { server, nodes, transport: Arc::new(GrpcTransport::new(map)) }
}

impl Running {
    fn client(&self, access: Access) -> Client {
        Client::new(Arc::<GrpcTransport>::clone(&self.transport), address(), access)
    }

    async fn stop(self) {
        self.nodes.stop().await.unwrap();
        self.server.stop().await.unwrap();
    }
}

/// Asks until it answers; while a node changes its mind it may be anything but wrong.
async fn version(client: &Client) -> String {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match client.version().await {
            Ok(release) => return release.tag,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

struct Cluster(Bundle);

impl Cluster {
    fn new() -> Self {
        Self(Bundle::generate(Contract::new(1, 13), today(), &mut SystemRandom).unwrap())
    }

    fn access(&self) -> Access {
        let made = self.0.talos_client(&[TalosRole::Admin], today(), 86_400, &mut SystemRandom).unwrap();
        let authority = self.0.os.certificate.pem();
        Access::Secure(Arc::new(
            Identity::from_pem(authority, made.certificate.pem(), made.key.pem()).unwrap(),
        ))
    }

    fn config(&self) -> String {
        let input = Input {
            contract: Contract::new(1, 13),
            cluster_name: "lab".to_owned(),
            endpoint: format!("https://{ADDRESS}:6443"),
            kubernetes: "1.35.2".to_owned(),
            secrets: &self.0,
            options: Options { install_disk: Some("/dev/sda".to_owned()), ..Options::default() },
        };
        input.generate(Role::ControlPlane).unwrap().to_yaml()
    }
}

fn today() -> Time {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time::from_unix(i64::try_from(now.as_secs()).unwrap())
}

#[tokio::test]
async fn a_node_goes_from_maintenance_to_mutual_tls() {
    let running = serve(world("v1.13.9"), Keep::Nothing).await;
    let maintenance = running.client(Access::maintenance());
    assert_eq!(version(&maintenance).await, "v1.13.9");
    let cluster = Cluster::new();
    let secure = running.client(cluster.access());
    assert_eq!(secure.version().await.unwrap_err().kind(), Kind::NotTrusted);
    maintenance.apply_configuration(cluster.config().into(), ApplyMode::NoReboot, false).await.unwrap();
    assert_eq!(version(&secure).await, "v1.13.9");
    let foreign = running.client(Cluster::new().access());
    assert_eq!(foreign.version().await.unwrap_err().kind(), Kind::NotTrusted);
    // A client without a certificate reads an alert, or finds the connection closed.
    let (mut told, mut hung_up) = (0, 0);
    for _ in 0..24 {
        let refusal = maintenance.version().await.unwrap_err();
        told += u32::from(matches!(refusal.cause, TransportError::Refused { .. }));
        hung_up += u32::from(matches!(refusal.cause, TransportError::Closed { .. }));
    }
    assert!(told > 4 && hung_up > 4 && told + hung_up == 24, "{told} {hung_up}");
    secure.bootstrap(false).await.unwrap();
    running.stop().await;
}

/// A clock may run so fast, or be moved so far, that a machine is switched on and has booted before anybody looks again.
#[tokio::test]
async fn a_machine_that_boots_in_one_step_of_the_clock_answers() {
    let mut world = world_before_the_start("v1.13.9");
    world.root_call("POST", "/nodes/pve1/qemu/100/status/start", &[]).unwrap();
    let running = serve_at(world, Keep::Nothing, 0.0).await;
    running.server.advance(Duration::from_mins(10));
    assert_eq!(version(&running.client(Access::maintenance())).await, "v1.13.9");
    running.stop().await;
}

#[tokio::test]
async fn nodes_are_kept_with_their_world() {
    let folder = std::env::temp_dir().join(format!("talmox-nodes-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let cluster = Cluster::new();
    {
        let state = StateFolder::open(&folder).unwrap();
        let running = serve(world("v1.13.9"), Keep::World(state)).await;
        let maintenance = running.client(Access::maintenance());
        assert_eq!(version(&maintenance).await, "v1.13.9");
        let config = cluster.config().into();
        maintenance.apply_configuration(config, ApplyMode::NoReboot, false).await.unwrap();
        version(&running.client(cluster.access())).await;
        running.stop().await;
    }
    let state = StateFolder::open(&folder).unwrap();
    let world = state.load().unwrap().unwrap();
    let running = serve(world, Keep::World(state)).await;
    // Whoever is told where a node is may call at once: nothing else gets to run before this does.
    std::net::TcpStream::connect(running.nodes.dial(Api::Talos)[&address()]).unwrap();
    // Whoever is killed right after the start has them still.
    let mut kept = String::new();
    std::fs::File::open(folder.join("world.json")).unwrap().read_to_string(&mut kept).unwrap();
    assert!(kept.contains("\"machines\":{\""), "{kept}");
    assert_eq!(version(&running.client(cluster.access())).await, "v1.13.9");
    // The plug is pulled: nobody answers, and the port is closed.
    running.server.with(|simulation| {
        simulation.world.root_call("POST", "/nodes/pve1/qemu/100/status/stop", &[]).unwrap();
    });
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while running.client(cluster.access()).version().await.is_ok() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let kind = loop {
        // A connection that just broke is told apart from none.
        match running.client(cluster.access()).version().await.map_err(|error| error.kind()) {
            Err(Kind::Uncertain) => {}
            Err(kind) => break kind,
            Ok(_) => panic!("it answers without power"),
        }
    };
    assert_eq!(kind, Kind::NotReached);
    running.stop().await;
    let _ = std::fs::remove_dir_all(&folder);
}
