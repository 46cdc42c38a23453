//! Which template a VM is cloned from.

use talmox_types::{Tag, VmId, desired::TemplateRef};
use talmox_yaml::{Node, NodeKind, PlainMeaning, Style};

use crate::problem::{Code, Problem};
use crate::read::{At, Int, OneOrMore, Reading, Shape, Text, Value, block};

block! {
    /// A template by what it carries: name and tags must all match. A VMID says it all and stands alone.
    pub struct TemplateBlock as "talos_template" {
        /// The template's name.
        name: Text = "name",
        /// Tags it must have; it may have others.
        tags: OneOrMore<Tag> = "tags",
        /// The template's VMID.
        vmid: Int<100, 999_999_999> = "vmid" | "vm_id" | "id",
    }
}

impl Value for TemplateRef {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        if let NodeKind::Mapping(_) = &node.kind {
            let block = TemplateBlock::read(node, reading)?;
            return from_block(&block, node, reading);
        }
        let Some(number) = number(node) else {
            return Text::read(node, reading).map(|text| Self::Name(text.0));
        };
        let id = u32::try_from(number).ok().and_then(|id| VmId::try_from(id).ok());
        if id.is_none() {
            let location = reading.location(node);
            reading.report(
                Problem::error(Code::OutOfRange, format!("{number} is not a VMID"))
                    .at(location, "not a VMID")
                    .hint("a number from 100 to 999999999, or the template's name"),
            );
        }
        id.map(Self::Id)
    }

    fn shape() -> Shape {
        Shape::Either(vec![
            Shape::Text { what: "the template's name", pattern: None },
            Shape::Integer { min: i64::from(VmId::MIN), max: i64::from(VmId::MAX) },
            TemplateBlock::shape(),
        ])
    }

    fn show(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Id(id) => id.to_string(),
            Self::Tagged { name, tags } => {
                let name = name.iter().map(|name| format!("name: {name}"));
                let tags: Vec<&str> = tags.iter().map(Tag::as_str).collect();
                let parts: Vec<String> = name.chain([format!("tags: [{}]", tags.join(", "))]).collect();
                format!("{{{}}}", parts.join(", "))
            }
        }
    }
}

/// A number names a VMID, in quotes too.
fn number(node: &Node) -> Option<i64> {
    let scalar = node.as_scalar()?;
    match scalar.meaning() {
        PlainMeaning::Integer(number) => Some(number),
        PlainMeaning::Text if scalar.style == Style::Quoted => scalar.text.parse().ok(),
        PlainMeaning::Text
        | PlainMeaning::Null
        | PlainMeaning::Bool(_)
        | PlainMeaning::Float
        | PlainMeaning::OldBool(_)
        | PlainMeaning::OldOctal
        | PlainMeaning::OldUnderscore
        | PlainMeaning::OldSexagesimal
        | PlainMeaning::OtherBase => None,
    }
}

fn from_block(block: &TemplateBlock, node: &Node, reading: &mut Reading<'_>) -> Option<TemplateRef> {
    let TemplateBlock { name, tags, vmid, broken } = block;
    if !broken.is_empty() {
        return None;
    }
    if let Some(vmid) = vmid {
        let other = name.as_ref().map(|at| at.location).or_else(|| tags.as_ref().map(|at| at.location));
        if let Some(other) = other {
            reading.report(
                Problem::error(
                    Code::InvalidValue,
                    "a VMID says which template it is; nothing else can stand beside it",
                )
                .at(other, "beside a VMID")
                .related(vmid.location, "the VMID")
                .hint("keep vmid, or name and tags"),
            );
            return None;
        }
        return VmId::try_from(vmid.value.to::<u32>()).ok().map(TemplateRef::Id);
    }
    let name = name.as_ref().map(|at| at.value.0.clone());
    let tags = tags.as_ref().map(|at| at.value.0.iter().map(|tag: &At<Tag>| tag.value.clone()).collect());
    match (name, tags) {
        (Some(name), None) => Some(TemplateRef::Name(name)),
        (name, Some(tags)) => Some(TemplateRef::Tagged { name, tags }),
        (None, None) => {
            let location = reading.location(node);
            reading.report(
                Problem::error(Code::InvalidValue, "no template is named")
                    .at(location, "neither name, tags nor vmid")
                    .hint("a name, a VMID, or a block like {name: talos, tags: [production]}"),
            );
            None
        }
    }
}
