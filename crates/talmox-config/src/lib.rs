//! Description files: read with the place of every value, checked as a whole, resolved into [`Desired`].
//!
//! ```text
//! load ──▶ read ──▶ Description ──▶ rules ──▶ resolve ──▶ Desired
//!  files    blocks    layers          │          │
//!           with places               ▼          └──▶ explain: which file, line or default gave a value
//!                                  Problems ──▶ report: excerpts with a mark and a hint
//! ```
//!
//! Nothing stops at the first mistake: every stage reports all it finds, and only then is it decided whether to go on.

mod bare;
mod derive;
pub mod describe;
mod description;
pub mod edit;
mod explain;
pub mod file;
pub mod init;
mod layers;
mod load;
mod mask;
mod patches;
mod problem;
pub mod read;
mod report;
mod resolve;
mod rules;
mod source;

pub use bare::{read_settings, without_cluster};
pub use description::{Description, fault_problem};
pub use explain::{Candidate, Explanation, UnknownField, explain, fields};
pub use file::drift_field;
pub use layers::{Member, Rank};
pub use load::{Files, MAX_FILE_SIZE, add_file, load};
pub use mask::without_secrets;
pub use patches::WrittenPatch;
pub use problem::{Code, Place, Problem, Severity};
pub use report::{Colour, MOST_SHOWN, more_problems, position_of, report, sort};
pub use source::{Location, Source, SourceId, Sources};

use std::path::Path;

use talmox_types::desired::Desired;

/// What came of reading a description.
#[derive(Debug)]
pub struct Outcome {
    pub description: Description,
    /// Only if there is no error.
    pub desired: Option<Desired>,
    pub problems: Vec<Problem>,
}

impl Outcome {
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    pub fn count(&self, severity: Severity) -> usize {
        self.problems.iter().filter(|problem| problem.severity == severity).count()
    }
}

/// Reads the description in a file or folder.
pub fn read_path(path: &Path) -> Outcome {
    read_files(load(path))
}

/// Reads a description from texts that are already there.
pub fn read_files(files: Files) -> Outcome {
    let (description, mut problems) = Description::read(files);
    rules::check(&description, &mut problems);
    let has_errors = problems.iter().any(|problem| problem.severity == Severity::Error);
    let desired = (!has_errors).then(|| resolve::resolve(&description));
    report::sort(&mut problems);
    Outcome { description, desired, problems }
}
