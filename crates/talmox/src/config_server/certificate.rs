//! The certificate machines are shown, and whether they would take it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// A certificate with those that vouch for it, and its key.
pub(super) struct Certificate {
    path: PathBuf,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Certificate {
    pub(super) fn read(path: &Path, key: &Path) -> Result<Self, Failure> {
        let chain = text(path)?;
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(chain.as_bytes()).filter_map(Result::ok).collect();
        if chain.is_empty() {
            return Err(Failure::new(format!("there is no certificate in {}", path.display()))
                .with_hint("--config-cert is a PEM file, the machine's own certificate first"));
        }
        let text = Zeroizing::new(text(key)?);
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| Failure::new(format!("there is no private key in {}", key.display())))?;
        Ok(Self { path: path.to_owned(), chain, key })
    }

    /// Whether machines would take it for this host: the error says why not, the text what could not be found out.
    pub(super) fn judge(
        &self,
        host: &str,
        trusts: Option<&str>,
        simulated: bool,
    ) -> Result<Option<String>, Failure> {
        let (name, leaf) = (self.path.display(), &self.chain[0]);
        if is_self_signed(leaf) {
            return Err(Failure::new(format!(
                "{name} is self-signed: until it has its configuration Talos trusts public authorities alone, and would ask \
                 for ever"
            ))
            .with_hint("a public authority gives one for a name whose address is private, too, if asked by DNS")
            .with_hint("config_delivery: maintenance or cidata need none"));
        }
        let roots = roots(trusts, simulated);
        if roots.is_empty() && !simulated {
            return Ok(Some(format!(
                "this machine knows no authorities: whether Talos trusts {name} could not be checked"
            )));
        }
        match verify(leaf, &self.chain[1..], host, roots) {
            Ok(()) => Ok(None),
            Err(why) => Err(self.refused(host, &why, simulated)),
        }
    }

    fn refused(&self, host: &str, error: &Error, simulated: bool) -> Failure {
        let name = self.path.display();
        let Error::InvalidCertificate(fault) = error else {
            return Failure::new(format!("{name} cannot be used: {error}"));
        };
        if matches!(fault, CertificateError::Expired | CertificateError::ExpiredContext { .. }) {
            return Failure::new(format!("{name} has expired, and Talos would not take it"));
        }
        if matches!(
            fault,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        ) {
            return Failure::new(format!("{name} is not for {host}, the host in --config-url"));
        }
        // An authority of the same name and another key is another authority.
        if !matches!(fault, CertificateError::UnknownIssuer | CertificateError::BadSignature) {
            return Failure::new(format!("{name} cannot be used: {fault}"));
        }
        if simulated {
            return Failure::new(format!("simulated machines do not trust whoever vouches for {name}"))
                .with_hint("--config-ca names the authority they trust");
        }
        let reason = "and stock Talos would not trust it";
        Failure::new(format!("no authority this machine knows vouches for {name}, {reason}"))
            .with_hint("does the file have the certificates in between, too?")
            .with_hint("--config-ca names its authority, if the machines' image trusts it")
    }

    /// The settings of a server that shows it.
    pub(super) fn server(self) -> Result<ServerConfig, Failure> {
        let unusable =
            |error: Error| Failure::new(format!("{} cannot be used: {error}", self.path.display()));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        builder.with_no_client_auth().with_single_cert(self.chain, self.key).map_err(unusable)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "no description: a file whose size and text are the user's own"
)]
fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("could not read {}: {error}", path.display())))
}

/// Whom machines trust: of public authorities those this machine knows, which are about the same.
fn roots(trusts: Option<&str>, simulated: bool) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    if !simulated {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let own = trusts.unwrap_or_default();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(own.as_bytes()).filter_map(Result::ok));
    roots
}

fn verify(
    leaf: &CertificateDer<'_>,
    between: &[CertificateDer<'_>],
    host: &str,
    roots: RootCertStore,
) -> Result<(), Error> {
    if roots.is_empty() {
        return Err(CertificateError::UnknownIssuer.into());
    }
    let name = ServerName::try_from(host).map_err(|_| CertificateError::NotValidForName)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| Error::General(error.to_string()))?;
    verifier.verify_server_cert(leaf, between, &name, &[], UnixTime::now()).map(drop)
}

