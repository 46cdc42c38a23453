//! The way to the Kubernetes API of simulated clusters.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use talmox_k8s::{BoxFuture, Request, Response, Time, Transport, TransportError};
use talmox_sim_talos::{CallFault, KubeCall, KubeReply, Listener, Peer};

use crate::transport::{DEAD, Departed, pause};
use crate::trust::Trust;
use crate::{ClientId, End, Fault, MemoryTransport};

/// Carries requests to simulated clusters. What a call costs and what goes wrong with it is the lab's: one log, one plan.
pub struct KubeMemory {
    cluster: Arc<MemoryTransport>,
    client: ClientId,
    trust: Trust,
}

impl KubeMemory {
    pub(crate) fn new(cluster: Arc<MemoryTransport>, client: ClientId) -> Self {
        Self { cluster, client, trust: Trust::default() }
    }

    async fn exchange(&self, request: Request) -> Result<Response, TransportError> {
        let departed = self.cluster.depart(
            self.client,
            &request.server.host,
            request.method.name(),
            &shown_path(&request),
            &request.body,
        );
        let answer = self.travel(&request, &departed).await;
        let at = self.cluster.now();
        match &answer {
            Ok(Response { status, date: _, body }) => {
                self.cluster.note_end(departed.number, body, End::Answered { status: *status, at });
            }
            Err(error) => {
                self.cluster.note_end(departed.number, b"", End::Failed { reason: error.to_string(), at });
            }
        }
        answer
    }

    async fn travel(&self, request: &Request, departed: &Departed) -> Result<Response, TransportError> {
        if self.cluster.dies(departed) == Some(false) {
            return Err(TransportError::NotReached { reason: DEAD.to_owned() });
        }
        pause(departed.there).await;
        match &departed.fault {
            Some(Fault::Refused) => return Err(refused()),
            Some(Fault::Hang { reached: false }) => return std::future::pending().await,
            Some(Fault::Reply { status, reason }) => {
                pause(departed.back).await;
                return Ok(Response { status: *status, date: None, body: status_body(*status, reason) });
            }
            _ => {}
        }
        let reply = self.ask(request, departed.node_fault())?;
        let response = self.receive(reply, departed).await?;
        match &departed.fault {
            Some(Fault::Hang { .. }) => std::future::pending().await,
            Some(Fault::ReplyLost | Fault::BodyCut | Fault::ReplyShortened) => {
                Err(lost("the connection was closed before the reply had come"))
            }
            Some(Fault::KillClient { .. }) => Err(lost(DEAD)),
            _ => Ok(response),
        }
    }

    fn ask(&self, request: &Request, fault: Option<CallFault>) -> Result<KubeReply, TransportError> {
        let unknown = || TransportError::NotReached { reason: "Name or service not known".to_owned() };
        let to: IpAddr = request.server.host.parse().map_err(|_| unknown())?;
        let call = KubeCall {
            to,
            peer: self.handshake(to, request)?,
            method: request.method.name().to_owned(),
            path: request.path.clone(),
            query: request.query.clone(),
            content_type: request.content_type.map(str::to_owned),
            body: request.body.clone(),
        };
        self.cluster.nodes(|nodes, now| nodes.kube_with(&call, fault, now)).ok_or_else(refused)
    }

    /// What each side makes of the other's certificate. A client the server does not know is told so in HTTP.
    fn handshake(&self, to: IpAddr, request: &Request) -> Result<Peer, TransportError> {
        let now = self.cluster.world(|world| world.epoch() + world.clock());
        let listener = self.cluster.nodes(|nodes, _| nodes.kube_listener(to));
        let (Listener::Maintenance { certificate, .. } | Listener::Secure { certificate, .. }) =
            listener.ok_or_else(refused)?
        else {
            return Err(refused());
        };
        let identity = &request.identity;
        self.trust
            .server(&certificate, identity.authorities(), to, now)
            .map_err(|reason| TransportError::NotTrusted { reason })?;
        Ok(self.trust.client(identity.certificate(), identity.authorities(), now))
    }

    async fn receive(&self, reply: KubeReply, departed: &Departed) -> Result<Response, TransportError> {
        match reply {
            KubeReply::Refused => Err(refused()),
            KubeReply::NotTrusted { reason } => Err(TransportError::Lost { reason }),
            // The client watches nothing.
            KubeReply::Silence | KubeReply::Watch(_) => std::future::pending().await,
            KubeReply::Lost { after } => {
                pause(after).await;
                Err(lost("the connection was closed before the reply had come"))
            }
            KubeReply::Answer { after, status, body } => {
                pause(after + departed.back).await;
                // The clock of the server is the lab's.
                let now = self.cluster.world(|world| world.epoch() + world.clock());
                let date = i64::try_from(now / 1000).ok().map(Time::from_unix);
                Ok(Response { status, date, body })
            }
        }
    }
}

impl Transport for KubeMemory {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let after = request.deadline;
            let answer = tokio::time::timeout(after, self.exchange(request)).await;
            answer.unwrap_or(Err(TransportError::Deadline { after }))
        })
    }
}

/// Path and query, for the log.
fn shown_path(request: &Request) -> String {
    let query: Vec<String> = request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if query.is_empty() { request.path.clone() } else { format!("{}?{}", request.path, query.join("&")) }
}

/// A refusal in the form of Kubernetes.
fn status_body(status: u16, message: &str) -> Bytes {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status,
    });
    Bytes::from(body.to_string())
}

fn refused() -> TransportError {
    TransportError::NotReached { reason: "Connection refused".to_owned() }
}

fn lost(reason: &str) -> TransportError {
    TransportError::Lost { reason: reason.to_owned() }
}
