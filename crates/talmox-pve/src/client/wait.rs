//! Waiting: every wait has a name, a deadline and somebody who hears how it goes.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::call::Time;
use crate::client::{Error, Outcome};

/// How a wait stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting<'a> {
    /// What is waited for: `clone of 9000 to 2001`.
    pub name: &'a str,
    pub elapsed: Duration,
    pub limit: Duration,
    /// What was seen last.
    pub detail: &'a str,
}

/// Hears how waits go. Closures are reporters.
pub trait Progress: Send + Sync {
    fn report(&self, waiting: &Waiting<'_>);
}

impl<F: Fn(&Waiting<'_>) + Send + Sync> Progress for F {
    fn report(&self, waiting: &Waiting<'_>) {
        self(waiting);
    }
}

/// For those who do not care.
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _: &Waiting<'_>) {}
}

/// What a look at the world showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<T> {
    Done(T),
    /// Not yet, with what was seen instead.
    NotYet(String),
}

/// Why a wait ended without what was waited for.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    #[error("gave up waiting for {name} after {} s: {detail}", .limit.as_secs())]
    Deadline { name: String, limit: Duration, detail: String },
    /// What was waited for cannot come any more.
    #[error("could not go on waiting for {name}")]
    Call { name: String, source: Error },
}

/// A wait to be held.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    pub name: &'a str,
    /// How long at most.
    pub limit: Duration,
    pub progress: &'a dyn Progress,
}

/// Looks come quickly at first, then every two seconds: most things take either a moment or minutes.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The first pause where it is known when the end is due.
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// The last look begins when the time is up, so it needs some of its own: without, it could only fail.
const LAST_LOOK: Duration = Duration::from_secs(5);

impl Wait<'_> {
    /// Looks again and again until it is done, is refused, or the time is up. A host that cannot be reached meanwhile
    /// is reported and looked at again. When the time is up there is one last look; that one, or the one under way
    /// then, may take five seconds more.
    ///
    /// # Cancel safety
    ///
    /// Looking changes nothing, so the wait can be dropped at any time.
    pub async fn until<T, F, L>(&self, look: F) -> Result<T, WaitError>
    where
        F: FnMut() -> L,
        L: Future<Output = Result<Look<T>, Error>>,
    {
        self.until_due(None, look).await
    }

    /// The same for what is likely to take so long: the first look comes then, the next ones soon after.
    pub(crate) async fn until_due<T, F, L>(&self, due: Option<Duration>, mut look: F) -> Result<T, WaitError>
    where
        F: FnMut() -> L,
        L: Future<Output = Result<Look<T>, Error>>,
    {
        let start = Instant::now();
        let time = Time::starting_now(self.limit);
        let end = time.deadline.checked_add(LAST_LOOK).unwrap_or(time.deadline);
        let mut pause = FIRST_PAUSE;
        if let Some(due) = due {
            tokio::time::sleep(due.min(LONGEST_PAUSE).min(time.left())).await;
            pause = SHORT_PAUSE;
        }
        let mut detail = "nothing seen yet".to_owned();
        loop {
            match tokio::time::timeout_at(end, look()).await {
                Ok(Ok(Look::Done(found))) => return Ok(found),
                Ok(Ok(Look::NotYet(seen))) => detail = seen,
                // Another server in the place of ours does not become ours by waiting.
                Ok(Err(error)) if error.outcome() == Outcome::Refused || error.is_of_a_certificate() => {
                    return Err(WaitError::Call { name: self.name.to_owned(), source: error });
                }
                Ok(Err(error)) => detail = error.to_string(),
                Err(_) => {}
            }
            self.progress.report(&Waiting {
                name: self.name,
                elapsed: start.elapsed(),
                limit: self.limit,
                detail: &detail,
            });
            let left = time.left();
            if left.is_zero() {
                return Err(WaitError::Deadline { name: self.name.to_owned(), limit: self.limit, detail });
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }
}
