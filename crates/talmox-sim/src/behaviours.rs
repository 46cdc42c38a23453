//! Where each behaviour of the simulator is known from.

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
    /// Request and reply pairs of the genuine server code; the name of the group.
    Transcript(&'static str),
    /// A recording of a production server; the name of the file.
    Recorded(&'static str),
    /// Read in the sources, not seen on the wire; the section of the facts.
    Facts(&'static str),
    /// Nothing proves it: a plausible answer where one is needed.
    Unproven,
}

/// The table.
pub fn all() -> &'static [Behaviour] {
    TABLE
}

const TABLE: &[Behaviour] = &[];
