//! Who is asked, as whom, believing what: decided from description and environment alone.
//!
//! Credentials from the environment go only to endpoints from the environment: whoever can change the description, with a
//! pull request for example, must not be able to have the token sent to a server of theirs.

use std::path::Path;

use secrecy::SecretString;
use talmox_exec::preflight::Trusted;
use talmox_pve::client::{Credentials, Endpoint, InvalidCredentials, Trust};
use talmox_types::desired::Proxmox;
use talmox_types::{Fingerprint, SecretRef};

use super::environment::{Environment, FAMILIES, Family, Token};
use crate::failure::Failure;

/// What was decided, and which source gave each.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) credentials: Credentials,
    pub(super) trust: TrustChoice,
    /// For `-v`.
    pub(super) said: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Which certificates are believed; a CA file is read later.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TrustChoice {
    Fingerprints(Vec<Fingerprint>),
    AuthorityFile(String),
    Insecure,
    System,
}

impl TrustChoice {
    pub(super) fn in_words(&self) -> Trusted {
        match self {
            Self::Fingerprints(_) => Trusted::Fingerprints,
            Self::AuthorityFile(file) => Trusted::Authority(file.clone()),
            Self::Insecure => Trusted::Insecure,
            Self::System => Trusted::System,
        }
    }

    /// The trust itself; paths are relative to the description.
    #[expect(clippy::disallowed_methods, reason = "a certificate file, not a description")]
    pub(super) fn load(self, folder: &Path) -> Result<Trust, Failure> {
        Ok(match self {
            Self::Fingerprints(fingerprints) => Trust::Fingerprints(fingerprints),
            Self::Insecure => Trust::Insecure,
            Self::System => Trust::System,
            Self::AuthorityFile(file) => {
                let path = folder.join(file);
                Trust::Authorities(std::fs::read_to_string(&path).map_err(|error| {
                    Failure::new(format!("could not read proxmox_ca_file {}: {error}", path.display()))
                        .with_hint("on a Proxmox host it is /etc/pve/pve-root-ca.pem; the path is relative to the description")
                })?)
            }
        })
    }
}

/// Endpoints with the name of what gave them.
#[derive(Clone)]
struct Given {
    from: String,
    endpoints: Vec<Endpoint>,
}

/// Credentials with the name of what gave them, and the endpoints they are for; none: any.
struct Found {
    from: String,
    credentials: Credentials,
    only_for: Option<Given>,
}

type ReadSecret<'a> = dyn Fn(&SecretRef) -> Result<Option<SecretString>, Failure> + 'a;

pub(super) fn choose(
    proxmox: &Proxmox,
    environment: &Environment<'_>,
    read: &ReadSecret<'_>,
) -> Result<Choice, Failure> {
    let described = described_endpoints(proxmox)?;
    let found = match &proxmox.api_token {
        Some(reference) => referenced(reference, environment, read)?,
        None => from_families(&described, environment)?,
    };
    let (endpoints, from) = endpoints(&described, &found)?;
    let (trust, trusted, warnings) = trust(proxmox, environment);
    let credentials = found.credentials.only_for(endpoints.clone());
    let names: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let said = vec![
        format!("endpoint {} from {from}", names.join(", ")),
        format!("credentials {} from {}", credentials.name(), found.from),
        format!("certificates: {trusted}"),
    ];
    Ok(Choice { endpoints, credentials, trust, said, warnings })
}

fn described_endpoints(proxmox: &Proxmox) -> Result<Vec<Endpoint>, Failure> {
    let parse = |text: &String| {
        Endpoint::parse(text).map_err(|error| Failure::new(format!("proxmox_endpoint: {error}")))
    };
    proxmox.endpoints.iter().map(parse).collect()
}

/// What a list of variables says, the first that is set.
fn given(names: &[&str], environment: &Environment<'_>) -> Result<Option<Given>, Failure> {
    let Some((name, text)) = names.iter().find_map(|name| Some((*name, environment.get(name)?))) else {
        return Ok(None);
    };
    let endpoints: Result<Vec<Endpoint>, Failure> = text
        .split(',')
        .map(|part| Endpoint::parse(part.trim()).map_err(|error| Failure::new(format!("{name}: {error}"))))
        .collect();
    Ok(Some(Given { from: name.to_owned(), endpoints: endpoints? }))
}

/// The endpoints the environment names for those credentials, or for any.
fn environment_endpoints(
    family: Option<&Family>,
    environment: &Environment<'_>,
) -> Result<Option<Given>, Failure> {
    if let Some(family) = family
        && let Some(own) = given(family.endpoints, environment)?
    {
        return Ok(Some(own));
    }
    let all: Vec<&str> = FAMILIES.iter().flat_map(|family| family.endpoints).copied().collect();
    given(&all, environment)
}

