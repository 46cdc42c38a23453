//! The types of storage, and what sets each of them apart.

use super::Storage;

/// What sets a type apart.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Volumes are files in folders; otherwise they are block devices.
    pub(crate) files: bool,
    /// All hosts see the same volumes, whatever the definition says.
    pub(crate) shared: bool,
    /// Contents it may hold, and those it holds if its definition names none.
    pub(crate) content: &'static [&'static str],
    pub(crate) default_content: &'static [&'static str],
    /// Formats of images, the usual one first.
    pub(crate) formats: &'static [&'static str],
    /// Sizes of images are multiples of this.
    pub(crate) grain: u64,
    /// Where its volumes lie, and the option that says so.
    pub(crate) place: Option<&'static str>,
    /// Options a definition must have.
    pub(crate) required: &'static [&'static str],
    /// Volumes take their whole size at once, unless the definition says `sparse`.
    pub(crate) thick: bool,
}

/// What a volume is, when somebody wants something made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The image of a template.
    Base,
    Current,
    Snapshot,
}

const ALL: &[&str] = &["images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import", "none"];
const FILES: &[&str] = &["vztmpl", "iso", "backup", "snippets", "import"];
const BLOCKS: &[&str] = &["images", "rootdir"];
const MEBIBYTE: u64 = 1 << 20;
/// Logical volumes consist of extents.
pub(crate) const EXTENT: u64 = 4 * MEBIBYTE;

const DIR: Kind = Kind {
    name: "dir",
    files: true,
    shared: false,
    content: ALL,
    default_content: &["images", "rootdir", "vztmpl", "iso", "backup", "snippets"],
    formats: &["raw", "qcow2", "vmdk"],
    grain: 1,
    place: Some("path"),
    required: &["path"],
    thick: false,
};

const KINDS: [Kind; 9] = [
    DIR,
    Kind { name: "nfs", shared: true, default_content: &["images"], required: &["server", "export"], ..DIR },
    Kind { name: "cifs", shared: true, default_content: &["images"], required: &["server", "share"], ..DIR },
    Kind { name: "btrfs", default_content: BLOCKS, formats: &["raw"], ..DIR },
    Kind {
        name: "cephfs",
        shared: true,
        content: FILES,
        default_content: &["backup"],
        formats: &["raw"],
        required: &[],
        ..DIR
    },
    Kind {
        name: "zfspool",
        files: false,
        content: BLOCKS,
        default_content: BLOCKS,
        formats: &["raw"],
        grain: MEBIBYTE,
        place: Some("pool"),
        required: &["pool"],
        thick: true,
        ..DIR
    },
    Kind {
        name: "lvm",
        files: false,
        content: BLOCKS,
        default_content: &["images"],
        formats: &["raw", "qcow2"],
        grain: EXTENT,
        place: None,
        required: &["vgname"],
        thick: true,
        ..DIR
    },
    Kind {
        name: "lvmthin",
        files: false,
        content: BLOCKS,
        default_content: BLOCKS,
        formats: &["raw"],
        grain: EXTENT,
        place: None,
        required: &["vgname", "thinpool"],
        ..DIR
    },
    Kind {
        name: "rbd",
        files: false,
        shared: true,
        content: BLOCKS,
        default_content: &["images"],
        formats: &["raw"],
        grain: MEBIBYTE,
        place: Some("pool"),
        required: &[],
        ..DIR
    },
];

