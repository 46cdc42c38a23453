//! A schematic as the factory understands it, and the text it is known by.
//!
//! This is the simulator's own reading and printing; nothing of it comes from those who compute ids on the other side.

use std::sync::LazyLock;

use regex_lite::Regex;
use sha2::{Digest as _, Sha256};

use super::yaml::{self, Yaml};
use crate::files::hex;

/// A schematic that was accepted.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) id: String,
    /// The canonical text.
    pub(super) text: String,
}

/// The extensions a canonical text names.
pub(super) fn extensions(text: &str) -> Vec<String> {
    let at = |yaml: &Yaml, key: &str| match yaml {
        Yaml::Map(entries) => entries.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone()),
        Yaml::List(_) | Yaml::Scalar { .. } => None,
    };
    let found = yaml::read(text)
        .ok()
        .and_then(|root| at(&at(&at(&root, "customization")?, "systemExtensions")?, "officialExtensions"));
    let Some(Yaml::List(items)) = found else { return Vec::new() };
    let text = |item| if let Yaml::Scalar { text, .. } = item { Some(text) } else { None };
    items.into_iter().filter_map(text).collect()
}

/// Reads what was sent. The error is what the factory answers.
pub(super) fn accept(sent: &str) -> Result<Accepted, String> {
    let root = yaml::read(sent).map_err(|reason| format!("yaml: {reason}"))?;
    let mut out = String::new();
    let root = fields(&root, "schematic.Schematic", &["owner", "overlay", "customization"])?;
    if let Some(owner) = text_of(root[0])?.filter(|owner| !owner.is_empty()) {
        line(&mut out, 0, "owner", &scalar(&owner, 4));
    }
    overlay(&mut out, root[1])?;
    let mut inner = String::new();
    if let Some(customization) = root[2] {
        self::customization(&mut inner, customization)?;
    }
    if inner.is_empty() {
        out.push_str("customization: {}\n");
    } else {
        out.push_str("customization:\n");
        out.push_str(&inner);
    }
    Ok(Accepted { id: hex(&Sha256::digest(out.as_bytes())), text: out })
}

fn customization(out: &mut String, node: &Yaml) -> Result<(), String> {
    let keys = [
        "embeddedMachineConfiguration",
        "extraKernelArgs",
        "meta",
        "systemExtensions",
        "bootloader",
        "secureboot",
        "diskImage",
    ];
    let found = fields(node, "schematic.Customization", &keys)?;
    if let Some(text) = text_of(found[0])?.filter(|text| !text.is_empty()) {
        line(out, 4, keys[0], &scalar(&text, 8));
    }
    texts(out, 4, keys[1], found[1])?;
    meta(out, found[2])?;
    if let Some(node) = found[3] {
        let mut inner = String::new();
        texts(
            &mut inner,
            8,
            "officialExtensions",
            fields(node, "schematic.SystemExtensions", &["officialExtensions"])?[0],
        )?;
        section(out, keys[3], &inner);
    }
    if let Some(word) = word(found[4], keys[4], &["dual-boot", "sd-boot", "grub"])? {
        line(out, 4, keys[4], &scalar(&word, 8));
    }
    if let Some(node) = found[5] {
        let [enroll, certificates] = ["enrollKeys", "includeWellKnownCertificates"];
        let parts = fields(node, "schematic.SecureBootCustomization", &[enroll, certificates])?;
        let mut inner = String::new();
        if let Some(word) = word(parts[0], enroll, &["off", "manual", "if-safe", "force"])? {
            line(&mut inner, 8, enroll, &scalar(&word, 12));
        }
        if flag(parts[1])? {
            line(&mut inner, 8, certificates, "true");
        }
        section(out, keys[5], &inner);
    }
    if let Some(node) = found[6] {
        let size = fields(node, "schematic.DiskImage", &["sectorSize"])?[0].map(number).transpose()?;
        let mut inner = String::new();
        if let Some(size) = size.filter(|size| *size > 0) {
            line(&mut inner, 8, "sectorSize", &size.to_string());
        }
        section(out, keys[6], &inner);
    }
    Ok(())
}

