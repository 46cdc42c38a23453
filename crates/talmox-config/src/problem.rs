//! What is wrong with a description.

use crate::source::Location;

/// A mistake, a doubt or a remark, with its place and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    pub severity: Severity,
    pub message: String,
    pub place: Option<Place>,
    /// Other places that matter, each with what is there.
    pub related: Vec<(Location, String)>,
    pub hint: Option<String>,
    /// Places whose text must not be shown, because it may be a secret.
    pub concealed: Vec<Location>,
    /// The innermost key whose value it is about.
    pub key: Option<&'static str>,
}

/// Where a problem is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a text, with a few words beside the mark.
    Text(Location, String),
    /// A file as a whole: one that is missing or cannot be read as text.
    File { name: String, line: usize, column: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is done before it is corrected.
    Error,
    /// Done as written; probably not what was meant.
    Warning,
    /// Shown on request only.
    Note,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl Problem {
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, message.into())
    }

    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, message.into())
    }

    pub fn note(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Note, message.into())
    }

    fn new(code: Code, severity: Severity, message: String) -> Self {
        Self {
            code,
            severity,
            message,
            place: None,
            related: Vec::new(),
            hint: None,
            concealed: Vec::new(),
            key: None,
        }
    }

    /// The place in a text, if it has one.
    pub(crate) fn location(&self) -> Option<Location> {
        match &self.place {
            Some(Place::Text(location, _)) => Some(*location),
            Some(Place::File { .. }) | None => None,
        }
    }

    /// Names the key whose value this is about, unless one further in was named already.
    pub(crate) fn name_key(&mut self, key: &'static str) {
        let about_a_value =
            matches!(self.code, Code::WrongType | Code::OutOfRange | Code::InvalidValue | Code::YamlTrap);
        if self.key.is_none() {
            self.key = Some(key);
            if about_a_value {
                self.message = format!("{key}: {}", self.message);
            }
        }
    }

    #[must_use]
    pub fn at(mut self, location: Location, label: impl Into<String>) -> Self {
        self.place = Some(Place::Text(location, label.into()));
        self
    }

    #[must_use]
    pub fn in_file(mut self, name: impl Into<String>, line: usize, column: usize) -> Self {
        self.place = Some(Place::File { name: name.into(), line, column });
        self
    }

    #[must_use]
    pub fn related(mut self, location: Location, label: impl Into<String>) -> Self {
        self.related.push((location, label.into()));
        self
    }

    #[must_use]
    pub fn conceal(mut self, location: Location) -> Self {
        self.concealed.push(location);
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Code {
    /// Whether a whole file could not be read because of it, so that what follows from its absence is no news.
    pub(crate) fn is_fatal(self) -> bool {
        use Code as C;
        matches!(
            self,
            C::FileMissing
                | C::FileUnreadable
                | C::FileTooLarge
                | C::FileEmpty
                | C::FileFormat
                | C::NotText
                | C::YamlSyntax
                | C::YamlTab
                | C::YamlAlias
                | C::YamlDepth
                | C::YamlKey
        )
    }
}

/// Defines the kinds of problem: a variant, the name in JSON output, and a sentence for the reference.
macro_rules! codes {
    ($($variant:ident, $id:literal, $meaning:literal;)+) => {
        /// The kind of a problem; its name is stable and can be relied on by programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($variant,)+ }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            pub fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)+ }
            }

            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }
        }
    };
}

