//! Authorities that are replaced, and how far machines are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use talmox_machine::{Bundle, Config, Source, SystemRandom, Time};
use talmox_plan::Request;
use talmox_types::desired::{Node, NodeAddress};
use talmox_types::{Phase, Phases, Realm};

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
        Watch::new(self, bundle.clone()).look()
    }

    /// A run that dies as soon as so many machines have come so far.
    pub async fn dies_in(
        &self,
        request: &Request,
        number: u32,
        (realm, phase, least): (Realm, Phase, usize),
    ) {
        let mut watch = Watch::new(self, self.bundle());
        let reached = async {
            while watch.look().iter().filter(|phases| phases.of(realm) >= phase).count() < least {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            end = self.converge(request, number) => panic!("it was over before: {end:?}"),
            () = reached => {}
        }
    }
}

/// Looks at machines again and again; what has not changed is not read again.
pub struct Watch<'a> {
    bed: &'a Bed,
    before: Bundle,
    seen: BTreeMap<String, (String, Phases)>,
}

impl<'a> Watch<'a> {
    pub fn new(bed: &'a Bed, before: Bundle) -> Self {
        Self { bed, before, seen: BTreeMap::new() }
    }

    /// How far each machine is.
    pub fn look(&mut self) -> Vec<Phases> {
        self.bed.addresses().iter().map(|address| self.one(address)).collect()
    }

    fn one(&mut self, address: &str) -> Phases {
        let Some(text) = self.bed.config_text(address) else { return Phases::default() };
        if let Some((_, phases)) = self.seen.get(address).filter(|(known, _)| *known == text) {
            return *phases;
        }
        let config = Config::parse(Source { name: "config", text: &text }).unwrap();
        let phases = self.before.phases_of(&config);
        self.seen.insert(address.to_owned(), (text, phases));
        phases
    }
}
