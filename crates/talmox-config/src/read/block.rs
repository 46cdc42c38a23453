//! Blocks: mappings with known keys, declared once and used for reading, the schema, the reference and `explain`.

use talmox_yaml::{Entry, Node, NodeKind};

use super::{At, Reading, Shape, Value, entries, suggest};
use crate::problem::{Code, Problem};
use crate::source::Location;

/// A mapping with known keys. Implemented by the macro `block!` only.
pub trait Block: Default {
    fn info() -> &'static BlockInfo;

    /// Takes an entry if its key belongs here.
    fn take(&mut self, key: &str, found: &entries::Found<'_>, reading: &mut Reading<'_>) -> bool;

    /// Keys that are there with a value nobody can use, or misspelt: reported, and not missing.
    fn broken(&mut self) -> &mut Vec<&'static str>;

    /// The value set for a key under any of its names.
    fn shown(&self, key: &str) -> Option<Shown>;
}

/// What is known of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockInfo {
    pub name: &'static str,
    pub doc: String,
    pub keys: Vec<KeyInfo>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeyInfo {
    pub name: &'static str,
    pub aliases: Vec<&'static str>,
    pub doc: String,
    pub shape: Shape,
}

/// A value as text, with where it stands and under which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub text: String,
    pub location: Location,
    pub key: &'static str,
}

impl BlockInfo {
    /// Every name of every key.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.keys.iter().flat_map(|key| std::iter::once(key.name).chain(key.aliases.iter().copied()))
    }

    pub fn key(&self, name: &str) -> Option<&KeyInfo> {
        self.keys.iter().find(|key| key.name == name || key.aliases.contains(&name))
    }
}

/// Reads a block; what it does not know goes to `unknown`, which may take it after all.
pub fn read_block<B: Block>(
    node: &Node,
    reading: &mut Reading<'_>,
    unknown: &mut dyn FnMut(&str, &Entry, &mut Reading<'_>) -> bool,
) -> Option<B> {
    let NodeKind::Mapping(raw) = &node.kind else {
        reading.wrong_type(node, "a mapping");
        return None;
    };
    let mut block = B::default();
    for found in entries::entries(raw, reading) {
        let Some(key) = found.entry.key.as_scalar() else { continue };
        if !block.take(&key.text, &found, reading) && !unknown(&key.text, found.entry, reading) {
            let meant = report_unknown(&key.text, found.entry, B::info(), reading);
            block.broken().extend(meant);
        }
    }
    Some(block)
}

/// Reports a key nothing reads, and gives the one that was probably meant: it is misspelt, not missing.
fn report_unknown(
    key: &str,
    entry: &Entry,
    info: &BlockInfo,
    reading: &mut Reading<'_>,
) -> Option<&'static str> {
    let location = reading.location(&entry.key);
    let problem =
        Problem::error(Code::UnknownKey, format!("unknown key {key}")).at(location, "nothing reads this");
    let meant = suggest(key, info.names());
    // Somebody who mistypes the name of a secret has still written the secret.
    let problem = if meant.is_some_and(|name| name.contains("token")) {
        problem.conceal(Location { source: reading.source, span: entry.value.span })
    } else {
        problem
    };
    let hint = match meant {
        Some(close) => Some(format!("did you mean {close}?")),
        None if !crate::file::is_of_description(info) => Some(format!("keys here: {}", names_of(info))),
        None => crate::file::homes_of(key, info.name)
            .map(|homes| format!("{key} belongs to {homes}"))
            .or_else(|| (info.keys.len() <= 8).then(|| format!("keys here: {}", names_of(info)))),
    };
    reading.report(match hint {
        Some(hint) => problem.hint(hint),
        None => problem.hint("talmox schema lists every key; docs/reference/cluster-yaml.md explains them"),
    });
    meant.and_then(|name| info.key(name)).map(|key| key.name)
}

