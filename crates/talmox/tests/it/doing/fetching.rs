//! What a run fetches, and what machines fetch from it.

use std::net::SocketAddr;
use std::sync::Arc;

use insta::assert_snapshot;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::doing::{CLUSTER, Lab, NODES, Run};
use crate::support::finish;

const HOST: &str = "config.lab.example";

/// An authority of the test's own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "an authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(parameters, key), certificate }
    }

    /// Certificate and key for a host.
    fn give(&self, host: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let given = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &self.issuer);
        (given.unwrap().pem(), key.serialize_pem())
    }
}

/// A lab whose machines fetch their configuration, and the files that takes.
fn lab(name: &str, authority: &Authority, more: &str) -> Lab {
    let lab = Lab::new(name);
    lab.describe(&format!("{CLUSTER}config_delivery: url\nnode_network: dhcp\n{more}"), NODES);
    let (certificate, key) = authority.give(HOST);
    let own = KeyPair::generate().unwrap();
    let self_signed = CertificateParams::new(vec![HOST.to_owned()]).unwrap().self_signed(&own).unwrap();
    let files = [
        ("ca.pem", authority.certificate.clone()),
        ("cert.pem", certificate),
        ("key.pem", key),
        ("self.pem", self_signed.pem()),
        ("self.key", own.serialize_pem()),
    ];
    for (name, text) in files {
        std::fs::write(lab.scratch.0.join(name), text).unwrap();
    }
    lab
}

/// Runs `apply` with these files of the lab to serve configurations with.
fn apply(lab: &Lab, flags: &[(&str, &str)], until: Option<&str>) -> Run {
    let mut command = lab.command(&["apply", "--auto-approve"]);
    command.env_remove("TALMOX_UNTIL").env("SSL_CERT_FILE", lab.scratch.path("ca.pem"));
    command.args(["--config-listen", "127.0.0.1:0"]);
    for (flag, value) in flags {
        let is_file = matches!(*flag, "--config-cert" | "--config-key" | "--config-ca");
        command.args([*flag, &if is_file { lab.scratch.path(value) } else { (*value).to_owned() }]);
    }
    if let Some(until) = until {
        command.args(["--until", until]);
    }
    finish(&mut command)
}

const URL: (&str, &str) = ("--config-url", "https://config.lab.example");
const CERTIFICATE: (&str, &str) = ("--config-cert", "cert.pem");
const KEY: (&str, &str) = ("--config-key", "key.pem");
const TRUSTED: (&str, &str) = ("--config-ca", "ca.pem");

#[test]
fn what_machines_would_not_take_is_refused_before_anything_is_made() {
    let lab = lab("url-refused", &Authority::new(), "");
    let refused = |flags: &[(&str, &str)]| {
        let run = apply(&lab, flags, None).failed();
        let from = run.stderr.find("error: ").unwrap();
        lab.filtered(&run.stderr[from..])
    };
    assert_snapshot!("url_without_a_server", refused(&[]));
    let own = [URL, ("--config-cert", "self.pem"), ("--config-key", "self.key"), TRUSTED];
    assert_snapshot!("url_with_a_self_signed_certificate", refused(&own));
    assert_snapshot!("url_with_an_unknown_authority", refused(&[URL, CERTIFICATE, KEY]));
    let elsewhere = ("--config-url", "https://elsewhere.example");
    assert_snapshot!("url_of_another_host", refused(&[elsewhere, CERTIFICATE, KEY, TRUSTED]));
    let status = finish(lab.command(&["status"]).env("TALMOX_UNTIL", "vms")).succeeded().stdout;
    assert!(status.starts_with("lab  0 of 3 VMs run"), "{status}");
}

/// Serves one file over HTTPS for as long as it is kept.
async fn serve(authority: &Authority, body: &'static str) -> (SocketAddr, JoinSet<()>) {
    let (certificate, key) = authority.give("127.0.0.1");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        );
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // Whoever does not trust it is gone.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked).await;
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length";
            let _ = stream.write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (address, tasks)
}

const MANIFEST: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: from-the-web}\n";

/// Machines fetch their configuration from the run, the run fetches manifests, and hands over to a program that fails at first.
#[tokio::test(flavor = "multi_thread")]
async fn machines_fetch_their_configuration_and_the_run_its_manifests() {
    let authority = Authority::new();
    let (manifests, _served) = serve(&authority, MANIFEST).await;
    let more = format!(
        "bootstrap_manifests: [\"https://{manifests}/namespace.yaml\"]\npost_bootstrap: [sh, hand-over.sh, now]\n"
    );
    let lab = lab("url", &authority, &more);
    let script = |text: &str| std::fs::write(lab.scratch.0.join("hand-over.sh"), text).unwrap();
    script("echo there is no flux here >&2\nexit 3\n");
    let lab = tokio::task::spawn_blocking(move || {
        let flags = [URL, CERTIFICATE, KEY, TRUSTED];
        let failed = apply(&lab, &flags, None).failed();
        let from = failed.stderr.find("error: ").unwrap();
        let told = lab.filtered(&failed.stderr[from..]);
        assert!(told.contains("could not run sh: it ended with exit status: 3\n"), "{told}");
        assert!(told.contains("  there is no flux here"), "{told}");
        assert!(told.contains("apply --config-url https://config.lab.example --config-cert"), "{told}");
        assert!(
            failed.stderr.contains("machines fetch their configuration from https://config.lab.example:")
        );
        lab
    })
    .await
    .unwrap();
    // It gets files of its own to reach the cluster by, and what it was called with.
    std::fs::write(
        lab.scratch.0.join("hand-over.sh"),
        "test -s \"$KUBECONFIG\" && test -s \"$TALOSCONFIG\" && echo \"$1\" >> handed-over\n",
    )
    .unwrap();
    tokio::task::spawn_blocking(move || {
        // Nothing is fetched by machines any more, and nobody has to serve them.
        let done = apply(&lab, &[], None).succeeded();
        assert!(done.stderr.contains("lab: healthy, 3 nodes as described"), "{}", done.whole());
        let again = apply(&lab, &[], None).succeeded();
        assert!(again.stdout.starts_with("No changes."), "{}", again.whole());
        #[expect(clippy::disallowed_methods, reason = "a file the test itself had written")]
        let handed = std::fs::read_to_string(lab.scratch.0.join("handed-over")).unwrap();
        assert_eq!(handed, "now\n", "once");
        let told =
            finish(lab.command(&["status", "-o", "json"]).env_remove("TALMOX_UNTIL")).succeeded().stdout;
        assert!(!told.contains("smbios1 says"), "{told}");
    })
    .await
    .unwrap();
}
