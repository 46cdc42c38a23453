//! A transport that answers from a script and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};
use talmox_pve::client::{
    Body, BoxFuture, Client, Credentials, Endpoint, Entropy, Error, FileContent, HttpRequest, HttpResponse,
    Settings, Target, Transport, TransportError,
};

/// What the fake does with the next request.
pub(crate) enum Answer {
    Reply {
        status: u16,
        reason: String,
        body: String,
    },
    Fail(TransportError),
    /// Answers `null` after a while.
    Slowly(Duration),
    Never,
    /// Answers so after a while.
    After(Duration, Box<Self>),
}

/// A request as it would have left.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) host: String,
    /// Method, path and query.
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

#[derive(Default)]
pub(crate) struct Fake {
    answers: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Seen>>,
    /// Requests under way now, and the most there ever were.
    under_way: Mutex<(usize, usize)>,
}

impl Fake {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests by host and line.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen()
            .iter()
            .map(|seen| format!("{} {}", seen.host, seen.line.replace("/api2/json", "")))
            .collect()
    }

    pub(crate) fn most_under_way(&self) -> usize {
        self.under_way.lock().unwrap().1
    }

    /// A client of one host.
    pub(crate) fn client(self: &Arc<Self>) -> Client {
        self.client_of(&["pve1"], &token(), Settings::default())
    }

    pub(crate) fn client_of(
        self: &Arc<Self>,
        hosts: &[&str],
        credentials: &Credentials,
        settings: Settings,
    ) -> Client {
        let endpoints = hosts.iter().map(|host| Endpoint::parse(host).unwrap()).collect();
        let transport: Arc<dyn Transport> = Arc::clone(self) as Arc<dyn Transport>;
        Client::with_entropy(endpoints, credentials, transport, settings, Arc::new(Steady)).unwrap()
    }
}

/// Randomness that is none.
struct Steady;

impl Entropy for Steady {
    fn next(&self) -> u64 {
        7
    }
}

impl Transport for Fake {
    fn send<'a>(
        &'a self,
        target: &'a Target,
        request: HttpRequest,
    ) -> BoxFuture<'a, Result<HttpResponse, TransportError>> {
        Box::pin(async move {
            self.seen.lock().unwrap().push(see(target, &request));
            let mut answer = self.answers.lock().unwrap().pop_front();
            let _under_way = UnderWay::begin(&self.under_way);
            while let Some(Answer::After(time, late)) = answer {
                tokio::time::sleep(time).await;
                answer = Some(*late);
            }
            match answer {
                Some(Answer::Reply { status, reason, body }) => {
                    Ok(HttpResponse { status, reason, body: Bytes::from(body) })
                }
                Some(Answer::Fail(error)) => Err(error),
                Some(Answer::Slowly(time)) => {
                    tokio::time::sleep(time).await;
                    Ok(HttpResponse {
                        status: 200,
                        reason: "OK".into(),
                        body: Bytes::from_static(b"{\"data\":null}"),
                    })
                }
                Some(Answer::Never | Answer::After(..)) => std::future::pending().await,
                None => Err(TransportError::Unsendable { reason: "the script is over".to_owned() }),
            }
        })
    }
}

/// Counts a request until it is answered or dropped.
struct UnderWay<'a>(&'a Mutex<(usize, usize)>);

impl<'a> UnderWay<'a> {
    fn begin(counts: &'a Mutex<(usize, usize)>) -> Self {
        let mut guard = counts.lock().unwrap();
        guard.0 += 1;
        guard.1 = guard.1.max(guard.0);
        Self(counts)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().0 -= 1;
    }
}

fn see(target: &Target, request: &HttpRequest) -> Seen {
    let body = match &request.body {
        Body::Empty => Bytes::new(),
        Body::Form(bytes) => bytes.clone(),
        Body::Multipart { head, file: FileContent::Memory(file), tail, .. } => {
            [head.as_ref(), file.as_ref(), tail.as_ref()].concat().into()
        }
        Body::Multipart { file: FileContent::File { .. }, .. } => Bytes::from_static(b"a file"),
    };
    Seen {
        host: target.endpoint.host().to_owned(),
        line: format!("{} {}", request.method.as_str(), request.path),
        headers: request
            .headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.expose_secret().to_owned()))
            .collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

pub(crate) const SECRET: &str = "d8b5b5f0-7d6c-4a3e-9a51-aaaaaaaaaaaa";

pub(crate) fn token() -> Credentials {
    Credentials::token(&SecretString::from(format!("talmox@pve!ci={SECRET}"))).unwrap()
}

pub(crate) fn password() -> Credentials {
    Credentials::password("root@pam", SecretString::from("hunter2")).unwrap()
}

/// A success with this data.
pub(crate) fn data(json: &str) -> Answer {
    Answer::Reply { status: 200, reason: "OK".to_owned(), body: format!("{{\"data\":{json}}}") }
}

/// A refusal as Proxmox 9 makes it.
pub(crate) fn refusal(status: u16, words: &str) -> Answer {
    let body = format!("{{\"data\":null,\"message\":\"{words}\\n\"}}");
    Answer::Reply { status, reason: words.to_owned(), body }
}

/// A refusal whose words are in the reason phrase alone.
pub(crate) fn bare_refusal(status: u16, reason: &str) -> Answer {
    Answer::Reply { status, reason: reason.to_owned(), body: String::new() }
}

/// The answer, some milliseconds later.
pub(crate) fn after(milliseconds: u64, answer: Answer) -> Answer {
    Answer::After(Duration::from_millis(milliseconds), Box::new(answer))
}

pub(crate) fn refused_connection() -> Answer {
    Answer::Fail(TransportError::Connect { reason: "Connection refused".to_owned() })
}

pub(crate) fn lost_reply() -> Answer {
    Answer::Fail(TransportError::Lost { reason: "the connection was closed before a reply came".to_owned() })
}

/// An error as the command line would print it.
pub(crate) fn told(error: &Error) -> String {
    let mut lines = vec![format!("error: {error}")];
    lines.extend(error.hints().into_iter().map(|hint| format!("hint: {hint}")));
    lines.join("\n")
}