/// Whether whoever it is for has vouched for himself.
fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    names(certificate).is_some_and(|(issuer, subject)| issuer == subject)
}

/// Issuer and subject, as they are encoded.
fn names(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let (whole, _) = element(certificate)?;
    let (signed, _) = element(whole.content)?;
    let (first, after_first) = element(signed.content)?;
    // Version, if it is there, and serial number; then algorithm, issuer, validity and subject.
    let rest = if first.tag == VERSION { element(after_first)?.1 } else { after_first };
    let (_algorithm, rest) = element(rest)?;
    let (issuer, rest) = element(rest)?;
    let (_validity, rest) = element(rest)?;
    let (subject, _) = element(rest)?;
    Some((issuer.content, subject.content))
}

/// The version of a certificate, which need not be there.
const VERSION: u8 = 0xa0;

struct Element<'a> {
    tag: u8,
    content: &'a [u8],
}

/// The first element of DER, and what follows it.
fn element(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = if length < 0x80 {
        (usize::from(length), rest)
    } else {
        let digits = usize::from(length & 0x7f);
        let (digits, rest) = rest.split_at_checked(digits).filter(|_| (1..=4).contains(&digits))?;
        (digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((Element { tag, content }, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;

    const HOST: &str = "config.lab.example";

    /// An authority's certificate, and one it gave for the host.
    fn issued() -> (String, String, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "an authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = authority.self_signed(&key).unwrap().pem();
        let own = KeyPair::generate().unwrap();
        let issuer = Issuer::new(authority, key);
        let given = CertificateParams::new(vec![HOST.to_owned()]).unwrap().signed_by(&own, &issuer).unwrap();
        (certificate, given.pem(), own)
    }

    fn read(chain: &str, key: &KeyPair) -> Certificate {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, own) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificate, chain).unwrap();
        std::fs::write(&own, key.serialize_pem()).unwrap();
        Certificate::read(&certificate, &own).unwrap()
    }

    #[test]
    fn machines_take_what_an_authority_of_theirs_gave_for_the_host() {
        let (authority, given, key) = issued();
        let certificate = read(&given, &key);
        let judged = |host: &str, trusts: Option<&str>, simulated| {
            certificate.judge(host, trusts, simulated).map_err(|failure| failure.to_string())
        };
        assert_eq!(judged(HOST, Some(&authority), true), Ok(None));
        assert_eq!(judged(HOST, Some(&authority), false), Ok(None));
        let other = judged("other.example", Some(&authority), true).unwrap_err();
        assert!(other.contains("is not for other.example"), "{other}");
        let unknown = judged(HOST, None, true).unwrap_err();
        assert!(unknown.contains("simulated machines do not trust"), "{unknown}");
        // Another authority's is not enough.
        let (another, _, _) = issued();
        let unknown = judged(HOST, Some(&another), false).unwrap_err();
        assert!(unknown.contains("stock Talos would not trust it"), "{unknown}");
        assert!(certificate.server().is_ok());
    }

    #[test]
    fn self_signed_is_refused_with_the_reason() {
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec![HOST.to_owned()]).unwrap().self_signed(&key).unwrap().pem();
        // Not even if somebody says that it can be trusted: Talos cannot be told.
        let refused = read(&own, &key).judge(HOST, Some(&own), false).unwrap_err().to_string();
        assert!(refused.contains("is self-signed: until it has its configuration Talos trusts"), "{refused}");
    }

    #[test]
    fn what_is_no_certificate_is_none() {
        assert!(!is_self_signed(&CertificateDer::from(vec![0x30, 0x84, 0xff])));
        assert_eq!(names(&[]), None);
        let folder = tempfile::tempdir().unwrap();
        let (path, missing) = (folder.path().join("cert.pem"), folder.path().join("no.pem"));
        std::fs::write(&path, "nothing").unwrap();
        let told = Certificate::read(&path, &missing).err().unwrap().to_string();
        assert!(told.contains("there is no certificate in"), "{told}");
        assert!(Certificate::read(&missing, &missing).err().unwrap().to_string().contains("could not read"));
    }
}
