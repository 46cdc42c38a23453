//! The files.

use talmox_yaml::{Node, print};

use super::Field;
use super::draft::{Draft, Share, Whom};
use super::file::TalconfigBlock;
use crate::tree;

const CLUSTER_HEAD: &str = "\
# Made from talconfig.yaml. It says nothing of Proxmox: endpoint, host, storage and bridge are to be added, or come from the
# environment; `talmox init` in an empty folder shows how they are written.
";

const NODES_HEAD: &str =
    "# Made from talconfig.yaml. Sizes of machines are the defaults until something else is written.\n";

pub(super) fn files(mut draft: Draft<'_>, config: &TalconfigBlock) -> (Vec<(String, String)>, Vec<Field>) {
    let count = config.nodes.as_ref().map_or(0, |nodes| nodes.value.len());
    let mut made = Vec::new();
    for whom in
        [Whom::Everyone, Whom::ControlPlanes, Whom::Workers].into_iter().chain((0..count).map(Whom::Node))
    {
        own_patch(&mut draft, whom);
    }
    let mut cluster = std::mem::take(&mut draft.cluster);
    cluster.extend(patches(draft.share(Whom::Everyone)));
    for (whom, key) in [
        (Whom::ControlPlanes, "proxmox_vm_controller_defaults"),
        (Whom::Workers, "proxmox_vm_worker_defaults"),
    ] {
        let settings = settings(draft.share(whom));
        if !settings.is_empty() {
            cluster.push((key.to_owned(), tree::map(settings)));
        }
    }
    made.push(("cluster.yaml".to_owned(), format!("{CLUSTER_HEAD}{}", print(&tree::map(cluster)))));
    let nodes = (0..count).map(|index| tree::map(settings(draft.share(Whom::Node(index)))));
    let nodes = tree::map([("nodes", tree::list(nodes))]);
    made.push(("nodes.yaml".to_owned(), format!("{NODES_HEAD}{}", print(&nodes))));
    made.append(&mut draft.files);
    (made, draft.fields)
}

/// What fields were made into comes before the patches somebody wrote.
fn own_patch(draft: &mut Draft<'_>, whom: Whom) {
    let share = draft.share(whom);
    let name = share.name.clone();
    if let Some(text) = share.patch() {
        let file = draft.keep(&name, text);
        draft.share(whom).patches.insert(0, file);
    }
}

fn settings(share: &Share) -> Vec<(String, Node)> {
    share.settings.iter().cloned().chain(patches(share)).collect()
}

fn patches(share: &Share) -> Option<(String, Node)> {
    let files = share.patches.iter().map(tree::text);
    (!share.patches.is_empty()).then(|| ("patches".to_owned(), tree::list(files)))
}
