//! Requests of the client as the simulator takes them: through the very bytes that would travel.

use std::fs::File;
use std::io::Read as _;
use std::sync::atomic::Ordering;

use secrecy::ExposeSecret as _;
use talmox_pve::client::{Body, FileContent, HttpRequest, TransportError};
use talmox_sim::{Body as SimBody, Request};

/// The bytes of a request's body. A file on disk is read as it is now.
pub(crate) fn body_bytes(body: &Body) -> Result<Vec<u8>, TransportError> {
    match body {
        Body::Empty => Ok(Vec::new()),
        Body::Form(bytes) => Ok(bytes.to_vec()),
        Body::Multipart { head, file, tail, sent, .. } => {
            let file = file_bytes(file)?;
            sent.fetch_add(file.len() as u64, Ordering::Relaxed);
            Ok([head.as_ref(), &file, tail.as_ref()].concat())
        }
    }
}

fn file_bytes(file: &FileContent) -> Result<Vec<u8>, TransportError> {
    match file {
        FileContent::Memory(bytes) => Ok(bytes.to_vec()),
        FileContent::File { path, length } => {
            let unsendable = |what: String| TransportError::Unsendable { reason: what };
            let mut bytes = Vec::new();
            let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
            read.map_err(|error| unsendable(format!("{}: {error}", path.display())))?;
            if bytes.len() as u64 == *length {
                return Ok(bytes);
            }
            Err(unsendable(format!("{} has {} bytes, expected {length}", path.display(), bytes.len())))
        }
    }
}

/// The request as it arrives at the host called `via`.
pub(crate) fn arriving(request: &HttpRequest, body: &[u8], via: &str) -> Result<Request, TransportError> {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let header = |name: &str| {
        let found = request.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.expose_secret().to_owned())
    };
    let cookie = header("Cookie").and_then(|cookies| {
        let ticket = cookies.split("; ").find_map(|cookie| cookie.strip_prefix("PVEAuthCookie="));
        ticket.map(str::to_owned)
    });
    Ok(Request {
        method: request.method.as_str().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        authorization: header("Authorization"),
        cookie,
        csrf: header("CSRFPreventionToken"),
        body: arriving_body(&request.body, body)?,
        via: Some(via.to_owned()),
    })
}

fn arriving_body(body: &Body, bytes: &[u8]) -> Result<SimBody, TransportError> {
    let content_type = body.content_type();
    match body {
        Body::Empty => Ok(SimBody::Empty),
        Body::Form(_) => Ok(SimBody::Bytes { content_type, bytes: bytes.to_vec() }),
        Body::Multipart { .. } => SimBody::upload(&content_type.unwrap_or_default(), bytes)
            .map_err(|error| TransportError::Unsendable { reason: error.to_string() }),
    }
}
