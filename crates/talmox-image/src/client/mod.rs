//! A client of the Image Factory.
//!
//! It registers schematics (a factory serves only those it was told of), lists what there is, and fetches images, piece
//! by piece. Redirects are followed, a bounded number of times and never from `https` to `http`. Every wait has an end.
//! All requests can be made twice without harm, so those that fail in passing are.

mod address;
mod download;
mod error;
mod http;
mod transport;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use talmox_types::{SchematicId, Version, visible};

pub use address::Address;
pub use download::{Download, Downloaded};
pub use error::{Error, ErrorKind};
pub use http::{HttpTransport, InvalidTrust};
pub use transport::{BoxFuture, Chunks, Method, Request, Rerouted, Response, Transport, TransportError};

use crate::extensions::{Remark, check_extensions};
use crate::{Factory, ImageFile, Schematic};

/// Redirects followed before giving up: a factory makes one, its object storage perhaps another.
const MOST_REDIRECTS: usize = 5;

/// Far above any list of extensions, and a stop for a server that never ends.
const LARGEST_ANSWER: usize = 16 << 20;

/// How much of an error's text is of use.
const LONGEST_WORDS: usize = 300;

/// How long things may take, and how often they are tried.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Until a connection is there and the answer begins.
    pub answer: Duration,
    /// The same for an image, which the factory makes when it is first asked for.
    pub image: Duration,
    /// Between two pieces of a body; and for all of one that is no file.
    pub silence: Duration,
    /// The most bytes a file may have: without it, a server that never ends would fill the disk.
    pub largest_file: u64,
    /// Attempts at a request that fails in passing.
    pub attempts: u32,
    /// Before the second attempt; twice as long before each further one.
    pub pause: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(30),
            image: Duration::from_mins(10),
            silence: Duration::from_mins(1),
            largest_file: 64 << 30,
            attempts: 3,
            pause: Duration::from_secs(1),
        }
    }
}

/// An official extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    pub name: String,
    /// The container image: `ghcr.io/siderolabs/qemu-guest-agent:9.1.0`.
    pub reference: String,
    pub description: String,
}

/// An official overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfficialOverlay {
    pub name: String,
    pub image: String,
}

/// A file as a factory offers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    pub url: String,
    pub size: Option<u64>,
}

/// Talks to one factory.
pub struct FactoryClient {
    factory: Factory,
    transport: Arc<dyn Transport>,
    settings: Settings,
    /// What this client has registered already.
    registered: Mutex<BTreeSet<SchematicId>>,
}

impl FactoryClient {
    pub fn new(factory: Factory, transport: Arc<dyn Transport>, settings: Settings) -> Self {
        Self { factory, transport, settings, registered: Mutex::default() }
    }

    pub fn factory(&self) -> &Factory {
        &self.factory
    }

