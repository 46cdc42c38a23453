//! What was asked of whom, when, and what came back.

use std::fmt;

/// One call as the network saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Counted from 1.
    pub number: usize,
    /// Milliseconds since the cluster's hosts booted.
    pub at: u64,
    /// Whom the client asked, by the name it used: a host of Proxmox, or the address of a node.
    pub host: String,
    /// Of Proxmox and Kubernetes that of HTTP; of Talos `GET` for calls that only look, else `CALL`.
    pub method: &'static str,
    /// Path and query, without `/api2/json`; of Talos `/PACKAGE.SERVICE/METHOD`, and behind a question mark the
    /// kind of resource asked for and `maintenance`.
    pub path: String,
    pub end: End,
    /// A checksum over what was sent and what came back: bodies are secrets, and two runs must not differ in them.
    pub checksum: u64,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// There is no answer yet, or the client no longer waited for it.
    None,
    Answered {
        status: u16,
        at: u64,
    },
    Failed {
        reason: String,
        at: u64,
    },
}

impl Call {
    pub(crate) fn new(number: usize, at: u64, host: &str, method: &'static str, path: &str) -> Self {
        let path = path.strip_prefix("/api2/json").unwrap_or(path).to_owned();
        let host = host.to_owned();
        Self { number, at, host, method, path, end: End::None, checksum: EMPTY }
    }

    /// Takes bytes into the checksum (FNV-1a).
    pub(crate) fn stir(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.checksum = (self.checksum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn status(&self) -> Option<u16> {
        match self.end {
            End::Answered { status, .. } => Some(status),
            End::None | End::Failed { .. } => None,
        }
    }
}

const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, at, host, method, path, end, checksum } = self;
        write!(f, "{number:>4} {at:>7} ms {host} {method} {path}: ")?;
        match end {
            End::None => f.write_str("no answer")?,
            End::Answered { status, at } => write!(f, "{status} at {at} ms")?,
            End::Failed { reason, at } => write!(f, "{reason} at {at} ms")?,
        }
        write!(f, " #{checksum:016x}")
    }
}

/// Every call in the order they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLog(Vec<Call>);

impl CallLog {
    pub(crate) fn push(&mut self, call: Call) {
        self.0.push(call);
    }

    pub(crate) fn last_number(&self) -> usize {
        self.0.len()
    }

    /// The call with that number.
    pub(crate) fn change(&mut self, number: usize, change: impl FnOnce(&mut Call)) {
        if let Some(call) = number.checked_sub(1).and_then(|index| self.0.get_mut(index)) {
            change(call);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Call> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls with this method and this part in their path.
    pub fn asking<'a>(&'a self, method: &'a str, part: &'a str) -> impl Iterator<Item = &'a Call> {
        self.iter().filter(move |call| call.method == method && call.path.contains(part))
    }

    /// Calls that can change something.
    pub fn writes(&self) -> impl Iterator<Item = &Call> {
        self.iter().filter(|call| call.method != "GET")
    }
}

/// One line for each call.
impl fmt::Display for CallLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|call| writeln!(f, "{call}"))
    }
}
