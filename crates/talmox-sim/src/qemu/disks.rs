//! Makes the disks a configuration asks for.

use std::collections::BTreeMap;

use crate::drive::{Drive, print_size, scale, too_large};
use crate::release::Change;
use crate::reply::ApiError;
use crate::storage::{Allocations, NewImage, split_volid, visible_size};
use crate::tasks::Job;
use crate::vm::drives_of;
use crate::world::World;

/// EFI variables with room for 4 MiB firmware, and without.
const EFI_4M: u64 = 528 << 10;
const EFI_2M: u64 = 128 << 10;
const TPM_STATE: u64 = 4 << 20;
const CLOUD_INIT: u64 = 4 << 20;
/// Copies that take at least this many milliseconds show how far they are.
const WORTH_WATCHING: u64 = 1_000;

/// Checks what a drive's text promises, and brings it to the form later code expects.
pub(crate) fn check_drive_param(world: &World, key: &str, text: &str) -> Result<String, ApiError> {
    let drive = Drive::parse(key, text);
    if drive.get("import-from").is_some() {
        if drive.new_disk().is_none_or(|(_, size)| size.parse::<f64>().is_ok_and(|size| size > 0.0)) {
            let hint = "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>";
            return Err(ApiError::parameter(key, hint));
        }
        let required: &[&str] = match key {
            "efidisk0" => &["efitype", "pre-enrolled-keys"],
            "tpmstate0" => &["version"],
            _ => &[],
        };
        if let Some(missing) = required.iter().find(|name| drive.get(name).is_none()) {
            let text = format!("need to specify '{missing}' when using 'import-from'");
            return Err(ApiError::parameter(key, text));
        }
    }
    let content = world.name_of(drive.file()).map_or("", |name| name.content);
    if content == "iso" && drive.get("media") != Some("cdrom") {
        return Err(ApiError::parameter(key, "explicit 'media=cdrom' is required for iso images"));
    }
    Ok(drive.print_full())
}

/// The volumes that settings ask for, by storage.
pub(crate) fn allocations(settings: &BTreeMap<String, String>, default_storage: Option<&str>) -> Allocations {
    let mut wanted = Allocations::new();
    for drive in drives_of(settings) {
        let storage = match drive.new_disk() {
            Some((storage, _)) => storage.or(default_storage),
            None => drive.file().strip_suffix(":cloudinit"),
        };
        if let Some(storage) = storage {
            *wanted.entry(storage.to_owned()).or_default() += 1;
        }
    }
    wanted
}

/// One drive to be made or attached.
pub(crate) struct Wanted<'a> {
    pub(crate) node: &'a str,
    pub(crate) vmid: u32,
    pub(crate) default_storage: Option<&'a str>,
    /// The configuration the drive joins.
    pub(crate) config: &'a BTreeMap<String, String>,
}

impl World {
    /// Makes or checks the volume of a drive and prints the drive as it will be stored.
    pub(crate) fn make_disk(
        &mut self,
        job: Option<&Job>,
        wanted: &Wanted<'_>,
        drive: Drive,
    ) -> Result<String, String> {
        if drive.is_none() {
            return Ok(drive.print());
        }
        if drive.file().ends_with(":cloudinit") {
            return self.make_cloudinit(job, wanted, drive);
        }
        match drive.new_disk() {
            Some((storage, size)) => {
                let storage = storage
                    .or(wanted.default_storage)
                    .ok_or("no storage ID specified (and no default storage)")?;
                let (storage, size) = (storage.to_owned(), size.to_owned());
                self.make_new(job, wanted, drive, &storage, &size)
            }
            None => self.attach(wanted, drive),
        }
    }

    fn created(&mut self, job: Option<&Job>, drive: &Drive) -> String {
        let printed = drive.print();
        if let Some(job) = job {
            self.log(job, format!("{}: successfully created disk '{printed}'", drive.key));
        }
        printed
    }

    fn make_cloudinit(
        &mut self,
        job: Option<&Job>,
        wanted: &Wanted<'_>,
        mut drive: Drive,
    ) -> Result<String, String> {
        let other =
            drives_of(wanted.config).into_iter().find(|other| other.is_cloudinit() && other.key != drive.key);
        if let Some(other) = other {
            return Err(format!("{} - cloud-init drive is already attached at '{}'", drive.key, other.key));
        }
        let storage = drive.file().trim_end_matches(":cloudinit").to_owned();
        let name = format!("vm-{}-cloudinit", wanted.vmid);
        let files = self.storage_on(&storage, wanted.node)?.holds_files();
        let format = drive.get("format").unwrap_or(if files { "qcow2" } else { "raw" }).to_owned();
        let image =
            NewImage { vmid: wanted.vmid, name: Some(&name), format: &format, size: CLOUD_INIT, data: 0 };
        let volid = self.allocate(job, wanted.node, &storage, image)?;
        drive.set("file", volid);
        drive.set("media", "cdrom");
        drive.props.remove("size");
        Ok(self.created(job, &drive))
    }

