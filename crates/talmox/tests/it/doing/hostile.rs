//! A Proxmox, or whoever answers in its place, whose words would act on a terminal and repeat the token they came with:
//! no verb, on a terminal or in a pipe, for people or for programs, passes that on.

use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use talmox_types::is_hidden;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::doing::{CLUSTER, NODES};
use crate::support::terminal::Terminal;
use crate::support::{Scratch, command, finish};

const SECRET: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
const FORGED: &str = "Plan: 0 to destroy";

/// What follows the beginning of a reply's message.
fn words(request: &str) -> String {
    let token = request.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or_default();
    format!(
        "\u{1b}[2J\u{1b}]0;PWNED\u{7}\u{9b}31m\u{202e}\u{200b} {token}\n{FORGED}\nhint: {FORGED}\r{FORGED}"
    )
}

/// How a server answers: a status line and a body.
type Answer = fn(&str) -> (String, String);

const ANSWERS: [Answer; 5] = [
    |request| ("500 no".to_owned(), serde_json::json!({ "message": words(request) }).to_string()),
    |request| {
        let errors = serde_json::json!({ (words(request)): words(request) });
        ("400 no".to_owned(), serde_json::json!({ "message": words(request), "errors": errors }).to_string())
    },
    |request| {
        ("403 no".to_owned(), serde_json::json!({ "message": format!("Permission check failed (/{}, {})", words(request), words(request)) }).to_string())
    },
    |request| {
        let version = serde_json::json!({ "version": words(request), "release": "9.2" });
        ("200 OK".to_owned(), serde_json::json!({ "data": version }).to_string())
    },
    |request| {
        let phrase: String = words(request).chars().filter(|c| !c.is_ascii_control()).collect();
        (format!("401 {phrase}"), String::new())
    },
];

/// Answers every request the same way.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor, answer: Answer) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut request = Vec::new();
            while !request.windows(4).any(|window| window == b"\r\n\r\n") {
                if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let (status, body) = answer(&String::from_utf8_lossy(&request));
            let head =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            let _ = stream.shutdown().await;
        });
    }
}

fn acceptor() -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate.der().to_vec())],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        );
    TlsAcceptor::from(Arc::new(config.unwrap()))
}

#[track_caller]
fn assert_harmless(text: &str, how: &str) {
    for line in text.split('\n') {
        assert!(!line.contains(is_hidden), "{how}: {line:?} in\n{text}");
        let begins = line.trim_start_matches(['#', ' ']);
        assert!(!begins.starts_with(FORGED) && !begins.starts_with("hint: Plan"), "{how}: {text}");
    }
    assert!(!text.contains(SECRET), "{how}: {text}");
}

const VERBS: [&[&str]; 9] = [
    &["plan"],
    &["plan", "-o", "json"],
    &["status"],
    &["status", "-o", "json"],
    &["check"],
    &["check", "--setup"],
    &["destroy", "--auto-approve"],
    &["apply", "--auto-approve"],
    &["output"],
];

#[tokio::test(flavor = "multi_thread")]
async fn no_word_of_a_server_acts_on_a_terminal() {
    for (number, answer) in ANSWERS.into_iter().enumerate() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("https://{}", listener.local_addr().unwrap());
        let mut server = JoinSet::new();
        server.spawn(serve(listener, acceptor(), answer));
        let runs = tokio::task::spawn_blocking(move || {
            let scratch = Scratch::new(&format!("hostile-{number}"));
            let cluster = format!("{CLUSTER}proxmox_endpoint: {endpoint}\n");
            std::fs::write(scratch.0.join("cluster.yaml"), cluster).unwrap();
            std::fs::write(scratch.0.join("nodes.yaml"), NODES).unwrap();
            for verb in VERBS {
                let run = || {
                    let mut command = command(verb);
                    command.args(["-f", &scratch.path("")]);
                    command.env("PROXMOX_VE_ENDPOINT", &endpoint).env("PROXMOX_VE_INSECURE", "true");
                    command.env("PROXMOX_VE_API_TOKEN", format!("talmox@pve!ci={SECRET}"));
                    command
                };
                let how = format!("{verb:?}, answer {number}");
                let piped = finish(&mut run());
                let text = piped.whole();
                assert_harmless(&text, &how);
                // It was asked, and what came is told: its words, or that it is no answer.
                let told = ["·", "(masked)", "not what was expected", "no reason given"]
                    .iter()
                    .any(|word| text.contains(word));
                assert!(told, "{how}: {text}");
                let (_, shown) = Terminal::run(run()).ends();
                assert_harmless(&shown, &format!("{how}, on a terminal"));
            }
        });
        runs.await.unwrap();
    }
}
