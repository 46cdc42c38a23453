//! Sizes in bytes, with units as people write them.

const UNITS: [(&str, u64); 13] = [
    ("", 1),
    ("ki", 1 << 10),
    ("k", 1_000),
    ("mi", 1 << 20),
    ("m", 1_000_000),
    ("gi", 1 << 30),
    ("g", 1_000_000_000),
    ("ti", 1 << 40),
    ("t", 1_000_000_000_000),
    ("pi", 1 << 50),
    ("p", 1_000_000_000_000_000),
    ("ei", 1 << 60),
    ("e", 1_000_000_000_000_000_000),
];

/// `10GiB`, `1.5 TB`, `100`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are computed in floating point by Talos as well; negative ones do not parse"
)]
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(text.len());
    let number: f64 = text[..end].replace(',', "").parse().ok()?;
    let unit = text[end..].trim().to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let bytes = number * *scale as f64;
    (bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// A size in bytes or per cent; a leading dash means "all but".
pub(crate) fn is_size(text: &str, percent: bool) -> bool {
    let positive = text.strip_prefix('-').unwrap_or(text);
    match positive.strip_suffix('%') {
        Some(number) => percent && number.parse::<f64>().is_ok_and(|value| (0.0..=100.0).contains(&value)),
        None => parse_bytes(positive).is_some(),
    }
}

/// The size of a partition as Talos prints it: in decimal units where nothing is lost by that.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the printed size counts only if it reads back as the same number"
)]
pub(crate) fn disk_size(bytes: u64) -> Option<String> {
    const NAMES: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes == 0 || !bytes.is_multiple_of(1000) {
        return None;
    }
    let exponent = ((bytes as f64).ln() / 1000_f64.ln()).floor();
    let value = (bytes as f64 / 1000_f64.powf(exponent) * 10.0 + 0.5).floor() / 10.0;
    let name = NAMES.get(exponent as usize)?;
    let text = if value < 10.0 { format!("{value:.1} {name}") } else { format!("{value:.0} {name}") };
    (parse_bytes(&text) == Some(bytes)).then_some(text)
}

/// A size with a comparison before it, or none.
pub(crate) fn size_condition(text: &str) -> Option<String> {
    let text = text.trim();
    let size = [">=", "<=", "==", ">", "<"].iter().find_map(|sign| text.strip_prefix(sign)).unwrap_or(text);
    parse_bytes(size.trim()).is_some().then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        let table = [
            ("10GiB", Some(10 << 30)),
            ("1.5 TB", Some(1_500_000_000_000)),
            ("100", Some(100)),
            ("4k", Some(4000)),
            ("1,000 b", Some(1000)),
            ("", None),
            ("GiB", None),
            ("1 XB", None),
            ("99999999999EB", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn partitions_are_printed_in_decimal_units_if_exact() {
        assert_eq!(disk_size(100_000_000_000).as_deref(), Some("100 GB"));
        assert_eq!(disk_size(1_500_000_000).as_deref(), Some("1.5 GB"));
        assert_eq!(disk_size(10 << 30), None);
        assert_eq!(disk_size(0), None);
    }

    #[test]
    fn conditions_and_percentages() {
        assert_eq!(size_condition(" >= 1TB ").as_deref(), Some(">= 1TB"));
        assert_eq!(size_condition("!= 1TB"), None);
        assert!(
            is_size("50%", true)
                && !is_size("50%", false)
                && !is_size("150%", true)
                && is_size("-10GiB", true)
        );
    }
}