fn nowhere() -> Given {
    Given { from: String::new(), endpoints: Vec::new() }
}

/// The token the description refers to.
fn referenced(
    reference: &SecretRef,
    environment: &Environment<'_>,
    read: &ReadSecret<'_>,
) -> Result<Found, Failure> {
    let from = format!("proxmox_api_token ({})", named(reference));
    if let SecretRef::Env(name) = reference {
        let family = FAMILIES.iter().find(|family| family.token.names().contains(&name.as_str()));
        let secret = environment.secret(name).ok_or_else(|| {
            Failure::new(format!("the description takes the Proxmox token from {name}, which is not set"))
                .with_hint(format!("export {name}='USER@REALM!NAME=SECRET'"))
        })?;
        let credentials = match family.map(|family| &family.token) {
            Some(Token::Parts { .. }) => family_token(family, environment)?,
            Some(Token::Whole(_)) | None => None,
        };
        let credentials = match credentials {
            Some(credentials) => credentials,
            None => Credentials::token(&secret).map_err(|error| unusable(&from, &error))?,
        };
        let only_for = environment_endpoints(family, environment)?.unwrap_or_else(nowhere);
        return Ok(Found { from, credentials, only_for: Some(only_for) });
    }
    let secret = read(reference)?.ok_or_else(|| Failure::new(format!("{from} gave no token")))?;
    let credentials = Credentials::token(&secret).map_err(|error| unusable(&from, &error))?;
    // A token of a file or program is for the endpoint it stands beside, unless the environment knows better.
    Ok(Found { from, credentials, only_for: environment_endpoints(None, environment)? })
}

/// A reference without what it may hold: arguments of programs are nobody's business.
fn named(reference: &SecretRef) -> String {
    match reference {
        SecretRef::Exec(argv) => format!("exec: {}", argv.first().map_or("", String::as_str)),
        SecretRef::Env(_) | SecretRef::File(_) | SecretRef::Sops { .. } => reference.to_string(),
    }
}

fn unusable(from: &str, error: &InvalidCredentials) -> Failure {
    Failure::new(format!("{from}: {error}")).with_hint(
        "`pveum user token add USER@REALM NAME` on a Proxmox host makes one and shows its secret once",
    )
}

fn family_token(
    family: Option<&Family>,
    environment: &Environment<'_>,
) -> Result<Option<Credentials>, Failure> {
    let Some(family) = family else { return Ok(None) };
    let names = family.token.names().join(" and ");
    let found = match &family.token {
        Token::Whole(name) => environment.secret(name).map(|text| Credentials::token(&text)),
        Token::Parts { id, secret } => environment
            .get(id)
            .zip(environment.secret(secret))
            .map(|(id, secret)| Credentials::token_parts(&id, secret)),
    };
    found.transpose().map_err(|error| unusable(&names, &error))
}

/// The first family that has credentials for one of the endpoints; without a fitting one the first that has any, so that
/// the refusal can name it.
fn from_families(described: &[Endpoint], environment: &Environment<'_>) -> Result<Found, Failure> {
    families(described, environment)?.ok_or_else(|| {
        Failure::new("there are no credentials for Proxmox")
            .with_hint("export PROXMOX_VE_API_TOKEN='USER@REALM!NAME=SECRET'")
            .with_hint("or name where the token is in cluster.yaml: proxmox_api_token: file:PATH")
            .with_hint("--simulate needs no Proxmox and no token")
    })
}

fn families(described: &[Endpoint], environment: &Environment<'_>) -> Result<Option<Found>, Failure> {
    let mut first = None;
    for family in &FAMILIES {
        let Some((from, credentials)) = family_credentials(family, environment)? else { continue };
        let only_for = environment_endpoints(Some(family), environment)?.unwrap_or_else(nowhere);
        let fits = described.is_empty() || described.iter().any(|one| only_for.endpoints.contains(one));
        let found = Found { from, credentials, only_for: Some(only_for) };
        if fits {
            return Ok(Some(found));
        }
        first.get_or_insert(found);
    }
    Ok(first)
}

/// The endpoint the environment names, and the variable that does.
pub(super) fn endpoint_of(environment: &Environment<'_>) -> Result<Option<(String, Endpoint)>, Failure> {
    let given = environment_endpoints(None, environment)?;
    Ok(given.and_then(|given| Some((given.from, given.endpoints.into_iter().next()?))))
}

