//! Reads the tables of endpoints, VM options and property strings.
//!
//! A table line is `name[?] type attribute…`: `?` marks an optional key, a leading `*` the default key of a property
//! string, `name[0-30]` a numbered family. `pat=` takes the rest of the line.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex_lite::Regex;

use super::{Format, Kind, Prop};
use crate::access::Check;

const FORMATS: &str = include_str!("../tables/formats.txt");
const VM_CONFIG: &str = include_str!("../tables/vmconfig.txt");
const ROUTES: &str = include_str!("../tables/routes.txt");
const CPUS: &str = include_str!("../tables/cpus.txt");

#[expect(clippy::struct_excessive_bools, reason = "the flags of a table line")]
pub(crate) struct Route {
    pub(crate) method: String,
    pub(crate) template: String,
    parts: Vec<String>,
    /// Runs in the privileged daemon, which has few workers.
    pub(crate) protected: bool,
    pub(crate) tokens_allowed: bool,
    pub(crate) proxied: bool,
    pub(crate) check: Check,
    /// The same as the table has it.
    pub(crate) permission: String,
    pub(crate) takes_vm_config: bool,
    pub(crate) props: BTreeMap<String, Prop>,
}

struct Tables {
    formats: BTreeMap<String, Format>,
    vm_config: BTreeMap<String, Prop>,
    routes: Vec<Route>,
    cpus: Vec<(String, String)>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables {
    formats: blocks(FORMATS).map(|(name, lines)| (name.to_owned(), read_format(lines))).collect(),
    vm_config: VM_CONFIG.lines().flat_map(read_family).map(|prop| (prop.name.clone(), prop)).collect(),
    routes: blocks(ROUTES).map(|(head, lines)| read_route(head, &lines)).collect(),
    cpus: read_cpus(),
});

pub(crate) fn format_named(name: &str) -> Option<&'static Format> {
    TABLES.formats.get(name)
}

/// The option of a VM's configuration with that key.
pub(crate) fn vm_option(key: &str) -> Option<&'static Prop> {
    TABLES.vm_config.get(key)
}

pub(crate) fn routes() -> &'static [Route] {
    &TABLES.routes
}

/// Built-in CPU models with their vendors.
pub(crate) fn cpu_models() -> &'static [(String, String)] {
    &TABLES.cpus
}

/// Finds the endpoint of a path and the values of its path variables.
pub(crate) fn route_for(method: &str, path: &str) -> Option<(&'static Route, BTreeMap<String, String>)> {
    let given: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut candidates = TABLES.routes.iter().filter(|route| route.method == method);
    let route = candidates.find(|route| matches(&route.parts, &given))?;
    let values = route.parts.iter().enumerate().filter_map(|(index, part)| {
        let name = variable(part)?;
        // A volume id has slashes of its own: it takes all that is left.
        let value = if name == "volume" { given[index..].join("/") } else { given[index].to_owned() };
        Some((name.to_owned(), crate::wire::percent_decode(&value)))
    });
    Some((route, values.collect()))
}

/// The name of a path variable, if the part is one.
fn variable(part: &str) -> Option<&str> {
    part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'))
}

fn matches(wanted: &[String], given: &[&str]) -> bool {
    let open_end = wanted.last().is_some_and(|part| part == "{volume}");
    let length_fits = if open_end { given.len() >= wanted.len() } else { given.len() == wanted.len() };
    length_fits && wanted.iter().zip(given).all(|(part, value)| part.starts_with('{') || part == value)
}

/// Splits a table into blocks: a head line and the indented lines under it.
fn blocks(table: &'static str) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    table.split("\n\n").filter(|block| !block.trim().is_empty()).map(|block| {
        let mut lines = block.trim_end().lines();
        (lines.next().unwrap_or_default(), lines.collect())
    })
}

fn read_format(lines: Vec<&str>) -> Format {
    Format {
        props: lines
            .into_iter()
            .map(|line| read_prop(line.trim()))
            .map(|prop| (prop.name.clone(), prop))
            .collect(),
    }
}

fn read_route(head: &str, lines: &[&str]) -> Route {
    let (front, check) = head.split_once(" : ").unwrap_or((head, "all"));
    let mut words = front.split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let template = words.next().unwrap_or_default().to_owned();
    let flags: Vec<&str> = words.collect();
    let mut props: BTreeMap<String, Prop> = BTreeMap::new();
    if template.contains("{node}") {
        props.insert("node".into(), read_prop("node str fmt=pve-node"));
    }
    if template.contains("{vmid}") {
        props.insert("vmid".into(), read_prop("vmid int fmt=pve-vmid min=100 max=999999999"));
    }
    let takes_vm_config = lines.iter().any(|line| line.trim() == "+vmconfig");
    let own = lines.iter().map(|line| line.trim()).filter(|line| !line.starts_with('+'));
    props.extend(own.map(read_prop).map(|prop| (prop.name.clone(), prop)));
    Route {
        protected: flags.contains(&"protected"),
        tokens_allowed: !flags.contains(&"notoken"),
        proxied: flags.contains(&"proxy=node"),
        check: Check::read(check),
        permission: check.to_owned(),
        parts: template.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        takes_vm_config,
        method,
        template,
        props,
    }
}

