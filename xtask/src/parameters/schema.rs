//! The API schema as the data has it: endpoints, their parameters, and the keys of property strings.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use anyhow::Context as _;
use regex_lite::Regex;
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Integer,
    Number,
    Text,
    Array,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "string",
            Self::Array => "array",
        }
    }
}

/// The keys of a property string, or the parameters of an endpoint.
pub(crate) type Keys = BTreeMap<String, Rc<Prop>>;

#[derive(Clone, Debug)]
pub(crate) enum Format {
    /// Checked by code of the server, which the data only names.
    Code(String),
    Keys(Rc<Keys>),
}

#[derive(Clone, Debug)]
pub(crate) struct Prop {
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
    pub(crate) default_key: bool,
    pub(crate) alias: Option<String>,
    pub(crate) key_alias: Option<String>,
    pub(crate) format: Option<Format>,
    pub(crate) pattern: Option<Regex>,
    /// Bounds as the server prints them.
    pub(crate) min: Option<String>,
    pub(crate) max: Option<String>,
    pub(crate) min_len: Option<usize>,
    pub(crate) max_len: Option<usize>,
    pub(crate) values: Vec<String>,
    pub(crate) requires: Option<String>,
    pub(crate) items: Option<Rc<Prop>>,
}

pub(crate) struct Endpoint {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Parameters by name; of endpoints for several kinds of things, those of one kind.
    pub(crate) keys: Keys,
    /// The kind, if there are several: the parameter and its value.
    pub(crate) variant: Option<(String, String)>,
    /// Parameters that only other kinds have.
    pub(crate) of_other_kinds: Keys,
    /// Other parameters are taken as well.
    pub(crate) open: bool,
    /// The parameter that names the host which answers: a wrong one fails before any check.
    pub(crate) proxied_by: Option<String>,
}

/// Everything the data says.
pub(crate) struct Schema {
    formats: Rc<Formats>,
    /// Methods by path, as they stand in the data.
    methods: BTreeMap<String, Value>,
}

struct Formats {
    keys: Map<String, Value>,
    vm_options: Map<String, Value>,
}

impl Schema {
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let formats = read_json(&folder.join("pve-formats.json.gz"))?;
        let part = |name: &str| formats[name].as_object().cloned().context("the formats have another shape");
        let formats = Formats { keys: part("formats")?, vm_options: part("qemu_config_properties")? };
        let tree = read_json(&folder.join("pve-apidoc.json.gz"))?;
        let mut methods = BTreeMap::new();
        for branch in tree.as_array().context("the tree has another shape")? {
            collect(branch, &mut methods);
        }
        Ok(Self { formats: Rc::new(formats), methods })
    }

    /// The endpoint, once per kind of thing it is for; nothing if the data does not have it.
    pub(crate) fn endpoints(&self, method: &str, path: &str) -> anyhow::Result<Vec<Endpoint>> {
        let Some(info) = self.methods.get(path).and_then(|methods| methods.get(method)) else {
            return Ok(Vec::new());
        };
        read_endpoint(method, path, info, &self.formats).with_context(|| format!("{method} {path}"))
    }
}

impl Schema {
    /// Names of an endpoint's parameters, unless they depend on a kind.
    pub(crate) fn parameters(&self, method: &str, path: &str) -> Vec<String> {
        let info = self.methods.get(path).and_then(|methods| methods.get(method));
        let properties = info.and_then(|info| info["parameters"]["properties"].as_object());
        properties.into_iter().flatten().map(|(name, _)| name.clone()).collect()
    }

    /// A schema of that endpoint alone, with one parameter changed; nothing if there is nothing to change.
    pub(crate) fn falsified(
        &self,
        method: &str,
        path: &str,
        name: &str,
        change: fn(&mut Value) -> bool,
    ) -> Option<Self> {
        let mut methods = self.methods.get(path)?.clone();
        let changed = change(&mut methods[method]["parameters"]["properties"][name]);
        let methods = BTreeMap::from([(path.to_owned(), methods)]);
        changed.then(|| Self { formats: Rc::clone(&self.formats), methods })
    }
}

#[expect(clippy::disallowed_methods, reason = "test data, not a description file")]
fn read_json(path: &Path) -> anyhow::Result<Value> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut text)
        .with_context(|| format!("{} cannot be unpacked", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))
}

fn collect(node: &Value, methods: &mut BTreeMap<String, Value>) {
    let path = node["path"].as_str().unwrap_or_default();
    methods.insert(path.to_owned(), node["info"].clone());
    node["children"].as_array().into_iter().flatten().for_each(|child| collect(child, methods));
}

