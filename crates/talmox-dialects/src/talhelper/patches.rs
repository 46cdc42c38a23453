//! Patches somebody wrote, and files with further documents.
//!
//! talhelper applies a group's patches, then the node's, and those for everybody last. Here those of the cluster come
//! first, so they are named by each node where there are others.

use talmox_config::Location;
use talmox_config::read::At;

use super::draft::{Draft, Whom};
use super::file::{NodeBlock, TalconfigBlock};
use super::group::given;
use crate::tree::Tree;

pub(super) fn convert(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    let own = |node: &NodeBlock| node.override_patches.as_ref().is_some_and(|at| at.value);
    let patches = given(config, "patches", |group| group.patches.as_ref(), &own);
    let mut others = !patches.is_empty();
    for given in patches {
        let owner = owner(draft, &given.place.whom);
        for (index, patch) in given.at.value.iter().enumerate() {
            let path = format!("{}[{index}]", given.place.path);
            if let Some(file) = kept(draft, &path, patch, &owner) {
                for whom in &given.place.whom {
                    draft.share(*whom).patches.push(file.clone());
                }
            }
        }
    }
    let own = |node: &NodeBlock| node.override_manifests.as_ref().is_some_and(|at| at.value);
    for given in given(config, "extraManifests", |group| group.manifests.as_ref(), &own) {
        others = true;
        for (index, manifest) in given.at.value.iter().enumerate() {
            let path = format!("{}[{index}]", given.place.path);
            let Some(file) = file(draft, &path, &manifest.value.0, manifest.location) else { continue };
            for whom in &given.place.whom {
                draft.share(*whom).patches.push(file.clone());
            }
        }
    }
    for_everyone(draft, config, others);
}

fn for_everyone(draft: &mut Draft<'_>, config: &TalconfigBlock, others: bool) {
    let count = config.nodes.as_ref().map_or(0, |nodes| nodes.value.len());
    let Some(patches) = &config.patches else { return };
    for (index, patch) in patches.value.iter().enumerate() {
        let Some(file) = kept(draft, &format!("patches[{index}]"), patch, "all") else { continue };
        if others {
            for node in 0..count {
                draft.share(Whom::Node(node)).patches.push(file.clone());
            }
        } else {
            draft.share(Whom::Everyone).patches.push(file);
        }
    }
}

/// Whose patch it is, as a name for its file.
fn owner(draft: &mut Draft<'_>, whom: &[Whom]) -> String {
    match whom {
        [one] => draft.share(*one).name.clone(),
        _ => "group".to_owned(),
    }
}

/// A patch as a file: its text as it is, variables and comments with it.
fn kept(draft: &mut Draft<'_>, place: &str, patch: &At<Tree>, owner: &str) -> Option<String> {
    let text = match patch.value.0.as_scalar() {
        Some(scalar) => scalar.text.clone(),
        None => talmox_yaml::print(&patch.value.0),
    };
    if text.contains("{{") {
        draft.unsupported(place, "a Go template; write what it stands for");
        return None;
    }
    if text.starts_with('@') && !text.trim_end().contains('\n') {
        return file(draft, place, &text, patch.location);
    }
    draft.honoured(place, "patches");
    let text = if text.ends_with('\n') { text } else { text + "\n" };
    Some(draft.keep(&format!("{owner}-patch"), text))
}

/// A file of patches or documents, copied.
fn file(draft: &mut Draft<'_>, path: &str, name: &str, location: Location) -> Option<String> {
    let name = name.trim_start_matches('@').trim();
    let text = draft.file(name, location)?;
    if text.contains("{{") {
        draft.unsupported(path, "a Go template; write what it stands for");
        return None;
    }
    draft.honoured(path, "patches");
    let base = name.rsplit('/').next().unwrap_or(name).to_owned();
    Some(draft.keep(&base, text))
}
