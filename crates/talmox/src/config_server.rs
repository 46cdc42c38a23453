//! The web server machines fetch their configuration from (`config_delivery: url`).
//!
//! It is there for as long as a run is, over HTTPS alone, and answers nobody who does not have a token. What it hands out is the
//! engine's business ([`Handout`]).

mod certificate;
mod guests;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use secrecy::ExposeSecret as _;
use talmox_exec::{Answer, Handout};
use talmox_types::Url;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::args::ConfigServing;
use crate::failure::Failure;
use crate::printer::Printer;
use certificate::Certificate;
use guests::{Asked, Guests, Limits};

/// Where https is unless a URL says otherwise.
const HTTPS: u16 = 443;

/// A server that is up.
pub(crate) struct ConfigServer {
    handout: Arc<Handout>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// What a server is made from.
struct Order<'a> {
    url: Url,
    certificate: &'a Path,
    key: &'a Path,
    listen: SocketAddr,
}

impl<'a> Order<'a> {
    fn of(args: &'a ConfigServing, simulated: bool) -> Result<Self, Failure> {
        let ConfigServing { config_url, config_cert, config_key, config_ca: _, config_listen } = args;
        let (Some(url), Some(certificate), Some(key)) = (config_url, config_cert, config_key) else {
            let missing = [
                ("--config-url", config_url.is_none()),
                ("--config-cert", config_cert.is_none()),
                ("--config-key", config_key.is_none()),
            ];
            let missing: Vec<&str> =
                missing.into_iter().filter(|(_, missing)| *missing).map(|(name, _)| name).collect();
            return Err(Failure::new(format!(
                "with config_delivery: url machines fetch their configuration from this run, which lacks {}",
                missing.join(", ")
            ))
            .with_hint("--config-url is https://HOST:PORT of this machine as they see it, with a certificate Talos trusts")
            .with_hint("config_delivery: maintenance or cidata need none of it"));
        };
        let url = Url::parse(url).map_err(|error| Failure::new(format!("--config-url: {error}")))?;
        let anywhere = if simulated { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let listen = config_listen.unwrap_or((anywhere, url.port().unwrap_or(HTTPS)).into());
        Ok(Self { url, certificate, key, listen })
    }
}

impl ConfigServer {
    /// Opens a server as a command was told to. `trusts` are the authorities, as PEM, that machines trust beside those of
    /// stock Talos; simulated ones trust no others.
    pub(crate) async fn open(
        args: &ConfigServing,
        trusts: Option<&str>,
        simulated: bool,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        let order = Order::of(args, simulated)?;
        let certificate = Certificate::read(order.certificate, order.key)?;
        if let Some(doubt) = certificate.judge(order.url.host(), trusts, simulated)? {
            printer.say(&doubt);
        }
        let listener = TcpListener::bind(order.listen)
            .await
            .with_context(|| format!("could not listen on {} for machines", order.listen))?;
        let base = base(&order.url, order.listen, listener.local_addr()?);
        let handout =
            Handout::new(&base, token).map_err(|error| Failure::new(format!("--config-url: {error}")))?;
        let (handout, stop) = (Arc::new(handout), CancellationToken::new());
        let acceptor = TlsAcceptor::from(Arc::new(certificate.server()?));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, acceptor, Arc::clone(&handout), Limits::default(), stop.clone()));
        printer.say(&format!("machines fetch their configuration from {}", handout.base()));
        Ok(Self { handout, stop, tasks })
    }

    pub(crate) fn handout(&self) -> &Handout {
        &self.handout
    }

    /// Lets go of everybody.
    pub(crate) async fn close(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// With `--config-listen HOST:0` whichever port was free, if the URL names none.
fn base(url: &Url, asked: SocketAddr, real: SocketAddr) -> String {
    if asked.port() == 0 && url.port().is_none() {
        return format!("https://{}:{}{}", url.authority(), real.port(), url.path());
    }
    url.to_string()
}

fn token() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    handout: Arc<Handout>,
    limits: Limits,
    stop: CancellationToken,
) {
    let mut guests = Guests::default();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Connections that have ended leave first: they need not make room.
            biased;
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next_with_id() => {
                guests.remove(ended.map_or_else(|error| error.id(), |(task, ())| task));
            }
            accepted = accept(&listener) => {
                let Some((stream, peer)) = accepted else { continue };
                guests.make_room(peer.ip(), &limits);
                let asked = Asked::default();
                let conversation = converse(stream, acceptor.clone(), Arc::clone(&handout), limits, asked.clone());
                let task = connections.spawn(async move {
                    // Whatever became of it, the machine knows, and asks again.
                    let _ = tokio::time::timeout(limits.whole, conversation).await;
                });
                guests.add(peer.ip(), asked, task);
            }
        }
    }
    connections.shutdown().await;
}

