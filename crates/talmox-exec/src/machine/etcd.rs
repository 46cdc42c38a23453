//! A control plane's part of etcd, as it says itself.

use std::time::Duration;

use talmox_plan::SeenEtcd;
use talmox_talos::{Client, Error};

/// Where etcd keeps its data. The folder above is there before the bootstrap.
const DATA: &str = "/var/lib/etcd/member";

/// etcd elects a leader within a second or two, if enough members are there.
const ELECTION: Duration = Duration::from_secs(5);
const LOOKS: usize = 2;

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
    let healthy = runs && service.is_some_and(|service| service.healthy == Some(true));
    // A program that cannot start is `Running` for a moment, over and over: without data it is no member.
    if !data && !healthy {
        return SeenEtcd::Empty;
    }
    // Before it runs, the question would hang.
    let members = if runs { client.etcd_members(false).await.ok() } else { None };
    let learners = members.iter().flatten().filter(|member| member.is_learner).count();
    let members = members.map(|all| all.into_iter().map(|member| member.hostname).collect());
    // Who the members are, only a majority of them says.
    let leaderless = runs && members.is_none() && is_leaderless(client).await;
    let leads = healthy && client.etcd_health().await.is_ok_and(|status| status.leader == Some(status.id));
    SeenEtcd::Member { healthy, members, learners, leaderless, leads }
}

/// Whether a member has no leader, now and after an election would have had its time.
async fn is_leaderless(client: &Client) -> bool {
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(ELECTION).await;
        }
        let leader = client.etcd_health().await.map(|status| status.leader);
        if !matches!(leader, Ok(None)) {
            return false;
        }
    }
    true
}
