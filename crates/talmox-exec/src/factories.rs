//! Images from real factories and web servers.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use talmox_image::client::{Download, Error, ErrorKind, FactoryClient, Settings, Transport};
use talmox_image::{Factory, OFFICIAL, Schematic};
use talmox_types::{Url, Version};

use crate::images::{Arriving, ImageError, ImageFault, ImageFuture, Images};

/// Asks whatever factory a step names, over one transport.
pub struct Factories {
    transport: Arc<dyn Transport>,
    settings: Settings,
}

impl Factories {
    pub fn new(transport: Arc<dyn Transport>, settings: Settings) -> Self {
        Self { transport, settings }
    }

    fn client(&self, factory: &str) -> Result<FactoryClient, ImageError> {
        let base = Url::parse(factory).map_err(|error| unreadable(factory, &error))?;
        Ok(FactoryClient::new(Factory::new(base), Arc::clone(&self.transport), self.settings.clone()))
    }

    async fn register_now(&self, factory: &str, body: &str) -> Result<String, ImageError> {
        let client = self.client(factory)?;
        let schematic = Schematic::parse(body).map_err(|error| unreadable(factory, &error))?;
        let registered = client.register(&schematic).await;
        let id = registered.map(|id| id.to_string());
        id.or_else(|error| {
            // The step compares, and says what another id means.
            if let ErrorKind::OtherId { theirs, .. } = &*error.kind {
                Ok(theirs.clone())
            } else {
                Err(in_words(&error))
            }
        })
    }

    async fn extensions_now(&self, factory: &str, talos: &Version) -> Result<Vec<String>, ImageError> {
        let offered = self.client(factory)?.extensions(talos).await.map_err(|error| in_words(&error))?;
        Ok(offered.into_iter().map(|extension| extension.name).collect())
    }

    async fn open_now(&self, url: &str) -> Result<Arriving, ImageError> {
        let download = self.client(OFFICIAL)?.open_url(url).await.map_err(|error| in_words(&error))?;
        let length = download.size();
        let chunks = stream::try_unfold(download, async |mut download: Download| {
            let piece = download.next().await.map_err(|error| in_words(&error))?;
            Ok(piece.map(|piece| (piece, download)))
        });
        Ok(Arriving { length, chunks: chunks.boxed() })
    }
}

impl Images for Factories {
    fn register<'a>(&'a self, factory: &'a str, body: &'a str) -> ImageFuture<'a, String> {
        Box::pin(self.register_now(factory, body))
    }

    fn extensions<'a>(&'a self, factory: &'a str, talos: &'a Version) -> ImageFuture<'a, Vec<String>> {
        Box::pin(self.extensions_now(factory, talos))
    }

    fn open<'a>(&'a self, url: &'a str) -> ImageFuture<'a, Arriving> {
        Box::pin(self.open_now(url))
    }
}

fn unreadable(url: &str, error: &dyn std::error::Error) -> ImageError {
    ImageError { url: url.to_owned(), words: error.to_string(), kind: ImageFault::Unreadable }
}

fn in_words(error: &Error) -> ImageError {
    let kind = match &*error.kind {
        ErrorKind::Unreachable { .. } | ErrorKind::Silent { .. } => ImageFault::Unreachable,
        ErrorKind::CutOff { .. } => ImageFault::BrokeOff,
        ErrorKind::NotFound { .. } => ImageFault::Refused(404),
        ErrorKind::Refused { status, .. }
        | ErrorKind::Denied { status, .. }
        | ErrorKind::Unavailable { status, .. } => ImageFault::Refused(*status),
        ErrorKind::Certificate { .. } => ImageFault::Certificate,
        ErrorKind::Redirect { .. }
        | ErrorKind::Answer { .. }
        | ErrorKind::OtherId { .. }
        | ErrorKind::Write { .. } => ImageFault::Unreadable,
    };
    ImageError { url: error.address.to_string(), words: error.kind.to_string(), kind }
}