async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(_) => {
            // Too many files are open, or the caller is gone already: not a reason to turn as fast as one can.
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

async fn converse(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    handout: Arc<Handout>,
    limits: Limits,
    asked: Asked,
) -> std::io::Result<()> {
    let stream = tokio::time::timeout(limits.opening, acceptor.accept(stream)).await??;
    let service = service_fn(move |request: Request<Incoming>| {
        asked.set();
        let response = respond(&handout, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = http1::Builder::new();
    // One answer for each connection: a machine fetches one file, and a connection that stays would take the room of another.
    builder.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(limits.opening);
    builder.serve_connection(TokioIo::new(stream), service).await.map_err(std::io::Error::other)
}

fn respond(handout: &Handout, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, body) = match handout.answer(request.method().as_str(), request.uri().path()) {
        Answer::File(file) => (StatusCode::OK, Bytes::copy_from_slice(file.expose_secret())),
        Answer::Unknown => (StatusCode::SERVICE_UNAVAILABLE, Bytes::new()),
        Answer::NoSuchMethod => (StatusCode::METHOD_NOT_ALLOWED, Bytes::new()),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpSocket;
    use tokio_rustls::TlsConnector;

    use super::*;

    /// Long enough for a test to fail by its own limit if anything waits for it.
    const FOR_EVER: Duration = Duration::from_hours(1);

    /// A server with an empty handout, and what a machine needs to speak to it.
    struct Door {
        address: SocketAddr,
        connector: TlsConnector,
        stop: CancellationToken,
        tasks: JoinSet<()>,
    }

    impl Door {
        async fn open(limits: Limits) -> Self {
            let key = rcgen::KeyPair::generate().unwrap();
            let parameters = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
            let pem = parameters.self_signed(&key).unwrap().pem();
            let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let mut roots = RootCertStore::empty();
            roots.add(chain[0].clone()).unwrap();
            let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let server = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .unwrap();
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let handout = Arc::new(Handout::new("https://here", token).unwrap());
            let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
            let acceptor = TlsAcceptor::from(Arc::new(server));
            tasks.spawn(serve(listener, acceptor, handout, limits, stop.clone()));
            Self { address, connector: TlsConnector::from(Arc::new(client)), stop, tasks }
        }

        /// A connection from an address of the loopback network that says nothing.
        async fn idle(&self, from: [u8; 4]) -> TcpStream {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::from(from), 0).into()).unwrap();
            socket.connect(self.address).await.unwrap()
        }

        /// What a machine reads that asks for something on a connection.
        async fn ask(&self, stream: TcpStream) -> String {
            let name = ServerName::try_from("127.0.0.1").unwrap();
            let mut stream = self.connector.connect(name, stream).await.unwrap();
            stream.write_all(b"GET /0/user-data HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        }

        async fn close(mut self) {
            self.stop.cancel();
            while self.tasks.join_next().await.is_some() {}
        }
    }

    /// Waits until the other side has closed.
    async fn closed(stream: &mut TcpStream) {
        // A reset is an end, too.
        assert!(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)));
    }

    const ONE: [u8; 4] = [127, 0, 0, 1];
    const OTHER: [u8; 4] = [127, 0, 0, 2];

    #[tokio::test]
    async fn a_request_does_not_wait_behind_idle_connections() {
        let limits = Limits { opening: FOR_EVER, whole: FOR_EVER, at_once: 16, of_a_peer: 12 };
        let door = Door::open(limits).await;
        let mut idle = Vec::new();
        for _ in 0..2 * limits.at_once {
            idle.push(door.idle(OTHER).await);
        }
        for _ in 0..limits.at_once {
            idle.push(door.idle(ONE).await);
        }
        let stream = door.idle([127, 0, 0, 3]).await;
        let answer = door.ask(stream).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        // The same from an address that has all connections it may have.
        let stream = door.idle(OTHER).await;
        assert!(door.ask(stream).await.starts_with("HTTP/1.1 503 "));
        door.close().await;
    }

    #[tokio::test]
    async fn a_peer_with_too_many_connections_loses_its_oldest_and_no_other_does() {
        let limits = Limits { opening: FOR_EVER, whole: FOR_EVER, at_once: 100, of_a_peer: 3 };
        let door = Door::open(limits).await;
        let early = door.idle(OTHER).await;
        let mut greedy = Vec::new();
        for _ in 0..10 {
            greedy.push(door.idle(ONE).await);
        }
        for stream in &mut greedy[..7] {
            closed(stream).await;
        }
        for stream in greedy.drain(7..).chain([early]) {
            assert!(door.ask(stream).await.starts_with("HTTP/1.1 503 "));
        }
        door.close().await;
    }

    #[tokio::test]
    async fn a_connection_has_to_get_to_its_request_in_time() {
        let limits = Limits { opening: Duration::from_millis(50), whole: FOR_EVER, ..Limits::default() };
        let door = Door::open(limits).await;
        closed(&mut door.idle(ONE).await).await;
        // With TLS, and no request.
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = door.idle(ONE).await;
        if let Ok(mut stream) = door.connector.connect(name, stream).await {
            assert!(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)));
        }
        door.close().await;
    }

    #[test]
    fn the_address_machines_are_told() {
        let base = |url: &str, asked: &str| {
            let real = "127.0.0.1:4711".parse().unwrap();
            super::base(&Url::parse(url).unwrap(), asked.parse().unwrap(), real)
        };
        assert_eq!(base("https://here/a", "127.0.0.1:0"), "https://here:4711/a");
        assert_eq!(base("https://here:9/a", "127.0.0.1:0"), "https://here:9/a");
        assert_eq!(base("https://here", "0.0.0.0:443"), "https://here");
    }
}
