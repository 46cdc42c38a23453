//! Ctrl-C, and the polite signal of a service manager.

use tokio::sync::Mutex;

/// Hears from the moment it is made.
pub(super) struct Signals(Mutex<Ears>);

#[cfg(unix)]
struct Ears {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(not(unix))]
struct Ears;

impl Signals {
    pub(super) fn listen() -> anyhow::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let interrupt = signal(SignalKind::interrupt())?;
            let terminate = signal(SignalKind::terminate())?;
            Ok(Self(Mutex::new(Ears { interrupt, terminate })))
        }
        #[cfg(not(unix))]
        Ok(Self(Mutex::new(Ears)))
    }

    /// Resolves at the next one.
    pub(super) async fn once(&self) {
        self.0.lock().await.hear().await;
    }

    /// Does something at the first, resolves at the second.
    pub(super) async fn twice(&self, first: impl FnOnce()) {
        self.once().await;
        first();
        self.once().await;
    }
}

impl Ears {
    #[cfg(unix)]
    async fn hear(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn hear(&mut self) {
        // Without a way to hear, nothing ever comes.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
