//! A server that means harm, on a real socket: endless, slow, nested, mistyped, redirecting, with words that act on a
//! terminal, and with another certificate in the middle of a run. No call panics, each ends within its limits, and no
//! error says anything a terminal would obey.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use talmox_pve::client::{
    Client, Error, ErrorKind, HttpsTransport, Outcome, RetryPolicy, Settings, Silent, TaskError, TaskQuery,
    Upid,
};
use talmox_types::{HostName, VmId};

use crate::https::connections::StillClock;
use crate::https::server::{Act, Server, ok, reply};
use crate::https::{client, told};
use crate::support::{Dice, WORDS, assert_harmless, mistype};

const VERSION: &str = r#"{"version":"9.2.11","release":"9.2"}"#;
const UPID: &str = "UPID:pve1:00000927:00033DAE:6AF96CDD:qmstart:100:talmox@pve!ci:";
/// What the client takes of one reply.
const BOUND: u64 = 32 << 20;
/// What may be on its way in sockets and buffers beside it.
const ON_THE_WAY: u64 = 16 << 20;

fn host() -> HostName {
    HostName::parse("pve1").unwrap()
}

fn vmid() -> VmId {
    VmId::try_from(100).unwrap()
}

async fn answered(answer: String) -> Error {
    let server = Server::start(move |_| Act::Reply(answer.clone())).await;
    client(server.endpoint.clone(), server.trust()).version().await.unwrap_err()
}

fn everything(error: &Error) -> String {
    format!(
        "{}\n  {error:?}\n  {}\n  {:?}",
        told(error).replace("\nhint", "\n  hint"),
        error.words(),
        error.kind()
    )
}

#[tokio::test]
async fn words_of_a_server_act_on_no_terminal() {
    for words in WORDS {
        let body = json!({ "data": null, "message": words, "errors": { (words): words } }).to_string();
        for status in ["400 Parameter verification failed.", "401 no", "403 no", "500 no", "596 no"] {
            let error = answered(reply(status, &body)).await;
            assert_harmless(&everything(&error));
        }
        // A reason phrase may hold a byte above 127 and none that ends a line.
        let phrase: String = words.chars().filter(|c| !c.is_ascii_control()).collect();
        assert_harmless(&everything(&answered(reply(&format!("500 {phrase}"), "")).await));
        // Text where a number belongs is quoted by the error.
        let error = answered(ok(&json!({ "version": words, "release": "9.2" }).to_string())).await;
        assert_eq!(error.kind(), &ErrorKind::Unreadable);
        assert_harmless(&everything(&error));
    }
}

#[tokio::test]
async fn words_of_a_task_act_on_no_terminal() {
    for words in WORDS {
        let server = Server::start(move |number| {
            Act::Reply(match number {
                0 => ok(&json!({ "status": "stopped", "exitstatus": words }).to_string()),
                _ => ok(&json!([{ "n": 1, "t": words }]).to_string()),
            })
        })
        .await;
        let client = client(server.endpoint.clone(), server.trust());
        let upid = Upid::parse(UPID).unwrap();
        let limit = Duration::from_mins(1);
        let error = client.follow(&upid, "start", limit, &Silent).await.unwrap_err();
        let TaskError::Failed { words, log, kind, .. } = &error else { panic!("{error}") };
        for text in [&format!("{error} {words} {log:?} {kind:?}"), &log.concat(), &error.hints().concat()] {
            assert_harmless(text);
        }
    }
}

#[tokio::test]
async fn a_reply_without_end_is_given_up_at_a_bound() {
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000)).into_bytes();
    let long = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n{\"data\":\"";
    let chunked = "HTTP/1.1 500 no\r\nTransfer-Encoding: chunked\r\n\r\n";
    let header =
        b"x-more: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"
            .to_vec();
    for (head, piece, expected, bound) in [
        (long, vec![b'x'; 0x1_0000], "the reply is larger than 32 MiB", BOUND),
        (chunked, chunk, "the reply is larger than 32 MiB", BOUND),
        ("HTTP/1.1 200 OK\r\n", header, "", 1 << 20),
    ] {
        let sent = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&sent);
        let server = Server::start(move |_| Act::Endless {
            head: head.to_owned(),
            piece: piece.clone(),
            sent: Arc::clone(&counter),
        })
        .await;
        let error = client(server.endpoint.clone(), server.trust()).version().await.unwrap_err();
        assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Lost), "{error}");
        assert!(error.words().contains(expected), "{error}");
        let sent = sent.load(Ordering::SeqCst);
        assert!(sent <= bound + ON_THE_WAY, "{} KiB were taken of {head:?}", sent >> 10);
    }
}

