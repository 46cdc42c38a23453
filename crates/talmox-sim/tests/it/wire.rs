//! The server as its bytes look on the wire.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use talmox_sim::Starter;
use talmox_sim::serve::{CallLog, LoggedCall, Server, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::support::tls::connector;

struct Wire {
    server: Server,
    token: String,
    root_password: String,
}

impl Wire {
    async fn new() -> Self {
        Self::with(Duration::ZERO, 1000.0).await
    }

    async fn with(latency: Duration, speed: f64) -> Self {
        Self::set(Settings { latency, speed, ..Settings::default() }).await
    }

    async fn set(settings: Settings) -> Self {
        let started = Starter::new(1, 9, 1_790_000_000_000).build();
        let server = Server::start(started.world, settings).await.unwrap();
        Self { server, token: started.token, root_password: started.root_password }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.server.hosts()[0].address).await.unwrap();
        let connector = connector(self.server.authority());
        connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap()
    }

    fn head(&self, line: &str, more: &str) -> String {
        format!("{line} HTTP/1.1\r\nHost: x\r\nAuthorization: PVEAPIToken={}\r\n{more}\r\n", self.token)
    }

    fn request(&self, line: &str, content_type: &str, body: &str) -> String {
        let more = format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len());
        self.head(line, &more) + body
    }

    /// Sends a request on a connection of its own and reads until the server closes it.
    async fn last(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        reply
    }
}

/// Reads one reply of a connection that stays open.
async fn reply(stream: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = Vec::new();
    loop {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "closed in the middle");
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            return text.into_owned();
        }
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

