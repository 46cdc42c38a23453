//! The web server machines fetch their configuration from (`config_delivery: url`).
//!
//! It is there for as long as a run is, over HTTPS alone, and answers nobody who does not have a token. What it hands out is the
//! engine's business ([`Handout`]).

mod certificate;

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
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::args::ConfigServing;
use crate::failure::Failure;
use crate::printer::Printer;
use certificate::Certificate;

/// How many are answered at once; others wait.
const AT_ONCE: usize = 64;
/// How long somebody may take to say what is wanted, and to take it.
const PATIENCE: Duration = Duration::from_secs(20);
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
        tasks.spawn(serve(listener, acceptor, Arc::clone(&handout), stop.clone()));
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

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, handout: Arc<Handout>, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = accept(&listener, &room) => {
                let Some((stream, turn)) = accepted else { continue };
                let (acceptor, handout) = (acceptor.clone(), Arc::clone(&handout));
                connections.spawn(async move {
                    // Whatever became of it, the machine knows, and asks again.
                    let _ = tokio::time::timeout(PATIENCE, converse(stream, acceptor, handout)).await;
                    drop(turn);
                });
            }
            Some(_) = connections.join_next() => {}
            () = stop.cancelled() => break,
        }
    }
    connections.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let turn = Arc::clone(room).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, turn)),
        Err(_) => {
            // Too many files are open, or the caller is gone already: not a reason to turn as fast as one can.
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, handout: Arc<Handout>) -> std::io::Result<()> {
    let stream = acceptor.accept(stream).await?;
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(&handout, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
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
    use super::*;

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
