//! What is at an address: the node's VM with a configuration, the same in maintenance mode, another machine, or nothing.

use std::net::IpAddr;
use std::time::Duration;

use talmox_plan::{Guest, addresses};
use talmox_talos::{Client, Error, Fingerprint, Kind, TransportError, kinds};
use talmox_types::FamilyPair;

use super::looking;
use crate::Reach;

/// The one resource that says what a machine is.
const HARDWARE: &str = "systeminformation";
/// A machine that has just taken its configuration changes its certificate; a second look tells it from a stranger.
const SECOND_LOOK: Duration = Duration::from_secs(2);

/// What was found at an address.
#[derive(Debug)]
pub(crate) enum Probe {
    Unreachable {
        reason: String,
    },
    /// The machine has no configuration, or says so: anybody can. Its uuid is for the caller to compare, and whether the node was
    /// configured before for the caller to know. The client is held to the certificate that told the uuid.
    Maintenance {
        client: Client,
        uuid: String,
        version: Option<String>,
        /// What genuine Talos prints on its console; none where the way to the machine has no certificates.
        fingerprint: Option<Fingerprint>,
    },
    /// Certificates of our authority on both sides, and the uuid is the VM's if that is known.
    Configured(Client),
    Stranger {
        why: String,
    },
}

/// Looks at an address. `uuid` is that of the VM.
pub(crate) async fn probe(reach: &Reach<'_>, address: IpAddr, uuid: Option<&str>) -> Probe {
    let found = once(reach, address, uuid).await;
    if !matches!(found, Probe::Stranger { .. }) {
        return found;
    }
    reach.pace.sleep(SECOND_LOOK).await;
    once(reach, address, uuid).await
}

/// Looks at an address, and at the others the machine may be at if it is not there. Only one that proves to be the VM's is
/// believed to be it elsewhere.
pub(crate) async fn probe_also(
    reach: &Reach<'_>,
    address: IpAddr,
    others: &[IpAddr],
    uuid: Option<&str>,
) -> Probe {
    let found = probe(reach, address, uuid).await;
    if uuid.is_none() || matches!(found, Probe::Configured(_) | Probe::Maintenance { .. }) {
        return found;
    }
    for other in others {
        if let own @ Probe::Configured(_) = once(reach, *other, uuid).await {
            return own;
        }
    }
    found
}

/// Addresses that a VM's own settings have beside those it is to have: somebody may have changed the description while the machine
/// lives on where it was.
pub(crate) fn elsewhere(guest: &Guest, assigned: FamilyPair<IpAddr>) -> Vec<IpAddr> {
    let own = guest.seen().map(|seen| addresses(&seen.live)).unwrap_or_default();
    own.into_iter().filter(|address| assigned.iter().all(|known| known != *address)).collect()
}

async fn once(reach: &Reach<'_>, address: IpAddr, uuid: Option<&str>) -> Probe {
    if let Some(client) = reach.secure(address) {
        let client = client.with_deadlines(looking());
        match hardware(&client).await {
            Ok(Some(found)) => return proven(client, &found, uuid),
            Ok(None) => return Probe::Unreachable { reason: "it does not know its hardware yet".to_owned() },
            // One that refuses us has proven that it is of this cluster: nobody else is found there.
            Err(error) if error.kind() != Kind::NotTrusted || is_refusal(&error) => {
                return unreachable(&error);
            }
            Err(_) => {}
        }
    }
    let client = reach.maintenance(address).with_deadlines(looking());
    let (client, fingerprint) = match client.pinned().await {
        Ok(pinned) => pinned,
        Err(error) => return no_maintenance(reach, &error),
    };
    match hardware(&client).await {
        Ok(Some(uuid)) => {
            // Talos before 1.13 does not tell its version in maintenance mode.
            let version = client.version().await.ok().map(|release| release.tag);
            Probe::Maintenance { client, uuid, version, fingerprint }
        }
        Ok(None) => Probe::Unreachable { reason: "it does not know its hardware yet".to_owned() },
        Err(error) => no_maintenance(reach, &error),
    }
}

/// What there is at an address whose machine shows no certificate of our authority and is not in maintenance mode. One that
/// closes the connection after the handshake has refused a client without a certificate: its alert and the end of the connection
/// race, and either may come first.
fn no_maintenance(reach: &Reach<'_>, error: &Error) -> Probe {
    let hung_up = matches!(error.cause, TransportError::Closed { .. });
    if error.kind() == Kind::NotReached && !hung_up {
        return unreachable(error);
    }
    if reach.machines.identity().is_none() {
        let reason = "it is not in maintenance mode, and without the cluster's secrets it says no more";
        return Probe::Unreachable { reason: reason.to_owned() };
    }
    let why = "it is configured, and its certificate is not of this cluster's authority";
    Probe::Stranger { why: why.to_owned() }
}

fn proven(client: Client, found: &str, uuid: Option<&str>) -> Probe {
    match uuid {
        Some(uuid) if !uuid.eq_ignore_ascii_case(found) => Probe::Stranger {
            why: format!("it is another machine of this cluster: its SMBIOS uuid is {found}, not {uuid}"),
        },
        Some(_) | None => Probe::Configured(client),
    }
}

/// Whether the machine was believed, and does not take our certificate.
fn is_refusal(error: &Error) -> bool {
    matches!(error.cause, TransportError::Refused { .. })
}

fn unreachable(error: &Error) -> Probe {
    Probe::Unreachable { reason: error.cause.to_string() }
}

async fn hardware(client: &Client) -> Result<Option<String>, Error> {
    let found = client.get::<kinds::SystemInformation>(HARDWARE).await?;
    Ok(found.map(|resource| resource.spec.uuid).filter(|uuid| !uuid.is_empty()))
}
