//! Certificates and keys, as PEM or as DER: an input that is no PEM is put into it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use secrecy::SecretString;
use talmox_machine::pki::{Certificate, PrivateKey};

/// Base64, written here so that the target has no dependency for it.
fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let sign = SIGNS[(number >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(sign) } else { '=' });
        }
    }
    out
}

fuzz_target!(|bytes: &[u8]| {
    let as_text = talmox_fuzz::text(bytes).filter(|text| text.contains("-----BEGIN"));
    let pem = |label: &str| match as_text {
        Some(text) => text.to_owned(),
        None => format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64(bytes)),
    };
    if let Ok(certificate) = Certificate::parse(&pem("CERTIFICATE")) {
        certificate.is_authority();
        let _ = (certificate.not_before(), certificate.not_after());
        assert!(certificate.has_issuer_of(&certificate) || !certificate.pem().is_empty());
    }
    for label in ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY", "ED25519 PRIVATE KEY"] {
        if let Ok(key) = PrivateKey::parse(SecretString::from(pem(label))) {
            key.kind();
        }
        if as_text.is_some() {
            break;
        }
    }
});
