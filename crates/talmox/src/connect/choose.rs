//! Which endpoint is asked, with which credentials, and how its certificate is checked: decided from description,
//! environment and grants alone.
//!
//! The person decides where a token goes, never the description: by an endpoint in the environment, by a `credential`
//! grant, or by an endpoint that is encrypted beside the token. The description may name fewer endpoints and
//! narrow which certificates are trusted. It never adds any: the author of a
//! pull request must not be able to have the token sent to a server of theirs.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use talmox_pve::client::{Credentials, Endpoint, InvalidCredentials};
use talmox_trust::{Certificate, Grants, Need, Origin};
use talmox_types::desired::Proxmox;
use talmox_types::{Fingerprint, SecretRef};

use super::certificates::{Base, Certificates};
use super::environment::{Environment, FAMILIES, Family, Token};
use crate::failure::Failure;

/// What was decided, and which source gave each.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) credentials: Credentials,
    /// The reference of the token, as grants name it.
    pub(super) secret: String,
    pub(super) certificates: Certificates,
    /// For `-v`.
    pub(super) said: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// What the person says in this run, beside the environment.
pub(super) struct Person<'a> {
    pub(super) grants: &'a Grants,
    /// `--fingerprint`
    pub(super) fingerprints: &'a [Fingerprint],
    /// `--ca-file`
    pub(super) ca_file: Option<&'a PathBuf>,
}

/// Why nothing is sent.
pub(super) enum Unfit {
    Failure(Failure),
    /// The person allowed the token to go to none of these endpoints.
    Ungranted {
        needs: Vec<Need>,
        failure: Failure,
    },
}

impl From<Failure> for Unfit {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// A secret, and what is encrypted beside it.
pub(super) struct Secret {
    pub(super) text: SecretString,
    pub(super) beside: Beside,
}

/// What a SOPS file says beside the token, encrypted like it.
#[derive(Default)]
pub(super) struct Beside {
    pub(super) endpoint: Option<SecretString>,
    pub(super) fingerprint: Option<SecretString>,
    /// An endpoint stands there in plain text, so it proves nothing about its author.
    pub(super) is_plain: bool,
}

/// Endpoints with the name of what gave them.
#[derive(Clone, Default)]
struct Given {
    from: String,
    endpoints: Vec<Endpoint>,
}

/// Where a token is, before it is read.
struct Source<'a> {
    /// For people: which source it is.
    from: String,
    /// The reference, as grants name it.
    secret: String,
    /// Endpoints of the environment that this token is for.
    environment: Given,
    kind: Kind<'a>,
}

enum Kind<'a> {
    /// The environment has it.
    Known(Credentials),
    /// It is read once it is clear that it may be sent somewhere.
    Reference(&'a SecretRef),
}

pub(super) type ReadSecret<'a> = dyn Fn(&SecretRef) -> Result<Secret, Failure> + 'a;

pub(super) fn choose(
    proxmox: &Proxmox,
    environment: &Environment<'_>,
    person: &Person<'_>,
    read: &ReadSecret<'_>,
) -> Result<Choice, Unfit> {
    let described = described_endpoints(proxmox)?;
    let source = match &proxmox.api_token {
        Some(reference) => referenced(reference, environment)?,
        None => from_families(&described, environment, person.grants)?,
    };
    // A SOPS file may say where its token goes, so it is opened first; a program runs only for a token that may be sent.
    let (known, beside) = match &source.kind {
        Kind::Reference(reference @ SecretRef::Sops { .. }) => {
            let Secret { text, beside } = read(reference)?;
            (Some(parsed(&text, &source.from)?), beside)
        }
        Kind::Reference(_) => (None, Beside::default()),
        Kind::Known(credentials) => (Some(credentials.clone()), Beside::default()),
    };
    let (endpoints, from) = allowed(&described, &source, &beside, person.grants)?;
    let credentials = match (&source.kind, known) {
        (_, Some(credentials)) => credentials,
        (Kind::Reference(reference), None) => parsed(&read(reference)?.text, &source.from)?,
        (Kind::Known(credentials), None) => credentials.clone(),
    };
    let (endpoints, certificates) =
        certificates(proxmox, environment, person, (&source.secret, &beside), endpoints)?;
    let credentials = credentials.only_for(endpoints.clone());
    let names: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let said = vec![
        format!("endpoint {} from {from}", names.join(", ")),
        format!("credentials {} from {}", credentials.name(), source.from),
        format!("certificates: {certificates}"),
    ];
    let warnings = certificates.warnings(proxmox);
    Ok(Choice { endpoints, credentials, secret: source.secret, certificates, said, warnings })
}

