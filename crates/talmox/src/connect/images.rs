//! The way to Image Factories and other servers that have images.

use std::sync::Arc;

use talmox_exec::Factories;
use talmox_image::client::{
    Address, BoxFuture, HttpTransport, Request, Response, Settings, Transport, TransportError,
};

use crate::failure::Failure;

/// Real servers, wherever a description says they are.
pub(super) fn real() -> anyhow::Result<Factories> {
    Ok(Factories::new(Arc::new(http()?), Settings::default()))
}

/// The one factory of a simulation, whatever address a description gives, unless that is on this machine: nothing leaves it.
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
        if is_here(&asked.address) {
            return asked.clone();
        }
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

/// Whether an address is on this machine.
fn is_here(address: &Address) -> bool {
    let host = address.authority.rsplit_once(':').map_or(address.authority.as_str(), |(host, _)| host);
    host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
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
    fn only_this_machine_is_reached_without_it() {
        let here = |text: &str| is_here(&Address::parse(text).unwrap());
        assert!(here("https://127.0.0.1:8443/x") && here("http://127.3.2.1/x"));
        assert!(!here("https://10.0.0.1:8443/x") && !here("https://factory.talos.dev/x"));
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
