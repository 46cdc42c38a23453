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
    if found == environment.wanted {
        return Ok(());
    }
    let gives =
        if environment.wanted == Type::Double { "gives a number with a point" } else { "is true or false" };
    Err(format!("is an expression that {gives}"))
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

    /// Every term makes types of its own; none of them may be looked at again for each term that follows.
    #[test]
    fn long_expressions_are_taken_up_to_a_limit() {
        let sum = |terms: usize| format!("1 < 1{}", "+1".repeat(terms));
        assert_eq!(judge(&sum(4_000), &DISK, 14), Ok(()));
        let serials: Vec<String> = (0..1_000).map(|n| format!("'WD-WX{n:012}'")).collect();
        assert_eq!(judge(&format!("disk.serial in [{}]", serials.join(", ")), &DISK, 14), Ok(()));
        let any: Vec<String> = serials.iter().map(|serial| format!("disk.serial == {serial}")).collect();
        assert_eq!(judge(&any.join(" || "), &DISK, 14), Ok(()));
        let tokens = "has more than 10000 names, values and signs, and was not checked";
        assert_eq!(judge(&sum(6_000), &DISK, 14), Err(tokens.to_owned()));
        let bytes = "is longer than 64 KiB, and was not checked";
        assert_eq!(judge(&format!("'{}' == ''", "x".repeat(70_000)), &DISK, 14), Err(bytes.to_owned()));
    }

    /// Twice as large with every call: forty calls would fill the memory of any machine.
    #[test]
    fn types_do_not_grow_without_limit() {
        let limit = "has a value whose type is made of more than 256 types";
        for step in [".map(a, {a: a})", ".map(a, [a])", ".map(a, {a: {a: {a: a}}})"] {
            let text = format!("[1]{} == []", step.repeat(400));
            assert_eq!(judge(&text, &DISK, 14), Err(limit.to_owned()), "{step}");
        }
        assert_eq!(judge("[1].map(a, {a: [a]}).map(a, {a: a}) == []", &DISK, 14), Ok(()));
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
            "disk.nothing == ''",
            "disk.size > 10 * GiB",
            "disk.size > 10",
            "disk.serial == 1",
            "disk.serial[0] == 'x'",
            "disk.rotational + true",
            "disk.symlinks.exists(l, l)",
            "disk.symlinks.exists(l, l == 1)",
            "disk.size.startsWith('x')",
            "has(disk)",
            "dyn(true)",
            "[true][0] ? disk.size : disk.serial",
            "optional.of(1).hasValue()",
            "99999999999999999999 > 1",
            ". 'x' == 'x'",
        ] {
            assert!(judge(text, &DISK, 14).is_err(), "{text}");
        }
        assert!(judge("disk.firmware_version == ''", &DISK, 13).is_err());
        assert_eq!(judge("disk.firmware_version == ''", &DISK, 14), Ok(()));
        assert!(judge("true", &RANKING, 14).is_err() && judge("1.0", &TRIGGER, 14).is_err());
    }
}
