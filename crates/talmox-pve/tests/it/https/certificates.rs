//! Whom the transport believes.

use talmox_pve::client::{ErrorKind, HttpsTransport, InvalidTrust, Outcome, Trust};

use crate::https::server::{Act, Server, ok};
use crate::https::{client, told};

const VERSION: &str = r#"{"version":"9.2.11","release":"9.2"}"#;

fn always(_: usize) -> Act {
    Act::Reply(ok(VERSION))
}

#[tokio::test]
async fn an_unknown_certificate_shows_its_fingerprint_and_where_to_compare_it() {
    let server = Server::start(always).await;
    let stranger = Server::start(always).await;
    let error = client(server.endpoint.clone(), stranger.trust()).version().await.unwrap_err();
    let ErrorKind::Certificate(certificate) = error.kind() else { panic!("{error:?}") };
    assert_eq!(certificate.fingerprint, server.fingerprint);
    assert_eq!(error.outcome(), Outcome::NeverSent);
    assert!(server.requests().is_empty(), "the token went to a stranger");
    let told = told(&error).replace(&server.fingerprint.to_string(), "AB:CD:…");
    insta::assert_snapshot!(told, @"
    error: https://127.0.0.1:PORT shows a certificate that nobody vouches for: its fingerprint is not among the trusted ones
      SHA-256 fingerprint AB:CD:…
    hint: compare the fingerprint on 127.0.0.1: `pvenode cert info`, or in the web interface Datacenter → node → System → Certificates
    hint: if it is the same, trust the fingerprint AB:CD:…, or the cluster's CA (/etc/pve/pve-root-ca.pem)
    ");
}

#[tokio::test]
async fn a_fingerprint_or_an_authority_is_enough() {
    let server = Server::start(always).await;
    for trust in [server.trust(), Trust::Authorities(server.authority.clone()), Trust::Insecure] {
        client(server.endpoint.clone(), trust).version().await.unwrap();
    }
}

#[tokio::test]
async fn another_authority_is_not() {
    let server = Server::start(always).await;
    let stranger = Server::start(always).await;
    let trust = Trust::Authorities(stranger.authority.clone());
    let error = client(server.endpoint.clone(), trust).version().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Certificate(unknown) if unknown.reason == "its issuer is not trusted")
    );
}

#[tokio::test]
async fn a_certificate_for_another_name_needs_its_fingerprint() {
    let server = Server::start_named("pve9.example", always).await;
    let trust = Trust::Authorities(server.authority.clone());
    let error = client(server.endpoint.clone(), trust).version().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Certificate(unknown) if unknown.reason == "it is for another host name")
    );
    client(server.endpoint.clone(), server.trust()).version().await.unwrap();
}

#[test]
fn a_file_without_a_certificate_is_no_authority() {
    for (pem, expected) in
        [("", InvalidTrust::NoCertificate), ("not a certificate", InvalidTrust::NoCertificate)]
    {
        assert_eq!(HttpsTransport::new(Trust::Authorities(pem.to_owned())).err(), Some(expected));
    }
}
