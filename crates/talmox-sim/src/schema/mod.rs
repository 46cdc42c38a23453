//! Parameters: what an endpoint takes, and what the server says when it gets something else.

mod check;
mod formats;
mod properties;
mod table;

use std::collections::BTreeMap;

use regex_lite::Regex;

pub(crate) use check::{Args, UNKNOWN, normal_form, validate};
pub(crate) use formats::{is_tag, split_list};
pub(crate) use properties::{Parsed, parse_as, print};
pub(crate) use table::{Route, cpu_models, route_for, routes, vm_option};

/// Reasons by parameter, as in the `errors` of a reply.
pub(crate) type Errors = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int,
    Number,
    Text,
    List,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int => "integer",
            Self::Number => "number",
            Self::Text => "string",
            Self::List => "array",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Prop {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
    /// This key of a property string may stand without its name.
    pub(crate) default_key: bool,
    /// Another name of this key.
    pub(crate) alias: Option<String>,
    /// The key's own name is the value of this other key (`virtio=MAC` is `model=virtio,macaddr=MAC`).
    pub(crate) key_alias: Option<String>,
    pub(crate) format: Option<String>,
    /// Name of the property-string format of the value.
    pub(crate) properties: Option<String>,
    pub(crate) items: Option<String>,
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
    pub(crate) min_len: Option<usize>,
    pub(crate) max_len: Option<usize>,
    pub(crate) pattern: Option<Regex>,
    pub(crate) values: Vec<String>,
    pub(crate) requires: Option<String>,
}

/// The keys of one property string.
#[derive(Debug, Default)]
pub(crate) struct Format {
    pub(crate) props: BTreeMap<String, Prop>,
}

impl Format {
    pub(crate) fn default_key(&self) -> Option<&str> {
        self.props.values().find(|prop| prop.default_key).map(|prop| prop.name.as_str())
    }
}
