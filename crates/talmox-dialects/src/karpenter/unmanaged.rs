//! `ProxmoxUnmanagedTemplate`: a template by name, by tags, or by both.

use talmox_config::read::{Reading, Text, Value as _, block};
use talmox_config::{Code, Problem};
use talmox_types::Tag;
use talmox_types::desired::TemplateRef;

use super::Reference;
use super::manifest::Found;
use super::values::one_region;
use crate::Listed;

block! {
    /// What a `ProxmoxUnmanagedTemplate` says.
    pub struct UnmanagedSpec as "the spec of a ProxmoxUnmanagedTemplate" {
        /// The Proxmox cluster it is in.
        region: Text = "region",
        /// The template's name, the same on every host.
        template_name: Text = "templateName",
        /// Tags it must have; it may have others.
        tags: Listed<Tag, 1, 10> = "tags",
    }
}

pub(super) fn read(found: &Found, reading: &mut Reading<'_>) -> Option<Reference> {
    let spec = UnmanagedSpec::read(&found.spec, reading)?;
    let UnmanagedSpec { region, template_name, tags, broken } = &spec;
    one_region(region.as_ref(), reading);
    if !broken.is_empty() {
        return None;
    }
    let name = template_name.as_ref().map(|at| at.value.0.clone());
    let tags = tags.as_ref().map(|tags| tags.value.iter().cloned().collect());
    let template = match (name, tags) {
        (Some(name), None) => TemplateRef::Name(name),
        (name, Some(tags)) => TemplateRef::Tagged { name, tags },
        (None, None) => {
            let location = reading.location(&found.spec);
            reading.report(
                Problem::error(Code::MissingKey, "no template is named")
                    .at(location, "neither templateName nor tags")
                    .hint("templateName: talos, or tags: [production], or both"),
            );
            return None;
        }
    };
    Some(Reference { name: found.name.value.clone(), template })
}
