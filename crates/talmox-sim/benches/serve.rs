//! How much the simulator can take: over HTTPS by connections, in memory by kind of call, and what 10 000 VMs weigh.
//!
//! `cargo bench -p talmox-sim`. It must never be what a test waits for: thousands of calls per second
//! on two cores, whatever the number of VMs.

#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

#[path = "../tests/it/support/tls.rs"]
mod tls;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request as HttpRequest;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, HOST};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use talmox_sim::serve::{Server, Settings};
use talmox_sim::{Body, Request, Starter, World, encode_form};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use tls::connector;

/// How long each line of the first table is measured.
const TIME: Duration = Duration::from_secs(3);
/// After so many the server closes a connection.
const PER_CONNECTION: usize = 100;
const SIZES: [u32; 2] = [100, 10_000];

fn main() {
    // First, while no memory of others lies about to be used again.
    weight();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(over_https());
    in_memory();
}

fn vm_config(vmid: u32) -> BTreeMap<String, String> {
    let mac = format!("BC:24:11:{:02X}:{:02X}:{:02X}", vmid >> 16 & 0xff, vmid >> 8 & 0xff, vmid & 0xff);
    [
        ("name", format!("node-{vmid}")),
        ("memory", "8192".into()),
        ("cores", "4".into()),
        ("machine", "q35".into()),
        ("bios", "ovmf".into()),
        ("efidisk0", format!("local-zfs:vm-{vmid}-disk-0,efitype=4m,size=1M")),
        ("scsi0", format!("local-zfs:vm-{vmid}-disk-1,discard=on,size=100G,ssd=1")),
        ("net0", format!("virtio={mac},bridge=vmbr0")),
        ("description", format!("a VM of the benchmark, number {vmid}")),
        ("tags", "kubernetes;talos".into()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn world(vms: u32) -> (World, String) {
    let started = Starter::new(1, 1, 1_790_000_000_000).build();
    let mut world = started.world;
    for vmid in 1000..1000 + vms {
        world.add_vm("pve1", vmid, vm_config(vmid), false);
    }
    world.advance_to(20_000);
    (world, started.token)
}

/// Calls as provisioning makes them: mostly reads of one VM, some of the version, some writes.
fn mixed(number: usize) -> (&'static str, String, String) {
    let vm = 1000 + number % 100;
    match number % 10 {
        0 => ("GET", "/api2/json/version".into(), String::new()),
        1 => {
            let body = encode_form([("description", format!("changed by call {number}").as_str())]);
            ("PUT", format!("/api2/json/nodes/pve1/qemu/{vm}/config"), body)
        }
        2 | 3 => ("GET", format!("/api2/json/nodes/pve1/qemu/{vm}/status/current"), String::new()),
        _ => ("GET", format!("/api2/json/nodes/pve1/qemu/{vm}/config"), String::new()),
    }
}

async fn over_https() {
    println!(
        "over HTTPS: 100 VMs, latency 0, a new connection every {PER_CONNECTION} calls, one in ten a write"
    );
    println!("{:>11} {:>9} {:>9} {:>9}", "connections", "calls/s", "p50 us", "p99 us");
    for connections in [1, 8, 64] {
        let (world, token) = world(100);
        let settings = Settings { latency: Duration::ZERO, speed: 0.0, ..Settings::default() };
        let server = Server::start(world, settings).await.unwrap();
        let connector = connector(server.authority());
        let address = server.hosts()[0].address;
        let start = Instant::now();
        let mut clients = JoinSet::new();
        for index in 0..connections {
            clients.spawn(talk(connector.clone(), address, token.clone(), start + TIME, index * 7));
        }
        let mut times = clients.join_all().await.concat();
        let took = start.elapsed();
        times.sort_unstable();
        let percentile = |percent: usize| times[times.len() * percent / 100].as_micros();
        let rate = per_second(times.len() as u128, took);
        println!("{connections:>11} {rate:>9} {:>9} {:>9}", percentile(50), percentile(99));
        server.stop().await.unwrap();
    }
}

fn per_second(count: u128, took: Duration) -> u128 {
    count * 1_000_000 / took.as_micros().max(1)
}

async fn talk(
    connector: TlsConnector,
    address: SocketAddr,
    token: String,
    end: Instant,
    offset: usize,
) -> Vec<Duration> {
    let mut times = Vec::new();
    while Instant::now() < end {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        for _ in 0..PER_CONNECTION {
            let begin = Instant::now();
            if begin >= end {
                break;
            }
            call(&mut sender, &token, times.len() + offset).await;
            times.push(begin.elapsed());
        }
    }
    times
}

async fn call(sender: &mut SendRequest<Full<Bytes>>, token: &str, number: usize) {
    let (method, path, body) = mixed(number);
    let request = HttpRequest::builder()
        .method(method)
        .uri(path)
        .header(HOST, "127.0.0.1")
        .header(AUTHORIZATION, format!("PVEAPIToken={token}"))
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    sender.ready().await.unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.unwrap();
}

type Kind = (&'static str, fn(u32) -> Request);

const KINDS: [Kind; 6] = [
    ("GET version", |_| get("/version")),
    ("GET config", |number| get(&format!("/nodes/pve1/qemu/{}/config", 1000 + number % 100))),
    ("PUT config", |number| {
        let path = format!("/nodes/pve1/qemu/{}/config", 1000 + number % 100);
        send("PUT", &path, &[("description", &number.to_string())])
    }),
    ("POST create, with its task", |number| {
        let vmid = (100_000 + number).to_string();
        let form = [("vmid", vmid.as_str()), ("scsi0", "local-zfs:1"), ("net0", "virtio,bridge=vmbr0")];
        send("POST", "/nodes/pve1/qemu", &form)
    }),
    ("GET nextid", |_| get("/cluster/nextid")),
    ("GET resources", |_| get("/cluster/resources")),
];

fn in_memory() {
    println!("\nin memory: calls per second, by the number of VMs there are");
    println!("{:<28} {:>9} {:>9}", "call", SIZES[0], SIZES[1]);
    for (name, make) in KINDS {
        let rates = SIZES.map(|vms| rate(vms, make));
        println!("{name:<28} {:>9} {:>9}", rates[0], rates[1]);
    }
}

/// Calls come so far apart that the host's three workers are free again.
const APART: u64 = 30;

fn rate(vms: u32, make: fn(u32) -> Request) -> u128 {
    let (mut world, token) = world(vms);
    let start = Instant::now();
    let mut number = 0;
    while start.elapsed() < Duration::from_secs(1) {
        let mut request = make(number);
        request.authorization = Some(format!("PVEAPIToken={token}"));
        let now = world.clock() + APART;
        let reply = world.handle(&request, now);
        assert_eq!(reply.status, 200, "{}", reply.reason);
        number += 1;
    }
    per_second(u128::from(number), start.elapsed())
}

fn get(path: &str) -> Request {
    Request { method: "GET".into(), path: format!("/api2/json{path}"), ..Request::default() }
}

fn send(method: &str, path: &str, form: &[(&str, &str)]) -> Request {
    let bytes = encode_form(form.iter().copied()).into_bytes();
    Request { method: method.into(), body: Body::Bytes { content_type: None, bytes }, ..get(path) }
}

fn weight() {
    let before = resident();
    let begin = Instant::now();
    let (world, _) = world(10_000);
    let made = begin.elapsed();
    println!("10 000 VMs: {} MiB of memory, made in {made:.1?}", (resident() - before) >> 20);
    let begin = Instant::now();
    let saved = world.save();
    println!("saved as {} MiB in {:.1?}", saved.len() >> 20, begin.elapsed());
    let begin = Instant::now();
    let loaded = World::load(&saved).unwrap();
    println!("loaded in {:.1?}", begin.elapsed());
    assert!(loaded.has_vm(1000) && world.has_vm(1000));
}

/// Bytes of this process in memory; 0 where nobody says.
#[expect(clippy::disallowed_methods, reason = "no description: a file of the kernel's")]
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default();
    kib << 10
}
