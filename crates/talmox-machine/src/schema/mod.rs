//! What Talos knows: every document, its fields in the order Talos prints them, and how each is read, merged and printed.
//!
//! Talos decodes a config into typed structures, merges those and prints them again, so what a patch does depends on the
//! type of the field it touches: an empty text says nothing in one place and is a value in another, a list is appended
//! here and replaced there. These tables hold that knowledge; reading, merging, deleting, printing and masking are
//! each one walk along them.

mod block;
mod choices;
mod cluster;
mod common;
mod interfaces;
mod kinds;
mod kubernetes;
mod machine;
mod network;
mod runtime;

/// The `apiVersion` of every document, and the `version` of the one without a kind.
pub(crate) const API_VERSION: &str = "v1alpha1";

/// The first minor version of Talos 1 whose documents are described here.
pub(crate) const OLDEST_MINOR: u16 = 8;

/// A kind of document.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Empty for the document that has `machine` and `cluster`.
    pub name: &'static str,
    pub body: &'static Struct,
    /// Whether documents of this kind are told apart by `name`.
    pub named: bool,
    /// Whether only control planes may have it.
    pub control_plane: bool,
    /// Whether it configures the link it is named after; a link is configured by one document.
    pub link: bool,
    /// Kinds that must not have a document of the same name.
    pub excludes: &'static [&'static str],
    /// The minor version of Talos 1 that brought it.
    pub since: u16,
}

impl Kind {
    const fn new(name: &'static str, body: &'static Struct, since: u16) -> Self {
        Self { name, body, named: false, control_plane: false, link: false, excludes: &[], since }
    }

    const fn named(self) -> Self {
        Self { named: true, ..self }
    }

    const fn control_plane(self) -> Self {
        Self { control_plane: true, ..self }
    }

    const fn link(self) -> Self {
        Self { link: true, ..self }
    }

    const fn excludes(self, kinds: &'static [&'static str]) -> Self {
        Self { excludes: kinds, ..self }
    }
}

/// The document without a kind.
pub(crate) static V1ALPHA1: Kind = Kind::new("", &cluster::V1ALPHA1, OLDEST_MINOR);

/// The kind of that name.
pub(crate) fn kind(name: &str) -> Option<&'static Kind> {
    kinds::KINDS.iter().find(|kind| kind.name == name)
}

/// All kinds that have a name.
pub(crate) fn kinds() -> &'static [Kind] {
    kinds::KINDS
}

/// A mapping with known keys.
#[derive(Debug)]
pub(crate) struct Struct {
    pub fields: &'static [Field],
    /// Whether it is replaced as a whole: a certificate never keeps the key of another.
    pub whole: bool,
    /// The fields that decide whether it is empty; all of them, where none is named.
    pub judged_by: &'static [&'static str],
}

impl Struct {
    const fn of(fields: &'static [Field]) -> Self {
        Self { fields, whole: false, judged_by: &[] }
    }

    const fn whole(fields: &'static [Field]) -> Self {
        Self { fields, whole: true, judged_by: &[] }
    }

    const fn judged_by(self, fields: &'static [&'static str]) -> Self {
        Self { judged_by: fields, ..self }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says something else of a field")]
pub(crate) struct Field {
    pub name: &'static str,
    pub kind: Type,
    /// Whether Talos tells "not given" from "given as zero, false or empty".
    pub pointer: bool,
    pub print: Print,
    /// Whether a list, mapping or object in a patch takes the place of the one that is there.
    pub replaced: bool,
    /// Whether it holds a secret and nothing else: masked in all that is shown, and a variable in patches that are written.
    pub secret: bool,
    /// Whether people write into it what they like, secrets too: masked where differences are shown.
    pub guarded: bool,
    /// An entry that is guarded, where the rest of the object is not.
    pub guarded_entry: Option<&'static str>,
    /// The minor version of Talos 1 that brought it, where that is later than its document.
    pub since: u16,
}

/// When a field is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Print {
    Always,
    /// Unless it is zero or empty.
    Filled,
    /// Also as an empty list, if that was given.
    Given,
}

