//! Runtime, registries, extensions, security and the rest.

use super::common::CERTIFICATE_AND_KEY;
use super::{Key, Struct, Type, always, optional, value};

pub(super) static CRI_BASE_RUNTIME_SPEC_CONFIG: Struct =
    Struct::of(&[value("overrides", Type::Object).replaced()]);

pub(super) static CRI_CUSTOMIZATION_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("content", Type::Text).guarded()]);

pub(super) static CONTAINER_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    always("image", Type::Text),
    value("entrypoint", Type::List(&Type::Text)),
    value("args", Type::List(&Type::Text)),
    value("workingDir", Type::Text),
    optional("runAs", Type::Struct(&CONTAINER_RUN_AS)),
    value("environment", Type::List(&Type::Text)).secret(),
    value("mounts", Type::List(&Type::Struct(&CONTAINER_MOUNT))),
    optional("security", Type::Struct(&CONTAINER_SECURITY)),
    optional("network", Type::Struct(&CONTAINER_NETWORK)),
    optional("resources", Type::Struct(&CONTAINER_RESOURCES)),
    optional("dependsOn", Type::Struct(&CONTAINER_DEPENDS_ON)),
]);

pub(super) static CONTAINER_RUN_AS: Struct =
    Struct::of(&[optional("uid", Type::Signed(32)), optional("gid", Type::Signed(32))]);

pub(super) static CONTAINER_MOUNT: Struct = Struct::of(&[
    optional("userVolume", Type::Struct(&USER_VOLUME_MOUNT)),
    optional("tmpfs", Type::Struct(&TMPFS_MOUNT)),
    optional("hostPath", Type::Struct(&HOST_PATH_MOUNT)),
]);

pub(super) static USER_VOLUME_MOUNT: Struct = Struct::of(&[
    always("name", Type::Text),
    always("destination", Type::Text),
    value("options", Type::List(&Type::Text)),
]);

pub(super) static TMPFS_MOUNT: Struct = Struct::of(&[
    always("destination", Type::Text),
    value("size", Type::Text),
    value("options", Type::List(&Type::Text)),
]);

pub(super) static HOST_PATH_MOUNT: Struct = Struct::of(&[
    always("source", Type::Text),
    always("destination", Type::Text),
    value("options", Type::List(&Type::Text)),
]);

pub(super) static CONTAINER_SECURITY: Struct = Struct::of(&[
    value("profile", Type::Text),
    optional("capabilities", Type::Struct(&CONTAINER_CAPABILITIES)),
    value("machinedAccess", Type::Bool),
]);

pub(super) static CONTAINER_CAPABILITIES: Struct =
    Struct::of(&[value("add", Type::List(&Type::Text)), value("drop", Type::List(&Type::Text))]);

pub(super) static CONTAINER_NETWORK: Struct = Struct::of(&[value("mode", Type::Text)]);

pub(super) static CONTAINER_RESOURCES: Struct =
    Struct::of(&[optional("limits", Type::Struct(&CONTAINER_RESOURCE_LIMITS))]);

pub(super) static CONTAINER_RESOURCE_LIMITS: Struct =
    Struct::of(&[value("cpu", Type::Text), value("memory", Type::Text)]);

pub(super) static CONTAINER_DEPENDS_ON: Struct = Struct::of(&[
    value("paths", Type::List(&Type::Text)),
    value("networks", Type::List(&Type::Text)),
    optional("time", Type::Bool),
    value("containers", Type::List(&Type::Text)),
]);

pub(super) static ENVIRONMENT: Struct = Struct::of(&[always("variables", Type::Map(&Type::Text)).guarded()]);

pub(super) static ETC_FILE_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    always("mode", Type::FileMode),
    always("contents", Type::Text).guarded(),
]);

pub(super) static EVENT_SINK: Struct = Struct::of(&[always("endpoint", Type::Text)]);

pub(super) static EXTENSION_SERVICE: Struct = Struct::of(&[
    always("name", Type::Text),
    value("configFiles", Type::Keyed(&CONFIG_FILE, Key::MountPath)),
    value("environment", Type::List(&Type::Text)).secret(),
]);

pub(super) static CONFIG_FILE: Struct =
    Struct::of(&[always("content", Type::Text).secret(), always("mountPath", Type::Text)]);

