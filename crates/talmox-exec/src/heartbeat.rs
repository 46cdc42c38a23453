//! Speaks at regular intervals while something goes on that says nothing itself.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::time::Instant;

/// Does some work, and calls `beat` after each interval with the time since it began.
pub async fn heartbeat<T>(interval: Duration, work: impl Future<Output = T>, beat: impl Fn(Duration)) -> T {
    let started = Instant::now();
    let mut work = pin!(work);
    let mut next = started + interval;
    loop {
        let silence = pin!(tokio::time::sleep_until(next));
        match select(work.as_mut(), silence).await {
            Either::Left((end, _)) => return end,
            Either::Right(((), _)) => beat(started.elapsed()),
        }
        next += interval;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_beats_while_the_work_goes_on_and_not_after() {
        let beats = Mutex::new(Vec::new());
        let work = async {
            tokio::time::sleep(Duration::from_secs(70)).await;
            7
        };
        let every = Duration::from_secs(30);
        let end = heartbeat(every, work, |elapsed| beats.lock().unwrap().push(elapsed.as_secs())).await;
        assert_eq!((end, beats.into_inner().unwrap()), (7, vec![30, 60]));
    }
}
