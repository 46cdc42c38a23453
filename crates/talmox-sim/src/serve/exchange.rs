//! From a request on the wire to the world, and back.

use std::io::{self, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, COOKIE,
    HeaderMap, HeaderName, HeaderValue, PRAGMA, SERVER, TRANSFER_ENCODING,
};
use hyper::{Response, StatusCode};
use tokio::time::Instant;

use super::connection::{LONGEST_IDLE, Talk};
use super::outgoing::Outgoing;
use crate::multipart::{self, BadUpload};
use crate::simulation::Delivery;
use crate::wire::{BODY_LIMIT, Body, Reply, Request};

const CSRF: HeaderName = HeaderName::from_static("csrfpreventiontoken");
/// Lines of a head after the first, the empty one at its end included: with so many it is too long.
const TOO_MANY_LINES: usize = 64;
/// Bytes of these lines: with so many it is too large.
const TOO_LARGE: usize = 8 * 1024;
/// Replies that are longer are compressed.
const SHORT: usize = 1024;
const COOKIE_NAME: &str = "PVEAuthCookie=";

/// Why a request gets no answer from the world.
enum Unread {
    Refused(Reply),
    /// The client went away in the middle.
    Gone(io::Error),
}

/// Answers one request. An error breaks the connection.
pub(super) async fn answer(
    talk: Arc<Talk>,
    request: hyper::Request<Incoming>,
) -> Result<Response<Outgoing>, io::Error> {
    let (mut turn, last) = talk.begin();
    let gzip = text(request.headers(), &ACCEPT_ENCODING).is_some_and(|accepted| accepted.contains("gzip"));
    let manner = Manner { last, gzip };
    let request = match read(request, &talk).await {
        Ok(request) => request,
        Err(Unread::Refused(reply)) => {
            return Ok(respond(&reply, manner, |bytes| Outgoing::whole(bytes, turn)));
        }
        Err(Unread::Gone(error)) => return Err(error),
    };
    let arrived = Instant::now();
    let wire = talk.shared.wire_time(&request.method);
    // What is not saved is not acknowledged; the saver tries once more and ends the server if that fails too.
    let delivery = talk.shared.handle(&request).await.map_err(io::Error::other)?;
    let handled = Instant::now();
    let due = |delay: u64| (arrived + wire).max(handled + talk.shared.wall(delay));
    let answered = |delay: u64| until(due(delay));
    talk.shared.note_call(&request, &delivery, due(delivery.delay()) - arrived);
    match delivery {
        Delivery::Reply(reply) => {
            answered(reply.delay).await;
            Ok(respond(&reply, manner, |bytes| Outgoing::whole(bytes, turn)))
        }
        Delivery::ReplyThenClose(reply) => {
            answered(reply.delay).await;
            turn.close_after();
            Ok(respond(&reply, manner, |bytes| Outgoing::whole(bytes, turn)))
        }
        Delivery::Cut(reply, after) => {
            answered(reply.delay).await;
            Ok(respond(&reply, manner, |bytes| Outgoing::cut(&bytes, after, turn)))
        }
        Delivery::Lost { delay } => {
            answered(delay).await;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Delivery::Silence => std::future::pending().await,
        Delivery::HostDown => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

/// Waits until then; not at all if that is past.
async fn until(time: Instant) {
    if time > Instant::now() {
        tokio::time::sleep_until(time).await;
    }
}

async fn read(request: hyper::Request<Incoming>, talk: &Talk) -> Result<Request, Unread> {
    let (head, body) = request.into_parts();
    if head.headers.len() + 1 >= TOO_MANY_LINES || size(&head.headers) >= TOO_LARGE {
        // The real server drops what it read and says nothing; then the connection lies idle.
        tokio::time::sleep(LONGEST_IDLE).await;
        return Err(Unread::Gone(io::ErrorKind::TimedOut.into()));
    }
    if head.headers.contains_key(TRANSFER_ENCODING) {
        let text = "chunked transfer encoding not supported";
        return Err(Unread::Refused(Reply::plain(501, text, text)));
    }
    let mut request = Request {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        authorization: text(&head.headers, &AUTHORIZATION),
        cookie: cookie(&head.headers),
        csrf: text(&head.headers, &CSRF),
        body: Body::Empty,
        via: Some(talk.host.clone()),
    };
    let content_type = text(&head.headers, &CONTENT_TYPE);
    let boundary = content_type.as_deref().and_then(multipart::boundary);
    request.body = match boundary.filter(|_| request.method == "POST" && request.path.ends_with("/upload")) {
        // Nobody's upload is not looked at; the world says why.
        Some(_) if !talk.shared.knows(&request) => read_bytes(body, None).await.map(|_| Body::Empty)?,
        Some(boundary) => read_upload(body, boundary).await?,
        None => read_bytes(body, content_type).await?,
    };
    Ok(request)
}

/// Bytes of the header lines, each with its colon and blank, without its end.
fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 2).sum()
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The ticket among the cookies.
fn cookie(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    lines
        .flat_map(|line| line.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE_NAME))
        .map(str::to_owned)
}

/// The next piece of a body; a client that sends none for too long is gone.
async fn next_frame(body: &mut Incoming) -> Result<Option<Frame<Bytes>>, Unread> {
    match tokio::time::timeout(LONGEST_IDLE, body.frame()).await {
        Ok(frame) => frame.transpose().map_err(|error| Unread::Gone(io::Error::other(error))),
        Err(_) => Err(Unread::Gone(io::ErrorKind::TimedOut.into())),
    }
}

async fn read_bytes(mut body: Incoming, content_type: Option<String>) -> Result<Body, Unread> {
    let mut bytes = Vec::new();
    while let Some(frame) = next_frame(&mut body).await? {
        let Ok(data) = frame.into_data() else { continue };
        // A byte beyond the limit is enough for a refusal; the rest is read so that the client gets to hear it.
        let room = (BODY_LIMIT + 1).saturating_sub(bytes.len());
        bytes.extend_from_slice(&data[..data.len().min(room)]);
    }
    Ok(if bytes.is_empty() { Body::Empty } else { Body::Bytes { content_type, bytes } })
}

async fn read_upload(mut body: Incoming, boundary: &str) -> Result<Body, Unread> {
    let refused = |error: BadUpload| {
        let text = error.to_string();
        Unread::Refused(Reply::plain(500, &text, &text))
    };
    let mut reader = multipart::Reader::new(boundary);
    let mut fault = None;
    while let Some(frame) = next_frame(&mut body).await? {
        if let (Ok(data), None) = (frame.into_data(), fault) {
            fault = reader.push(&data).err();
        }
    }
    if let Some(fault) = fault {
        return Err(refused(fault));
    }
    let multipart::Upload { fields, filename, file } = reader.finish().map_err(refused)?;
    Ok(Body::Upload { fields, filename, file })
}

/// How replies on a connection are sent.
#[derive(Clone, Copy)]
struct Manner {
    /// It is the last one.
    last: bool,
    /// The client takes compressed ones.
    gzip: bool,
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // A vector takes everything.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

fn respond(reply: &Reply, manner: Manner, body: impl FnOnce(Bytes) -> Outgoing) -> Response<Outgoing> {
    let gzip = manner.gzip && reply.body.len() > SHORT;
    let bytes = if gzip { compressed(&reply.body) } else { reply.body.clone() };
    let mut response = Response::new(body(Bytes::from(bytes)));
    let fixed = [(SERVER, "pve-api-daemon/3.0"), (CACHE_CONTROL, "max-age=0"), (PRAGMA, "no-cache")];
    response.headers_mut().extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    if gzip {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // What cannot stand in a reason phrase is left out of it, as a line feed would be.
    let reason: String = reply.reason.chars().filter(|c| !c.is_control()).collect();
    if let Ok(phrase) = ReasonPhrase::try_from(reason.into_bytes()) {
        response.extensions_mut().insert(phrase);
    }
    if let Some(kind) = reply.content_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if manner.last || reply.closes_connection() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
