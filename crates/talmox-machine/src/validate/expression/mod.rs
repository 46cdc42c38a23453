//! CEL expressions: selectors of disks, volumes and links, and what decides on running out of memory.
//!
//! They are parsed by the grammar of CEL and their types are found as CEL finds them, with the names, objects and functions
//! Talos gives: a field that is not there, a number of another kind or a result that is not the wanted one is refused.

mod functions;
mod objects;
mod parse;
mod tokens;
mod types;

use super::Checker;
use crate::document::Document;
use crate::fault::Trail;
use crate::schema::{Struct, Type as FieldType};
use crate::value::{Map, Value};

use functions::{Library, Shape};
use types::Type;

/// What an expression may name, and what it has to give.
pub(super) struct Environment {
    wanted: Type,
    names: &'static [(&'static str, Shape)],
    libraries: &'static [Library],
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

static DISK: Environment = Environment {
    wanted: Type::Bool,
    names: &[("disk", Shape::Nested(&objects::DISK)), ("system_disk", Shape::Bool)],
    libraries: &[Library::Standard, Library::Glob],
    has_units: true,
    memory: Memory::Nothing,
};
static VOLUME: Environment = Environment {
    wanted: Type::Bool,
    names: &[("volume", Shape::Nested(&objects::VOLUME)), ("disk", Shape::Nested(&objects::DISK))],
    libraries: &[Library::Standard],
    has_units: true,
    memory: Memory::Nothing,
};
static MEMBER: Environment = Environment {
    wanted: Type::Bool,
    names: &[
        ("volume", Shape::Nested(&objects::VOLUME)),
        ("disk", Shape::Nested(&objects::DISK)),
        ("volume_id", Shape::Text),
        ("system_disk", Shape::Bool),
    ],
    libraries: &[Library::Standard, Library::Glob],
    has_units: true,
    memory: Memory::Nothing,
};
static LINK: Environment = Environment {
    wanted: Type::Bool,
    names: &[("link", Shape::Nested(&objects::LINK))],
    libraries: &[Library::Standard, Library::Glob, Library::Mac],
    has_units: false,
    memory: Memory::Nothing,
};
static TRIGGER: Environment = Environment {
    wanted: Type::Bool,
    names: &[("time_since_trigger", Shape::Duration)],
    libraries: &[Library::Standard, Library::Optional, Library::Classes],
    has_units: true,
    memory: Memory::Pressure,
};
static RANKING: Environment = Environment {
    wanted: Type::Double,
    names: &[
        ("memory_max", Shape::OptionalUint),
        ("memory_current", Shape::OptionalUint),
        ("memory_peak", Shape::OptionalUint),
        ("path", Shape::Text),
        ("class", Shape::Int),
    ],
    libraries: &[Library::Standard, Library::Optional],
    has_units: true,
    memory: Memory::Classes,
};

impl Environment {
    /// The type of what a name stands for, if it stands for anything.
    fn name(&self, name: &str) -> Option<Type> {
        if let Some((_, shape)) = self.names.iter().find(|(known, _)| *known == name) {
            return Some(shape.plain());
        }
        if self.has_units && UNITS.contains(&name) {
            return Some(Type::Uint);
        }
        match self.memory {
            Memory::Classes | Memory::Pressure if CLASSES.contains(&name) => Some(Type::Int),
            Memory::Pressure => pressure(name),
            Memory::Nothing | Memory::Classes => None,
        }
    }

    fn has(&self, library: Library) -> bool {
        self.libraries.contains(&library)
    }
}

/// `[d_][qos_]memory_some|full_avg10|avg60|avg300|total`, and what a class of processes uses.
fn pressure(name: &str) -> Option<Type> {
    let name = name.strip_prefix("d_").unwrap_or(name);
    let (name, by_class) = match name.strip_prefix("qos_") {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let rest = name.strip_prefix("memory_")?;
    let metric = |rest: &str| ["avg10", "avg60", "avg300", "total"].contains(&rest);
    let stalled = ["some_", "full_"].iter().any(|kind| rest.strip_prefix(kind).is_some_and(metric));
    let used = by_class && ["current", "peak", "max"].contains(&rest);
    (stalled || used).then(|| if by_class { Shape::MapIntDouble.plain() } else { Type::Double })
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
            (Value::Map(map), FieldType::Struct(known)) => structure(checker, document, map, known, &path),
            (Value::Text(text), FieldType::Expression) if !text.is_empty() => {
                let environment = environment(document.kind(), key);
                if let Err(message) = judge(text, environment, checker.talos.minor) {
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
fn judge(text: &str, environment: &Environment, minor: u16) -> Result<(), String> {
    let found = parse::type_of(text, environment, minor)?;
    match environment.wanted {
        ref wanted if *wanted == found => Ok(()),
        Type::Double => Err("is an expression that gives a number with a point".to_owned()),
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
            "has(disk.wwid) && size(disk.serial) > 0x10 && disk.symlinks[0] != 'x'",
            "-1 < 2 && 1.5e3 >= .5 && {'a': 1}['a'] == 1 // why",
        ] {
            assert_eq!(judge(text, &DISK, 14), Ok(()), "{text}");
        }
        assert_eq!(judge("glob('00:*', mac(link.hardware_addr))", &LINK, 14), Ok(()));
        assert_eq!(judge("volume_id == 'r-data'", &MEMBER, 14), Ok(()));
        assert_eq!(
            judge("memory_full_avg10 > 12.0 && time_since_trigger > duration('500ms')", &TRIGGER, 14),
            Ok(())
        );
        assert_eq!(
            judge("multiply_qos_vectors(d_qos_memory_full_total, {System: 8.0}) > 3000.0", &TRIGGER, 14),
            Ok(())
        );
        assert_eq!(
            judge(
                "memory_max.hasValue() ? 0.0 : {Besteffort: 1.0}[class] * double(memory_current.orValue(0u))",
                &RANKING,
                14
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
            assert!(judge(text, &DISK, 14).is_err(), "{text}");
        }
        assert!(judge("true", &RANKING, 14).is_err() && judge("1.0", &TRIGGER, 14).is_err());
    }
}
