//! Files the description names.

use std::path::Path;

use talmox_types::desired::{Cni, Patch};

use super::Subject;
use crate::file::FileOrUrl;
use crate::problem::{Code, Problem, Severity};
use crate::source::{Location, SourceId};

/// Looks whether they are there; only for descriptions that are files themselves.
pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    let mut look = |path: &str, location: Location, severity: Severity| {
        let source = subject.description.sources.get(location.source);
        let missing = location.source != SourceId::BUILT_IN
            && source.is_file
            && !source.folder.join(Path::new(path)).exists();
        if missing {
            let mut problem = Problem::error(Code::ReferencedFile, format!("there is no file {path}"))
                .at(location, "named here")
                .hint("paths are relative to the file that names them");
            problem.severity = severity;
            problems.push(problem);
        }
    };
    for manifest in file.bootstrap_manifests.iter().flat_map(|at| &at.value) {
        if let FileOrUrl::File(path) = &manifest.value {
            look(path, manifest.location, Severity::Error);
        }
    }
    if let Some(cni) = &file.cni
        && let Cni::Manifest(path) = &cni.value
    {
        look(path, cni.location, Severity::Error);
    }
    // Needed only to talk to Proxmox; a description can be read and rendered without.
    if let Some(ca) = &file.proxmox_ca_file {
        look(&ca.value.0, ca.location, Severity::Note);
    }
    for member in &subject.members {
        for (_, patches) in member.all(|s| s.patches.as_ref()) {
            for patch in &patches.value {
                if let Patch::File(path) = &patch.value {
                    look(path, patch.location, Severity::Error);
                }
            }
        }
    }
}
