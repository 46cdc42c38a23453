//! Drives on any bus, the EFI disk, the TPM state and unused disks.

use crate::property::macros::{property_struct, words};
use crate::property::{DiskSize, DriveSource, Grammar, VolumeId};

words! {
    /// Whether a drive is a disk or a CD.
    Media { Disk => "disk", Cdrom => "cdrom" }
    /// Whether the guest's discards reach the storage.
    Discard { Ignore => "ignore", On => "on" }
    /// The size of the EFI variable store; `4m` is what Secure Boot needs and what new VMs have.
    EfiType { TwoMeg => "2m", FourMeg => "4m" }
    /// The TPM's version, which cannot change once the state exists.
    TpmVersion { OneTwo => "v1.2", TwoZero => "v2.0" }
}

const FILE_ALIAS: &[(&str, &str)] = &[("volume", "file")];

property_struct! {
    /// A drive: `scsi0`, `ide2`, `virtio1`, `sata0`.
    Disk: Grammar::new("a disk").default_key("file").aliases(&[
        ("volume", "file"),
        ("bps_rd_length", "bps_rd_max_length"),
        ("bps_wr_length", "bps_wr_max_length"),
        ("iops_rd_length", "iops_rd_max_length"),
        ("iops_wr_length", "iops_wr_max_length"),
    ]);
    required {
        source: DriveSource => "file";
    }
    optional {
        media: Media => "media" = Media::Disk;
        cache: String => "cache" = "none".to_owned();
        aio: String => "aio";
        discard: Discard => "discard" = Discard::Ignore;
        detect_zeroes: bool => "detect_zeroes";
        iothread: bool => "iothread" = false;
        ssd: bool => "ssd" = false;
        read_only: bool => "ro" = false;
        queues: u32 => "queues";
        scsi_block: bool => "scsiblock" = false;
        backup: bool => "backup" = true;
        replicate: bool => "replicate" = true;
        shared: bool => "shared" = false;
        snapshot: bool => "snapshot" = false;
        serial: String => "serial";
        /// What Proxmox found; it ignores what is sent and never prints it before the volume exists.
        size: DiskSize => "size";
        /// The format of a volume to be made. Proxmox drops it once the volume exists.
        format: String => "format";
        /// Where the bytes of a volume to be made come from. Proxmox drops it once the volume exists.
        import_from: String => "import-from";
    }
}

impl Disk {
    pub fn is_cdrom(&self) -> bool {
        self.media == Some(Media::Cdrom)
    }

    /// Whether this is a drive Proxmox fills for cloud-init, made or yet to be made.
    pub fn is_cloud_init(&self) -> bool {
        matches!(self.source, DriveSource::CloudInit { .. })
            || self.source.volume().is_some_and(VolumeId::is_cloud_init)
    }

    /// Whether both have the same options, whatever volume they hold: what a change of the configuration can set.
    pub fn same_options(&self, other: &Self) -> bool {
        self.options() == other.options()
    }

    /// These options on the volume another drive holds. A change must repeat the volume: without it Proxmox would
    /// make a new disk and put the old one aside.
    #[must_use]
    pub fn on_volume_of(&self, live: &Self) -> Self {
        Self { source: live.source.clone(), size: live.size, ..self.options() }
    }

    fn options(&self) -> Self {
        Self { source: DriveSource::Empty, size: None, format: None, import_from: None, ..self.clone() }
    }
}

property_struct! {
    /// Where UEFI keeps its variables: `efidisk0`.
    EfiDisk: Grammar::new("an EFI disk").default_key("file").aliases(FILE_ALIAS);
    required {
        source: DriveSource => "file";
    }
    optional {
        efitype: EfiType => "efitype" = EfiType::TwoMeg;
        pre_enrolled_keys: bool => "pre-enrolled-keys" = false;
        /// A marker Proxmox sets itself: which Microsoft certificates it enrolled.
        ms_cert: String => "ms-cert" = "2011".to_owned();
        size: DiskSize => "size";
        format: String => "format";
        import_from: String => "import-from";
    }
}

