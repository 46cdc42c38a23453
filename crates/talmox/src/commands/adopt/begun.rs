//! What the marks of adopted VMs say of their machines: that etcd was begun, and that they are configured.
//!
//! A cluster is bootstrapped once. Of one that others made nobody wrote that down, and once all data of etcd is lost no machine can
//! tell any more. So it is asked now, and the marks say it from the first.

use std::net::IpAddr;

use talmox_adopt::{Adoption, Proposal};
use talmox_exec::{Begun, answering, etcd_begun};
use talmox_plan::Observed;
use talmox_types::desired::{NodeAddress, Role};

use crate::commands::machines::Inside;
use crate::commands::shared::Job;
use crate::printer::Printer;
use crate::screens::safe;

/// Has the marks say what the machines themselves say.
pub(super) async fn remember(job: &Job, observed: &Observed, proposal: &mut Proposal, printer: &Printer) {
    remember_configured(job, proposal, printer).await;
    remember_bootstrap(job, observed, proposal, printer).await;
}

/// Has the marks of machines say that they are configured, if they answer with a certificate of the cluster. Of the others the
/// first plan that hears from them writes it.
async fn remember_configured(job: &Job, proposal: &mut Proposal, printer: &Printer) {
    let place =
        |(index, adoption): (usize, &Adoption)| Some((index, (adoption.address?, adoption.uuid.clone()?)));
    let (indexes, machines): (Vec<usize>, Vec<(IpAddr, String)>) =
        proposal.adoptions.iter().enumerate().filter_map(place).unzip();
    let Ok(inside) = Inside::open(job, printer) else { return };
    if machines.is_empty() || !inside.has_secrets() {
        return;
    }
    let answers = answering(&inside.reach(false), &machines).await;
    for (index, _) in indexes.into_iter().zip(answers).filter(|(_, answers)| *answers) {
        proposal.adoptions[index].remember_configured();
    }
}

/// Has the marks of control planes say that etcd was begun, if a machine says so.
async fn remember_bootstrap(job: &Job, observed: &Observed, proposal: &mut Proposal, printer: &Printer) {
    let is_plane = |adoption: &&Adoption| adoption.role == Role::Controller;
    if !proposal.adoptions.iter().any(|adoption| is_plane(&adoption)) {
        return;
    }
    let adopted = proposal.adoptions.iter().filter(is_plane);
    let adopted = adopted.filter_map(|adoption| Some((adoption.address?, adoption.uuid.clone()?)));
    let machines: Vec<(IpAddr, String)> = adopted.chain(known(job, observed, proposal)).collect();
    let answer = match Inside::open(job, printer) {
        Ok(inside) if inside.has_secrets() => etcd_begun(&inside.reach(false), &machines).await,
        Ok(_) => Begun::Unknown(vec!["the cluster's secrets are not at hand".to_owned()]),
        Err(error) => Begun::Unknown(vec![format!("{error:#}")]),
    };
    match answer {
        Begun::Yes => proposal.adoptions.iter_mut().for_each(Adoption::remember_bootstrap),
        Begun::No => {}
        Begun::Unknown(reasons) => printer.say(&format!(
            "whether etcd was begun is not known ({}); the first plan that hears it writes it into a mark",
            safe(&reasons.join("; "))
        )),
    }
}

/// Control planes that are ours already.
fn known(job: &Job, observed: &Observed, proposal: &Proposal) -> Vec<(IpAddr, String)> {
    let place = |already: &talmox_adopt::Already| {
        let node = job.desired.nodes.iter().find(|node| node.name == already.node)?;
        let NodeAddress::Declared(address) = &node.address else { return None };
        let seen = observed.guests.get(&already.vmid)?.seen()?;
        let uuid = seen.live.smbios().ok()??.uuid?;
        (node.role == Role::Controller).then(|| (address.primary(), uuid))
    };
    proposal.already.iter().filter_map(place).collect()
}
