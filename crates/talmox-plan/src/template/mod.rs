//! Templates: what a description asks for, which of those that are there are ours, and which somebody else made.

mod digest;
mod managed;
mod named;
mod own;

pub use digest::{image_digest, settings_digest};
pub use managed::{boot_iso, import_image, managed_template, uses_managed_template, wanted_templates};
pub use named::{NamedTemplate, Unusable, described_template, is_template_in_use, named_templates};
pub use own::{OwnTemplate, TemplateState, outdated, own_templates};
