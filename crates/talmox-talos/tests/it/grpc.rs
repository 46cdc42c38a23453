//! The client against a server of the test's own: HTTP/2 and TLS on a socket, answers by script.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the server lives as long as the test's runtime")]

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_ED25519, PublicKeyData as _,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};
use talmox_proto::common::{Data, Metadata};
use talmox_proto::machine::{
    Bootstrap, BootstrapResponse, EtcdRecover, EtcdRecoverResponse, Version, VersionInfo, VersionResponse,
};
use talmox_proto::resource::{Event, Metadata as Names, Resource, Spec, WatchRequest, WatchResponse};
use talmox_proto::{Message, Status as WireStatus, definitions};
use talmox_talos::{
    Access, Client, Code, Deadlines, DialMap, Error, Fingerprint, GrpcTransport, Identity, Kind, Stage,
    Transport, kinds,
};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;

pub(crate) const NODE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What a script does with a call.
pub(crate) enum Answer {
    /// Messages, then a code and words in the trailers.
    Messages(Vec<Vec<u8>>, i32, &'static str),
    /// A code and words in the head, and no body.
    Head(i32, &'static str),
    /// Messages, and then the connection breaks.
    Break(Vec<Vec<u8>>),
    /// Nothing, ever.
    Silence,
    /// No messages; a code and words in the trailers, as they are.
    Words(i32, HeaderValue),
    /// This message again and again, counting its bytes as they leave.
    Endless(Vec<u8>, Arc<AtomicU64>),
    /// A message that is announced, and then comes a byte a second.
    Drip,
    /// What speaks no gRPC says: a status and a place to go to.
    Http(u16, String),
}

pub(crate) type Script = Arc<dyn Fn(&str, Bytes) -> Answer + Send + Sync>;

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn leaf(&self, names: &[&str]) -> (String, KeyPair) {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key)
    }

    pub(crate) fn identity(&self) -> Identity {
        let (certificate, key) = self.leaf(&[]);
        // As a talosconfig has it.
        let key = key.serialize_pem().replace("PRIVATE KEY", "ED25519 PRIVATE KEY");
        Identity::from_pem(&self.0.pem(), &certificate, &SecretString::from(key)).unwrap()
    }
}

pub(crate) struct Server {
    pub(crate) map: DialMap,
    /// Paths and headers of the calls that came.
    pub(crate) seen: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    fingerprint: Fingerprint,
}

impl Server {
    pub(crate) async fn start(authority: &Authority, asks: bool, script: Script) -> Self {
        Self::swapping(authority, asks, script, None).await
    }

    /// A server whose certificate is of the other authority from the second connection on, if there is one.
    pub(crate) async fn swapping(
        authority: &Authority,
        asks: bool,
        script: Script,
        other: Option<&Authority>,
    ) -> Self {
        let (first, fingerprint) = Self::config(authority, asks);
        let later = other.map(|other| Self::config(other, asks).0);
        let later = later.unwrap_or_else(|| Arc::clone(&first));
        let listener = TcpListener::bind((NODE, 0)).await.unwrap();
        let map = DialMap([(NODE, listener.local_addr().unwrap())].into());
        let seen = Arc::default();
        tokio::spawn(serve(listener, [first, later], script, Arc::clone(&seen)));
        Self { map, seen, fingerprint: Fingerprint::parse(&fingerprint).unwrap() }
    }

    /// What it shows, and the fingerprint of that.
    fn config(authority: &Authority, asks: bool) -> (Arc<ServerConfig>, String) {
        let (certificate, key) = authority.leaf(&["127.0.0.1"]);
        let fingerprint = Sha256::digest(key.subject_public_key_info());
        let fingerprint = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, fingerprint);
        let chain = vec![rustls::pki_types::pem::PemObject::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap();
        let builder = if asks {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from(authority.0.der().to_vec())).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        (Arc::new(config), fingerprint)
    }

