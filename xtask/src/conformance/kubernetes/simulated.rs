//! The simulated API server, in memory.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use talmox_k8s::{BoxFuture, Identity, Request, Response, Transport, TransportError};
use talmox_sim_talos::kube::{Answer, Caller, Health, Store};
use talmox_sim_talos::{KubeCall, Peer};

use super::access::Authority;
use super::raw::{ADMINISTRATORS, OTHERS};

pub(super) struct Simulated {
    store: Mutex<Store>,
    authority: Vec<u8>,
    stranger: Arc<Identity>,
}

/// Controllers need time; this one is the machine's own.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}

impl Simulated {
    pub(super) fn new(version: &str, authority: &Authority) -> anyhow::Result<Self> {
        let identity = authority.client(ADMINISTRATORS)?;
        let stranger = authority.stranger();
        let authority = identity.authorities().next().unwrap_or_default().to_vec();
        Ok(Self { store: Mutex::new(Store::new(1, version, now())), authority, stranger })
    }

    /// Who shows a certificate.
    fn caller(&self, request: &Request) -> Caller {
        let shown = request.identity.certificate();
        if shown == self.stranger.certificate() {
            return Caller::of(&Peer::Nobody, std::slice::from_ref(&self.authority));
        }
        let named = |group: &str| shown.windows(group.len()).any(|part| part == group.as_bytes());
        let groups = [ADMINISTRATORS, OTHERS].into_iter().filter(|group| named(group));
        let organisations = groups.map(str::to_owned).collect();
        Caller::of(
            &Peer::Certificate { authority: self.authority.clone(), organisations },
            std::slice::from_ref(&self.authority),
        )
    }
}

/// A request from outside, by an administrator.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) content_type: Option<String>,
    pub(super) body: Vec<u8>,
}

impl Simulated {
    pub(super) fn answer(&self, asked: Asked) -> (u16, Bytes) {
        let Asked { method, path, query, content_type, body } = asked;
        let to = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let call = KubeCall { to, peer: Peer::Nobody, method, path, query, content_type, body: body.into() };
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let Answer { status, body } = store.handle(&call, Caller::Master, Health::Serving, now());
        (status, body)
    }
}

impl Transport for Simulated {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        let caller = self.caller(&request);
        let call = KubeCall {
            to: IpAddr::V4(Ipv4Addr::LOCALHOST),
            peer: Peer::Nobody,
            method: request.method.name().to_owned(),
            path: request.path,
            query: request.query,
            content_type: request.content_type.map(str::to_owned),
            body: request.body,
        };
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let Answer { status, body } = store.handle(&call, caller, Health::Serving, now());
        Box::pin(async move { Ok(Response { status, date: None, body }) })
    }
}
