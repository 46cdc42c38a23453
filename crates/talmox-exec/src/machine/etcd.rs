//! A control plane's part of etcd, as it says itself.

use talmox_plan::SeenEtcd;
use talmox_talos::{Client, Error};

/// Where etcd keeps its data. The folder above is there before the bootstrap.
const DATA: &str = "/var/lib/etcd/member";

/// Whether a control plane has data of etcd. Neither a stage nor a list of members proves it: one is `running` before etcd
/// is, the other answers for a node that has left.
pub(crate) async fn has_data(client: &Client) -> Result<bool, Error> {
    Ok(client.list_folder(DATA).await?.is_some())
}

pub(crate) async fn seen_etcd(client: &Client) -> SeenEtcd {
    let (data, service) = futures_util::future::join(has_data(client), client.service("etcd")).await;
    let (data, service) = match (data, service) {
        (Ok(data), Ok(service)) => (data, service),
        (Err(error), _) | (_, Err(error)) => return SeenEtcd::Unknown { reason: error.to_string() },
    };
    let runs = service.as_ref().is_some_and(|service| service.state == "Running");
    if !data && !runs {
        return SeenEtcd::Empty;
    }
    let healthy = runs && service.is_some_and(|service| service.healthy == Some(true));
    // Before it runs, the question would hang.
    let members = if runs { client.etcd_members(false).await.ok() } else { None };
    let learners = members.iter().flatten().filter(|member| member.is_learner).count();
    let members = members.map(|all| all.into_iter().map(|member| member.hostname).collect());
    SeenEtcd::Member { healthy, members, learners }
}
