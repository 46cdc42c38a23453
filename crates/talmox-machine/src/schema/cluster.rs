//! The document without a kind, and its `cluster`.

use super::common::{CERTIFICATE_AND_KEY_BASE64, CERTIFICATE_BASE64, KEY_BASE64};
use super::machine::MACHINE_CONFIG;
use super::{Key, Struct, Type, always, optional, pointer, value};

pub(super) static V1ALPHA1: Struct = Struct::of(&[
    always("version", Type::Text),
    optional("debug", Type::Bool),
    optional("persist", Type::Bool),
    pointer("machine", Type::Struct(&MACHINE_CONFIG)),
    pointer("cluster", Type::Struct(&CLUSTER_CONFIG)),
]);

pub(super) static CLUSTER_CONFIG: Struct = Struct::of(&[
    value("id", Type::Text),
    value("secret", Type::Text).secret(),
    optional("controlPlane", Type::Struct(&CONTROL_PLANE_CONFIG)),
    value("clusterName", Type::Text),
    optional("network", Type::Struct(&CLUSTER_NETWORK_CONFIG)),
    value("token", Type::Text).secret(),
    value("aescbcEncryptionSecret", Type::Text).secret(),
    value("secretboxEncryptionSecret", Type::Text).secret(),
    optional("ca", Type::Struct(&CERTIFICATE_AND_KEY_BASE64)),
    value("acceptedCAs", Type::List(&Type::Struct(&CERTIFICATE_BASE64))),
    optional("aggregatorCA", Type::Struct(&CERTIFICATE_AND_KEY_BASE64)),
    optional("serviceAccount", Type::Struct(&KEY_BASE64)),
    optional("apiServer", Type::Struct(&API_SERVER_CONFIG)),
    optional("controllerManager", Type::Struct(&CONTROLLER_MANAGER_CONFIG)),
    optional("proxy", Type::Struct(&PROXY_CONFIG)),
    optional("scheduler", Type::Struct(&SCHEDULER_CONFIG)),
    optional("discovery", Type::Struct(&CLUSTER_DISCOVERY_CONFIG)),
    optional("etcd", Type::Struct(&ETCD_CONFIG)),
    optional("coreDNS", Type::Struct(&CORE_DNS)),
    optional("externalCloudProvider", Type::Struct(&EXTERNAL_CLOUD_PROVIDER_CONFIG)),
    value("extraManifests", Type::List(&Type::Text)),
    value("extraManifestHeaders", Type::Map(&Type::Text)).secret(),
    value("inlineManifests", Type::List(&Type::Struct(&CLUSTER_INLINE_MANIFEST))),
    optional("adminKubeconfig", Type::Struct(&ADMIN_KUBECONFIG_CONFIG)),
    optional("allowSchedulingOnMasters", Type::Bool),
    optional("allowSchedulingOnControlPlanes", Type::Bool),
]);

pub(super) static CONTROL_PLANE_CONFIG: Struct =
    Struct::of(&[pointer("endpoint", Type::Url), value("localAPIServerPort", Type::Signed(64))]);

pub(super) static CLUSTER_NETWORK_CONFIG: Struct = Struct::of(&[
    optional("cni", Type::Struct(&CNI_CONFIG)),
    always("dnsDomain", Type::Text),
    always("podSubnets", Type::List(&Type::Text)).replaced(),
    always("serviceSubnets", Type::List(&Type::Text)).replaced(),
]);

pub(super) static CNI_CONFIG: Struct = Struct::of(&[
    value("name", Type::Text),
    value("urls", Type::List(&Type::Text)),
    optional("flannel", Type::Struct(&FLANNEL_CNI_CONFIG)),
]);

pub(super) static FLANNEL_CNI_CONFIG: Struct = Struct::of(&[
    value("extraArgs", Type::List(&Type::Text)),
    optional("kubeNetworkPoliciesEnabled", Type::Bool).since(13),
]);

