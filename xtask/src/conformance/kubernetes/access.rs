//! Certificates for both API servers and those who call them.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use talmox_k8s::Identity;
use talmox_machine::client::ClientCertificate;
use talmox_machine::pki::KeyKind;
use talmox_machine::secrets::{Authority as Signer, Leaf, Purpose};
use talmox_machine::{SystemRandom, Time};

const HOUR: i64 = 3600;

/// An authority that nobody else knows, and somebody it does not know.
pub(super) struct Authority {
    ours: Signer,
    stranger: Arc<Identity>,
}

fn times() -> anyhow::Result<(Time, Time)> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let now = Time::from_unix(i64::try_from(now)?);
    Ok((now.plus(-HOUR), now.plus(HOUR)))
}

impl Authority {
    pub(super) fn new() -> anyhow::Result<Self> {
        let new = || {
            Signer::generate("kubernetes", KeyKind::EcdsaP256, times()?, &mut SystemRandom)
                .context("an authority")
        };
        let (ours, foreign) = (new()?, new()?);
        let stranger = identity(&foreign, "system:masters", ours.certificate.pem())?;
        Ok(Self { ours, stranger })
    }

    pub(super) fn pem(&self) -> &str {
        self.ours.certificate.pem()
    }

    /// For a server on the loopback.
    pub(super) fn server(&self) -> anyhow::Result<ClientCertificate> {
        let purpose = Purpose::Server { addresses: vec![Ipv4Addr::LOCALHOST.into()], names: Vec::new() };
        let leaf = Leaf { common_name: Some("kube-apiserver".to_owned()), purpose, ..Leaf::default() };
        self.ours.issue(&leaf, times()?, &mut SystemRandom).context("a server's certificate")
    }

    /// For a client of a group.
    pub(super) fn client(&self, group: &str) -> anyhow::Result<Arc<Identity>> {
        identity(&self.ours, group, self.pem())
    }

    /// For a client of another cluster's administrators.
    pub(super) fn stranger(&self) -> Arc<Identity> {
        Arc::clone(&self.stranger)
    }

    /// An administrator's certificate and key, in PEM.
    pub(super) fn administrator(&self) -> anyhow::Result<ClientCertificate> {
        issue(&self.ours, "system:masters")
    }

    /// A key of its own, in PEM.
    pub(super) fn key(&self) -> anyhow::Result<String> {
        let authority = Signer::generate("keys", KeyKind::EcdsaP256, times()?, &mut SystemRandom)?;
        Ok(authority.key.pem().expose_secret().to_owned())
    }
}

fn issue(signer: &Signer, group: &str) -> anyhow::Result<ClientCertificate> {
    let leaf = Leaf {
        organizations: vec![group.to_owned()],
        common_name: Some("someone".to_owned()),
        purpose: Purpose::KubernetesClient,
    };
    signer.issue(&leaf, times()?, &mut SystemRandom).context("a client's certificate")
}

fn identity(signer: &Signer, group: &str, authority: &str) -> anyhow::Result<Arc<Identity>> {
    let client = issue(signer, group)?;
    Ok(Arc::new(Identity::from_pem(authority, client.certificate.pem(), client.key.pem())?))
}
