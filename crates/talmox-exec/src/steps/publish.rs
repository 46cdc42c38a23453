//! Configuration that a machine fetches when it boots.
//!
//! ```text
//!  offered under a new token ─▶ its address written into the stopped VM     …  machine has it ─▶ withdrawn ─▶ taken out of the VM
//! ```
//!
//! A run that is killed leaves a VM with an address nobody answers at. The next one finds the token there, and offers again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_plan::{Expected, config_source, seed_in};
use talmox_pve::property::{Smbios, VmConfig};
use talmox_types::{FamilyPair, Mark};

use super::{configure, seed};
use crate::find::Found;
use crate::work::{End, Result, Work};
use crate::{Handout, StepError};

/// What Proxmox takes of an SMBIOS identity.
const LONGEST_SMBIOS: usize = 512;

pub(super) async fn publish(work: &Work<'_>, vm: &Expected, address: FamilyPair<IpAddr>) -> Result {
    let handout = handout(work, vm)?;
    let found = work.expect(vm).await?;
    refuse_drives(&found)?;
    let files = seed::files(work, vm, &found, address).await?;
    let held = config_source(&found.config);
    if let Some(token) = held.as_deref().and_then(|url| handout.token_in(url)) {
        handout.offer(token, files);
        return Ok(End::Unchanged);
    }
    let failed = |reason: String| StepError::NoConfig { node: vm.mark.node.clone(), reason };
    let token = handout.new_token().ok_or_else(|| failed("the system has no random numbers".to_owned()))?;
    let identity = with_source(&found.config, &vm.mark, &handout.url(&token));
    if identity.len() > LONGEST_SMBIOS {
        let reason = format!("the address {} is too long for a VM's SMBIOS values", handout.base());
        return Err(failed(reason));
    }
    handout.offer(&token, files);
    let order = configure::Order {
        set: &BTreeMap::from([("smbios1".to_owned(), identity)]),
        delete: &BTreeSet::new(),
        drives: &BTreeMap::new(),
        witness: false,
    };
    configure::run(work, vm, &order, None).await
}

pub(super) async fn withdraw(work: &Work<'_>, vm: &Expected, address: FamilyPair<IpAddr>) -> Result {
    let found = work.expect(vm).await?;
    let Some(url) = config_source(&found.config) else { return Ok(End::Unchanged) };
    forget(work, &url)?;
    let order = configure::Order {
        set: &BTreeMap::new(),
        delete: &BTreeSet::new(),
        drives: &BTreeMap::new(),
        witness: true,
    };
    configure::run(work, vm, &order, None).await?;
    let doing = format!("look whether {} runs", found.name());
    if found.is_running(work.client()).await.map_err(StepError::call(doing))? {
        seed::read_back(work, vm, &found, address).await?;
    }
    Ok(End::Changed)
}

/// Offers what a machine waits for, if it fetches its configuration. Whatever it waits for must be what this run hands out.
pub(super) async fn offer_again(
    work: &Work<'_>,
    vm: &Expected,
    found: &Found,
    address: FamilyPair<IpAddr>,
) -> Result<()> {
    let Some(url) = config_source(&found.config) else { return Ok(()) };
    let handout = handout(work, vm)?;
    let Some(token) = handout.token_in(&url) else {
        let reason = format!(
            "its machine looks for it at {}, and this run hands it out at {}: give the same --config-url as before, or build \
             the VM anew with --replace {}",
            without_token(&url),
            handout.base(),
            vm.mark.node
        );
        return Err(StepError::NoConfig { node: vm.mark.node.clone(), reason });
    };
    handout.offer(token, seed::files(work, vm, found, address).await?);
    Ok(())
}

/// A machine that has proven itself gets nothing any more under its token.
pub(super) fn forget(work: &Work<'_>, url: &str) -> Result<()> {
    if let Some(handout) = work.reach()?.handout
        && let Some(token) = handout.token_in(url)
    {
        handout.withdraw(token);
    }
    Ok(())
}

/// What a machine that fetches its configuration has done about it so far; none if it does not fetch it.
pub(super) fn progress(work: &Work<'_>, found: &Found) -> Option<&'static str> {
    let url = config_source(&found.config)?;
    let handout = work.run.reach?.handout?;
    let fetched = handout.was_fetched(handout.token_in(&url)?);
    Some(if fetched {
        "it has fetched its configuration"
    } else {
        "it has not asked for its configuration yet"
    })
}

fn handout<'a>(work: &Work<'a>, vm: &Expected) -> Result<&'a Handout> {
    let reason =
        "its machine fetches it, and this run hands none out (--config-url, --config-cert, --config-key)";
    let missing = || StepError::NoConfig { node: vm.mark.node.clone(), reason: reason.to_owned() };
    work.reach()?.handout.ok_or_else(missing)
}

/// A machine that fetches its configuration would not read them, and somebody put them there.
fn refuse_drives(found: &Found) -> Result<()> {
    seed::refuse_cloud_init(found)?;
    match seed_in(&found.config) {
        None => Ok(()),
        Some((slot, _)) => Err(StepError::Changed {
            what: format!("{}, whose {slot} is a configuration drive,", found.name()),
        }),
    }
}

/// The VM's SMBIOS identity with our serial, the address in it, and family; uuid and everything else stay.
fn with_source(config: &VmConfig, mark: &Mark, url: &str) -> String {
    let held = config.smbios().ok().flatten().unwrap_or_default();
    let (serial, family) = (Some(mark.witness_serial_from(url)), Some(mark.witness_family()));
    Smbios { serial, family, ..held }.to_string()
}

/// An address for people to read: whoever has the token has the configuration.
fn without_token(url: &str) -> &str {
    let trimmed = url.trim_end_matches('/');
    trimmed.rsplit_once('/').map_or(trimmed, |(base, _)| base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_no_token() {
        assert_eq!(without_token("https://here:8443/a/0123/"), "https://here:8443/a");
        assert_eq!(without_token("https://here/0123"), "https://here");
    }
}
