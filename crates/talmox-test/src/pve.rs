//! The way to the API of simulated Proxmox hosts.

use std::sync::Arc;

use talmox_pve::client::{BoxFuture, HttpRequest, HttpResponse, Target, Transport, TransportError};

use crate::wire::body_bytes;
use crate::{ClientId, End, MemoryTransport};

/// A client's way to Proxmox.
pub(crate) struct PveMemory {
    pub(crate) cluster: Arc<MemoryTransport>,
    pub(crate) client: ClientId,
}

impl Transport for PveMemory {
    fn send<'a>(
        &'a self,
        target: &'a Target,
        request: HttpRequest,
    ) -> BoxFuture<'a, Result<HttpResponse, TransportError>> {
        Box::pin(async move {
            let Self { cluster, client } = self;
            let body = body_bytes(&request.body)?;
            let host = target.endpoint.host();
            let departed = cluster.depart(*client, host, request.method.as_str(), &request.path, &body);
            let answer = cluster.travel(target, &request, &body, &departed).await;
            let at = cluster.now();
            match &answer {
                Ok(HttpResponse { status, body, .. }) => {
                    cluster.note_end(departed.number, body, End::Answered { status: *status, at });
                }
                Err(error) => {
                    cluster.note_end(departed.number, b"", End::Failed { reason: error.to_string(), at });
                }
            }
            answer
        })
    }
}
