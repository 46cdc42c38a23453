//! Who we are to machines and to Kubernetes, by the cluster's secrets.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use secrecy::{ExposeSecret as _, SecretString};
use talmox_machine::client::{ClientCertificate, DEFAULT_LIFETIME, TalosRole};
use talmox_machine::{Bundle, SystemRandom};
use talmox_talos::Identity;
use talmox_types::Realm;

use crate::commands::configs::{Ingredients, now, open_secrets};
use crate::commands::shared::Job;
use crate::printer::Printer;
use crate::secrets_file::Loaded;

/// What a cluster with secrets has.
pub(super) struct Known {
    pub(super) secrets: Loaded,
    pub(super) ingredients: Arc<Ingredients>,
    pub(super) talos: Arc<Identity>,
    pub(super) kubernetes: Arc<talmox_k8s::Identity>,
}

impl Known {
    pub(super) fn open(job: &Job, simulation: Option<&Path>, printer: &Printer) -> anyhow::Result<Self> {
        let secrets = open_secrets(&job.desired, &job.folder, simulation, printer)?;
        let ingredients = Ingredients::read(&job.described())?;
        Self::of(secrets, Arc::new(ingredients))
    }

    pub(super) fn of(secrets: Loaded, ingredients: Arc<Ingredients>) -> anyhow::Result<Self> {
        let bundle = &secrets.bundle;
        let (mut talos, mut kubernetes) =
            (talos_identity(bundle, bundle)?, kubernetes_identity(bundle, bundle)?);
        // Whoever has gone on to the new authority, and whoever has not, must both know us.
        for realm in bundle.rotating() {
            let settled = bundle.settled(realm);
            match realm {
                Realm::Talos => talos = talos_identity(&settled, bundle)?.or_earlier(Arc::new(talos)),
                Realm::Kubernetes => {
                    kubernetes = kubernetes_identity(&settled, bundle)?.or_earlier(Arc::new(kubernetes));
                }
            }
        }
        Ok(Self { secrets, ingredients, talos: Arc::new(talos), kubernetes: Arc::new(kubernetes) })
    }
}

/// An administrator by the present authority of a bundle, who believes those of another.
fn talos_identity(bundle: &Bundle, believed: &Bundle) -> anyhow::Result<Identity> {
    let made = bundle.talos_client(&[TalosRole::Admin], now(), DEFAULT_LIFETIME, &mut SystemRandom)?;
    let (certificate, key) = pem(&made);
    Identity::from_pem(&believed.trusted(Realm::Talos), &certificate, &key)
        .context("the secrets bundle makes no identity for Talos")
}

fn kubernetes_identity(bundle: &Bundle, believed: &Bundle) -> anyhow::Result<talmox_k8s::Identity> {
    let (certificate, key) = pem(&bundle.kubernetes_admin(now(), DEFAULT_LIFETIME, &mut SystemRandom)?);
    talmox_k8s::Identity::from_pem(&believed.trusted(Realm::Kubernetes), &certificate, &key)
        .context("the secrets bundle makes no identity for Kubernetes")
}

fn pem(client: &ClientCertificate) -> (String, SecretString) {
    (client.certificate.pem().to_owned(), SecretString::from(client.key.pem().expose_secret().to_owned()))
}