#[tokio::test]
async fn errors_are_said_in_the_reason_phrase_and_close_the_connection() {
    let wire = Wire::new().await;
    let reply = wire.last(&wire.head("GET /api2/json/nodes/pve1/qemu/100/config", "")).await;
    assert!(
        reply.starts_with(
            "HTTP/1.1 500 Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist\r\n"
        ),
        "{reply}"
    );
    assert!(reply.contains("\r\nconnection: close\r\n"), "{reply}");
    let unauthenticated = wire.last("GET /api2/json/nodes HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(unauthenticated.starts_with("HTTP/1.1 401 No ticket\r\n"), "{unauthenticated}");
    assert!(unauthenticated.ends_with("\r\n\r\n"), "a 401 has no body: {unauthenticated}");
}

#[tokio::test]
async fn calls_are_written_down_without_what_was_sent() {
    let file = std::env::temp_dir().join(format!("talmox-call-log-{}", std::process::id()));
    let log = Some(CallLog::create(&file).unwrap());
    let wire = Wire::set(Settings { latency: Duration::ZERO, log, ..Settings::default() }).await;
    wire.last(&wire.head("GET /api2/json/nodes/pve1/qemu/100/config?current=1", "")).await;
    let body = format!("username=root@pam&password={}", wire.root_password);
    wire.last(&wire.request("POST /api2/json/colours", FORM, &body)).await;
    #[expect(clippy::disallowed_methods, reason = "the log this test asked for")]
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let calls: Vec<LoggedCall> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        calls.iter().map(|call| (call.method.as_str(), call.endpoint.as_deref(), call.status)).collect();
    let config = Some("/nodes/{node}/qemu/{vmid}/config");
    assert_eq!(told, [("GET", config, Some(500)), ("POST", None, Some(501))]);
    assert_eq!(calls[0].path, "/api2/json/nodes/pve1/qemu/100/config");
    assert!(!text.contains(&wire.root_password) && !text.contains(&wire.token), "{text}");
}

#[tokio::test]
async fn a_connection_is_good_for_a_hundred_requests() {
    let wire = Wire::new().await;
    let mut stream = wire.connect().await;
    for number in 1..=100 {
        stream.write_all(wire.head("GET /api2/json/version", "").as_bytes()).await.unwrap();
        let reply = reply(&mut stream).await;
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        assert_eq!(reply.contains("connection: close"), number == 100, "{number}");
    }
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn bodies_are_bounded_and_of_known_length() {
    let wire = Wire::new().await;
    let large = format!("poolid=p&comment={}", "x".repeat(600_000));
    let reply = wire.last(&wire.request("POST /api2/json/pools", FORM, &large)).await;
    assert!(reply.starts_with("HTTP/1.1 501 for data too large\r\n"), "{reply}");
    assert!(reply.ends_with("\r\n\r\nfor data too large"), "{reply}");
    let chunked = wire.head("POST /api2/json/pools", "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n";
    let reply = wire.last(&chunked).await;
    assert!(reply.starts_with("HTTP/1.1 501 "), "{reply}");
    let reply = wire.last(&wire.request("GET /api2/json/pools", FORM, "a=1")).await;
    assert!(reply.starts_with("HTTP/1.1 501 Unexpected content for method 'GET'\r\n"), "{reply}");
}

#[tokio::test]
async fn forms_and_json_say_the_same() {
    let wire = Wire::new().await;
    let mut stream = wire.connect().await;
    for (kind, body) in [(FORM, "poolid=form"), ("application/json", r#"{"poolid":"json"}"#)] {
        stream.write_all(wire.request("POST /api2/json/pools", kind, body).as_bytes()).await.unwrap();
        assert!(reply(&mut stream).await.ends_with(r#"{"data":null}"#));
    }
    let pools: Vec<String> = wire.server.with(|simulation| simulation.world.pools.keys().cloned().collect());
    assert_eq!(pools, ["form", "json"]);
}

#[tokio::test]
async fn uploads_have_an_order() {
    let wire = Wire::new().await;
    let field = "--B\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n";
    let file =
        "--B\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"x.iso\"\r\n\r\nbytes\r\n";
    let line = "POST /api2/json/nodes/pve1/storage/local/upload";
    let kind = "multipart/form-data; boundary=B";
    let mut stream = wire.connect().await;
    stream.write_all(wire.request(line, kind, &format!("{field}{file}--B--\r\n")).as_bytes()).await.unwrap();
    let good = reply(&mut stream).await;
    assert!(good.contains(":imgcopy:"), "{good}");
    let late = wire.last(&wire.request(line, kind, &format!("{file}{field}--B--\r\n"))).await;
    assert!(
        late.starts_with("HTTP/1.1 400 Parameter verification failed.\r\n"),
        "the field was not seen: {late}"
    );
    let strange = wire.last(&wire.request(line, kind, "--C\r\n\r\n--C--\r\n")).await;
    assert!(strange.starts_with("HTTP/1.1 500 "), "{strange}");
    let nobodys = wire.request(line, kind, "--C\r\n\r\n--C--\r\n").replace("Authorization", "X");
    let nobodys = wire.last(&nobodys).await;
    assert!(nobodys.starts_with("HTTP/1.1 401 No ticket\r\n"), "{nobodys}");
}

#[tokio::test]
async fn a_ticket_comes_by_cookie_and_needs_its_csrf_token_to_write() {
    let wire = Wire::new().await;
    let body = format!("username=root%40pam&password={}", wire.root_password);
    let mut stream = wire.connect().await;
    let login = format!(
        "POST /api2/json/access/ticket HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(login.as_bytes()).await.unwrap();
    let answer = reply(&mut stream).await;
    let value: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let ticket = talmox_sim::percent_encode(value["data"]["ticket"].as_str().unwrap());
    let csrf = value["data"]["CSRFPreventionToken"].as_str().unwrap();
    let write = |more: &str| {
        format!(
            "POST /api2/json/pools HTTP/1.1\r\nHost: x\r\nCookie: a=b; PVEAuthCookie={ticket}\r\n{more}Content-Length: 8\r\n\r\npoolid=p"
        )
    };
    let refused = wire.last(&write("")).await;
    assert!(refused.starts_with("HTTP/1.1 401 Permission denied - invalid csrf token\r\n"), "{refused}");
    stream.write_all(write(&format!("CSRFPreventionToken: {csrf}\r\n")).as_bytes()).await.unwrap();
    assert!(reply(&mut stream).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn replies_take_their_time() {
    let wire = Wire::with(Duration::from_millis(40), 20.0).await;
    let mut stream = wire.connect().await;
    let start = Instant::now();
    stream.write_all(wire.head("GET /api2/json/version", "").as_bytes()).await.unwrap();
    reply(&mut stream).await;
    assert!(start.elapsed() >= Duration::from_millis(20), "half the median is the least");
    let start = Instant::now();
    wire.last("GET /api2/json/nodes HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(start.elapsed() >= Duration::from_millis(150), "three seconds, twenty times as fast");
}

#[tokio::test]
async fn plain_http_is_sent_to_https() {
    let wire = Wire::new().await;
    let address = wire.server.hosts()[0].address;
    for (method, status) in [("GET", "301 Moved Permanently"), ("POST", "308 Permanent Redirect")] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request =
            format!("{method} /api2/json/version HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{reply}");
        assert!(reply.contains(&format!("location: https://{address}/api2/json/version\r\n")), "{reply}");
    }
}

#[tokio::test]
async fn a_stop_lets_what_is_under_way_finish() {
    let wire = Wire::new().await;
    let mut stream = wire.connect().await;
    stream.write_all(wire.head("GET /api2/json/version", "").as_bytes()).await.unwrap();
    assert!(reply(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
    let address = wire.server.hosts()[0].address;
    wire.server.stop().await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "an idle connection is closed");
    assert!(TcpStream::connect(address).await.is_err());
}

/// Whether the server closes a connection on which nothing more is sent. Time flies meanwhile.
async fn is_closed(mut stream: TlsStream<TcpStream>) -> bool {
    tokio::time::pause();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_mins(1), stream.read_to_end(&mut rest)).await.is_ok();
    tokio::time::resume();
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    closed
}

#[tokio::test]
async fn half_a_request_is_not_waited_for() {
    let wire = Wire::new().await;
    let whole = wire.head("GET /api2/json/version", "");
    let mut stream = wire.connect().await;
    stream.write_all(whole.as_bytes()).await.unwrap();
    reply(&mut stream).await;
    stream.write_all(&whole.as_bytes()[..30]).await.unwrap();
    assert!(is_closed(stream).await, "half a head");
    let mut stream = wire.connect().await;
    stream.write_all(&whole.as_bytes()[..30]).await.unwrap();
    assert!(is_closed(stream).await, "half a head, the first");
    for (line, kind) in [
        ("POST /api2/json/pools", FORM),
        ("POST /api2/json/nodes/pve1/storage/local/upload", "multipart/form-data; boundary=B"),
    ] {
        let more = format!("Content-Type: {kind}\r\nContent-Length: 9\r\nExpect: 100-continue\r\n");
        let mut stream = wire.connect().await;
        stream.write_all(wire.head(line, &more).as_bytes()).await.unwrap();
        // The server says so when it begins to read the body.
        let mut bytes = [0; 25];
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"poolid").await.unwrap();
        assert!(is_closed(stream).await, "half a body: {line}");
    }
    wire.server.quiet().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_not_answered() {
    let wire = Wire::new().await;
    let long = |length: usize| wire.head("GET /api2/json/version", &format!("X: {}\r\n", "x".repeat(length)));
    let many = |lines: usize| wire.head("GET /api2/json/version", &"X: x\r\n".repeat(lines));
    // Two lines are there already, and an empty one at the end.
    for good in [long(7_900), many(60)] {
        let mut stream = wire.connect().await;
        stream.write_all(good.as_bytes()).await.unwrap();
        assert!(reply(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
    for bad in [long(8_192), many(61)] {
        let mut stream = wire.connect().await;
        stream.write_all(bad.as_bytes()).await.unwrap();
        assert!(is_closed(stream).await);
    }
}

#[tokio::test]
async fn long_replies_are_compressed_for_those_who_take_them_so() {
    let wire = Wire::new().await;
    let ask = |path: &str, accepted: &str| {
        let line = format!("GET /api2/json{path}");
        wire.head(&line, &format!("Accept-Encoding: {accepted}\r\nConnection: close\r\n"))
    };
    let raw = async |request: String| {
        let mut stream = wire.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        (String::from_utf8_lossy(&bytes[..end]).into_owned(), bytes.split_off(end))
    };
    let (head, plain) = raw(ask("/access/roles", "identity")).await;
    assert!(!head.contains("content-encoding") && plain.len() > 1024, "{head}");
    assert!(head.contains("\r\nserver: pve-api-daemon/3.0\r\n"), "{head}");
    let (head, packed) = raw(ask("/access/roles", "gzip, deflate, br")).await;
    assert!(head.contains("\r\ncontent-encoding: gzip\r\n"), "{head}");
    assert!(packed.len() < plain.len());
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
    let (head, _) = raw(ask("/version", "gzip")).await;
    assert!(!head.contains("content-encoding"), "a short one is not: {head}");
}
