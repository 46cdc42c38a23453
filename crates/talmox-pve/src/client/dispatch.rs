//! The client: one call over several endpoints.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use talmox_types::excerpt;
use talmox_types::sabotage::{Defect, sabotaged};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

use crate::client::call::{Call, Time};
use crate::client::credentials::Allowed;
use crate::client::error::LOGIN;
use crate::client::pace::Pace;
use crate::client::reply::{self, Reply};
use crate::client::retry::{Entropy, RetryPolicy, SystemEntropy};
use crate::client::session::{Next, Pass, Session, TicketReply};
use crate::client::{
    Credentials, Endpoint, Error, ErrorKind, HttpRequest, HttpResponse, Method, Outcome, Params, Target,
    Transport, TransportError, WrongEndpoint,
};

/// How the client behaves; the defaults suit a cluster on a local network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a call may take in all: waiting for its turn, logging in, asking again and asking elsewhere included.
    pub timeout: Duration,
    /// How long one endpoint may take of that before another is asked. Proxmox itself gives up a hop after 30 s, so with
    /// less its own answer is missed; with as much as `timeout` a silent endpoint leaves no time for the others.
    pub attempt_timeout: Duration,
    /// Requests under way to one host at a time. Reads take its API a few milliseconds, of which most of a round trip is
    /// not, so more of them than its three workers keep those busy.
    pub in_flight_per_host: usize,
    /// Those of them that change something: each of its three workers is bound for as long as one takes.
    pub writes_in_flight_per_host: usize,
    pub retry: RetryPolicy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(90),
            attempt_timeout: Duration::from_secs(40),
            in_flight_per_host: 10,
            writes_in_flight_per_host: 4,
            retry: RetryPolicy::default(),
        }
    }
}

/// A client of one Proxmox cluster. Clones share connections, ticket and limits.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    hosts: RwLock<Vec<Arc<Host>>>,
    /// The endpoint that answered last.
    preferred: AtomicUsize,
    transport: Arc<dyn Transport>,
    session: Session,
    allowed: Allowed,
    entropy: Arc<dyn Entropy>,
    settings: Settings,
    pace: Pace,
}

struct Host {
    target: Target,
    turns: Semaphore,
    /// Taken before one of the turns, by whatever is no read.
    write_turns: Semaphore,
    /// Whether it could not be reached when it was last asked.
    silent: AtomicBool,
}

/// Why there can be no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("no Proxmox endpoint is given")]
    NoEndpoint,
    #[error(transparent)]
    WrongEndpoint(#[from] WrongEndpoint),
}

impl Client {
    /// A client for endpoints of one cluster, asked in this order. Credentials bound to certain endpoints are refused
    /// for others.
    pub fn new(
        endpoints: Vec<Endpoint>,
        credentials: &Credentials,
        transport: Arc<dyn Transport>,
        settings: Settings,
    ) -> Result<Self, ClientError> {
        Self::with_entropy(endpoints, credentials, transport, settings, Arc::new(SystemEntropy))
    }

    /// The same with randomness of one's own.
    pub fn with_entropy(
        endpoints: Vec<Endpoint>,
        credentials: &Credentials,
        transport: Arc<dyn Transport>,
        settings: Settings,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, ClientError> {
        if endpoints.is_empty() {
            return Err(ClientError::NoEndpoint);
        }
        for endpoint in &endpoints {
            credentials.check(endpoint)?;
        }
        let hosts = endpoints.into_iter().map(|endpoint| Host::new(endpoint.into(), &settings)).collect();
        Ok(Self(Arc::new(Inner {
            hosts: RwLock::new(hosts),
            preferred: AtomicUsize::new(0),
            transport,
            session: Session::new(credentials),
            allowed: credentials.allowed.clone(),
            entropy,
            settings,
            pace: Pace::default(),
        })))
    }

    pub(crate) fn pace(&self) -> &Pace {
        &self.0.pace
    }

    /// Whether this is `root@pam` by password, who alone may set raw PCI addresses. A token never is, not even root's.
    pub fn is_root(&self) -> bool {
        self.0.session.is_root()
    }

    /// The user or token as Proxmox names it, without its secret.
    pub fn login(&self) -> &str {
        self.0.session.name()
    }

    /// The endpoints, those learned included.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.hosts().iter().map(|host| host.target.endpoint.clone()).collect()
    }

