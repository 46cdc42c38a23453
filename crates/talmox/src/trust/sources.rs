//! Where grants come from: the person's file, and what this run was given. Never from the description's folder or one above
//! it, since the author of a pull request can often change those files too.

use std::path::Path;

use talmox_trust::{Grant, Grants, read_list};

use super::store;
use crate::args::TrustArgs;
use crate::failure::Failure;
use crate::regular_file;

/// A list of grants is a page of text.
const LARGEST: u64 = 1 << 20;

/// The grants in force for a description's folder. Those of this run come last: they decide where two differ.
pub(super) fn gather(folder: &Path, args: &TrustArgs) -> Result<Grants, Failure> {
    let mut grants = Grants::default();
    if let Some(own) = store::load()? {
        let mine = own.of(folder);
        // Somebody who may write here may write what they like: then nothing of it counts.
        if !mine.is_empty() {
            refuse_inside(&own.path, folder)?;
        }
        grants.add(mine);
    }
    if let Some(path) = &args.trust_file {
        refuse_inside(path, folder)?;
        let text = regular_file::text(path, LARGEST).map_err(|error| {
            Failure::new(format!("could not read the grants in {}: {error}", path.display()))
        })?;
        grants.add(read(&text, &path.display().to_string())?);
    }
    for text in &args.trust {
        grants.add(read(text, "--trust (TALMOX_TRUST)")?);
    }
    Ok(grants)
}

fn read(text: &str, name: &str) -> Result<Vec<Grant>, Failure> {
    read_list(text).map_err(|malformed| {
        Failure::new(format!("{name}: {malformed}"))
            .with_hint("talmox trust --print writes grants as they are read")
    })
}

/// Refuses a file of grants in the description's folder, in a folder above it, or in the repository it belongs to.
pub(super) fn refuse_inside(file: &Path, folder: &Path) -> Result<(), Failure> {
    let Ok(real) = file.canonicalize() else { return Ok(()) };
    let above = real.parent().is_some_and(|parent| folder.starts_with(parent));
    let repository = folder.ancestors().find(|above| above.join(".git").exists()).unwrap_or(folder);
    if !above && !real.starts_with(folder) && !real.starts_with(repository) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} grants nothing: it lies beside or above the description in {}, where whoever changes the description may change it too",
        file.display(),
        folder.display()
    ))
    .with_hint("keep grants elsewhere, or give them to a pipeline as TALMOX_TRUST"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_or_above_the_description_grants_nothing() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let lab = root.join("repository/clusters/lab");
        std::fs::create_dir_all(&lab).unwrap();
        std::fs::create_dir_all(root.join("repository/ci")).unwrap();
        std::fs::create_dir_all(root.join("elsewhere")).unwrap();
        let refused = |name: &str| {
            let path = root.join(name);
            std::fs::write(&path, "- variable: A\n").unwrap();
            let args = TrustArgs { trust_file: Some(path), ..TrustArgs::default() };
            gather(&lab, &args).is_err()
        };
        assert!(refused("repository/clusters/lab/grants.yaml"), "beside it");
        assert!(refused("repository/clusters/grants.yaml"), "above it");
        assert!(!refused("repository/ci/grants.yaml"), "no repository yet");
        std::fs::create_dir(root.join("repository/.git")).unwrap();
        assert!(refused("repository/ci/grants.yaml"), "in the same repository");
        assert!(!refused("elsewhere/grants.yaml"));
    }
}
