//! The seam between the client and the network.
//!
//! Everything above sees requests and replies only, so it runs over real HTTPS as well as over anything in memory, on
//! one thread and with a paused clock.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use secrecy::SecretString;

use crate::client::{Target, UnknownCertificate};

/// A boxed future, so that a transport can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The four methods Proxmox knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// Whether parameters go into the body; Proxmox refuses a body on the others.
    pub const fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }
}

/// What a request carries. The length is always known: Proxmox takes no chunked bodies.
#[derive(Clone)]
pub enum Body {
    Empty,
    Form(Bytes),
    /// A file with the text before and after it.
    Multipart {
        boundary: String,
        head: Bytes,
        file: FileContent,
        tail: Bytes,
        /// Counts the bytes of the file as they leave.
        sent: Arc<AtomicU64>,
    },
}

/// The bytes of a file to upload.
#[derive(Clone)]
pub enum FileContent {
    Memory(Bytes),
    /// A file on disk, read while it is sent.
    File {
        path: PathBuf,
        length: u64,
    },
}

impl FileContent {
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }
}

impl Body {
    pub fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Form(bytes) => bytes.len() as u64,
            Self::Multipart { head, file, tail, .. } => head.len() as u64 + file.length() + tail.len() as u64,
        }
    }

    pub fn content_type(&self) -> Option<String> {
        match self {
            Self::Empty => None,
            Self::Form(_) => Some("application/x-www-form-urlencoded".to_owned()),
            Self::Multipart { boundary, .. } => Some(format!("multipart/form-data; boundary={boundary}")),
        }
    }
}

/// A request, complete but for where it goes.
#[derive(Clone)]
pub struct HttpRequest {
    pub method: Method,
    /// Path and query: `/api2/json/version`.
    pub path: String,
    /// Headers beyond `Host` and those of the body. All of them are secrets.
    pub headers: Vec<(&'static str, SecretString)>,
    pub body: Body,
}

/// Neither headers nor body: both carry secrets.
impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, headers: _, body } = self;
        write!(f, "{} {path} ({} bytes)", method.as_str(), body.length())
    }
}

/// A reply. The reason phrase matters: Proxmox puts its error text there, and old versions nowhere else.
#[derive(Clone)]
pub struct HttpResponse {
    pub status: u16,
    pub reason: String,
    pub body: Bytes,
}

/// Not the body: tickets and configurations come back in it.
impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, reason, body } = self;
        write!(f, "{status} {} ({} bytes)", talmox_types::visible(reason), body.len())
    }
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// There was no connection, so nothing was sent.
    #[error("{reason}")]
    Connect { reason: String },
    /// The host showed a certificate nothing vouches for, so nothing was sent.
    #[error("unknown certificate {}", .0.fingerprint)]
    Certificate(UnknownCertificate),
    /// The request cannot be sent as it is; nothing was.
    #[error("{reason}")]
    Unsendable { reason: String },
    /// The connection broke after (a part of) the request was sent.
    #[error("{reason}")]
    Lost { reason: String },
    /// The host stayed silent after the request was sent.
    #[error("no answer within {seconds} s")]
    Silent { seconds: u64 },
}

/// Carries requests to a host and replies back.
pub trait Transport: Send + Sync {
    /// Sends one request, once. Dropping the future gives the request up: nothing of it is sent later.
    fn send<'a>(
        &'a self,
        target: &'a Target,
        request: HttpRequest,
    ) -> BoxFuture<'a, Result<HttpResponse, TransportError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let request = HttpRequest {
            method: Method::Post,
            path: "/api2/json/access/ticket".to_owned(),
            headers: vec![("Authorization", SecretString::from("PVEAPIToken=hunter2"))],
            body: Body::Form(Bytes::from_static(b"password=hunter2")),
        };
        assert_eq!(format!("{request:?}"), "POST /api2/json/access/ticket (16 bytes)");
        let response =
            HttpResponse { status: 200, reason: "OK".into(), body: Bytes::from_static(b"hunter2") };
        assert_eq!(format!("{response:?}"), "200 OK (7 bytes)");
    }
}
