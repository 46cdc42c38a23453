//! The question where a token may go: once for each folder, with the certificate to compare.

use secrecy::SecretString;
use talmox_pve::client::Endpoint;
use talmox_trust::{Certificate, Credential, Grant, Need};
use talmox_types::SecretRef;
use talmox_types::desired::Desired;

use super::choose::{Beside, Choice, Person, ReadSecret, Secret, Unfit, choose as decide, origin};
use super::environment::Environment;
use super::{secret, visit};
use crate::args::Connection;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::prompt;
use crate::trust::{Folder, keep};

/// Decides how Proxmox is reached. Where the person has not allowed it yet and is there, the person is asked.
pub(super) async fn choose(
    desired: &Desired,
    folder: &Folder,
    connection: &Connection,
    printer: &Printer,
) -> anyhow::Result<Choice> {
    match once(desired, folder, connection) {
        Ok(choice) => {
            if choice.certificates.is_system() && Printer::can_ask() {
                let asked = allow(&choice.secret, &choice.endpoints, Ask::IfUnknown, folder, printer).await?;
                if asked {
                    return again(desired, folder, connection);
                }
            }
            Ok(choice)
        }
        Err(Unfit::Failure(failure)) => Err(failure.into()),
        Err(Unfit::Ungranted { needs, failure }) => {
            if !Printer::can_ask() {
                return Err(failure.with_hint(folder.command()).into());
            }
            for need in &needs {
                if let Need::Credential { secret, endpoint } = need {
                    let endpoint = Endpoint::parse(endpoint.as_str())
                        .map_err(|error| Failure::new(error.to_string()))?;
                    allow(secret, &[endpoint], Ask::Always, folder, printer).await?;
                }
            }
            again(desired, folder, connection)
        }
    }
}

fn once(desired: &Desired, folder: &Folder, connection: &Connection) -> Result<Choice, Unfit> {
    with(desired, folder, connection, &|reference| secret::read(reference, folder))
}

fn with(
    desired: &Desired,
    folder: &Folder,
    connection: &Connection,
    read: &ReadSecret<'_>,
) -> Result<Choice, Unfit> {
    let grants = folder.granted();
    let person = Person {
        grants: &grants,
        fingerprints: &connection.fingerprint,
        ca_file: connection.ca_file.as_ref(),
    };
    decide(&desired.proxmox, &Environment::of_process(), &person, read)
}

/// With what was just allowed.
fn again(desired: &Desired, folder: &Folder, connection: &Connection) -> anyhow::Result<Choice> {
    once(desired, folder, connection).map_err(|unfit| match unfit {
        Unfit::Failure(failure) | Unfit::Ungranted { failure, .. } => {
            failure.with_hint(folder.command()).into()
        }
    })
}

/// Whether the person is asked about an endpoint whose certificate the system trusts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Always,
    /// The person has named the endpoint already; only its certificate may have to be compared.
    IfUnknown,
}

/// Shows the certificate of each endpoint and asks whether the token may go there; a yes is kept. Gives whether anything was
/// allowed. An endpoint that does not answer is left to the requests, which say so.
async fn allow(
    secret: &str,
    endpoints: &[Endpoint],
    ask: Ask,
    folder: &Folder,
    printer: &Printer,
) -> anyhow::Result<bool> {
    let mut granted = false;
    for endpoint in endpoints {
        let (shown, vouched) = match visit::look(endpoint).await {
            Ok(seen) => seen,
            Err(_) if ask == Ask::IfUnknown => continue,
            Err(words) => {
                let failure = Failure::new(format!("{endpoint} shows no certificate to compare: {words}"));
                return Err(failure.with_hint(folder.command()).into());
            }
        };
        if vouched && ask == Ask::IfUnknown {
            continue;
        }
        printer.problem(&format!(
            "The description in {} would send the token of {secret} to {endpoint}, which you have not allowed yet.",
            folder.real().display()
        ));
        if vouched {
            printer.problem("This system trusts its certificate.");
        } else {
            printer.problem(&visit::to_compare(endpoint, shown));
        }
        let answer = prompt::line("Allow this for this folder from now on? [y/N] ")?.unwrap_or_default();
        if !prompt::is_yes(&answer) {
            return Err(Failure::new("not allowed; nothing was sent")
                .with_hint("a certificate that differs is not that of your Proxmox")
                .with_hint(folder.command())
                .into());
        }
        let certificate =
            if vouched { Certificate::System } else { Certificate::Fingerprints([shown].into()) };
        keep(&[credential(secret, endpoint, certificate)?], folder, printer)?;
        granted = true;
    }
    Ok(granted)
}

fn credential(secret: &str, endpoint: &Endpoint, certificate: Certificate) -> Result<Grant, Failure> {
    let endpoints = [origin(endpoint)?].into();
    Ok(Grant::Credential(Credential { secret: secret.to_owned(), endpoints, certificate }))
}

/// The person typed an endpoint, and what vouches for its certificate: kept for the folder that is about to be written.
pub(crate) fn allow_typed(
    secret: &str,
    endpoint: &Endpoint,
    certificate: Certificate,
    folder: &Folder,
    printer: &Printer,
) -> Result<(), Failure> {
    keep(&[credential(secret, endpoint, certificate)?], folder, printer)
}

/// The needs for the token: those that nothing meets, and those a grant meets. What the environment vouches for needs none. No
/// program runs for this and no token is read: only a SOPS file is opened, since it may say where its token goes.
pub(crate) fn token_needs(
    desired: &Desired,
    folder: &Folder,
    connection: &Connection,
) -> Result<Vec<Need>, Failure> {
    let unread = |reference: &SecretRef| match reference {
        SecretRef::Sops { .. } => secret::read(reference, folder),
        SecretRef::Env(_) | SecretRef::File(_) | SecretRef::Exec(_) => {
            Ok(Secret { text: SecretString::from("nobody@pve!unread=unread"), beside: Beside::default() })
        }
    };
    match with(desired, folder, connection, &unread) {
        Err(Unfit::Ungranted { needs, .. }) => Ok(needs),
        Ok(Choice { secret, endpoints, .. }) => {
            let need = |endpoint: &Endpoint| {
                Ok(Need::Credential { secret: secret.clone(), endpoint: origin(endpoint)? })
            };
            let grants = folder.granted();
            let needs: Vec<Need> = endpoints.iter().map(need).collect::<Result<_, Failure>>()?;
            Ok(needs.into_iter().filter(|need| grants.allows(need)).collect())
        }
        Err(Unfit::Failure(failure)) => Err(failure),
    }
}
