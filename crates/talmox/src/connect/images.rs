//! The way to Image Factories and other servers that have images.

use std::sync::Arc;

use talmox_exec::Factories;
use talmox_image::client::{
    Address, BoxFuture, HttpTransport, Request, Response, Settings, Transport, TransportError,
};
use talmox_trust::Grants;

use super::hosts::{Nowhere, OnlyAllowed};
use crate::failure::Failure;

/// Real servers, those the person allowed.
pub(super) fn real(grants: Grants) -> anyhow::Result<Factories> {
    Ok(Factories::new(Arc::new(OnlyAllowed::new(http()?, grants)), Settings::default()))
}

/// No server at all.
pub(super) fn none() -> Factories {
    Factories::new(Arc::new(Nowhere), Settings::default())
}

/// The one factory of a simulation, whatever address a description gives: nothing leaves this process.
pub(super) fn simulated(factory: &str) -> anyhow::Result<Factories> {
    let address = Address::parse(factory);
    let address = address.ok_or_else(|| Failure::new(format!("{factory} is no address of a factory")))?;
    let transport = Detour { http: http()?, authority: address.authority };
    Ok(Factories::new(Arc::new(transport), Settings::default()))
}

fn http() -> Result<HttpTransport, Failure> {
    HttpTransport::new().map_err(|error| Failure::new(error.to_string()))
}

/// Sends every request to one place, and makes the replies look as if they came from where they were sent.
struct Detour {
    http: HttpTransport,
    authority: String,
}

impl Detour {
    fn request(&self, asked: &Request) -> Request {
        let Address { target, .. } = asked.address.clone();
        let address = Address { secure: false, authority: self.authority.clone(), target };
        Request { address, ..asked.clone() }
    }

    /// A redirect of the factory to itself is one to whoever was asked.
    fn location(&self, asked: &Address, location: &str) -> String {
        match location.strip_prefix(&format!("http://{}", self.authority)) {
            Some(path) => {
                format!("{}://{}{path}", if asked.secure { "https" } else { "http" }, asked.authority)
            }
            None => location.to_owned(),
        }
    }
}

impl Transport for Detour {
    fn send<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, TransportError>> {
        Box::pin(async move {
            let response = self.http.send(&self.request(request)).await?;
            let location = response.location.as_deref().map(|place| self.location(&request.address, place));
            Ok(Response { location, ..response })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_leads_to_the_simulated_factory() {
        let detour = Detour { http: http().unwrap(), authority: "127.0.0.1:8010".to_owned() };
        for text in ["https://factory.talos.dev/x", "https://127.0.0.1:8443/x", "http://10.0.0.1/x"] {
            let asked = Request {
                address: Address::parse(text).unwrap(),
                method: talmox_image::client::Method::Get,
                body: bytes::Bytes::new(),
            };
            assert_eq!(detour.request(&asked).address.to_string(), "http://127.0.0.1:8010/x");
        }
    }

    #[test]
    fn redirects_stay_within_the_detour() {
        let detour = Detour { http: http().unwrap(), authority: "127.0.0.1:8010".to_owned() };
        let asked = Address::parse("https://factory.talos.dev/image/x").unwrap();
        let location = |text: &str| detour.location(&asked, text);
        assert_eq!(location("http://127.0.0.1:8010/kept/x"), "https://factory.talos.dev/kept/x");
        assert_eq!(location("https://elsewhere.example/x"), "https://elsewhere.example/x");
    }
}
