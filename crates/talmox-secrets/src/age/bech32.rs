//! Bech32 (BIP 173) as age uses it: without a limit of length.

const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];

/// Text of a prefix in lower case and 32 bytes.
pub(super) fn encode(prefix: &str, bytes: &[u8]) -> String {
    let mut groups = regroup(bytes, 8, 5, true).unwrap_or_default();
    let sum = checksum(prefix, &groups, 1);
    groups.extend((0..6).map(|index| low_byte((sum >> (5 * (5 - index))) & 31)));
    let mut text = format!("{prefix}1");
    text.extend(groups.iter().map(|group| char::from(ALPHABET[usize::from(*group)])));
    text
}

/// Prefix in lower case and bytes; all of the text is in one case.
pub(super) fn decode(text: &str) -> Option<(String, Vec<u8>)> {
    let lower = text.to_ascii_lowercase();
    if lower != text && text.to_ascii_uppercase() != text {
        return None;
    }
    let (prefix, data) = lower.rsplit_once('1')?;
    let printable = prefix.bytes().all(|byte| (33..=126).contains(&byte));
    if prefix.is_empty() || !printable || data.len() < 6 {
        return None;
    }
    let group = |byte: u8| ALPHABET.iter().position(|known| *known == byte);
    let groups: Option<Vec<u8>> = data.bytes().map(|byte| u8::try_from(group(byte)?).ok()).collect();
    let groups = groups?;
    let (payload, _) = groups.split_at(groups.len() - 6);
    if polymod(expand(prefix).chain(groups.iter().copied())) != 1 {
        return None;
    }
    Some((prefix.to_owned(), regroup(payload, 5, 8, false)?))
}

fn checksum(prefix: &str, groups: &[u8], target: u32) -> u32 {
    polymod(expand(prefix).chain(groups.iter().copied()).chain([0; 6])) ^ target
}

fn expand(prefix: &str) -> impl Iterator<Item = u8> {
    prefix.bytes().map(|byte| byte >> 5).chain([0]).chain(prefix.bytes().map(|byte| byte & 31))
}

fn polymod(values: impl Iterator<Item = u8>) -> u32 {
    values.fold(1, |sum, value| {
        let top = sum >> 25;
        let shifted = ((sum & 0x01ff_ffff) << 5) ^ u32::from(value);
        GENERATOR
            .iter()
            .enumerate()
            .fold(shifted, |sum, (bit, term)| if top >> bit & 1 == 1 { sum ^ term } else { sum })
    })
}

/// Groups have eight bits at most.
fn low_byte(group: u32) -> u8 {
    group.to_le_bytes()[0]
}

fn regroup(values: &[u8], from: u32, to: u32, pad: bool) -> Option<Vec<u8>> {
    let mask = (1 << to) - 1;
    let (mut bits, mut held) = (0_u32, 0_u32);
    let mut out = Vec::new();
    for value in values {
        held = ((held << from) | u32::from(*value)) & 0xfff;
        bits += from;
        while bits >= to {
            bits -= to;
            out.push(low_byte((held >> bits) & mask));
        }
    }
    let rest = (held << (to - bits)) & mask;
    if pad {
        if bits > 0 {
            out.push(low_byte(rest));
        }
    } else if bits >= from || rest != 0 {
        return None;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        for length in [1, 20, 32, 33] {
            let bytes: Vec<u8> = (0..length).map(|n: u8| n.wrapping_mul(37)).collect();
            let text = encode("age", &bytes);
            assert_eq!(decode(&text), Some(("age".to_owned(), bytes.clone())));
            assert_eq!(decode(&text.to_uppercase()), Some(("age".to_owned(), bytes)));
        }
    }

    #[test]
    fn any_other_character_is_noticed() {
        let text = encode("age", &[7; 32]);
        for at in 4..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'q' { b'p' } else { b'q' };
            assert_eq!(decode(std::str::from_utf8(&wrong).unwrap()), None);
        }
        assert_eq!(decode("Age1qqqqqq"), None);
        assert_eq!(decode("age1"), None);
        assert_eq!(decode(""), None);
    }
}
