//! Every kind of fault as a raw client sees it over HTTPS.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::time::Duration;

use rustls::pki_types::ServerName;
use talmox_sim::serve::{Server, Settings};
use talmox_sim::{Calls, Fault, Simulation, Starter, When};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::support::tls::connector;

struct Lab {
    server: Server,
    token: String,
}

impl Lab {
    /// Two hosts whose next matching call goes wrong; the clock moves only when told.
    async fn new(calls: Calls, fault: Fault) -> Self {
        let started = Starter::new(2, 9, 1_790_000_000_000).build();
        let mut simulation = Simulation::new(started.world);
        simulation.faults.add(calls, When::nth(1), fault);
        let settings = Settings { latency: Duration::ZERO, speed: 0.0, ..Settings::default() };
        Self { server: Server::start(simulation, settings).await.unwrap(), token: started.token }
    }

    async fn connect(&self, host: usize) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.server.hosts()[host].address).await?;
        let connector = connector(self.server.authority());
        connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await
    }

    /// Everything that comes until the connection ends, or the way it breaks.
    async fn ask(&self, host: usize, line: &str, body: &str) -> io::Result<String> {
        let mut stream = self.connect(host).await?;
        let request = format!(
            "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: PVEAPIToken={}\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut reply = Vec::new();
        match stream.read_to_end(&mut reply).await {
            Err(error) if reply.is_empty() => Err(error),
            _ => Ok(String::from_utf8_lossy(&reply).into_owned()),
        }
    }

    async fn create(&self) -> io::Result<String> {
        self.ask(0, "POST /api2/json/nodes/pve1/qemu", "vmid=100&scsi0=local-zfs%3A1").await
    }

    async fn get(&self, host: usize, path: &str) -> io::Result<String> {
        self.ask(host, &format!("GET /api2/json{path}"), "").await
    }

    fn has_vm(&self) -> bool {
        self.server.with(|simulation| simulation.world.has_vm(100))
    }

    /// Lets time pass up to there.
    fn advance(&self, seconds: u64) {
        self.server.advance(Duration::from_secs(seconds));
        self.server.with(|_| ());
    }

    async fn status(&self, reply: &str) -> String {
        let upid = reply.split('"').find(|part| part.starts_with("UPID:")).unwrap();
        self.get(0, &format!("/nodes/pve1/tasks/{upid}/status")).await.unwrap()
    }
}

fn creates() -> Calls {
    Calls::to("POST", "/nodes/*/qemu")
}

fn answer(status: u16, text: &str, happens: bool) -> Fault {
    Fault::Answer { status, text: text.to_owned(), happens }
}

#[tokio::test]
async fn answers_of_every_status() {
    for (status, text) in [
        (401, "Authentication failed!"),
        (595, "No route to host"),
        (596, "Connection timed out"),
        (599, "Too many redirections"),
    ] {
        let lab = Lab::new(creates(), answer(status, text, false)).await;
        let reply = lab.create().await.unwrap();
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} {text}\r\n")), "{reply}");
        assert!(reply.ends_with("\r\n\r\n"), "no body: {reply}");
        assert!(!lab.has_vm());
        assert!(lab.create().await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"), "only once");
    }
    for (status, text) in
        [(403, "Permission check failed"), (500, "cfs-lock 'storage-x' error: got lock request timeout")]
    {
        let lab = Lab::new(creates(), answer(status, text, false)).await;
        let reply = lab.create().await.unwrap();
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} {text}\r\n")), "{reply}");
        assert!(reply.ends_with(&format!("{{\"data\":null,\"message\":\"{text}\\n\"}}")), "{reply}");
    }
    let lab = Lab::new(creates(), answer(596, "Connection timed out", true)).await;
    assert!(lab.create().await.unwrap().starts_with("HTTP/1.1 596 "));
    assert!(lab.has_vm(), "it happened all the same");
}

#[tokio::test]
async fn replies_that_do_not_come_whole() {
    let lab = Lab::new(creates(), Fault::LoseReply).await;
    assert!(lab.create().await.is_err() && lab.has_vm());

    let lab = Lab::new(creates(), Fault::CutBody { after: 9 }).await;
    let reply = lab.create().await.unwrap();
    assert!(reply.ends_with("\r\n\r\n{\"data\":\""), "{reply}");

    let lab = Lab::new(creates(), Fault::Hang).await;
    assert!(tokio::time::timeout(Duration::from_millis(300), lab.create()).await.is_err());
    assert!(!lab.has_vm());

    let lab = Lab::new(creates(), Fault::HostDown).await;
    assert!(lab.create().await.is_err() && !lab.has_vm());
    for answer in ["596 Connection reset by peer", "595 Connection refused"] {
        let reply = lab.get(1, "/nodes/pve1/qemu").await.unwrap();
        assert!(reply.starts_with(&format!("HTTP/1.1 {answer}\r\n")), "{reply}");
    }
}

