//! Another implementation looks at the certificates.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use secrecy::ExposeSecret as _;
use talmox_machine::SystemRandom;
use talmox_machine::client::{DEFAULT_LIFETIME, TalosRole};

use crate::{NOW, bundle};

/// Whether there is an OpenSSL to ask; only CI insists on one.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a program only CI insists on")]
fn present() -> bool {
    let found = Command::new("openssl").arg("version").output().is_ok_and(|output| output.status.success());
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(found || !strict, "no openssl");
    if !found {
        println!("skipped: no openssl");
    }
    found
}

/// A folder that is gone when the test is.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("talmox-machine-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn openssl(arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn verify(authority: &Path, certificate: &Path, purpose: &str) -> String {
    let now = NOW.unix().to_string();
    let (authority, certificate) = (authority.to_str().unwrap(), certificate.to_str().unwrap());
    openssl(&["verify", "-attime", &now, "-purpose", purpose, "-CAfile", authority, certificate])
}

#[test]
fn authorities_are_as_talos_makes_them() {
    if !present() {
        return;
    }
    let folder = Folder::new("authorities");
    let bundle = bundle();
    for (name, authority, subject) in [
        ("etcd", &bundle.etcd, "subject=O = etcd"),
        ("k8s", &bundle.kubernetes, "subject=O = kubernetes"),
        ("aggregator", &bundle.aggregator, "subject="),
        ("os", &bundle.os, "subject=O = talos"),
    ] {
        let file = folder.write(name, authority.certificate.pem());
        assert!(verify(&file, &file, "any").contains("OK"), "{name}");
        let shown = openssl(&["x509", "-in", file.to_str().unwrap(), "-noout", "-subject", "-text"]);
        assert_eq!(shown.lines().next().unwrap().trim_end().replace("O=", "O = "), subject);
        for expected in [
            "Version: 3 (0x2)",
            "Digital Signature, Certificate Sign",
            "TLS Web Server Authentication, TLS Web Client Authentication",
            "CA:TRUE",
            "Subject Key Identifier",
        ] {
            assert!(shown.contains(expected), "{name}: {expected}\n{shown}");
        }
        assert!(!shown.contains("pathlen") && !shown.contains("Authority Key"), "{shown}");
    }
}

#[test]
fn clients_are_clients_of_their_authority_and_nothing_else() {
    if !present() {
        return;
    }
    let folder = Folder::new("clients");
    let bundle = bundle();
    let roles = [TalosRole::Reader, TalosRole::Admin];
    let talos = bundle.talos_client(&roles, NOW, DEFAULT_LIFETIME, &mut SystemRandom).unwrap();
    let admin = bundle.kubernetes_admin(NOW, DEFAULT_LIFETIME, &mut SystemRandom).unwrap();
    for (name, client, authority, subject, usage) in [
        ("talos", &talos, &bundle.os, "O=os:reader+O=os:admin", "Digital Signature\n"),
        (
            "admin",
            &admin,
            &bundle.kubernetes,
            "O=system:masters,CN=admin",
            "Digital Signature, Key Encipherment\n",
        ),
    ] {
        let certificate = folder.write(name, client.certificate.pem());
        let issuer = folder.write(&format!("{name}-ca"), authority.certificate.pem());
        assert!(verify(&issuer, &certificate, "sslclient").contains("OK"), "{name}");
        let file = certificate.to_str().unwrap();
        let refused = Command::new("openssl")
            .args(["verify", "-attime", &NOW.unix().to_string(), "-purpose", "sslserver", "-CAfile"])
            .args([issuer.to_str().unwrap(), file])
            .output()
            .unwrap();
        assert!(!refused.status.success(), "{name} is no server");
        let shown = openssl(&[
            "x509",
            "-in",
            file,
            "-noout",
            "-subject",
            "-nameopt",
            "sep_comma_plus,dn_rev,oid",
            "-text",
        ]);
        let found = openssl(&["x509", "-in", file, "-noout", "-subject", "-nameopt", "RFC2253,sname"]);
        let mut parts: Vec<&str> = found.trim().trim_start_matches("subject=").split(',').collect();
        parts.reverse();
        assert_eq!(parts.join(","), subject);
        assert!(shown.contains(usage) && shown.contains("TLS Web Client Authentication"), "{shown}");
        assert!(
            shown.contains("Authority Key Identifier") && !shown.contains("Basic Constraints"),
            "{shown}"
        );
    }
}

#[test]
fn keys_are_readable() {
    if !present() {
        return;
    }
    let folder = Folder::new("keys");
    let key = |key: &talmox_machine::pki::PrivateKey, name: &str, label: &str| {
        let pem = key.pem().expose_secret();
        assert!(pem.starts_with(&format!("-----BEGIN {label}-----\n")), "{name}");
        // OpenSSL knows Ed25519 under the standard label only.
        let standard = pem.replace("ED25519 PRIVATE KEY", "PRIVATE KEY");
        let file = folder.write(name, &standard);
        openssl(&["pkey", "-in", file.to_str().unwrap(), "-noout", "-check"])
    };
    let bundle = bundle();
    key(&bundle.etcd.key, "etcd", "EC PRIVATE KEY");
    key(&bundle.service_account, "sa", "RSA PRIVATE KEY");
    let file = folder.write("os", &bundle.os.key.pem().expose_secret().replace("ED25519 PRIVATE", "PRIVATE"));
    assert!(bundle.os.key.pem().expose_secret().starts_with("-----BEGIN ED25519 PRIVATE KEY-----\n"));
    assert!(openssl(&["pkey", "-in", file.to_str().unwrap(), "-noout", "-text"]).contains("ED25519"));
}