fn parsed(text: &SecretString, from: &str) -> Result<Credentials, Failure> {
    Credentials::token(text).map_err(|error| unusable(from, &error))
}

/// An endpoint as grants name it.
pub(super) fn origin(endpoint: &Endpoint) -> Result<Origin, Failure> {
    Origin::of_api(&endpoint.to_string()).map_err(|invalid| Failure::new(format!("{endpoint}: {invalid}")))
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

/// The token the description refers to.
fn referenced<'a>(reference: &'a SecretRef, environment: &Environment<'_>) -> Result<Source<'a>, Failure> {
    let from = format!("proxmox_api_token ({})", named(reference));
    let SecretRef::Env(name) = reference else {
        let given = environment_endpoints(None, environment)?.unwrap_or_default();
        let secret = reference.to_string();
        return Ok(Source { from, secret, environment: given, kind: Kind::Reference(reference) });
    };
    let family = FAMILIES.iter().find(|family| family.token.names().contains(&name.as_str()));
    let text = environment.secret(name).ok_or_else(|| {
        Failure::new(format!("the description takes the Proxmox token from {name}, which is not set"))
            .with_hint(format!("export {name}='USER@REALM!NAME=SECRET'"))
    })?;
    let credentials = match family.map(|family| &family.token) {
        Some(Token::Parts { .. }) => family_token(family, environment)?,
        Some(Token::Whole(_)) | None => None,
    };
    let credentials = match credentials {
        Some(credentials) => credentials,
        None => parsed(&text, &from)?,
    };
    let given = environment_endpoints(family, environment)?.unwrap_or_default();
    Ok(Source { from, secret: reference.to_string(), environment: given, kind: Kind::Known(credentials) })
}

/// A reference without what it may hold: arguments of programs may be secrets.
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
fn from_families<'a>(
    described: &[Endpoint],
    environment: &Environment<'_>,
    grants: &Grants,
) -> Result<Source<'a>, Failure> {
    families(described, environment, grants)?.ok_or_else(|| {
        Failure::new("there are no credentials for Proxmox")
            .with_hint("export PROXMOX_VE_API_TOKEN='USER@REALM!NAME=SECRET'")
            .with_hint("or name where the token is in cluster.yaml: proxmox_api_token: file:PATH")
            .with_hint("--simulate needs no Proxmox and no token")
    })
}

fn families<'a>(
    described: &[Endpoint],
    environment: &Environment<'_>,
    grants: &Grants,
) -> Result<Option<Source<'a>>, Failure> {
    let mut first = None;
    for family in &FAMILIES {
        let Some((secret, from, credentials)) = family_credentials(family, environment)? else { continue };
        let given = environment_endpoints(Some(family), environment)?.unwrap_or_default();
        let granted =
            |one: &Endpoint| origin(one).is_ok_and(|origin| grants.credential(&secret, &origin).is_some());
        let fits =
            described.is_empty() || described.iter().any(|one| given.endpoints.contains(one) || granted(one));
        let source = Source { from, secret, environment: given, kind: Kind::Known(credentials) };
        if fits {
            return Ok(Some(source));
        }
        first.get_or_insert(source);
    }
    Ok(first)
}

/// The endpoint the environment names, and the variable that does.
pub(super) fn endpoint_of(environment: &Environment<'_>) -> Result<Option<(String, Endpoint)>, Failure> {
    let given = environment_endpoints(None, environment)?;
    Ok(given.and_then(|given| Some((given.from, given.endpoints.into_iter().next()?))))
}

