//! Which calls are compared: those talmox makes.

use talmox_proto::machine::{image_service, lifecycle_service, machine_service as machine};
use talmox_proto::resource::state;

/// The calls of `talmox-talos`.
pub(super) const CALLS: [&str; 33] = [
    machine::APPLY_CONFIGURATION.path,
    machine::BOOTSTRAP.path,
    machine::DMESG.path,
    machine::ETCD_ALARM_DISARM.path,
    machine::ETCD_ALARM_LIST.path,
    machine::ETCD_DEFRAGMENT.path,
    machine::ETCD_FORFEIT_LEADERSHIP.path,
    machine::ETCD_LEAVE_CLUSTER.path,
    machine::ETCD_MEMBER_LIST.path,
    machine::ETCD_RECOVER.path,
    machine::ETCD_REMOVE_MEMBER_BY_ID.path,
    machine::ETCD_SNAPSHOT.path,
    machine::ETCD_STATUS.path,
    machine::IMAGE_PULL.path,
    machine::KUBECONFIG.path,
    machine::LIST.path,
    machine::LOGS.path,
    machine::MEMORY.path,
    machine::READ.path,
    machine::REBOOT.path,
    machine::RESET.path,
    machine::ROLLBACK.path,
    machine::SERVICE_LIST.path,
    machine::SERVICE_RESTART.path,
    machine::SERVICE_START.path,
    machine::SHUTDOWN.path,
    machine::UPGRADE.path,
    machine::VERSION.path,
    image_service::PULL.path,
    lifecycle_service::UPGRADE.path,
    state::GET.path,
    state::LIST.path,
    state::WATCH.path,
];

pub(super) fn is_ours(method: &str) -> bool {
    CALLS.iter().any(|path| path.strip_prefix('/') == Some(method))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Constants of calls as the client's sources name them.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "our own sources")]
    fn every_call_of_the_client_is_compared() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/talmox-talos/src/api");
        let mut named = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let pattern = regex_lite::Regex::new(r"\b(calls|state|\w*service)::([A-Z][A-Z_]+)\b").unwrap();
            named
                .extend(pattern.captures_iter(&text).map(|found| (found[1].to_owned(), found[2].to_owned())));
        }
        assert_eq!(named.len(), CALLS.len(), "{named:?}");
    }
}
