//! Who we are to Proxmox, and where that may be said.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use talmox_types::sabotage::{Defect, sabotaged};

use crate::client::Endpoint;

/// A token or a user's password, and the endpoints it may be sent to.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) identity: Identity,
    pub(crate) allowed: Allowed,
}

#[derive(Clone)]
pub(crate) enum Identity {
    Token { id: String, secret: SecretString },
    Password { user: String, password: SecretString },
}

#[derive(Clone, Debug)]
pub(crate) enum Allowed {
    /// Given together with the endpoint it is for.
    Anywhere,
    /// Given on its own, like a token in the environment: a description that names another endpoint must not get it.
    Only { endpoints: Vec<Endpoint>, peers: bool },
}

impl Allowed {
    /// Whether the credentials may go to a host that one of their own endpoints reported.
    pub(crate) fn permits_peer(&self, endpoint: &Endpoint) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Only { endpoints, peers } => *peers || endpoints.contains(endpoint),
        }
    }
}

/// A token or user that cannot be one. The text is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCredentials {
    #[error("an API token is USER@REALM!NAME=SECRET, like root@pam!talmox=…")]
    Token,
    #[error("`{user}` is not a user of a realm, like root@pam")]
    User { user: String },
}

/// Credentials that would go where they must not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credentials of {identity} are not for {endpoint}, only for {}", list(.allowed))]
pub struct WrongEndpoint {
    pub identity: String,
    pub endpoint: Endpoint,
    pub allowed: Vec<Endpoint>,
}

fn list(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Credentials {
    /// Reads `USER@REALM!NAME=SECRET`, with or without `PVEAPIToken=` in front.
    pub fn token(text: &SecretString) -> Result<Self, InvalidCredentials> {
        let text = text.expose_secret().trim();
        let text = text.strip_prefix("PVEAPIToken=").unwrap_or(text);
        let (id, secret) = text.split_once('=').ok_or(InvalidCredentials::Token)?;
        Self::token_parts(id, SecretString::from(secret))
    }

    /// A token whose id and secret come apart.
    pub fn token_parts(id: &str, secret: SecretString) -> Result<Self, InvalidCredentials> {
        let (user, name) = id.split_once('!').ok_or(InvalidCredentials::Token)?;
        let word = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"!=;,".contains(&b))
        };
        let value = secret.expose_secret();
        if !is_user(user) || !word(name) || !word(value) {
            return Err(InvalidCredentials::Token);
        }
        Ok(Self { identity: Identity::Token { id: id.to_owned(), secret }, allowed: Allowed::Anywhere })
    }

    /// A user with a password; a ticket is got and renewed with it.
    pub fn password(user: &str, password: SecretString) -> Result<Self, InvalidCredentials> {
        if !is_user(user) {
            return Err(InvalidCredentials::User { user: user.to_owned() });
        }
        let identity = Identity::Password { user: user.to_owned(), password };
        Ok(Self { identity, allowed: Allowed::Anywhere })
    }

    /// The same credentials, for these endpoints only. They do not go to hosts that [`Client::learn_peers`] finds either,
    /// unless those are named here or [`Self::and_their_peers`] allows it.
    ///
    /// [`Client::learn_peers`]: crate::client::Client::learn_peers
    #[must_use]
    pub fn only_for(self, endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        let endpoints = endpoints.into_iter().collect();
        Self { allowed: Allowed::Only { endpoints, peers: false }, ..self }
    }

    /// The same credentials, also for hosts that the endpoints of [`Self::only_for`] report as members of their cluster.
    /// A cluster shares its users and tokens, so its members could accept them anyway; but whoever answers at one
    /// endpoint then decides where else they are sent.
    #[must_use]
    pub fn and_their_peers(self) -> Self {
        let allowed = match self.allowed {
            Allowed::Anywhere => Allowed::Anywhere,
            Allowed::Only { endpoints, .. } => Allowed::Only { endpoints, peers: true },
        };
        Self { allowed, ..self }
    }

    /// Whether these may be sent to an endpoint that somebody names. What a host of the cluster reports is another matter.
    pub fn check(&self, endpoint: &Endpoint) -> Result<(), WrongEndpoint> {
        match &self.allowed {
            Allowed::Only { .. } if sabotaged(Defect::TokenGoesAnywhere) => Ok(()),
            Allowed::Only { endpoints, .. } if !endpoints.contains(endpoint) => Err(WrongEndpoint {
                identity: self.name().to_owned(),
                endpoint: endpoint.clone(),
                allowed: endpoints.clone(),
            }),
            Allowed::Anywhere | Allowed::Only { .. } => Ok(()),
        }
    }

    /// The user or token as Proxmox names it, without its secret.
    pub fn name(&self) -> &str {
        match &self.identity {
            Identity::Token { id, .. } => id,
            Identity::Password { user, .. } => user,
        }
    }

    /// Whether these log in by password. Some things only `root@pam` by password may do.
    pub fn is_password(&self) -> bool {
        matches!(self.identity, Identity::Password { .. })
    }
}

fn is_user(text: &str) -> bool {
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic() && !b"!=;,:/".contains(&b))
    };
    text.rsplit_once('@').is_some_and(|(user, realm)| word(user) && word(realm))
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("name", &self.name())
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_both_spellings() {
        for text in ["root@pam!talmox=s3cret", "PVEAPIToken=root@pam!talmox=s3cret"] {
            let credentials = Credentials::token(&SecretString::from(text)).unwrap();
            assert_eq!(credentials.name(), "root@pam!talmox");
            assert!(!format!("{credentials:?}").contains("s3cret"));
        }
    }

    #[test]
    fn a_bad_token_is_not_repeated() {
        for bad in [
            "s3cret",
            "root!talmox=s3cret",
            "root@pam!=s3cret",
            "root@pam!talmox=",
            "root@pam!talmox=s3 cret",
        ] {
            let error = Credentials::token(&SecretString::from(bad)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("cret"), "{bad}");
        }
        assert!(Credentials::password("root", SecretString::from("x")).is_err());
    }

    #[test]
    fn a_token_of_the_environment_stays_where_the_environment_says() {
        let home = Endpoint::parse("pve1.example").unwrap();
        let elsewhere = Endpoint::parse("evil.example").unwrap();
        let token = Credentials::token(&SecretString::from("root@pam!talmox=s3cret")).unwrap();
        assert!(token.check(&elsewhere).is_ok());
        let bound = token.only_for([home.clone()]);
        assert!(bound.check(&home).is_ok());
        assert!(bound.clone().and_their_peers().check(&elsewhere).is_err(), "nobody reported it");
        assert_eq!(
            bound.check(&elsewhere).unwrap_err().to_string(),
            "the credentials of root@pam!talmox are not for https://evil.example:8006, only for https://pve1.example:8006"
        );
    }
}