    /// Tells the factory of a schematic, once, and makes sure that it understood the same one.
    pub async fn register(&self, schematic: &Schematic) -> Result<SchematicId, Error> {
        let ours = schematic.id();
        if self.registered.lock().unwrap_or_else(PoisonError::into_inner).contains(&ours) {
            return Ok(ours);
        }
        let request = Request {
            method: Method::Post,
            address: self.address("/schematics"),
            body: Bytes::from(schematic.submission()),
        };
        let doing = format!("register the schematic {}", short(&ours));
        let answer = self.json(&doing, request.clone()).await?;
        let theirs = answer["id"].as_str().unwrap_or_default();
        if theirs != ours.as_str() {
            let error = |kind| Error::new(&doing, &request.address, kind);
            return Err(match SchematicId::parse(theirs) {
                Ok(_) => error(ErrorKind::OtherId { ours, theirs: theirs.to_owned() }),
                Err(_) => error(ErrorKind::Answer { reason: "it answered without an id".to_owned() }),
            });
        }
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).insert(ours.clone());
        Ok(ours)
    }

    /// The Talos versions it has, oldest first.
    pub async fn versions(&self) -> Result<Vec<Version>, Error> {
        let list = self.list("list the Talos versions", "/versions").await?;
        let mut versions: Vec<Version> =
            list.iter().filter_map(|item| Version::parse(item.as_str()?).ok()).collect();
        versions.sort();
        Ok(versions)
    }

    /// The extensions there are for a version.
    pub async fn extensions(&self, talos: &Version) -> Result<Vec<Extension>, Error> {
        let doing = format!("list the extensions of Talos {talos}");
        let list = self.list(&doing, &format!("/version/v{talos}/extensions/official")).await?;
        Ok(list
            .iter()
            .filter_map(|item| {
                Some(Extension {
                    name: visible(item["name"].as_str()?).into_owned(),
                    reference: text(item, "ref"),
                    description: text(item, "description"),
                })
            })
            .collect())
    }

    /// The overlays there are for a version.
    pub async fn overlays(&self, talos: &Version) -> Result<Vec<OfficialOverlay>, Error> {
        let doing = format!("list the overlays of Talos {talos}");
        let list = self.list(&doing, &format!("/version/v{talos}/overlays/official")).await?;
        Ok(list
            .iter()
            .filter_map(|item| {
                let name = visible(item["name"].as_str()?).into_owned();
                Some(OfficialOverlay { name, image: text(item, "image") })
            })
            .collect())
    }

    /// What is to be said about the extensions a schematic names; nothing if all of them are there.
    pub async fn check(&self, schematic: &Schematic, talos: &Version) -> Result<Vec<Remark>, Error> {
        if schematic.extensions.is_empty() {
            return Ok(Vec::new());
        }
        let offered = self.extensions(talos).await?;
        let names: Vec<&str> = offered.iter().map(|extension| extension.name.as_str()).collect();
        Ok(check_extensions(&schematic.extensions, &names))
    }

    /// Whether a file is there, and how large it is. The factory makes the image for it if it has to.
    pub async fn look_at(
        &self,
        schematic: &SchematicId,
        talos: &Version,
        file: &ImageFile,
    ) -> Result<Offered, Error> {
        let url = self.factory.image_url(schematic, talos, file);
        let request =
            Request { method: Method::Head, address: self.image_address(&url)?, body: Bytes::new() };
        let doing = format!("look at {}", file.name(talos));
        let response = self.ask(&doing, request, self.settings.image).await?;
        Ok(Offered { url, size: response.1.content_length })
    }

    /// Opens a file for reading, piece by piece.
    pub async fn open(
        &self,
        schematic: &SchematicId,
        talos: &Version,
        file: &ImageFile,
    ) -> Result<Download, Error> {
        let url = self.factory.image_url(schematic, talos, file);
        self.open_url(&url).await
    }

    /// Opens any file of a web server for reading.
    pub async fn open_url(&self, url: &str) -> Result<Download, Error> {
        let request = Request { method: Method::Get, address: self.image_address(url)?, body: Bytes::new() };
        let name = request.address.target.split('?').next().and_then(|path| path.rsplit('/').next());
        let doing = format!("download {}", name.unwrap_or_default());
        let (address, response) = self.ask(&doing, request, self.settings.image).await?;
        Ok(Download::new(doing, address, response, &self.settings))
    }

    fn address(&self, path: &str) -> Address {
        let base = self.factory.base();
        let target = format!("{}{path}", base.path());
        Address { secure: base.is_https(), authority: base.authority().to_owned(), target }
    }

    fn image_address(&self, url: &str) -> Result<Address, Error> {
        Address::parse(url).ok_or_else(|| {
            let reason = "this is no http or https address without credentials".to_owned();
            Error::new("download a file", &self.address("/"), ErrorKind::Answer { reason })
        })
    }

    async fn list(&self, doing: &str, path: &str) -> Result<Vec<Value>, Error> {
        let request = Request { method: Method::Get, address: self.address(path), body: Bytes::new() };
        let address = request.address.clone();
        let answer = self.json(doing, request).await?;
        answer.as_array().cloned().ok_or_else(|| {
            let reason = "it answered something else than a list".to_owned();
            Error::new(doing, &address, ErrorKind::Answer { reason })
        })
    }

    async fn json(&self, doing: &str, request: Request) -> Result<Value, Error> {
        let (address, response) = self.ask(doing, request, self.settings.answer).await?;
        let error = |kind| Error::new(doing, &address, kind);
        let body = self.whole(response).await.map_err(error)?;
        serde_json::from_slice(&body).map_err(|_| {
            error(ErrorKind::Answer { reason: "it answered something else than JSON".to_owned() })
        })
    }

    /// Asks until there is an answer that is neither a redirect nor a passing failure, and gives who answered.
    async fn ask(
        &self,
        doing: &str,
        request: Request,
        patience: Duration,
    ) -> Result<(Address, Response), Error> {
        let mut pause = self.settings.pause;
        for attempt in 1.. {
            match self.follow(doing, request.clone(), patience).await {
                Err(error) if error.kind.is_passing() && attempt < self.settings.attempts => {
                    tracing::debug!(%error, attempt, "asking again");
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                answer => return answer,
            }
        }
        unreachable!("the last attempt returns")
    }

    async fn follow(
        &self,
        doing: &str,
        mut request: Request,
        patience: Duration,
    ) -> Result<(Address, Response), Error> {
        for _ in 0..=MOST_REDIRECTS {
            let failed = |kind| Error::new(doing, &request.address, kind);
            let response = self.once(&request, patience).await.map_err(failed)?;
            let status = response.status;
            match status {
                200..=299 => return Ok((request.address, response)),
                301 | 302 | 303 | 307 | 308 if request.method != Method::Post => {
                    let next = redirected(&request.address, response.location.as_deref()).map_err(failed)?;
                    request.address = next;
                }
                300..=399 => {
                    let reason = format!("it answers {status} where no redirect is expected");
                    return Err(failed(ErrorKind::Redirect { reason }));
                }
                _ => return Err(failed(self.refusal(status, response).await)),
            }
        }
        let reason = format!("more than {MOST_REDIRECTS} redirects");
        Err(Error::new(doing, &request.address, ErrorKind::Redirect { reason }))
    }

    async fn once(&self, request: &Request, patience: Duration) -> Result<Response, ErrorKind> {
        tracing::trace!(method = request.method.as_str(), address = %request.address, "asking");
        match tokio::time::timeout(patience, self.transport.send(request)).await {
            Ok(answer) => answer.map_err(kind_of),
            Err(_) => Err(ErrorKind::Silent { seconds: patience.as_secs() }),
        }
    }

    /// A body that fits into memory. It is short, so all of it has the time a file has between two pieces: a server that
    /// sends a byte at a time is as good as silent.
    async fn whole(&self, response: Response) -> Result<Bytes, ErrorKind> {
        let silence = self.settings.silence;
        let whole = tokio::time::timeout(silence, self.gather(response)).await;
        whole.unwrap_or(Err(ErrorKind::Silent { seconds: silence.as_secs() }))
    }

    async fn gather(&self, response: Response) -> Result<Bytes, ErrorKind> {
        let mut body = response.body;
        let mut whole = BytesMut::new();
        while let Some(piece) = next_piece(&mut *body, self.settings.silence).await? {
            whole.extend_from_slice(&piece);
            if whole.len() > LARGEST_ANSWER {
                return Err(ErrorKind::Answer { reason: "its answer does not end".to_owned() });
            }
        }
        Ok(whole.freeze())
    }

    async fn refusal(&self, status: u16, response: Response) -> ErrorKind {
        // Only the words matter; where they cannot be had, the status says enough.
        let body = self.whole(response).await.unwrap_or_default();
        let words = words(&body);
        match status {
            404 => ErrorKind::NotFound { words },
            401 | 403 => ErrorKind::Denied { status, words },
            429 | 500..=599 => ErrorKind::Unavailable { status, words },
            _ => ErrorKind::Refused { status, words },
        }
    }
}

