//! Configurations that machines fetch when they boot.
//!
//! ```text
//!  before the VM starts: offer ─▶ https://here/<token>/{meta-data,network-config,user-data} ─▶ the machine answers with our
//!                                 certificates: withdrawn
//! ```
//!
//! What is offered gives whoever has it the whole cluster, so each machine has a token of its own that nobody can guess. Talos
//! fetches three files and again after a restart, so a token is good until its machine has proven that it has them. Serving is
//! somebody else's business: here is what is to be answered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use secrecy::SecretSlice;
use talmox_seed::{Seed, USER_DATA};
use talmox_types::Url;

/// Bytes of a token: nobody guesses so many.
const TOKEN_BYTES: usize = 16;

/// Where new tokens come from; none if there is no randomness.
type Tokens = Box<dyn Fn() -> Option<[u8; TOKEN_BYTES]> + Send + Sync>;

/// What is handed out, and where machines find it.
pub struct Handout {
    /// Ends with a slash.
    base: String,
    tokens: Tokens,
    offered: Mutex<BTreeMap<String, Offer>>,
}

struct Offer {
    seed: Seed,
    /// Whether the configuration itself was fetched.
    fetched: bool,
}

/// What a request is answered with.
#[derive(Debug)]
pub enum Answer {
    File(SecretSlice<u8>),
    /// 503, which Talos takes for "not yet" and asks again; after a 404 it would go on without a configuration.
    Unknown,
    /// 405.
    NoSuchMethod,
}

/// An address machines cannot fetch from. It is not repeated: a mistyped one may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("machines cannot fetch their configuration from there: {why}")]
pub struct InvalidBase {
    why: &'static str,
}

impl Handout {
    /// Nothing is offered yet. `base` is the address under which machines reach whoever serves this.
    pub fn new(
        base: &str,
        tokens: impl Fn() -> Option<[u8; TOKEN_BYTES]> + Send + Sync + 'static,
    ) -> Result<Self, InvalidBase> {
        let refused = |why| InvalidBase { why };
        Url::parse(base).map_err(|_| refused("it is no URL of a host, a port and a path"))?;
        if !base.starts_with("https://") {
            return Err(refused("configurations hold the cluster's keys, and go over https alone"));
        }
        // The serial number they stand in is a list with semicolons between.
        if base.contains(';') {
            return Err(refused("there is a semicolon in it"));
        }
        let base = format!("{}/", base.trim_end_matches('/'));
        Ok(Self { base, tokens: Box::new(tokens), offered: Mutex::default() })
    }

    /// Where machines reach it, without any token.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// What a request gets. Whatever is before the token in the path is somebody else's: a proxy may have added or taken it.
    pub fn answer(&self, method: &str, path: &str) -> Answer {
        if method != "GET" {
            return Answer::NoSuchMethod;
        }
        let mut parts = path.rsplit('/');
        let (file, token) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let mut offered = self.offered();
        let Some(offer) = offered.get_mut(token) else { return Answer::Unknown };
        let Some(found) = offer.seed.file(file) else { return Answer::Unknown };
        offer.fetched |= file == USER_DATA;
        Answer::File(found)
    }

    /// A token nobody had before; none if there is no randomness.
    pub(crate) fn new_token(&self) -> Option<String> {
        let bytes = (self.tokens)()?;
        Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The address of what is offered under a token.
    pub(crate) fn url(&self, token: &str) -> String {
        format!("{}{token}/", self.base)
    }

    /// The token in an address of ours; none if it is another's.
    pub(crate) fn token_in<'u>(&self, url: &'u str) -> Option<&'u str> {
        let token = url.strip_prefix(&self.base)?.trim_end_matches('/');
        let is_token = token.len() == 2 * TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_token.then_some(token)
    }

    /// Offers files under a token; what was offered before gives way.
    pub(crate) fn offer(&self, token: &str, seed: Seed) {
        let mut offered = self.offered();
        let fetched = offered.get(token).is_some_and(|offer| offer.fetched);
        offered.insert(token.to_owned(), Offer { seed, fetched });
    }

    /// Whether somebody fetched the configuration that is offered under a token.
    pub(crate) fn was_fetched(&self, token: &str) -> bool {
        self.offered().get(token).is_some_and(|offer| offer.fetched)
    }

    pub(crate) fn withdraw(&self, token: &str) {
        self.offered().remove(token);
    }

    fn offered(&self) -> MutexGuard<'_, BTreeMap<String, Offer>> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Handout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handout").field("base", &self.base).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn handout(base: &str) -> Result<Handout, InvalidBase> {
        Handout::new(base, || Some([0xab; TOKEN_BYTES]))
    }

    fn seed() -> Seed {
        Seed::new("key: hush".to_owned().into(), "m".to_owned(), "version: 2".to_owned()).unwrap()
    }

    #[test]
    fn what_is_offered_is_answered_until_it_is_withdrawn() {
        let handout = handout("https://here:8443/talos").unwrap();
        let token = handout.new_token().unwrap();
        let url = handout.url(&token);
        assert_eq!(url, format!("https://here:8443/talos/{}/", "ab".repeat(16)));
        assert_eq!(handout.token_in(&url), Some(token.as_str()));
        assert_eq!(handout.token_in("https://there:8443/talos/abab/"), None);
        let path = format!("/talos/{token}/user-data");
        assert!(matches!(handout.answer("GET", &path), Answer::Unknown));
        handout.offer(&token, seed());
        assert!(!handout.was_fetched(&token));
        let Answer::File(file) = handout.answer("GET", &path) else { panic!("it is offered") };
        assert!(handout.was_fetched(&token));
        assert_eq!(file.expose_secret(), b"key: hush");
        assert!(!format!("{:?}", handout.answer("GET", &path)).contains("hush"));
        assert!(matches!(handout.answer("GET", &format!("/{token}/vendor-data")), Answer::Unknown));
        assert!(matches!(handout.answer("GET", "/user-data"), Answer::Unknown));
        assert!(matches!(handout.answer("PUT", &path), Answer::NoSuchMethod));
        handout.withdraw(&token);
        assert!(matches!(handout.answer("GET", &path), Answer::Unknown));
        assert!(!format!("{handout:?}").contains(&token));
    }

    #[test]
    fn addresses_that_would_not_do_are_refused() {
        let why = |base| handout(base).err().map(|error| error.why);
        assert!(why("http://here").unwrap().contains("https alone"));
        assert!(why("https://here/a;b").unwrap().contains("semicolon"));
        assert!(why("https://user@here/").unwrap().contains("no URL"));
        assert!(why("here").unwrap().contains("no URL"));
        assert_eq!(why("https://here"), None);
        assert_eq!(why("https://[fd00::1]:8443/a/b/"), None);
    }
}
