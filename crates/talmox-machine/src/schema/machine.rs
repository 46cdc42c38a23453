//! `machine` of the document without a kind.

use super::common::{CERTIFICATE_AND_KEY_BASE64, CERTIFICATE_BASE64};
use super::interfaces::NETWORK_CONFIG;
use super::{Struct, Type, always, optional, pointer, value};

pub(super) static MACHINE_CONFIG: Struct = Struct::of(&[
    always("type", Type::Text),
    always("token", Type::Text).secret(),
    optional("ca", Type::Struct(&CERTIFICATE_AND_KEY_BASE64)),
    value("acceptedCAs", Type::List(&Type::Struct(&CERTIFICATE_BASE64))),
    always("certSANs", Type::List(&Type::Text)),
    optional("controlPlane", Type::Struct(&MACHINE_CONTROL_PLANE_CONFIG)),
    optional("kubelet", Type::Struct(&LEGACY_KUBELET_CONFIG)),
    value("pods", Type::List(&Type::Object)).guarded(),
    optional("network", Type::Struct(&NETWORK_CONFIG)),
    value("disks", Type::List(&Type::Struct(&MACHINE_DISK))),
    optional("install", Type::Struct(&INSTALL_CONFIG)),
    value("files", Type::List(&Type::Struct(&MACHINE_FILE))),
    value("env", Type::Map(&Type::Text)).guarded(),
    optional("time", Type::Struct(&TIME_CONFIG)),
    value("sysctls", Type::Map(&Type::Text)),
    value("sysfs", Type::Map(&Type::Text)),
    value("registries", Type::Struct(&REGISTRIES_CONFIG)),
    optional("systemDiskEncryption", Type::Struct(&SYSTEM_DISK_ENCRYPTION_CONFIG)),
    optional("features", Type::Struct(&FEATURES_CONFIG)),
    optional("udev", Type::Struct(&UDEV_CONFIG)),
    optional("logging", Type::Struct(&LOGGING_CONFIG)),
    optional("kernel", Type::Struct(&KERNEL_CONFIG)),
    value("seccompProfiles", Type::List(&Type::Struct(&MACHINE_SECCOMP_PROFILE))),
    value("baseRuntimeSpecOverrides", Type::Object),
    value("nodeLabels", Type::Map(&Type::Text)),
    value("nodeAnnotations", Type::Map(&Type::Text)),
    value("nodeTaints", Type::Map(&Type::Text)),
]);

pub(super) static MACHINE_CONTROL_PLANE_CONFIG: Struct = Struct::of(&[
    optional("controllerManager", Type::Struct(&MACHINE_CONTROLLER_MANAGER_CONFIG)),
    optional("scheduler", Type::Struct(&MACHINE_SCHEDULER_CONFIG)),
]);

pub(super) static MACHINE_CONTROLLER_MANAGER_CONFIG: Struct = Struct::of(&[optional("disabled", Type::Bool)]);

pub(super) static MACHINE_SCHEDULER_CONFIG: Struct = Struct::of(&[optional("disabled", Type::Bool)]);

pub(super) static LEGACY_KUBELET_CONFIG: Struct = Struct::of(&[
    value("image", Type::Text),
    value("clusterDNS", Type::List(&Type::Text)),
    value("extraArgs", Type::Arguments),
    value("extraMounts", Type::List(&Type::Struct(&EXTRA_MOUNT))),
    value("extraConfig", Type::Object).guarding("staticPodURLHeader"),
    value("credentialProviderConfig", Type::Object).guarded(),
    optional("defaultRuntimeSeccompProfileEnabled", Type::Bool),
    optional("registerWithFQDN", Type::Bool),
    optional("nodeIP", Type::Struct(&KUBELET_NODE_IP_CONFIG)),
    optional("skipNodeRegistration", Type::Bool),
    optional("disableManifestsDirectory", Type::Bool),
]);

pub(super) static EXTRA_MOUNT: Struct = Struct::of(&[
    always("destination", Type::Text),
    value("type", Type::Text),
    value("source", Type::Text),
    value("options", Type::List(&Type::Text)),
    value("uidMappings", Type::List(&Type::Struct(&LINUX_ID_MAPPING))),
    value("gidMappings", Type::List(&Type::Struct(&LINUX_ID_MAPPING))),
]);