    pub(crate) fn client(&self, access: Access) -> Client {
        let transport: Arc<dyn Transport> = Arc::new(GrpcTransport::new(self.map.clone()));
        let quick = Deadlines { quick: Duration::from_secs(20), long: Duration::from_secs(20) };
        Client::new(transport, NODE, access).with_deadlines(quick)
    }
}

type Seen = Arc<Mutex<Vec<(String, HeaderMap)>>>;

async fn serve(listener: TcpListener, configs: [Arc<ServerConfig>; 2], script: Script, seen: Seen) {
    for connection in 0.. {
        let (stream, _) = listener.accept().await.unwrap();
        let acceptor = TlsAcceptor::from(Arc::clone(&configs[usize::from(connection > 0)]));
        let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let broken = Arc::new(tokio::sync::Notify::new());
            let service = service_fn(|request| {
                answer(request, Arc::clone(&script), Arc::clone(&seen), Arc::clone(&broken))
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = connection => {}
                () = broken.notified() => {}
            }
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    script: Script,
    seen: Seen,
    broken: Arc<tokio::sync::Notify>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    seen.lock().unwrap().push((path.clone(), head.headers));
    let body = body.collect().await.unwrap().to_bytes();
    let response = Response::builder().header("content-type", "application/grpc");
    let frames =
        |messages: Vec<Vec<u8>>| messages.into_iter().map(|message| Ok(Frame::data(framed(&message))));
    Ok(match script(&path, body.slice(5.min(body.len())..)) {
        Answer::Messages(messages, code, words) => {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", code.into());
            trailers.insert("grpc-message", words.parse().unwrap());
            let all: Vec<_> = frames(messages).chain([Ok(Frame::trailers(trailers))]).collect();
            response.body(StreamBody::new(futures_util::stream::iter(all)).boxed_unsync()).unwrap()
        }
        Answer::Head(code, words) => {
            let empty = StreamBody::new(futures_util::stream::empty()).boxed_unsync();
            response.header("grpc-status", code).header("grpc-message", words).body(empty).unwrap()
        }
        Answer::Break(messages) => {
            let all: Vec<_> = frames(messages).collect();
            let end = futures_util::stream::once(async move {
                broken.notify_one();
                std::future::pending::<Result<Frame<Bytes>, Infallible>>().await
            });
            response.body(StreamBody::new(futures_util::stream::iter(all).chain(end)).boxed_unsync()).unwrap()
        }
        Answer::Silence => std::future::pending().await,
        Answer::Words(code, words) => {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", code.into());
            trailers.insert("grpc-message", words);
            let all = futures_util::stream::iter([Ok(Frame::trailers(trailers))]);
            response.body(StreamBody::new(all).boxed_unsync()).unwrap()
        }
        Answer::Endless(message, sent) => {
            let frame = framed(&message);
            let all = futures_util::stream::repeat_with(move || {
                sent.fetch_add(frame.len() as u64, Ordering::SeqCst);
                Ok(Frame::data(frame.clone()))
            });
            response.body(StreamBody::new(all).boxed_unsync()).unwrap()
        }
        Answer::Drip => {
            let head = Frame::data(Bytes::from_static(&[0, 0, 1, 0, 0]));
            let bytes = futures_util::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok(Frame::data(Bytes::from_static(b"x"))), ()))
            });
            let all = futures_util::stream::iter([Ok(head)]).chain(bytes);
            response.body(StreamBody::new(all).boxed_unsync()).unwrap()
        }
        Answer::Http(status, location) => {
            let empty = StreamBody::new(futures_util::stream::empty()).boxed_unsync();
            Response::builder().status(status).header("location", location).body(empty).unwrap()
        }
    })
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message);
    frame.freeze()
}

pub(crate) fn version(metadata: Option<Metadata>) -> Vec<u8> {
    let info = VersionInfo { tag: "v1.13.9".to_owned(), ..VersionInfo::default() };
    let one = Version { metadata, version: Some(info), ..Version::default() };
    VersionResponse { messages: vec![one] }.encode_to_vec()
}

