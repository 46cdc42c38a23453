//! Requests and replies as they look on the wire, and PVE's own way of decoding them.
//!
//! The decoder is not a standard one: pairs split at `;` too, a value ends at its second raw `=`, a key without `=` is
//! null, a repeated key is a list. A client that encodes loosely must see the same damage here as on a real server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::files::FileFacts;

/// The largest body the server reads, uploads apart.
pub(crate) const BODY_LIMIT: usize = 512 * 1024;

#[derive(Clone, Default)]
pub struct Request {
    pub method: String,
    /// Path with the leading slash, still percent-encoded, without the query.
    pub path: String,
    /// The raw query string.
    pub query: String,
    /// Value of the `Authorization` header.
    pub authorization: Option<String>,
    /// Value of the cookie `PVEAuthCookie`, still percent-encoded.
    pub cookie: Option<String>,
    /// Value of the header `CSRFPreventionToken`.
    pub csrf: Option<String>,
    pub body: Body,
    /// The host that was contacted; the first one if not given.
    pub via: Option<String>,
}

impl std::fmt::Debug for Request {
    /// What authenticates the caller, and the body, which may hold a password, stay out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { method, path, query: _, authorization: _, cookie: _, csrf: _, body: _, via } = self;
        f.debug_struct("Request")
            .field("method", method)
            .field("path", path)
            .field("via", via)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Default)]
pub enum Body {
    #[default]
    Empty,
    /// A body that is a form, JSON, or something the server refuses.
    Bytes { content_type: Option<String>, bytes: Vec<u8> },
    /// A multipart upload whose file part is described rather than carried.
    Upload { fields: BTreeMap<String, String>, filename: String, file: FileFacts },
}

/// A body may hold a password: only its kind is shown.
impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Bytes { .. } => "Bytes",
            Self::Upload { .. } => "Upload",
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub reason: String,
    pub content_type: Option<&'static str>,
    pub body: Vec<u8>,
    /// How long the server sat on the reply, beyond the wire: milliseconds.
    pub delay: u64,
}

pub const JSON: &str = "application/json;charset=UTF-8";

impl Reply {
    pub(crate) fn json(status: u16, reason: &str, body: &Value) -> Self {
        Self {
            status,
            reason: first_line(reason),
            content_type: Some(JSON),
            body: body.to_string().into_bytes(),
            delay: 0,
        }
    }

    /// An error of the server layer: no JSON, the text is the body too, or there is no body at all.
    pub(crate) fn plain(status: u16, reason: &str, body: &str) -> Self {
        Self {
            status,
            reason: first_line(reason),
            content_type: None,
            body: body.as_bytes().to_vec(),
            delay: 0,
        }
    }