pub(super) static LINUX_ID_MAPPING: Struct = Struct::of(&[
    always("containerID", Type::Unsigned(32)),
    always("hostID", Type::Unsigned(32)),
    always("size", Type::Unsigned(32)),
]);

pub(super) static KUBELET_NODE_IP_CONFIG: Struct =
    Struct::of(&[value("validSubnets", Type::List(&Type::Text))]);

pub(super) static MACHINE_DISK: Struct = Struct::of(&[
    value("device", Type::Text),
    value("partitions", Type::List(&Type::Struct(&DISK_PARTITION))),
]);

pub(super) static DISK_PARTITION: Struct =
    Struct::of(&[value("size", Type::DiskSize), value("mountpoint", Type::Text)]);

pub(super) static INSTALL_CONFIG: Struct = Struct::of(&[
    value("disk", Type::Text),
    optional("diskSelector", Type::Struct(&INSTALL_DISK_SELECTOR)),
    value("extraKernelArgs", Type::List(&Type::Text)),
    value("image", Type::Text),
    value("extensions", Type::List(&Type::Struct(&INSTALL_EXTENSION_CONFIG))),
    optional("bootloader", Type::Bool),
    pointer("wipe", Type::Bool),
    optional("legacyBIOSSupport", Type::Bool),
    optional("grubUseUKICmdline", Type::Bool).since(12),
]);

pub(super) static INSTALL_DISK_SELECTOR: Struct = Struct::of(&[
    optional("size", Type::SizeCondition),
    value("name", Type::Text),
    value("model", Type::Text),
    value("serial", Type::Text),
    value("modalias", Type::Text),
    value("uuid", Type::Text),
    value("wwid", Type::Text),
    value("type", Type::Text),
    value("busPath", Type::Text),
]);

pub(super) static INSTALL_EXTENSION_CONFIG: Struct = Struct::of(&[always("image", Type::Text)]);

pub(super) static MACHINE_FILE: Struct = Struct::of(&[
    always("content", Type::Text).guarded(),
    always("permissions", Type::FileMode),
    always("path", Type::Text),
    always("op", Type::Text),
]);

pub(super) static TIME_CONFIG: Struct = Struct::of(&[
    optional("disabled", Type::Bool),
    value("servers", Type::List(&Type::Text)),
    value("bootTimeout", Type::Duration),
]);

pub(super) static REGISTRIES_CONFIG: Struct = Struct::of(&[
    value("mirrors", Type::Map(&Type::Struct(&LEGACY_REGISTRY_MIRROR_CONFIG))),
    value("config", Type::Map(&Type::Struct(&REGISTRY_CONFIG))),
]);

pub(super) static LEGACY_REGISTRY_MIRROR_CONFIG: Struct = Struct::of(&[
    always("endpoints", Type::List(&Type::Text)),
    optional("overridePath", Type::Bool),
    optional("skipFallback", Type::Bool),
]);

pub(super) static REGISTRY_CONFIG: Struct = Struct::of(&[
    optional("tls", Type::Struct(&LEGACY_REGISTRY_TLS_CONFIG)),
    optional("auth", Type::Struct(&LEGACY_REGISTRY_AUTH_CONFIG)),
]);

pub(super) static LEGACY_REGISTRY_TLS_CONFIG: Struct = Struct::of(&[
    optional("clientIdentity", Type::Struct(&CERTIFICATE_AND_KEY_BASE64)),
    value("ca", Type::Base64),
    optional("insecureSkipVerify", Type::Bool),
]);

pub(super) static LEGACY_REGISTRY_AUTH_CONFIG: Struct = Struct::of(&[
    value("username", Type::Text),
    value("password", Type::Text).secret(),
    value("auth", Type::Text).secret(),
    value("identityToken", Type::Text).secret(),
]);

pub(super) static SYSTEM_DISK_ENCRYPTION_CONFIG: Struct = Struct::of(&[
    optional("state", Type::Struct(&ENCRYPTION_CONFIG)),
    optional("ephemeral", Type::Struct(&ENCRYPTION_CONFIG)),
]);

