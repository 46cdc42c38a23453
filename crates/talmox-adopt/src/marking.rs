//! Writing the mark: the one change adoption makes to a VM.

use talmox_pve::client::{ChangeError, Client, ConfigChange, Error, ErrorKind};
use talmox_pve::property::{Smbios, VmConfig};
use talmox_types::{HostName, Mark, VmId};

use crate::Adoption;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// Mark and witness hold.
    Now,
    /// The mark holds; a running VM takes its SMBIOS values at its next restart, and nothing waits for that.
    WitnessAfterRestart,
}

/// Why a VM was not marked.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    #[error("could not mark VM {vmid} on {host}")]
    Call { vmid: VmId, host: HostName, source: Error },
    #[error("VM {vmid} on {host} has changed since it was looked at; nothing was written to it")]
    Changed { vmid: VmId, host: HostName, source: Error },
    #[error("VM {vmid} on {host} cannot be marked")]
    Impossible { vmid: VmId, host: HostName, source: ChangeError },
}

/// Writes mark and witness in one call that insists on the state the proof was made on: a VM with one of them and not
/// the other would look like one whose making was interrupted.
pub async fn mark(client: &Client, adoption: &Adoption) -> Result<Marked, MarkError> {
    let Adoption { vmid, host, mark, description, smbios, digest, witness_waits, .. } = adoption;
    let impossible = |source| MarkError::Impossible { vmid: *vmid, host: host.clone(), source };
    let change = ConfigChange::new().set("description", description).map_err(impossible)?;
    let change = change.set("smbios1", smbios).map_err(impossible)?.if_digest(digest);
    if let Err(source) = client.change_config(host, *vmid, &change).await {
        // Nobody knows whether a call without an answer was carried out: what is there tells.
        let there = client.vm_config(host, *vmid).await.is_ok_and(|config| carries(&config, mark));
        if !there {
            let (vmid, host) = (*vmid, host.clone());
            let changed = matches!(source.kind(), ErrorKind::Conflict);
            return Err(if changed {
                MarkError::Changed { vmid, host, source }
            } else {
                MarkError::Call { vmid, host, source }
            });
        }
    }
    Ok(if *witness_waits { Marked::WitnessAfterRestart } else { Marked::Now })
}

fn carries(config: &VmConfig, mark: &Mark) -> bool {
    let smbios = config.smbios().ok().flatten().unwrap_or_default();
    let Smbios { serial, family, .. } = smbios;
    config.description().and_then(Mark::of_description).as_ref() == Some(mark)
        && serial == Some(mark.witness_serial())
        && family == Some(mark.witness_family())
}
