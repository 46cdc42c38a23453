//! Which privilege each option of a VM asks for.

use std::collections::BTreeSet;

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
        "boot" | "bootdisk" | "vmstatestorage" => Some("VM.Config.Disk"),
        "acpi" | "audio" | "hotplug" | "kvm" | "machine" | "rng" | "scsihw" | "smbios"
        | "spice_enhancements" | "tablet" | "vga" | "watchdog" => Some("VM.Config.HWType"),
        "agent" | "autostart" | "bios" | "description" | "keyboard" | "localtime" | "migrate_downtime"
        | "migrate_speed" | "name" | "onboot" | "ostype" | "protection" | "reboot" | "startdate"
        | "startup" | "tdf" | "template" => Some("VM.Config.Options"),
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

/// What is done to an option, in the words of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Set,
    Modify,
    Delete,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Modify => "modify",
            Self::Delete => "delete",
        }
    }
}

/// Tags somebody may use: these, and any that are not registered if the form is free.
pub(crate) struct AllowedTags {
    pub(crate) tags: BTreeSet<String>,
    registered: BTreeSet<String>,
    free_form: bool,
}

/// The VLANs of one part of a trunk: `5` or `10-20`.
fn vlans(part: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
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

    /// Checks one option, as far as that does not depend on its value.
    pub(crate) fn check_option(&self, subject: &Subject<'_>, key: &str) -> Result<(), ApiError> {
        let family = split_key(key).map_or(key, |(family, _)| family);
        let by_value = matches!(family, "serial" | "usb" | "hostpci" | "virtiofs" | "tags") || is_drive(key);
        if subject.caller.is_root() || by_value {
            return Ok(());
        }
        if is_cloud_init_key(key) {
            return self.need_vm(subject, &["VM.Config.Cloudinit", "VM.Config.Network"]);
        }
        let Some(privilege) = privilege_of(key) else {
            return Err(ApiError::plain(format!("only root can set '{key}' config")));
        };
        self.need_vm(subject, &[privilege])?;
        // It changes what the host does.
        if key == "startup" { self.need(subject.caller, "/", "Sys.Modify") } else { Ok(()) }
    }

    /// Checks an option whose privilege depends on its value, the old one and the new one.
    pub(crate) fn check_value(
        &self,
        subject: &Subject<'_>,
        verb: Verb,
        key: &str,
        values: [Option<&str>; 2],
    ) -> Result<(), ApiError> {
        if subject.caller.is_root() {
            return Ok(());
        }
        let [old, new] = values;
        match split_key(key).map_or(key, |(family, _)| family) {
            "serial" if values.into_iter().flatten().all(|value| value == "socket") => {
                self.need_vm(subject, &["VM.Config.HWType"])
            }
            "serial" => {
                let verb = verb.word();
                Err(ApiError::plain(format!("only root can {verb} '{key}' config for real devices")))
            }
            "usb" | "hostpci" | "virtiofs" | "rng" => {
                values.into_iter().flatten().try_for_each(|value| self.check_device(subject, key, value))
            }
            "tags" => self.check_tags(subject, old.unwrap_or_default(), new.unwrap_or_default()),
            "net" => old.map_or(Ok(()), |old| self.check_bridge(subject.caller, key, old)),
            _ => Ok(()),
        }
    }

    fn check_device(&self, subject: &Subject<'_>, key: &str, value: &str) -> Result<(), ApiError> {
        let only_root =
            |what: &str| Err(ApiError::plain(format!("only root can set '{key}' config for {what}")));
        let family = split_key(key).map_or(key, |(family, _)| family);
        let parsed = schema::parse_as(family, value);
        let of = |name: &str| parsed.get(name).map(String::as_str);
        let hardware = || self.need_vm(subject, &["VM.Config.HWType"]);
        match (family, of("host"), of("mapping")) {
            ("hostpci", Some(_), _) => only_root("non-mapped devices"),
            ("hostpci", None, Some(id)) => {
                self.need_mapping(subject.caller, "pci", id)?;
                hardware()?;
                let text = "only root@pam can set 'romfile' option";
                of("romfile").map_or(Ok(()), |_| Err(ApiError::parameter(key, text)))
            }
            ("usb", Some(host), _) if !host.eq_ignore_ascii_case("spice") => {
                hardware()?;
                only_root("real devices")
            }
            ("usb", None, Some(id)) => {
                hardware()?;
                self.need_mapping(subject.caller, "usb", id)
            }
            ("usb", Some(_), _) => hardware(),
            ("rng", _, _) => {
                hardware()?;
                let chip = of("source") == Some("/dev/hwrng");
                if chip { self.need(subject.caller, "/mapping/hwrng", "Mapping.Use") } else { Ok(()) }
            }
            ("virtiofs", _, _) => {
                self.need_vm(subject, &["VM.Config.Disk"])?;
                self.need_mapping(subject.caller, "dir", of("dirid").unwrap_or_default())
            }
            _ => Err(ApiError::plain("either 'host' or 'mapping' must be set.")),
        }
    }

    fn need_mapping(&self, caller: &Caller, folder: &str, id: &str) -> Result<(), ApiError> {
        self.need(caller, &format!("/mapping/{folder}/{id}"), "Mapping.Use")
    }

    /// Devices that a copy of a VM takes along.
    pub(crate) fn check_devices(&self, caller: &Caller, key: &str, value: &str) -> Result<(), ApiError> {
        let family = split_key(key).map_or(key, |(family, _)| family);
        if caller.is_root() || !matches!(family, "usb" | "hostpci") {
            return Ok(());
        }
        let parsed = schema::parse_as(family, value);
        let spice = parsed.get("host").is_some_and(|host| host.eq_ignore_ascii_case("spice"));
        match (family, parsed.get("host"), parsed.get("mapping")) {
            ("usb", Some(_), _) if !spice => {
                Err(ApiError::plain(format!("only root can set '{key}' config for real devices")))
            }
            ("hostpci", Some(_), _) => {
                Err(ApiError::plain(format!("only root can set '{key}' config for non-mapped devices")))
            }
            (_, None, Some(id)) => self.need_mapping(caller, if family == "usb" { "usb" } else { "pci" }, id),
            _ => Ok(()),
        }
    }

    /// Registered tags belong to administrators, and the others to whom the data centre's options say.
    pub(crate) fn check_tags(&self, subject: &Subject<'_>, old: &str, new: &str) -> Result<(), ApiError> {
        self.need(subject.caller, &format!("/vms/{}", subject.vmid), "VM.Config.Options")?;
        if self.may(subject.caller, "/", "Sys.Modify") {
            return Ok(());
        }
        let allowed = self.allowed_tags(subject.caller);
        let count = |list: &str, tag: &str| schema::split_list(list).filter(|item| *item == tag).count();
        let mut all: Vec<&str> = schema::split_list(old).chain(schema::split_list(new)).collect();
        all.sort_unstable();
        let mut changed = all.into_iter().filter(|tag| count(old, tag) != count(new, tag));
        match changed.find(|tag| {
            !allowed.free_form && !allowed.tags.contains(*tag) || allowed.registered.contains(*tag)
        }) {
            Some(tag) => Err(ApiError::Permission(Some(format!("/, Sys.Modify for modifying tag '{tag}'")))),
            None => Ok(()),
        }
    }

    /// Tags the caller may use.
    pub(crate) fn allowed_tags(&self, caller: &Caller) -> AllowedTags {
        let owned =
            |list: &str| -> BTreeSet<String> { schema::split_list(list).map(str::to_owned).collect() };
        let option = |name: &str| self.options.get(name).map(String::as_str).unwrap_or_default();
        let privileged = self.may(caller, "/", "Sys.Modify");
        let registered = owned(option("registered-tags"));
        let access = schema::parse_as("opt-user-tag-access", option("user-tag-access"));
        let allow = access.get("user-allow").map_or("free", String::as_str);
        let mut tags = BTreeSet::new();
        if allow != "none" || privileged {
            tags.extend(owned(access.get("user-allow-list").map_or("", String::as_str)));
        }
        if matches!(allow, "free" | "existing") || privileged {
            let may_see = self.vm_right(caller, "VM.Audit");
            let visible = self.vms.iter().filter(|(vmid, _)| privileged || may_see(**vmid));
            tags.extend(visible.filter_map(|(_, vm)| vm.config.get("tags")).flat_map(|list| owned(list)));
        }
        if privileged {
            tags.extend(registered.iter().cloned());
        } else {
            tags.retain(|tag| !registered.contains(tag));
        }
        AllowedTags { tags, registered, free_form: allow == "free" }
    }

    /// The bridge of a NIC is a resource of the network.
    pub(crate) fn check_bridge(&self, caller: &Caller, key: &str, value: &str) -> Result<(), ApiError> {
        if !is_nic(key) {
            return Ok(());
        }
        let net = schema::parse_as("net", value);
        let Some(bridge) = net.get("bridge") else { return Ok(()) };
        let path = format!("/sdn/zones/localnetwork/{bridge}");
        match net.get("tag") {
            Some(tag) => self.need(caller, &format!("{path}/{tag}"), "SDN.Use")?,
            None => self.need(caller, &path, "SDN.Use")?,
        }
        let trunks = net.get("trunks").map(String::as_str).unwrap_or_default();
        trunks
            .split(';')
            .filter_map(vlans)
            .flatten()
            .try_for_each(|vlan| self.need(caller, &format!("{path}/{vlan}"), "SDN.Use"))
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