/// A server that answers every call alike, and a client in maintenance mode.
pub(crate) async fn scripted(
    answer: impl Fn(&str, Bytes) -> Answer + Send + Sync + 'static,
) -> (Server, Client) {
    let server = Server::start(&Authority::new(), false, Arc::new(answer)).await;
    let client = server.client(Access::maintenance());
    (server, client)
}

async fn version_from(answer: impl Fn() -> Answer + Send + Sync + 'static) -> Result<String, Error> {
    let (_server, client) = scripted(move |_, _| answer()).await;
    client.version().await.map(|release| release.tag)
}

#[tokio::test]
async fn both_sides_prove_themselves() {
    let authority = Authority::new();
    let script: Script = Arc::new(|_, _| Answer::Messages(vec![version(None)], 0, ""));
    let server = Server::start(&authority, true, script).await;
    let client = server.client(Access::Secure(Arc::new(authority.identity())));
    assert_eq!(client.version().await.unwrap().tag, "v1.13.9");
    assert_eq!(client.version().await.unwrap().tag, "v1.13.9");
    let seen = server.seen.lock().unwrap().clone();
    assert_eq!(seen[0].0, "/machine.MachineService/Version");
    assert_eq!(seen[0].1["grpc-timeout"], "20000m");
    assert_eq!(seen[0].1["te"], "trailers");
    // A node of another cluster gets nothing.
    let stranger = server.client(Access::Secure(Arc::new(Authority::new().identity())));
    let error = stranger.version().await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotTrusted, "{error}");
    // Without a certificate a configured node hangs up.
    let error = server.client(Access::maintenance()).version().await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotTrusted, "{error}");
    assert_eq!(server.seen.lock().unwrap().len(), 2);
}

/// Connections are told apart by where their identity is in memory. Were it freed, another one could get its place, and its connection.
#[tokio::test]
async fn a_kept_connection_keeps_its_identity() {
    let authority = Authority::new();
    let script: Script = Arc::new(|_, _| Answer::Messages(vec![version(None)], 0, ""));
    let server = Server::start(&authority, true, script).await;
    let transport: Arc<dyn Transport> = Arc::new(GrpcTransport::new(server.map.clone()));
    let identity = Arc::new(authority.identity());
    let alive = Arc::downgrade(&identity);
    let client = Client::new(Arc::clone(&transport), NODE, Access::Secure(identity));
    assert_eq!(client.version().await.unwrap().tag, "v1.13.9");
    drop(client);
    assert!(alive.upgrade().is_some());
    drop(transport);
    assert!(alive.upgrade().is_none());
}

/// Who we are while the authority is being replaced: nodes of both are believed.
fn in_between(old: &Authority, new: &Authority) -> Access {
    let authorities = format!("{}{}", old.0.pem(), new.0.pem());
    let of = |authority: &Authority| {
        let (certificate, key) = authority.leaf(&[]);
        Identity::from_pem(&authorities, &certificate, &SecretString::from(key.serialize_pem())).unwrap()
    };
    Access::Secure(Arc::new(of(new).or_earlier(Arc::new(of(old)))))
}

/// A node that knows the old authority only and answers `Bootstrap`, which nobody may send twice, and all else with nothing.
async fn behind(old: &Authority) -> Server {
    let script: Script = Arc::new(|path, _| match path {
        "/machine.MachineService/Version" => Answer::Messages(vec![version(None)], 0, ""),
        "/machine.MachineService/EtcdRecover" => {
            let one = EtcdRecoverResponse { messages: vec![EtcdRecover::default()] };
            Answer::Messages(vec![one.encode_to_vec()], 0, "")
        }
        _ => {
            let one = BootstrapResponse { messages: vec![Bootstrap::default()] };
            Answer::Messages(vec![one.encode_to_vec()], 0, "")
        }
    });
    Server::start(old, true, script).await
}