/// Credentials of the environment for an endpoint the person typed. If the environment names endpoints, it must be one of
/// those; if it names none, the person who typed it has said where they go.
pub(super) fn credentials_for(
    endpoint: &Endpoint,
    environment: &Environment<'_>,
) -> Result<Option<(Credentials, String)>, Failure> {
    let typed = std::slice::from_ref(endpoint);
    let Some(source) = families(typed, environment, &Grants::default())? else { return Ok(None) };
    if !source.environment.endpoints.is_empty() && !source.environment.endpoints.contains(endpoint) {
        return Err(refused(typed, &source, &Beside::default()));
    }
    match source.kind {
        Kind::Known(credentials) => Ok(Some((credentials, source.from))),
        Kind::Reference(_) => Ok(None),
    }
}

/// The reference grants know them by, the words for people, and the credentials.
fn family_credentials(
    family: &Family,
    environment: &Environment<'_>,
) -> Result<Option<(String, String, Credentials)>, Failure> {
    if let Some(credentials) = family_token(Some(family), environment)? {
        let names = family.token.names();
        let from = format!("{} (as {} has it)", names.join(" and "), family.tool);
        // Of two variables, the one that holds the secret.
        let secret = format!("env:{}", names.last().copied().unwrap_or_default());
        return Ok(Some((secret, from, credentials)));
    }
    let Some((user, password)) = environment.get(family.user).zip(environment.secret(family.password)) else {
        return Ok(None);
    };
    let credentials = Credentials::password(&user, password)
        .map_err(|error| Failure::new(format!("{}: {error}", family.user)))?;
    Ok(Some((
        format!("env:{}", family.password),
        format!("{} and {}", family.user, family.password),
        credentials,
    )))
}

/// Those endpoints the token may go to, and what allows it.
fn allowed(
    described: &[Endpoint],
    source: &Source<'_>,
    beside: &Beside,
    grants: &Grants,
) -> Result<(Vec<Endpoint>, String), Unfit> {
    let given = &source.environment;
    let own = encrypted_endpoint(source, beside)?;
    if described.is_empty() {
        return match (given.endpoints.as_slice(), own) {
            ([], None) => Err(no_endpoint().into()),
            ([], Some(own)) => Ok((vec![own], format!("{}, beside the token", source.from))),
            (some, _) => Ok((some.to_vec(), given.from.clone())),
        };
    }
    let only = |fits: &dyn Fn(&Endpoint) -> bool| -> Vec<Endpoint> {
        described.iter().filter(|one| fits(one)).cloned().collect()
    };
    let of_environment = only(&|one| given.endpoints.contains(one));
    if !of_environment.is_empty() {
        return Ok((of_environment, format!("proxmox_endpoint, vouched for by {}", given.from)));
    }
    let beside_it = only(&|one| own.as_ref() == Some(one));
    if !beside_it.is_empty() {
        return Ok((beside_it, "proxmox_endpoint, which stands encrypted beside the token".to_owned()));
    }
    let granted =
        only(&|one| origin(one).is_ok_and(|origin| grants.credential(&source.secret, &origin).is_some()));
    if !granted.is_empty() {
        return Ok((granted, "proxmox_endpoint, which you allowed".to_owned()));
    }
    let needs = described
        .iter()
        .map(|one| Ok(Need::Credential { secret: source.secret.clone(), endpoint: origin(one)? }));
    let needs = needs.collect::<Result<_, Failure>>()?;
    Err(Unfit::Ungranted { needs, failure: refused(described, source, beside) })
}

/// The endpoint that is encrypted beside a token in a SOPS file.
fn encrypted_endpoint(source: &Source<'_>, beside: &Beside) -> Result<Option<Endpoint>, Failure> {
    let Some(text) = &beside.endpoint else { return Ok(None) };
    let endpoint = Endpoint::parse(text.expose_secret());
    endpoint.map(Some).map_err(|error| Failure::new(format!("the endpoint beside {}: {error}", source.from)))
}

