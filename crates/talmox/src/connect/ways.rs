//! How machines and their Kubernetes are reached.

use std::net::IpAddr;
use std::sync::Arc;

use talmox_exec::Pace;
use talmox_k8s::{HttpsTransport, Request, Response};
use talmox_talos::{Call, Fingerprint, GrpcTransport, Replies};

/// Transports to the machines themselves.
#[derive(Clone)]
pub(crate) struct Ways {
    pub(crate) talos: Arc<dyn talmox_talos::Transport>,
    pub(crate) kubernetes: Arc<dyn talmox_k8s::Transport>,
    pub(crate) pace: Pace,
}

impl Ways {
    /// Straight to each address.
    pub(crate) fn real() -> Self {
        Self {
            talos: Arc::new(GrpcTransport::default()),
            kubernetes: Arc::new(HttpsTransport::default()),
            pace: Pace::REAL,
        }
    }

    /// To simulated machines, wherever they really are, and to nobody else: nothing leaves this machine.
    pub(crate) fn simulated(
        talos: talmox_talos::DialMap,
        kubernetes: talmox_k8s::DialMap,
        pace: Pace,
    ) -> Self {
        Self {
            talos: Arc::new(Closed { transport: GrpcTransport::new(talos.clone()), map: talos }),
            kubernetes: Arc::new(Closed {
                transport: HttpsTransport::new(kubernetes.clone()),
                map: kubernetes,
            }),
            pace,
        }
    }
}

/// A transport that leads to whoever is in its map.
struct Closed<T, Map> {
    transport: T,
    map: Map,
}

impl talmox_talos::Transport for Closed<GrpcTransport, talmox_talos::DialMap> {
    fn call(&self, call: Call) -> talmox_talos::BoxFuture<'_, Result<Replies, talmox_talos::TransportError>> {
        if self.map.0.contains_key(&call.node) {
            return self.transport.call(call);
        }
        Box::pin(std::future::ready(Err(nobody_at(call.node))))
    }

    fn fingerprint(
        &self,
        node: IpAddr,
    ) -> talmox_talos::BoxFuture<'_, Result<Option<Fingerprint>, talmox_talos::TransportError>> {
        if self.map.0.contains_key(&node) {
            return self.transport.fingerprint(node);
        }
        Box::pin(std::future::ready(Err(nobody_at(node))))
    }
}

fn nobody_at(node: IpAddr) -> talmox_talos::TransportError {
    talmox_talos::TransportError::Connect { reason: format!("the simulation has nobody at {node}") }
}

impl talmox_k8s::Transport for Closed<HttpsTransport, talmox_k8s::DialMap> {
    fn send(
        &self,
        request: Request,
    ) -> talmox_k8s::BoxFuture<'_, Result<Response, talmox_k8s::TransportError>> {
        if self.map.0.contains_key(&request.server.host) {
            return self.transport.send(request);
        }
        let reason = format!("the simulation has nobody called {}", request.server.host);
        Box::pin(std::future::ready(Err(talmox_k8s::TransportError::NotReached { reason })))
    }
}
