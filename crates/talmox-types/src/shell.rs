//! Commands for a POSIX shell, as people paste them. Some of their words come from a server.

use std::borrow::Cow;

use crate::visible;

/// A command from its words: each reaches the program as it is, whatever stands in it.
pub fn command(words: &[&str]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell reads it back. Inside of single quotes a shell gives no character a meaning of its own.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let bare = |c: char| c.is_ascii_alphanumeric() || "_-.,/:@%+=".contains(c);
    if !word.is_empty() && word.chars().all(bare) {
        return Cow::Borrowed(word);
    }
    // A line feed would be harmless in quotes and end the comment of a line that is switched off.
    Cow::Owned(format!("'{}'", visible(word).replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const WORDS: [&str; 16] = [
        "plain-1.2_3/x:y@pve,b",
        "",
        "$(touch pwned)",
        "`id`",
        "a'b\"c",
        "'; rm -rf /; '",
        "!history",
        "talmox@pve!ci",
        "a b  c",
        "* ? [a-z] {a,b} ~root",
        "a && b | c > d < e; f &",
        "#no comment",
        "back\\slash",
        "ünïcode",
        "$HOME",
        "=x",
    ];

    /// A real shell is asked, because a reader of our own would share our mistakes.
    #[test]
    fn a_shell_reads_the_words_back() {
        let line = format!("printf '%s\\n' {}", command(&WORDS));
        let output = Command::new("sh").arg("-c").arg(&line).env_clear().output().unwrap();
        assert!(output.status.success(), "{line}");
        let read: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
        assert_eq!(read, WORDS, "{line}");
    }

    #[test]
    fn no_word_ends_its_line() {
        let line = command(&["pvesm", "set", "x\ntouch pwned #", "a\rb\u{1b}[2J"]);
        assert_eq!(line, "pvesm set 'x · touch pwned #' 'a · b·[2J'");
    }
}
