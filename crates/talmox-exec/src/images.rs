//! The way to images: what an Image Factory knows, and the bytes behind a URL.
//!
//! Steps see only this, so they run against a real factory as well as against one in memory.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use talmox_types::Version;

pub type ImageFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ImageError>> + Send + 'a>>;

/// Talks to whoever has images.
pub trait Images: Send + Sync {
    /// Tells a factory of a schematic, by its canonical text. Gives the id the factory made of it; twice gives the same.
    fn register<'a>(&'a self, factory: &'a str, body: &'a str) -> ImageFuture<'a, String>;

    /// Names of the extensions a factory has for a version of Talos.
    fn extensions<'a>(&'a self, factory: &'a str, talos: &'a Version) -> ImageFuture<'a, Vec<String>>;

    /// The bytes behind a URL, as they come.
    fn open<'a>(&'a self, url: &'a str) -> ImageFuture<'a, Arriving>;
}

/// Bytes on their way.
pub struct Arriving {
    /// How many there will be, if the server says so.
    pub length: Option<u64>,
    /// Ends early with an error if the connection does.
    pub chunks: BoxStream<'static, Result<Bytes, ImageError>>,
}

/// Why a factory or a server did not give what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url}: {words}")]
pub struct ImageError {
    /// What was asked for.
    pub url: String,
    /// What the server said, or what the connection died of.
    pub words: String,
    pub kind: ImageFault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFault {
    /// There was no connection, or nobody answered.
    Unreachable,
    /// It broke off half-way.
    BrokeOff,
    /// Nothing vouches for its certificate.
    Certificate,
    /// The server answered with this status.
    Refused(u16),
    /// The answer makes no sense.
    Unreadable,
}

impl ImageError {
    /// Whether the same may well succeed a little later.
    pub fn is_passing(&self) -> bool {
        match self.kind {
            ImageFault::Unreachable | ImageFault::BrokeOff => true,
            ImageFault::Refused(status) => status == 429 || status >= 500,
            ImageFault::Certificate | ImageFault::Unreadable => false,
        }
    }

    /// The server's name, for texts.
    pub(crate) fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        rest.split(['/', '?']).next().unwrap_or(rest)
    }
}
