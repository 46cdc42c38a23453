//! Whom the transport believes.

use talmox_pve::client::{
    Body, ErrorKind, HttpRequest, HttpsTransport, InvalidTrust, Method, Outcome, Target, Transport as _,
    TransportError, Trust,
};

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

#[tokio::test]
async fn a_narrowed_authority_needs_the_fingerprint_too() {
    let server = Server::start(always).await;
    let stranger = Server::start(always).await;
    let base = || Trust::Authorities(server.authority.clone());
    let allowed = base().narrowed(vec![stranger.fingerprint, server.fingerprint]);
    client(server.endpoint.clone(), allowed).version().await.unwrap();
    let asked = server.requests().len();

    let other = base().narrowed(vec![stranger.fingerprint]);
    let error = client(server.endpoint.clone(), other).version().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NeverSent);
    assert_eq!(server.requests().len(), asked, "the token went to a certificate that is not allowed");
    let told = told(&error).replace(&server.fingerprint.to_string(), "AB:CD:…");
    insta::assert_snapshot!(told, @"
    error: https://127.0.0.1:PORT shows a certificate that is not allowed: its issuer is trusted, but its fingerprint is not among the allowed ones
      SHA-256 fingerprint AB:CD:…
    hint: compare the fingerprint on 127.0.0.1: `pvenode cert info`, or in the web interface Datacenter → node → System → Certificates
    hint: if it is the same, allow the fingerprint AB:CD:… too
    ");
}

#[tokio::test]
async fn a_fingerprint_replaces_no_authority_that_is_narrowed() {
    let server = Server::start(always).await;
    let stranger = Server::start(always).await;
    let trust = Trust::Authorities(stranger.authority.clone()).narrowed(vec![server.fingerprint]);
    let error = client(server.endpoint.clone(), trust).version().await.unwrap_err();
    let ErrorKind::Certificate(certificate) = error.kind() else { panic!("{error:?}") };
    assert_eq!(
        certificate.reason,
        "its fingerprint is among the allowed ones, but its issuer is not trusted"
    );
    assert!(!certificate.vouched_for && server.requests().is_empty());
}

#[tokio::test]
async fn what_is_narrowed_to_nothing_believes_nothing() {
    let server = Server::start(always).await;
    let stranger = Server::start(always).await;
    let (own, other) = (vec![server.fingerprint], vec![stranger.fingerprint]);
    for base in [server.trust(), Trust::Authorities(server.authority.clone()), Trust::Insecure] {
        let trust = base.narrowed(own.clone()).narrowed(other.clone());
        let error = client(server.endpoint.clone(), trust).version().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Certificate(_)), "{error:?}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn no_check_at_all_is_narrowed_to_the_fingerprint() {
    let server = Server::start(always).await;
    let stranger = Server::start(always).await;
    let trust = Trust::Insecure.narrowed(vec![server.fingerprint]);
    client(server.endpoint.clone(), trust.clone()).version().await.unwrap();
    client(stranger.endpoint.clone(), trust).version().await.unwrap_err();
    assert!(stranger.requests().is_empty());
}

/// Hosts of a cluster report the fingerprints of the others. These need no allowance by the person.
#[tokio::test]
async fn the_own_fingerprint_of_a_peer_is_enough_for_it_alone() {
    let first = Server::start(always).await;
    let peer = Server::start(always).await;
    let base = Trust::Authorities(first.authority.clone());
    let transport = HttpsTransport::new(base.narrowed(vec![first.fingerprint])).unwrap();
    let get = || HttpRequest {
        method: Method::Get,
        path: "/api2/json/version".to_owned(),
        headers: Vec::new(),
        body: Body::Empty,
    };
    let reported = Target { endpoint: peer.endpoint.clone(), fingerprints: vec![peer.fingerprint] };
    let unreported = Target::from(peer.endpoint.clone());
    let error = transport.send(&unreported, get()).await.unwrap_err();
    assert!(matches!(error, TransportError::Certificate(_)), "{error:?}");
    assert_eq!(transport.send(&reported, get()).await.unwrap().status, 200);
    assert_eq!(transport.send(&Target::from(first.endpoint.clone()), get()).await.unwrap().status, 200);
}

#[test]
fn a_file_without_a_certificate_is_no_authority() {
    for (pem, expected) in
        [("", InvalidTrust::NoCertificate), ("not a certificate", InvalidTrust::NoCertificate)]
    {
        assert_eq!(HttpsTransport::new(Trust::Authorities(pem.to_owned())).err(), Some(expected));
    }
}
