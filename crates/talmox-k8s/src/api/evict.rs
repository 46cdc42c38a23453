//! Evictions: asking a pod to leave, within what its disruption budgets allow.

use serde_json::json;

use crate::client::{Call, JSON};
use crate::{Cause, Client, Error, Kind, Method, Pod, Status};

/// What became of an eviction. A budget in the way is an error of [`Kind::Blocked`] that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// It is on its way out, and gone when it is no longer listed.
    Begun,
    /// It was gone before, or another one has its name now.
    Gone,
}

impl Client {
    /// Asks a pod to leave; the very one that was seen, not a new one of its name.
    pub async fn evict(&self, pod: &Pod) -> Result<Eviction, Error> {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let mut eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
        });
        if !pod.metadata.uid.is_empty() {
            eviction["deleteOptions"] = json!({ "preconditions": { "uid": pod.metadata.uid } });
        }
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        let action = format!("evict pod {namespace}/{name}");
        let call = Call::new(Method::Post, path, action.as_str()).body(JSON, eviction);
        match self.send(call).await {
            Ok(response) => match Status::read_failure(&response.body) {
                // Two budgets for one pod: the server says 201, and in the body that it failed.
                Some(status) => Err(self.error(Method::Post, &action, Cause::Status(Box::new(status)))),
                None => Ok(Eviction::Begun),
            },
            // Conflict: the uid is another one's.
            Err(error) if [Kind::NotFound, Kind::Conflict].contains(&error.kind()) => Ok(Eviction::Gone),
            Err(error) => Err(error),
        }
    }
}