#[tokio::test]
async fn a_closed_idle_connection() {
    let lab = Lab::new(Calls::any(), Fault::CloseIdle).await;
    let (mut closed, mut idle) = (lab.connect(0).await.unwrap(), lab.connect(0).await.unwrap());
    let request = format!(
        "GET /api2/json/version HTTP/1.1\r\nHost: x\r\nAuthorization: PVEAPIToken={}\r\n\r\n",
        lab.token
    );
    let (mut reply, mut other) = (Vec::new(), [0; 1]);
    closed.write_all(request.as_bytes()).await.unwrap();
    closed.read_exact(&mut other).await.unwrap();
    reply.extend(other);
    idle.write_all(request.as_bytes()).await.unwrap();
    idle.read_exact(&mut other).await.unwrap();
    // Nothing announced it; the end comes at once, long before that of a connection that lies idle.
    let mut rest = Vec::new();
    tokio::select! {
        biased;
        ended = closed.read_to_end(&mut reply) => assert!(ended.is_ok(), "{ended:?}"),
        _ = idle.read_to_end(&mut rest) => panic!("it was kept as long as any other"),
    }
    let reply = String::from_utf8(reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && !reply.contains("connection: close"), "{reply}");
}

#[tokio::test]
async fn a_slow_reply() {
    let started = Starter::new(1, 9, 1_790_000_000_000).build();
    let mut simulation = Simulation::new(started.world);
    simulation.faults.next(Calls::any(), Fault::Slow { by: 20_000 });
    let settings = Settings { latency: Duration::ZERO, speed: 100.0, ..Settings::default() };
    let lab = Lab { server: Server::start(simulation, settings).await.unwrap(), token: started.token };
    let start = std::time::Instant::now();
    assert!(lab.get(0, "/version").await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(start.elapsed() >= Duration::from_millis(200), "twenty seconds, a hundred times as fast");
}

#[tokio::test]
async fn workers_that_die_and_workers_that_fail() {
    let lab = Lab::new(creates(), Fault::KillWorker { after: 20 }).await;
    let reply = lab.create().await.unwrap();
    lab.advance(60);
    assert!(lab.status(&reply).await.contains(r#""exitstatus":"unexpected status""#));
    assert!(lab.get(0, "/nodes/pve1/qemu/100/config").await.unwrap().contains(r#""lock":"create""#));

    let words = "unable to create VM 100 - out of space";
    let lab = Lab::new(creates(), Fault::FailWorker { after: 20, text: words.into() }).await;
    let reply = lab.create().await.unwrap();
    lab.advance(60);
    assert!(lab.status(&reply).await.contains(&format!(r#""exitstatus":"{words}""#)));
    assert!(!lab.has_vm(), "it cleaned up");
}

#[tokio::test]
async fn a_host_that_is_lost_in_the_middle_of_a_task_and_boots_again() {
    let lose = Fault::LoseHost { host: None, after: 30, back: Some(60_000) };
    let lab = Lab::new(creates(), lose).await;
    let reply = lab.create().await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    lab.advance(1);
    let seen = lab.get(1, "/nodes/pve1/qemu").await.unwrap();
    assert!(seen.starts_with("HTTP/1.1 595 No route to host\r\n"), "{seen}");
    lab.advance(61);
    // The door opens when the host has booted; it is a task of its own.
    let seen = loop {
        match tokio::time::timeout(Duration::from_millis(200), lab.get(0, "/nodes/pve1/qemu/100/config"))
            .await
        {
            Ok(Ok(seen)) => break seen,
            _ => tokio::task::yield_now().await,
        }
    };
    assert!(seen.contains(r#""lock":"create""#), "the worker died with its host: {seen}");
    assert!(lab.status(&reply).await.contains(r#""exitstatus":"unexpected status""#));
}

#[tokio::test]
async fn a_jump_of_the_clock() {
    let lab = Lab::new(creates(), Fault::JumpClock { by: 86_400_000 }).await;
    let reply = lab.create().await.unwrap();
    let began = format!(":{:08X}:qmcreate:100:", 1_790_000_000 + 86_400);
    assert!(reply.contains(&began), "{reply}");
}

#[tokio::test]
async fn a_busy_daemon_and_a_backup() {
    let lab = Lab::new(creates(), Fault::BusyHost { lasts: 20_000 }).await;
    assert!(lab.create().await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(lab.server.with(|simulation| simulation.world.clock()) >= 20_000, "it waited");
    lab.advance(60);
    lab.server
        .with(|simulation| simulation.faults.next(Calls::any().by("PUT"), Fault::Backup { lasts: 30_000 }));
    let refused = lab.ask(0, "PUT /api2/json/nodes/pve1/qemu/100/config", "name=x").await.unwrap();
    assert!(refused.starts_with("HTTP/1.1 500 VM is locked (backup)\r\n"), "{refused}");
    lab.advance(60);
    let done = lab.ask(0, "PUT /api2/json/nodes/pve1/qemu/100/config", "name=x").await.unwrap();
    assert!(done.starts_with("HTTP/1.1 200 OK\r\n"), "{done}");
}
