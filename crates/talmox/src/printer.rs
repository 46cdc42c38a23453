//! The two streams: stdout is data, stderr is talk.
//!
//! Names and words of servers are made visible where they come in. Here is the second line of defence: nothing that acts
//! on a terminal gets past, whatever a text was made of, but our own colours. Data that goes to a file or another program
//! is left as it is.

use std::io::{self, IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use serde::Serialize;
use talmox_types::{visible_json, visible_lines, visible_with_colors};

use crate::args::{Format, Global, When};
use crate::failure::hints;
use crate::wrap::wrap;

#[derive(Clone)]
pub(crate) struct Printer {
    color: When,
    quiet: bool,
    verbose: bool,
    /// Talk is for programs: one JSON object a line, whatever it is about.
    json: bool,
}

/// What is said beside events of a run, for programs.
#[derive(Serialize)]
struct Said<'a> {
    event: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
}

impl Printer {
    pub(crate) fn new(global: &Global, json: bool) -> Self {
        Self { color: global.color, quiet: global.quiet, verbose: global.verbose, json }
    }

    /// For what was said already.
    pub(crate) fn silent() -> Self {
        Self { color: When::Never, quiet: true, verbose: false, json: false }
    }

    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether what is said is for programs.
    pub(crate) fn talks_json(&self) -> bool {
        self.json
    }

    /// Whether a person is there to be asked.
    pub(crate) fn can_ask() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Whether somebody watches what is said.
    pub(crate) fn is_watched() -> bool {
        io::stderr().is_terminal()
    }

    /// Whether somebody watches the data.
    pub(crate) fn data_is_watched() -> bool {
        io::stdout().is_terminal()
    }

    fn choice(&self) -> ColorChoice {
        match self.color {
            When::Auto => ColorChoice::Auto,
            When::Always => ColorChoice::Always,
            When::Never => ColorChoice::Never,
        }
    }

    /// Data, with a line feed at its end.
    pub(crate) fn data(&self, text: &str) -> anyhow::Result<()> {
        if Self::data_is_watched() {
            self.write_data(&visible_with_colors(text))
        } else {
            self.write_data(text)
        }
    }

    fn write_data(&self, text: &str) -> anyhow::Result<()> {
        let mut stream = AutoStream::new(io::stdout().lock(), self.choice());
        let end = if text.ends_with('\n') { "" } else { "\n" };
        write!(stream, "{text}{end}")
            .and_then(|()| stream.flush())
            .context("could not write to the standard output")
    }

    /// Data as people look at it: lines that are too long for the screen are broken between words.
    pub(crate) fn screen(&self, text: &str) -> anyhow::Result<()> {
        // In a file as well: it is looked at with a pager or `cat`.
        let text = visible_with_colors(text);
        match rustix::termios::tcgetwinsize(io::stdout()) {
            Ok(size) if io::stdout().is_terminal() => self.write_data(&wrap(&text, usize::from(size.ws_col))),
            Ok(_) | Err(_) => self.write_data(&text),
        }
    }

    /// Data for programs. Only for [`Format::Json`] and [`Format::Yaml`].
    pub(crate) fn structured(&self, format: Format, value: &impl Serialize) -> anyhow::Result<()> {
        let text = match format {
            Format::Yaml => serde_saphyr::to_string(value)?,
            Format::Json | Format::Table => visible_json(&serde_json::to_string_pretty(value)?).into_owned(),
        };
        self.data(&text)
    }

    /// Talk: progress, results in words, remarks. Silent with `-q`.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            self.talk("said", text);
        }
    }

    /// Problems: shown even with `-q`.
    pub(crate) fn problem(&self, text: &str) {
        self.talk("problem", text);
    }

    /// A line of JSON that is made already.
    pub(crate) fn line(&self, text: &str) {
        self.stderr(&visible_json(text));
    }

    pub(crate) fn failure(&self, error: &anyhow::Error) {
        if self.json {
            let causes = error.chain().skip(1).map(ToString::to_string).collect();
            return self.object(&Said {
                event: "error",
                detail: &error.to_string(),
                causes,
                hints: hints(error),
            });
        }
        self.stderr(&told(error));
    }

    /// Words for people, or the same as an object.
    fn talk(&self, event: &'static str, text: &str) {
        if !self.json {
            return self.stderr(text);
        }
        let plain = anstream::adapter::strip_str(text.trim()).to_string();
        if !plain.is_empty() {
            self.object(&Said { event, detail: &plain, causes: Vec::new(), hints: Vec::new() });
        }
    }

    fn object(&self, said: &Said<'_>) {
        // A line of texts can always be written as JSON.
        if let Ok(line) = serde_json::to_string(said) {
            self.stderr(&visible_json(&line));
        }
    }

    /// A stream that cannot be written to is nothing a program could report anywhere.
    fn stderr(&self, text: &str) {
        let mut stream = AutoStream::new(io::stderr().lock(), self.choice());
        let _ = writeln!(stream, "{}", visible_with_colors(text));
    }
}

/// A failure as people read it: what happened, what it came of, what to do. Whatever lines the texts have, none begins
/// like one of these.
fn told(error: &anyhow::Error) -> String {
    let red = AnsiColor::BrightRed.on_default().bold();
    let mut text = format!("{red}error{red:#}: {}", visible_lines(&error.to_string()));
    for cause in error.chain().skip(1) {
        text.push_str(&format!("\n  because: {}", visible_lines(&cause.to_string())));
    }
    for hint in hints(error) {
        let cyan = AnsiColor::BrightCyan.on_default().bold();
        text.push_str(&format!("\n{cyan}hint{cyan:#}: {}", visible_lines(&hint)));
    }
    text
}

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const RED: Style = AnsiColor::Red.on_default();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn a_failure_acts_on_no_terminal() {
        let evil = "a\u{1b}[2J\u{202e}b\nhint: forged";
        let failure = anyhow::Error::new(Failure::new(evil).with_hint(evil)).context(evil);
        let plain = anstream::adapter::strip_str(&told(&failure)).to_string();
        assert_eq!(
            plain,
            "error: a·[2J·b\n  hint: forged\n  because: a·[2J·b\n  hint: forged\nhint: a·[2J·b\n  hint: forged"
        );
    }
}
