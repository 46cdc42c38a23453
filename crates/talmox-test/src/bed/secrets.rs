//! Secrets of clusters, and whoever has them.

use std::sync::{Arc, OnceLock};

use secrecy::ExposeSecret as _;
use talmox_machine::client::TalosRole;
use talmox_machine::{Bundle, SystemRandom, Time};
use talmox_talos::Identity;
use talmox_types::{Contract, Realm};

use super::Bed;

/// Unix seconds at which the hosts of every lab booted, and its secrets were made.
pub const EPOCH: i64 = 1_767_225_600;

/// Secrets of a cluster, and who an administrator with them is.
pub struct Secrets {
    pub bundle: Bundle,
    pub(super) identity: Arc<Identity>,
    pub(super) kubernetes: Arc<talmox_k8s::Identity>,
}

impl Secrets {
    pub(super) fn generate() -> Self {
        let now = Time::from_unix(EPOCH);
        Self::of(Bundle::generate(Contract::new(1, 13), now, &mut SystemRandom).unwrap())
    }

    pub fn of(bundle: Bundle) -> Self {
        let trusted = |realm: Realm| {
            let next = bundle.next(realm).map(|next| next.certificate.pem()).unwrap_or_default();
            format!("{}{next}", bundle.present(realm).certificate.pem())
        };
        let (talos, kubernetes) = (trusted(Realm::Talos), trusted(Realm::Kubernetes));
        let (identity, admin) = (as_administrator(&bundle, &talos), as_admin(&bundle, &kubernetes));
        let later = Realm::ALL.into_iter().fold(bundle.clone(), |bundle, realm| bundle.settled(realm));
        let identity = match bundle.next(Realm::Talos) {
            Some(_) => as_administrator(&later, &talos).or_earlier(Arc::new(identity)),
            None => identity,
        };
        let admin = match bundle.next(Realm::Kubernetes) {
            Some(_) => as_admin(&later, &kubernetes).or_earlier(Arc::new(admin)),
            None => admin,
        };
        Self { bundle, identity: Arc::new(identity), kubernetes: Arc::new(admin) }
    }
}

impl Secrets {
    /// Whoever administers the machine at an address with these.
    pub fn client(&self, bed: &Bed, address: &str) -> talmox_talos::Client {
        let access = talmox_talos::Access::Secure(Arc::clone(&self.identity));
        talmox_talos::Client::new(bed.lab.talos(), address.parse().unwrap(), access)
    }

    /// Whoever administers Kubernetes with these, asked at an address.
    pub fn kubernetes_at(&self, bed: &Bed, address: &str) -> talmox_k8s::Client {
        let server = talmox_k8s::Server::new(address.to_owned(), 6443);
        let access = talmox_k8s::Access { server, identity: Arc::clone(&self.kubernetes) };
        talmox_k8s::Client::new(bed.lab.kubernetes(), access)
    }
}

fn as_administrator(bundle: &Bundle, trusted: &str) -> Identity {
    let now = Time::from_unix(EPOCH);
    let made = bundle.talos_client(&[TalosRole::Admin], now, 8_640_000, &mut SystemRandom).unwrap();
    Identity::from_pem(trusted, made.certificate.pem(), made.key.pem()).unwrap()
}

fn as_admin(bundle: &Bundle, trusted: &str) -> talmox_k8s::Identity {
    let made = bundle.kubernetes_admin(Time::from_unix(EPOCH), 8_640_000, &mut SystemRandom).unwrap();
    talmox_k8s::Identity::from_pem(trusted, made.certificate.pem(), made.key.pem()).unwrap()
}

/// Secrets are made once for all tests: it takes a while.
pub(super) fn ours() -> &'static Arc<Secrets> {
    static SECRETS: OnceLock<Arc<Secrets>> = OnceLock::new();
    SECRETS.get_or_init(|| Arc::new(Secrets::generate()))
}

/// Texts that nobody may be shown: of the cluster's secrets, and of the token for Proxmox.
pub fn unspeakable() -> Vec<String> {
    let bundle = &ours().bundle;
    let secrets = [&bundle.cluster_secret, &bundle.bootstrap_token, &bundle.trustd_token];
    let secrets = secrets.map(|secret| secret.expose_secret().to_owned());
    secrets.into_iter().chain([crate::SECRET.to_owned()]).collect()
}
