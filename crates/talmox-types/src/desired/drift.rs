//! What is done about a VM that is not as described.

use serde::{Deserialize, Serialize};

/// What becomes of a difference in one field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftPolicy {
    /// Left alone, and not worth a word.
    Ignore,
    /// Told, and left alone.
    Show,
    /// Made as described.
    #[default]
    Correct,
}
