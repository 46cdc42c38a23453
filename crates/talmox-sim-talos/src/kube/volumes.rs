//! Volumes attached to nodes: when the last pod that uses one is gone, it is detached after a while.

use serde_json::Value;

use super::Store;
use super::object::{items, text};

/// From the end of the last pod to a volume that is detached.
const DETACH: u64 = 6000;
/// The same on a node that does not answer: it might still write.
const DETACH_BY_FORCE: u64 = 360_000;

impl Store {
    /// Detaches what nobody uses; gives when the next is due. Attachments of volumes that are not there are somebody else's.
    pub(super) fn detach_volumes(&mut self, now: u64) -> Option<u64> {
        let attached: Vec<(String, String, String)> = self
            .bodies("storage.k8s.io", "volumeattachments")
            .map(|body| {
                let of = |pointer: &str| text(body, pointer).to_owned();
                (of("/metadata/name"), of("/spec/nodeName"), of("/spec/source/persistentVolumeName"))
            })
            .filter(|(_, _, volume)| self.get("/persistentvolumes", "", volume).is_some())
            .collect();
        self.unused.retain(|name, _| attached.iter().any(|(other, _, _)| other == name));
        let mut next = None;
        for (name, node, volume) in attached {
            if self.is_used(&node, &volume) {
                self.unused.remove(&name);
                continue;
            }
            let since = *self.unused.entry(name.clone()).or_insert(now);
            let patience = if self.kubelets.contains_key(&node) { DETACH } else { DETACH_BY_FORCE };
            if since + patience <= now {
                self.unused.remove(&name);
                self.remove("storage.k8s.io", "volumeattachments", "", &name);
            } else {
                next = next.into_iter().chain([since + patience]).min();
            }
        }
        next
    }

    /// Whether a pod on a node has a claim to a volume.
    fn is_used(&self, node: &str, volume: &str) -> bool {
        let claims: Vec<(&str, &str)> = self
            .bodies("", "persistentvolumeclaims")
            .filter(|claim| text(claim, "/spec/volumeName") == volume)
            .map(|claim| (text(claim, "/metadata/namespace"), text(claim, "/metadata/name")))
            .collect();
        let claims_it = |pod: &Value| {
            let namespace = text(pod, "/metadata/namespace");
            items(pod, "/spec/volumes")
                .iter()
                .any(|one| claims.contains(&(namespace, text(one, "/persistentVolumeClaim/claimName"))))
        };
        self.bodies("", "pods").any(|pod| text(pod, "/spec/nodeName") == node && claims_it(pod))
    }
}