impl EfiDisk {
    /// Whether both have the same options, whatever volume they hold and whatever Proxmox noted there.
    pub fn same_options(&self, other: &Self) -> bool {
        self.options() == other.options()
    }

    fn options(&self) -> Self {
        let source = DriveSource::Empty;
        Self { source, ms_cert: None, size: None, format: None, import_from: None, ..self.clone() }
    }
}

property_struct! {
    /// The state of the virtual TPM: `tpmstate0`.
    TpmState: Grammar::new("a TPM state").default_key("file").aliases(FILE_ALIAS);
    required {
        source: DriveSource => "file";
    }
    optional {
        version: TpmVersion => "version" = TpmVersion::OneTwo;
        size: DiskSize => "size";
        format: String => "format";
        import_from: String => "import-from";
    }
}

property_struct! {
    /// A volume that was detached and still belongs to the VM: `unused0`.
    UnusedDisk: Grammar::new("an unused disk").default_key("file").aliases(FILE_ALIAS);
    required {
        volume: VolumeId => "file";
    }
    optional {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deployed_disk_prints_as_proxmox_prints_it() {
        let text = "local-zfs:vm-2001-disk-1,backup=0,discard=on,replicate=0,size=256G,ssd=1";
        let shuffled =
            "ssd=on,size=262144M,replicate=off,volume=local-zfs:vm-2001-disk-1,discard=on,backup=no";
        assert_eq!(Disk::parse(text).unwrap().to_string(), text);
        assert_eq!(Disk::parse(shuffled).unwrap().to_string(), text);
        assert_eq!(Disk::parse(shuffled).unwrap(), Disk::parse(text).unwrap());
        let efi = "local-zfs:vm-2001-disk-0,efitype=4m,size=1M";
        assert_eq!(EfiDisk::parse(efi).unwrap().to_string(), efi);
    }

    #[test]
    fn defaults_are_no_difference() {
        let plain = Disk::parse("local:vm-1-x").unwrap();
        for same in
            ["backup=1", "replicate=1", "iothread=0", "media=disk", "cache=none", "discard=ignore,ssd=off"]
        {
            assert_eq!(Disk::parse(&format!("local:vm-1-x,{same}")).unwrap(), plain, "{same}");
        }
        for different in ["backup=0", "ssd=1", "mbps=10", "size=1G"] {
            assert_ne!(Disk::parse(&format!("local:vm-1-x,{different}")).unwrap(), plain, "{different}");
        }
    }

    #[test]
    fn what_proxmox_notes_on_an_efi_disk_is_no_difference() {
        let wanted = EfiDisk::parse("local-zfs:1,efitype=4m,pre-enrolled-keys=1").unwrap();
        let live = "local-zfs:vm-100-disk-0,efitype=4m,ms-cert=2023k,pre-enrolled-keys=1,size=4M";
        assert!(wanted.same_options(&EfiDisk::parse(live).unwrap()));
        assert!(!wanted.same_options(&EfiDisk::parse("local-zfs:vm-100-disk-0,efitype=4m").unwrap()));
    }

    #[test]
    fn a_change_repeats_the_volume() {
        let live = Disk::parse("local-zfs:vm-2001-disk-1,size=256G,ssd=1,wwn=0x0123456789abcdef").unwrap();
        let wanted = Disk::parse("local-zfs:256,format=raw,ssd=1,discard=on").unwrap();
        assert_eq!(
            wanted.on_volume_of(&live).to_string(),
            "local-zfs:vm-2001-disk-1,discard=on,size=256G,ssd=1"
        );
        assert!(!wanted.same_options(&live));
        assert!(wanted.same_options(&wanted.on_volume_of(&live)));
    }

    #[test]
    fn unknown_options_survive() {
        let text = "local:100/vm-100-disk-0.qcow2,mbps_rd=10,new-option=x,size=2G";
        assert_eq!(Disk::parse(text).unwrap().to_string(), text);
    }
}
