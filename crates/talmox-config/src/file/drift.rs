//! What is done about differences, field by field.

use std::collections::BTreeMap;

use talmox_types::desired::DriftPolicy;
use talmox_yaml::{Node, NodeKind};

use super::NodeBlock;
use crate::UnknownField;
use crate::problem::{Code, Problem};
use crate::read::{Block as _, Reading, Shape, Value, choices, suggest};

choices! {
    DriftPolicy { "ignore" => Ignore, "show" => Show, "correct" => Correct }
}

/// What of a VM can differ without being a key of a node.
const ONLY_ON_PROXMOX: [&str; 5] = ["dns_servers", "efi_disk", "nic_model", "node_gateway", "serial0"];

/// The first name of a field whose difference can be left alone.
pub fn drift_field(name: &str) -> Result<&'static str, UnknownField> {
    let info = NodeBlock::info();
    if let Some(key) = info.key(name) {
        return Ok(key.name);
    }
    if let Some(own) = ONLY_ON_PROXMOX.into_iter().find(|own| *own == name) {
        return Ok(own);
    }
    let suggestion = suggest(name, info.names().chain(ONLY_ON_PROXMOX));
    Err(UnknownField { field: name.to_owned(), suggestion })
}

/// Policies by the first names of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift(pub BTreeMap<String, DriftPolicy>);

impl Value for Drift {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let NodeKind::Mapping(entries) = &node.kind else {
            reading.wrong_type(node, "a mapping of fields to ignore, show or correct");
            return None;
        };
        let mut read = BTreeMap::new();
        for entry in entries {
            let name = entry.key.as_scalar()?.text.as_str();
            let policy = DriftPolicy::read(&entry.value, reading);
            match drift_field(name) {
                Ok(field) => read.extend(policy.map(|policy| (field.to_owned(), policy))),
                Err(unknown) => {
                    let location = reading.location(&entry.key);
                    reading.report(unknown_field(&unknown).at(location, "no such field"));
                }
            }
        }
        (read.len() == entries.len()).then_some(Self(read))
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(DriftPolicy::shape()))
    }

    fn show(&self) -> String {
        show_drift(&self.0)
    }
}

/// Policies on one line.
pub(crate) fn show_drift(map: &BTreeMap<String, DriftPolicy>) -> String {
    let pairs: Vec<String> =
        map.iter().map(|(field, policy)| format!("{field}: {}", policy.show())).collect();
    format!("{{{}}}", pairs.join(", "))
}

/// A field nobody knows, with the one that was probably meant.
pub(crate) fn unknown_field(unknown: &UnknownField) -> Problem {
    let problem = Problem::error(Code::UnknownField, format!("{} is not a field of a node", unknown.field));
    match unknown.suggestion {
        Some(close) => problem.hint(format!("did you mean {close}?")),
        None => problem.hint("the keys of a node are the fields, such as vm_memory or tags"),
    }
}
