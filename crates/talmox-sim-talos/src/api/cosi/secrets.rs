//! Authorities and certificates of a node, for those who may see secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_machine::{Map, Value};
use talmox_proto::definitions::{KubernetesRoot, OsRoot, PemCertificate, PemPair, Url};

use super::View;
use super::resource::Resource;
use crate::machine::Port;
use crate::machine::settings::{Role, Settings};

impl View<'_> {
    pub(super) fn secret_resources(&self, kind: &str) -> Vec<Resource> {
        let Some(settings) = self.run.settings() else { return Vec::new() };
        let control_plane = settings.role == Role::ControlPlane;
        match kind {
            "OSRootSecrets.secrets.talos.dev" => vec![self.os_root(settings)],
            "ApiCertificates.secrets.talos.dev" => self.api_certificate().into_iter().collect(),
            "KubernetesRootSecrets.secrets.talos.dev" if control_plane => {
                vec![self.kubernetes_root(settings)]
            }
            "KubernetesDynamicCerts.secrets.talos.dev" if control_plane => {
                vec![self.kubernetes_certificates()]
            }
            _ => Vec::new(),
        }
    }

    fn secret(&self, kind: &'static str, id: &str, owner: &'static str, version: u64) -> Resource {
        let created = self.run.configured.unwrap_or(self.run.started);
        Resource::new(("secrets", kind), id, owner, created).changed(version, self.since())
    }

    fn os_root(&self, settings: &Settings) -> Resource {
        let key = settings.signer.as_ref().map(|signer| signer.key.as_str()).unwrap_or_default();
        let all: Vec<&String> = std::iter::once(&settings.authority).chain(&settings.accepted).collect();
        let map =
            Map::new().with("issuingCA", pair(&settings.authority, key)).with("acceptedCAs", accepted(&all));
        let proto = OsRoot {
            issuing_ca: Some(pem_pair(&settings.authority, key)),
            accepted_cas: pem_certificates(&all),
        };
        let kind = "OSRootSecrets.secrets.talos.dev";
        self.secret(kind, "os", "secrets.RootOSController", self.versions().machine_secrets)
            .proto(&proto)
            .yaml(map)
    }

    fn api_certificate(&self) -> Option<Resource> {
        let Port::Secure(shown) = &self.run.port else { return None };
        let map = Map::new().with("server", pair(&shown.certificate, &shown.key));
        let kind = "ApiCertificates.secrets.talos.dev";
        Some(self.secret(kind, "api", "secrets.APIController", self.versions().machine_secrets).yaml(map))
    }

    fn kubernetes_root(&self, settings: &Settings) -> Resource {
        let signer = settings.kubernetes.as_ref();
        let (certificate, key) =
            signer.map_or(("", ""), |signer| (signer.certificate.as_str(), signer.key.as_str()));
        let all = settings.kubernetes_authorities();
        let map = Map::new()
            .with("name", settings.cluster_name.as_str())
            .with("endpoint", settings.endpoint.as_str())
            .with("issuingCA", pair(certificate, key))
            .with("acceptedCAs", accepted(&all));
        let proto = KubernetesRoot {
            name: settings.cluster_name.clone(),
            endpoint: Some(Url { full_path: settings.endpoint.clone() }),
            issuing_ca: Some(pem_pair(certificate, key)),
            accepted_cas: pem_certificates(&all),
        };
        let kind = "KubernetesRootSecrets.secrets.talos.dev";
        self.secret(kind, "k8s", "secrets.RootKubernetesController", self.versions().secrets)
            .proto(&proto)
            .yaml(map)
    }

    fn kubernetes_certificates(&self) -> Resource {
        let shown = self.run.kubernetes.api_server.as_ref();
        let server = shown.map_or_else(|| pair("", ""), |shown| pair(&shown.certificate, &shown.key));
        let kind = "KubernetesDynamicCerts.secrets.talos.dev";
        self.secret(
            kind,
            "k8s-dynamic-certs",
            "secrets.KubernetesDynamicCertsController",
            self.versions().secrets,
        )
        .yaml(Map::new().with("apiServer", server))
    }
}

fn pair(certificate: &str, key: &str) -> Map {
    Map::new().with("crt", STANDARD.encode(certificate)).with("key", STANDARD.encode(key))
}

fn accepted<T: AsRef<str>>(certificates: &[T]) -> Value {
    let one = |certificate: &T| Map::new().with("crt", STANDARD.encode(certificate.as_ref())).into();
    Value::List(certificates.iter().map(one).collect())
}

fn pem_pair(certificate: &str, key: &str) -> PemPair {
    PemPair { crt: certificate.as_bytes().to_vec(), key: key.as_bytes().to_vec() }
}

fn pem_certificates<T: AsRef<str>>(certificates: &[T]) -> Vec<PemCertificate> {
    let one = |certificate: &T| PemCertificate { crt: certificate.as_ref().as_bytes().to_vec() };
    certificates.iter().map(one).collect()
}
