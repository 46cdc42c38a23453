//! Authorities that machines believe beside the one that signs.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_types::Realm;

use super::Bundle;
use crate::pki::Certificate;
use crate::time::Time;
use crate::value::Value;

/// An authority that is accepted: whoever has its key is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub realm: Realm,
    /// Which list it stands in.
    pub place: &'static str,
    /// SHA-256 over its certificate, in hexadecimal digits.
    pub fingerprint: String,
    /// When it ends; none if that cannot be read.
    pub ends: Option<Time>,
}

/// Where such lists are in the document with `machine` and `cluster`, which has them in base64.
const SECTIONS: [(Realm, &str, &str); 2] =
    [(Realm::Talos, "machine", "machine.acceptedCAs"), (Realm::Kubernetes, "cluster", "cluster.acceptedCAs")];

/// Documents that have them as they are.
const DOCUMENTS: [(&str, &str); 2] = [
    ("KubeAPIServerCAConfig", "KubeAPIServerCAConfig acceptedCAs"),
    ("KubeAggregatorCAConfig", "KubeAggregatorCAConfig acceptedCAs"),
];

impl Bundle {
    /// The authorities documents, or a patch, say are accepted and that are none of this bundle.
    pub fn strangers_in(&self, documents: &[Value]) -> Vec<Accepted> {
        let own =
            [&self.os, &self.kubernetes, &self.aggregator].map(|one| fingerprint(one.certificate.pem()));
        let found = documents.iter().flat_map(|document| in_sections(document).chain(in_document(document)));
        found.filter(|accepted| !own.contains(&accepted.fingerprint)).collect()
    }
}

fn in_sections(document: &Value) -> impl Iterator<Item = Accepted> {
    SECTIONS.into_iter().flat_map(move |(realm, section, place)| {
        let items = list(document.at(&[section, "acceptedCAs"]));
        items.filter_map(move |item| {
            let encoded = item.at(&["crt"])?.as_text()?;
            let pem = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            Some(accepted(realm, place, &pem.unwrap_or_else(|| encoded.to_owned())))
        })
    })
}

fn in_document(document: &Value) -> impl Iterator<Item = Accepted> {
    let kind = document.at(&["kind"]).and_then(Value::as_text);
    let of_kind = DOCUMENTS.into_iter().filter(move |(known, _)| Some(*known) == kind);
    of_kind.flat_map(|(_, place)| {
        let pems = list(document.at(&["acceptedCAs"])).filter_map(Value::as_text);
        pems.map(move |pem| accepted(Realm::Kubernetes, place, pem))
    })
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_list).unwrap_or_default().iter()
}

fn accepted(realm: Realm, place: &'static str, pem: &str) -> Accepted {
    let ends = Certificate::parse(pem).ok().map(|certificate| certificate.not_after());
    Accepted { realm, place, fingerprint: fingerprint(pem), ends }
}

/// As `openssl x509 -fingerprint -sha256` has it, without colons. What is no certificate is told by its text.
fn fingerprint(pem: &str) -> String {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    let bytes = STANDARD.decode(&body).unwrap_or_else(|_| pem.as_bytes().to_vec());
    digest(&SHA256, &bytes).as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing into a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
