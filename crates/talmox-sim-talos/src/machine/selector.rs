//! Which disk an installation goes to.

use super::settings::Install;
use crate::hardware::Disk;

impl Install {
    /// Whether a disk may be installed to: by its attributes if any are asked for, else by its path.
    pub(crate) fn takes(&self, disk: &Disk) -> bool {
        if !self.selector.is_empty() {
            return self.selector.iter().all(|(key, wanted)| fits(disk, key, wanted));
        }
        if let Some(expression) = &self.expression {
            return holds(disk, expression);
        }
        self.disk.as_ref().is_none_or(|path| path.trim_start_matches("/dev/") == disk.name)
    }
}

/// What a disk says of itself.
fn attribute(disk: &Disk, key: &str) -> String {
    match key {
        "name" | "dev_path" => format!("/dev/{}", disk.name),
        "model" if disk.name.starts_with('s') => "QEMU HARDDISK".to_owned(),
        "serial" => disk.serial.clone(),
        "type" | "transport" if disk.name.starts_with("nvme") => "nvme".to_owned(),
        // A virtual disk says that it turns.
        "type" => "hdd".to_owned(),
        "transport" => "virtio".to_owned(),
        // Nothing else is known of it.
        _ => String::new(),
    }
}

fn fits(disk: &Disk, key: &str, wanted: &str) -> bool {
    match key {
        "size" => has_size(disk.size, wanted),
        "type" => attribute(disk, key).eq_ignore_ascii_case(wanted),
        _ => matches(wanted, &attribute(disk, key)),
    }
}

/// A text with `*` for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(tail, &rest[at..]))
}

/// `>= 1TB`, `< 10GiB`, `4GB`.
fn has_size(size: u64, condition: &str) -> bool {
    let number = condition.trim_start_matches(['<', '>', '=', ' ']);
    let Some(bytes) = bytes(number) else { return false };
    match condition[..condition.len() - number.len()].trim() {
        "<=" => size <= bytes,
        "<" => size < bytes,
        ">=" => size >= bytes,
        ">" => size > bytes,
        "" | "=" | "==" => size == bytes,
        _ => false,
    }
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = text[digits.len()..].trim().to_lowercase();
    let (letter, binary) = match unit.trim_end_matches('b') {
        "" => return digits.parse().ok(),
        short => (short.chars().next()?, short.ends_with('i')),
    };
    let power = 1 + u32::try_from("kmgtp".find(letter)?).ok()?;
    let factor = if binary { 1024_u64 } else { 1000 }.checked_pow(power)?;
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Comparisons of texts with `&&` between. Whoever asks for more gets the first disk: CEL is not simulated.
fn holds(disk: &Disk, expression: &str) -> bool {
    expression
        .split("&&")
        .all(|part| comparison(part).is_none_or(|(key, wanted)| attribute(disk, key) == wanted))
}

/// `disk.serial == "x"`: the attribute, and what it is to be.
fn comparison(part: &str) -> Option<(&str, &str)> {
    let (left, right) = part.split_once("==")?;
    let quoted = right.trim();
    let inner = |mark: char| quoted.strip_prefix(mark)?.strip_suffix(mark);
    Some((left.trim().strip_prefix("disk.")?, inner('"').or_else(|| inner('\''))?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::hardware::{Content, DiskId};

    fn disk() -> Disk {
        Disk {
            id: DiskId(1),
            copy_of: None,
            name: "sdb".to_owned(),
            serial: "disk-7".to_owned(),
            size: 20 << 30,
            content: Content::Empty,
        }
    }

    fn install(selector: &[(&str, &str)], expression: Option<&str>, path: Option<&str>) -> Install {
        let own = |(key, wanted): &(&str, &str)| ((*key).to_owned(), (*wanted).to_owned());
        Install {
            disk: path.map(str::to_owned),
            selector: selector.iter().map(own).collect::<BTreeMap<_, _>>(),
            expression: expression.map(str::to_owned),
            image: None,
        }
    }

    #[test]
    fn a_selector_goes_before_a_path_and_all_of_it_must_fit() {
        let takes = |selector: &[(&str, &str)]| install(selector, None, Some("/dev/sda")).takes(&disk());
        assert!(!takes(&[]) && install(&[], None, Some("/dev/sdb")).takes(&disk()));
        assert!(install(&[], None, None).takes(&disk()));
        for (key, wanted, fits) in [
            ("serial", "disk-7", true),
            ("serial", "disk-8", false),
            ("serial", "*-7", true),
            ("model", "QEMU*", true),
            ("model", "WDC*", false),
            ("name", "/dev/sdb", true),
            ("type", "hdd", true),
            ("type", "nvme", false),
            ("wwid", "naa.1", false),
            ("size", ">= 20GiB", true),
            ("size", "< 20 GiB", false),
            ("size", "<= 22GB", true),
            ("size", "> 1TB", false),
            ("size", "21474836480", true),
        ] {
            assert_eq!(takes(&[(key, wanted)]), fits, "{key}: {wanted}");
        }
        assert!(!takes(&[("serial", "disk-7"), ("size", "> 1TB")]));
    }

    #[test]
    fn comparisons_in_expressions_are_made() {
        let takes = |expression: &str| install(&[], Some(expression), None).takes(&disk());
        assert!(takes("disk.dev_path == \"/dev/sdb\"") && !takes("disk.dev_path == '/dev/sda'"));
        assert!(takes("disk.serial == 'disk-7' && disk.transport == \"virtio\""));
        assert!(!takes("disk.serial == 'disk-7' && disk.model == 'x'"));
        assert!(takes("disk.size > 10u * GB"), "not simulated: the first disk will do");
    }
}