impl Kind {
    /// The type of that name; those that are not simulated behave like the nearest that is.
    pub(crate) fn named(name: &str) -> &'static Self {
        let name = if name == "zfs" { "zfspool" } else { name };
        KINDS.iter().find(|kind| kind.name == name).unwrap_or(&KINDS[0])
    }

    /// All there are, for people to read.
    pub(crate) fn names() -> String {
        KINDS.map(|kind| kind.name).join(", ")
    }

    /// Can a linked clone be made of such a volume?
    pub(crate) fn links(&self, state: State, format: &str) -> bool {
        match (self.name, state) {
            ("lvm", _) => false,
            (_, State::Base) | ("rbd" | "lvmthin", State::Snapshot) => true,
            ("btrfs", State::Current | State::Snapshot) => format == "raw",
            (_, State::Current | State::Snapshot) => false,
        }
    }

    /// Can a full copy be made of it?
    pub(crate) fn copies(&self, state: State, format: &str) -> bool {
        match (self.name, state) {
            ("zfspool", State::Snapshot) => false,
            ("dir" | "nfs" | "cifs" | "lvm" | "cephfs", State::Snapshot) => format == "qcow2",
            (_, State::Base | State::Current | State::Snapshot) => true,
        }
    }

    pub(crate) fn snapshots(&self, format: &str) -> bool {
        match self.name {
            "dir" | "nfs" | "cifs" | "cephfs" | "lvm" => format == "qcow2",
            _ => true,
        }
    }

    /// Can an image become the base of others?
    pub(crate) fn makes_bases(&self) -> bool {
        self.name != "lvm"
    }

    /// Does the name of a linked clone tell its base?
    pub(crate) fn names_bases(&self, base_format: &str) -> bool {
        match self.name {
            "lvmthin" => false,
            "btrfs" => base_format != "raw",
            _ => true,
        }
    }

    pub(crate) fn round(&self, size: u64) -> u64 {
        size.div_ceil(self.grain) * self.grain
    }
}

impl Storage {
    pub(crate) fn traits(&self) -> &'static Kind {
        Kind::named(&self.kind)
    }

    pub(crate) fn holds_files(&self) -> bool {
        self.traits().files
    }

    /// Do its volumes take their whole size at once?
    pub(crate) fn is_thick(&self) -> bool {
        self.traits().thick && self.options.get("sparse").is_none_or(|flag| flag != "1")
    }

    fn option(&self, name: &str) -> &str {
        self.options.get(name).map_or(self.place.as_str(), String::as_str)
    }

    /// The volume group of logical volumes.
    pub(crate) fn volume_group(&self) -> &str {
        self.option("vgname")
    }

    pub(crate) fn thin_pool(&self) -> &str {
        self.option("thinpool")
    }

    /// The format of images for which nobody asked for another.
    pub(crate) fn default_format(&self) -> &str {
        let asked = self.options.get("format").map(String::as_str);
        asked.filter(|format| self.traits().formats.contains(format)).unwrap_or(self.traits().formats[0])
    }

    /// The format a copy gets: the one asked for, or the source's, if there is such a thing here.
    pub(crate) fn copy_format<'a>(&'a self, asked: Option<&'a str>, source: &'a str) -> &'a str {
        // A copy to blocks is raw unless somebody asks for more.
        let hint = if self.holds_files() { source } else { self.default_format() };
        let wanted = asked.unwrap_or(hint);
        if self.traits().formats.contains(&wanted) { wanted } else { self.default_format() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_can_hold_what_it_holds_by_default() {
        for kind in &KINDS {
            assert!(kind.default_content.iter().all(|name| kind.content.contains(name)), "{}", kind.name);
            assert_eq!(kind.files, kind.place == Some("path"), "{}", kind.name);
        }
    }

    #[test]
    fn linked_clones_need_bases_nearly_everywhere() {
        let of = |name: &str, state| Kind::named(name).links(state, "raw");
        for name in ["dir", "nfs", "cifs", "zfspool", "rbd", "lvmthin", "btrfs"] {
            assert!(of(name, State::Base), "{name}");
        }
        assert!(!of("lvm", State::Base) && !of("zfspool", State::Snapshot) && of("rbd", State::Snapshot));
        assert!(of("btrfs", State::Current) && !of("dir", State::Current) && !of("rbd", State::Current));
    }

    #[test]
    fn copies_take_a_format_the_target_has() {
        let storage = |kind: &str| Storage { kind: kind.into(), ..Storage::default() };
        assert_eq!(storage("dir").copy_format(None, "qcow2"), "qcow2");
        assert_eq!(storage("zfspool").copy_format(Some("qcow2"), "qcow2"), "raw");
        assert_eq!(storage("btrfs").copy_format(None, "qcow2"), "raw");
        assert_eq!(storage("lvm").copy_format(Some("qcow2"), "raw"), "qcow2");
    }
}