impl Field {
    const fn new(name: &'static str, kind: Type, pointer: bool, print: Print) -> Self {
        let (replaced, secret, guarded, guarded_entry) = (false, false, false, None);
        Self { name, kind, pointer, print, replaced, secret, guarded, guarded_entry, since: 0 }
    }

    const fn replaced(self) -> Self {
        Self { replaced: true, ..self }
    }

    const fn given(self) -> Self {
        Self { print: Print::Given, ..self }
    }

    const fn secret(self) -> Self {
        Self { secret: true, ..self }
    }

    const fn guarded(self) -> Self {
        Self { guarded: true, ..self }
    }

    const fn guarding(self, entry: &'static str) -> Self {
        Self { guarded_entry: Some(entry), ..self }
    }

    const fn since(self, minor: u16) -> Self {
        Self { since: minor, ..self }
    }
}

const fn always(name: &'static str, kind: Type) -> Field {
    Field::new(name, kind, false, Print::Always)
}

const fn value(name: &'static str, kind: Type) -> Field {
    Field::new(name, kind, false, Print::Filled)
}

const fn pointer(name: &'static str, kind: Type) -> Field {
    Field::new(name, kind, true, Print::Always)
}

const fn optional(name: &'static str, kind: Type) -> Field {
    Field::new(name, kind, true, Print::Filled)
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    Text,
    /// A text that loses blank lines at its beginning.
    Manifest,
    Bool,
    /// With this many bits.
    Signed(u8),
    Unsigned(u8),
    /// Written as Go does: `1h0m0s`.
    Duration,
    Base64,
    HardwareAddress,
    Address,
    Prefix,
    AddressPort,
    /// Merged part by part: a patch without a path keeps the path that is there.
    Url,
    /// A CEL expression. What a patch does not repeat is gone.
    Expression,
    /// What a patch does not repeat is gone.
    ByteSize,
    /// In bytes or per cent.
    Size,
    /// Of a partition, printed in decimal units where that is exact.
    DiskSize,
    /// `>= 1TB`.
    SizeCondition,
    /// Printed as `0o644`.
    FileMode,
    /// A port, or two with a dash between.
    PortRange,
    RoutingTable,
    /// Arguments of a program, each a text or a list of texts.
    Arguments,
    /// A mapping of anything.
    Object,
    Choice(&'static Choice),
    List(&'static Type),
    /// A list whose items are found by a key.
    Keyed(&'static Struct, Key),
    Map(&'static Type),
    Struct(&'static Struct),
}

/// One of a few names.
#[derive(Debug)]
pub(crate) struct Choice {
    pub names: &'static [&'static str],
    /// The name that is the same as none, where there is one.
    pub zero: Option<&'static str>,
}

impl Choice {
    /// The release that brought a name, where it is newer than the field.
    pub(crate) fn since(name: &str) -> u16 {
        match name {
            "external" | "swapi" | "virtiofs" => 13,
            "btrfs" => 14,
            _ => OLDEST_MINOR,
        }
    }
}

/// How items of a list are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// By `interface`, else by an equal `deviceSelector`.
    Interface,
    VlanId,
    Name,
    MountPath,
    /// By `image`; the item is replaced, not merged.
    ReplaceImage,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sorted_by_name_and_unique() {
        let mut names: Vec<_> = kinds().iter().map(|kind| kind.name).collect();
        names.dedup();
        assert_eq!(names.len(), kinds().len());
        assert!(names.iter().all(|name| kind(name).is_some_and(|kind| kind.name == *name)));
    }

    #[test]
    fn a_named_kind_has_a_name_to_be_told_apart_by() {
        for kind in kinds().iter().filter(|kind| kind.named) {
            assert!(kind.body.field("name").is_some(), "{}", kind.name);
        }
    }

    #[test]
    fn kinds_that_exclude_each_other_exist() {
        for other in kinds().iter().flat_map(|kind| kind.excludes) {
            assert!(kind(other).is_some(), "{other}");
        }
    }
}
