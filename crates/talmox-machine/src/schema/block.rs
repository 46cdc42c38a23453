//! Volumes and what they are made of.

use super::choices::{
    ENCRYPTION_PROVIDER_TYPE, FILESYSTEM_TYPE, LVM_LOGICAL_VOLUME_TYPE, MD_LEVEL, MD_METADATA, VOLUME_TYPE,
};
use super::{Struct, Type, always, optional, value};

pub(super) static EXISTING_VOLUME_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("discovery", Type::Struct(&VOLUME_DISCOVERY_SPEC)),
    value("mount", Type::Struct(&EXISTING_MOUNT_SPEC)),
    optional("trim", Type::Struct(&TRIM_CONFIG)).since(14),
    optional("scrub", Type::Struct(&SCRUB_CONFIG)).since(14),
]);

pub(super) static VOLUME_DISCOVERY_SPEC: Struct =
    Struct::of(&[value("volumeSelector", Type::Struct(&VOLUME_SELECTOR))]);

pub(super) static VOLUME_SELECTOR: Struct = Struct::of(&[value("match", Type::Expression)]);

pub(super) static EXISTING_MOUNT_SPEC: Struct = Struct::of(&[
    optional("readOnly", Type::Bool),
    optional("disableAccessTime", Type::Bool).since(13),
    optional("secure", Type::Bool).since(13),
]);

pub(super) static TRIM_CONFIG: Struct =
    Struct::of(&[optional("enabled", Type::Bool), value("interval", Type::Duration)]);

pub(super) static SCRUB_CONFIG: Struct =
    Struct::of(&[optional("enabled", Type::Bool), value("interval", Type::Duration)]);

pub(super) static EXTERNAL_VOLUME_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    always("filesystemType", Type::Choice(&FILESYSTEM_TYPE)),
    value("mount", Type::Struct(&EXTERNAL_MOUNT_SPEC)),
]);

pub(super) static EXTERNAL_MOUNT_SPEC: Struct = Struct::of(&[
    optional("readOnly", Type::Bool),
    optional("disableAccessTime", Type::Bool),
    optional("secure", Type::Bool),
    optional("virtiofs", Type::Struct(&VIRTIOFS_MOUNT_SPEC)),
]);

pub(super) static VIRTIOFS_MOUNT_SPEC: Struct = Struct::of(&[always("tag", Type::Text)]);

pub(super) static FILESYSTEM_SCRUB_CONFIG: Struct = Struct::of(&[value("interval", Type::Duration)]);

pub(super) static FILESYSTEM_TRIM_CONFIG: Struct = Struct::of(&[value("interval", Type::Duration)]);

pub(super) static LVM_LOGICAL_VOLUME_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    always("type", Type::Choice(&LVM_LOGICAL_VOLUME_TYPE)),
    optional("mirrors", Type::Unsigned(32)),
    optional("stripes", Type::Unsigned(32)),
    always("provisioning", Type::Struct(&LVM_LOGICAL_VOLUME_PROVISIONING_SPEC)),
]);

pub(super) static LVM_LOGICAL_VOLUME_PROVISIONING_SPEC: Struct = Struct::of(&[
    always("volumeGroup", Type::Text),
    value("minSize", Type::ByteSize),
    value("maxSize", Type::Size),
]);

pub(super) static LVM_VOLUME_GROUP_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    always("provisioning", Type::Struct(&STORAGE_PROVISIONING_SPEC)),
]);

pub(super) static STORAGE_PROVISIONING_SPEC: Struct =
    Struct::of(&[value("volumeSelector", Type::Struct(&LVM_VOLUME_SELECTOR_SPEC))]);

pub(super) static LVM_VOLUME_SELECTOR_SPEC: Struct = Struct::of(&[value("match", Type::Expression)]);

pub(super) static RAID_ARRAY_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    always("level", Type::Choice(&MD_LEVEL)),
    value("metadata", Type::Choice(&MD_METADATA)),
    always("provisioning", Type::Struct(&RAID_PROVISIONING_SPEC)),
]);

pub(super) static RAID_PROVISIONING_SPEC: Struct =
    Struct::of(&[always("volumeSelector", Type::Struct(&RAID_VOLUME_SELECTOR))]);

pub(super) static RAID_VOLUME_SELECTOR: Struct = Struct::of(&[value("match", Type::Expression)]);

pub(super) static RAW_VOLUME_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("provisioning", Type::Struct(&PROVISIONING_SPEC)),
    value("encryption", Type::Struct(&ENCRYPTION_SPEC)),
]);

pub(super) static PROVISIONING_SPEC: Struct = Struct::of(&[
    value("diskSelector", Type::Struct(&DISK_SELECTOR)),
    optional("grow", Type::Bool),
    value("minSize", Type::ByteSize),
    value("maxSize", Type::Size),
]);

