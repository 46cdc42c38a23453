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
        match fault {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                Failure::new(format!("{name} has expired, and Talos would not take it"))
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Failure::new(format!("{name} is not for {host}, the host in --config-url"))
            }
            CertificateError::UnknownIssuer if simulated => {
                Failure::new(format!("simulated machines do not trust whoever vouches for {name}"))
                    .with_hint("--config-ca names the authority they trust")
            }
            CertificateError::UnknownIssuer => Failure::new(format!(
                "no authority this machine knows vouches for {name}, and stock Talos would not trust it"
            ))
            .with_hint("does the file have the certificates in between, too?")
            .with_hint("--config-ca names its authority, if the machines' image trusts it"),
            other => Failure::new(format!("{name} cannot be used: {other}")),
        }
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
    let (mut rest, _) = element(whole.content)?;
    let mut rest = std::mem::take(&mut rest.content);
    let first;
    (first, rest) = element(rest)?;
    if first.tag == VERSION {
        // Then the serial number follows.
        (_, rest) = element(rest)?;
    }
    (_, rest) = element(rest)?;
    let issuer;
    (issuer, rest) = element(rest)?;
    (_, rest) = element(rest)?;
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
    let (length, rest) = match length {
        0..0x80 => (usize::from(length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((Element { tag, content }, rest))
}
