//! What a SOPS file says: documents of mappings, with comments among their members.

use talmox_yaml::Style;
use zeroize::Zeroize as _;

/// A member of a collection, or a comment before or behind one.
#[derive(Clone, PartialEq)]
pub(super) enum Part<T> {
    Comment(Comment),
    Member(T),
}

/// A line of comment, without its `#`.
#[derive(Clone)]
pub(super) struct Comment {
    pub(super) text: String,
    /// It stands behind the member that follows it in the list, on the same line.
    pub(super) inline: bool,
}

#[derive(Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: Value,
}

pub(super) type Mapping = Vec<Part<Entry>>;

#[derive(Clone, PartialEq)]
pub(super) enum Value {
    Mapping(Mapping),
    Sequence(Vec<Part<Value>>),
    Scalar(Scalar),
}

/// A scalar: what it means, and how it was written, which is kept for what is not encrypted.
#[derive(Clone)]
pub(super) struct Scalar {
    pub(super) data: Data,
    pub(super) written: Option<(String, Style)>,
    /// Whether it was encrypted in the file it came from.
    pub(super) sealed: bool,
}

/// What a scalar means to SOPS.
#[derive(Clone)]
pub(super) enum Data {
    Null,
    Text(String),
    /// Text that is not UTF-8.
    Bytes(Vec<u8>),
    Integer(i64),
    Float(f64),
    Bool(bool),
    /// A point in time, as RFC 3339 has it.
    Time(String),
}

impl Scalar {
    pub(super) fn made(data: Data) -> Self {
        Self { data, written: None, sealed: false }
    }

    /// What was encrypted in a file.
    pub(super) fn opened(data: Data) -> Self {
        Self { data, written: None, sealed: true }
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::made(Data::Text(text.into()))
    }
}

impl Data {
    /// What goes into the MAC, and into the cipher. Floats are as Go prints them without exponents.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Null => Vec::new(),
            Self::Text(text) | Self::Time(text) => text.clone().into_bytes(),
            Self::Bytes(bytes) => bytes.clone(),
            Self::Integer(number) => number.to_string().into_bytes(),
            Self::Float(number) if number.is_nan() => b"NaN".to_vec(),
            Self::Float(number) if number.is_infinite() => {
                if *number > 0.0 {
                    b"+Inf".to_vec()
                } else {
                    b"-Inf".to_vec()
                }
            }
            Self::Float(number) => number.to_string().into_bytes(),
            Self::Bool(true) => b"True".to_vec(),
            Self::Bool(false) => b"False".to_vec(),
        }
    }
}

/// By meaning: how a value was written is no part of it.
impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

/// Numbers that are not any number are equal here, and text of any bytes is text.
impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        let kind = |data: &Self| match data {
            Self::Null => 0,
            Self::Text(_) | Self::Bytes(_) => 1,
            Self::Integer(_) => 2,
            Self::Float(_) => 3,
            Self::Bool(_) => 4,
            Self::Time(_) => 5,
        };
        kind(self) == kind(other) && self.bytes() == other.bytes()
    }
}

/// Where a comment stands is part of it, on which side is not: SOPS itself forgets it.
impl PartialEq for Comment {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Drop for Comment {
    fn drop(&mut self) {
        self.text.zeroize();
    }
}

impl Drop for Scalar {
    fn drop(&mut self) {
        if let Some((text, _)) = &mut self.written {
            text.zeroize();
        }
        match &mut self.data {
            Data::Text(text) | Data::Time(text) => text.zeroize(),
            Data::Bytes(bytes) => bytes.zeroize(),
            Data::Integer(number) => *number = 0,
            Data::Float(number) => *number = 0.0,
            Data::Null | Data::Bool(_) => {}
        }
    }
}

/// The member of a key.
pub(super) fn find<'a>(mapping: &'a Mapping, key: &str) -> Option<&'a Value> {
    mapping.iter().find_map(|part| match part {
        Part::Member(entry) if entry.key == key => Some(&entry.value),
        Part::Member(_) | Part::Comment(_) => None,
    })
}
