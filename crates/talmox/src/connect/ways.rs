//! How machines and their Kubernetes are reached.

use std::sync::Arc;

/// Transports to the machines themselves.
#[derive(Clone)]
pub(crate) struct Ways {
    pub(crate) talos: Arc<dyn talmox_talos::Transport>,
    pub(crate) kubernetes: Arc<dyn talmox_k8s::Transport>,
}

impl Ways {
    /// Straight to each address.
    pub(crate) fn real() -> Self {
        Self {
            talos: Arc::new(talmox_talos::GrpcTransport::default()),
            kubernetes: Arc::new(talmox_k8s::HttpsTransport::default()),
        }
    }
}
