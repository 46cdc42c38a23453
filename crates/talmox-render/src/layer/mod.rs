//! What the description says, as documents in the layout of the cluster's contract.
//!
//! Where a contract has a document for something, that is used; before, the section of the document with `machine` and
//! `cluster` it took the place of.

mod interfaces;
mod kubernetes;
mod links;
mod machine;
mod network;

use talmox_machine::{Map, Patch, Value};
use talmox_types::Contract;
use talmox_types::desired::Role;

use crate::inputs::Inputs;
use crate::render::RenderError;

/// Documents that are merged over what `talosctl` would make.
#[derive(Default)]
pub(crate) struct Layer {
    /// The document with `machine` and `cluster`.
    main: Map,
    /// The others, by kind.
    documents: Vec<(&'static str, Map)>,
    /// What could not be said because it is not known yet.
    pub(crate) left_out: Vec<String>,
}

impl Layer {
    /// What an inputs' description says of its node.
    pub(crate) fn of(inputs: &Inputs<'_>) -> Result<Self, RenderError> {
        let mut layer = Self::default();
        network::add(&mut layer, inputs)?;
        machine::add(&mut layer, inputs);
        kubernetes::add(&mut layer, inputs)?;
        Ok(layer)
    }

    /// As a patch.
    pub(crate) fn to_patch(&self) -> Result<Patch, RenderError> {
        let main = (!self.main.is_empty()).then(|| self.main.clone());
        let document = |(kind, body): &(&str, Map)| {
            let head = Map::new().with("apiVersion", "v1alpha1").with("kind", *kind);
            body.iter().fold(head, |map, (key, value)| map.with(key, value.clone()))
        };
        let documents = main.into_iter().chain(self.documents.iter().map(document)).map(Value::Map);
        Patch::from_values("the description", documents.collect()).map_err(RenderError::InvalidPatch)
    }

    /// Sets a field of the document with `machine` and `cluster`.
    fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        set(&mut self.main, path, value.into());
    }

    fn document(&mut self, kind: &'static str, body: Map) {
        self.documents.push((kind, body));
    }

    /// Takes a document out that is there by default.
    fn delete(&mut self, kind: &'static str) {
        self.document(kind, Map::new().with("$patch", "delete"));
    }
}

fn set(map: &mut Map, path: &[&str], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        map.set(*first, value);
        return;
    }
    if !map.contains(first) {
        map.set(*first, Map::new());
    }
    if let Some(Value::Map(inner)) = map.get_mut(first) {
        set(inner, rest, value);
    }
}

/// Whether the cluster's contract is at least 1.`minor`.
fn since(inputs: &Inputs<'_>, minor: u16) -> bool {
    inputs.desired.talos.contract >= Contract::new(1, minor)
}

fn is_control_plane(inputs: &Inputs<'_>) -> bool {
    inputs.node.role == Role::Controller
}

fn number(value: impl Into<i128>) -> Value {
    Value::Integer(value.into())
}

fn texts<T: ToString>(items: impl IntoIterator<Item = T>) -> Value {
    Value::List(items.into_iter().map(|item| Value::Text(item.to_string())).collect())
}

fn maps(items: impl IntoIterator<Item = Map>) -> Value {
    Value::List(items.into_iter().map(Value::Map).collect())
}

/// A text as a literal of the language selectors are written in.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
