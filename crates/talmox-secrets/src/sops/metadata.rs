//! The `sops` block: who can read the file, what is encrypted, and the MAC.

use super::error::ParseError;
use super::selection::Selection;
use super::tree::{Data, Entry, Mapping, Part, Scalar, Value, find};
use super::{FORMAT_VERSION, timestamp};

/// The name of the block.
pub(super) const BLOCK: &str = "sops";

/// Kinds of keys a file can be encrypted for beside age.
const OTHER_KINDS: [&str; 6] = ["kms", "gcp_kms", "hckms", "azure_kv", "hc_vault", "pgp"];

/// The data key for one recipient.
#[derive(Clone, Debug)]
pub(super) struct AgeKey {
    pub(super) recipient: String,
    /// An age file as text.
    pub(super) encrypted: String,
}

/// Keys of which any one opens the group's part of the data key.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) age: Vec<AgeKey>,
    pub(super) others: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(super) struct Metadata {
    /// One group has the whole key; several have parts of it.
    pub(super) groups: Vec<Group>,
    /// How many groups it takes.
    pub(super) threshold: usize,
    pub(super) last_modified: String,
    pub(super) mac: String,
    pub(super) selection: Selection,
    pub(super) mac_only_encrypted: bool,
    /// Keys of the block nobody here knows: a file that has some is not written again.
    pub(super) unknown: Vec<String>,
}

/// Takes the block out of every document; that of the first counts.
pub(super) fn extract(documents: &mut [Mapping]) -> Result<Metadata, ParseError> {
    let mut block = None;
    for (index, document) in documents.iter_mut().enumerate() {
        let is_block = |part: &Part<Entry>| matches!(part, Part::Member(entry) if entry.key == BLOCK);
        while let Some(at) = document.iter().position(is_block) {
            if let Part::Member(entry) = document.remove(at)
                && index == 0
            {
                block = Some(entry.value);
            }
        }
    }
    match block {
        Some(Value::Mapping(block)) => Metadata::read(&block),
        Some(Value::Scalar(_) | Value::Sequence(_)) | None => Err(ParseError::NotSops),
    }
}

impl Metadata {
    pub(super) fn new(age: Vec<AgeKey>, selection: Selection, mac_only_encrypted: bool) -> Self {
        Self {
            groups: vec![Group { age, others: Vec::new() }],
            threshold: 1,
            last_modified: String::new(),
            mac: String::new(),
            selection,
            mac_only_encrypted,
            unknown: Vec::new(),
        }
    }

    fn read(block: &Mapping) -> Result<Self, ParseError> {
        let wrong = |field: &str, message: &str| ParseError::Metadata {
            field: field.to_owned(),
            message: message.to_owned(),
        };
        let modified = text(block, "lastmodified").ok_or_else(|| wrong("lastmodified", "is missing"))?;
        let last_modified =
            timestamp::to_the_second(&modified).ok_or_else(|| wrong("lastmodified", "is no time"))?;
        let mac =
            text(block, "mac").filter(|mac| !mac.is_empty()).ok_or_else(|| wrong("mac", "is missing"))?;
        let whole = group(block);
        let groups =
            if whole.age.is_empty() && whole.others.is_empty() { groups(block) } else { vec![whole] };
        if groups.is_empty() {
            return Err(wrong("age", "there are no recipients"));
        }
        let threshold = match find(block, "shamir_threshold") {
            Some(Value::Scalar(Scalar { data: Data::Integer(number), .. })) => {
                usize::try_from(*number).unwrap_or(0)
            }
            _ => 0,
        };
        let threshold = if threshold == 0 { groups.len() } else { threshold };
        Ok(Self {
            groups,
            threshold,
            last_modified,
            mac,
            selection: selection(block)?,
            mac_only_encrypted: is_true(find(block, "mac_only_encrypted")),
            unknown: unknown(block),
        })
    }

