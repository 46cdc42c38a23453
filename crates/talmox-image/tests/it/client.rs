//! The client against scripted servers in memory, and against a real socket.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use talmox_image::client::{
    Address, BoxFuture, Chunks, FactoryClient, HttpTransport, Method, Request, Rerouted, Response, Settings,
    Transport, TransportError,
};
use talmox_image::{Arch, Factory, ImageFile, Schematic};
use talmox_types::{Url, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const TALOS: Version = Version::new(1, 13, 9);

/// One answer: a status, a header or two, and a body in pieces of which the last may break.
enum Answer {
    Reply { status: u16, location: Option<&'static str>, length: Option<u64>, body: Vec<&'static str> },
    Fails(TransportError),
    Silence,
}

fn reply(status: u16, body: &'static str) -> Answer {
    Answer::Reply { status, location: None, length: Some(body.len() as u64), body: vec![body] }
}

fn moved(status: u16, location: &'static str) -> Answer {
    Answer::Reply { status, location: Some(location), length: None, body: vec![] }
}

fn refused() -> Answer {
    Answer::Fails(TransportError::Connect { reason: "Connection refused".to_owned() })
}

#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<String>>,
}

struct Pieces(VecDeque<&'static str>);

impl Chunks for Pieces {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportError>> {
        let piece = self.0.pop_front();
        Box::pin(async move {
            match piece {
                Some("(breaks)") => Err(TransportError::Lost { reason: "the connection broke".to_owned() }),
                Some("(silence)") => std::future::pending().await,
                piece => Ok(piece.map(|text| Bytes::from_static(text.as_bytes()))),
            }
        })
    }
}

impl Transport for Script {
    fn send<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, TransportError>> {
        let body =
            if request.method == Method::Post { format!(" {}", text(&request.body)) } else { String::new() };
        self.asked.lock().expect("no test panics with it").push(format!(
            "{} {}{body}",
            request.method.as_str(),
            request.address
        ));
        let answer = self
            .answers
            .lock()
            .expect("no test panics with it")
            .pop_front()
            .expect("an answer for every request");
        Box::pin(async move {
            match answer {
                Answer::Fails(error) => Err(error),
                Answer::Silence => std::future::pending().await,
                Answer::Reply { status, location, length, body } => Ok(Response {
                    status,
                    location: location.map(ToOwned::to_owned),
                    content_length: length,
                    body: Box::new(Pieces(body.into())),
                }),
            }
        })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn client(answers: Vec<Answer>) -> (FactoryClient, Arc<Script>) {
    let script = Arc::new(Script { answers: Mutex::new(answers.into()), asked: Mutex::default() });
    let transport = Arc::clone(&script) as Arc<dyn Transport>;
    (FactoryClient::new(Factory::official(), transport, Settings::default()), script)
}

fn asked(script: &Script) -> String {
    script.asked.lock().expect("no test panics with it").join("\n")
}

fn agent() -> Schematic {
    Schematic { extensions: vec!["siderolabs/qemu-guest-agent".to_owned()], ..Schematic::default() }
}

const REGISTERED: &str =
    r#"{"id":"ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515","schematic":""}"#;

#[tokio::test(start_paused = true)]
async fn a_schematic_is_registered_once() {
    let (client, script) = client(vec![reply(201, REGISTERED)]);
    for _ in 0..2 {
        assert_eq!(client.register(&agent()).await.unwrap(), agent().id());
    }
    insta::assert_snapshot!(asked(&script), @r#"POST https://factory.talos.dev/schematics {"customization": {"systemExtensions": {"officialExtensions": ["siderolabs/qemu-guest-agent"]}}}"#);
}

#[tokio::test(start_paused = true)]
async fn another_id_is_an_error_that_names_both() {
    let (client, _) = client(vec![reply(201, REGISTERED), reply(201, "{}"), reply(201, "<html>")]);
    let mut words = Vec::new();
    for _ in 0..3 {
        let error = client.register(&Schematic::default()).await.unwrap_err();
        words.push(format!("{error}\n  {}", error.hint()));
    }
    insta::assert_snapshot!(words.join("\n"), @"
    could not register the schematic 376567988ad3 at https://factory.talos.dev/schematics: the factory calls this schematic ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515, and by its bytes it is 376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba
      nothing was changed; use the id of the factory as schematic_id if you trust it, and report this
    could not register the schematic 376567988ad3 at https://factory.talos.dev/schematics: it answered without an id
      is factory.talos.dev an Image Factory? Check factory_url
    could not register the schematic 376567988ad3 at https://factory.talos.dev/schematics: it answered something else than JSON
      is factory.talos.dev an Image Factory? Check factory_url
    ");
}

#[tokio::test(start_paused = true)]
async fn passing_failures_are_tried_again() {
    let (client, script) =
        client(vec![refused(), reply(503, "busy"), reply(200, r#"["v1.14.0-rc.1","v1.9.6","v1.13.9"]"#)]);
    let versions: Vec<String> = client.versions().await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(versions, ["1.9.6", "1.13.9", "1.14.0-rc.1"]);
    assert_eq!(asked(&script).lines().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn extensions_are_checked_against_the_version() {
    let list = r#"[{"name":"siderolabs/qemu-guest-agent","ref":"ghcr.io/siderolabs/qemu-guest-agent:9.1.0"},{"name":"siderolabs/i915"}]"#;
    let (client, script) = client(vec![reply(200, list)]);
    let named = ["siderolabs/qemu-agent", "siderolabs/i915-ucode", "siderolabs/qemu-guest-agent"];
    let schematic = Schematic { extensions: named.map(ToOwned::to_owned).to_vec(), ..Schematic::default() };
    let remarks = client.check(&schematic, &TALOS).await.unwrap();
    let words: Vec<String> = remarks.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(words.join("\n"), @"
    there is no extension siderolabs/qemu-agent: did you mean siderolabs/qemu-guest-agent?
    siderolabs/i915-ucode is called siderolabs/i915 by now; the old name still works
    ");
    insta::assert_snapshot!(asked(&script), @"GET https://factory.talos.dev/version/v1.13.9/extensions/official");
    // Without extensions there is nothing to ask.
    assert!(client.check(&Schematic::default(), &TALOS).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_failure_says_where_and_what_to_do() {
    let certificate = TransportError::Certificate { reason: "UnknownIssuer".to_owned() };
    let table = vec![
        vec![refused(), refused(), refused()],
        vec![Answer::Fails(certificate)],
        vec![Answer::Silence],
        vec![reply(404, "schematic not found\n")],
        vec![reply(400, "invalid profile path: \"x\"\nsecond line")],
        vec![reply(402, "")],
        vec![reply(401, "unauthorized")],
        vec![reply(500, "<html>"), reply(500, "oops"), reply(500, "oops")],
        vec![moved(302, "http://cdn.example/plain?sig=hunter2")],
        vec![moved(302, "gopher://x")],
        (0..6).map(|_| moved(307, "/again")).collect(),
        vec![moved(304, "/again")],
    ];
    let mut words = Vec::new();
    for answers in table {
        let (client, script) = client(answers);
        let file = ImageFile::for_proxmox(Arch::Amd64, false);
        let error = client.look_at(&agent().id(), &TALOS, &file).await.unwrap_err();
        assert!(!format!("{error} {error:?} {}", error.hint()).contains("hunter2"));
        words.push(format!("{error}\n  {}", error.hint()));
        assert!(script.answers.lock().unwrap().is_empty(), "every answer was asked for: {error}");
    }
    let words = words.join("\n").replace(agent().id().as_str(), "ID");
    insta::assert_snapshot!(words, @r#"
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: it cannot be reached: Connection refused
      can factory.talos.dev be reached from here? In a place without internet, set factory_url to a factory there
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: its certificate is not trusted: UnknownIssuer
      add the authority that signed it to the system's, or name its file in SSL_CERT_FILE
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: no answer within 600 s
      a factory makes an image when it is first asked for, which takes minutes: try again
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: not found: schematic not found
      is the Talos version one this factory has, and was the schematic registered with it?
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: it answers 400: invalid profile path: "x"
      the factory's own words above say what it dislikes
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: it answers 402
      the factory's own words above say what it dislikes
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: it answers 401: unauthorized
      factory.talos.dev wants to know who asks; use a factory without log-in, or one that knows this host
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: it answers 500: oops
      try again in a while
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: it redirects to http://cdn.example/plain, which is not protected
      is factory.talos.dev an Image Factory? Check factory_url
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: it redirects to no address that can be used
      is factory.talos.dev an Image Factory? Check factory_url
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/again: more than 5 redirects
      is factory.talos.dev an Image Factory? Check factory_url
    could not look at nocloud-amd64.qcow2 at https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64.qcow2: it answers 304 where no redirect is expected
      is factory.talos.dev an Image Factory? Check factory_url
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_download_follows_redirects_and_counts() {
    let file = Answer::Reply { status: 200, location: None, length: Some(6), body: vec!["abc", "", "def"] };
    let (client, script) =
        client(vec![moved(302, "https://cdn.example/f?sig=hunter2"), moved(301, "/g"), file]);
    let download =
        client.open(&agent().id(), &TALOS, &ImageFile::for_proxmox(Arch::Amd64, true)).await.unwrap();
    let (mut bytes, mut seen) = (Vec::new(), Vec::new());
    let done = download.copy_to(&mut bytes, &mut |now, all| seen.push((now, all))).await.unwrap();
    assert_eq!((text(&bytes).as_str(), done.size), ("abcdef", 6));
    assert_eq!(done.sha256, "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721");
    assert_eq!(seen.last(), Some(&(6, Some(6))));
    insta::assert_snapshot!(asked(&script).replace(agent().id().as_str(), "ID"), @"
    GET https://factory.talos.dev/image/ID/v1.13.9/nocloud-amd64-secureboot.qcow2
    GET https://cdn.example/f
    GET https://cdn.example/g
    ");
}

#[tokio::test(start_paused = true)]
async fn half_a_file_is_no_file() {
    let mut words = Vec::new();
    for body in [vec!["abc"], vec!["abc", "(breaks)"], vec!["abc", "(silence)"]] {
        let (client, _) = client(vec![Answer::Reply { status: 200, location: None, length: Some(6), body }]);
        let download = client.open_url("https://factory.talos.dev/image/f.qcow2").await.unwrap();
        let error = download.copy_to(&mut Vec::new(), &mut |_, _| {}).await.unwrap_err();
        words.push(error.to_string());
    }
    insta::assert_snapshot!(words.join("\n"), @"
    could not download f.qcow2 at https://factory.talos.dev/image/f.qcow2: the reply was cut off: 3 of 6 bytes came
    could not download f.qcow2 at https://factory.talos.dev/image/f.qcow2: the reply was cut off: the connection broke
    could not download f.qcow2 at https://factory.talos.dev/image/f.qcow2: no answer within 60 s
    ");
}

#[tokio::test(start_paused = true)]
async fn a_host_can_be_reached_by_another_way() {
    let (_, script) = client(vec![reply(200, "[]"), moved(302, "https://cdn.example/f"), reply(200, "x")]);
    let to = Address::parse("http://127.0.0.1:9/ignored").unwrap();
    let from = "factory.talos.dev".to_owned();
    let transport = Rerouted { inner: Arc::clone(&script) as Arc<dyn Transport>, from, to };
    let client = FactoryClient::new(Factory::official(), Arc::new(transport), Settings::default());
    assert!(client.versions().await.unwrap().is_empty());
    // The address that was asked for counts: what it redirects to stays protected.
    client.open_url("https://factory.talos.dev/image/f?x=1").await.unwrap();
    insta::assert_snapshot!(asked(&script), @"
    GET http://127.0.0.1:9/versions
    GET http://127.0.0.1:9/image/f
    GET https://cdn.example/f
    ");
}

#[tokio::test]
async fn real_sockets_carry_requests_and_bodies() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = async {
        for answer in [
            "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello",
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 2048];
            let read = stream.read(&mut buffer).await.unwrap();
            let head = text(&buffer[..read]).to_lowercase();
            assert!(head.contains("host: 127.0.0.1:") && head.contains("user-agent: talmox/"), "{head}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    let base = Url::parse(&format!("http://127.0.0.1:{port}")).unwrap();
    let transport = Arc::new(HttpTransport::new().unwrap());
    let client = FactoryClient::new(Factory::new(base.clone()), transport, Settings::default());
    let ask = async {
        let mut bytes = Vec::new();
        let download = client.open_url(&format!("{base}/file")).await.unwrap();
        assert_eq!(download.size(), Some(5));
        download.copy_to(&mut bytes, &mut |_, _| {}).await.unwrap();
        assert_eq!(text(&bytes), "hello");
        let download = client.open_url(&format!("{base}/file")).await.unwrap();
        download.copy_to(&mut bytes, &mut |_, _| {}).await.unwrap_err().to_string()
    };
    let ((), error) = tokio::join!(serve, ask);
    assert!(error.contains("cut off"), "{error}");
    // The listener is still there, but nobody accepts any more once it is dropped.
    drop(listener);
    let error = client.versions().await.unwrap_err().to_string();
    assert!(error.contains("Connection refused"), "{error}");
}