#[tokio::test]
async fn a_reply_that_drips_ends_with_the_call() {
    for head in ["HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", "HTTP/1.1 200 OK\r\nx-slow: "] {
        let each = Duration::from_secs(1);
        let server = Server::start(move |_| Act::Drip { head: head.to_owned(), each }).await;
        let client = client(server.endpoint.clone(), server.trust());
        let clock = StillClock::new();
        let call = client.version();
        let mut call = std::pin::pin!(call);
        let mut passed = Duration::ZERO;
        let error = loop {
            tokio::select! {
                biased;
                answer = &mut call => break answer.unwrap_err(),
                () = tokio::task::yield_now() => {}
            }
            // The clock stands until the request is there: making a connection takes the machine's time.
            if !server.requests().is_empty() {
                clock.idle_for(each).await;
                passed += each;
            }
        };
        assert_eq!(error.kind(), &ErrorKind::Timeout, "{error}");
        let limit = Settings::default().attempt_timeout;
        assert!((limit..limit + 3 * each).contains(&passed), "{passed:?}");
        drop(clock);
        tokio::time::resume();
    }
}

#[tokio::test]
async fn what_is_nested_without_reason_is_refused() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [127, 128, 10_000, 200_000] {
            let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let error = answered(ok(&deep)).await;
            assert_eq!(error.kind(), &ErrorKind::Unreadable);
            let error = answered(reply("500 no", &format!("{{\"errors\":{deep}}}"))).await;
            assert_eq!(error.words(), "no");
        }
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let elsewhere = Server::start(|_| Act::Reply(ok(VERSION))).await;
    let target = elsewhere.endpoint.clone();
    for status in [301, 302, 303, 307, 308] {
        let moved = format!(
            "HTTP/1.1 {status} Moved\r\nLocation: {target}/api2/json/version\r\nContent-Length: 0\r\n\r\n"
        );
        let error = answered(moved).await;
        assert_eq!((error.status(), error.words()), (Some(status), "Moved"));
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn another_certificate_in_the_middle_of_a_run_gets_nothing() {
    let server = Server::start_swapping(|_| Act::ReplyAndClose(ok(VERSION))).await;
    for trust in [server.trust(), talmox_pve::client::Trust::Authorities(server.authority.clone())] {
        let connections = server.connections();
        let client = client(server.endpoint.clone(), trust);
        if connections == 0 {
            client.version().await.unwrap();
        }
        let error = client.version().await.unwrap_err();
        let ErrorKind::Certificate(certificate) = error.kind() else { panic!("{error:?}") };
        assert_ne!(certificate.fingerprint, server.fingerprint);
        assert_eq!(error.outcome(), Outcome::NeverSent);
    }
    assert_eq!(server.requests().len(), 1, "a token went to whoever took the host's place");
}

/// Secrets of the session, as a careless proxy says them back.
#[tokio::test]
async fn a_secret_that_is_said_back_is_masked() {
    let secret = "s3cret-d8b5b5f0-7d6c";
    let whole = format!("PVEAPIToken=talmox@pve!ci={secret}");
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &whole);
    let url = talmox_pve::client::percent_encode(&whole);
    for echo in [whole.clone(), encoded.clone(), url, format!("a {whole} b {encoded}")] {
        let page =
            json!({ "message": format!("your request was {echo}"), "errors": { "x": (echo) } }).to_string();
        let mistyped = json!({ "version": echo, "release": "9.2" }).to_string();
        for answer in
            [reply("400 no", &page), reply(&format!("401 {echo}"), ""), ok(&mistyped), reply("403 no", &page)]
        {
            let server = Server::start(move |_| Act::Reply(answer.clone())).await;
            let credentials =
                talmox_pve::client::Credentials::token(&secrecy::SecretString::from(whole.clone())).unwrap();
            let transport = Arc::new(HttpsTransport::new(server.trust()).unwrap());
            let settings = Settings { retry: RetryPolicy::ONCE, ..Settings::default() };
            let client =
                Client::new(vec![server.endpoint.clone()], &credentials, transport, settings).unwrap();
            let error = client.version().await.unwrap_err();
            let text = everything(&error);
            assert!(text.contains("(masked)"), "{text}");
            assert!(!text.contains("s3cret") && !text.contains(&encoded[encoded.len() - 12..]), "{text}");
        }
    }
}