#[tokio::test]
async fn a_node_that_does_not_know_the_new_authority_is_approached_by_the_old_one() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = behind(&old).await;
    // Whatever is asked first: nothing of it was sent to a node that refuses us.
    server.client(in_between(&old, &new)).bootstrap(false).await.unwrap();
    assert_eq!(server.seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn what_streams_is_sent_as_whom_the_node_knows() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = behind(&old).await;
    let pieces = futures_util::stream::iter([Bytes::from_static(b"snap"), Bytes::from_static(b"shot")]);
    server.client(in_between(&old, &new)).etcd_recover(Box::pin(pieces)).await.unwrap();
    let seen: Vec<String> = server.seen.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(seen, ["/machine.MachineService/Version", "/machine.MachineService/EtcdRecover"]);
}

#[tokio::test]
async fn a_fingerprint_from_the_console_is_compared() {
    let (server, _) = scripted(|_, _| Answer::Messages(vec![version(None)], 0, "")).await;
    let with = |fingerprint| server.client(Access::Maintenance { fingerprints: vec![fingerprint] });
    assert_eq!(with(server.fingerprint).version().await.unwrap().tag, "v1.13.9");
    let other = Fingerprint::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap();
    assert_eq!(with(other).version().await.unwrap_err().kind(), Kind::NotTrusted);
    assert_eq!(server.seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_node_is_held_to_the_certificate_it_showed() {
    let (server, client) = scripted(|_, _| Answer::Messages(vec![version(None)], 0, "")).await;
    let (pinned, shown) = client.pinned().await.unwrap();
    assert_eq!(shown, Some(server.fingerprint));
    assert_eq!(pinned.version().await.unwrap().tag, "v1.13.9");
    assert_eq!(client.pinned().await.unwrap().1, shown, "asked again");
    // Another machine has the address now. Whatever it would answer, it is asked nothing.
    let (other, _) = scripted(|_, _| Answer::Messages(vec![version(None)], 0, "")).await;
    let held = Access::Maintenance { fingerprints: shown.into_iter().collect() };
    let error = other.client(held).version().await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotTrusted);
    assert!(other.seen.lock().unwrap().is_empty());
    assert_ne!(other.client(Access::maintenance()).pinned().await.unwrap().1, shown);
}

#[tokio::test]
async fn failures_have_their_code_wherever_it_is_said() {
    let told = |error: Error| (error.kind(), error.status().cloned().unwrap().message);
    let words = "bootstrap%20is not available%0Ayet";
    let error = version_from(|| Answer::Head(9, words)).await.unwrap_err();
    assert_eq!(told(error), (Kind::NotReady, "bootstrap is not available · yet".to_owned()));
    let error = version_from(|| Answer::Messages(Vec::new(), 7, "not authorized")).await.unwrap_err();
    assert_eq!(told(error), (Kind::Denied, "not authorized".to_owned()));
    // A failure after the reply is a failure.
    let error = version_from(|| Answer::Messages(vec![version(None)], 2, "late")).await.unwrap_err();
    assert_eq!(told(error), (Kind::Failed, "late".to_owned()));
    // So is one inside of a reply that went well.
    let status = WireStatus { code: 14, message: "no route".to_owned(), details: Vec::new() };
    for metadata in [
        Metadata { status: Some(status), ..Metadata::default() },
        Metadata { error: "no route".to_owned(), ..Metadata::default() },
    ] {
        let inside = move || Answer::Messages(vec![version(Some(metadata.clone()))], 0, "");
        let error = version_from(inside).await.unwrap_err();
        assert_eq!(error.status().unwrap().message, "no route");
    }
    let error = version_from(|| Answer::Messages(Vec::new(), 0, "")).await.unwrap_err();
    assert_eq!(error.status().unwrap().code, Code::Internal);
}

#[tokio::test]
async fn a_broken_connection_leaves_it_open_what_happened() {
    let error = version_from(|| Answer::Break(Vec::new())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Uncertain, "{error}");
    assert_eq!(
        error.to_string(),
        "Version on 127.0.0.1: the connection was closed before the reply had come"
    );
    // Nobody listens on a port that is only taken, and nobody else gets it meanwhile.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind((NODE, 0).into()).unwrap();
    let nobody = taken.local_addr().unwrap();
    let transport: Arc<dyn Transport> = Arc::new(GrpcTransport::new(DialMap([(NODE, nobody)].into())));
    let error = Client::new(transport, NODE, Access::maintenance()).version().await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotReached, "{error}");
}

