//! What a behaviour is, and what proves it: both simulators have tables of them.

/// One behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    pub id: &'static str,
    pub sentence: &'static str,
    pub source: Source,
}

/// What proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Calls and replies of the genuine server code; the name of the group.
    Transcript(&'static str),
    /// A recording of a production server; the name of the file.
    Recorded(&'static str),
    /// What the API says of itself; the part of it.
    Schema(&'static str),
    /// Seen on the wire or the console, and written down; the section of the observations.
    Observed(&'static str),
    /// Test vectors of the genuine thing; the folder.
    Vectors(&'static str),
    /// The genuine program gives the same answers to the same script; its name.
    Compared(&'static str),
    /// Read in the sources, not seen on the wire; the section of the facts.
    Facts(&'static str),
    /// The same; the package, and the file in it.
    Sources(&'static str),
    /// Nothing proves it: a plausible answer where one is needed.
    Unproven,
}

impl Behaviour {
    pub const fn new(id: &'static str, sentence: &'static str, source: Source) -> Self {
        Self { id, sentence, source }
    }
}

impl Source {
    /// Is it seen on the wire, or at least read in the sources?
    pub fn is_proven(self) -> bool {
        self != Self::Unproven
    }

    /// What kind of proof it is.
    pub fn proof(&self) -> &'static str {
        match self {
            Self::Transcript(_) => "transcript",
            Self::Recorded(_) => "recorded",
            Self::Schema(_) => "schema",
            Self::Observed(_) => "observed",
            Self::Vectors(_) => "vectors",
            Self::Compared(_) => "compared",
            Self::Facts(_) => "facts",
            Self::Sources(_) => "sources",
            Self::Unproven => "unproven",
        }
    }

    /// Where to find it; empty if there is none.
    pub fn reference(&self) -> &'static str {
        match self {
            Self::Transcript(name)
            | Self::Recorded(name)
            | Self::Schema(name)
            | Self::Observed(name)
            | Self::Vectors(name)
            | Self::Compared(name)
            | Self::Facts(name)
            | Self::Sources(name) => name,
            Self::Unproven => "",
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Transcript(group) => write!(f, "transcript {group}"),
            Self::Recorded(file) => write!(f, "recorded {file}"),
            Self::Schema(part) => write!(f, "schema of {part}"),
            Self::Observed(section) => write!(f, "observed {section}"),
            Self::Vectors(folder) => write!(f, "vectors {folder}"),
            Self::Compared(program) => write!(f, "compared with {program}"),
            Self::Facts(section) => write!(f, "facts {section}"),
            Self::Sources(file) => write!(f, "sources {file}"),
            Self::Unproven => f.write_str("unproven"),
        }
    }
}
