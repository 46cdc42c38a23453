//! What talosconfig and kubeconfig have in common: contexts to reach clusters by, of which one is the current one.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;

use super::Rename;
use crate::fault::{Faults, Source};
use crate::pki::Certificate;

/// A file of that kind. The provided methods find and keep the context of one cluster in it, so that running a command again
/// never piles up contexts.
pub trait ClientFile: Sized {
    /// Reads a file; an empty one has no contexts.
    fn parse(source: Source<'_>) -> Result<Self, Faults>;

    /// The file's text, which holds keys.
    fn to_yaml(&self) -> SecretString;

    /// The name of the current context.
    fn current(&self) -> Option<&str>;

    /// Their names, in the order they are looked through.
    fn contexts(&self) -> Vec<&str>;

    /// The client certificate of a context, to see when it ends.
    fn certificate(&self, context: &str) -> Option<Certificate>;

    /// What a context trusts, as the file has it.
    fn authority(&self, context: &str) -> Option<&str>;

    /// Whether a context leads where another file's current one does.
    fn leads_alike(&self, context: &str, other: &Self) -> bool;

    /// Adds what another file has, under new names where they are taken, and makes its current context the current one.
    fn add(&mut self, other: &Self) -> Vec<Rename>;

    /// Has a context of this file lead where one of another file leads, with the same certificate; what else it says stays.
    fn replace(&mut self, mine: &str, theirs: &str, other: &Self);

    /// Makes a context the current one; with an empty name there is none.
    fn set_current(&mut self, context: &str);

    /// Takes a context out, with what only that one needs.
    fn drop_context(&mut self, context: &str);

    /// The certificates of everybody a context trusts: two while one authority takes the place of another.
    fn trusts(&self, context: &str) -> BTreeSet<String> {
        const END: &str = "-----END CERTIFICATE-----";
        let encoded = self.authority(context).and_then(|text| STANDARD.decode(text).ok());
        let text = encoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let parts = text.split_inclusive(END).map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Whether a context does all that another file's current one does: leads to the same place, trusts the same and is let in
    /// by the same authority. When its certificate ends is another matter.
    fn does_alike(&self, context: &str, other: &Self) -> bool {
        let Some(theirs) = other.current() else { return false };
        let let_in_alike = match (self.certificate(context), other.certificate(theirs)) {
            (Some(mine), Some(theirs)) => mine.has_issuer_of(&theirs),
            _ => false,
        };
        let_in_alike && self.trusts(context) == other.trusts(theirs) && self.leads_alike(context, other)
    }

    /// The context for the cluster of another file's current one: an authority that both trust and a client certificate, under
    /// the same name or one that was given because that was taken.
    fn counterpart(&self, other: &Self) -> Option<&str> {
        let name = other.current()?;
        let trusted = other.trusts(name);
        let numbered = |context: &str| {
            let number = context.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.contexts().into_iter().filter(|context| *context == name || numbered(context)).find(|context| {
            !self.trusts(context).is_disjoint(&trusted) && self.certificate(context).is_some()
        })
    }

    /// Renews the counterpart in place, keeping what else it says and which context is the current one: whoever works with another
    /// cluster at the moment goes on with that. Without a counterpart the other file is added.
    fn renew(&mut self, other: &Self) -> Vec<Rename> {
        let (Some(mine), Some(theirs)) = (self.counterpart(other).map(str::to_owned), other.current()) else {
            return self.add(other);
        };
        self.replace(&mine, theirs, other);
        Vec::new()
    }

    /// Renews the counterpart of `old` as another file has it now, under another authority. None: there is no counterpart.
    fn succeed(&mut self, old: &Self, new: &Self) -> Option<String> {
        let (mine, theirs) = (self.counterpart(old)?.to_owned(), new.current()?);
        self.replace(&mine, theirs, new);
        Some(mine)
    }

    /// Whether a context, and what it refers to, says what another file's current one says and nothing else: only the client
    /// certificate may be an earlier one.
    fn says_the_same(&self, context: &str, other: &Self) -> bool;

    /// Takes out the counterpart of another file's current context, like [`remove`](Self::remove), if it is as it was added: one that
    /// its owner changed stays.
    fn take_back(&mut self, other: &Self) -> Option<String> {
        let context = self.counterpart(other)?.to_owned();
        let is_as_added = self.does_alike(&context, other) && self.says_the_same(&context, other);
        is_as_added.then(|| self.remove(other)).flatten()
    }

    /// Takes out the counterpart of another file's current context. If it was the current one there is none afterwards. Gives
    /// its name.
    fn remove(&mut self, other: &Self) -> Option<String> {
        let context = self.counterpart(other)?.to_owned();
        self.drop_context(&context);
        if self.current() == Some(&context) {
            self.set_current("");
        }
        Some(context)
    }
}
