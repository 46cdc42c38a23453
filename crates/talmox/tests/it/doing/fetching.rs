//! What a run fetches, and what machines fetch from it.

use insta::assert_snapshot;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

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

const HOOK: &str = "bootstrap_manifests: [\"https://127.0.0.1:1/namespace.yaml\", own.yaml]\npost_bootstrap: [sh, hand-over.sh, now]\n";

/// Machines fetch their configuration from the run. What the run itself would fetch, and the program it would run, are told.
#[test]
fn machines_fetch_their_configuration_and_a_simulation_fetches_and_runs_nothing() {
    let lab = lab("url", &Authority::new(), HOOK);
    std::fs::write(lab.scratch.0.join("hand-over.sh"), "touch handed-over\n").unwrap();
    let manifest = "apiVersion: v1\nkind: Namespace\nmetadata: {name: of-a-file}\n";
    std::fs::write(lab.scratch.0.join("own.yaml"), manifest).unwrap();
    let done = apply(&lab, &[URL, CERTIFICATE, KEY, TRUSTED], None).succeeded();
    for said in [
        "machines fetch their configuration from https://config.lab.example:",
        "lab: healthy, 3 nodes as described",
        "a simulation runs no program; apply would run [\"sh\", \"hand-over.sh\", \"now\"] (post_bootstrap)",
        "a simulation fetches nothing; apply would fetch and apply https://127.0.0.1:1/namespace.yaml",
    ] {
        assert!(done.stderr.contains(said), "{said} is missing in\n{}", done.whole());
    }
    assert!(!lab.scratch.0.join("handed-over").exists());
    // Nothing is fetched by machines any more, and nobody has to serve them.
    let again = apply(&lab, &[], None).succeeded();
    assert!(again.stdout.starts_with("No changes."), "{}", again.whole());
    let told = finish(lab.command(&["status", "-o", "json"]).env_remove("TALMOX_UNTIL")).succeeded().stdout;
    assert!(!told.contains("smbios1 says"), "{told}");
}
