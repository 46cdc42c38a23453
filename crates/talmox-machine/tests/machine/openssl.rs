//! Another implementation looks at the certificates.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret as _;
use talmox_machine::client::{
    ClientFile as _, Context, DEFAULT_LIFETIME, Kubeconfig, TalosRole, Talosconfig,
};
use talmox_machine::{SystemRandom, Value, read_values};

use crate::{NOW, bundle, source};

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

/// OpenSSL knows Ed25519 under the standard label only.
fn standard_label(pem: &str) -> String {
    pem.replace("ED25519 PRIVATE KEY", "PRIVATE KEY")
}

/// Machines sign with these keys themselves: servers and clients of etcd, of Kubernetes, of the aggregator (front proxy) and of
/// Talos. Here OpenSSL signs one of each, and accepts it under its own authority and under no other.
#[test]
fn every_authority_signs_servers_and_clients() {
    if !present() {
        return;
    }
    let folder = Folder::new("signing");
    let bundle = bundle();
    let authorities = [
        ("etcd", &bundle.etcd),
        ("k8s", &bundle.kubernetes),
        ("aggregator", &bundle.aggregator),
        ("os", &bundle.os),
    ];
    let path = |name: String| folder.0.join(name).to_str().unwrap().to_owned();
    let extensions = folder.write(
        "extensions",
        "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\nauthorityKeyIdentifier=keyid\n",
    );
    for (name, authority) in authorities {
        let certificate = folder.write(&format!("{name}.crt"), authority.certificate.pem());
        let key = folder.write(&format!("{name}.key"), &standard_label(authority.key.pem().expose_secret()));
        let (request, own) = (path(format!("{name}-leaf.csr")), path(format!("{name}-leaf.key")));
        openssl(&[
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            "/O=leaf/CN=leaf",
            "-keyout",
            &own,
            "-out",
            &request,
        ]);
        openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            certificate.to_str().unwrap(),
            "-CAkey",
            key.to_str().unwrap(),
            "-set_serial",
            "7",
            "-days",
            "30",
            "-extfile",
            extensions.to_str().unwrap(),
            "-out",
            &path(format!("{name}-leaf.crt")),
        ]);
    }
    for (name, _) in authorities {
        for (other, _) in authorities {
            for purpose in ["sslserver", "sslclient"] {
                // OpenSSL signs with the clock it finds, which is not the tests' time.
                let verified = Command::new("openssl")
                    .args(["verify", "-no_check_time", "-purpose", purpose, "-CAfile"])
                    .args([path(format!("{other}.crt")), path(format!("{name}-leaf.crt"))])
                    .output()
                    .unwrap();
                assert_eq!(verified.status.success(), name == other, "{name} under {other} as {purpose}");
            }
        }
    }
}

/// A text of a file, decoded.
fn decoded(file: &Value, path: &[&str]) -> String {
    String::from_utf8(STANDARD.decode(file.at(path).and_then(Value::as_text).unwrap()).unwrap()).unwrap()
}

/// What a talosconfig and a kubeconfig carry is enough to verify their certificates, and the keys belong to them.
#[test]
fn client_files_carry_whole_chains() {
    if !present() {
        return;
    }
    let folder = Folder::new("client-files");
    let bundle = bundle();
    let client = bundle.talos_client(&[TalosRole::Admin], NOW, DEFAULT_LIFETIME, &mut SystemRandom).unwrap();
    let context = Context { name: "c", endpoints: &[], nodes: &[] };
    let talosconfig = Talosconfig::new(&context, bundle, &client).to_yaml();
    let admin = bundle.kubernetes_admin(NOW, DEFAULT_LIFETIME, &mut SystemRandom).unwrap();
    let kubeconfig = Kubeconfig::new("c", "https://10.0.0.1:6443", bundle, &admin).to_yaml();
    let first = |text: &str| read_values(source("file", text)).unwrap().remove(0);
    let talos = first(talosconfig.expose_secret());
    let kubernetes = first(kubeconfig.expose_secret());
    let item = |list: &str| kubernetes.at(&[list]).and_then(Value::as_list).unwrap()[0].clone();
    let (cluster, user) = (item("clusters"), item("users"));
    let chains = [
        ("talos", ["ca", "crt", "key"].map(|key| decoded(&talos, &["contexts", "c", key]))),
        (
            "kubernetes",
            [
                decoded(&cluster, &["cluster", "certificate-authority-data"]),
                decoded(&user, &["user", "client-certificate-data"]),
                decoded(&user, &["user", "client-key-data"]),
            ],
        ),
    ];
    let mut authorities = Vec::new();
    for (name, [authority, certificate, key]) in &chains {
        let authority = folder.write(&format!("{name}-ca"), authority);
        let certificate = folder.write(&format!("{name}-crt"), certificate);
        let key = folder.write(&format!("{name}-key"), &standard_label(key));
        assert!(verify(&authority, &certificate, "sslclient").contains("OK"), "{name}");
        let of_certificate = openssl(&["x509", "-in", certificate.to_str().unwrap(), "-noout", "-pubkey"]);
        let of_key = openssl(&["pkey", "-in", key.to_str().unwrap(), "-pubout"]);
        assert_eq!(of_certificate, of_key, "{name}: the key belongs to the certificate");
        authorities.push((authority, certificate));
    }
    let [(talos, _), (_, admin)] = authorities.as_slice() else { unreachable!("two files") };
    let crossed = Command::new("openssl")
        .args(["verify", "-attime", &NOW.unix().to_string(), "-CAfile", talos.to_str().unwrap()])
        .arg(admin)
        .output()
        .unwrap();
    assert!(!crossed.status.success(), "Talos' authority does not vouch for Kubernetes' clients");
}
