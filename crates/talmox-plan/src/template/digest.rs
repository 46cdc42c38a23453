//! What of a template's definition decides whether it is the one that is wanted.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use talmox_types::Digest16;
use talmox_types::desired::Template;

/// What a template is built from. If this differs, another one is built beside it. The image's file name stands for the
/// image: it says version and schematic, or the hash of the URL, so that a mirror of the factory makes no other template.
pub fn image_digest(template: &Template) -> Digest16 {
    let Template { image, disk_options, efi, tpm, .. } = template;
    let checksum = image.checksum.as_ref().map(ToString::to_string);
    let tpm = tpm.as_deref().unwrap_or_default();
    digest(&["image", &image.file, checksum.as_deref().unwrap_or_default(), disk_options, flag(*efi), tpm])
}

/// What of a template can be changed in place.
pub fn settings_digest(template: &Template) -> Digest16 {
    let Template { name, options, tags, notes, .. } = template;
    let mut parts = vec!["settings", name, notes.as_deref().unwrap_or_default()];
    for (key, value) in options {
        parts.extend([key.as_str(), value.as_str()]);
    }
    parts.extend(tags.iter().map(talmox_types::Tag::as_str));
    digest(&parts)
}

fn flag(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

/// The length before each part keeps two lists with the same text apart.
fn digest(parts: &[&str]) -> Digest16 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut text = String::with_capacity(16);
    for byte in hasher.finalize().iter().take(8) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Digest16::parse(&text).expect("eight bytes are sixteen hexadecimal digits")
}
