//! The header: who can read, and that nobody changed that.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::wrap::header_key;
use super::{DecryptError, FileKey};

const VERSION: &str = "age-encryption.org/v1";
/// Characters of a full line of a stanza's body.
const LINE: usize = 64;
/// More than any file has; it keeps a wrong file from filling the memory.
const MAX_HEADER: usize = 1 << 20;

/// One recipient's part.
pub(super) struct Stanza {
    pub(super) arguments: Vec<String>,
    pub(super) body: Vec<u8>,
}

pub(super) struct Header {
    pub(super) stanzas: Vec<Stanza>,
    /// All that is authenticated: up to `---`.
    text: Vec<u8>,
    mac: Vec<u8>,
}

impl Header {
    pub(super) fn new(stanzas: Vec<Stanza>) -> Self {
        let mut text = format!("{VERSION}\n");
        for stanza in &stanzas {
            text.push_str(&format!("-> {}\n", stanza.arguments.join(" ")));
            let body = STANDARD_NO_PAD.encode(&stanza.body);
            let mut rest = body.as_str();
            while rest.len() >= LINE {
                let (line, more) = rest.split_at(LINE);
                text.push_str(&format!("{line}\n"));
                rest = more;
            }
            text.push_str(&format!("{rest}\n"));
        }
        text.push_str("---");
        Self { stanzas, text: text.into_bytes(), mac: Vec::new() }
    }

    /// The header's bytes with their authentication.
    pub(super) fn sealed(mut self, file_key: &FileKey) -> Vec<u8> {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &header_key(file_key)[..]), &self.text);
        self.text.extend_from_slice(format!(" {}\n", STANDARD_NO_PAD.encode(tag.as_ref())).as_bytes());
        self.text
    }

    pub(super) fn is_authentic(&self, file_key: &FileKey) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &header_key(file_key)[..]);
        hmac::verify(&key, &self.text, &self.mac).is_ok()
    }

    /// The header and what follows it.
    pub(super) fn parse(file: &[u8]) -> Result<(Self, &[u8]), DecryptError> {
        let mut lines = Lines { file, at: 0 };
        if lines.next()? != VERSION {
            return Err(DecryptError::Format("it does not begin with age-encryption.org/v1"));
        }
        let mut stanzas = Vec::new();
        loop {
            let begin = lines.at;
            let line = lines.next()?;
            if let Some(mac) = line.strip_prefix("--- ") {
                let mac =
                    STANDARD_NO_PAD.decode(mac).map_err(|_| DecryptError::Format("its header's MAC"))?;
                let text = file[..begin + 3].to_vec();
                return Ok((Self { stanzas, text, mac }, &file[lines.at..]));
            }
            let arguments = line.strip_prefix("-> ").ok_or(DecryptError::Format("its header"))?;
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            if arguments.iter().any(String::is_empty) {
                return Err(DecryptError::Format("a recipient of its header"));
            }
            stanzas.push(Stanza { arguments, body: body(&mut lines)? });
        }
    }
}

/// Full lines, and a last one that is shorter, if only by being empty.
fn body(lines: &mut Lines<'_>) -> Result<Vec<u8>, DecryptError> {
    let mut text = String::new();
    loop {
        let line = lines.next()?;
        if line.len() > LINE {
            return Err(DecryptError::Format("a recipient of its header"));
        }
        text.push_str(line);
        if line.len() < LINE {
            break;
        }
    }
    STANDARD_NO_PAD.decode(text).map_err(|_| DecryptError::Format("a recipient of its header"))
}

struct Lines<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Result<&'a str, DecryptError> {
        let rest = &self.file[self.at..];
        let end = rest.iter().take(MAX_HEADER).position(|byte| *byte == b'\n');
        let end =
            end.filter(|_| self.at < MAX_HEADER).ok_or(DecryptError::Format("its header has no end"))?;
        self.at += end + 1;
        let line = std::str::from_utf8(&rest[..end]).ok().filter(|line| line.is_ascii());
        line.ok_or(DecryptError::Format("its header is no text"))
    }
}
