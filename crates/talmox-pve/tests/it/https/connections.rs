//! Connections: their reuse, their end, and what that means for a request.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use talmox_pve::client::{
    Endpoint, Error, ErrorKind, FileContent, ImageKind, Outcome, Params, Silent, Trust, Upload,
};
use talmox_types::{HostName, StorageId};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Notify, oneshot};

use crate::https::server::{Act, Server, ok, reply};
use crate::https::{client, told};

const VERSION: &str = r#"{"version":"9.2.11","release":"9.2"}"#;

fn always(_: usize) -> Act {
    Act::Reply(ok(VERSION))
}

/// A clock that moves only when it is told, while sockets take as long as the machine needs.
pub(crate) struct StillClock(
    #[expect(dead_code, reason = "a thread waits for its end")] std::sync::mpsc::Sender<()>,
);

impl StillClock {
    pub(crate) fn new() -> Self {
        let (here, waits) = std::sync::mpsc::channel();
        // A clock that is paused jumps to the next timer when there is nothing to do, but not while a thread is at work.
        tokio::task::spawn_blocking(move || waits.recv());
        tokio::time::pause();
        Self(here)
    }

    /// As if the connection had lain idle.
    pub(crate) async fn idle_for(&self, time: Duration) {
        tokio::time::advance(time).await;
    }
}

async fn create_pool(client: &talmox_pve::client::Client) -> Result<Value, Error> {
    client.post("/pools", Params::new().with("poolid", "p")).await
}

#[tokio::test]
async fn the_reason_phrase_is_read() {
    let server = Server::start(|number| {
        Act::Reply(match number {
            0 => reply("500 VM is locked (clone)", "{\"data\":null}"),
            1 => reply("401 Authentication failed!", ""),
            2 => reply("595 No route to host", ""),
            _ => reply("501 Not Implemented", ""),
        })
    })
    .await;
    let client = client(server.endpoint.clone(), server.trust());
    let mut words = Vec::new();
    for _ in 0..4 {
        let error = client.version().await.unwrap_err();
        words.push(format!("{} {}", error.status().unwrap(), error.words()));
    }
    assert_eq!(
        words,
        [
            "500 VM is locked (clone)",
            "401 Authentication failed!",
            "595 No route to host (status 595)",
            "501 Not Implemented"
        ]
    );
    assert_eq!(server.connections(), 4, "a connection is not used again after an error");
}

#[tokio::test]
async fn requests_look_as_proxmox_wants_them() {
    let server = Server::start(|_| Act::Reply(ok("null"))).await;
    let client = client(server.endpoint.clone(), server.trust());
    create_pool(&client).await.unwrap();
    client.get::<Value>("/pools", Params::new().with("poolid", "a/b")).await.unwrap();
    let requests = server.requests();
    let written =
        requests.join("\n---\n").replace('\r', "").replace(&server.endpoint.port().to_string(), "PORT");
    insta::assert_snapshot!(written, @"
    POST /api2/json/pools HTTP/1.1
    host: 127.0.0.1:PORT
    authorization: PVEAPIToken=talmox@pve!ci=s3cret
    content-type: application/x-www-form-urlencoded
    content-length: 8

    poolid=p
    ---
    GET /api2/json/pools?poolid=a%2Fb HTTP/1.1
    host: 127.0.0.1:PORT
    authorization: PVEAPIToken=talmox@pve!ci=s3cret
    ");
}

#[tokio::test]
async fn a_connection_is_used_again_but_not_after_four_idle_seconds() {
    let server = Server::start(always).await;
    let (client, clock) = (client(server.endpoint.clone(), server.trust()), StillClock::new());
    client.version().await.unwrap();
    clock.idle_for(Duration::from_secs(3)).await;
    client.version().await.unwrap();
    assert_eq!(server.connections(), 1);
    clock.idle_for(Duration::from_millis(4001)).await;
    client.version().await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_connection_carries_a_hundred_requests() {
    let server = Server::start(always).await;
    let (client, _clock) = (client(server.endpoint.clone(), server.trust()), StillClock::new());
    for _ in 0..100 {
        client.version().await.unwrap();
    }
    assert_eq!(server.connections(), 1);
    client.version().await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_costs_nothing() {
    // The server has a thread of its own, so that this one can be blocked while the connection is closed: nobody looks
    // at the socket until the next request.
    let (says, hears) = std::sync::mpsc::channel();
    let close = Arc::new(Notify::new());
    let (end, ended) = oneshot::channel::<()>();
    let told = Arc::clone(&close);
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let mut server = Server::start(move |number| match number {
                0 => Act::ReplyAndCloseLater(ok(VERSION), Arc::clone(&told)),
                _ => Act::Reply(ok("null")),
            })
            .await;
            says.send(Some((server.endpoint.clone(), server.trust()))).unwrap();
            server.connection_closed().await;
            says.send(None).unwrap();
            let _ = ended.await;
            (server.connections(), server.requests().len())
        })
    });
    let (endpoint, trust) = hears.recv().unwrap().unwrap();
    let client = client(endpoint, trust);
    client.version().await.unwrap();
    close.notify_one();
    hears.recv().unwrap();
    // A change, asked once: it gets through because the dead connection is noticed before anything is written.
    create_pool(&client).await.unwrap();
    end.send(()).unwrap();
    assert_eq!(thread.join().unwrap(), (2, 2));
}

