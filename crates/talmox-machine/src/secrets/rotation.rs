//! Another authority in the place of the present one, phase by phase ([`Phase`]).
//!
//! The new authority is in the bundle from the beginning, beside the one it replaces, so that whoever takes a rotation up again
//! goes on with the same. What a machine's configuration says of both tells how far that machine is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{Phase, Phases, Realm};

use super::generate::{kubernetes_authority, talos_authority};
use super::{Authority, Bundle, GenerateError};
use crate::document::Config;
use crate::fault::Faults;
use crate::patch::{self, Patch, PatchError};
use crate::pki::Certificate;
use crate::random::Random;
use crate::time::Time;
use crate::value::{Map, Value};

/// Where Talos from 1.14 on has the authority of Kubernetes.
const DOCUMENT: &str = "KubeAPIServerCAConfig";

/// Authorities that are to take the place of present ones.
#[derive(Clone, Debug, Default)]
pub struct Rotation {
    pub os: Option<Authority>,
    pub kubernetes: Option<Authority>,
}

impl Bundle {
    /// The authority that is in force, or was until the rotation is over.
    pub fn present(&self, realm: Realm) -> &Authority {
        match realm {
            Realm::Talos => &self.os,
            Realm::Kubernetes => &self.kubernetes,
        }
    }

    /// The one that is to take its place.
    pub fn next(&self, realm: Realm) -> Option<&Authority> {
        match realm {
            Realm::Talos => self.rotation.os.as_ref(),
            Realm::Kubernetes => self.rotation.kubernetes.as_ref(),
        }
    }

    /// The certificates, as PEM, of everybody who may vouch for a server: the one in force and the one that takes its place.
    /// While a rotation is under way nobody outside knows which of the two a machine shows.
    pub fn trusted(&self, realm: Realm) -> String {
        let present = self.present(realm).certificate.pem();
        match self.next(realm) {
            None => present.to_owned(),
            Some(next) => format!("{}\n{}", present.trim_end(), next.certificate.pem()),
        }
    }

    /// Whose authorities are being replaced, in the order that is done.
    pub fn rotating(&self) -> impl Iterator<Item = Realm> {
        Realm::ALL.into_iter().filter(|realm| self.next(*realm).is_some())
    }

    /// Makes the authority that is to take the place of the present one. There must be none yet: the first one is known to
    /// machines by now, and would be forgotten.
    pub fn begin_rotation(
        &mut self,
        realm: Realm,
        now: Time,
        random: &mut dyn Random,
    ) -> Result<(), GenerateError> {
        match realm {
            Realm::Talos => self.rotation.os = Some(talos_authority(now, random)?),
            Realm::Kubernetes => self.rotation.kubernetes = Some(kubernetes_authority(now, random)?),
        }
        Ok(())
    }

    /// The bundle with the new authority in its place, and nothing left of the old one.
    #[must_use]
    pub fn settled(&self, realm: Realm) -> Self {
        let mut bundle = self.clone();
        let (present, next) = match realm {
            Realm::Talos => (&mut bundle.os, &mut bundle.rotation.os),
            Realm::Kubernetes => (&mut bundle.kubernetes, &mut bundle.rotation.kubernetes),
        };
        if let Some(next) = next.take() {
            *present = next;
        }
        bundle
    }

    /// What the configuration of a machine in these phases is made from. It also needs [`Self::accept`].
    #[must_use]
    pub fn issuing(&self, phases: Phases) -> Self {
        let signs = |realm: &Realm| phases.of(*realm) >= Phase::Issuing;
        Realm::ALL.into_iter().filter(signs).fold(self.clone(), |bundle, realm| bundle.settled(realm))
    }

    /// The configuration with whom a machine in these phases believes beside whoever signs.
    pub fn accept(&self, config: Config, phases: Phases) -> Result<Config, PatchError> {
        let mut documents = Vec::new();
        for realm in self.rotating() {
            let beside = match phases.of(realm) {
                Phase::Alone if sabotaged(Defect::OldAuthorityKept) => Some(self.present(realm)),
                Phase::Before | Phase::Alone => continue,
                Phase::Accepted => self.next(realm),
                Phase::Issuing => Some(self.present(realm)),
            };
            let Some(beside) = beside else { continue };
            documents.push(accepting(&config, realm, &beside.certificate).into());
        }
        if documents.is_empty() {
            return Ok(config);
        }
        let (name, whole) = ("the authorities", "the configuration");
        let patch = Patch::from_values(name, documents).map_err(PatchError::Config)?;
        let config = patch::apply(config, whole, &[patch])?.into_config(whole);
        config.map_err(|faults: Faults| PatchError::Config(faults))
    }

    /// How far a machine with this configuration is.
    pub fn phases_of(&self, config: &Config) -> Phases {
        self.rotating().fold(Phases::default(), |phases, realm| {
            let known = known(config, realm);
            let Some(next) = self.next(realm) else { return phases };
            let place = |authority: &Authority| {
                let pem = authority.certificate.pem().trim();
                known.iter().position(|one| one.trim() == pem)
            };
            let phase = match (place(self.present(realm)), place(next)) {
                (None, Some(_)) => Phase::Alone,
                // Whoever signs comes first.
                (Some(old), Some(new)) if new < old => Phase::Issuing,
                (Some(_), Some(_)) => Phase::Accepted,
                (_, None) => Phase::Before,
            };
            phases.with(realm, phase)
        })
    }
}

/// A patch after which a machine believes one more authority.
fn accepting(config: &Config, realm: Realm, certificate: &Certificate) -> Map {
    let encoded = || Value::List(vec![Map::new().with("crt", STANDARD.encode(certificate.pem())).into()]);
    let section = |name: &str| Map::new().with(name, Map::new().with("acceptedCAs", encoded()));
    match realm {
        Realm::Talos => section("machine"),
        Realm::Kubernetes if config.document(DOCUMENT).is_some() => Map::new()
            .with("apiVersion", "v1alpha1")
            .with("kind", DOCUMENT)
            .with("acceptedCAs", vec![certificate.pem()]),
        Realm::Kubernetes => section("cluster"),
    }
}

/// Certificates of the authorities a configuration names, whoever signs before the others.
fn known(config: &Config, realm: Realm) -> Vec<String> {
    let section = match realm {
        Realm::Talos => "machine",
        Realm::Kubernetes => "cluster",
    };
    let list = |value: Option<&Value>| value.and_then(Value::as_list).unwrap_or_default().to_vec();
    let signs = config.at(&[section, "ca", "crt"]).and_then(decoded);
    let accepted = list(config.at(&[section, "acceptedCAs"]));
    let accepted = accepted.iter().filter_map(|one| decoded(one.at(&["crt"])?));
    let mut known: Vec<String> = signs.into_iter().chain(accepted).collect();
    if realm == Realm::Kubernetes
        && let Some(document) = config.document(DOCUMENT)
    {
        let plain = |value: &Value| value.as_text().map(str::to_owned);
        known.extend(document.at(&["issuingCA", "cert"]).and_then(plain));
        known.extend(list(document.at(&["acceptedCAs"])).iter().filter_map(plain));
    }
    known
}

fn decoded(value: &Value) -> Option<String> {
    let bytes = STANDARD.decode(value.as_text().filter(|text| !text.is_empty())?).ok()?;
    String::from_utf8(bytes).ok()
}
