//! Which privilege each option of a VM asks for.

use crate::access::Caller;
use crate::drive::{Drive, is_drive, is_nic, split_key};
use crate::reply::ApiError;
use crate::schema;
use crate::storage::split_volid;
use crate::world::World;

/// The privilege of an option, if it is one of the common groups.
fn privilege_of(key: &str) -> Option<&'static str> {
    let family = split_key(key).map_or(key, |(family, _)| family);
    match family {
        "cores" | "sockets" | "cpu" | "cpulimit" | "cpuunits" | "numa" | "smp" | "vcpus" => {
            Some("VM.Config.CPU")
        }
        "memory" | "balloon" | "shares" | "allow-ksm" => Some("VM.Config.Memory"),
        "net" => Some("VM.Config.Network"),
        "boot" | "bootdisk" | "vmstatestorage" | "unused" => Some("VM.Config.Disk"),
        "acpi" | "audio" | "hotplug" | "kvm" | "machine" | "rng" | "scsihw" | "smbios"
        | "spice_enhancements" | "tablet" | "vga" | "watchdog" => Some("VM.Config.HWType"),
        "agent" | "autostart" | "bios" | "description" | "keyboard" | "localtime" | "migrate_downtime"
        | "migrate_speed" | "name" | "onboot" | "ostype" | "protection" | "reboot" | "startdate"
        | "startup" | "tags" | "tdf" | "template" => Some("VM.Config.Options"),
        "freeze" => Some("VM.PowerMgmt"),
        _ => None,
    }
}

/// What Proxmox hands to the guest through its cloud-init drive.
pub(super) fn is_cloud_init_key(key: &str) -> bool {
    let family = split_key(key).map_or(key, |(family, _)| family);
    matches!(
        family,
        "cicustom"
            | "cipassword"
            | "citype"
            | "ciuser"
            | "ciupgrade"
            | "nameserver"
            | "searchdomain"
            | "sshkeys"
            | "ipconfig"
    )
}

pub(crate) struct Subject<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) vmid: u32,
    pub(crate) pool: Option<&'a str>,
}

impl World {
    /// A privilege on the VM, or on the pool it is made in.
    pub(crate) fn need_vm(&self, subject: &Subject<'_>, privileges: &[&str]) -> Result<(), ApiError> {
        let in_pool = subject.pool.is_some_and(|pool| {
            let held = self.privileges(subject.caller, &format!("/pool/{pool}"));
            privileges.iter().any(|name| held.contains_key(*name))
        });
        if in_pool {
            Ok(())
        } else {
            self.need_any(subject.caller, &format!("/vms/{}", subject.vmid), privileges)
        }
    }

    /// Checks one option; `value` is none if it is to be removed.
    pub(crate) fn check_option(
        &self,
        subject: &Subject<'_>,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), ApiError> {
        if subject.caller.is_root() || is_drive(key) && !key.starts_with("unused") {
            return Ok(());
        }
        let only_root = |what: &str| Err(ApiError::plain(format!("only root can set '{key}' config{what}")));
        match split_key(key).map_or(key, |(family, _)| family) {
            "serial" => match value {
                Some("socket") | None => self.need_vm(subject, &["VM.Config.HWType"]),
                Some(_) => only_root(" for real devices"),
            },
            "usb" | "hostpci" | "virtiofs" => self.check_device(subject, key, value),
            "tags" => {
                self.need_vm(subject, &["VM.Config.Options"])?;
                self.check_tags(subject, value.unwrap_or_default())
            }
            "startup" => {
                self.need_vm(subject, &["VM.Config.Options"])?;
                self.need(subject.caller, "/", "Sys.Modify")
            }
            _ if is_cloud_init_key(key) => {
                self.need_vm(subject, &["VM.Config.Cloudinit", "VM.Config.Network"])
            }
            _ => match privilege_of(key) {
                Some(privilege) => self.need_vm(subject, &[privilege]),
                None => only_root(""),
            },
        }
    }

    fn check_device(&self, subject: &Subject<'_>, key: &str, value: Option<&str>) -> Result<(), ApiError> {
        let family = split_key(key).map_or(key, |(family, _)| family);
        let parsed = value.map(|text| schema::parse_as(family, text)).unwrap_or_default();
        let spice = parsed.get("host").is_some_and(|host| host.eq_ignore_ascii_case("spice"));
        let mapping = parsed.get("mapping").or_else(|| parsed.get("dirid"));
        if let (Some(_), None, false) = (value, mapping, spice) {
            let what = if family == "hostpci" { "for non-mapped devices" } else { "for real devices" };
            return Err(ApiError::plain(format!("only root can set '{key}' config {what}")));
        }
        self.need_vm(subject, &["VM.Config.HWType"])?;
        let folder = match family {
            "hostpci" => "pci",
            "virtiofs" => "dir",
            _ => "usb",
        };
        mapping
            .map_or(Ok(()), |id| self.need(subject.caller, &format!("/mapping/{folder}/{id}"), "Mapping.Use"))
    }

