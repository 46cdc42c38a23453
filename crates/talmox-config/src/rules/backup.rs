//! Whom snapshots of etcd are encrypted for.

use super::Subject;
use crate::problem::{Code, Problem};
use crate::read::{At, Word};

/// Characters of a public key of age.
const LENGTH: usize = 62;

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let Some(backup) = &subject.description.cluster.file.etcd_backup else { return };
    let recipients = backup.age.iter().flat_map(|at| &at.value.0);
    problems.extend(recipients.filter_map(recipient));
}

/// A key that turns out to be none when the snapshot is taken would be found too late.
fn recipient(word: &At<Word>) -> Option<Problem> {
    let text = &word.value.0;
    // A secret key is reported as one, and not repeated.
    if text.to_ascii_uppercase().starts_with("AGE-SECRET-KEY-") {
        return None;
    }
    let valid = text.starts_with("age1")
        && text.len() == LENGTH
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    (!valid).then(|| {
        Problem::error(Code::InvalidValue, format!("{text} is no public key of age"))
            .at(word.location, "it begins with age1 and has 62 characters")
            .hint("age-keygen makes a pair of keys; the public one belongs here")
    })
}
