//! Requests to try on an endpoint: each parameter good, at its limits, beyond them, of another type, missing, unknown, and
//! with or without what it requires.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::oracle::{Given, Params, reason_against};
use super::samples;
use super::schema::{Endpoint, Format, Keys, Kind, Prop};

/// How parameters are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// In the query of reads and removals, else as a form.
    Form,
    Json,
}

pub(crate) struct Case {
    pub(crate) params: Params,
    pub(crate) encoding: Encoding,
}

/// Names of things that are there, by the parameter that asks for them.
const THERE: [(&str, &str); 6] = [
    ("node", "pve1"),
    ("vmid", "100"),
    ("newid", "200"),
    ("volume", "local:iso/x.iso"),
    ("upid", "UPID:pve1:00000001:00000001:00000001:qmstart:100:root@pam:"),
    ("size", "1G"),
];

const INTEGERS: [&str; 13] =
    ["1", "0", "-1", "+5", "007", "1.5", "abc", "", " 5", "5 ", "1e3", "0x10", "99999999999999999999"];
const NUMBERS: [&str; 14] =
    ["1", "0", "1.5", ".5", "1.", "-0.1", "1e3", "1e-3", "abc", "", "nan", "inf", "1,5", "0x10"];
const BOOLEANS: [&str; 9] = ["1", "0", "2", "true", "on", "", "01", "-1", "yes"];
/// Booleans of a property string may be words.
const WORDS: [&str; 9] = ["1", "0", "on", "No", "TRUE", "false", "2", "maybe", "y"];
/// How many values of an enumeration are tried.
const FEW: usize = 6;

pub(crate) fn cases(endpoint: &Endpoint) -> Vec<Case> {
    let base = base(endpoint);
    let mut cases = vec![form(base.clone())];
    // The members of a family share one schema, and with it the values to try.
    let mut tried: BTreeMap<*const Prop, Vec<String>> = BTreeMap::new();
    let mut wrong: Vec<(&String, String)> = Vec::new();
    for (name, prop) in &endpoint.keys {
        let is_kind = endpoint.variant.as_ref().is_some_and(|(key, _)| key == name);
        if endpoint.proxied_by.as_ref() == Some(name) || is_kind {
            continue;
        }
        let known = tried.get(&Rc::as_ptr(prop)).cloned();
        let is_first = known.is_none();
        let values = known.unwrap_or_else(|| texts_for(prop));
        if is_first {
            tried.insert(Rc::as_ptr(prop), one_of_each(prop, name, values.clone()));
        }
        let keeps = prop.kind != Kind::Array && prop.requires.is_none() && !is_path_variable(endpoint, name);
        let bad = values.iter().find(|text| !text.is_empty() && !is_good(prop, name, text));
        wrong.extend(bad.filter(|_| keeps).map(|bad| (name, bad.clone())));
        cases.extend(values.iter().flat_map(|value| with_value(endpoint, &base, name, prop, value)));
        if is_first && !is_path_variable(endpoint, name) {
            cases.extend(other_types(endpoint, &base, name, prop));
        }
    }
    cases.extend(lacking(endpoint, &base));
    cases.extend(unknown(endpoint, &base));
    cases.extend(two_at_once(&base, &wrong));
    cases
}

/// Parameters without which nothing goes.
fn base(endpoint: &Endpoint) -> Params {
    let mut params: Params = endpoint
        .keys
        .iter()
        .filter(|(name, prop)| !prop.optional || is_path_variable(endpoint, name))
        .map(|(name, prop)| (name.clone(), good_value(prop, name)))
        .collect();
    if let Some((key, kind)) = &endpoint.variant {
        params.insert(key.clone(), Given::Text(kind.clone()));
    }
    params
}

pub(crate) fn is_path_variable(endpoint: &Endpoint, name: &str) -> bool {
    endpoint.path.contains(&format!("{{{name}}}"))
}

fn good_value(prop: &Prop, name: &str) -> Given {
    let text = good_text(prop, name);
    if prop.kind == Kind::Array { Given::List(vec![text]) } else { Given::Text(text) }
}

/// A value the schema takes; empty if none is known.
pub(crate) fn good_text(prop: &Prop, name: &str) -> String {
    let there = THERE.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    there.into_iter().chain(texts_for(prop)).find(|text| is_good(prop, name, text)).unwrap_or_default()
}

fn is_good(prop: &Prop, name: &str, text: &str) -> bool {
    reason_against(prop.items.as_deref().unwrap_or(prop), name, text).is_none()
}

/// One good value and a bad one.
fn one_of_each(prop: &Prop, name: &str, values: Vec<String>) -> Vec<String> {
    let (good, bad): (Vec<String>, Vec<String>) =
        values.into_iter().partition(|value| is_good(prop, name, value));
    good.into_iter().take(1).chain(bad.into_iter().take(1)).collect()
}

