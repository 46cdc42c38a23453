//! A server that does what it is told with every request, and counts connections.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use talmox_pve::client::{Endpoint, Trust};
use talmox_types::Fingerprint;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What to do with a request.
pub(crate) enum Act {
    /// Answer and keep the connection.
    Reply(String),
    /// Answer and close.
    ReplyAndClose(String),
    /// Answer, and close without having said so when told, as an idle connection is closed.
    ReplyAndCloseLater(String, Arc<Notify>),
    /// Close without an answer.
    Close,
    /// Read the request and stay silent.
    Silence,
    /// Begin to answer and go on with this until the client goes away, counting what was sent.
    Endless { head: String, piece: Vec<u8>, sent: Arc<AtomicU64> },
    /// Begin to answer and go on with a byte each time so long has passed.
    Drip { head: String, each: Duration },
}

/// A success with this data.
pub(crate) fn ok(json: &str) -> String {
    reply("200 OK", &format!("{{\"data\":{json}}}"))
}

pub(crate) fn reply(status_line: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status_line}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) fingerprint: Fingerprint,
    /// The authority that signed the certificate.
    pub(crate) authority: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    /// Says when a connection has been closed by either side.
    closed: mpsc::UnboundedReceiver<()>,
    /// Owns everything that runs; dropping the server ends it.
    _tasks: JoinSet<()>,
}

type Script = dyn Fn(usize) -> Act + Send + Sync;

impl Server {
    /// Starts a server. The script is asked with the number of each request, from 0.
    pub(crate) async fn start(script: impl Fn(usize) -> Act + Send + Sync + 'static) -> Self {
        Self::start_named("127.0.0.1", script).await
    }

    /// Starts a server whose certificate is for this name.
    pub(crate) async fn start_named(
        name: &str,
        script: impl Fn(usize) -> Act + Send + Sync + 'static,
    ) -> Self {
        let certificate = certificate(name);
        let config = Arc::clone(&certificate.0);
        Self::start_with(certificate, config, script).await
    }

    /// Starts a server that shows another certificate from its second connection on.
    pub(crate) async fn start_swapping(script: impl Fn(usize) -> Act + Send + Sync + 'static) -> Self {
        let (first, (second, ..)) = (certificate("127.0.0.1"), certificate("127.0.0.1"));
        Self::start_with(first, second, script).await
    }

    async fn start_with(
        (config, fingerprint, authority): (Arc<ServerConfig>, Fingerprint, String),
        later: Arc<ServerConfig>,
        script: impl Fn(usize) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let endpoint = Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port()).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (closing, closed) = mpsc::unbounded_channel();
        let (counter, log, script): (_, _, Arc<Script>) =
            (Arc::clone(&connections), Arc::clone(&requests), Arc::new(script));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut handlers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let acceptor = TlsAcceptor::from(Arc::clone(if number == 0 { &config } else { &later }));
                let (log, script, closing) = (Arc::clone(&log), Arc::clone(&script), closing.clone());
                handlers.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, &log, &*script).await;
                    }
                    let _ = closing.send(());
                });
            }
        });
        Self { endpoint, fingerprint, authority, connections, requests, closed, _tasks: tasks }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The requests, head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until a connection is closed.
    pub(crate) async fn connection_closed(&mut self) {
        self.closed.recv().await.unwrap();
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::Fingerprints(vec![self.fingerprint])
    }
}

async fn serve(mut stream: TlsStream<TcpStream>, log: &Mutex<Vec<String>>, script: &Script) {
    while let Some(request) = read_request(&mut stream).await {
        let number = {
            let mut log = log.lock().unwrap();
            log.push(request);
            log.len() - 1
        };
        let (answer, close, later) = match script(number) {
            Act::Reply(answer) => (answer, false, None),
            Act::ReplyAndClose(answer) => (answer, true, None),
            Act::ReplyAndCloseLater(answer, told) => (answer, true, Some(told)),
            Act::Close => (String::new(), true, None),
            Act::Silence => {
                // Until the client goes away.
                let _ = stream.read(&mut [0]).await;
                return;
            }
            Act::Endless { head, piece, sent } => {
                let mut going = stream.write_all(head.as_bytes()).await;
                while going.is_ok() {
                    sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
                    going = stream.write_all(&piece).await;
                }
                return;
            }
            Act::Drip { head, each } => {
                let mut going = stream.write_all(head.as_bytes()).await;
                while going.is_ok() {
                    let _ = stream.flush().await;
                    tokio::time::sleep(each).await;
                    going = stream.write_all(b" ").await;
                }
                return;
            }
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        if let Some(told) = later {
            told.notified().await;
        }
        if close {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

/// Reads a head and as much body as it announces; none when the client is gone.
async fn read_request(stream: &mut TlsStream<TcpStream>) -> Option<String> {
    let mut bytes = Vec::new();
    let mut expected = None;
    loop {
        if expected.is_some_and(|expected| bytes.len() >= expected) {
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        let read = stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
        debug_assert!(read > 0);
        if expected.is_none()
            && let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            expected = Some(end + 4 + length.unwrap_or(0));
        }
    }
}

/// A certificate for a name by an authority of its own: configuration, fingerprint, the authority as PEM.
fn certificate(name: &str) -> (Arc<ServerConfig>, Fingerprint, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(parameters, authority_key);
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let der = CertificateDer::from(certificate.der().to_vec());
    let fingerprint = fingerprint_of(&der);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    (Arc::new(config), fingerprint, authority.pem())
}

fn fingerprint_of(certificate: &CertificateDer<'_>) -> Fingerprint {
    use sha2::Digest as _;
    Fingerprint::from(<[u8; 32]>::from(sha2::Sha256::digest(certificate)))
}
