//! Keys and certificates of a cluster, exactly as Talos makes them.
//!
//! Subjects without a common name, an empty subject, a non-standard PEM label and the order of extensions are all
//! unusual, so certificates are written here byte by byte; keys and signatures come from the crypto library.

mod certificate;
mod der;
mod key;
mod pem;

pub use certificate::{Certificate, CertificateError};
pub use key::{KeyError, KeyKind, PrivateKey};

pub(crate) use certificate::{Drawn, Subject, Usage, issue, self_sign};