    /// Registered tags belong to administrators.
    fn check_tags(&self, subject: &Subject<'_>, value: &str) -> Result<(), ApiError> {
        let registered = self.options.get("registered-tags").map(String::as_str).unwrap_or_default();
        let current =
            self.vms.get(&subject.vmid).and_then(|vm| vm.config.get("tags")).cloned().unwrap_or_default();
        let has = |list: &str, tag: &str| schema::split_list(list).any(|item| item == tag);
        let changed = schema::split_list(value).filter(|tag| !has(&current, tag));
        for tag in changed.filter(|tag| has(registered, tag)) {
            if !self.may(subject.caller, "/", "Sys.Modify") {
                return Err(ApiError::Permission(Some(format!("/, Sys.Modify for modifying tag '{tag}'"))));
            }
        }
        Ok(())
    }

    /// The bridge of a NIC is a resource of the network.
    pub(crate) fn check_bridge(&self, caller: &Caller, key: &str, value: &str) -> Result<(), ApiError> {
        if !is_nic(key) {
            return Ok(());
        }
        let net = schema::parse_as("net", value);
        let Some(bridge) = net.get("bridge") else { return Ok(()) };
        let path = format!("/sdn/zones/localnetwork/{bridge}");
        let path = net.get("tag").map_or(path.clone(), |tag| format!("{path}/{tag}"));
        self.need(caller, &path, "SDN.Use")
    }

    /// What a drive's storage asks for before the drive may be used.
    pub(crate) fn check_drive_access(
        &self,
        subject: &Subject<'_>,
        drive: &Drive,
        default_storage: Option<&str>,
    ) -> Result<(), ApiError> {
        let file = drive.file();
        if file == "none" || drive.is_cloudinit() {
            // Nothing to check.
        } else if file == "cdrom" {
            self.need(subject.caller, "/", "Sys.Console")?;
        } else if let Some((storage, _)) = drive.new_disk().filter(|_| !drive.is_cdrom()) {
            let missing = || ApiError::plain("no storage ID specified (and no default storage)");
            self.check_new_disk(subject, storage.or(default_storage).ok_or_else(missing)?)?;
        } else {
            let content = self.check_volume_access(subject, file)?;
            if !matches!(content, "images" | "iso") {
                return Err(ApiError::parameter(&drive.key, "content type needs to be 'images' or 'iso'"));
            }
        }
        drive.get("import-from").map_or(Ok(()), |source| self.check_import(subject, drive, source))
    }

    fn check_new_disk(&self, subject: &Subject<'_>, storage: &str) -> Result<(), ApiError> {
        self.need(subject.caller, &format!("/storage/{storage}"), "Datastore.AllocateSpace")?;
        let found = self.storage(storage).map_err(ApiError::Plain)?;
        if found.content.contains("images") {
            return Ok(());
        }
        Err(ApiError::parameter("storage", format!("storage '{storage}' does not support vm images")))
    }

    fn check_import(&self, subject: &Subject<'_>, drive: &Drive, source: &str) -> Result<(), ApiError> {
        let wrong = |content: &str| {
            let text = format!("{source} has wrong type '{content}' - needs to be 'images' or 'import'");
            Err(ApiError::parameter(&drive.key, text))
        };
        if split_volid(source).is_none() {
            return self.check_volume_access(subject, source).map(drop);
        }
        let name = self.name_of(source).map_err(ApiError::Plain)?;
        if !matches!(name.content, "images" | "import") {
            return wrong(name.content);
        }
        match name.vmid {
            Some(owner) => self.need(subject.caller, &format!("/vms/{owner}"), "VM.Clone"),
            None => self.check_volume_access(subject, source).map(drop),
        }
    }

    /// May the caller use that volume; answers what kind of content it is.
    pub(crate) fn check_volume_access(
        &self,
        subject: &Subject<'_>,
        volid: &str,
    ) -> Result<&'static str, ApiError> {
        let Some((storage, _)) = split_volid(volid) else {
            if subject.caller.is_root() {
                return Ok("images");
            }
            let text =
                "Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.";
            return Err(ApiError::plain(text));
        };
        let name = self.name_of(volid).map_err(ApiError::Plain)?;
        let path = format!("/storage/{storage}");
        if self.may(subject.caller, &path, "Datastore.Allocate") {
            return Ok(name.content);
        }
        match (name.content, name.vmid) {
            ("iso" | "vztmpl" | "import", _) => {
                self.need_any(subject.caller, &path, &["Datastore.AllocateSpace", "Datastore.Audit"])?;
            }
            (_, Some(owner)) if owner == subject.vmid => {}
            ("images", Some(owner)) => {
                self.need(subject.caller, &path, "Datastore.Audit")?;
                self.need(subject.caller, &format!("/vms/{owner}"), "VM.Config.Disk")?;
            }
            _ => return Err(ApiError::plain(format!("missing privileges to access {volid}"))),
        }
        Ok(name.content)
    }
}
