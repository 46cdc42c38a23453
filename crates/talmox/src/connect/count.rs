//! Counts requests on their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use talmox_pve::client::{BoxFuture, HttpRequest, HttpResponse, Target, Transport, TransportError};

/// A transport that knows how many requests went through it.
pub(super) struct Counted {
    inner: Arc<dyn Transport>,
    requests: AtomicU64,
}

impl Counted {
    pub(super) fn new(inner: Arc<dyn Transport>) -> Self {
        Self { inner, requests: AtomicU64::new(0) }
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Transport for Counted {
    fn send<'a>(
        &'a self,
        target: &'a Target,
        request: HttpRequest,
    ) -> BoxFuture<'a, Result<HttpResponse, TransportError>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.inner.send(target, request)
    }
}
