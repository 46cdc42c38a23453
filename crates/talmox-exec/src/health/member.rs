//! Whom the checks ask.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use talmox_talos::{Access, Client, Deadlines, Error, Identity, Transport};
use talmox_types::desired::{Cni, Desired, Role};
use talmox_types::{FamilyPair, NodeName};

/// A check is asked again soon; a call that takes longer than this is one that hangs.
const DEADLINES: Deadlines = Deadlines { quick: Duration::from_secs(10), long: Duration::from_secs(30) };

/// A cluster, as it should be.
#[derive(Clone)]
pub struct Cluster {
    pub members: Vec<Member>,
    /// Nodes that are to be off: Kubernetes and etcd may still know them, and nobody expects them to be well.
    pub off: Vec<Member>,
    pub talos: Arc<dyn Transport>,
    pub identity: Arc<Identity>,
    /// Servers that are asked one after the other until one answers; none as long as there is no way to ask.
    pub kubernetes: Vec<talmox_k8s::Client>,
    /// Whether nodes can become ready: without a network for pods they never do.
    pub has_network: bool,
}

/// What a node will say.
pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A node that is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: NodeName,
    pub role: Role,
    pub addresses: FamilyPair<IpAddr>,
}

/// Whether pods will have a network: Talos' own, or one that the description's manifests or program bring.
pub fn expects_network(desired: &Desired) -> bool {
    let kubernetes = &desired.kubernetes;
    kubernetes.cni != Cni::None
        || !kubernetes.bootstrap_manifests.is_empty()
        || !kubernetes.post_bootstrap.is_empty()
}

impl Cluster {
    pub(crate) fn control_planes(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.role == Role::Controller)
    }

    /// Whether a node, as Kubernetes calls it, is to be off.
    pub(crate) fn is_off(&self, name: &str) -> bool {
        self.off.iter().any(|member| member.name.as_str() == name)
    }

    pub(crate) fn client(&self, member: &Member) -> Client {
        let address = member.addresses.primary();
        Client::new(Arc::clone(&self.talos), address, Access::Secure(Arc::clone(&self.identity)))
            .with_deadlines(DEADLINES)
    }

    /// The same question to many, at once; the answers in the order of the nodes.
    pub(crate) async fn ask<'a, T>(
        &self,
        members: impl Iterator<Item = &'a Member>,
        question: impl Fn(Client) -> Answer<T>,
    ) -> Vec<(&'a Member, Result<T, Error>)> {
        let members: Vec<&'a Member> = members.collect();
        let asked: Vec<Answer<T>> = members.iter().map(|member| question(self.client(member))).collect();
        members.into_iter().zip(join_all(asked).await).collect()
    }
}
