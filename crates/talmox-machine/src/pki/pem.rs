//! PEM: base64 between two lines that say what it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Characters of base64 on a line.
const WIDTH: usize = 64;

/// Writes a block.
pub(super) fn encode(label: &str, der: &[u8]) -> Zeroizing<String> {
    let body = Zeroizing::new(STANDARD.encode(der));
    let lines = body.len().div_ceil(WIDTH);
    let mut text = Zeroizing::new(String::with_capacity(body.len() + lines + 2 * label.len() + 36));
    text.push_str(&format!("-----BEGIN {label}-----\n"));
    for start in (0..body.len()).step_by(WIDTH) {
        text.push_str(&body[start..body.len().min(start + WIDTH)]);
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// Reads the first block: its label and what it holds.
pub(super) fn decode(text: &str) -> Option<(&str, Zeroizing<Vec<u8>>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let bare: Zeroizing<String> = Zeroizing::new(body.chars().filter(|c| !c.is_ascii_whitespace()).collect());
    let der = STANDARD.decode(bare.as_bytes()).ok()?;
    Some((label, Zeroizing::new(der)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let der: Vec<u8> = (0..=255).collect();
        let text = encode("CERTIFICATE", &der);
        assert!(text.lines().all(|line| line.len() <= 64) && text.ends_with("-----END CERTIFICATE-----\n"));
        let (label, read) = decode(&text).unwrap();
        assert_eq!((label, read.as_slice()), ("CERTIFICATE", der.as_slice()));
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "-----BEGIN X-----",
            "-----BEGIN X-----\n!\n-----END X-----\n",
            "-----BEGIN X-----\nAA==\n-----END Y-----",
        ] {
            assert!(decode(text).is_none(), "{text}");
        }
    }
}
