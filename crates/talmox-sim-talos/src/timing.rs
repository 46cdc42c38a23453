//! How long things take.

use serde::{Deserialize, Serialize};

/// Simulated milliseconds. The default is scaled down so that six nodes come up in some tens of simulated seconds;
/// [`Timing::recorded`] has what was seen of genuine machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// A call that only looks.
    pub call: u64,
    /// Firmware, boot loader and kernel, until the first process runs.
    pub kernel: u64,
    /// Until the network is configured.
    pub network: u64,
    /// Looking for a configuration where the platform may have one.
    pub config: u64,
    /// Nobody listens while maintenance gives way to mutual TLS.
    pub transition: u64,
    /// The same, if somebody kept a stream open.
    pub transition_with_streams: u64,
    /// The same for Talos 1.12 and before.
    pub transition_before_113: u64,
    /// Partitions are made and formatted after the first configuration.
    pub partition: u64,
    /// Pulling an installer and running it.
    pub install: u64,
    /// Until the clock agrees with a time server.
    pub time_sync: u64,
    /// From the start of a service to its process.
    pub service: u64,
    /// From a service's process to its first successful health check.
    pub health: u64,
    /// Pulling the images of etcd and the kubelet before their processes start.
    pub pull: u64,
    /// From etcd's process to its first successful health check.
    pub etcd_health: u64,
    /// A learner of etcd catches up and may vote.
    pub promotion: u64,
    /// Static pods, from etcd being healthy to an API server that answers.
    pub api_server: u64,
    /// The other static pods, from then on.
    pub static_pods: u64,
    /// Until a kubelet sees that a static pod should be another one.
    pub pod_look: u64,
    /// The grace of the API server that makes room; other pods take half of it.
    pub pod_end: u64,
    /// From a new static pod to one that is ready.
    pub pod_start: u64,
    /// From the restart of a kubelet to the moment at which its node is not ready once more, and how long that lasts.
    pub flap: u64,
    pub flap_back: u64,
    /// Leaving etcd, until it is acknowledged.
    pub leave: u64,
    /// From a reachable API server to a registered node.
    pub register: u64,
    /// From a registered node with a network plugin to one that is ready.
    pub node_ready: u64,
    /// Stopping everything before the machine goes down.
    pub stop: u64,
    /// From the order to stop to the last answer of the API.
    pub last_answers: u64,
    /// Wiping partitions.
    pub wipe: u64,
    /// Draining a node.
    pub drain: u64,
    /// Waiting for something elsewhere, looked at so often.
    pub retry: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            call: 3,
            kernel: 2500,
            network: 400,
            config: 300,
            transition: 400,
            transition_with_streams: 2500,
            transition_before_113: 1000,
            partition: 500,
            install: 4000,
            time_sync: 600,
            service: 200,
            health: 400,
            pull: 800,
            etcd_health: 1000,
            promotion: 1500,
            api_server: 2000,
            static_pods: 1500,
            pod_look: 1500,
            pod_end: 1400,
            pod_start: 200,
            flap: 1800,
            flap_back: 300,
            leave: 1000,
            register: 800,
            node_ready: 1500,
            stop: 1500,
            last_answers: 300,
            wipe: 600,
            drain: 500,
            retry: 250,
        }
    }
}

impl Timing {
    /// What was observed; lengths nobody measured are guesses of the same order.
    pub fn recorded() -> Self {
        Self {
            call: 15,
            kernel: 12_000,
            network: 2000,
            config: 1500,
            transition: 450,
            transition_with_streams: 11_000,
            transition_before_113: 5800,
            partition: 4000,
            install: 45_000,
            time_sync: 5000,
            service: 400,
            health: 1000,
            pull: 3400,
            etcd_health: 5000,
            promotion: 19_000,
            api_server: 60_000,
            static_pods: 30_000,
            pod_look: 29_600,
            pod_end: 27_600,
            pod_start: 1300,
            flap: 7300,
            flap_back: 700,
            leave: 10_000,
            register: 5000,
            node_ready: 15_000,
            stop: 35_000,
            last_answers: 1000,
            wipe: 5000,
            drain: 10_000,
            retry: 1000,
        }
    }
}
