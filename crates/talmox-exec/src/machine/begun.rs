//! What machines are asked whose VMs carry no mark yet, so that the mark can say it from the first: whether etcd was begun, and
//! whether they are configured.

use std::net::IpAddr;

use futures_util::future::join_all;

use super::{Probe, has_data, looking, probe};
use crate::Reach;

/// What machines said of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// One of them has data.
    Yes,
    /// All of them answered, and none has data.
    No,
    /// None of those that answered has data, and for these reasons not all did.
    Unknown(Vec<String>),
}

/// Asks machines, each by its address and the uuid of its VM. Somebody else's answer at such an address counts for nothing.
pub async fn etcd_begun(reach: &Reach<'_>, machines: &[(IpAddr, String)]) -> Begun {
    let asked = machines.iter().map(|(address, uuid)| Box::pin(one(reach, *address, uuid)));
    let mut unknown = Vec::new();
    for (answer, (address, _)) in join_all(asked).await.into_iter().zip(machines) {
        match answer {
            Ok(true) => return Begun::Yes,
            Ok(false) => {}
            Err(reason) => unknown.push(format!("{address}: {reason}")),
        }
    }
    if unknown.is_empty() { Begun::No } else { Begun::Unknown(unknown) }
}

/// Which machines answer with a certificate of the cluster, each asked by its address and the uuid of its VM.
pub async fn answering(reach: &Reach<'_>, machines: &[(IpAddr, String)]) -> Vec<bool> {
    let asked = machines.iter().map(|(address, uuid)| {
        Box::pin(async { matches!(probe(reach, *address, Some(uuid)).await, Probe::Configured(_)) })
    });
    join_all(asked).await
}

async fn one(reach: &Reach<'_>, address: IpAddr, uuid: &str) -> Result<bool, String> {
    match probe(reach, address, Some(uuid)).await {
        Probe::Configured(client) => {
            has_data(&client.with_deadlines(looking())).await.map_err(|error| error.to_string())
        }
        Probe::Maintenance { .. } => Ok(false),
        Probe::Unreachable { reason } => Err(reason),
        Probe::Stranger { why } => Err(why),
    }
}
