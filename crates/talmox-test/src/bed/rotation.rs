//! Authorities that are replaced, and how far machines are.

use std::sync::Arc;

use talmox_machine::{Bundle, Config, Source, SystemRandom, Time};
use talmox_types::desired::{Node, NodeAddress};
use talmox_types::{Phases, Realm};

use super::{Bed, EPOCH, Secrets};

impl Bed {
    /// What `talmox secrets rotate-ca` does to the file with the secrets.
    pub fn begin_rotation(&self, realms: &[Realm]) {
        let mut bundle = self.bundle();
        for realm in realms {
            bundle.begin_rotation(*realm, Time::from_unix(EPOCH), &mut SystemRandom).unwrap();
        }
        *self.secrets.lock().unwrap() = Arc::new(Secrets::of(bundle));
    }

    /// What that file holds.
    pub fn bundle(&self) -> Bundle {
        self.secrets.lock().unwrap().bundle.clone()
    }

    /// The first address of each node, in the order of the description.
    pub fn addresses(&self) -> Vec<String> {
        let address = |node: &Node| match &node.address {
            NodeAddress::Declared(address) => address.primary().to_string(),
            NodeAddress::FromPool(_) => panic!("{} has no address yet", node.name),
        };
        self.desired.nodes.iter().map(address).collect()
    }

    /// The configuration in force at an address, as the simulated machine itself has it.
    pub fn config_text(&self, address: &str) -> Option<String> {
        let address: std::net::IpAddr = address.parse().unwrap();
        self.lab.nodes(|nodes| {
            let (_, machine) = nodes.addresses().into_iter().find(|(one, _)| *one == address)?;
            nodes.configuration(machine).map(str::to_owned)
        })
    }

    /// How far each machine is, by what the secrets were when it began. Who has no configuration knows nothing yet.
    pub fn phases(&self, bundle: &Bundle) -> Vec<Phases> {
        let of = |address: &String| {
            let text = self.config_text(address)?;
            let config = Config::parse(Source { name: "config", text: &text }).ok()?;
            Some(bundle.phases_of(&config))
        };
        self.addresses().iter().map(|address| of(address).unwrap_or_default()).collect()
    }
}
