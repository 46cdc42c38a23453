//! Images in memory: an Image Factory and web server that steps are given, and that simulated hosts fetch from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use sha2::{Digest as _, Sha256};
use talmox_exec::{Arriving, ImageError, ImageFault, ImageFuture, Images};
use talmox_sim::{FileFacts, Site, World};
use talmox_types::Version;

/// How many bytes come at a time.
const CHUNK: usize = 1000;

/// Files by URL, and what a factory knows.
#[derive(Default)]
pub struct Shelf {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Bytes>,
    extensions: BTreeSet<String>,
    registered: Vec<String>,
    opened: usize,
    trouble: Option<Trouble>,
}

/// What is wrong with a shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody answers.
    Dead,
    /// It answers with this status, whatever it is asked.
    Refuses(u16),
    /// Files end after so many bytes, and their length is told as if they did not.
    CutAfter(usize),
    /// It calls schematics by another name.
    OtherIds,
}

impl Shelf {
    /// Puts a file under a URL.
    pub fn put(&self, url: &str, bytes: impl Into<Bytes>) {
        self.state().files.insert(url.to_owned(), bytes.into());
    }

    /// Names extensions the factory has.
    pub fn offer(&self, extensions: &[&str]) {
        self.state().extensions.extend(extensions.iter().map(|&name| name.to_owned()));
    }

    pub fn trouble(&self, trouble: Option<Trouble>) {
        self.state().trouble = trouble;
    }

    /// Schematics it was told of, one for each time.
    pub fn registered(&self) -> Vec<String> {
        self.state().registered.clone()
    }

    /// How often a file was asked for by us; hosts that fetch by themselves are not counted.
    pub fn opened(&self) -> usize {
        self.state().opened
    }

    /// Lets the hosts of a world fetch everything that is on the shelf now.
    pub fn serve(&self, world: &mut World) {
        for (url, bytes) in &self.state().files {
            let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let site = world.sites.entry(host.to_owned()).or_insert_with(|| Site { files: BTreeMap::new() });
            site.files.insert(path.to_owned(), FileFacts::of_bytes(bytes));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is an answer at all.
    fn answer(&self, url: &str) -> Result<MutexGuard<'_, State>, ImageError> {
        let state = self.state();
        let error = |words: &str, kind| ImageError { url: url.to_owned(), words: words.to_owned(), kind };
        match state.trouble {
            Some(Trouble::Dead) => Err(error("Connection refused", ImageFault::Unreachable)),
            Some(Trouble::Refuses(status)) => {
                Err(error(&format!("it answers {status}"), ImageFault::Refused(status)))
            }
            Some(Trouble::CutAfter(_) | Trouble::OtherIds) | None => Ok(state),
        }
    }

    fn register_now(&self, factory: &str, body: &str) -> Result<String, ImageError> {
        let mut state = self.answer(&format!("{factory}/schematics"))?;
        state.registered.push(body.to_owned());
        let id: String = Sha256::digest(body.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(if state.trouble == Some(Trouble::OtherIds) { id.chars().rev().collect() } else { id })
    }

    fn extensions_now(&self, factory: &str, talos: &Version) -> Result<Vec<String>, ImageError> {
        let state = self.answer(&format!("{factory}/version/v{talos}/extensions/official"))?;
        Ok(state.extensions.iter().cloned().collect())
    }

    fn open_now(&self, url: &str) -> Result<Arriving, ImageError> {
        let mut state = self.answer(url)?;
        let Some(bytes) = state.files.get(url).cloned() else {
            let words = "not found".to_owned();
            return Err(ImageError { url: url.to_owned(), words, kind: ImageFault::Refused(404) });
        };
        state.opened += 1;
        let whole = bytes.len();
        let come = match state.trouble {
            Some(Trouble::CutAfter(count)) => bytes.slice(..count.min(whole)),
            _ => bytes,
        };
        let chunks: Vec<_> = come.chunks(CHUNK).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        Ok(Arriving { length: Some(whole as u64), chunks: stream::iter(chunks).boxed() })
    }
}

impl Images for Shelf {
    fn register<'a>(&'a self, factory: &'a str, body: &'a str) -> ImageFuture<'a, String> {
        Box::pin(async move { self.register_now(factory, body) })
    }

    fn extensions<'a>(&'a self, factory: &'a str, talos: &'a Version) -> ImageFuture<'a, Vec<String>> {
        Box::pin(async move { self.extensions_now(factory, talos) })
    }

    fn open<'a>(&'a self, url: &'a str) -> ImageFuture<'a, Arriving> {
        Box::pin(async move { self.open_now(url) })
    }
}