pub(super) static API_SERVER_CONFIG: Struct = Struct::of(&[
    value("image", Type::Text),
    value("extraArgs", Type::Arguments),
    value("extraVolumes", Type::List(&Type::Struct(&VOLUME_MOUNT_CONFIG))),
    value("env", Type::Map(&Type::Text)).guarded(),
    value("certSANs", Type::List(&Type::Text)),
    optional("disablePodSecurityPolicy", Type::Bool),
    value("admissionControl", Type::Keyed(&ADMISSION_PLUGIN_CONFIG, Key::Name)),
    value("auditPolicy", Type::Object).replaced(),
    optional("resources", Type::Struct(&LEGACY_RESOURCES_CONFIG)),
    value("authorizationConfig", Type::List(&Type::Struct(&AUTHORIZATION_CONFIG_AUTHORIZER_CONFIG))),
]);

pub(super) static VOLUME_MOUNT_CONFIG: Struct = Struct::of(&[
    always("hostPath", Type::Text),
    always("mountPath", Type::Text),
    value("readonly", Type::Bool),
]);

pub(super) static ADMISSION_PLUGIN_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("configuration", Type::Object)]);

pub(super) static LEGACY_RESOURCES_CONFIG: Struct =
    Struct::of(&[value("requests", Type::Object), value("limits", Type::Object)]);

pub(super) static AUTHORIZATION_CONFIG_AUTHORIZER_CONFIG: Struct =
    Struct::of(&[always("type", Type::Text), always("name", Type::Text), value("webhook", Type::Object)]);

pub(super) static CONTROLLER_MANAGER_CONFIG: Struct = Struct::of(&[
    value("image", Type::Text),
    value("extraArgs", Type::Arguments),
    value("extraVolumes", Type::List(&Type::Struct(&VOLUME_MOUNT_CONFIG))),
    value("env", Type::Map(&Type::Text)).guarded(),
    optional("resources", Type::Struct(&LEGACY_RESOURCES_CONFIG)),
]);

pub(super) static PROXY_CONFIG: Struct = Struct::of(&[
    optional("disabled", Type::Bool),
    value("image", Type::Text),
    value("mode", Type::Text),
    value("extraArgs", Type::Arguments),
]);

pub(super) static SCHEDULER_CONFIG: Struct = Struct::of(&[
    value("image", Type::Text),
    value("extraArgs", Type::Arguments),
    value("extraVolumes", Type::List(&Type::Struct(&VOLUME_MOUNT_CONFIG))),
    value("env", Type::Map(&Type::Text)).guarded(),
    optional("resources", Type::Struct(&LEGACY_RESOURCES_CONFIG)),
    value("config", Type::Object),
]);

pub(super) static CLUSTER_DISCOVERY_CONFIG: Struct = Struct::of(&[
    optional("enabled", Type::Bool),
    always("registries", Type::Struct(&DISCOVERY_REGISTRIES_CONFIG)),
]);

pub(super) static DISCOVERY_REGISTRIES_CONFIG: Struct = Struct::of(&[
    always("kubernetes", Type::Struct(&REGISTRY_KUBERNETES_CONFIG)),
    always("service", Type::Struct(&REGISTRY_SERVICE_CONFIG)),
]);

pub(super) static REGISTRY_KUBERNETES_CONFIG: Struct = Struct::of(&[optional("disabled", Type::Bool)]);

pub(super) static REGISTRY_SERVICE_CONFIG: Struct =
    Struct::of(&[optional("disabled", Type::Bool), value("endpoint", Type::Text)]);

pub(super) static ETCD_CONFIG: Struct = Struct::of(&[
    value("image", Type::Text),
    pointer("ca", Type::Struct(&CERTIFICATE_AND_KEY_BASE64)),
    value("extraArgs", Type::Arguments),
    value("subnet", Type::Text),
    value("advertisedSubnets", Type::List(&Type::Text)),
    value("listenSubnets", Type::List(&Type::Text)),
]);

pub(super) static CORE_DNS: Struct =
    Struct::of(&[optional("disabled", Type::Bool), value("image", Type::Text)]);

pub(super) static EXTERNAL_CLOUD_PROVIDER_CONFIG: Struct =
    Struct::of(&[optional("enabled", Type::Bool), value("manifests", Type::List(&Type::Text))]);

pub(super) static CLUSTER_INLINE_MANIFEST: Struct =
    Struct::of(&[always("name", Type::Text), always("contents", Type::Manifest).guarded()]);

pub(super) static ADMIN_KUBECONFIG_CONFIG: Struct = Struct::of(&[value("certLifetime", Type::Duration)]);
