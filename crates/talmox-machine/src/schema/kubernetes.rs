//! Kubernetes and discovery documents, since Talos 1.14.

use super::common::CERTIFICATE_AND_KEY;
use super::{Struct, Type, always, optional, value};

pub(super) static DISCOVERY_IDENTITY_CONFIG: Struct =
    Struct::of(&[always("clusterID", Type::Text), always("clusterSecret", Type::Text).secret()]);

pub(super) static DISCOVERY_SERVICE_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("endpoint", Type::Url)]);

pub(super) static KUBE_API_SERVER_CA_CONFIG: Struct = Struct::of(&[
    optional("issuingCA", Type::Struct(&CERTIFICATE_AND_KEY)),
    value("acceptedCAs", Type::List(&Type::Text)),
]);

pub(super) static KUBE_API_SERVER_CONFIG: Struct = Struct::of(&[
    always("image", Type::Text),
    value("extraArgs", Type::Arguments),
    value("env", Type::Map(&Type::Text)).guarded(),
    value("resources", Type::Struct(&RESOURCES_CONFIG)),
    optional("apiPort", Type::Signed(64)),
    value("certExtraSANs", Type::List(&Type::Text)),
    optional("startupProbes", Type::Bool),
]);

pub(super) static RESOURCES_CONFIG: Struct =
    Struct::of(&[value("requests", Type::Object), value("limits", Type::Object)]);

pub(super) static KUBE_ADMISSION_CONTROL_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("configuration", Type::Object)]);

pub(super) static KUBE_AGGREGATOR_CA_CONFIG: Struct = Struct::of(&[
    optional("issuingCA", Type::Struct(&CERTIFICATE_AND_KEY)),
    value("acceptedCAs", Type::List(&Type::Text)),
]);

pub(super) static KUBE_AUDIT_POLICY_CONFIG: Struct =
    Struct::of(&[always("configuration", Type::Object).replaced()]);

pub(super) static KUBE_AUTHENTICATION_CONFIG: Struct =
    Struct::of(&[always("configuration", Type::Object).replaced()]);

pub(super) static KUBE_AUTHORIZER_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("type", Type::Text), value("webhook", Type::Object)]);

pub(super) static KUBE_CLUSTER_CONFIG: Struct =
    Struct::of(&[always("clusterName", Type::Text), always("endpoint", Type::Url)]);

pub(super) static KUBE_CONTROLLER_MANAGER_CONFIG: Struct = Struct::of(&[
    optional("enabled", Type::Bool),
    always("image", Type::Text),
    value("extraArgs", Type::Arguments),
    value("env", Type::Map(&Type::Text)).guarded(),
    value("resources", Type::Struct(&RESOURCES_CONFIG)),
]);

pub(super) static KUBE_CORE_DNS_CONFIG: Struct =
    Struct::of(&[optional("enabled", Type::Bool), value("image", Type::Text)]);

pub(super) static KUBE_CREDENTIAL_PROVIDER_CONFIG: Struct =
    Struct::of(&[always("configuration", Type::Object).replaced().guarded()]);

pub(super) static KUBE_ETCD_ENCRYPTION_CONFIG: Struct =
    Struct::of(&[always("config", Type::Object).secret()]);

pub(super) static KUBE_EXTERNAL_MANIFEST_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("headers", Type::Map(&Type::Text)).secret(),
    always("url", Type::Url),
]);

pub(super) static KUBE_FLANNEL_CNI_CONFIG: Struct = Struct::of(&[
    always("backendType", Type::Text),
    value("backendPort", Type::Unsigned(16)),
    value("backendMTU", Type::Unsigned(32)),
    value("backendExtraConfig", Type::Object),
    value("resources", Type::Struct(&RESOURCES_CONFIG)),
    value("extraArgs", Type::List(&Type::Text)),
    optional("kubeNetworkPoliciesEnabled", Type::Bool),
]);

pub(super) static KUBE_INLINE_MANIFEST_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("manifest", Type::Text).guarded()]);

pub(super) static KUBE_NETWORK_CONFIG: Struct = Struct::of(&[
    always("dnsDomain", Type::Text),
    always("podSubnets", Type::List(&Type::Prefix)).replaced(),
    always("serviceSubnets", Type::List(&Type::Prefix)).replaced(),
    value("nodeCIDRMaskSizeIPv4", Type::Signed(64)),
    value("nodeCIDRMaskSizeIPv6", Type::Signed(64)),
]);

pub(super) static KUBE_NODE_CONFIG: Struct = Struct::of(&[
    optional("skipNodeRegistration", Type::Bool),
    optional("registerWithFQDN", Type::Bool),
    always("nodeIP", Type::Struct(&NODE_IP_CONFIG)),
    value("labels", Type::Map(&Type::Text)),
    value("annotations", Type::Map(&Type::Text)),
    value("taints", Type::Map(&Type::Text)),
]);

pub(super) static NODE_IP_CONFIG: Struct = Struct::of(&[value("validSubnets", Type::List(&Type::Text))]);

pub(super) static KUBE_PRISM_CONFIG: Struct =
    Struct::of(&[always("port", Type::Signed(64)), value("tlsServerName", Type::Text)]);

pub(super) static KUBE_PROXY_CONFIG: Struct = Struct::of(&[
    optional("enabled", Type::Bool),
    value("image", Type::Text),
    value("mode", Type::Text),
    always("config", Type::Object),
    value("extraArgs", Type::Arguments),
    value("resources", Type::Struct(&RESOURCES_CONFIG)),
]);

pub(super) static KUBE_SCHEDULER_CONFIG: Struct = Struct::of(&[
    optional("enabled", Type::Bool),
    always("image", Type::Text),
    always("config", Type::Object),
    value("extraArgs", Type::Arguments),
    value("env", Type::Map(&Type::Text)).guarded(),
    value("resources", Type::Struct(&RESOURCES_CONFIG)),
]);

pub(super) static KUBE_SERVICE_ACCOUNT_CONFIG: Struct = Struct::of(&[
    always("issuer", Type::Struct(&ISSUER_SERVICE_ACCOUNT_CONFIG)),
    value("accepted", Type::Struct(&ACCEPTED_SERVICE_ACCOUNT_CONFIG)),
]);

pub(super) static ISSUER_SERVICE_ACCOUNT_CONFIG: Struct =
    Struct::of(&[always("privateKey", Type::Text).secret(), always("issuerURL", Type::Url)]);

pub(super) static ACCEPTED_SERVICE_ACCOUNT_CONFIG: Struct = Struct::of(&[
    value("publicKeys", Type::List(&Type::Text)),
    value("issuers", Type::List(&Type::Url)),
    value("audiences", Type::List(&Type::Text)),
]);

pub(super) static KUBE_STATIC_POD_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("pod", Type::Object).replaced().guarded()]);

pub(super) static KUBE_TALOS_API_ACCESS_CONFIG: Struct = Struct::of(&[
    value("allowedRoles", Type::List(&Type::Text)),
    value("allowedKubernetesNamespaces", Type::List(&Type::Text)),
]);

pub(super) static KUBELET_CONFIG: Struct = Struct::of(&[
    always("image", Type::Text),
    always("config", Type::Object).guarding("staticPodURLHeader"),
    value("extraArgs", Type::Arguments),
    value("clusterDNS", Type::List(&Type::Text)),
    optional("defaultRuntimeSeccompProfileEnabled", Type::Bool),
]);