/// A line of a numbered family stands for each of its members.
fn read_family(line: &str) -> Vec<Prop> {
    let line = line.trim();
    let family = line.split_once('[').and_then(|(name, rest)| Some((name, rest.split_once(']')?)));
    let Some((name, (range, rest))) = family.filter(|(name, _)| !name.contains(' ')) else {
        return vec![read_prop(line)];
    };
    let bounds = range.split_once('-').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    let (low, high): (u32, u32) = bounds.unwrap_or_default();
    (low..=high).map(|index| read_prop(&format!("{name}{index}{rest}"))).collect()
}

fn read_prop(line: &str) -> Prop {
    let (front, pattern) =
        line.split_once(" pat=").map_or((line, None), |(front, pattern)| (front, Some(pattern)));
    let mut words = front.split(' ');
    let name = words.next().unwrap_or_default();
    let default_key = name.starts_with('*');
    let optional = name.ends_with('?');
    let kind = words.next().unwrap_or_default();
    let mut prop = Prop {
        name: name.trim_start_matches('*').trim_end_matches('?').to_owned(),
        kind: match kind {
            "bool" => Kind::Bool,
            "int" => Kind::Int,
            "num" => Kind::Number,
            "list" => Kind::List,
            _ => Kind::Text,
        },
        optional: optional || matches!(kind, "alias" | "keyalias"),
        default_key,
        alias: None,
        key_alias: None,
        format: None,
        properties: None,
        items: None,
        min: None,
        max: None,
        min_len: None,
        max_len: None,
        // A pattern of a table that does not compile is a fault of the table; the tests below find it.
        pattern: pattern.and_then(|pattern| Regex::new(&format!("^(?:{pattern})$")).ok()),
        values: Vec::new(),
        requires: None,
    };
    match kind {
        "alias" => prop.alias = words.next().map(str::to_owned),
        "keyalias" => {
            prop.key_alias = words.next().map(str::to_owned);
            prop.alias = words.next().map(str::to_owned);
        }
        _ => words.for_each(|word| read_attribute(&mut prop, word)),
    }
    prop
}

fn read_attribute(prop: &mut Prop, word: &str) {
    let Some((key, value)) = word.split_once('=') else { return };
    let text = || Some(value.to_owned());
    match key {
        "fmt" => prop.format = text(),
        "props" => prop.properties = text(),
        "items" => prop.items = text(),
        "min" => prop.min = value.parse().ok(),
        "max" => prop.max = value.parse().ok(),
        "minlen" => prop.min_len = value.parse().ok(),
        "maxlen" => prop.max_len = value.parse().ok(),
        "requires" => prop.requires = text(),
        "enum" => prop.values = value.split(',').map(str::to_owned).collect(),
        _ => {}
    }
}

fn read_cpus() -> Vec<(String, String)> {
    let mut vendor = "";
    let mut models = Vec::new();
    for line in CPUS.lines() {
        if line.starts_with(' ') {
            models.extend(line.split_whitespace().map(|name| (name.to_owned(), vendor.to_owned())));
        } else {
            vendor = line;
        }
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_every_named_format_exists() {
        for table in [FORMATS, VM_CONFIG, ROUTES] {
            for line in table.lines().filter(|line| line.starts_with(' ')) {
                let prop = read_family(line).remove(0);
                assert_eq!(line.contains(" pat="), prop.pattern.is_some(), "{line}");
                for name in prop.properties.iter().chain(&prop.items) {
                    assert!(format_named(name).is_some(), "{line}");
                }
            }
        }
    }

    #[test]
    fn numbered_options_exist_up_to_their_last_member() {
        assert!(vm_option("scsi30").is_some() && vm_option("scsi31").is_none());
        assert!(vm_option("net31").is_some() && vm_option("net99").is_none());
        assert!(vm_option("numa").is_some() && vm_option("numa7").is_some() && vm_option("numa8").is_none());
    }

    #[test]
    fn paths_match_with_empty_parts_dropped_and_volumes_keep_their_slashes() {
        let (route, found) = route_for("GET", "/nodes/a/storage/s/content/s:iso/x.iso").unwrap();
        assert!(route.template.ends_with("{volume}"));
        assert_eq!(found["volume"], "s:iso/x.iso");
        assert!(route_for("GET", "//version").is_some() && route_for("GET", "/nodes/").is_some());
        assert!(route_for("PUT", "/version").is_none() && route_for("GET", "/foo").is_none());
    }
}