#[tokio::test]
async fn a_connection_closed_after_the_request_leaves_it_open_what_happened() {
    let server = Server::start(|number| match number {
        0 => Act::Reply(ok(VERSION)),
        _ => Act::Close,
    })
    .await;
    let client = client(server.endpoint.clone(), server.trust());
    client.version().await.unwrap();
    let error = create_pool(&client).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Lost));
    assert_eq!(server.requests().len(), 2, "it must not be sent a second time");
    insta::assert_snapshot!(told(&error), @"
    error: POST /pools on https://127.0.0.1:PORT: the connection was closed before a reply came (it was sent and may have happened)
    hint: the tasks of the host (`pvenode task list`) tell whether it still works on it
    hint: look at what is there before asking again: the request was sent
    ");
}

#[tokio::test]
async fn a_reply_that_is_cut_off() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\":";
    let server = Server::start(|_| Act::ReplyAndClose(cut.to_owned())).await;
    let client = client(server.endpoint.clone(), server.trust());
    let error = create_pool(&client).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Lost));
    insta::assert_snapshot!(told(&error), @"
    error: POST /pools on https://127.0.0.1:PORT: the reply was cut off (it was sent and may have happened)
    hint: the tasks of the host (`pvenode task list`) tell whether it still works on it
    hint: look at what is there before asking again: the request was sent
    ");
}

#[tokio::test]
async fn a_host_that_does_not_listen() {
    // Nobody listens on a port that is only taken, and nobody else gets it meanwhile.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let endpoint = Endpoint::new("127.0.0.1", taken.local_addr().unwrap().port()).unwrap();
    let error = client(endpoint, Trust::Insecure).version().await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::NeverSent, &ErrorKind::Unreachable));
    insta::assert_snapshot!(told(&error), @"
    error: no connection to https://127.0.0.1:PORT: Connection refused
    hint: is 127.0.0.1 up, and does a firewall let port PORT through?
    ");
}

#[tokio::test]
async fn a_host_that_speaks_no_tls() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let endpoint = Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port()).unwrap();
    let mut plain = tokio::task::JoinSet::new();
    plain.spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream.flush().await.unwrap();
        std::future::pending::<()>().await;
    });
    let error = client(endpoint, Trust::Insecure).version().await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::NeverSent, &ErrorKind::Unreachable));
    assert!(error.words().starts_with("TLS: "), "{error}");
}

#[tokio::test]
async fn a_call_that_is_given_up_takes_its_connection_with_it() {
    let mut server = Server::start(|_| Act::Silence).await;
    let client = client(server.endpoint.clone(), server.trust());
    {
        let call = client.version();
        let mut call = std::pin::pin!(call);
        // Polled until the server has the request, then dropped.
        loop {
            tokio::select! {
                biased;
                _ = &mut call => panic!("the server said something"),
                () = tokio::task::yield_now() => {}
            }
            if !server.requests().is_empty() {
                break;
            }
        }
    }
    server.connection_closed().await;
}

#[tokio::test]
async fn a_file_is_sent_from_disk() {
    let server = Server::start(|_| {
        Act::Reply(ok(r#""UPID:pve1:00000927:00033DAE:6AF96CDD:imgcopy::talmox@pve!ci:""#))
    })
    .await;
    let client = client(server.endpoint.clone(), server.trust());
    let content = "0123456789abcdef".repeat(20_000);
    let path = std::env::temp_dir().join(format!("talmox-upload-{}.iso", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(content.as_bytes()).unwrap();
    let mut upload = Upload {
        kind: ImageKind::Iso,
        filename: "talos.iso".to_owned(),
        content: FileContent::File { path: path.clone(), length: content.len() as u64 },
        checksum: None,
        timeout: Duration::from_mins(1),
    };
    let (node, storage) = (HostName::parse("pve1").unwrap(), StorageId::parse("local").unwrap());
    client.upload(&node, &storage, &upload, &Silent).await.unwrap();
    assert!(server.requests()[0].contains(&content), "the file did not arrive whole");

    upload.content = FileContent::File { path: path.clone(), length: 5 };
    let error = client.upload(&node, &storage, &upload, &Silent).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NeverSent);
    assert!(error.words().contains("expected 5"), "{error}");
    std::fs::remove_file(&path).unwrap();
}
