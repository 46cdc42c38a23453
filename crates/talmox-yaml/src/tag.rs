//! Tags, from their full name to what stands in a text.

use std::fmt::Write as _;

/// What `!!` stands for.
const CORE: &str = "tag:yaml.org,2002:";

/// Writes a tag in its shortest form that means the same: `!!str`, `!local`, else `!<name>`.
pub(crate) fn write_tag(out: &mut String, tag: &str) {
    if tag == "!" {
        out.push('!');
        return;
    }
    for (prefix, short) in [(CORE, "!!"), ("!", "!")] {
        if let Some(suffix) = tag.strip_prefix(prefix)
            && is_plain_suffix(suffix)
        {
            let _ = write!(out, "{short}{suffix}");
            return;
        }
    }
    out.push_str("!<");
    for character in tag.chars() {
        if character.is_ascii_alphanumeric() || "-._~:/!,".contains(character) {
            out.push(character);
        } else {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out.push('>');
}

/// Characters that end no tag in any context. A `!` would make a handle of what stands before it.
fn is_plain_suffix(suffix: &str) -> bool {
    !suffix.is_empty() && suffix.chars().all(|c| c.is_ascii_alphanumeric() || "-._/:".contains(c))
}