pub(super) static IMAGE_CACHE_CONFIG: Struct =
    Struct::of(&[always("local", Type::Struct(&LOCAL_IMAGE_CACHE_CONFIG))]);

pub(super) static LOCAL_IMAGE_CACHE_CONFIG: Struct = Struct::of(&[optional("enabled", Type::Bool)]);

pub(super) static IMAGE_VERIFICATION_CONFIG: Struct =
    Struct::of(&[value("rules", Type::Keyed(&IMAGE_VERIFICATION_RULE, Key::ReplaceImage))]);

pub(super) static IMAGE_VERIFICATION_RULE: Struct = Struct::of(&[
    value("image", Type::Text),
    optional("skip", Type::Bool),
    optional("deny", Type::Bool),
    optional("keyless", Type::Struct(&IMAGE_KEYLESS_VERIFIER)),
    optional("publicKey", Type::Struct(&IMAGE_PUBLIC_KEY_VERIFIER)),
]);

pub(super) static IMAGE_KEYLESS_VERIFIER: Struct = Struct::of(&[
    value("issuer", Type::Text),
    value("subject", Type::Text),
    value("subjectRegex", Type::Text),
]);

pub(super) static IMAGE_PUBLIC_KEY_VERIFIER: Struct = Struct::of(&[value("certificate", Type::Text)]);

pub(super) static KERNEL_MODULE_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), value("parameters", Type::List(&Type::Text))]);

pub(super) static KMSG_LOG: Struct = Struct::of(&[always("name", Type::Text), always("url", Type::Url)]);

pub(super) static OOM: Struct = Struct::of(&[
    value("triggerExpression", Type::Expression),
    value("cgroupRankingExpression", Type::Expression),
    optional("strictCgroupClassOrdering", Type::Bool).since(13),
    value("sampleInterval", Type::Duration),
]);

pub(super) static PCI_DRIVER_REBIND_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("targetDriver", Type::Text)]);

pub(super) static REGISTRY_AUTH_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("username", Type::Text),
    value("password", Type::Text).secret(),
    value("auth", Type::Text).secret(),
    value("identityToken", Type::Text).secret(),
]);

pub(super) static REGISTRY_MIRROR_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("endpoints", Type::List(&Type::Struct(&REGISTRY_ENDPOINT))),
    optional("skipFallback", Type::Bool),
]);

pub(super) static REGISTRY_ENDPOINT: Struct =
    Struct::of(&[always("url", Type::Url), optional("overridePath", Type::Bool)]);

pub(super) static REGISTRY_TLS_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    optional("clientIdentity", Type::Struct(&CERTIFICATE_AND_KEY)),
    value("ca", Type::Text),
    optional("insecureSkipVerify", Type::Bool),
]);

pub(super) static SECURITY_PROFILE_CONFIG: Struct = Struct::of(&[optional("workloadIsolation", Type::Bool)]);

pub(super) static SIDERO_LINK: Struct =
    Struct::of(&[always("apiUrl", Type::Url).secret(), value("uniqueToken", Type::Text).secret()]);

pub(super) static SYSCTL_CONFIG: Struct = Struct::of(&[always("params", Type::Map(&Type::Text))]);

pub(super) static SYSFS_CONFIG: Struct = Struct::of(&[always("params", Type::Map(&Type::Text))]);

pub(super) static TRUSTED_ROOTS_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("certificates", Type::Text)]);

pub(super) static UDEV_RULES_CONFIG: Struct = Struct::of(&[value("rules", Type::List(&Type::Text))]);

pub(super) static UNATTENDED_INSTALL_CONFIG: Struct = Struct::of(&[
    optional("reboot", Type::Bool),
    always("installer", Type::Struct(&INSTALLER_SPEC)),
    always("provisioning", Type::Struct(&RUNTIME_PROVISIONING_SPEC)),
]);

pub(super) static INSTALLER_SPEC: Struct = Struct::of(&[value("image", Type::Text)]);

pub(super) static RUNTIME_PROVISIONING_SPEC: Struct =
    Struct::of(&[value("diskSelector", Type::Struct(&DISK_SELECTOR_SPEC)), optional("wipe", Type::Bool)]);

pub(super) static DISK_SELECTOR_SPEC: Struct = Struct::of(&[value("match", Type::Expression)]);

pub(super) static WATCHDOG_TIMER: Struct =
    Struct::of(&[always("device", Type::Text), value("timeout", Type::Duration)]);
