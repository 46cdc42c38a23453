//! Scalars with a meaning of their own: checked, and written as Talos writes them.

mod duration;
mod network;
mod size;
mod url;

pub(crate) use duration::{canonical_duration, nanoseconds};
pub(crate) use network::{address, address_port, hardware_address, port_range, prefix};
pub(crate) use size::{disk_size, is_size, parse_bytes, size_condition};
pub(crate) use url::{Url, is_url};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::schema::Choice;

/// What Talos puts in the place of a secret when it shows a config.
pub(crate) const REDACTED: &str = "******";

/// Base64 as Talos prints it: standard alphabet, padded, on one line.
pub(crate) fn base64(text: &str) -> Option<String> {
    if text == REDACTED {
        return Some(text.to_owned());
    }
    let bare: String = text.chars().filter(|c| !['\r', '\n'].contains(c)).collect();
    STANDARD.decode(&bare).is_ok().then_some(bare)
}

/// The name as Talos writes it; any case is read.
pub(crate) fn choice(text: &str, choice: &Choice) -> Option<&'static str> {
    choice.names.iter().copied().find(|name| name.eq_ignore_ascii_case(text))
}

/// A routing table: a number up to 252, or one of the names above.
pub(crate) fn routing_table(text: &str) -> Option<String> {
    let named = ["unspec", "default", "main", "local"].contains(&text);
    let numbered = !text.starts_with(['0', '+']) && text.parse::<u8>().is_ok_and(|number| number <= 252);
    (named || numbered).then(|| text.to_owned())
}
