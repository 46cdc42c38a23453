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

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// A server for `seed.example`, and the authority that vouches for it.
    async fn server() -> (u16, String, JoinSet<()>) {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let trusted = authority.self_signed(&key).unwrap().pem();
        let own = KeyPair::generate().unwrap();
        let given = CertificateParams::new(vec!["seed.example".to_owned()]).unwrap();
        let given = given.signed_by(&own, &Issuer::new(authority, key)).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let key = PrivateKeyDer::try_from(own.serialize_der()).unwrap();
        let config = builder.unwrap().with_no_client_auth().with_single_cert(vec![given.der().clone()], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut asked = [0; 4096];
                let read = stream.read(&mut asked).await.unwrap_or_default();
                let asked = String::from_utf8_lossy(&asked[..read]).into_owned();
                let (status, body) = match asked.split(' ').nth(1) {
                    Some("/t/user-data") => ("200 OK", "version: v1alpha1"),
                    Some("/t/meta-data") => ("503 Service Unavailable", ""),
                    _ => ("404 Not Found", ""),
                };
                let length = body.len();
                let reply = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                let _ = stream.write_all(reply.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        (port, trusted, tasks)
    }

    #[tokio::test]
    async fn a_file_comes_from_whom_the_machine_trusts_and_from_nobody_else() {
        let (port, trusted, _server) = server().await;
        let told = |fetched: Fetched| match fetched {
            Fetched::File(bytes) => String::from_utf8(bytes).unwrap(),
            Fetched::NotFound => "not found".to_owned(),
            Fetched::Failed(reason) => format!("failed: {reason}"),
        };
        let ask = async |host: &str, file: &str, trusts: &str| {
            told(fetch(&format!("https://{host}:{port}/t/{file}"), trusts).await)
        };
        assert_eq!(ask("seed.example", "user-data", &trusted).await, "version: v1alpha1");
        assert_eq!(ask("seed.example", "network-config", &trusted).await, "not found");
        assert_eq!(
            ask("seed.example", "meta-data", &trusted).await,
            "failed: status 503 Service Unavailable"
        );
        let untrusted = ask("seed.example", "user-data", "").await;
        assert!(untrusted.contains("UnknownIssuer"), "{untrusted}");
        let another = ask("other.example", "user-data", &trusted).await;
        assert!(another.starts_with("failed: ") && another.contains("not valid for name"), "{another}");
        assert!(told(fetch("https://seed.example:1/t/user-data", &trusted).await).starts_with("failed: "));
    }
}
