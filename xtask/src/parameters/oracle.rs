//! What the schema says of a request: which parameters are refused, and in which words.

use std::collections::BTreeMap;

use super::samples;
use super::schema::{Endpoint, Format, Keys, Kind, Prop};

/// A parameter as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Given {
    Text(String),
    /// A name without a value, or null.
    Null,
    /// A boolean of JSON.
    Flag(bool),
    List(Vec<String>),
    Object,
}

pub(crate) type Params = BTreeMap<String, Given>;
/// Reasons by parameter.
pub(crate) type Errors = BTreeMap<String, String>;

const MISSING: &str = "property is missing and it is not optional";
const UNKNOWN: &str = "property is not defined in schema and the schema does not allow additional properties";
/// Stands for the words of code that the schema only names.
pub(crate) const SOME_FORMAT: &str = "invalid format - …";

/// What begins the reasons the schema gives; a handler has other words.
const WORDS: [&str; 10] = [
    MISSING,
    UNKNOWN,
    "type check (",
    "value '",
    "value does not match the regex pattern",
    "value may only be ",
    "value must be at least ",
    "value must have a m",
    "invalid format - ",
    "missing property required by ",
];

/// Is the reason one of the schema's?
pub(crate) fn is_of_schema(reason: &str) -> bool {
    WORDS.iter().any(|words| reason.starts_with(words))
}

pub(crate) fn judge(endpoint: &Endpoint, params: &Params) -> Errors {
    let mut errors = Errors::new();
    for (name, prop) in &endpoint.keys {
        match params.get(name) {
            None | Some(Given::Null) if !prop.optional => add(&mut errors, name, MISSING),
            None | Some(Given::Null) => {}
            Some(given) => judge_given(prop, name, given, &mut errors),
        }
    }
    for name in params.keys() {
        match endpoint.keys.get(name) {
            Some(prop) => need_other(prop, name, "", |other| is_there(params, other), &mut errors),
            None if !endpoint.open => add(&mut errors, name, UNKNOWN),
            None => {}
        }
    }
    errors
}

fn is_there(params: &Params, name: &str) -> bool {
    params.get(name).is_some_and(|given| *given != Given::Null)
}

fn need_other(prop: &Prop, name: &str, prefix: &str, there: impl Fn(&str) -> bool, errors: &mut Errors) {
    if let Some(other) = prop.requires.as_deref().filter(|other| !there(other)) {
        let reason = format!("missing property required by '{prefix}{name}'");
        add(errors, &format!("{prefix}{other}"), &reason);
    }
}

fn add(errors: &mut Errors, name: &str, reason: &str) {
    errors.entry(name.to_owned()).or_insert_with(|| reason.to_owned());
}

fn judge_given(prop: &Prop, name: &str, given: &Given, errors: &mut Errors) {
    let mut refuse_type = |got: &str| {
        add(errors, name, &format!("type check ('{}') failed - got {got}", prop.kind.name()));
    };
    let is_list = matches!(&prop.format, Some(Format::Code(format)) if format.ends_with("-list"));
    match (prop.kind, given) {
        (Kind::Boolean, Given::Flag(_)) | (_, Given::Null) => {}
        (Kind::Array, Given::List(items)) => judge_items(prop, name, items, errors),
        (Kind::Array, Given::Text(item)) => judge_items(prop, name, std::slice::from_ref(item), errors),
        (_, Given::Flag(_)) => refuse_type("JSON::PP::Boolean"),
        (_, Given::Object) => refuse_type("HASH"),
        (Kind::Text, Given::List(items)) if is_list => judge_text(prop, name, &items.join(","), errors),
        (_, Given::List(_)) => refuse_type("ARRAY"),
        (_, Given::Text(text)) => judge_text(prop, name, text, errors),
    }
}

fn judge_items(prop: &Prop, name: &str, items: &[String], errors: &mut Errors) {
    let Some(of) = &prop.items else { return };
    for (index, item) in items.iter().enumerate() {
        judge_text(of, &format!("{name}[{index}]"), item, errors);
    }
}

fn judge_text(prop: &Prop, name: &str, text: &str, errors: &mut Errors) {
    if let Some(reason) = reason_against(prop, name, text) {
        add(errors, name, &reason);
    }
}

/// The first reason against a value: type, format, pattern, length, range, enumeration.
pub(crate) fn reason_against(prop: &Prop, name: &str, text: &str) -> Option<String> {
    if !has_type(prop.kind, text) {
        return Some(format!("type check ('{}') failed - got '{text}'", prop.kind.name()));
    }
    match &prop.format {
        Some(Format::Code(format)) if !samples::passes(format, text) => return Some(SOME_FORMAT.into()),
        Some(Format::Keys(keys)) => {
            if let Err(reason) = judge_property_string(keys, name, text) {
                return Some(format!("invalid format - {reason}"));
            }
        }
        Some(Format::Code(_)) | None => {}
    }
    if prop.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(text)) {
        return Some("value does not match the regex pattern".into());
    }
    reason_against_size(prop, text).or_else(|| {
        let unknown = !prop.values.is_empty() && !prop.values.iter().any(|value| value == text);
        let list = prop.values.join(", ");
        unknown.then(|| format!("value '{text}' does not have a value in the enumeration '{list}'"))
    })
}

