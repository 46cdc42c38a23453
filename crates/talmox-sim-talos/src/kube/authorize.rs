//! Who may do what.

use crate::Peer;

use super::failure::Failure;
use super::path::Target;

/// Who calls, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// No certificate, or one of another authority.
    Nobody,
    /// Of the group `system:masters`.
    Master,
    /// Of the group `system:nodes`.
    Node,
    /// Somebody the authority knows and no role allows anything.
    Other,
}

impl Caller {
    /// From what TLS knows, for a cluster whose clients come from these authorities (DER).
    pub fn of(peer: &Peer, authorities: &[Vec<u8>]) -> Self {
        match peer {
            Peer::Certificate { authority, organisations } if authorities.contains(authority) => {
                let is = |group: &str| organisations.iter().any(|one| one == group);
                if is("system:masters") {
                    Self::Master
                } else if is("system:nodes") {
                    Self::Node
                } else {
                    Self::Other
                }
            }
            Peer::Certificate { .. } | Peer::Nobody => Self::Nobody,
        }
    }

    pub(super) fn may(self, method: &str, target: Option<&Target>) -> Result<(), Failure> {
        // Talos lets nobody in particular see whether the server lives, and nothing else.
        if matches!(target, Some(Target::Health)) || self == Self::Master {
            return Ok(());
        }
        if self == Self::Nobody {
            return Err(Failure::new(401, "Unauthorized", "Unauthorized"));
        }
        let public = matches!(
            target,
            Some(
                Target::Version
                    | Target::Core
                    | Target::Groups
                    | Target::Group(_)
                    | Target::Openapi(_)
                    | Target::Kinds { .. }
            )
        );
        if public || (self == Self::Node && node_may(method, target)) {
            return Ok(());
        }
        Err(forbidden(method, target))
    }
}

/// A node sees itself and its pods. Since nodes are authorized by selectors it cannot list nodes.
fn node_may(method: &str, target: Option<&Target>) -> bool {
    let Some(Target::Objects(place)) = target else { return false };
    match place.resource.plural.as_str() {
        "nodes" => !place.name.is_empty() && method != "DELETE",
        "pods" => true,
        "services" | "csidrivers" => method == "GET",
        "leases" => place.namespace == "kube-node-lease",
        "events" => method == "POST" || method == "PATCH",
        _ => false,
    }
}

fn forbidden(method: &str, target: Option<&Target>) -> Failure {
    let Some(Target::Objects(place)) = target else {
        return Failure::new(403, "Forbidden", "forbidden: User cannot access this path");
    };
    let verb = match (method, place.name.is_empty()) {
        ("GET", true) => "list",
        ("GET", false) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        _ => "delete",
    };
    let scope = match place.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    let (full, plural, group) = (place.resource.full_name(), &place.resource.plural, &place.resource.group);
    let named = if place.name.is_empty() { String::new() } else { format!(" \"{}\"", place.name) };
    let message = format!(
        "{full}{named} is forbidden: User cannot {verb} resource \"{plural}\" in API group \"{group}\" {scope}"
    );
    Failure::new(403, "Forbidden", message)
}
