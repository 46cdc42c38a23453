//! Managed templates: what a description asks for, and which of those that are there are ours.

mod digest;
mod managed;
mod own;

pub use digest::{image_digest, settings_digest};
pub use managed::{boot_iso, import_image, managed_template, uses_managed_template, wanted_templates};
pub use own::{OwnTemplate, TemplateState, own_templates};
