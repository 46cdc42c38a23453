//! CEL expressions: selectors of disks, volumes and links, and what decides on running out of memory.
//!
//! They are parsed by the grammar of CEL. Names have to be those Talos gives, and a result whose kind is plain to see has to be
//! the wanted one. What fields of objects and most functions give is not known here, so Talos may still refuse what passes.

mod parse;
mod tokens;

use super::Checker;
use crate::document::Document;
use crate::fault::Trail;
use crate::schema::{Struct, Type};
use crate::value::{Map, Value};

/// The kind of a value, as far as it is plain to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    /// A list, a mapping, an object or nothing.
    Other,
    Unknown,
}

/// What an expression may name.
pub(super) struct Environment {
    wanted: Kind,
    names: &'static [(&'static str, Kind)],
    functions: &'static [&'static str],
    has_units: bool,
    memory: Memory,
}

/// What is known of memory.
enum Memory {
    Nothing,
    /// Classes of processes.
    Classes,
    /// Classes, and how long processes waited for it.
    Pressure,
}

/// Sizes, in bytes.
const UNITS: [&str; 12] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "kB", "MB", "GB", "TB", "PB", "EB"];

/// Classes of processes.
const CLASSES: [&str; 5] = ["Besteffort", "Burstable", "Guaranteed", "Podruntime", "System"];

/// Functions every expression has.
const FUNCTIONS: [&str; 13] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "has",
    "int",
    "matches",
    "size",
    "string",
    "timestamp",
    "type",
    "uint",
];

static DISK: Environment = Environment {
    wanted: Kind::Bool,
    names: &[("disk", Kind::Other), ("system_disk", Kind::Bool)],
    functions: &["glob"],
    has_units: true,
    memory: Memory::Nothing,
};
static VOLUME: Environment = Environment {
    wanted: Kind::Bool,
    names: &[("volume", Kind::Other), ("disk", Kind::Other)],
    functions: &[],
    has_units: true,
    memory: Memory::Nothing,
};
static MEMBER: Environment = Environment {
    wanted: Kind::Bool,
    names: &[
        ("volume", Kind::Other),
        ("disk", Kind::Other),
        ("volume_id", Kind::Text),
        ("system_disk", Kind::Bool),
    ],
    functions: &["glob"],
    has_units: true,
    memory: Memory::Nothing,
};
static LINK: Environment = Environment {
    wanted: Kind::Bool,
    names: &[("link", Kind::Other)],
    functions: &["glob", "mac"],
    has_units: false,
    memory: Memory::Nothing,
};
static TRIGGER: Environment = Environment {
    wanted: Kind::Bool,
    names: &[("time_since_trigger", Kind::Other)],
    functions: &["multiply_qos_vectors"],
    has_units: true,
    memory: Memory::Pressure,
};
static RANKING: Environment = Environment {
    wanted: Kind::Double,
    names: &[
        ("memory_max", Kind::Other),
        ("memory_current", Kind::Other),
        ("memory_peak", Kind::Other),
        ("path", Kind::Text),
        ("class", Kind::Int),
    ],
    functions: &[],
    has_units: true,
    memory: Memory::Classes,
};

impl Environment {
    /// The kind of what a name stands for, if it stands for anything.
    fn name(&self, name: &str) -> Option<Kind> {
        if let Some((_, kind)) = self.names.iter().find(|(known, _)| *known == name) {
            return Some(*kind);
        }
        if self.has_units && UNITS.contains(&name) {
            return Some(Kind::Uint);
        }
        match self.memory {
            Memory::Classes | Memory::Pressure if CLASSES.contains(&name) => Some(Kind::Int),
            Memory::Pressure => pressure(name),
            Memory::Nothing | Memory::Classes => None,
        }
    }

    fn has_function(&self, name: &str) -> bool {
        FUNCTIONS.contains(&name) || self.functions.contains(&name)
    }
}