pub(super) static ENCRYPTION_CONFIG: Struct = Struct::of(&[
    always("provider", Type::Text),
    always("keys", Type::List(&Type::Struct(&LEGACY_ENCRYPTION_KEY))),
    value("cipher", Type::Text),
    value("keySize", Type::Unsigned(64)),
    value("blockSize", Type::Unsigned(64)),
    value("options", Type::List(&Type::Text)),
]);

pub(super) static LEGACY_ENCRYPTION_KEY: Struct = Struct::of(&[
    optional("static", Type::Struct(&LEGACY_ENCRYPTION_KEY_STATIC)),
    optional("nodeID", Type::Struct(&LEGACY_ENCRYPTION_KEY_NODE_ID)),
    optional("kms", Type::Struct(&LEGACY_ENCRYPTION_KEY_KMS)),
    always("slot", Type::Signed(64)),
    optional("tpm", Type::Struct(&LEGACY_ENCRYPTION_KEY_TPM)),
]);

pub(super) static LEGACY_ENCRYPTION_KEY_STATIC: Struct =
    Struct::of(&[value("passphrase", Type::Text).secret()]);

pub(super) static LEGACY_ENCRYPTION_KEY_NODE_ID: Struct = Struct::of(&[]);

pub(super) static LEGACY_ENCRYPTION_KEY_KMS: Struct = Struct::of(&[always("endpoint", Type::Text)]);

pub(super) static LEGACY_ENCRYPTION_KEY_TPM: Struct =
    Struct::of(&[optional("checkSecurebootStatusOnEnroll", Type::Bool)]);

pub(super) static FEATURES_CONFIG: Struct = Struct::of(&[
    optional("rbac", Type::Bool),
    optional("stableHostname", Type::Bool),
    optional("kubernetesTalosAPIAccess", Type::Struct(&KUBERNETES_TALOS_API_ACCESS_CONFIG)),
    optional("apidCheckExtKeyUsage", Type::Bool),
    optional("diskQuotaSupport", Type::Bool),
    optional("kubePrism", Type::Struct(&KUBE_PRISM)),
    optional("hostDNS", Type::Struct(&LEGACY_HOST_DNS_CONFIG)),
    optional("imageCache", Type::Struct(&LEGACY_IMAGE_CACHE_CONFIG)),
    value("nodeAddressSortAlgorithm", Type::Text),
]);

pub(super) static KUBERNETES_TALOS_API_ACCESS_CONFIG: Struct = Struct::of(&[
    optional("enabled", Type::Bool),
    value("allowedRoles", Type::List(&Type::Text)),
    value("allowedKubernetesNamespaces", Type::List(&Type::Text)),
]);

pub(super) static KUBE_PRISM: Struct =
    Struct::of(&[optional("enabled", Type::Bool), value("port", Type::Signed(64))]);

pub(super) static LEGACY_HOST_DNS_CONFIG: Struct = Struct::of(&[
    optional("enabled", Type::Bool),
    optional("forwardKubeDNSToHost", Type::Bool),
    optional("resolveMemberNames", Type::Bool),
]);

pub(super) static LEGACY_IMAGE_CACHE_CONFIG: Struct = Struct::of(&[optional("localEnabled", Type::Bool)]);

pub(super) static UDEV_CONFIG: Struct = Struct::of(&[value("rules", Type::List(&Type::Text))]);

pub(super) static LOGGING_CONFIG: Struct =
    Struct::of(&[always("destinations", Type::List(&Type::Struct(&LOGGING_DESTINATION)))]);

pub(super) static LOGGING_DESTINATION: Struct = Struct::of(&[
    pointer("endpoint", Type::Url),
    always("format", Type::Text),
    value("extraTags", Type::Map(&Type::Text)).guarded(),
]);

pub(super) static KERNEL_CONFIG: Struct =
    Struct::of(&[value("modules", Type::List(&Type::Struct(&LEGACY_KERNEL_MODULE_CONFIG)))]);

pub(super) static LEGACY_KERNEL_MODULE_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), value("parameters", Type::List(&Type::Text))]);

pub(super) static MACHINE_SECCOMP_PROFILE: Struct =
    Struct::of(&[always("name", Type::Text), always("value", Type::Object)]);
