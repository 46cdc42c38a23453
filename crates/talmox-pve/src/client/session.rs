//! The headers that say who we are: of a token always the same, of a password from a ticket that is renewed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::time::Instant;

use crate::client::credentials::Identity;
use crate::client::encode::percent_encode;
use crate::client::{Credentials, Method, Params, scalar};

/// A ticket is good for two hours; from half of that on it is exchanged for a new one.
const RENEW_AFTER: Duration = Duration::from_hours(1);
/// Close to the end a ticket is no longer shown: the hosts' clocks may differ from ours.
const EXPIRED_AFTER: Duration = Duration::from_mins(115);

#[derive(Clone)]
struct Ticket {
    cookie: SecretString,
    csrf: SecretString,
    since: Instant,
}

/// What Proxmox answers to a login.
#[derive(Deserialize)]
pub(crate) struct TicketReply {
    ticket: SecretText,
    #[serde(rename = "CSRFPreventionToken")]
    csrf: Option<SecretText>,
    #[serde(rename = "NeedTFA", default, deserialize_with = "scalar::flag")]
    pub(crate) needs_second_factor: bool,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct SecretText(String);

/// What to do before a request can be made.
pub(crate) enum Next {
    /// Send these headers.
    Headers(Vec<(&'static str, SecretString)>),
    /// Log in with these parameters first.
    Login(Params),
}

pub(crate) struct Session {
    identity: Identity,
    ticket: Mutex<Option<Ticket>>,
    /// One login at a time: a hundred waiting calls need one ticket.
    pub(crate) login: tokio::sync::Mutex<()>,
}

impl Session {
    pub(crate) fn new(credentials: &Credentials) -> Self {
        Self {
            identity: credentials.identity.clone(),
            ticket: Mutex::new(None),
            login: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn next(&self, method: Method) -> Next {
        match &self.identity {
            Identity::Token { id, secret } => {
                let value = SecretString::from(format!("PVEAPIToken={id}={}", secret.expose_secret()));
                Next::Headers(vec![("Authorization", value)])
            }
            Identity::Password { user, password } => match self.current() {
                Some(ticket) if ticket.since.elapsed() < RENEW_AFTER => Next::Headers(ticket.headers(method)),
                // A ticket that is still good is its own password.
                Some(ticket) if ticket.since.elapsed() < EXPIRED_AFTER => {
                    Next::Login(login(user, &ticket.cookie))
                }
                _ => Next::Login(login(user, password)),
            },
        }
    }

    /// Whether a refusal can be cured by logging in anew: a ticket can have run out, a token cannot.
    pub(crate) fn forget_ticket(&self) -> bool {
        self.ticket.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    pub(crate) fn remember(&self, reply: TicketReply) {
        let ticket = Ticket {
            cookie: SecretString::from(reply.ticket.0),
            csrf: SecretString::from(reply.csrf.map(|csrf| csrf.0).unwrap_or_default()),
            since: Instant::now(),
        };
        *self.ticket.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticket);
    }

    fn current(&self) -> Option<Ticket> {
        self.ticket.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn login(user: &str, password: &SecretString) -> Params {
    Params::new().with("username", user).with("password", password.expose_secret())
}

impl Ticket {
    fn headers(&self, method: Method) -> Vec<(&'static str, SecretString)> {
        let cookie = format!("PVEAuthCookie={}", percent_encode(self.cookie.expose_secret()));
        let mut headers = vec![("Cookie", SecretString::from(cookie))];
        if method != Method::Get {
            headers.push(("CSRFPreventionToken", self.csrf.clone()));
        }
        headers
    }
}
