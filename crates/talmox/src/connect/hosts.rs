//! Only servers the person allowed are fetched from, wherever an address in a description leads.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use talmox_image::client::{BoxFuture, Request, Response, Transport, TransportError};
use talmox_trust::{Grants, Need, Origin};

use crate::trust::is_official;

/// A transport that refuses every server without a grant. The built-in Image Factory needs none.
pub(super) struct OnlyAllowed<T> {
    inner: T,
    grants: Grants,
    /// Servers that an allowed one redirected to: where its files are is its own affair. The client follows a redirect of
    /// a protected server to protected ones alone.
    redirected: Mutex<BTreeSet<Origin>>,
}

impl<T> OnlyAllowed<T> {
    pub(super) fn new(inner: T, grants: Grants) -> Self {
        Self { inner, grants, redirected: Mutex::default() }
    }

    fn allows(&self, origin: &Origin) -> bool {
        is_official(origin)
            || self.grants.allows(&Need::Host(origin.clone()))
            || self.redirected.lock().unwrap_or_else(PoisonError::into_inner).contains(origin)
    }
}

impl<T: Transport> Transport for OnlyAllowed<T> {
    fn send<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, TransportError>> {
        Box::pin(async move {
            let refused = |reason: String| TransportError::Connect { reason };
            let origin = Origin::of_url(&request.address.to_string())
                .map_err(|invalid| refused(invalid.to_string()))?;
            if !self.allows(&origin) {
                return Err(refused(format!(
                    "nothing is fetched from {origin} without a host grant (talmox trust -f DIR)"
                )));
            }
            let response = self.inner.send(request).await?;
            let next = response.location.as_deref().map(Origin::of_url).and_then(Result::ok);
            if let Some(next) = next.filter(|next| next.as_str().starts_with("https://")) {
                self.redirected.lock().unwrap_or_else(PoisonError::into_inner).insert(next);
            }
            Ok(response)
        })
    }
}

/// Reaches nothing: in a simulation without a factory nothing leaves this process.
pub(super) struct Nowhere;

impl Transport for Nowhere {
    fn send<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, TransportError>> {
        let reason = format!("nothing is fetched in a simulation, so {} is not asked", request.address);
        Box::pin(async move { Err(TransportError::Connect { reason }) })
    }
}

#[cfg(test)]
mod tests {
    use talmox_image::client::{Address, Method};

    use super::*;

    /// Answers everything with a redirect.
    struct Redirecting(&'static str);

    impl Transport for Redirecting {
        fn send<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Response, TransportError>> {
            let (location, body) = (Some(self.0.to_owned()), Box::new(None::<bytes::Bytes>));
            Box::pin(async { Ok(Response { status: 302, location, content_length: None, body }) })
        }
    }

    async fn fetched(transport: &OnlyAllowed<Redirecting>, url: &str) -> bool {
        let address = Address::parse(url).unwrap();
        let request = Request { method: Method::Get, address, body: bytes::Bytes::new() };
        transport.send(&request).await.is_ok()
    }

    #[tokio::test]
    async fn only_allowed_servers_are_asked_and_where_they_redirect_to() {
        let grants = Grants::new(vec![Need::Host(Origin::of_url("https://files.lan").unwrap()).grant()]);
        let transport = OnlyAllowed::new(Redirecting("https://cdn.lan/x"), grants);
        for refused in
            ["https://evil.lan/x", "http://files.lan/x", "https://files.lan:8443/x", "https://cdn.lan/x"]
        {
            assert!(!fetched(&transport, refused).await, "{refused}");
        }
        assert!(fetched(&transport, "https://files.lan/x").await);
        assert!(fetched(&transport, "https://cdn.lan/x").await, "an allowed server led there");
        assert!(
            fetched(&transport, "https://factory.talos.dev/x").await,
            "the built-in factory needs no grant"
        );
    }

    #[tokio::test]
    async fn a_redirect_without_protection_is_not_followed() {
        let grants = Grants::new(vec![Need::Host(Origin::of_url("https://files.lan").unwrap()).grant()]);
        let transport = OnlyAllowed::new(Redirecting("http://169.254.169.254/latest"), grants);
        assert!(fetched(&transport, "https://files.lan/x").await);
        assert!(!fetched(&transport, "http://169.254.169.254/latest").await);
    }
}
