//! The real transport: HTTP/1.1, over TLS where the address says so.
//!
//! A factory is asked a handful of times, so every request has a connection of its own. Connections are driven by
//! whoever reads from them: nothing runs when nobody waits.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, LOCATION, USER_AGENT};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::transport::{BoxFuture, Chunks};
use super::{Address, Method, Request, Response, Transport, TransportError};

const AGENT: &str = concat!("talmox/", env!("CARGO_PKG_VERSION"));

/// Talks to real factories, and trusts whom the operating system trusts.
pub struct HttpTransport {
    tls: Arc<ClientConfig>,
}

/// The system offers nothing to check certificates against.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("TLS cannot be set up: {reason}")]
pub struct InvalidTrust {
    pub reason: String,
}

impl HttpTransport {
    /// Without any trusted authority only `http` addresses can be reached; that is found out when one is needed.
    pub fn new() -> Result<Self, InvalidTrust> {
        Self::trusting(rustls_native_certs::load_native_certs().certs)
    }

    /// Trusts these authorities and no others.
    pub fn trusting(
        authorities: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, InvalidTrust> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities);
        let mut tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| InvalidTrust { reason: error.to_string() })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls: Arc::new(tls) })
    }

    async fn connect(&self, address: &Address) -> Result<Box<dyn Stream>, TransportError> {
        let failed = |error: &io::Error| TransportError::Connect { reason: plain(error) };
        let port =
            address.port().ok_or_else(|| TransportError::Connect { reason: "no such port".to_owned() })?;
        let stream = TcpStream::connect((address.host(), port)).await.map_err(|error| failed(&error))?;
        if !address.secure {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(address.host().to_owned())
            .map_err(|error| TransportError::Connect { reason: error.to_string() })?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
        stream.map(|stream| Box::new(stream) as Box<dyn Stream>).map_err(|error| tls_error(&error))
    }

    async fn exchange(&self, request: &Request) -> Result<Response, TransportError> {
        let stream = self.connect(&request.address).await?;
        let (mut sender, driver) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
        let mut driver: Driver = Some(Box::pin(driver));
        let response =
            drive(&mut driver, sender.send_request(message(request)?)).await.map_err(|error| lost(&error))?;
        let header = |name: HeaderName| response.headers().get(name)?.to_str().ok().map(ToOwned::to_owned);
        Ok(Response {
            status: response.status().as_u16(),
            location: header(LOCATION),
            content_length: header(CONTENT_LENGTH).and_then(|text| text.parse().ok()),
            body: Box::new(Streaming { driver, body: response.into_body() }),
        })
    }
}

impl Transport for HttpTransport {
    fn send<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, TransportError>> {
        Box::pin(self.exchange(request))
    }
}

fn message(request: &Request) -> Result<hyper::Request<Full<Bytes>>, TransportError> {
    let method = match request.method {
        Method::Get => hyper::Method::GET,
        Method::Head => hyper::Method::HEAD,
        Method::Post => hyper::Method::POST,
    };
    let mut built = hyper::Request::builder()
        .method(method)
        .uri(&request.address.target)
        .header(HOST, &request.address.authority)
        .header(USER_AGENT, AGENT)
        .header(CONNECTION, "close");
    if request.method == Method::Post {
        built = built.header(CONTENT_TYPE, "application/yaml").header(CONTENT_LENGTH, request.body.len());
    }
    built
        .body(Full::new(request.body.clone()))
        .map_err(|error| TransportError::Connect { reason: error.to_string() })
}

/// Anything bytes go over.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What moves the bytes of a connection; none once it has ended.
type Driver = Option<Pin<Box<http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>>>>;

/// Polls the connection along with what happens on it. When it ends, the work hears of it through hyper.
async fn drive<F: Future>(driver: &mut Driver, work: F) -> F::Output {
    let mut work = std::pin::pin!(work);
    poll_fn(|context| {
        if let Some(running) = driver
            && running.as_mut().poll(context).is_ready()
        {
            *driver = None;
        }
        work.as_mut().poll(context)
    })
    .await
}

struct Streaming {
    driver: Driver,
    body: Incoming,
}

impl Chunks for Streaming {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportError>> {
        Box::pin(async {
            loop {
                match drive(&mut self.driver, self.body.frame()).await {
                    None => return Ok(None),
                    Some(Err(error)) => return Err(lost(&error)),
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) if !data.is_empty() => return Ok(Some(data)),
                        // Trailers, or nothing.
                        _ => {}
                    },
                }
            }
        })
    }
}

fn lost(error: &hyper::Error) -> TransportError {
    let reason = match std::error::Error::source(error) {
        Some(source) if source.is::<io::Error>() => "the connection broke".to_owned(),
        Some(source) => source.to_string(),
        None if error.is_incomplete_message() => "the connection was closed too early".to_owned(),
        None => error.to_string(),
    };
    TransportError::Lost { reason }
}

fn tls_error(error: &io::Error) -> TransportError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(fault)) => {
            TransportError::Certificate { reason: fault.to_string() }
        }
        _ => TransportError::Connect { reason: format!("TLS: {}", plain(error)) },
    }
}

/// An error of the system without its number, which says nothing to anybody.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
