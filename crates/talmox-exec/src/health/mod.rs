//! Whether a cluster is healthy: the checks of `talosctl health`, in its order.
//!
//! ```text
//!  CHECKS, one after the other ── each until it holds ──▶ all of them once more, in one go ──▶ healthy
//!                                        │
//!                                        └─ time is up ──▶ what is missing, and the last words of the nodes it is missing on
//! ```
//!
//! A check that held may cease to hold while a later one is waited for: a joining control plane is ready and then is not.
//! So in the end all of them must hold at once.

mod etcd;
mod kubernetes;
mod machine;
mod member;
mod state;
mod wait;
mod words;

pub use member::{Cluster, Member, expects_network};
pub use state::{Check, CheckState, Health, Missing};
pub use wait::{Progress, Unhealthy, await_health};
pub use words::LastWords;

/// One look at everything, in order. What follows a check that does not hold is not asked, as it would say the same.
pub async fn look(cluster: &Cluster) -> Health {
    let mut checks = Vec::with_capacity(CHECKS.len());
    let mut holds = true;
    for name in CHECKS {
        let state = if holds { check(cluster, name).await } else { CheckState::NotAsked };
        holds = state.holds();
        checks.push(Check { name: name.words(), state });
    }
    Health { checks }
}

/// The checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    EtcdHealthy,
    EtcdConsistent,
    EtcdOnControlPlanes,
    ApidReady,
    Memory,
    Disks,
    NoDiagnostics,
    KubeletHealthy,
    Booted,
    NodesReport,
    StaticPods,
    ComponentsReady,
    NodesReady,
    KubeProxyReady,
    CorednsReady,
    NodesSchedulable,
}

pub(crate) const CHECKS: [Name; 16] = [
    Name::EtcdHealthy,
    Name::EtcdConsistent,
    Name::EtcdOnControlPlanes,
    Name::ApidReady,
    Name::Memory,
    Name::Disks,
    Name::NoDiagnostics,
    Name::KubeletHealthy,
    Name::Booted,
    Name::NodesReport,
    Name::StaticPods,
    Name::ComponentsReady,
    Name::NodesReady,
    Name::KubeProxyReady,
    Name::CorednsReady,
    Name::NodesSchedulable,
];

impl Name {
    /// As `talosctl health` has them, so that both can be read side by side.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::EtcdHealthy => "etcd to be healthy",
            Self::EtcdConsistent => "etcd members to be consistent across nodes",
            Self::EtcdOnControlPlanes => "etcd members to be control plane nodes",
            Self::ApidReady => "apid to be ready",
            Self::Memory => "all nodes memory sizes",
            Self::Disks => "all nodes disk sizes",
            Self::NoDiagnostics => "no diagnostics",
            Self::KubeletHealthy => "kubelet to be healthy",
            Self::Booted => "all nodes to finish boot sequence",
            Self::NodesReport => "all k8s nodes to report",
            Self::StaticPods => "all control plane static pods to be running",
            Self::ComponentsReady => "all control plane components to be ready",
            Self::NodesReady => "all k8s nodes to report ready",
            Self::KubeProxyReady => "kube-proxy to report ready",
            Self::CorednsReady => "coredns to report ready",
            Self::NodesSchedulable => "all k8s nodes to report schedulable",
        }
    }
}

pub(crate) async fn check(cluster: &Cluster, name: Name) -> CheckState {
    match name {
        Name::EtcdHealthy => machine::service(cluster, "etcd").await,
        Name::EtcdConsistent => etcd::consistent(cluster).await,
        Name::EtcdOnControlPlanes => etcd::on_control_planes(cluster).await,
        Name::ApidReady => machine::answers(cluster).await,
        Name::Memory => machine::memory(cluster).await,
        Name::Disks => machine::disks(cluster).await,
        Name::NoDiagnostics => machine::diagnostics(cluster).await,
        Name::KubeletHealthy => machine::service(cluster, "kubelet").await,
        Name::Booted => machine::booted(cluster).await,
        Name::StaticPods => machine::static_pods(cluster).await,
        Name::NodesReport
        | Name::ComponentsReady
        | Name::NodesReady
        | Name::KubeProxyReady
        | Name::CorednsReady
        | Name::NodesSchedulable => kubernetes::check(cluster, name).await,
    }
}