fn overlay(out: &mut String, node: Option<&Yaml>) -> Result<(), String> {
    let Some(node) = node else { return Ok(()) };
    let parts = fields(node, "schematic.Overlay", &["image", "name", "options"])?;
    let (image, name) = (text_of(parts[0])?.unwrap_or_default(), text_of(parts[1])?.unwrap_or_default());
    let options = match parts[2] {
        Some(Yaml::Map(entries)) if !entries.is_empty() => Some(entries),
        Some(Yaml::Map(_)) | None => None,
        Some(_) => return Err("yaml: cannot unmarshal into map[string]interface {}".to_owned()),
    };
    if image.is_empty() && name.is_empty() && options.is_none() {
        return Ok(());
    }
    out.push_str("overlay:\n");
    line(out, 4, "image", &scalar(&image, 8));
    line(out, 4, "name", &scalar(&name, 8));
    let Some(entries) = options else { return Ok(()) };
    out.push_str("    options:\n");
    let mut entries = entries.clone();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (key, value) in entries {
        let Yaml::Scalar { text, quoted } = value else {
            return Err("options of overlays are simulated as far as they are flat".to_owned());
        };
        let printed = if quoted { scalar(&text, 12) } else { text };
        line(out, 8, &scalar(&key, 12), &printed);
    }
    Ok(())
}

fn meta(out: &mut String, node: Option<&Yaml>) -> Result<(), String> {
    let items = list(node)?;
    if items.is_empty() {
        return Ok(());
    }
    out.push_str("    meta:\n");
    for item in items {
        let parts = fields(item, "schematic.MetaValue", &["key", "value"])?;
        let key = parts[0].map(number).transpose()?.unwrap_or_default();
        if key > 255 {
            return Err(format!("yaml: cannot unmarshal !!int `{key}` into uint8"));
        }
        out.push_str(&format!("        - key: {key}\n"));
        line(out, 10, "value", &scalar(&text_of(parts[1])?.unwrap_or_default(), 12));
    }
    Ok(())
}

/// The values of known keys, in the order asked for; null counts as absent, an unknown key is an error.
fn fields<'y>(node: &'y Yaml, kind: &str, keys: &[&str]) -> Result<Vec<Option<&'y Yaml>>, String> {
    let entries = match node {
        Yaml::Map(entries) => entries.as_slice(),
        node if node.is_null() => &[],
        Yaml::List(_) | Yaml::Scalar { .. } => return Err(format!("yaml: cannot unmarshal into {kind}")),
    };
    if let Some((unknown, _)) = entries.iter().find(|(key, _)| !keys.contains(&key.as_str())) {
        return Err(format!("yaml: unmarshal errors:\n  field {unknown} not found in type {kind}"));
    }
    let value = |key: &&str| {
        entries
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    };
    Ok(keys.iter().map(value).collect())
}

fn list(node: Option<&Yaml>) -> Result<&[Yaml], String> {
    match node {
        None => Ok(&[]),
        Some(Yaml::List(items)) => Ok(items),
        Some(Yaml::Map(_) | Yaml::Scalar { .. }) => Err("yaml: cannot unmarshal into a list".to_owned()),
    }
}

fn text_of(node: Option<&Yaml>) -> Result<Option<String>, String> {
    match node {
        None => Ok(None),
        Some(Yaml::Scalar { text, .. }) => Ok(Some(text.clone())),
        Some(Yaml::Map(_) | Yaml::List(_)) => Err("yaml: cannot unmarshal into string".to_owned()),
    }
}

fn texts(out: &mut String, indent: usize, key: &str, node: Option<&Yaml>) -> Result<(), String> {
    let items = list(node)?;
    if items.is_empty() {
        return Ok(());
    }
    let blanks = " ".repeat(indent);
    out.push_str(&format!("{blanks}{key}:\n"));
    for item in items {
        let text = text_of(Some(item).filter(|item| !item.is_null()))?.unwrap_or_default();
        push(out, &format!("{blanks}    - {}", scalar(&text, indent + 6)));
    }
    Ok(())
}