codes! {
    MoreProblems, "more-problems", "There are more problems than are shown; `more` says how many.";
    FileMissing, "file-missing", "A file or folder that was named does not exist, or a folder holds no description.";
    FileUnreadable, "file-unreadable", "A file exists and cannot be read, or is not a file.";
    FileTooLarge, "file-too-large", "A file is larger than any description; nothing of it was read.";
    FileEmpty, "file-empty", "A file holds no value.";
    FileFormat, "file-format", "A file is of a format that is not read here, such as cluster.toml.";
    NotText, "not-text", "A file is not UTF-8 text.";
    YamlSyntax, "yaml-syntax", "A file is not valid YAML.";
    YamlTab, "yaml-tab", "A line is indented with a tab; YAML allows only blanks.";
    YamlAlias, "yaml-alias", "An alias without its anchor, or aliases that would unfold without end.";
    YamlDepth, "yaml-depth", "A file nests deeper than any description does.";
    YamlKey, "yaml-key", "A key is a list or a mapping.";
    YamlMerge, "yaml-merge", "A merge key (<<) that does not name a mapping.";
    YamlDocuments, "yaml-documents", "A file holds more than one YAML document.";
    YamlTrap, "yaml-trap", "A value that YAML readers understand differently, such as no, 010 or 1_000.";
    YamlTag, "yaml-tag", "An explicit YAML tag that means nothing here.";
    DuplicateKey, "duplicate-key", "A key stands twice in one mapping.";
    UnknownKey, "unknown-key", "A key that nothing reads.";
    KeyNotOurs, "key-not-ours", "A key of the cluster template that talmox leaves to others.";
    NoValue, "no-value", "A key without a value; it counts as not written.";
    MissingKey, "missing-key", "A key that is needed is not there.";
    WrongType, "wrong-type", "A value of the wrong type: a list where a number belongs.";
    OutOfRange, "out-of-range", "A number outside its range.";
    InvalidValue, "invalid-value", "A value that is not of the form its key wants.";
    AliasConflict, "alias-conflict", "One setting is given under two names, or in two places of equal rank.";
    PlainSecret, "plain-secret", "A secret in plain text where a reference to one belongs.";
    DuplicateName, "duplicate-name", "Two nodes or pools of one name.";
    DuplicateAddress, "duplicate-address", "Two nodes with one address.";
    DuplicateMac, "duplicate-mac", "Two network devices with one MAC address.";
    DuplicateVmId, "duplicate-vmid", "Two nodes with one VMID.";
    DuplicateSlot, "duplicate-slot", "Two disks or network devices of one node in one slot.";
    AddressOutside, "address-outside", "An address outside the network it must be in, or one no host can have.";
    AddressTaken, "address-taken", "A node has the address of the gateway or of the cluster's virtual address.";
    AddressFamily, "address-family", "Addresses of the wrong or of mismatched IP families.";
    NetworkOverlap, "network-overlap", "Node, pod and service networks overlap.";
    NetworkSize, "network-size", "A network that is not one, or has room for too few or too many.";
    ControlPlanes, "control-planes", "No control plane, or an even number of them.";
    Endpoint, "endpoint", "Several control planes without an address they share.";
    PoolTooSmall, "pool-too-small", "A node pool has fewer addresses than nodes.";
    VersionUnknown, "version-unknown", "A Talos version talmox does not know.";
    VersionPair, "version-pair", "A Kubernetes version the Talos version does not support.";
    Contract, "contract", "A Talos contract that does not fit the Talos version.";
    Hardware, "hardware", "Settings of a VM that exclude each other, such as a GPU on a machine type without PCIe.";
    VmIdRange, "vmid-range", "A range of VMIDs that is empty, too small, or overlaps the other one.";
    NoClusterUid, "no-cluster-uid", "Without cluster_uid the cluster cannot be told from another of its name.";
    Resources, "resources", "A node with fewer resources than Talos recommends.";
    ReferencedFile, "referenced-file", "A file the description names does not exist.";
    MachineConfig, "machine-config", "A node has no machine configuration: a patch does not apply, or Talos would refuse the result.";
    NetworkPlugin, "network-plugin", "Nothing brings a network for pods, or another plugin than the one the file has settings for.";
    UnknownField, "unknown-field", "A list of fields names one that does not exist.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_names_are_unique() {
        let mut ids: Vec<&str> = Code::ALL.iter().map(|code| code.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), Code::ALL.len());
    }
}