fn texts_for(prop: &Prop) -> Vec<String> {
    let prop = prop.items.as_deref().unwrap_or(prop);
    let mut texts: Vec<String> = match (&prop.format, prop.kind) {
        (Some(Format::Keys(keys)), _) => property_strings(keys),
        (Some(Format::Code(format)), _) => samples::values(format),
        (None, _) if !prop.values.is_empty() => Vec::new(),
        (None, Kind::Boolean) => owned(&BOOLEANS),
        (None, Kind::Integer) => owned(&INTEGERS),
        (None, Kind::Number) => owned(&NUMBERS),
        (None, Kind::Text | Kind::Array) => owned(samples::TEXTS),
    };
    if matches!(prop.kind, Kind::Integer) && prop.format.is_some() {
        texts.extend(owned(&["abc", "1.5", ""]));
    }
    texts.extend(enumerated(prop));
    texts.extend(at_bounds(prop));
    texts.extend(of_length(prop));
    let mut seen = BTreeSet::new();
    texts.retain(|text| seen.insert(text.clone()));
    texts
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn enumerated(prop: &Prop) -> Vec<String> {
    let Some(first) = prop.values.first() else { return Vec::new() };
    let stride = prop.values.len().div_ceil(FEW).max(1);
    let mut texts: Vec<String> = prop.values.iter().step_by(stride).cloned().collect();
    texts.extend(prop.values.last().cloned());
    texts.extend([
        first.to_uppercase(),
        format!("{first}x"),
        format!("{first},"),
        "nope".into(),
        String::new(),
    ]);
    if let Some(Format::Code(_)) = prop.format {
        texts.retain(|text| prop.values.contains(text));
    }
    texts
}

/// The bounds, and what is just beyond them.
fn at_bounds(prop: &Prop) -> Vec<String> {
    // A format of its own looks at the value before the bounds are looked at.
    if prop.format.is_some() {
        return Vec::new();
    }
    let near = |bound: &Option<String>, step: i64| -> Vec<String> {
        let Some(number) = bound.as_ref().and_then(|bound| bound.parse::<i64>().ok()) else {
            return Vec::new();
        };
        vec![number.to_string(), (number + step).to_string()]
    };
    near(&prop.min, -1).into_iter().chain(near(&prop.max, 1)).collect()
}

fn of_length(prop: &Prop) -> Vec<String> {
    let start = match &prop.format {
        None if prop.pattern.is_none() && prop.values.is_empty() && prop.kind == Kind::Text => String::new(),
        Some(Format::Code(format)) if samples::can_grow(format) => {
            samples::values(format).into_iter().next().unwrap_or_default()
        }
        None | Some(_) => return Vec::new(),
    };
    let grown = |length: usize| format!("{}{start}", "a".repeat(length.saturating_sub(start.len())));
    let longest = prop.max_len.into_iter().flat_map(|max| [max, max + 1]);
    let shortest = prop.min_len.into_iter().flat_map(|min| [min, min.saturating_sub(1)]);
    longest.chain(shortest).map(grown).filter(|text| text.len() > start.len() || start.is_empty()).collect()
}

/// Property strings: the shortest good one, then each key with each of its values, then broken ones.
fn property_strings(keys: &Keys) -> Vec<String> {
    let needed: BTreeMap<&str, String> = keys
        .iter()
        .filter(|(_, prop)| !prop.optional)
        .map(|(key, prop)| (key.as_str(), good_text(prop, key)))
        .collect();
    let print = |pairs: &BTreeMap<&str, String>| {
        pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    };
    let mut texts = vec![bare_first(keys, &needed), print(&needed)];
    for (key, prop) in keys {
        let values = if prop.alias.is_some() { alias_values(keys, prop) } else { texts_for(prop) };
        let words = if prop.kind == Kind::Boolean { owned(&WORDS) } else { Vec::new() };
        for value in words.into_iter().chain(values).filter(|value| !value.contains(',')) {
            let mut pairs = needed.clone();
            // A key under another name takes the place of the key itself.
            for other in prop.alias.iter().chain(&prop.key_alias) {
                pairs.remove(other.as_str());
            }
            pairs.insert(key, value.clone());
            texts.push(print(&pairs));
            if let Some((other, its)) = prop.requires.as_ref().and_then(|other| keys.get_key_value(other)) {
                pairs.insert(other, good_text(its, other));
                texts.push(print(&pairs));
            }
        }
        if !prop.optional {
            let mut pairs = needed.clone();
            pairs.remove(key.as_str());
            texts.push(print(&pairs));
        }
    }
    let start = print(&needed);
    let joined = |rest: &str| if start.is_empty() { rest.to_owned() } else { format!("{start},{rest}") };
    texts.extend([
        joined("bogus=1"),
        joined("=1"),
        joined("bogus="),
        joined(",,"),
        joined("bare"),
        String::new(),
    ]);
    if let Some((key, prop)) = keys.iter().find(|(_, prop)| prop.optional && prop.alias.is_none()) {
        let value = good_text(prop, key);
        texts.push(joined(&format!("{key}={value},{key}={value}")));
    }
    texts
}

/// The default key without its name, before the others.
fn bare_first(keys: &Keys, needed: &BTreeMap<&str, String>) -> String {
    let Some((default, prop)) = keys.iter().find(|(_, prop)| prop.default_key) else {
        return needed.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    };
    let rest = needed.iter().filter(|(key, _)| *key != default).map(|(key, value)| format!("{key}={value}"));
    std::iter::once(good_text(prop, default)).chain(rest).collect::<Vec<_>>().join(",")
}

fn alias_values(keys: &Keys, prop: &Prop) -> Vec<String> {
    let target = prop.alias.as_ref().and_then(|alias| keys.get_key_value(alias));
    target.map_or_else(Vec::new, |(name, target)| one_of_each(target, name, texts_for(target)))
}

fn form(params: Params) -> Case {
    Case { params, encoding: Encoding::Form }
}

/// The value with all it needs, and once without what it requires.
fn with_value(endpoint: &Endpoint, base: &Params, name: &str, prop: &Prop, value: &str) -> Vec<Case> {
    if is_path_variable(endpoint, name) && (value.is_empty() || (value.contains('/') && name != "volume")) {
        return Vec::new();
    }
    let mut params = base.clone();
    let given = Given::Text(value.to_owned());
    let is_list = prop.kind == Kind::Array;
    params.insert(name.to_owned(), if is_list { Given::List(vec![value.to_owned()]) } else { given });
    let Some((other, its)) = prop.requires.as_ref().and_then(|other| endpoint.keys.get_key_value(other))
    else {
        return vec![form(params)];
    };
    let alone = form(params.clone());
    params.insert(other.clone(), good_value(its, other));
    // What is required may itself require this one, and has it.
    vec![alone, form(params)]
}

/// What only JSON, or a repeated or bare name, can say.
fn other_types(endpoint: &Endpoint, base: &Params, name: &str, prop: &Prop) -> Vec<Case> {
    if endpoint.path.ends_with("/upload") {
        return Vec::new();
    }
    let good = good_text(prop, name);
    let many = Given::List(vec![good.clone(), good.clone()]);
    let mut all = vec![(many.clone(), Encoding::Form), (Given::Null, Encoding::Form)];
    if matches!(endpoint.method.as_str(), "POST" | "PUT") {
        all.extend([(many, Encoding::Json), (Given::Null, Encoding::Json)]);
        if prop.kind != Kind::Array {
            all.extend(
                [Given::Flag(true), Given::Object, Given::Text(good)].map(|given| (given, Encoding::Json)),
            );
        }
    }
    let case = |(given, encoding)| {
        let mut params = base.clone();
        params.insert(name.to_owned(), given);
        if let Some((other, its)) =
            prop.requires.as_ref().and_then(|other| endpoint.keys.get_key_value(other))
        {
            params.insert(other.clone(), good_value(its, other));
        }
        Case { params, encoding }
    };
    all.into_iter().map(case).collect()
}

/// Each parameter that must be there is missing once, and all at once.
fn lacking(endpoint: &Endpoint, base: &Params) -> Vec<Case> {
    let removable: Vec<&String> = base.keys().filter(|name| !is_path_variable(endpoint, name)).collect();
    let without = |names: &[&String]| {
        let mut params = base.clone();
        params.retain(|name, _| !names.contains(&name));
        form(params)
    };
    let mut cases: Vec<Case> = removable.iter().map(|name| without(&[name])).collect();
    // Without a kind there is no telling what else is needed.
    let kind = endpoint.variant.as_ref().map(|(key, _)| key);
    let all: Vec<&String> = removable.into_iter().filter(|name| Some(*name) != kind).collect();
    cases.push(without(&all));
    cases
}

/// Names nobody knows: an invented one, and the first beyond each numbered family.
fn unknown(endpoint: &Endpoint, base: &Params) -> Vec<Case> {
    let mut last: BTreeMap<String, u32> = BTreeMap::new();
    for name in endpoint.keys.keys() {
        let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
        if let Ok(number) = name[family.len()..].parse::<u32>() {
            let entry = last.entry(family.to_owned()).or_default();
            *entry = (*entry).max(number);
        }
    }
    let beyond = last.into_iter().map(|(family, number)| format!("{family}{}", number + 1));
    let names = ["bogus".to_owned(), "Node".to_owned(), "bo-gus_1".to_owned()];
    let with = |name: String, given: Given| {
        let mut params = base.clone();
        params.insert(name, given);
        form(params)
    };
    let mut cases: Vec<Case> =
        names.into_iter().chain(beyond).map(|name| with(name, Given::Text("1".into()))).collect();
    let of_others = endpoint.of_other_kinds.iter();
    cases.extend(of_others.map(|(name, prop)| with(name.clone(), good_value(prop, name))));
    if !endpoint.path.ends_with("/upload") {
        cases.push(with("bogus".into(), Given::Null));
    }
    cases
}

/// Two wrong ones are told both.
fn two_at_once(base: &Params, wrong: &[(&String, String)]) -> Vec<Case> {
    let both = |pair: &[(&String, String)]| {
        let mut params = base.clone();
        params.extend(pair.iter().map(|(name, value)| ((*name).clone(), Given::Text(value.clone()))));
        form(params)
    };
    wrong.windows(2).map(both).collect()
}