fn number(node: &Yaml) -> Result<u32, String> {
    let Yaml::Scalar { text, quoted: false } = node else {
        return Err("yaml: cannot unmarshal into a number".to_owned());
    };
    let text = text.replace('_', "");
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("yaml: cannot unmarshal {text:?} into a number"))
}

fn flag(node: Option<&Yaml>) -> Result<bool, String> {
    match text_of(node)?.as_deref() {
        None | Some("false" | "no" | "off") => Ok(false),
        Some("true" | "yes" | "on") => Ok(true),
        Some(other) => Err(format!("yaml: cannot unmarshal {other:?} into bool")),
    }
}

fn word(node: Option<&Yaml>, what: &str, words: &[&str]) -> Result<Option<String>, String> {
    let Some(text) = text_of(node)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    if words.contains(&text.as_str()) { Ok(Some(text)) } else { Err(format!("invalid {what}: {text:?}")) }
}

fn section(out: &mut String, key: &str, inner: &str) {
    if !inner.is_empty() {
        out.push_str(&format!("    {key}:\n{inner}"));
    }
}

fn line(out: &mut String, indent: usize, key: &str, value: &str) {
    push(out, &format!("{}{key}: {value}", " ".repeat(indent)));
}

/// A block brings its last line break along.
fn push(out: &mut String, text: &str) {
    out.push_str(text);
    if !text.ends_with('\n') {
        out.push('\n');
    }
}

/// Text that a reader without quotes would take for a number, a truth or nothing.
static NO_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    let word = "|~|null|Null|NULL|true|True|TRUE|false|False|FALSE|y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF|<<";
    let limits = r"\.nan|\.NaN|\.NAN|[-+]?\.inf|[-+]?\.Inf|[-+]?\.INF";
    let whole = "[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|[0-9]+)";
    let fraction = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,2})?";
    let sixty = r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?";
    Regex::new(&format!("^({word}|{limits}|{whole}|{fraction}|{sixty})$")).expect("a pattern that is right")
});

/// A date, with or without a time of day; whether there is such a day the pattern does not say.
static DATE: LazyLock<Regex> = LazyLock::new(|| {
    let time = "([01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9]([.,][0-9]+)?";
    let zone = "(Z|[-+]([01][0-9]|2[0-4]):([0-5][0-9]|60))";
    Regex::new(&format!("^([0-9]{{4}})-([0-9]{{1,2}})-([0-9]{{1,2}})(| +{time}|[Tt]{time}{zone})$"))
        .expect("a pattern that is right")
});

/// Whether the text names a day of the calendar: 30 February is plain text.
fn is_date(text: &str) -> bool {
    let Some(found) = DATE.captures(text) else { return false };
    let number = |group: usize| found[group].parse::<u32>().unwrap_or_default();
    let (year, month, day) = (number(1), number(2), number(3));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = [31, 28 + u32::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let last = month.checked_sub(1).and_then(|index| days.get(index as usize));
    last.is_some_and(|last| (1..=*last).contains(&day))
}

/// Text that begins or looks like something else than plain text.
static INDICATORS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^([#,\[\]{}&*!|>'"%@`]|[?-]( |$)|---|\.\.\.| )|:( |$)| #| $"#)
        .expect("a pattern that is right")
});

fn scalar(text: &str, indent: usize) -> String {
    let odd = |c: char| {
        c != '\n' && (c.is_control() || u32::from(c) > 0xfffd || "\u{feff}\u{2028}\u{2029}".contains(c))
    };
    let tabbed = text.contains('\t');
    let unprintable = text.chars().any(|c| c != '\t' && odd(c));
    if text.contains('\n') {
        let ragged = text.contains(" \n") || text.ends_with(' ') || text.trim().is_empty();
        if ragged || unprintable {
            return double(text);
        }
        return block(text, indent);
    }
    // Where a number may hold `_`, it is the number without.
    let bare = text.replace('_', "");
    let digits = text.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c));
    let taken_for_more = NO_TEXT.is_match(text) || (digits && NO_TEXT.is_match(&bare)) || is_date(text);
    if unprintable || tabbed || taken_for_more {
        return double(text);
    }
    if INDICATORS.is_match(text) { format!("'{}'", text.replace('\'', "''")) } else { text.to_owned() }
}

