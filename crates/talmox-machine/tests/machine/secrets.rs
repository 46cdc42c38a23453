//! The bundle: made, written, read, extracted.

use secrecy::ExposeSecret as _;
use talmox_machine::secrets::{Encryption, ExtractError, from_config};
use talmox_machine::{Bundle, Role};

use crate::{CONTRACTS, NOW, bundle, config, source};

fn text() -> String {
    bundle().to_yaml().expose_secret().to_owned()
}

fn faults(text: &str) -> Vec<String> {
    let error = Bundle::parse(source("secrets.yaml", text)).map(|_| ()).unwrap_err();
    error.0.iter().map(|fault| format!("{}: {}", fault.place.path, fault.message)).collect()
}

#[test]
fn what_is_written_reads_back() {
    let read = Bundle::parse(source("secrets.yaml", &text())).unwrap();
    assert_eq!(read.to_yaml().expose_secret(), &text());
    assert!(read.check(NOW).is_empty());
}

#[test]
fn a_bundle_ends_with_its_authorities() {
    let last = NOW.plus(87_600 * 3600);
    assert!(bundle().check(last).is_empty());
    assert_eq!(bundle().check(last.plus(1)).len(), 4);
    assert!(bundle().broken(last.plus(1)).is_empty(), "what ended is no reason to do without the rest");
    assert_eq!(bundle().check(NOW.plus(-1)).len(), 4);
    assert_eq!(bundle().held().iter().filter(|held| held.ends == Some(last)).count(), 4);
}

#[test]
fn talhelper_writes_the_same_document_with_another_indent() {
    let narrow = text().replace("    ", "  ");
    let read = Bundle::parse(source("talsecret.yaml", &narrow)).unwrap();
    assert_eq!(read.to_yaml().expose_secret(), &text());
}

#[test]
fn a_control_plane_has_all_of_it() {
    for minor in CONTRACTS {
        let extracted = from_config(&config(minor, Role::ControlPlane)).unwrap();
        assert_eq!(extracted.to_yaml().expose_secret(), &text(), "1.{minor}");
    }
}

#[test]
fn a_worker_and_a_masked_config_have_not() {
    let missing = |config| from_config(&config).map(|_| ()).unwrap_err();
    assert!(matches!(missing(config(13, Role::Worker)), ExtractError::Missing(_)));
    assert!(matches!(missing(config(14, Role::Worker)), ExtractError::Missing(_)));
    assert!(matches!(missing(config(13, Role::ControlPlane).redacted()), ExtractError::Missing(_)));
}

#[test]
fn an_old_encryption_secret_is_carried_into_every_layout() {
    let old = text().replace("secretboxencryptionsecret", "aescbcencryptionsecret");
    let old = Bundle::parse(source("secrets.yaml", &old)).unwrap();
    for minor in CONTRACTS {
        let mut input = crate::input(minor, talmox_machine::Options::default());
        input.secrets = &old;
        let extracted = from_config(&input.generate(Role::ControlPlane).unwrap()).unwrap();
        assert!(matches!(extracted.encryption, Encryption::AesCbc(_)), "1.{minor}");
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once_and_no_secret_with_it() {
    let lines: Vec<String> = text().lines().map(str::to_owned).collect();
    let changed: Vec<String> = lines
        .iter()
        .map(|line| match line.trim_start().split(':').next() {
            Some("id") => String::new(),
            Some("secret") => "    secret: hunter2".to_owned(),
            Some("bootstraptoken") => "    bootstraptoken: hunter2".to_owned(),
            Some("token") => "    token: ENC[AES256_GCM,data:hunter2]".to_owned(),
            Some("crt") => "        crt: hunter2".to_owned(),
            Some("trustdinfo") => "extra: hunter2\ntrustdinfo:".to_owned(),
            _ => line.clone(),
        })
        .collect();
    let found = faults(&changed.join("\n"));
    assert_eq!(
        found,
        [
            ": a secrets bundle has no such key",
            "cluster.id: is missing",
            "cluster.secret: 32 bytes in base64 are wanted",
            "secrets.bootstraptoken: a token has two parts with a dot between",
            "trustdinfo.token: is encrypted; decrypt the file first",
            "certs.etcd.crt: PEM in base64 is wanted",
            "certs.k8s.crt: PEM in base64 is wanted",
            "certs.k8saggregator.crt: PEM in base64 is wanted",
            "certs.os.crt: PEM in base64 is wanted",
        ]
    );
}

#[test]
fn keys_of_others_are_noticed() {
    let mut mixed = bundle().clone();
    mixed.etcd.key = mixed.kubernetes.key.clone();
    assert_eq!(mixed.check(NOW), ["certs.etcd: the key does not belong to the certificate"]);
}

#[test]
fn both_encryption_secrets_are_one_too_many() {
    let both = text().replace("    bootstraptoken", "    aescbcencryptionsecret: x\n    bootstraptoken");
    assert_eq!(
        faults(&both),
        ["secrets: either secretboxencryptionsecret or aescbcencryptionsecret, not both"]
    );
}

#[test]
fn of_a_file_that_is_no_bundle_nothing_is_shown() {
    for text in [
        "hush-hush: 1\n",
        "hush-hush: 1\nhush-hush: 2\n",
        "cluster: {hush-hush: hush-hush}\n",
        "hush-hush: [\n",
        "- hush-hush\n",
    ] {
        let error = Bundle::parse(source("x", text)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("x:1:") || error.contains("x:2:"), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

#[test]
fn what_is_no_bundle_is_refused() {
    for text in ["", "[]", "a: b\n---\nc: d\n", "cluster: 1\n", "\t"] {
        assert!(Bundle::parse(source("x", text)).is_err(), "{text:?}");
    }
}
