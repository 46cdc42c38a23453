//! Documents about Kubernetes, from 1.14 on.

use secrecy::ExposeSecret as _;

use super::legacy::{EXCLUDE_FROM_LOAD_BALANCERS, audit_policy, pod_security};
use super::{Input, Role, document, plain};
use crate::document::Document;
use crate::secrets::Encryption;
use crate::value::{Map, Value};

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// What machines of both roles have.
pub(super) fn common(input: &Input<'_>, role: Role) -> Vec<Document> {
    let options = &input.options;
    let cluster =
        Map::new().with("clusterName", input.cluster_name.as_str()).with("endpoint", input.endpoint.as_str());
    let kubelet = Map::new()
        .with("image", input.image("ghcr.io/siderolabs/kubelet"))
        .with("defaultRuntimeSeccompProfileEnabled", true);
    let network = Map::new()
        .with("dnsDomain", options.dns_domain.as_str())
        .with("podSubnets", options.pod_subnets.clone())
        .with("serviceSubnets", options.service_subnets.clone());
    let authority = &input.secrets.kubernetes;
    let authority = match role {
        Role::ControlPlane => Map::new().with("issuingCA", plain(authority)),
        Role::Worker => Map::new().with("acceptedCAs", vec![authority.certificate.pem()]),
    };
    let mut documents = vec![
        document("KubeClusterConfig", cluster),
        document("KubeNodeConfig", node(input, role)),
        document("KubeletConfig", kubelet),
        document("KubeNetworkConfig", network),
        document("KubeAPIServerCAConfig", authority),
    ];
    documents.extend(
        options.kubeprism_port.map(|port| document("KubePrismConfig", Map::new().with("port", port))),
    );
    documents
}

fn node(input: &Input<'_>, role: Role) -> Map {
    if role == Role::Worker {
        return Map::new();
    }
    let labels = Map::new().with(CONTROL_PLANE, "").with(EXCLUDE_FROM_LOAD_BALANCERS, "");
    let tainted = !input.options.allow_scheduling_on_control_planes;
    Map::new()
        .with("labels", labels)
        .with_some("taints", tainted.then(|| Map::new().with(CONTROL_PLANE, "NoSchedule")))
}

/// What only control planes have.
pub(super) fn control_plane(input: &Input<'_>) -> Vec<Document> {
    let options = &input.options;
    let image = |name: &str| Map::new().with("image", input.image(&format!("registry.k8s.io/{name}")));
    let authorizer = |name: &str, kind: &str| {
        document("KubeAuthorizerConfig", Map::new().with("name", name).with("type", kind))
    };
    let names = &options.additional_sans;
    let api_server = image("kube-apiserver")
        .with_some("apiPort", options.local_api_server_port)
        .with_some("certExtraSANs", (!names.is_empty()).then(|| names.clone()));
    let mut documents = vec![
        document("KubeAggregatorCAConfig", Map::new().with("issuingCA", plain(&input.secrets.aggregator))),
        document(
            "KubeAdmissionControlConfig",
            Map::new().with("name", "PodSecurity").with("configuration", pod_security()),
        ),
        document("KubeAuditPolicyConfig", Map::new().with("configuration", audit_policy())),
        document("KubeAuthenticationConfig", Map::new().with("configuration", authentication())),
        authorizer("node", "Node"),
        authorizer("rbac", "RBAC"),
        document("KubeEtcdEncryptionConfig", Map::new().with("config", encryption(input))),
        document("KubeServiceAccountConfig", service_account(input)),
        document("KubeAPIServerConfig", api_server),
        document("KubeControllerManagerConfig", image("kube-controller-manager")),
        document("KubeSchedulerConfig", image("kube-scheduler")),
        document("KubeProxyConfig", image("kube-proxy")),
    ];
    if options.cni_urls.is_empty() {
        let flannel = Map::new().with("backendType", "vxlan").with("backendPort", 4789_u16);
        documents.push(document("KubeFlannelCNIConfig", flannel));
    }
    documents.push(document("KubeCoreDNSConfig", Map::new().with("enabled", true)));
    documents.extend(options.cni_urls.iter().enumerate().map(|(index, url)| cni_manifest(index, url)));
    documents
}

/// The first manifest has the name Talos gives it; Talos itself knows only one.
fn cni_manifest(index: usize, url: &str) -> Document {
    let name = if index == 0 { "custom-cni".to_owned() } else { format!("custom-cni-{}", index + 1) };
    document("KubeExternalManifestConfig", Map::new().with("name", name).with("url", url))
}

/// Strangers may ask whether the API server is well, and nothing else.
fn authentication() -> Map {
    let condition = |path: &str| Value::Map(Map::new().with("path", path));
    let conditions: Vec<Value> = ["/livez", "/readyz", "/healthz"].into_iter().map(condition).collect();
    Map::new()
        .with("anonymous", Map::new().with("enabled", true).with("conditions", conditions))
        .with("jwt", Value::List(Vec::new()))
}

fn encryption(input: &Input<'_>) -> Map {
    // talosctl writes the second kind as the first, so that nothing in etcd could be read any more.
    let (kind, name, secret) = match &input.secrets.encryption {
        Encryption::Secretbox(secret) => ("secretbox", "key2", secret),
        Encryption::AesCbc(secret) => ("aescbc", "key1", secret),
    };
    let key = Map::new().with("name", name).with("secret", secret.expose_secret());
    let provider = Map::new().with(kind, Map::new().with("keys", vec![Value::Map(key)]));
    let resource =
        Map::new().with("providers", vec![Value::Map(provider)]).with("resources", vec!["secrets"]);
    Map::new().with("resources", vec![Value::Map(resource)])
}

fn service_account(input: &Input<'_>) -> Map {
    let issuer = Map::new()
        .with("privateKey", input.secrets.service_account.pem().expose_secret())
        .with("issuerURL", input.endpoint.as_str());
    Map::new().with("issuer", issuer)
}
