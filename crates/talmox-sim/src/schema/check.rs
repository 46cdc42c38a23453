//! Checks parameters against a route's table and words the errors as PVE does.

use std::collections::BTreeMap;

use super::table::{Route, format_named, vm_option};
use super::{Errors, Format, Kind, Prop, formats, properties};
use crate::wire::{Param, Params};

const MISSING: &str = "property is missing and it is not optional";
const LINE_FEED: &str = "value must not contain a line feed";
pub(crate) const UNKNOWN: &str =
    "property is not defined in schema and the schema does not allow additional properties";

/// Parameters that passed: text by name, lists apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) lists: BTreeMap<String, Vec<String>>,
}

impl Args {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("1")
    }

    pub(crate) fn int(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|text| text.parse().ok())
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.values.remove(name)
    }
}

pub(crate) fn validate(route: &Route, params: &Params) -> Result<Args, Errors> {
    let mut errors = Errors::new();
    let mut args = Args::default();
    for (name, value) in params {
        let own = route.props.get(name);
        let option = if route.takes_vm_config { vm_option(name) } else { None };
        // A configuration has one line per option; only a description is split into several.
        let one_line = option.is_some() && name != "description";
        match own.or(option) {
            Some(_) if one_line && texts(value).iter().any(|text| text.contains('\n')) => {
                add(&mut errors, name, LINE_FEED);
            }
            Some(prop) => take(prop, name, value, &mut args, &mut errors),
            None => add(&mut errors, name, UNKNOWN),
        }
    }
    for prop in route.props.values() {
        let present = |name: &str| args.values.contains_key(name) || args.lists.contains_key(name);
        if !prop.optional && !present(&prop.name) {
            add(&mut errors, &prop.name, MISSING);
        }
        if let Some(other) = prop.requires.as_deref().filter(|other| present(&prop.name) && !present(other)) {
            add(&mut errors, other, &format!("missing property required by '{}'", prop.name));
        }
    }
    if errors.is_empty() { Ok(args) } else { Err(errors) }
}

/// Checks the value of a VM's option and prints it in normal form.
pub(crate) fn normal_form(option: &str, value: &str) -> Result<String, String> {
    let prop = vm_option(option).ok_or_else(|| UNKNOWN.to_owned())?;
    check_scalar(prop, option, value)?;
    let name = prop.properties.as_deref();
    Ok(name
        .map_or_else(|| value.to_owned(), |name| properties::print(name, &properties::parse_as(name, value))))
}

fn add(errors: &mut Errors, name: &str, reason: &str) {
    errors.entry(name.to_owned()).or_insert_with(|| reason.to_owned());
}

fn take(prop: &Prop, name: &str, value: &Param, args: &mut Args, errors: &mut Errors) {
    match (prop.kind, value) {
        (_, Param::Null) => {}
        (Kind::List, value) => {
            let items = texts(value);
            for item in &items {
                if let Err(reason) = check_item(prop, name, item) {
                    add(errors, name, &reason);
                }
            }
            args.lists.insert(name.to_owned(), items);
        }
        (Kind::Bool, Param::Flag(flag)) => {
            args.values.insert(name.to_owned(), if *flag { "1" } else { "0" }.to_owned());
        }
        (kind, Param::Flag(_)) => {
            add(errors, name, &format!("type check ('{}') failed - got JSON::PP::Boolean", kind.name()));
        }
        (kind, Param::Object) => {
            add(errors, name, &format!("type check ('{}') failed - got HASH", kind.name()));
        }
        (Kind::Text, Param::List(_))
            if prop.format.as_deref().is_some_and(|name| name.ends_with("-list")) =>
        {
            accept(prop, name, &texts(value).join(","), args, errors);
        }
        (kind, Param::List(_)) => {
            add(errors, name, &format!("type check ('{}') failed - got ARRAY", kind.name()));
        }
        (_, Param::Text(text)) => accept(prop, name, text, args, errors),
    }
}

fn texts(value: &Param) -> Vec<String> {
    match value {
        Param::Text(text) => vec![text.clone()],
        Param::List(items) => items.iter().flat_map(texts).collect(),
        Param::Flag(flag) => vec![u8::from(*flag).to_string()],
        Param::Object | Param::Null => Vec::new(),
    }
}

fn check_item(prop: &Prop, name: &str, item: &str) -> Result<(), String> {
    match prop.items.as_deref().and_then(format_named) {
        Some(format) => {
            properties::parse(format, item, name).map(drop).map_err(|text| format!("invalid format - {text}"))
        }
        None => Ok(()),
    }
}

fn accept(prop: &Prop, name: &str, text: &str, args: &mut Args, errors: &mut Errors) {
    match check_scalar(prop, name, text) {
        Ok(()) => {
            args.values.insert(name.to_owned(), text.to_owned());
        }
        Err(reason) => add(errors, name, &reason),
    }
}

/// Checks one value: type, format, pattern, length, range, enumeration, in the server's order.
pub(super) fn check_scalar(prop: &Prop, path: &str, text: &str) -> Result<(), String> {
    if !has_type(prop.kind, text) {
        return Err(format!("type check ('{}') failed - got '{text}'", prop.kind.name()));
    }
    if let Some(format) = prop.properties.as_deref().and_then(format_named) {
        check_properties(format, prop, path, text)?;
    }
    if let Some(format) = &prop.format {
        formats::check(format, text).map_err(|reason| format!("invalid format - {reason}"))?;
    }
    if prop.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(text)) {
        return Err("value does not match the regex pattern".into());
    }
    check_length(prop, text)?;
    check_range(prop, text)?;
    if !prop.values.is_empty() && !prop.values.iter().any(|value| value == text) {
        return Err(format!(
            "value '{text}' does not have a value in the enumeration '{}'",
            prop.values.join(", ")
        ));
    }
    Ok(())
}

