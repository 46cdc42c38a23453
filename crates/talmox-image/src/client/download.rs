//! A file on its way.

use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use super::{Address, Error, ErrorKind, Response, Settings, next_piece};

/// What must come in the time that may pass between two pieces. A server that sends less is as good as silent, and would
/// otherwise keep a run waiting for years.
const LEAST: u64 = 64 << 10;

/// A file being read. At no time is more of it in memory than one piece.
pub struct Download {
    doing: String,
    address: Address,
    response: Response,
    silence: Duration,
    /// The most bytes it may have.
    largest: u64,
    received: u64,
    /// How long was waited for the server since it was last seen that enough comes, and how much had come by then.
    waited: Duration,
    before: u64,
}

/// A file that came complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downloaded {
    pub size: u64,
    /// Of the bytes as they came, in lower-case digits.
    pub sha256: String,
}

impl Download {
    pub(super) fn new(doing: String, address: Address, response: Response, settings: &Settings) -> Self {
        let Settings { silence, largest_file: largest, .. } = *settings;
        Self { doing, address, response, silence, largest, received: 0, waited: Duration::ZERO, before: 0 }
    }

    /// How large the file is, if the server says so.
    pub fn size(&self) -> Option<u64> {
        self.response.content_length
    }

    /// Bytes received by now.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The next piece; none at the end, which is only the end if everything has come.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let since = Instant::now();
        let piece =
            next_piece(&mut *self.response.body, self.silence).await.map_err(|kind| self.error(kind))?;
        match (&piece, self.response.content_length) {
            (Some(piece), _) => {
                self.received = self.received.saturating_add(piece.len() as u64);
                self.judge(since.elapsed())?;
            }
            (None, Some(size)) if size != self.received => {
                let reason = format!("{} of {size} bytes came", self.received);
                return Err(self.error(ErrorKind::CutOff { reason }));
            }
            (None, _) => {}
        }
        Ok(piece)
    }

    /// Whether it is worth going on, after a piece that took so long. Time in which nobody asked is not the server's.
    fn judge(&mut self, waited: Duration) -> Result<(), Error> {
        if self.received > self.largest {
            let reason = format!("the file does not end: it has more than {} MiB", self.largest >> 20);
            return Err(self.error(ErrorKind::Answer { reason }));
        }
        self.waited += waited;
        if self.waited >= self.silence {
            let came = self.received - self.before;
            if came < LEAST {
                let reason = format!("only {came} bytes came in {} s", self.waited.as_secs());
                return Err(self.error(ErrorKind::CutOff { reason }));
            }
            (self.waited, self.before) = (Duration::ZERO, self.received);
        }
        Ok(())
    }

    /// Passes the whole file on, and tells of every piece: bytes by now, bytes in all.
    pub async fn copy_to(
        mut self,
        sink: &mut (dyn AsyncWrite + Send + Unpin),
        progress: &mut (dyn FnMut(u64, Option<u64>) + Send),
    ) -> Result<Downloaded, Error> {
        let mut hash = Sha256::new();
        while let Some(piece) = self.next().await? {
            hash.update(&piece);
            sink.write_all(&piece).await.map_err(|error| self.write_error(&error))?;
            progress(self.received, self.size());
        }
        sink.flush().await.map_err(|error| self.write_error(&error))?;
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Downloaded { size: self.received, sha256 })
    }

    fn write_error(&self, error: &std::io::Error) -> Error {
        self.error(ErrorKind::Write { reason: error.to_string() })
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(&self.doing, &self.address, kind)
    }
}
