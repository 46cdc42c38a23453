//! URLs and places of manifests. Messages about them never repeat what stands there: a mistyped URL may hold a password.

use std::net::{IpAddr, SocketAddr};

use talmox_types::Url;
use talmox_yaml::Node;

use crate::problem::{Code, Problem};
use crate::read::{Reading, Shape, Text, Value};

/// The URL of an API: scheme, host and port, no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiUrl(pub Url);

impl ApiUrl {
    /// Whether it leads to an address of loopback.
    pub(crate) fn is_loopback(&self) -> bool {
        let authority = self.0.authority();
        let with_port = authority.parse::<SocketAddr>().map(|address| address.ip());
        with_port.or_else(|_| authority.parse::<IpAddr>()).is_ok_and(|address| address.is_loopback())
    }
}

/// A URL with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebUrl(pub Url);

/// A file, or the URL of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOrUrl {
    File(String),
    Url(Url),
}

fn read_url(node: &Node, reading: &mut Reading<'_>) -> Option<Url> {
    let text = Text::read(node, reading)?.0;
    let location = reading.location(node);
    if text.contains('@') {
        reading.report(
            Problem::error(Code::PlainSecret, "a URL here holds no user name or password")
                .at(location, "credentials in a URL")
                .conceal(location)
                .hint("write https://host:port; credentials have keys of their own"),
        );
        return None;
    }
    if text.contains(['?', '#']) {
        reading.report(
            Problem::error(Code::InvalidValue, "a URL here ends with its path")
                .at(location, "a query or fragment")
                .conceal(location)
                .hint("leave out everything from ? or # on"),
        );
        return None;
    }
    match Url::parse(&text) {
        Ok(url) => Some(url),
        Err(invalid) => {
            let problem = Problem::error(Code::InvalidValue, "this is not a URL").at(location, "not a URL");
            let missing_scheme = !text.contains("://") && Url::parse(&format!("https://{text}")).is_ok();
            let hint = if missing_scheme { format!("write https://{text}") } else { invalid.rule.to_owned() };
            reading.report(problem.hint(hint));
            None
        }
    }
}

impl Value for ApiUrl {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let url = read_url(node, reading)?;
        let location = reading.location(node);
        let problem = if !url.path().is_empty() {
            Problem::error(Code::InvalidValue, "the URL of an API has no path")
                .at(location, "more than host and port")
                .hint(format!("write https://{}", url.authority()))
        } else if !url.is_https() {
            Problem::error(Code::InvalidValue, "an API is reached by https only")
                .at(location, "secrets would travel in plain text")
                .hint(format!("write https://{}", url.authority()))
        } else {
            return Some(Self(url));
        };
        reading.report(problem);
        None
    }

    fn shape() -> Shape {
        Shape::Text { what: "a URL", pattern: Some("^https://[^@?# /]+/?$") }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Value for WebUrl {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        read_url(node, reading).map(Self)
    }

    fn shape() -> Shape {
        Shape::Text { what: "a URL", pattern: Some("^https?://[^@?# ]+$") }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl From<FileOrUrl> for String {
    fn from(place: FileOrUrl) -> Self {
        place.show()
    }
}

impl Value for FileOrUrl {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        if node.as_scalar().is_some_and(|scalar| scalar.text.contains("://")) {
            return read_url(node, reading).map(Self::Url);
        }
        Text::read(node, reading).map(|text| Self::File(text.0))
    }

    fn shape() -> Shape {
        Shape::Text { what: "a file or a URL", pattern: None }
    }

    fn show(&self) -> String {
        match self {
            Self::File(path) => path.clone(),
            Self::Url(url) => url.to_string(),
        }
    }
}