fn block(text: &str, indent: usize) -> String {
    let depth = if text.starts_with(' ') { "4" } else { "" };
    let end = if text.ends_with("\n\n") || text == "\n" {
        "+"
    } else if text.ends_with('\n') {
        ""
    } else {
        "-"
    };
    let blanks = " ".repeat(indent);
    let lines = text
        .split_inclusive('\n')
        .map(|line| if line == "\n" { line.to_owned() } else { format!("{blanks}{line}") });
    format!("|{depth}{end}\n{}", lines.collect::<String>())
}

fn double(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{1b}' => out.push_str("\\e"),
            '\0' => out.push_str("\\0"),
            '\u{85}' => out.push_str("\\N"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            '\u{feff}' => out.push_str("\\uFEFF"),
            ' '..='~' | '\u{a0}'..='\u{fffd}' => out.push(c),
            _ if u32::from(c) <= 0xff => out.push_str(&format!("\\x{:02X}", u32::from(c))),
            _ if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            _ => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_nobody_has_is_text() {
        let quoted = |text: &str| scalar(text, 0).starts_with('"');
        for day in ["2026-8-1", "2024-02-29", "2000-2-29", "2026-08-01T1:02:3.5Z", "2026-08-01 10:00:00"] {
            assert!(quoted(day), "{day}");
        }
        for text in
            ["1900-2-30", "1900-02-29", "2026-0-1", "2026-13-01", "2026-06-31", "2026-08-01T1:02:3+25:00"]
        {
            assert!(!quoted(text), "{text}");
        }
    }

    #[test]
    fn known_schematics_have_their_known_ids() {
        let table = [
            ("customization: {}", "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"),
            (
                "customization: {systemExtensions: {officialExtensions: [siderolabs/qemu-guest-agent]}}",
                "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515",
            ),
            (
                "customization:\n  systemExtensions:\n    officialExtensions:\n    - siderolabs/qemu-guest-agent\n  extraKernelArgs:\n    - console=ttyS0,115200\n",
                "b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea",
            ),
            (
                r#"{"customization": {"systemExtensions": {"officialExtensions": ["siderolabs/nfsrahead", "siderolabs/qemu-guest-agent"]}}}"#,
                "29d123fd0e746fccd5ff52d37c0cdbd2d653e10ae29c39276b6edb9ffbd56cf4",
            ),
            (
                "customization: {meta: [{key: 0xa, value: foo}]}",
                "d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f",
            ),
            (
                "customization: {secureboot: {includeWellKnownCertificates: true}}",
                "fa8e05f142a851d3ee568eb0a8e5841eaf6b0ebc8df9a63df16ac5ed2c04f3e6",
            ),
            (
                "customization: {diskImage: {sectorSize: 4096}}",
                "92833e9ddd9bb9e11b2464fa5525429f01866306d52ebd882ee08d7918f6d1ea",
            ),
            (
                "overlay:\n  image: siderolabs/sbc-raspberrypi\n  name: rpi_generic\n",
                "ee21ef4a5ef808a9b7484cc0dda0f25075021691c8c09a276591eedb638ea1f9",
            ),
        ];
        for (sent, id) in table {
            let accepted = accept(sent).unwrap();
            assert_eq!(accepted.id, id, "{}", accepted.text);
        }
    }

    #[test]
    fn what_the_factory_refuses_is_refused() {
        for bad in [
            "customisation: {}",
            "customization: []",
            "customization: {extraKernelArgs: quiet}",
            "customization: {bootloader: auto}",
            "customization: {meta: [{key: 256, value: x}]}",
            "customization: {secureboot: {enrollKeys: never}}",
            "",
        ] {
            assert!(accept(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn extensions_are_found_in_the_text() {
        let accepted = accept("customization: {systemExtensions: {officialExtensions: [b, a]}}").unwrap();
        assert_eq!(extensions(&accepted.text), ["b", "a"]);
        assert!(extensions("customization: {}\n").is_empty());
    }
}