fn names_of(info: &BlockInfo) -> String {
    info.keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

/// Reads the value of a key into its field, minding empty values and second names. False if the value is no good.
#[doc(hidden)]
pub fn take_field<T: Value>(
    field: &mut Option<At<T>>,
    key: &'static str,
    found: &entries::Found<'_>,
    reading: &mut Reading<'_>,
) -> bool {
    if found.merged && field.is_some() {
        return true;
    }
    let node = &found.entry.value;
    if let Some(tag) = &node.tag {
        let location = reading.location(node);
        reading.report(
            Problem::error(Code::YamlTag, format!("the tag {tag} means nothing here"))
                .at(location, "tagged")
                .hint("remove the tag; values are read by what their key needs"),
        );
        return false;
    }
    if node.is_null() {
        let location = reading.location(&found.entry.key);
        reading.report(
            Problem::warning(Code::NoValue, format!("{key} has no value and counts as not written"))
                .at(location, "no value"),
        );
        return true;
    }
    let before = reading.problems.len();
    let value = T::read(node, reading);
    for problem in &mut reading.problems[before..] {
        problem.name_key(key);
    }
    let Some(value) = value else { return false };
    let new = At { value, location: reading.location(node), key };
    if let Some(old) = field {
        // The same name twice is a fault of the YAML, and reported as such.
        if old.key != new.key {
            report_second_name(old, &new, reading);
        }
    } else {
        *field = Some(new);
    }
    true
}

fn report_second_name<T: Value>(old: &At<T>, new: &At<T>, reading: &mut Reading<'_>) {
    let (old_text, new_text) = (old.value.show(), new.value.show());
    let message = format!("{} and {} are one setting", old.key, new.key);
    let problem = if old_text == new_text {
        Problem::warning(Code::AliasConflict, message)
    } else {
        Problem::error(Code::AliasConflict, format!("{message}, and they disagree"))
    };
    reading.report(
        problem
            .at(new.location, format!("{} says {new_text}", new.key))
            .related(old.location, format!("{} says {old_text}", old.key))
            .hint(format!("keep one of {} and {}", old.key, new.key)),
    );
}

/// Declares a block: a struct whose fields know their keys, aliases and documentation, and parts flattened into it.
#[doc(hidden)]
#[macro_export]
macro_rules! __block {
    (
        $(#[doc = $block_doc:literal])+
        pub struct $name:ident as $title:literal {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $key:literal $(| $alias:literal)*,)*
            $(..$part:ident: $part_type:ty,)*
        }
    ) => {
        $(#[doc = $block_doc])+
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: Option<$crate::read::At<$type>>,)*
            $(pub $part: $part_type,)*
            /// Keys that are there with a value nobody can use, or misspelt: reported, and not missing.
            pub broken: Vec<&'static str>,
        }

        impl $crate::read::Block for $name {
            fn info() -> &'static $crate::read::BlockInfo {
                static INFO: std::sync::LazyLock<$crate::read::BlockInfo> = std::sync::LazyLock::new(|| {
                    #[allow(unused_mut, reason = "a block without parts has nothing to add")]
                    let mut keys = vec![$($crate::read::KeyInfo {
                        name: $key,
                        aliases: vec![$($alias),*],
                        doc: [$($doc),+].map(str::trim).join("\n"),
                        shape: <$type as $crate::read::Value>::shape(),
                    }),*];
                    $(keys.extend_from_slice(&<$part_type as $crate::read::Block>::info().keys);)*
                    let doc = [$($block_doc),+].map(str::trim).join("\n");
                    $crate::read::BlockInfo { name: $title, doc, keys }
                });
                &INFO
            }

            fn take(
                &mut self,
                key: &str,
                found: &$crate::read::Found<'_>,
                reading: &mut $crate::read::Reading<'_>,
            ) -> bool {
                $(if let Some(key) = [$key $(, $alias)*].into_iter().find(|name| *name == key) {
                    if !$crate::read::take_field(&mut self.$field, key, found, reading) {
                        self.broken.push($key);
                    }
                    return true;
                })*
                $(if self.$part.take(key, found, reading) { return true; })*
                false
            }

            fn broken(&mut self) -> &mut Vec<&'static str> {
                &mut self.broken
            }

            fn shown(&self, key: &str) -> Option<$crate::read::Shown> {
                $(if [$key $(, $alias)*].contains(&key) {
                    return self.$field.as_ref().map($crate::read::show_field);
                })*
                $(if let Some(shown) = self.$part.shown(key) { return Some(shown); })*
                None
            }
        }

        impl $crate::read::Value for $name {
            fn read(
                node: &talmox_yaml::Node,
                reading: &mut $crate::read::Reading<'_>,
            ) -> Option<Self> {
                $crate::read::read_block(node, reading, &mut |_, _, _| false)
            }

            fn shape() -> $crate::read::Shape {
                $crate::read::Shape::Block(<Self as $crate::read::Block>::info().clone())
            }

            fn show(&self) -> String {
                $crate::read::show_block(self)
            }
        }
    };
}

pub use __block as block;

#[doc(hidden)]
pub fn show_field<T: Value>(at: &At<T>) -> Shown {
    Shown { text: at.value.show(), location: at.location, key: at.key }
}

/// A block on one line, in the order its keys are declared.
pub fn show_block<B: Block>(block: &B) -> String {
    let pairs: Vec<String> = B::info()
        .keys
        .iter()
        .filter_map(|key| Some(format!("{}: {}", key.name, block.shown(key.name)?.text)))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}
