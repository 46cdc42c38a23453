//! What can go wrong with a factory, and what to do about it.

use std::fmt;

use talmox_types::{SchematicId, excerpt};

use super::Address;

/// A request that failed: what for, where, why.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    /// What was tried: `register the schematic`.
    pub doing: String,
    /// Who was asked in the end; shown without its query.
    pub address: Address,
    pub kind: Box<ErrorKind>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no connection.
    Unreachable { reason: String },
    /// Nothing vouches for its certificate.
    Certificate { reason: String },
    /// It stayed silent for so long.
    Silent { seconds: u64 },
    /// The connection broke, or the body is shorter than was said.
    CutOff { reason: String },
    /// It has no such thing.
    NotFound { words: String },
    /// It refuses what was asked.
    Refused { status: u16, words: String },
    /// It wants to know who asks.
    Denied { status: u16, words: String },
    /// It cannot at the moment.
    Unavailable { status: u16, words: String },
    /// Its redirects lead nowhere.
    Redirect { reason: String },
    /// It answered something else than a factory does.
    Answer { reason: String },
    /// It calls the schematic differently.
    OtherId { ours: SchematicId, theirs: String },
    /// What was received could not be passed on.
    Write { reason: String },
}

impl ErrorKind {
    /// The same with something done to every text a server had a part in.
    fn map_texts(self, map: &dyn Fn(&str) -> String) -> Self {
        match self {
            Self::Unreachable { reason } => Self::Unreachable { reason: map(&reason) },
            Self::Certificate { reason } => Self::Certificate { reason: map(&reason) },
            Self::CutOff { reason } => Self::CutOff { reason: map(&reason) },
            Self::NotFound { words } => Self::NotFound { words: map(&words) },
            Self::Refused { status, words } => Self::Refused { status, words: map(&words) },
            Self::Denied { status, words } => Self::Denied { status, words: map(&words) },
            Self::Unavailable { status, words } => Self::Unavailable { status, words: map(&words) },
            Self::Redirect { reason } => Self::Redirect { reason: map(&reason) },
            Self::Answer { reason } => Self::Answer { reason: map(&reason) },
            Self::OtherId { ours, theirs } => Self::OtherId { ours, theirs: map(&theirs) },
            Self::Write { reason } => Self::Write { reason: map(&reason) },
            Self::Silent { seconds } => Self::Silent { seconds },
        }
    }

    /// Whether asking again may help.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::CutOff { .. } | Self::Unavailable { .. })
    }
}

impl Error {
    /// The words can come from anybody who answers at the address, and may repeat what it was asked with: an error holds
    /// them on one line, without characters that act on a terminal, and without the query, which may be a signature.
    pub(super) fn new(doing: &str, address: &Address, kind: ErrorKind) -> Self {
        let kind = kind.map_texts(&|text| address.without_query(&excerpt(text)));
        Self { doing: excerpt(doing), address: address.clone(), kind: Box::new(kind) }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> String {
        let host = &self.address.authority;
        match &*self.kind {
            ErrorKind::Unreachable { .. } => {
                format!("can {host} be reached from here? In a place without internet, set factory_url to a factory there")
            }
            ErrorKind::Certificate { .. } => {
                "add the authority that signed it to the system's, or name its file in SSL_CERT_FILE".to_owned()
            }
            ErrorKind::Silent { .. } => {
                "a factory makes an image when it is first asked for, which takes minutes: try again".to_owned()
            }
            ErrorKind::CutOff { .. } | ErrorKind::Unavailable { .. } => "try again in a while".to_owned(),
            ErrorKind::NotFound { .. } => {
                "is the Talos version one this factory has, and was the schematic registered with it?".to_owned()
            }
            ErrorKind::Refused { .. } => "the factory's own words above say what it dislikes".to_owned(),
            ErrorKind::Denied { .. } => {
                format!("{host} wants to know who asks; use a factory without log-in, or one that knows this host")
            }
            ErrorKind::Redirect { .. } | ErrorKind::Answer { .. } => {
                format!("is {host} an Image Factory? Check factory_url")
            }
            ErrorKind::OtherId { .. } => {
                "nothing was changed; use the id of the factory as schematic_id if you trust it, and report this".to_owned()
            }
            ErrorKind::Write { .. } => "is there room for the file?".to_owned(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doing, address, kind } = self;
        write!(f, "could not {doing} at {address}: {kind}")
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { reason } => write!(f, "it cannot be reached: {reason}"),
            Self::Certificate { reason } => write!(f, "its certificate is not trusted: {reason}"),
            Self::Silent { seconds } => write!(f, "no answer within {seconds} s"),
            Self::CutOff { reason } => write!(f, "the reply was cut off: {reason}"),
            Self::NotFound { words } => write!(f, "not found{}", quoted(words)),
            Self::Refused { status, words }
            | Self::Denied { status, words }
            | Self::Unavailable { status, words } => write!(f, "it answers {status}{}", quoted(words)),
            Self::Redirect { reason } | Self::Answer { reason } => f.write_str(reason),
            Self::OtherId { ours, theirs } => {
                write!(f, "the factory calls this schematic {theirs}, and by its bytes it is {ours}")
            }
            Self::Write { reason } => write!(f, "what was received could not be written: {reason}"),
        }
    }
}

fn quoted(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}