fn no_endpoint() -> Failure {
    Failure::new("no endpoint of Proxmox is named")
        .with_hint("in cluster.yaml: proxmox_endpoint: https://HOST:8006")
        .with_hint("or export PROXMOX_VE_ENDPOINT=https://HOST:8006")
}

fn refused(described: &[Endpoint], source: &Source<'_>, beside: &Beside) -> Failure {
    let list =
        |endpoints: &[Endpoint]| endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let known = if !source.environment.endpoints.is_empty() {
        format!("{} says it is for {}", source.environment.from, list(&source.environment.endpoints))
    } else if beside.endpoint.is_some() {
        "the endpoint beside the token is another".to_owned()
    } else if beside.is_plain {
        "the endpoint beside the token is not encrypted, so anybody could have written it".to_owned()
    } else {
        "you have allowed no endpoint for it".to_owned()
    };
    let variable =
        if source.environment.from.is_empty() { "PROXMOX_VE_ENDPOINT" } else { &source.environment.from };
    Failure::new(format!("the token of {} is not sent to {}: {known}", source.from, list(described)))
        .with_hint(format!(
            "if that is your Proxmox: export {variable}={}",
            list(described).replace(", ", ",")
        ))
        .with_hint(
            "a description alone must not decide where a token goes: somebody else may have changed it",
        )
}

/// How certificates are checked. Only the person widens that: by a flag of this run, a grant, what stands encrypted beside the
/// token, or the environment. The description may narrow it. Endpoints whose grants want another way are left out.
fn certificates(
    proxmox: &Proxmox,
    environment: &Environment<'_>,
    person: &Person<'_>,
    (secret, beside): (&str, &Beside),
    endpoints: Vec<Endpoint>,
) -> Result<(Vec<Endpoint>, Certificates), Failure> {
    let narrowed = |base: Base, by: &str| Certificates::new(base, by, proxmox);
    if !person.fingerprints.is_empty() {
        let base = Base::Fingerprints(person.fingerprints.to_vec());
        return Ok((endpoints, narrowed(base, "--fingerprint (TALMOX_FINGERPRINT)")?));
    }
    if let Some(file) = person.ca_file {
        let base = Base::Authority { file: file.clone(), digest: None };
        return Ok((endpoints, narrowed(base, "--ca-file (TALMOX_CA_FILE)")?));
    }
    let mut granted = Vec::new();
    for endpoint in &endpoints {
        granted.push(
            person.grants.credential(secret, &origin(endpoint)?).map(|grant| grant.certificate.clone()),
        );
    }
    if let Some(first) = granted.iter().flatten().next().cloned() {
        let alike = |other: &Option<Certificate>| match (&first, other) {
            (Certificate::Fingerprints(_), Some(Certificate::Fingerprints(_))) => true,
            (first, other) => Some(first) == other.as_ref(),
        };
        let kept: Vec<(Endpoint, Certificate)> = endpoints
            .into_iter()
            .zip(granted)
            .filter(|(_, granted)| alike(granted))
            .filter_map(|(endpoint, granted)| Some((endpoint, granted?)))
            .collect();
        let base = Base::of_grants(kept.iter().map(|(_, certificate)| certificate));
        let endpoints = kept.into_iter().map(|(endpoint, _)| endpoint).collect();
        return Ok((endpoints, narrowed(base, "what you allowed")?));
    }
    if let Some(text) = &beside.fingerprint {
        let fingerprint = Fingerprint::parse(text.expose_secret())
            .map_err(|_| Failure::new("the fingerprint beside the token is no SHA-256 of a certificate"))?;
        let base = Base::Fingerprints(vec![fingerprint]);
        return Ok((endpoints, narrowed(base, "the fingerprint that stands encrypted beside the token")?));
    }
    let variable = environment.insecure();
    let certificates = match variable {
        Some(name) => narrowed(Base::Unchecked, name)?,
        None => narrowed(Base::System, "")?,
    };
    Ok((endpoints, certificates))
}

#[cfg(test)]
mod tests;