fn reason_against_size(prop: &Prop, text: &str) -> Option<String> {
    let length = text.chars().count();
    if let Some(max) = prop.max_len.filter(|max| length > *max) {
        return Some(format!("value may only be {max} characters long"));
    }
    if let Some(min) = prop.min_len.filter(|min| length < *min) {
        return Some(format!("value must be at least {min} characters long"));
    }
    let number: f64 = is_number(text).then(|| text.parse().ok()).flatten()?;
    let beyond = |bound: &Option<String>, exceeds: fn(f64, f64) -> bool| {
        bound.clone().filter(|bound| bound.parse().is_ok_and(|limit| exceeds(number, limit)))
    };
    let above = beyond(&prop.max, |number, limit| number > limit);
    let below = beyond(&prop.min, |number, limit| number < limit);
    above
        .map(|max| format!("value must have a maximum value of {max}"))
        .or_else(|| below.map(|min| format!("value must have a minimum value of {min}")))
}

fn has_type(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::Boolean => text == "0" || text == "1",
        Kind::Integer => is_integer(text),
        Kind::Number => is_number(text),
        Kind::Text | Kind::Array => true,
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits with at most one point among them, and an exponent.
fn is_number(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let digits = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    is_integer(exponent)
        && all_digits(whole)
        && all_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
}

/// Takes a property string apart and judges its keys.
fn judge_property_string(keys: &Keys, name: &str, text: &str) -> Result<(), String> {
    let mut parsed: BTreeMap<String, String> = BTreeMap::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let default = || keys.iter().find(|(_, prop)| prop.default_key).map(|(key, _)| key.as_str());
        let (key, value) = match part.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => (key, value),
            Some(_) => return Err("missing key in comma-separated list property\n".into()),
            None => (default().ok_or("value without key, but schema does not define a default key\n")?, part),
        };
        put(keys, &mut parsed, key, value)?;
    }
    let mut errors = Errors::new();
    let prefix = format!("{name}.");
    for (key, prop) in keys {
        let path = format!("{prefix}{key}");
        match parsed.get(key) {
            Some(value) => judge_text(prop, &path, value, &mut errors),
            None if !prop.optional => add(&mut errors, &path, MISSING),
            None => {}
        }
    }
    for key in parsed.keys() {
        match keys.get(key) {
            Some(prop) => need_other(prop, key, &prefix, |other| parsed.contains_key(other), &mut errors),
            None => add(&mut errors, &format!("{prefix}{key}"), UNKNOWN),
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let lines = errors.iter().map(|(key, reason)| format!("{key}: {reason}\n"));
    Err(format!("format error\n{}", lines.collect::<String>()))
}

fn put(keys: &Keys, parsed: &mut BTreeMap<String, String>, key: &str, value: &str) -> Result<(), String> {
    let mut name = key;
    let mut prop = keys.get(key);
    if let Some(target) = prop.and_then(|prop| prop.alias.as_deref()) {
        if let Some(other) = prop.and_then(|prop| prop.key_alias.as_deref())
            && parsed.insert(other.to_owned(), key.to_owned()).is_some()
        {
            return Err(format!("key alias '{other}' is already defined\n"));
        }
        name = target;
        prop = keys.get(target);
    }
    let is_boolean = prop.is_some_and(|prop| prop.kind == Kind::Boolean);
    let value = match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" if is_boolean => "1",
        "0" | "off" | "no" | "false" if is_boolean => "0",
        _ => value,
    };
    match parsed.insert(name.to_owned(), value.to_owned()) {
        Some(_) => Err(format!("duplicate key in comma-separated list property: {name}\n")),
        None => Ok(()),
    }
}

/// A reason without the words of code that the schema only names.
pub(crate) fn without_code_words(reason: &str) -> String {
    let inner = |text: &str| {
        let known = ["format error", "missing key in", "value without key", "duplicate key in", "key alias"];
        known.iter().any(|words| text.starts_with(words))
    };
    let mut kept = Vec::new();
    for line in reason.split('\n') {
        match line.split_once("invalid format - ") {
            Some((front, rest)) if !inner(rest) => kept.push(format!("{front}{SOME_FORMAT}")),
            _ => kept.push(line.to_owned()),
        }
    }
    kept.retain(|line| !line.is_empty());
    kept.join("\n")
}