    pub(crate) fn targets(&self) -> Vec<Target> {
        self.hosts().iter().map(|host| host.target.clone()).collect()
    }

    /// Adds an endpoint a trusted host vouched for, unless it is known or the credentials must not go there.
    pub(crate) fn add_target(&self, target: Target) {
        if !self.0.allowed.permits_peer(&target.endpoint) {
            tracing::debug!(endpoint = %target.endpoint, "not asked: the credentials are not for it");
            return;
        }
        let mut hosts = self.0.hosts.write().unwrap_or_else(PoisonError::into_inner);
        if !hosts.iter().any(|host| host.target.endpoint == target.endpoint) {
            hosts.push(Host::new(target, &self.0.settings));
        }
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.0.entropy
    }

    /// Reads. For what this crate has no method for; the path begins with `/` and is encoded already.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, params: Params) -> Result<T, Error> {
        self.call(&Call::new(Method::Get, path, params)).await
    }

    /// Creates or starts something.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, params: Params) -> Result<T, Error> {
        self.call(&Call::new(Method::Post, path, params)).await
    }

    /// Changes something.
    pub async fn put<T: DeserializeOwned>(&self, path: &str, params: Params) -> Result<T, Error> {
        self.call(&Call::new(Method::Put, path, params)).await
    }

    /// Removes something.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str, params: Params) -> Result<T, Error> {
        self.call(&Call::new(Method::Delete, path, params)).await
    }

    pub(crate) async fn call<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        self.call_whole(call).await.map(|reply| reply.data)
    }

    /// Makes a call, again and elsewhere where that is safe, and reads the whole reply.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the call up. A call other than a read may then have happened.
    pub(crate) async fn call_whole<T: DeserializeOwned>(&self, call: &Call) -> Result<Reply<T>, Error> {
        let hosts = self.hosts();
        let direct = direct(&hosts, &call.path);
        let first = direct.unwrap_or_else(|| self.0.preferred.load(Ordering::Relaxed));
        let Settings { timeout, attempt_timeout, retry, .. } = self.0.settings;
        let attempts = retry.attempts.max(hosts.len());
        let time = Time::starting_now(call.timeout.unwrap_or(timeout));
        let attempt_limit = call.timeout.unwrap_or(attempt_timeout);
        let mut attempt = 0;
        let mut hop = None;
        loop {
            let index = (first + attempt) % hosts.len();
            let error = match self.attempt(&hosts[index], call, time.part(attempt_limit)).await {
                Ok(response) => {
                    hosts[index].silent.store(false, Ordering::Relaxed);
                    if direct != Some(index) {
                        self.0.preferred.store(index, Ordering::Relaxed);
                    }
                    match reply::read(&call.name(), &hosts[index].target.endpoint, &response) {
                        Ok(reply) => return Ok(reply),
                        Err(error) => self.masked(error),
                    }
                }
                Err(error) => {
                    hosts[index].silent.store(true, Ordering::Relaxed);
                    self.masked(error)
                }
            };
            attempt += 1;
            // A host that stayed silent has had its time; only another one is worth more of it.
            let attempts = if *error.kind() == ErrorKind::Timeout { hosts.len() } else { attempts };
            if attempt >= attempts || !retries(&error) {
                return Err(told_best(error, hop));
            }
            // Another endpoint is asked at once; only when all had their turn does waiting help.
            let elsewhere = error.outcome() == Outcome::NeverSent && attempt < hosts.len();
            let delay = if elsewhere { Duration::ZERO } else { retry.delay(attempt, self.entropy()) };
            if delay >= time.left() {
                return Err(told_best(error, hop));
            }
            tracing::warn!(call = error.call(), endpoint = %error.endpoint(), attempt, "asking again: {}", error.words());
            if *error.kind() == ErrorKind::NodeDown {
                hop = Some(error);
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Asks one host, logging in before if need be, and once more if the ticket turns out to have run out.
    async fn attempt(&self, host: &Host, call: &Call, time: Time) -> Result<HttpResponse, Error> {
        let Pass { headers, ticket } = self.pass(host, call.method, time).await?;
        let response = self.exchange(host, &call.name(), call.request(headers), time).await?;
        // A ticket can have run out, a token cannot.
        let Some(ticket) = ticket.filter(|_| response.status == 401) else { return Ok(response) };
        self.0.session.forget(&ticket);
        let Pass { headers, .. } = self.pass(host, call.method, time).await?;
        self.exchange(host, &call.name(), call.request(headers), time).await
    }

    async fn pass(&self, host: &Host, method: Method, time: Time) -> Result<Pass, Error> {
        match self.0.session.next(method) {
            Next::Send(pass) => Ok(pass),
            Next::Login { .. } => self.log_in(host, method, time).await,
        }
    }

    async fn log_in(&self, host: &Host, method: Method, time: Time) -> Result<Pass, Error> {
        // Held while logging in, on purpose: those who come meanwhile use the ticket instead of making their own.
        let Ok(_turn) = tokio::time::timeout_at(time.deadline, self.0.session.login.lock()).await else {
            let words = format!("another login took all of {} s", time.seconds());
            let endpoint = &host.target.endpoint;
            return Err(Error::new(LOGIN, endpoint, ErrorKind::Timeout, Outcome::NeverSent, &words));
        };
        loop {
            let (params, renews) = match self.0.session.next(method) {
                Next::Send(pass) => return Ok(pass),
                Next::Login { params, renews } => (params, renews),
            };
            match (self.fetch_ticket(host, params, time).await, renews) {
                (Ok(ticket), _) => self.0.session.remember(ticket),
                // The ticket that was to be renewed is no longer good: now the password is tried.
                (Err(error), Some(old)) if *error.kind() == ErrorKind::Unauthenticated => {
                    self.0.session.forget(&old);
                }
                (Err(error), _) => return Err(error),
            }
        }
    }

    async fn fetch_ticket(&self, host: &Host, params: Params, time: Time) -> Result<TicketReply, Error> {
        let call = Call::new(Method::Post, "/access/ticket", params);
        let endpoint = &host.target.endpoint;
        let response = self.exchange(host, &call.name(), call.request(Vec::new()), time).await?;
        let ticket = reply::read::<TicketReply>(&call.name(), endpoint, &response)?.data;
        if ticket.needs_second_factor {
            let words = "the user has a second factor: use an API token instead";
            return Err(Error::new(
                &call.name(),
                endpoint,
                ErrorKind::Unauthenticated,
                Outcome::Refused,
                words,
            ));
        }
        Ok(ticket)
    }

    /// Sends a request when it is its turn, within its time.
    async fn exchange(
        &self,
        host: &Host,
        name: &str,
        request: HttpRequest,
        time: Time,
    ) -> Result<HttpResponse, Error> {
        let endpoint = &host.target.endpoint;
        let seconds = time.seconds();
        let Ok(Ok(_turns)) = tokio::time::timeout_at(time.deadline, host.turn(request.method)).await else {
            let words = format!("other requests to this host took all of {seconds} s");
            return Err(Error::new(name, endpoint, ErrorKind::Timeout, Outcome::NeverSent, &words));
        };
        let name =
            &*if sabotaged(Defect::SecretInError) { shown(name, &request).into() } else { Cow::from(name) };
        tracing::trace!(%endpoint, ?request, "request");
        let answer =
            tokio::time::timeout_at(time.deadline, self.0.transport.send(&host.target, request)).await;
        let response = answer.unwrap_or(Err(TransportError::Silent { seconds }));
        if tracing::enabled!(tracing::Level::TRACE) {
            let told = self.masked_text(&excerpt(&format!("{response:?}")));
            tracing::trace!(%endpoint, response = told, "reply");
        }
        response.map_err(|error| transport_error(name, endpoint, error))
    }

    /// An error that repeats none of our secrets, though the server did.
    pub(crate) fn masked(&self, error: Error) -> Error {
        error.map_texts(&|text| self.masked_text(text))
    }

    /// The same for a text.
    pub(crate) fn masked_text(&self, text: &str) -> String {
        self.0.session.echo.masked(text).into_owned()
    }

    fn hosts(&self) -> Vec<Arc<Host>> {
        self.0.hosts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Host {
    fn new(target: Target, settings: &Settings) -> Arc<Self> {
        let turns = Semaphore::new(settings.in_flight_per_host.max(1));
        let write_turns = Semaphore::new(settings.writes_in_flight_per_host.max(1));
        Arc::new(Self { target, turns, write_turns, silent: AtomicBool::new(false) })
    }

    /// Waits until a request may be sent; whoever has the turn keeps it until the answer is there.
    async fn turn(
        &self,
        method: Method,
    ) -> Result<(Option<SemaphorePermit<'_>>, SemaphorePermit<'_>), AcquireError> {
        let writes = method != Method::Get;
        let write = if writes { Some(self.write_turns.acquire().await?) } else { None };
        Ok((write, self.turns.acquire().await?))
    }

    /// Whether this is the host of that name, as far as its address tells.
    fn is_called(&self, name: &str) -> bool {
        let rest = self.target.endpoint.host().strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// The endpoint that is the very host a call is about: any other would only pass the call on to it. One that was silent
/// is not asked of its own accord.
fn direct(hosts: &[Arc<Host>], path: &str) -> Option<usize> {
    let name = path.strip_prefix("/nodes/")?.split('/').next().filter(|name| !name.is_empty())?;
    hosts.iter().position(|host| host.is_called(name) && !host.silent.load(Ordering::Relaxed))
}

/// Whether the client itself asks again. A VM's lock is not waited for here: that can take hours and is the caller's
/// business. Of Proxmox's own locks only the ones that are taken before anything is done are tried again.
fn retries(error: &Error) -> bool {
    match error.outcome() {
        Outcome::NeverSent | Outcome::MayHaveHappened => error.is_safe_to_retry(),
        Outcome::Refused => {
            let words = error.words();
            words.contains("got no worker upid")
                || (words.starts_with("can't lock file '/var/lock/qemu-server/")
                    && words.ends_with("got timeout"))
        }
    }
}

/// Of a read that failed everywhere: an endpoint that answered, and could not reach the host it is about, knows more than one
/// that is not reached itself. That one may be the very host, and Proxmox is there.
fn told_best(last: Error, hop: Option<Error>) -> Error {
    if *last.kind() == ErrorKind::Unreachable { hop.unwrap_or(last) } else { last }
}

/// What no error may say.
fn shown(name: &str, request: &HttpRequest) -> String {
    request.headers.iter().fold(name.to_owned(), |text, (_, value)| text + " " + value.expose_secret())
}

fn transport_error(name: &str, endpoint: &Endpoint, error: TransportError) -> Error {
    let words = error.to_string();
    let (kind, outcome) = match error {
        TransportError::Connect { .. } => (ErrorKind::Unreachable, Outcome::NeverSent),
        TransportError::Certificate(certificate) => (ErrorKind::Certificate(certificate), Outcome::NeverSent),
        TransportError::Unsendable { .. } => (ErrorKind::Other, Outcome::NeverSent),
        TransportError::Lost { .. } => (ErrorKind::Lost, Outcome::MayHaveHappened),
        TransportError::Silent { .. } => (ErrorKind::Timeout, Outcome::MayHaveHappened),
    };
    Error::new(name, endpoint, kind, outcome, &words)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoints", &self.endpoints()).finish_non_exhaustive()
    }
}