fn check_properties(format: &Format, prop: &Prop, path: &str, text: &str) -> Result<(), String> {
    let wrap = |reason: String| format!("invalid format - {reason}");
    let parsed = properties::parse(format, text, path).map_err(wrap)?;
    if prop.properties.as_deref() == Some("vm-cpu-conf") {
        formats::check_cpu(&parsed).map_err(wrap)?;
    }
    Ok(())
}

fn check_length(prop: &Prop, text: &str) -> Result<(), String> {
    let length = text.chars().count();
    if let Some(max) = prop.max_len.filter(|max| length > *max) {
        return Err(format!("value may only be {max} characters long"));
    }
    if let Some(min) = prop.min_len.filter(|min| length < *min) {
        return Err(format!("value must be at least {min} characters long"));
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "the bounds of the tables are far below 2^53")]
fn check_range(prop: &Prop, text: &str) -> Result<(), String> {
    let Ok(number) = text.parse::<f64>() else { return Ok(()) };
    if let Some(max) = prop.max.filter(|max| number > *max as f64) {
        return Err(format!("value must have a maximum value of {max}"));
    }
    if let Some(min) = prop.min.filter(|min| number < *min as f64) {
        return Err(format!("value must have a minimum value of {min}"));
    }
    Ok(())
}

fn has_type(kind: Kind, text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    match kind {
        Kind::Bool => matches!(text, "0" | "1"),
        Kind::Int => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        Kind::Number => {
            digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
                && text.parse::<f64>().is_ok()
        }
        Kind::Text | Kind::List => true,
    }
}

/// Checks the keys of a property string that has been split.
pub(super) fn check_object(format: &Format, parsed: &BTreeMap<String, String>, path: &str) -> Errors {
    let mut errors = Errors::new();
    let full = |name: &str| format!("{path}.{name}");
    for (name, value) in parsed {
        match format.props.get(name) {
            None => add(&mut errors, &full(name), UNKNOWN),
            Some(prop) => {
                if let Err(reason) = check_scalar(prop, &full(name), value) {
                    add(&mut errors, &full(name), &reason);
                }
            }
        }
    }
    for prop in format.props.values() {
        let present = parsed.contains_key(&prop.name);
        if !prop.optional && !present {
            add(&mut errors, &full(&prop.name), MISSING);
        }
        if let Some(other) = prop.requires.as_deref().filter(|other| present && !parsed.contains_key(*other))
        {
            add(&mut errors, &full(other), &format!("missing property required by '{}'", full(&prop.name)));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::route_for;

    fn errors(params: &[(&str, &str)]) -> Errors {
        let (route, _) = route_for("POST", "/nodes/n/qemu").unwrap();
        let mut all: Params =
            params.iter().map(|(key, value)| ((*key).to_owned(), Param::text(*value))).collect();
        all.insert("node".into(), Param::text("n"));
        validate(route, &all).err().unwrap_or_default()
    }

    #[test]
    fn wrong_values_are_told_in_the_servers_words() {
        for (key, value, reason) in [
            ("cores", "abc", "type check ('integer') failed - got 'abc'"),
            ("cores", "0", "value must have a minimum value of 1"),
            ("onboot", "true", "type check ('boolean') failed - got 'true'"),
            ("bios", "efi", "value 'efi' does not have a value in the enumeration 'seabios, ovmf'"),
            ("vmid", "99", "invalid format - value does not look like a valid VM ID\n"),
            ("net99", "virtio", UNKNOWN),
            (
                "net0",
                "virtio,tag=5000",
                "invalid format - format error\nnet0.tag: value must have a maximum value of 4094\n",
            ),
            (
                "agent",
                "enabled=2",
                "invalid format - format error\nagent.enabled: type check ('boolean') failed - got '2'\n",
            ),
            (
                "ipconfig0",
                "gw=10.0.0.1",
                "invalid format - format error\nipconfig0.ip: missing property required by 'ipconfig0.gw'\n",
            ),
            ("name", "a\nb", LINE_FEED),
            ("args", "-s\nonboot: 1", LINE_FEED),
            ("net0", "virtio\n", LINE_FEED),
            ("unique", "1", "missing property required by 'unique'"),
        ] {
            let found = errors(&[("vmid", "100"), (key, value)]);
            let place = if key == "unique" { "archive" } else { key };
            assert_eq!(found.get(place).map(String::as_str), Some(reason), "{key}={value}");
        }
        assert_eq!(errors(&[])["vmid"], MISSING);
        assert!(errors(&[("vmid", "100"), ("description", "a\nb")]).is_empty());
    }

    #[test]
    fn booleans_of_a_property_string_may_be_words() {
        assert!(errors(&[("vmid", "100"), ("agent", "yes"), ("scsi0", "st:1,backup=off")]).is_empty());
    }

    #[test]
    fn a_json_boolean_is_no_text() {
        let (route, _) = route_for("POST", "/nodes/n/qemu").unwrap();
        let params = Params::from([
            ("node".into(), Param::text("n")),
            ("vmid".into(), Param::text("100")),
            ("agent".into(), Param::Flag(false)),
            ("onboot".into(), Param::Flag(true)),
        ]);
        let found = validate(route, &params).unwrap_err();
        assert_eq!(found["agent"], "type check ('string') failed - got JSON::PP::Boolean");
        assert_eq!(found.len(), 1);
    }
}
