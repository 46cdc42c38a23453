//! The headers that say who we are: of a token always the same, of a password from a ticket that is renewed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::time::Instant;

use crate::client::call::Headers;
use crate::client::credentials::Identity;
use crate::client::echo::Echo;
use crate::client::encode::percent_encode;
use crate::client::{Credentials, Method, Params, scalar};

/// A ticket is good for two hours; from half of that on it is exchanged for a new one.
const RENEW_AFTER: Duration = Duration::from_hours(1);
/// Close to the end a ticket is no longer shown: the hosts' clocks may differ from ours.
const EXPIRED_AFTER: Duration = Duration::from_mins(115);

pub(crate) struct Ticket {
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
    Send(Pass),
    /// Log in with these parameters first. A ticket that is its own password is named.
    Login {
        params: Params,
        renews: Option<Arc<Ticket>>,
    },
}

/// What a request shows.
pub(crate) struct Pass {
    pub(crate) headers: Headers,
    /// The ticket the headers were made from, so that a refusal falls on this one and not on its successor.
    pub(crate) ticket: Option<Arc<Ticket>>,
}

pub(crate) struct Session {
    identity: Identity,
    ticket: Mutex<Option<Arc<Ticket>>>,
    /// What no error may repeat.
    pub(crate) echo: Echo,
    /// One login at a time: a hundred waiting calls need one ticket.
    pub(crate) login: tokio::sync::Mutex<()>,
}

impl Session {
    pub(crate) fn new(credentials: &Credentials) -> Self {
        let echo = Echo::default();
        match &credentials.identity {
            Identity::Token { secret, .. } => echo.remember(secret),
            Identity::Password { password, .. } => echo.remember(password),
        }
        Self {
            identity: credentials.identity.clone(),
            ticket: Mutex::new(None),
            echo,
            login: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match &self.identity {
            Identity::Token { id, .. } => id,
            Identity::Password { user, .. } => user,
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        matches!(&self.identity, Identity::Password { user, .. } if user == "root@pam")
    }

    pub(crate) fn next(&self, method: Method) -> Next {
        match &self.identity {
            Identity::Token { id, secret } => {
                let value = SecretString::from(format!("PVEAPIToken={id}={}", secret.expose_secret()));
                Next::Send(Pass { headers: vec![("Authorization", value)], ticket: None })
            }
            Identity::Password { user, password } => match self.current() {
                Some(ticket) if ticket.since.elapsed() < RENEW_AFTER => {
                    Next::Send(Pass { headers: ticket.headers(method), ticket: Some(ticket) })
                }
                // A ticket that is still good is its own password.
                Some(ticket) if ticket.since.elapsed() < EXPIRED_AFTER => {
                    Next::Login { params: login(user, &ticket.cookie), renews: Some(ticket) }
                }
                _ => Next::Login { params: login(user, password), renews: None },
            },
        }
    }

    /// Shows this ticket no more. One that took its place meanwhile stays.
    pub(crate) fn forget(&self, refused: &Arc<Ticket>) {
        self.ticket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take_if(|ticket| Arc::ptr_eq(ticket, refused));
    }

    pub(crate) fn remember(&self, reply: TicketReply) {
        let ticket = Ticket {
            cookie: SecretString::from(reply.ticket.0),
            csrf: SecretString::from(reply.csrf.map(|csrf| csrf.0).unwrap_or_default()),
            since: Instant::now(),
        };
        self.echo.remember(&ticket.cookie);
        self.echo.remember(&ticket.csrf);
        *self.ticket.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(ticket));
    }

    fn current(&self) -> Option<Arc<Ticket>> {
        self.ticket.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn login(user: &str, password: &SecretString) -> Params {
    Params::new().with("username", user).with("password", password.expose_secret())
}

impl Ticket {
    fn headers(&self, method: Method) -> Headers {
        let cookie = format!("PVEAuthCookie={}", percent_encode(self.cookie.expose_secret()));
        let mut headers = vec![("Cookie", SecretString::from(cookie))];
        if method != Method::Get {
            headers.push(("CSRFPreventionToken", self.csrf.clone()));
        }
        headers
    }
}