fn read_endpoint(method: &str, path: &str, info: &Value, formats: &Formats) -> anyhow::Result<Vec<Endpoint>> {
    let parameters = &info["parameters"];
    let mut common = read_keys(&parameters["properties"], formats, true)?;
    let mut kinds: Vec<(Option<(String, String)>, Keys)> = Vec::new();
    for part in parameters["allOf"].as_array().into_iter().flatten() {
        common.extend(read_keys(&part["properties"], formats, true)?);
        let Some(kind_key) = part["type-property"].as_str() else { continue };
        common.insert(kind_key.to_owned(), Rc::new(read_prop(&part["type-property-schema"], formats)?));
        for kind in part["oneOf"].as_array().into_iter().flatten() {
            let name = kind["instance-type"].as_str().context("a kind without a name")?;
            let keys = read_keys(&kind["properties"], formats, true)?;
            kinds.push((Some((kind_key.to_owned(), name.to_owned())), keys));
        }
    }
    if kinds.is_empty() {
        kinds.push((None, Keys::new()));
    }
    let every: Keys = kinds.iter().flat_map(|(_, keys)| keys.clone()).collect();
    let endpoint = |(variant, own): (Option<(String, String)>, Keys)| {
        let of_other_kinds = every.clone().into_iter().filter(|(name, _)| !own.contains_key(name)).collect();
        Endpoint {
            method: method.to_owned(),
            path: path.to_owned(),
            keys: common.clone().into_iter().chain(own).collect(),
            variant,
            of_other_kinds,
            open: flag(&parameters["additionalProperties"]),
            proxied_by: info["proxyto"].as_str().map(str::to_owned),
        }
    };
    Ok(kinds.into_iter().map(endpoint).collect())
}

/// Reads properties; `name[n]` is as many as the options of a VM have.
fn read_keys(properties: &Value, formats: &Formats, numbered: bool) -> anyhow::Result<Keys> {
    let mut keys = Keys::new();
    for (name, value) in properties.as_object().into_iter().flatten() {
        let prop = Rc::new(read_prop(value, formats).with_context(|| name.clone())?);
        match name.strip_suffix("[n]").filter(|_| numbered) {
            None => {
                keys.insert(name.clone(), prop);
            }
            Some(family) => {
                let member = |key: &&String| {
                    let number = key.strip_prefix(family).unwrap_or_default();
                    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
                };
                let members: Vec<&String> = formats.vm_options.keys().filter(member).collect();
                anyhow::ensure!(!members.is_empty(), "no option is called {name}");
                keys.extend(members.into_iter().map(|key| (key.clone(), Rc::clone(&prop))));
            }
        }
    }
    Ok(keys)
}

fn flag(value: &Value) -> bool {
    value.as_i64() == Some(1) || value.as_bool() == Some(true) || value.as_str() == Some("1")
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn length(value: &Value) -> Option<usize> {
    text(value).and_then(|text| text.parse().ok())
}

fn read_prop(value: &Value, formats: &Formats) -> anyhow::Result<Prop> {
    let kind = match value["type"].as_str() {
        Some("boolean") => Kind::Boolean,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("array") => Kind::Array,
        Some("string") | None => Kind::Text,
        Some(other) => anyhow::bail!("unknown type {other}"),
    };
    let items = value.get("items").map(|items| read_prop(items, formats)).transpose()?;
    Ok(Prop {
        kind,
        optional: flag(&value["optional"]) || value.get("alias").is_some(),
        default_key: flag(&value["default_key"]),
        alias: text(&value["alias"]),
        key_alias: text(&value["keyAlias"]),
        format: read_format(&value["format"], formats)?,
        pattern: value["pattern"].as_str().map(compile).transpose()?,
        min: text(&value["minimum"]),
        max: text(&value["maximum"]),
        min_len: length(&value["minLength"]),
        max_len: length(&value["maxLength"]),
        values: value["enum"].as_array().into_iter().flatten().filter_map(text).collect(),
        requires: text(&value["requires"]),
        items: items.map(Rc::new),
    })
}

fn read_format(value: &Value, formats: &Formats) -> anyhow::Result<Option<Format>> {
    let keys = match value {
        Value::Object(_) => value,
        Value::String(name) => match formats.keys.get(name) {
            Some(keys) => keys,
            None => return Ok(Some(Format::Code(name.clone()))),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return Ok(None),
    };
    Ok(Some(Format::Keys(Rc::new(read_keys(keys, formats, false)?))))
}

/// A pattern of Perl as one of ours; the server looks at the whole value.
fn compile(pattern: &str) -> anyhow::Result<Regex> {
    let ours = pattern
        .replace("(?^:", "(?:")
        .replace("(?^u:", "(?:")
        .replace("(?^i:", "(?i:")
        .replace("{,", "{0,")
        .replace("\\@", "@")
        .replace("\\/", "/");
    Regex::new(&format!("^(?:{ours})$")).with_context(|| format!("the pattern {pattern}"))
}