    fn make_new(
        &mut self,
        job: Option<&Job>,
        wanted: &Wanted<'_>,
        mut drive: Drive,
        storage: &str,
        size: &str,
    ) -> Result<String, String> {
        let imported = drive.get("import-from").map(str::to_owned);
        let volid = match &imported {
            Some(source) => self.import_disk(job, wanted, &drive, storage, source)?,
            None => self.make_empty(job, wanted, &drive, storage, size)?,
        };
        let marked = self.has(Change::CertificateMarker) && drive.key == "efidisk0";
        if marked && drive.get("pre-enrolled-keys") == Some("1") {
            drive.set("ms-cert", "2023k");
        }
        drive.set("file", volid);
        self.fill_size(wanted.node, &mut drive);
        // Of a new disk the size that was asked for is noted down, in kibibytes, whatever the storage made of it.
        let asked = scale(size, 30).filter(|_| imported.is_none());
        if let Some(asked) = asked.filter(|_| !matches!(drive.key.as_str(), "efidisk0" | "tpmstate0")) {
            drive.set("size", print_size(asked.div_ceil(1024) * 1024));
        }
        Ok(self.created(job, &drive))
    }

    fn make_empty(
        &mut self,
        job: Option<&Job>,
        wanted: &Wanted<'_>,
        drive: &Drive,
        storage: &str,
        size: &str,
    ) -> Result<String, String> {
        let size = match drive.key.as_str() {
            "efidisk0" if drive.get("efitype") == Some("4m") => EFI_4M,
            "efidisk0" => EFI_2M,
            "tpmstate0" => TPM_STATE,
            _ => scale(size, 30).ok_or_else(|| too_large(size))?,
        };
        let default = self.storage_on(storage, wanted.node)?.default_format();
        let format = match drive.key.as_str() {
            "tpmstate0" if !self.has(Change::FormatsOfBlocks) => "raw".to_owned(),
            _ => drive.get("format").unwrap_or(default).to_owned(),
        };
        // Firmware variables are copied from a file.
        let data = if drive.key == "efidisk0" { size } else { 0 };
        let image = NewImage { vmid: wanted.vmid, name: None, format: &format, size, data };
        let volid = self.allocate(job, wanted.node, storage, image)?;
        if let Some(job) = job.filter(|_| drive.key == "efidisk0") {
            self.log_copy(job, size);
        }
        Ok(volid)
    }

    fn import_disk(
        &mut self,
        job: Option<&Job>,
        wanted: &Wanted<'_>,
        drive: &Drive,
        storage: &str,
        source: &str,
    ) -> Result<String, String> {
        let name = self.name_of(source)?;
        let missing = match name.content {
            "import" => format!("failed to stat '{}'", self.path_of(source)),
            _ => format!("volume '{source}' does not exist"),
        };
        let volume = self.volume(wanted.node, source).ok_or(missing)?.clone();
        let size = volume.file.as_ref().map_or(volume.size, crate::files::FileFacts::disk_size);
        let data = volume.data.min(size);
        let target = self.storage_on(storage, wanted.node)?;
        let format = target.copy_format(drive.get("format"), &volume.format).to_owned();
        let owner = name.vmid.and_then(|owner| self.vms.get(&owner));
        let place = owner.and_then(|vm| vm.drives().into_iter().find(|other| other.file() == source));
        let place = place.map_or(String::new(), |other| format!("{} ", other.key));
        if let Some(job) = job {
            self.log(job, format!("create full clone of drive {place}({source})"));
        }
        let image = NewImage { vmid: wanted.vmid, name: None, format: &format, size, data };
        let volid = self.allocate(job, wanted.node, storage, image)?;
        self.copy_content(wanted.node, &volid, &volume);
        if let Some(job) = job {
            self.log(job, format!("allocated target volume '{volid}'"));
            self.log_copy(job, size);
        }
        Ok(volid)
    }

    /// The lines a copy prints: its start and its end, and one for every few per cent if it takes long.
    pub(crate) fn log_copy(&mut self, job: &Job, size: u64) {
        let all = human_size(size);
        self.log(job, format!("transferred 0.0 B of {all} (0.00%)"));
        let begun = self.tasks[job.task].copies;
        self.tasks[job.task].copies += size;
        let takes = size / self.timing.copy_rate;
        let steps = if takes < WORTH_WATCHING { 1 } else { 20 };
        for step in 1..=steps {
            if takes >= WORTH_WATCHING {
                let at = self.clock + (begun + size * step / steps) / self.timing.copy_rate;
                let task = &mut self.tasks[job.task];
                task.due.push((task.log.len(), at));
            }
            let done = human_size(size * step / steps);
            self.log(job, format!("transferred {done} of {all} ({}.00%)", 100 * step / steps));
        }
    }

    fn attach(&mut self, wanted: &Wanted<'_>, mut drive: Drive) -> Result<String, String> {
        let file = drive.file().to_owned();
        if let Some((storage, _)) = split_volid(&file) {
            self.storage_on(storage, wanted.node)?;
            let volume =
                self.volume(wanted.node, &file).ok_or_else(|| format!("volume '{file}' does not exist"))?;
            let size = print_size(visible_size(volume));
            if drive.is_cloudinit() {
                drive.set("media", "cdrom");
            } else {
                drive.set("size", size);
            }
        }
        Ok(drive.print())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a size for people to read")]
fn human_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for next in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}