async fn next_piece(body: &mut dyn Chunks, silence: Duration) -> Result<Option<Bytes>, ErrorKind> {
    match tokio::time::timeout(silence, body.next()).await {
        Ok(piece) => piece.map_err(kind_of),
        Err(_) => Err(ErrorKind::Silent { seconds: silence.as_secs() }),
    }
}

fn redirected(from: &Address, location: Option<&str>) -> Result<Address, ErrorKind> {
    let next = location.and_then(|location| from.redirect(location)).ok_or_else(|| ErrorKind::Redirect {
        reason: "it redirects to no address that can be used".to_owned(),
    })?;
    if from.secure && !next.secure {
        let reason = format!("it redirects to {next}, which is not protected");
        return Err(ErrorKind::Redirect { reason });
    }
    Ok(next)
}

fn kind_of(error: TransportError) -> ErrorKind {
    match error {
        TransportError::Connect { reason } => ErrorKind::Unreachable { reason },
        TransportError::Certificate { reason } => ErrorKind::Certificate { reason },
        TransportError::Lost { reason } => ErrorKind::CutOff { reason },
    }
}

/// The first line of a plain text; a page made for browsers says nothing in few words.
fn words(body: &[u8]) -> String {
    // A longer first line is none for people.
    let text = String::from_utf8_lossy(body.get(..LONGEST_WORDS * 4).unwrap_or(body));
    let line = text.trim().lines().next().unwrap_or_default();
    if line.starts_with('<') {
        return String::new();
    }
    line.chars().take(LONGEST_WORDS).collect()
}

fn text(item: &Value, key: &str) -> String {
    visible(item[key].as_str().unwrap_or_default()).into_owned()
}

/// Enough of an id to recognise it.
fn short(id: &SchematicId) -> &str {
    &id.as_str()[..12]
}
