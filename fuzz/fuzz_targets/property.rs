//! What Proxmox writes: a VM's configuration as lines of `key: value`, ids of tasks; and addresses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talmox_pve::client::{Endpoint, Upid};
use talmox_pve::property::{
    Agent, Boot, CpuModel, Disk, DiskSize, EfiDisk, HostPci, IpConfig, Machine, Memory, NetDevice, Slot,
    Smbios, Startup, Tags, TpmState, UnusedDisk, VmConfig, VolumeId,
};
use talmox_types::Url;

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    let _ = (
        Upid::parse(text),
        Endpoint::parse(text),
        DiskSize::parse(text),
        Slot::parse(text),
        VolumeId::parse(text),
    );
    if let Ok(url) = Url::parse(text) {
        assert_eq!(Url::parse(&url.to_string()).as_ref(), Ok(&url), "{url}");
        let _ = (url.host(), url.port(), url.path(), url.authority());
    }
    let mut config = VmConfig::default();
    for line in text.lines() {
        if let Some((key, value)) = line.split_once(": ") {
            config.set(key, value);
        }
    }
    // What is read is printed so that it reads the same.
    macro_rules! one {
        ($($getter:ident: $kind:ty,)+) => {$(
            if let Ok(Some(read)) = config.$getter() {
                let printed = read.to_string();
                assert!(<$kind>::parse(&printed).as_ref() == Ok(&read), "{printed}");
            }
        )+};
    }
    macro_rules! numbered {
        ($($getter:ident: $kind:ty,)+) => {$(
            for (slot, read) in config.$getter().unwrap_or_default() {
                let printed = read.to_string();
                assert!(<$kind>::parse(&printed).as_ref() == Ok(&read), "{slot}: {printed}");
            }
        )+};
    }
    one! {
        agent: Agent,
        boot: Boot,
        cpu: CpuModel,
        efi_disk: EfiDisk,
        machine: Machine,
        memory: Memory,
        smbios: Smbios,
        startup: Startup,
        tags: Tags,
        tpm_state: TpmState,
    }
    numbered! {
        disks: Disk,
        host_devices: HostPci,
        ip_configs: IpConfig,
        net_devices: NetDevice,
        unused_disks: UnusedDisk,
    }
});
