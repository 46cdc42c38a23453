//! Runs that are killed at one call after the other: how many of them, and on what clock.

/// Every so many calls, unless `TALMOX_EVERY` says otherwise: all of them (`TALMOX_EVERY=1`) take long, and CI decides.
#[expect(clippy::disallowed_methods, reason = "how thorough a run is, CI decides")]
pub fn every(usual: usize) -> usize {
    let said = std::env::var("TALMOX_EVERY").ok().and_then(|text| text.parse().ok());
    said.filter(|every| *every > 0).unwrap_or(usual)
}

/// A clock of a run's own, which passes when everybody waits: for tests that run again and again.
pub fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime on this thread needs nothing")
}