/// What a host answers to the calls of a plan, by the order they are made in below.
fn replies() -> Vec<Value> {
    vec![
        json!({ "version": "9.2.11", "release": "9.2", "repoid": "abc" }),
        json!([{ "node": "pve1", "status": "online", "maxmem": 1 << 30, "maxcpu": 8, "cpu": 0.1, "mem": 5, "uptime": 5,
            "ssl_fingerprint": "AB:".repeat(31) + "AB" }]),
        json!([
            { "type": "qemu", "id": "qemu/100", "vmid": 100, "node": "pve1", "name": "cp-1", "status": "running",
                "template": 0, "tags": "a;b", "pool": "p", "maxmem": 1 << 30, "maxcpu": 4, "lock": "clone" },
            { "type": "node", "id": "node/pve1", "node": "pve1", "status": "online", "maxcpu": 8, "maxmem": 1 << 30 },
            { "type": "storage", "id": "storage/pve1/local", "node": "pve1", "storage": "local", "status": "available",
                "content": "iso,images", "disk": 5, "maxdisk": 10, "shared": 0, "plugintype": "dir" },
            { "type": "pool", "id": "/pool/p", "pool": "p" },
        ]),
        json!({ "/": { "Sys.Audit": 1 }, "/vms": { "VM.Audit": 1, "VM.Allocate": 0 } }),
        json!([{ "poolid": "p", "comment": "x" }]),
        json!([{ "storage": "local", "type": "dir", "content": "iso,images", "enabled": 1, "active": 1, "shared": 0,
            "total": 10, "used": 5, "avail": 5 }]),
        json!([{ "iface": "vmbr0", "type": "bridge", "active": 1, "bridge_vlan_aware": 1, "cidr": "10.0.0.1/24" }]),
        json!({ "name": "cp-1", "cores": 4, "memory": "8192", "scsi0": "local:vm-100-disk-0,size=10G", "digest": "abc",
            "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=7", "agent": "1", "smbios1": "uuid=x", "tags": "a" }),
        json!([{ "key": "memory", "value": "8192", "pending": "4096" }, { "key": "cores", "value": 4, "delete": 1 }]),
        json!({ "status": "running", "vmid": 100, "name": "cp-1", "uptime": 5, "lock": "x", "qmpstatus": "running" }),
        json!([{ "type": "cluster", "name": "c", "quorate": 1, "nodes": 1, "id": "cluster", "version": 1 },
            { "type": "node", "name": "pve1", "id": "node/pve1", "nodeid": 1, "online": 1, "local": 1, "ip": "10.0.0.1" }]),
        json!({ "tag-style": {}, "next-id": { "lower": 100, "upper": 200 }, "registered-tags": "a" }),
        json!([{ "upid": UPID, "type": "qmstart", "id": "100", "user": "root@pam", "endtime": 5, "status": "OK" }]),
        json!({ "time": 1_790_000_000, "localtime": 1_790_000_000, "timezone": "UTC" }),
        json!([{ "id": "gpu", "map": ["id=10de:20b0,node=pve1,path=0000:01:00.0"], "type": "pci",
            "checks": [{ "severity": "error", "message": "no" }] }]),
        json!([{ "vnet": "vmbr0", "zone": "z", "type": "vnet" }]),
    ]
}

fn shown<T: std::fmt::Debug>(value: T) -> String {
    format!("{value:?}")
}

/// The call whose reply has that place above; an error is told.
async fn ask(client: &Client, call: usize) -> Result<String, Error> {
    let (node, vmid) = (host(), vmid());
    match call {
        0 => client.version().await.map(shown),
        1 => client.nodes().await.map(shown),
        2 => client.resources().await.map(shown),
        3 => client.permissions(None).await.map(shown),
        4 => client.pools().await.map(shown),
        5 => client.storages(&node).await.map(shown),
        6 => client.bridges(&node).await.map(shown),
        7 => client.vm_config(&node, vmid).await.map(|config| {
            shown((
                config.disks().map(|disks| disks.len()).ok(),
                config.net_devices().is_ok(),
                config.number("memory").ok(),
            ))
        }),
        8 => client.pending(&node, vmid).await.map(shown),
        9 => client.vm_status(&node, vmid).await.map(shown),
        10 => client.cluster_status().await.map(shown),
        11 => client.cluster_options().await.map(shown),
        12 => client.tasks(&node, &TaskQuery::default()).await.map(shown),
        13 => client.node_time(&node).await.map(shown),
        14 => client.pci_mappings().await.map(shown),
        _ => client.virtual_networks().await.map(shown),
    }
}

#[tokio::test]
async fn a_reply_that_is_mistyped_is_read_or_refused() {
    let calls = replies().len();
    let runs = 60 * calls;
    let server = Server::start(move |number| {
        let mut dice = Dice(number as u64);
        let mut data = replies().swap_remove(number % calls);
        // The first of each is as it should be: what is tested must be readable at all.
        if number >= calls {
            mistype(&mut data, &mut dice);
        }
        Act::Reply(ok(&data.to_string()))
    })
    .await;
    let client = client(server.endpoint.clone(), server.trust());
    let (mut read, mut refused) = (0, 0);
    for number in 0..runs {
        match ask(&client, number % calls).await {
            Ok(_) => read += 1,
            Err(error) => {
                assert!(number >= calls, "{error}");
                assert_eq!(error.kind(), &ErrorKind::Unreadable, "{error}");
                assert_harmless(&everything(&error));
                refused += 1;
            }
        }
    }
    assert!(read > runs / 10 && refused > runs / 10, "{read} read, {refused} refused");
}

#[tokio::test]
async fn an_error_is_short_however_long_the_words_are() {
    let page = json!({ "message": "\u{1b}x".repeat(1 << 20) }).to_string();
    let error = answered(reply("500 no", &page)).await;
    assert!(error.words().len() < 20_000, "{}", error.words().len());
    let reasons: serde_json::Map<String, Value> =
        (0..100_000).map(|number| (format!("parameter{number}"), json!("no"))).collect();
    let error = answered(reply("400 no", &json!({ "message": "no", "errors": reasons }).to_string())).await;
    assert!(error.to_string().len() < 20_000, "{}", error.to_string().len());
}
