//! Fetching a file for a machine, over HTTP or HTTPS.
//!
//! Whatever host a URL names, the connection goes to loopback, to the URL's port: nothing of a simulation leaves this machine.
//! The certificate must be the named host's all the same, and of an authority the machines trust.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Fetched;

/// No configuration is near it.
const LARGEST: usize = 16 << 20;
/// How long a server may take.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn fetch(url: &str, trusts: &str) -> Fetched {
    match tokio::time::timeout(LIMIT, ask(url, trusts)).await {
        Ok(Ok(fetched)) => fetched,
        Ok(Err(error)) => Fetched::Failed(error.to_string()),
        Err(_) => Fetched::Failed("the server took too long".to_owned()),
    }
}

async fn ask(url: &str, trusts: &str) -> io::Result<Fetched> {
    let uri: Uri = url.parse().map_err(io::Error::other)?;
    let host = uri.host().ok_or(io::ErrorKind::InvalidInput)?.trim_matches(['[', ']']).to_owned();
    let secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let named = host.parse::<IpAddr>().ok().filter(IpAddr::is_loopback);
    let stream = TcpStream::connect((named.unwrap_or(Ipv4Addr::LOCALHOST.into()), port)).await?;
    if !secure {
        return over(stream, &uri).await;
    }
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::new(client(trusts)?));
    over(connector.connect(name, stream).await?, &uri).await
}

fn client(trusts: &str) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(trusts.as_bytes()).filter_map(Result::ok));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    uri: &Uri,
) -> io::Result<Fetched> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let path = uri.path_and_query().map_or("/", hyper::http::uri::PathAndQuery::as_str);
    let host = uri.authority().map_or("", hyper::http::uri::Authority::as_str);
    let request =
        Request::get(path).header(HOST, host).body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST).collect().await.map_err(io::Error::other)?;
        io::Result::Ok((status, body.to_bytes()))
    };
    let (answer, connection) = (std::pin::pin!(answer), std::pin::pin!(connection));
    let (status, body) = match futures_util::future::select(answer, connection).await {
        futures_util::future::Either::Left((answer, _)) => answer?,
        // A server may close as soon as it has answered.
        futures_util::future::Either::Right((ended, answer)) => {
            ended.map_err(io::Error::other)?;
            answer.await?
        }
    };
    Ok(match status {
        StatusCode::OK => Fetched::File(body.to_vec()),
        StatusCode::NOT_FOUND => Fetched::NotFound,
        other => Fetched::Failed(format!("status {other}")),
    })
}
