//! age files as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::DecryptError;

const BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
const END: &str = "-----END AGE ENCRYPTED FILE-----";
const LINE: usize = 64;

pub(super) fn encode(bytes: &[u8]) -> String {
    let encoded = STANDARD.encode(bytes);
    let mut text = format!("{BEGIN}\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(LINE));
        text.push_str(&format!("{line}\n"));
        rest = more;
    }
    text.push_str(&format!("{END}\n"));
    text
}

/// The bytes of a text; none if the file is no text of this kind.
pub(super) fn decode(file: &[u8]) -> Result<Option<Vec<u8>>, DecryptError> {
    let trimmed = file.trim_ascii();
    if !trimmed.starts_with(BEGIN.as_bytes()) {
        return Ok(None);
    }
    let wrong = DecryptError::Format("its armor");
    let text = std::str::from_utf8(trimmed).map_err(|_| wrong.clone())?;
    let mut lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    if lines.len() < 3 || lines.remove(0) != BEGIN || lines.pop() != Some(END) {
        return Err(wrong);
    }
    let Some((last, full)) = lines.split_last() else { return Err(wrong) };
    let fits = full.iter().all(|line| line.len() == LINE) && !last.is_empty() && last.len() <= LINE;
    if !fits {
        return Err(wrong);
    }
    STANDARD.decode(lines.concat()).map(Some).map_err(|_| wrong)
}
