//! Questions to a person, on stderr, so that stdout stays data.

use std::io::{self, BufRead as _, Write as _};

/// Asks, and gives the answer without the blanks around it; none if the input has ended.
pub(crate) fn line(question: &str) -> io::Result<Option<String>> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{}", talmox_types::visible_with_colors(question))?;
    stderr.flush()?;
    drop(stderr);
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

/// Whether the answer is a yes; everything else is a no.
pub(crate) fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.to_ascii_lowercase().as_str())
}
