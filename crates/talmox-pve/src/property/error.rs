//! The one error of parsing a configuration value.

/// A text that is not a valid value of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: {problem}")]
pub struct PropertyError {
    /// What was expected, with its article: `a disk`.
    pub what: &'static str,
    /// The text as it was given.
    pub text: String,
    /// What is wrong with it, naming the option where there is one.
    pub problem: String,
}

impl PropertyError {
    pub(crate) fn new(what: &'static str, text: &str, problem: impl Into<String>) -> Self {
        Self { what, text: text.to_owned(), problem: problem.into() }
    }
}
