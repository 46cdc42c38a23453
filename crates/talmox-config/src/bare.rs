//! What there is where nobody described a cluster.

use crate::Outcome;
use crate::load::Files;

const BARE: &str = include_str!("bare.yaml");

/// What stands for a description where there is none: Proxmox at its defaults, reached as the environment says, and no
/// cluster on it.
pub fn without_cluster() -> Outcome {
    let mut outcome = crate::read_files(Files::from_texts(BARE, None));
    let desired = outcome.desired.as_mut().expect("bare.yaml is a description without errors");
    desired.nodes.clear();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_cluster_is_left() {
        let desired = without_cluster().desired.unwrap();
        assert!(desired.nodes.is_empty() && desired.templates.is_empty());
        assert!(desired.uid.is_none() && desired.proxmox.pool.is_none());
        assert!(desired.proxmox.endpoints.is_empty() && desired.proxmox.api_token.is_none());
        assert_eq!(desired.proxmox.template_vmid_range.start.get(), 9000);
    }
}