    /// The kinds of keys beside age, each once.
    pub(super) fn other_kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<&'static str> =
            self.groups.iter().flat_map(|group| group.others.clone()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    pub(super) fn recipients(&self) -> Vec<String> {
        self.groups.iter().flat_map(|group| group.age.iter().map(|key| key.recipient.clone())).collect()
    }

    /// The block as SOPS writes it. Only files of one group, with age alone, are written.
    pub(super) fn to_entry(&self) -> Entry {
        let member = |key: &str, value: Value| Part::Member(Entry { key: key.to_owned(), value });
        let text = |key: &str, text: &str| member(key, Value::Scalar(Scalar::text(text)));
        let age = self.groups.iter().flat_map(|group| &group.age).map(|key| {
            Part::Member(Value::Mapping(vec![text("enc", &key.encrypted), text("recipient", &key.recipient)]))
        });
        let (name, pattern) = self.selection.name_and_text();
        let mut block = vec![
            member("age", Value::Sequence(age.collect())),
            text("lastmodified", &self.last_modified),
            text("mac", &self.mac),
            text(name, pattern),
            text("version", FORMAT_VERSION),
        ];
        if self.mac_only_encrypted {
            let yes = Value::Scalar(Scalar::made(Data::Bool(true)));
            block.insert(3, member("mac_only_encrypted", yes));
        }
        Entry { key: BLOCK.to_owned(), value: Value::Mapping(block) }
    }
}

fn text(block: &Mapping, key: &str) -> Option<String> {
    match find(block, key)? {
        Value::Scalar(scalar) => match &scalar.data {
            Data::Text(text) | Data::Time(text) => Some(text.clone()),
            Data::Null | Data::Bytes(_) | Data::Integer(_) | Data::Float(_) | Data::Bool(_) => None,
        },
        Value::Mapping(_) | Value::Sequence(_) => None,
    }
}

fn is_true(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Scalar(Scalar { data: Data::Bool(true), .. })))
}

fn members(block: &Mapping, key: &str) -> Vec<Mapping> {
    let Some(Value::Sequence(items)) = find(block, key) else { return Vec::new() };
    let mapping = |part: &Part<Value>| match part {
        Part::Member(Value::Mapping(mapping)) => Some(mapping.clone()),
        Part::Member(_) | Part::Comment(_) => None,
    };
    items.iter().filter_map(mapping).collect()
}

fn group(block: &Mapping) -> Group {
    let age = members(block, "age").into_iter().filter_map(|key| {
        Some(AgeKey { recipient: text(&key, "recipient")?, encrypted: text(&key, "enc")? })
    });
    let others = OTHER_KINDS.into_iter().filter(|kind| !members(block, kind).is_empty());
    Group { age: age.collect(), others: others.collect() }
}

fn groups(block: &Mapping) -> Vec<Group> {
    members(block, "key_groups").iter().map(group).collect()
}

fn selection(block: &Mapping) -> Result<Selection, ParseError> {
    let mut found = None;
    for name in Selection::NAMES {
        let Some(pattern) = text(block, name).filter(|text| !text.is_empty()) else { continue };
        let wrong = |message: String| ParseError::Metadata { field: name.to_owned(), message };
        if found.is_some() {
            return Err(wrong(
                "a file has one rule of what is encrypted, and this one has several".to_owned(),
            ));
        }
        found = Selection::of(name, &pattern).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(found.unwrap_or_default())
}

fn unknown(block: &Mapping) -> Vec<String> {
    let known = |key: &str| {
        ["age", "key_groups", "shamir_threshold", "lastmodified", "mac", "mac_only_encrypted", "version"]
            .contains(&key)
            || OTHER_KINDS.contains(&key)
            || Selection::NAMES.contains(&key)
    };
    let key = |part: &Part<Entry>| match part {
        Part::Member(entry) if !known(&entry.key) => Some(entry.key.clone()),
        Part::Member(_) | Part::Comment(_) => None,
    };
    block.iter().filter_map(key).collect()
}