    /// Every reply that is an error closes the connection.
    pub fn closes_connection(&self) -> bool {
        self.status >= 400
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// One parameter as it arrived, before a schema has looked at it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Param {
    Text(String),
    /// A real boolean can only come from JSON.
    Flag(bool),
    List(Vec<Param>),
    Object,
    Null,
}

impl Param {
    pub(crate) fn text(value: impl Into<String>) -> Self {
        Self::Text(value.into())
    }
}

pub(crate) type Params = BTreeMap<String, Param>;

#[derive(Debug, PartialEq)]
pub(crate) struct DecodeError {
    pub(crate) status: u16,
    pub(crate) text: String,
}

/// Decodes the query and the body into one set; the query wins.
pub(crate) fn decode(request: &Request) -> Result<Params, DecodeError> {
    let mut params = Params::new();
    let has_body = matches!(request.method.as_str(), "POST" | "PUT");
    match &request.body {
        Body::Empty => {}
        Body::Bytes { bytes, .. } if !has_body && bytes.is_empty() => {}
        Body::Bytes { .. } if !has_body => {
            let text = format!("Unexpected content for method '{}'", request.method);
            return Err(DecodeError { status: 501, text });
        }
        Body::Bytes { content_type, bytes } => params = decode_body(content_type.as_deref(), bytes)?,
        Body::Upload { fields, filename, .. } => {
            params.extend(fields.iter().map(|(key, value)| (key.clone(), Param::text(value))));
            params.insert("filename".into(), Param::text(filename));
        }
    }
    params.extend(decode_form(request.query.as_bytes()));
    Ok(params)
}

fn decode_body(content_type: Option<&str>, bytes: &[u8]) -> Result<Params, DecodeError> {
    if bytes.len() > BODY_LIMIT {
        return Err(DecodeError { status: 501, text: "for data too large".into() });
    }
    let kind = content_type.map_or("", |text| text.split(';').next().unwrap_or_default().trim());
    match kind {
        "" | "application/x-www-form-urlencoded" => Ok(decode_form(bytes)),
        "application/json" => decode_json(bytes),
        _ => {
            let text = format!("upload 'Content-Type '{}' not implemented", content_type.unwrap_or_default());
            Err(DecodeError { status: 506, text })
        }
    }
}

fn decode_form(bytes: &[u8]) -> Params {
    let text = String::from_utf8_lossy(bytes);
    let mut params = Params::new();
    for pair in text.split(['&', ';']).filter(|pair| !pair.is_empty()) {
        let mut parts = pair.split('=');
        let key = unescape_form(parts.next().unwrap_or_default());
        let value = parts.next().map_or(Param::Null, |value| Param::Text(unescape_form(value)));
        insert(&mut params, key, value);
    }
    params
}

fn insert(params: &mut Params, key: String, value: Param) {
    match params.get_mut(&key) {
        None => {
            params.insert(key, value);
        }
        Some(Param::List(list)) => list.push(value),
        Some(first) => {
            let both = vec![first.clone(), value];
            *first = Param::List(both);
        }
    }
}

fn unescape_form(text: &str) -> String {
    percent_decode(&text.replace('+', " "))
}

/// Percent-decoding; bytes that are no UTF-8 become replacement characters.
pub(crate) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        let decoded = hex.filter(|_| bytes[at] == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok());
        if let Some(byte) = decoded {
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Percent-encodes everything but unreserved characters.
pub fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Encodes pairs the way the server's decoder needs them.
pub fn encode_form<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let encoded =
        pairs.into_iter().map(|(key, value)| format!("{}={}", percent_encode(key), percent_encode(value)));
    encoded.collect::<Vec<_>>().join("&")
}

fn decode_json(bytes: &[u8]) -> Result<Params, DecodeError> {
    let malformed = |at: usize| {
        let rest = String::from_utf8_lossy(bytes.get(at..).unwrap_or_default()).into_owned();
        let rest = if rest.is_empty() { "(end of string)".to_owned() } else { rest };
        let text = format!(
            "malformed JSON string, neither tag, array, object, number, string or atom, at character offset {at} \
             (before \"{rest}\") at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934.\n"
        );
        DecodeError { status: 500, text }
    };
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(map)) => Ok(map.into_iter().map(|(key, value)| (key, from_json(value))).collect()),
        Ok(_) => Err(malformed(0)),
        Err(error) => {
            Err(malformed(if error.is_eof() { bytes.len() } else { error.column().saturating_sub(1) }))
        }
    }
}

fn from_json(value: Value) -> Param {
    match value {
        Value::Null => Param::Null,
        Value::Bool(flag) => Param::Flag(flag),
        Value::Number(number) => Param::Text(number.to_string()),
        Value::String(text) => Param::Text(text),
        Value::Array(list) => Param::List(list.into_iter().map(from_json).collect()),
        Value::Object(_) => Param::Object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Params {
        decode_form(text.as_bytes())
    }

    #[test]
    fn a_raw_equals_sign_cuts_the_value_and_a_semicolon_splits_the_pair() {
        assert_eq!(form("boot=order=scsi0;net0")["boot"], Param::text("order"));
        assert_eq!(form("boot=order=scsi0;net0")["net0"], Param::Null);
        assert_eq!(form("boot=order%3Dscsi0%3Bnet0")["boot"], Param::text("order=scsi0;net0"));
    }

    #[test]
    fn repeated_keys_become_a_list_and_an_empty_value_is_not_null() {
        assert_eq!(form("a=1&a=2&a=3")["a"], Param::List(["1", "2", "3"].map(Param::text).to_vec()));
        assert_eq!(form("a=&b")["a"], Param::text(""));
        assert_eq!(form("a=&b")["b"], Param::Null);
        assert_eq!(form("a=x+y%2B")["a"], Param::text("x y+"));
    }

    #[test]
    fn query_parameters_override_the_body_and_delete_takes_no_body() {
        let bytes = b"a=1&b=2".to_vec();
        let body = Body::Bytes { content_type: None, bytes };
        let mut request =
            Request { method: "POST".into(), query: "a=9".into(), body: body.clone(), ..Request::default() };
        assert_eq!(decode(&request).unwrap()["a"], Param::text("9"));
        request.method = "DELETE".into();
        assert_eq!(decode(&request).unwrap_err().status, 501);
    }

    #[test]
    fn a_request_shows_no_secret() {
        let request =
            Request { authorization: Some("PVEAPIToken=a@pve!t=hidden".into()), ..Request::default() };
        assert!(!format!("{request:?}").contains("hidden"));
    }

    #[test]
    fn what_is_encoded_here_is_decoded_unharmed() {
        let value = "order=scsi0;net0 & 100% +ü";
        assert_eq!(form(&encode_form([("k", value)]))["k"], Param::text(value));
    }
}