/// `[d_][qos_]memory_some|full_avg10|avg60|avg300|total`, and what a class of processes uses.
fn pressure(name: &str) -> Option<Kind> {
    let name = name.strip_prefix("d_").unwrap_or(name);
    let (name, by_class) = match name.strip_prefix("qos_") {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let rest = name.strip_prefix("memory_")?;
    let metric = |rest: &str| ["avg10", "avg60", "avg300", "total"].contains(&rest);
    let stalled = ["some_", "full_"].iter().any(|kind| rest.strip_prefix(kind).is_some_and(metric));
    let used = by_class && ["current", "peak", "max"].contains(&rest);
    (stalled || used).then_some(if by_class { Kind::Other } else { Kind::Double })
}

/// Looks at every expression of a config.
pub(super) fn check(checker: &mut Checker<'_>) {
    for document in checker.config.documents() {
        structure(checker, document, &document.body, document.kind.body, &Trail::default());
    }
}

fn structure(checker: &mut Checker<'_>, document: &Document, map: &Map, known: &Struct, path: &Trail<'_>) {
    for (key, value) in map.iter() {
        let Some(field) = known.field(key) else { continue };
        let path = path.key(key);
        match (value, &field.kind) {
            (Value::Map(map), Type::Struct(known)) => structure(checker, document, map, known, &path),
            (Value::Text(text), Type::Expression) if !text.is_empty() => {
                let environment = environment(document.kind(), key);
                if let Err(message) = judge(text, environment) {
                    checker.error(document, path.to_string(), message);
                }
            }
            _ => {}
        }
    }
}

fn environment(kind: &str, field: &str) -> &'static Environment {
    match (kind, field) {
        ("LinkAliasConfig", _) => &LINK,
        ("OOMConfig", "cgroupRankingExpression") => &RANKING,
        ("OOMConfig", _) => &TRIGGER,
        ("ExistingVolumeConfig", _) => &VOLUME,
        ("RAIDArrayConfig" | "LVMVolumeGroupConfig", _) => &MEMBER,
        _ => &DISK,
    }
}

/// What is wrong with an expression.
fn judge(text: &str, environment: &Environment) -> Result<(), String> {
    let kind = parse::kind_of(text, environment)?;
    match (environment.wanted, kind) {
        (wanted, found) if wanted == found || found == Kind::Unknown => Ok(()),
        (Kind::Double, _) => Err("is an expression that gives a number with a point".to_owned()),
        _ => Err("is an expression that is true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_talos_takes_is_taken() {
        for text in [
            "true",
            "system_disk",
            "!system_disk && disk.transport == \"nvme\"",
            "disk.size > 10u * GiB && disk.size < 1u * TB",
            "glob(\"00:*\", disk.serial) || disk.model in ['a', r'b\\d', \"\"\"c\"\"\"]",
            "disk.symlinks.exists(link, link.startsWith('/dev/disk')) ? true : disk.rotational",
            "has(disk.wwid) && size(disk.serial) > 0x10 && disk.serial[0] != 'x'",
            "-1 < 2 && 1.5e3 >= .5 && {'a': 1}['a'] == 1 // why",
        ] {
            assert_eq!(judge(text, &DISK), Ok(()), "{text}");
        }
        assert_eq!(judge("glob('00:*', mac(link.hardware_addr))", &LINK), Ok(()));
        assert_eq!(judge("volume_id == 'r-data'", &MEMBER), Ok(()));
        assert_eq!(
            judge("memory_full_avg10 > 12.0 && time_since_trigger > duration('500ms')", &TRIGGER),
            Ok(())
        );
        assert_eq!(
            judge("multiply_qos_vectors(d_qos_memory_full_total, {System: 8.0}) > 3000.0", &TRIGGER),
            Ok(())
        );
        assert_eq!(
            judge(
                "memory_max.hasValue() ? 0.0 : {Besteffort: 1.0}[class] * double(memory_current.orValue(0u))",
                &RANKING
            ),
            Ok(())
        );
    }

    #[test]
    fn what_talos_refuses_is_refused() {
        for text in [
            "nonsense value",
            "10.0.0.0/8",
            "70000",
            "-1",
            "5m",
            "https://example.org",
            "eth0",
            "disk.size >",
            "(true",
            "disk.",
            "'open",
            "true &&",
            "GiB",
            "'text'",
            "!!",
            "disk.size = 1",
            "1 +",
            "unknown(1)",
            "10 * GiB > 5u",
            "a ? b",
            "[1, 2",
            "disk.x(",
            "\"\\q\"",
            "volume.name == ''",
        ] {
            assert!(judge(text, &DISK).is_err(), "{text}");
        }
        assert!(judge("true", &RANKING).is_err() && judge("1.0", &TRIGGER).is_err());
    }
}
