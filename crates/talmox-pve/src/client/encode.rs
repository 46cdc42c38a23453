//! Paths and parameters, encoded the way Proxmox's decoder needs.
//!
//! Its form decoder splits on `;` as well as `&` and cuts a value at its second `=`, so nothing but letters, digits and
//! `-._~` is ever sent bare.

use std::fmt::{self, Display, Write as _};

/// Percent-encodes everything but unreserved characters.
pub fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A part of a path. `Sync`, because segments live as long as the call they are made for, and calls are made on
/// whatever thread a runtime likes.
pub(crate) type Segment<'a> = &'a (dyn Display + Sync);

/// A path of the API from its segments, each encoded: a volume id has `:` and `/` in it.
pub(crate) fn path(segments: &[Segment<'_>]) -> String {
    segments.iter().fold(String::new(), |path, segment| path + "/" + &percent_encode(&segment.to_string()))
}

/// Parameters of a call, in the order they were given.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Params(Vec<(String, String)>);

impl Params {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Display) -> Self {
        self.0.push((key.into(), value.to_string()));
        self
    }

    /// Adds a parameter that may be left out.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds a switch; Proxmox takes exactly `0` or `1` outside property strings.
    #[must_use]
    pub fn with_flag(self, key: &str, on: bool) -> Self {
        self.with(key, u8::from(on))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// As a form body or a query.
    pub fn encode(&self) -> String {
        let pair = |(key, value): (&str, &str)| percent_encode(key) + "=" + &percent_encode(value);
        self.iter().map(pair).collect::<Vec<_>>().join("&")
    }
}

/// Names only: values may be passwords, keys or machine configurations.
impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(key, _)| key)).finish()
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Params {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_the_decoder_would_split_stays_bare() {
        let params = Params::new().with("boot", "order=scsi0;net0").with("description", "a & b + 100%\nä");
        assert_eq!(
            params.encode(),
            "boot=order%3Dscsi0%3Bnet0&description=a%20%26%20b%20%2B%20100%25%0A%C3%A4"
        );
        assert_eq!(path(&[&"storage", &"local:iso/x.iso"]), "/storage/local%3Aiso%2Fx.iso");
    }

    #[test]
    fn values_do_not_show_in_debug() {
        let params = Params::new().with("password", "hunter2");
        assert_eq!(format!("{params:?}"), r#"["password"]"#);
    }
}