/// Credentials of the environment for an endpoint somebody typed. If the environment names endpoints, it must be one of
/// those; if it names none, who typed it has said where they go.
pub(super) fn credentials_for(
    endpoint: &Endpoint,
    environment: &Environment<'_>,
) -> Result<Option<(Credentials, String)>, Failure> {
    let typed = std::slice::from_ref(endpoint);
    let Some(found) = families(typed, environment)? else { return Ok(None) };
    match &found.only_for {
        Some(only_for) if !only_for.endpoints.is_empty() && !only_for.endpoints.contains(endpoint) => {
            Err(refused(typed, &found, only_for))
        }
        Some(_) | None => Ok(Some((found.credentials, found.from))),
    }
}

fn family_credentials(
    family: &Family,
    environment: &Environment<'_>,
) -> Result<Option<(String, Credentials)>, Failure> {
    if let Some(credentials) = family_token(Some(family), environment)? {
        let from = format!("{} (as {} has it)", family.token.names().join(" and "), family.tool);
        return Ok(Some((from, credentials)));
    }
    let Some((user, password)) = environment.get(family.user).zip(environment.secret(family.password)) else {
        return Ok(None);
    };
    let credentials = Credentials::password(&user, password)
        .map_err(|error| Failure::new(format!("{}: {error}", family.user)))?;
    Ok(Some((format!("{} and {}", family.user, family.password), credentials)))
}

/// Those endpoints the credentials may go to, and what named them.
fn endpoints(described: &[Endpoint], found: &Found) -> Result<(Vec<Endpoint>, String), Failure> {
    let Some(only_for) = &found.only_for else {
        return match described {
            [] => Err(no_endpoint()),
            _ => Ok((described.to_vec(), "proxmox_endpoint".to_owned())),
        };
    };
    if described.is_empty() {
        return match only_for.endpoints.as_slice() {
            [] => Err(no_endpoint()),
            some => Ok((some.to_vec(), only_for.from.clone())),
        };
    }
    let both: Vec<Endpoint> =
        described.iter().filter(|one| only_for.endpoints.contains(one)).cloned().collect();
    if both.is_empty() {
        return Err(refused(described, found, only_for));
    }
    Ok((both, format!("proxmox_endpoint, vouched for by {}", only_for.from)))
}

fn no_endpoint() -> Failure {
    Failure::new("nobody says where Proxmox is")
        .with_hint("in cluster.yaml: proxmox_endpoint: https://HOST:8006")
        .with_hint("or export PROXMOX_VE_ENDPOINT=https://HOST:8006")
}

fn refused(described: &[Endpoint], found: &Found, only_for: &Given) -> Failure {
    let list = |endpoints: &[Endpoint]| endpoints.iter().map(ToString::to_string).collect::<Vec<_>>();
    let wanted = list(described);
    let known = if only_for.endpoints.is_empty() {
        "the environment names no endpoint it is for".to_owned()
    } else {
        format!("{} says it is for {}", only_for.from, list(&only_for.endpoints).join(", "))
    };
    let variable = if only_for.from.is_empty() { "PROXMOX_VE_ENDPOINT" } else { &only_for.from };
    Failure::new(format!(
        "the credentials {} are not sent to {}: they are from the environment, by {}, and {known}",
        found.credentials.name(),
        wanted.join(", "),
        found.from,
    ))
    .with_hint(format!("if that is your Proxmox: export {variable}={}", wanted.join(",")))
    .with_hint("a description alone must not decide where a token goes: somebody else may have changed it")
}

fn trust(proxmox: &Proxmox, environment: &Environment<'_>) -> (TrustChoice, String, Vec<String>) {
    if !proxmox.fingerprints.is_empty() {
        let said = "fingerprints of proxmox_fingerprints".to_owned();
        return (TrustChoice::Fingerprints(proxmox.fingerprints.clone()), said, Vec::new());
    }
    if let Some(file) = &proxmox.ca_file {
        return (TrustChoice::AuthorityFile(file.clone()), format!("proxmox_ca_file {file}"), Vec::new());
    }
    let variable = FAMILIES.iter().map(|family| family.insecure).find(|name| environment.says_yes(name));
    let by = if proxmox.insecure { Some("proxmox_insecure") } else { variable };
    match by {
        None => (TrustChoice::System, "what this system trusts".to_owned(), Vec::new()),
        Some(by) => {
            let warning = format!(
                "warning: certificates are not checked ({by}): anybody on the network can read the credentials; \
                 proxmox_fingerprints would do without that"
            );
            (TrustChoice::Insecure, format!("not checked ({by})"), vec![warning])
        }
    }
}

#[cfg(test)]
mod tests;