#[tokio::test]
async fn a_call_nobody_answers_ends() {
    let (_server, client) = scripted(|_, _| Answer::Silence).await;
    let soon = Deadlines { quick: Duration::from_millis(200), long: Duration::from_millis(200) };
    let error = client.with_deadlines(soon).version().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Uncertain, "{error}");
}

#[tokio::test]
async fn a_connection_that_ended_is_made_anew() {
    let first = Arc::new(Mutex::new(true));
    let (server, client) = scripted(move |_, _| {
        let is_first = std::mem::take(&mut *first.lock().unwrap());
        let one = BootstrapResponse { messages: vec![Bootstrap::default()] };
        if is_first { Answer::Break(Vec::new()) } else { Answer::Messages(vec![one.encode_to_vec()], 0, "") }
    })
    .await;
    assert_eq!(client.bootstrap(false).await.unwrap_err().kind(), Kind::Uncertain);
    // Somebody else decides whether to try again; the way is free.
    let mut left = 50;
    while let Err(error) = client.bootstrap(false).await {
        assert!(left > 0 && error.kind() != Kind::Failed, "{error}");
        left -= 1;
    }
    assert!(server.seen.lock().unwrap().len() >= 2);
}

#[tokio::test]
async fn streams_give_what_came_before_they_broke() {
    let piece = |text: &str| Data { metadata: None, bytes: text.as_bytes().to_vec() }.encode_to_vec();
    let (_server, client) =
        scripted(move |_, _| Answer::Messages(vec![piece("one "), piece("two")], 0, "")).await;
    assert_eq!(client.read_file("/proc/version").await.unwrap(), b"one two");
    let (_server, client) = scripted(move |_, _| Answer::Break(vec![piece("one ")])).await;
    assert_eq!(client.read_file("/proc/version").await.unwrap_err().kind(), Kind::Uncertain);
}

#[tokio::test]
async fn a_watch_tells_what_changes() {
    let status = |stage: definitions::MachineStage| definitions::MachineStatus {
        stage: stage.into(),
        status: Some(definitions::MachineStatusStatus { ready: true, unmet_conditions: Vec::new() }),
    };
    let event = move |kind: i32, stage| Event {
        resource: Some(Resource {
            metadata: Some(Names { id: "machine".to_owned(), version: "3".to_owned(), ..Names::default() }),
            spec: Some(Spec { proto_spec: status(stage).encode_to_vec(), yaml_spec: String::new() }),
        }),
        event_type: kind,
        ..Event::default()
    };
    let (_server, client) = scripted(move |_, request| {
        let request = WatchRequest::decode(request).unwrap();
        assert!(request.options.is_some() && request.api_version == 1, "{request:?}");
        let told = |events: Vec<Event>| WatchResponse { event: events }.encode_to_vec();
        let maintenance = event(0, definitions::MachineStage::StageMaintenance);
        let booting = event(1, definitions::MachineStage::StageBooting);
        Answer::Messages(
            vec![told(Vec::new()), told(vec![maintenance]), told(vec![booting])],
            14,
            "going away",
        )
    })
    .await;
    let mut watch = client.watch::<kinds::MachineStatus>("machine").await.unwrap();
    let mut stages = Vec::new();
    let error = loop {
        match watch.next().await.unwrap() {
            Ok(seen) => stages.push(talmox_talos::MachineState::from(seen.resource.unwrap().spec).stage),
            Err(error) => break error,
        }
    };
    assert_eq!(stages, [Stage::Maintenance, Stage::Booting]);
    assert_eq!(error.kind(), Kind::Uncertain);
}

#[test]
fn an_identity_shows_nothing() {
    let identity = Authority::new().identity();
    assert_eq!(format!("{identity:?}"), "Identity(…)");
    let access = Access::Secure(Arc::new(identity));
    assert_eq!(format!("{access:?}"), "Secure(Identity(…))");
}
