//! The client's side: a value by the key it stands under.

use talmox_pve::property::{
    Agent, Boot, CpuModel, Disk, EfiDisk, HostPci, IpConfig, Machine, Memory, NetDevice, PropertyError, Slot,
    SlotKind, Smbios, Startup, Tags, TpmState,
};

/// Calls a generic function with the type of a key's values.
macro_rules! by_key {
    ($key:expr, $function:ident ( $($argument:expr),* )) => {
        match ($key, Slot::parse($key).ok().map(Slot::kind)) {
            ("agent", _) => Some($function(Agent::parse, $($argument),*)),
            ("boot", _) => Some($function(Boot::parse, $($argument),*)),
            ("cpu", _) => Some($function(CpuModel::parse, $($argument),*)),
            ("machine", _) => Some($function(Machine::parse, $($argument),*)),
            ("memory", _) => Some($function(Memory::parse, $($argument),*)),
            ("smbios1", _) => Some($function(Smbios::parse, $($argument),*)),
            ("startup", _) => Some($function(Startup::parse, $($argument),*)),
            ("tags", _) => Some($function(Tags::parse, $($argument),*)),
            (_, Some(SlotKind::EfiDisk)) => Some($function(EfiDisk::parse, $($argument),*)),
            (_, Some(SlotKind::TpmState)) => Some($function(TpmState::parse, $($argument),*)),
            (_, Some(SlotKind::HostPci)) => Some($function(HostPci::parse, $($argument),*)),
            (_, Some(SlotKind::IpConfig)) => Some($function(IpConfig::parse, $($argument),*)),
            (_, Some(SlotKind::Net)) => Some($function(NetDevice::parse, $($argument),*)),
            (key, Some(_)) if Slot::parse(key).is_ok_and(Slot::is_drive) => Some($function(Disk::parse, $($argument),*)),
            _ => None,
        }
    };
}

type Parse<T> = fn(&str) -> Result<T, PropertyError>;

fn print_with<T: ToString>(parse: Parse<T>, text: &str) -> Result<String, PropertyError> {
    parse(text).map(|value| value.to_string())
}

fn same_with<T: PartialEq>(parse: Parse<T>, one: &str, other: &str) -> bool {
    parse(one).unwrap() == parse(other).unwrap()
}

/// How the client prints a value; none for keys that hold no property string.
pub(crate) fn print(key: &str, text: &str) -> Option<Result<String, PropertyError>> {
    by_key!(key, print_with(text))
}

/// Whether two texts the client takes mean the same.
pub(crate) fn same(key: &str, one: &str, other: &str) -> bool {
    by_key!(key, same_with(one, other)).unwrap_or_default()
}

/// The text with what the server adds to it: a volume for one to be made, its size, a MAC address.
pub(crate) fn completed(key: &str, text: &str, shown: &str) -> String {
    let slot = Slot::parse(key).ok();
    match slot.map(Slot::kind) {
        Some(SlotKind::EfiDisk) => {
            let (mut disk, live) = (EfiDisk::parse(text).unwrap(), EfiDisk::parse(shown).unwrap());
            (disk.source, disk.size, disk.format, disk.import_from) = (live.source, live.size, None, None);
            disk.ms_cert = disk.ms_cert.or(live.ms_cert);
            disk.to_string()
        }
        Some(SlotKind::TpmState) => {
            let (mut disk, live) = (TpmState::parse(text).unwrap(), TpmState::parse(shown).unwrap());
            (disk.source, disk.size, disk.format, disk.import_from) = (live.source, live.size, None, None);
            disk.to_string()
        }
        Some(SlotKind::Net) => {
            let (nic, live) = (NetDevice::parse(text).unwrap(), NetDevice::parse(shown).unwrap());
            nic.with_mac_of(&live).to_string()
        }
        Some(_) if slot.is_some_and(Slot::is_drive) => {
            let (disk, live) = (Disk::parse(text).unwrap(), Disk::parse(shown).unwrap());
            let mut disk = disk.on_volume_of(&live);
            // A drive for cloud-init is a CD whether one says so or not.
            if live.is_cloud_init() {
                disk.media = live.media;
            }
            disk.to_string()
        }
        _ => text.to_owned(),
    }
}
