//! The transport against a TLS socket of the test's own, which writes its replies byte by byte.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the server lives as long as the test's runtime")]

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use secrecy::SecretString;
use talmox_k8s::{Access, Cause, Client, DialMap, HttpsTransport, Kind, Selection, Server, TransportError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::support::Authority;

/// What the server does with the next request.
#[derive(Clone, Copy)]
enum Answer {
    Reply(&'static str),
    /// A reply that announces the connection's end.
    ReplyAndClose(&'static str),
    Close,
    Silence,
}

const VERSION: &str = r#"{"gitVersion":"v1.36.3"}"#;

struct Fake {
    access: Access,
    map: DialMap,
    /// The connection each request came on, and its first line.
    seen: Arc<Mutex<Vec<(usize, String)>>>,
}

impl Fake {
    /// A server for `api.test` whose clients must come from `clients`.
    async fn start(authority: &Authority, clients: &Authority, answers: &'static [Answer]) -> Self {
        let (certificate, key) = authority.issue("kube-apiserver", &["api.test"]);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(clients.pem().as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let map = DialMap([("api.test".to_owned(), listener.local_addr().unwrap())].into());
        let seen = Arc::<Mutex<Vec<_>>>::default();
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), answers, Arc::clone(&seen)));
        let access = Access { server: Server::new("api.test", 6443), identity: authority.identity("admin") };
        Self { access, map, seen }
    }

    fn client(&self) -> Client {
        Client::new(Arc::new(HttpsTransport::new(self.map.clone())), self.access.clone())
    }

    fn connections(&self) -> Vec<usize> {
        self.seen.lock().unwrap().iter().map(|(connection, _)| *connection).collect()
    }
}

type Seen = Arc<Mutex<Vec<(usize, String)>>>;

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, answers: &'static [Answer], seen: Seen) {
    for connection in 0.. {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            while let Some(line) = request(&mut stream).await {
                let number = {
                    let mut seen = seen.lock().unwrap();
                    seen.push((connection, line));
                    seen.len() - 1
                };
                match answers[number] {
                    Answer::Reply(body) => reply(&mut stream, "", body).await,
                    Answer::ReplyAndClose(body) => {
                        reply(&mut stream, "connection: close\r\n", body).await;
                        break;
                    }
                    Answer::Close => break,
                    Answer::Silence => std::future::pending().await,
                }
            }
        });
    }
}

/// The first line of the next request, whose body is read to its end.
async fn request(stream: &mut TlsStream<TcpStream>) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(head.lines().next().unwrap().to_owned())
}

async fn reply(stream: &mut TlsStream<TcpStream>, header: &str, body: &str) {
    let reply = format!("HTTP/1.1 200 OK\r\n{header}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(reply.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
}

fn cause(error: &talmox_k8s::Error) -> &TransportError {
    let Cause::Transport(error) = &error.cause else { panic!("{error}") };
    error
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let authority = Authority::new();
    let fake =
        Fake::start(&authority, &authority, &[Answer::Reply(VERSION), Answer::Reply(r#"{"items":[]}"#)])
            .await;
    let client = fake.client();
    assert_eq!(client.version().await.unwrap().git_version, "v1.36.3");
    let selection = Selection::in_namespace("a").with_labels("x in (1,2)");
    assert_eq!(client.pods(&selection).await.unwrap(), []);
    assert_eq!(fake.connections(), [0, 0]);
    let line = fake.seen.lock().unwrap()[1].1.clone();
    assert_eq!(line, "get /api/v1/namespaces/a/pods?labelselector=x%20in%20%281%2c2%29 http/1.1");
}

#[tokio::test]
async fn a_connection_that_ends_is_replaced() {
    let authority = Authority::new();
    let answers = &[Answer::ReplyAndClose(VERSION), Answer::Reply(VERSION)];
    let fake = Fake::start(&authority, &authority, answers).await;
    let client = fake.client();
    client.version().await.unwrap();
    client.version().await.unwrap();
    assert_eq!(fake.connections(), [0, 1]);
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_the_caller_uncertain() {
    let authority = Authority::new();
    let fake = Fake::start(&authority, &authority, &[Answer::Close]).await;
    let error = fake.client().uncordon("w-1").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Uncertain);
    assert!(matches!(cause(&error), TransportError::Lost { .. }), "{error}");
}

#[tokio::test]
async fn silence_ends_with_the_deadline() {
    let authority = Authority::new();
    let fake = Fake::start(&authority, &authority, &[Answer::Silence]).await;
    let client = fake.client().with_deadline(Duration::from_millis(300));
    let error = client.version().await.unwrap_err();
    assert_eq!(cause(&error), &TransportError::Deadline { after: Duration::from_millis(300) });
}

#[tokio::test]
async fn nobody_there_is_not_reached() {
    let authority = Authority::new();
    let mut fake = Fake::start(&authority, &authority, &[]).await;
    // Nobody listens on a port that is only taken, and nobody else gets it meanwhile.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let closed = taken.local_addr().unwrap();
    fake.map = DialMap([("api.test".to_owned(), closed)].into());
    assert_eq!(fake.client().version().await.unwrap_err().kind(), Kind::NotReached);
}

#[tokio::test]
async fn a_server_of_another_cluster_or_name_is_not_trusted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let fake = Fake::start(&ours, &ours, &[Answer::Reply(VERSION)]).await;
    let foreign = Access { server: fake.access.server.clone(), identity: theirs.identity("admin") };
    let transport = Arc::new(HttpsTransport::new(fake.map.clone()));
    let error = Client::new(transport, foreign).version().await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotTrusted, "{error}");
    let address = *fake.map.0.get("api.test").unwrap();
    let other = DialMap([("other.test".to_owned(), address)].into());
    let access = fake.access.at(Server::new("other.test", 6443));
    let error = Client::new(Arc::new(HttpsTransport::new(other)), access).version().await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotTrusted, "{error}");
    assert!(fake.connections().is_empty());
}

#[tokio::test]
async fn a_server_that_wants_another_certificate_sees_no_request() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let fake = Fake::start(&ours, &theirs, &[]).await;
    let error = fake.client().version().await.unwrap_err();
    // The alert may be overtaken by the end of the connection.
    assert!([Kind::NotTrusted, Kind::Uncertain, Kind::NotReached].contains(&error.kind()), "{error}");
    assert!(fake.connections().is_empty());
}

#[tokio::test]
async fn a_kubeconfig_leads_to_its_server() {
    let authority = Authority::new();
    let fake = Fake::start(&authority, &authority, &[Answer::Reply(VERSION)]).await;
    let (certificate, key) = authority.issue("admin", &[]);
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: admin@a\n\
         contexts: [{{name: admin@a, context: {{cluster: a, user: admin@a}}}}]\n\
         clusters: [{{name: a, cluster: {{server: 'https://api.test:6443', certificate-authority-data: {}}}}}]\n\
         users: [{{name: admin@a, user: {{client-certificate-data: {}, client-key-data: {}}}}}]\n",
        STANDARD.encode(authority.pem()),
        STANDARD.encode(&certificate),
        STANDARD.encode(&key),
    );
    let access = Access::from_kubeconfig(&SecretString::from(text)).unwrap();
    let shown = format!("{access:?}");
    assert!(!shown.contains("PRIVATE") && !shown.contains(&STANDARD.encode(&key)), "{shown}");
    let client = Client::new(Arc::new(HttpsTransport::new(fake.map.clone())), access);
    assert_eq!(client.version().await.unwrap().git_version, "v1.36.3");
}
