//! What a node shows to those who call it.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use talmox_machine::Time;
use talmox_machine::pki::{Certificate, KeyKind, PrivateKey};
use talmox_machine::secrets::{Authority, Leaf, Purpose};

use super::settings::Signer;
use super::{Port, Run};
use crate::hardware::MachineId;
use crate::nodes::Nodes;

/// A certificate and its key, in PEM. The key is a secret, so there is no `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// What a node signs for itself in maintenance lives for a day.
const LIFETIME: i64 = 24 * 3600;

/// The bytes inside PEM.
pub(crate) fn pem_to_der(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
    let bare: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(bare).ok()
}

/// An authority from its PEM texts.
pub(crate) fn authority(signer: &Signer) -> Option<Authority> {
    Some(Authority {
        certificate: Certificate::parse(&signer.certificate).ok()?,
        key: PrivateKey::parse(signer.key.clone().into()).ok()?,
    })
}

impl Nodes {
    /// The time of day, in seconds.
    pub(crate) fn today(&self) -> Time {
        Time::from_unix(i64::try_from((self.epoch + self.clock) / 1000).unwrap_or(i64::MAX))
    }

    /// A certificate for a server at these addresses and names.
    pub(crate) fn issue_server(&mut self, authority: &Authority, leaf: &Leaf) -> Option<Pair> {
        use secrecy::ExposeSecret as _;
        // As long as its authority's: clients outside live by another clock than the nodes.
        let times = (authority.certificate.not_before(), authority.certificate.not_after());
        let pair = authority.issue(leaf, times, &mut self.random).ok()?;
        // Talos' own label for such keys is known to nobody else.
        let key = pair.key.pem().expose_secret().replace("ED25519 PRIVATE KEY", "PRIVATE KEY");
        Some(Pair { certificate: pair.certificate.pem().to_owned(), key })
    }

    fn server_leaf(run: &Run) -> Leaf {
        let network = &run.network;
        let mut addresses = network.ips();
        addresses.push(std::net::Ipv4Addr::LOCALHOST.into());
        let mut names = vec![network.hostname.clone()];
        if !network.domain.is_empty() {
            names.push(format!("{}.{}", network.hostname, network.domain));
        }
        if let Some(settings) = run.settings() {
            for name in &settings.certificate_names {
                match name.parse() {
                    Ok(address) => addresses.push(address),
                    Err(_) => names.push(name.clone()),
                }
            }
        }
        names.retain(|name| !name.is_empty());
        Leaf { purpose: Purpose::Server { addresses, names }, ..Leaf::default() }
    }

    /// Self-made, new at every boot: it proves nothing.
    pub(crate) fn maintenance_pair(&mut self, machine: MachineId) -> Option<Pair> {
        let mut leaf = Self::server_leaf(self.run(machine)?);
        leaf.common_name = Some("maintenance-service.talos.dev".to_owned());
        let now = self.today();
        let times = (now.plus(-60), now.plus(LIFETIME));
        let authority = Authority::generate("talos", KeyKind::Ed25519, times, &mut self.random).ok()?;
        self.issue_server(&authority, &leaf)
    }

    /// Signed by the cluster's authority: by the node itself, or for a worker by some control plane's trustd.
    pub(crate) fn secure_pair(&mut self, machine: MachineId) -> Option<Pair> {
        let run = self.run(machine)?;
        let leaf = Self::server_leaf(run);
        let settings = run.settings()?;
        let signer = match &settings.signer {
            Some(signer) => signer.clone(),
            None => self.trusted_signer(machine)?,
        };
        let authority = authority(&signer)?;
        self.issue_server(&authority, &leaf)
    }

    /// The authority of a control plane whose trustd runs, takes this worker's token and can be reached from it: at a control
    /// plane that discovery lists, or at the address of the cluster's endpoint. A virtual address leads nowhere before etcd has
    /// a leader.
    fn trusted_signer(&self, worker: MachineId) -> Option<Signer> {
        let settings = self.run(worker)?.settings()?;
        let endpoint = settings.endpoint_parts().0.parse::<IpAddr>().map(|address| self.at(address));
        self.machines.iter().find_map(|(id, machine)| {
            let run = machine.run.as_ref()?;
            let theirs = run.settings()?;
            let is_found = match endpoint {
                // A name may lead to any control plane.
                Err(_) => true,
                Ok(at) => at == Some(*id) || self.discovers(settings, theirs),
            };
            if !is_found {
                return None;
            }
            let trusted = run.is_control_plane()
                && run.is_service_up("trustd")
                && theirs.token == settings.token
                && theirs.authority == settings.authority
                && !settings.authority.is_empty();
            trusted.then(|| theirs.signer.clone())?
        })
    }

    /// What this node's API server shows: all addresses and names it may be called by.
    pub(crate) fn api_server_pair(&mut self, machine: MachineId) -> Option<Pair> {
        let run = self.run(machine)?;
        let settings = run.settings()?;
        let signer = settings.kubernetes.clone()?;
        let mut leaf = Self::server_leaf(run);
        leaf.common_name = Some("kube-apiserver".to_owned());
        let (host, _) = settings.endpoint_parts();
        let shared = settings.shared_addresses.clone();
        if let Purpose::Server { addresses, names } = &mut leaf.purpose {
            addresses.extend(shared);
            match host.parse() {
                Ok(address) => addresses.push(address),
                Err(_) => names.push(host),
            }
            names.extend(
                ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
                    .map(str::to_owned),
            );
        }
        let authority = authority(&signer)?;
        self.issue_server(&authority, &leaf)
    }

    /// Other addresses or names: another certificate.
    pub(crate) fn renew_certificate(&mut self, machine: MachineId) {
        let renewed = match self.run(machine).map(|run| &run.port) {
            Some(Port::Maintenance(_)) => self.maintenance_pair(machine).map(Port::Maintenance),
            Some(Port::Secure(_)) => self.secure_pair(machine).map(Port::Secure),
            Some(Port::Closed) | None => None,
        };
        if let (Some(port), Some(run)) = (renewed, self.run_mut(machine)) {
            run.port = port;
        }
    }
}