pub(super) static DISK_SELECTOR: Struct = Struct::of(&[value("match", Type::Expression)]);

pub(super) static ENCRYPTION_SPEC: Struct = Struct::of(&[
    always("provider", Type::Choice(&ENCRYPTION_PROVIDER_TYPE)),
    always("keys", Type::List(&Type::Struct(&ENCRYPTION_KEY))),
    value("cipher", Type::Text),
    value("keySize", Type::Unsigned(64)),
    value("blockSize", Type::Unsigned(64)),
    value("options", Type::List(&Type::Text)),
    optional("allowDiscards", Type::Bool).since(14),
])
.judged_by(&["provider", "keys"]);

pub(super) static ENCRYPTION_KEY: Struct = Struct::of(&[
    always("slot", Type::Signed(64)),
    optional("static", Type::Struct(&ENCRYPTION_KEY_STATIC)),
    optional("nodeID", Type::Struct(&ENCRYPTION_KEY_NODE_ID)),
    optional("kms", Type::Struct(&ENCRYPTION_KEY_KMS)),
    optional("tpm", Type::Struct(&ENCRYPTION_KEY_TPM)),
    optional("lockToState", Type::Bool),
]);

pub(super) static ENCRYPTION_KEY_STATIC: Struct = Struct::of(&[value("passphrase", Type::Text).secret()]);

pub(super) static ENCRYPTION_KEY_NODE_ID: Struct = Struct::of(&[]);

pub(super) static ENCRYPTION_KEY_KMS: Struct = Struct::of(&[always("endpoint", Type::Text)]);

pub(super) static ENCRYPTION_KEY_TPM: Struct = Struct::of(&[
    optional("options", Type::Struct(&ENCRYPTION_KEY_TPM_OPTIONS)).since(12),
    optional("checkSecurebootStatusOnEnroll", Type::Bool),
]);

pub(super) static ENCRYPTION_KEY_TPM_OPTIONS: Struct =
    Struct::of(&[value("pcrs", Type::List(&Type::Signed(64)))]);

pub(super) static SWAP_VOLUME_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("provisioning", Type::Struct(&PROVISIONING_SPEC)),
    value("encryption", Type::Struct(&ENCRYPTION_SPEC)),
]);

pub(super) static USER_VOLUME_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    optional("volumeType", Type::Choice(&VOLUME_TYPE)).since(12),
    value("provisioning", Type::Struct(&PROVISIONING_SPEC)),
    value("filesystem", Type::Struct(&FILESYSTEM_SPEC)),
    value("encryption", Type::Struct(&ENCRYPTION_SPEC)),
    value("mount", Type::Struct(&USER_MOUNT_SPEC)).since(13),
    optional("trim", Type::Struct(&TRIM_CONFIG)).since(14),
    optional("scrub", Type::Struct(&SCRUB_CONFIG)).since(14),
]);

pub(super) static FILESYSTEM_SPEC: Struct = Struct::of(&[
    value("type", Type::Choice(&FILESYSTEM_TYPE)),
    optional("projectQuotaSupport", Type::Bool),
    optional("xfs", Type::Struct(&XFS_SPEC)).since(14),
]);

pub(super) static XFS_SPEC: Struct = Struct::of(&[value("minAllocationGroupSize", Type::ByteSize)]);

pub(super) static USER_MOUNT_SPEC: Struct =
    Struct::of(&[optional("disableAccessTime", Type::Bool), optional("secure", Type::Bool)]);

pub(super) static VOLUME_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("provisioning", Type::Struct(&PROVISIONING_SPEC)),
    value("filesystem", Type::Struct(&SYSTEM_VOLUME_FILESYSTEM_SPEC)).since(14),
    value("encryption", Type::Struct(&ENCRYPTION_SPEC)).since(11),
    value("mount", Type::Struct(&MOUNT_SPEC)).since(13),
    optional("trim", Type::Struct(&TRIM_CONFIG)).since(14),
    optional("scrub", Type::Struct(&SCRUB_CONFIG)).since(14),
]);

pub(super) static SYSTEM_VOLUME_FILESYSTEM_SPEC: Struct =
    Struct::of(&[optional("xfs", Type::Struct(&XFS_SPEC))]);

pub(super) static MOUNT_SPEC: Struct =
    Struct::of(&[optional("secure", Type::Bool), optional("disableAccessTime", Type::Bool).since(14)]);

pub(super) static ZSWAP_CONFIG: Struct =
    Struct::of(&[optional("maxPoolPercent", Type::Signed(64)), optional("shrinkerEnabled", Type::Bool)]);
