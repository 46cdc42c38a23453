//! Creating a VM: checks and the claim on the id in the call, disks and configuration in the worker.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::default_boot;
use super::disks::{Wanted, allocations, check_drive_param};
use super::perms::{Subject, Verb};
use crate::api::Call;
use crate::drive::{Drive, is_drive, is_nic};
use crate::jobs::Work;
use crate::release::Change;
use crate::reply::{Answer, ApiError};
use crate::schema::{self, is_tag, split_list};
use crate::storage::Allocations;
use crate::tasks::Job;
use crate::vm::Vm;
use crate::world::World;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CreateJob {
    pub(crate) vmid: u32,
    settings: BTreeMap<String, String>,
    storage: Option<String>,
    pool: Option<String>,
    start: bool,
    ha: bool,
}

/// Parameters of the call that are no options of the VM.
const NOT_OPTIONS: [&str; 14] = [
    "node",
    "vmid",
    "pool",
    "storage",
    "start",
    "archive",
    "force",
    "unique",
    "live-restore",
    "bwlimit",
    "import-working-storage",
    "ha-managed",
    "digest",
    "skiplock",
];

pub(crate) fn create(world: &mut World, call: &Call) -> Answer {
    let vmid = call.vmid();
    let mut settings = call.args.values.clone();
    settings.retain(|key, _| !NOT_OPTIONS.contains(&key.as_str()));
    if let Some(cdrom) = settings.remove("cdrom") {
        settings.insert("ide2".into(), cdrom);
    }
    check_ssh_keys(&settings)?;
    clamp_cpu_units(&mut settings);
    world.need_quorum()?;
    let pool = call.args.get("pool");
    check_may_create(world, call, vmid, pool)?;
    if let Some(archive) = call.args.get("archive") {
        return restore(world, call, vmid, archive);
    }
    let subject = Subject { caller: &call.caller, vmid, pool };
    check_settings(world, call, &subject, &mut settings)?;
    world.add_macs(&mut settings);
    if let Some(other) = world.vms.get(&vmid) {
        let text = format!("unable to create VM {vmid} - VM {vmid} already exists on node '{}'", other.node);
        return Err(ApiError::Plain(text));
    }
    let claimed = BTreeMap::from([("lock".to_owned(), "create".to_owned())]);
    world.vms.insert(vmid, Vm { node: call.node.clone(), config: claimed, ..Vm::default() });
    let job = CreateJob {
        vmid,
        settings,
        storage: call.args.get("storage").map(str::to_owned),
        pool: pool.map(str::to_owned),
        start: call.args.flag("start"),
        ha: call.args.flag("ha-managed"),
    };
    Ok(Value::from(world.spawn(&call.node, "qmcreate", &vmid.to_string(), &call.caller, Work::Create(job))))
}

fn check_may_create(world: &World, call: &Call, vmid: u32, pool: Option<&str>) -> Result<(), ApiError> {
    if let Some(pool) = pool.filter(|pool| !world.pools.contains_key(*pool)) {
        return Err(ApiError::Permission(Some(format!("pool '{pool}' does not exist"))));
    }
    if let Some(storage) = call.args.get("storage") {
        world.need(&call.caller, &format!("/storage/{storage}"), "Datastore.AllocateSpace")?;
    }
    if call.args.flag("ha-managed") {
        world.need(&call.caller, "/", "Sys.Console")?;
    }
    if call.args.flag("start") && world.has(Change::StartOnCreate) {
        world.need_vm(&Subject { caller: &call.caller, vmid, pool }, &["VM.PowerMgmt"])?;
    }
    let on_pool = pool.is_some_and(|pool| world.may(&call.caller, &format!("/pool/{pool}"), "VM.Allocate"));
    if on_pool || world.may(&call.caller, &format!("/vms/{vmid}"), "VM.Allocate") {
        return Ok(());
    }
    Err(ApiError::Permission(None))
}

/// Restoring is not simulated beyond its checks: no storage here holds backups.
fn restore(world: &World, call: &Call, vmid: u32, archive: &str) -> Answer {
    let subject = Subject { caller: &call.caller, vmid, pool: None };
    world.check_volume_access(&subject, archive)?;
    Err(ApiError::plain(format!("unable to restore VM {vmid} - volume '{archive}' does not exist")))
}

fn check_settings(
    world: &World,
    call: &Call,
    subject: &Subject<'_>,
    settings: &mut BTreeMap<String, String>,
) -> Result<(), ApiError> {
    for (key, text) in settings.iter().filter(|(key, _)| is_drive(key) && !key.starts_with("unused")) {
        world.check_drive_access(subject, &Drive::parse(key, text), call.args.get("storage"))?;
    }
    check_storages_of(world, subject, settings)?;
    settings.keys().try_for_each(|key| world.check_option(subject, key))?;
    // Tags are left to the worker.
    for (key, text) in settings.iter().filter(|(key, _)| *key != "tags") {
        world.check_value(subject, Verb::Set, key, [None, Some(text)])?;
    }
    for (key, text) in settings.iter() {
        world.check_bridge(subject.caller, key, text)?;
    }
    check_drives(world, settings)
}

/// Volumes that are named without a drive, and the storage of a VM's memory.
pub(crate) fn check_storages_of(
    world: &World,
    subject: &Subject<'_>,
    settings: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    for (_, text) in settings.iter().filter(|(key, _)| key.starts_with("unused")) {
        world.check_volume_access(subject, text)?;
    }
    settings.get("vmstatestorage").map_or(Ok(()), |storage| {
        world.need(subject.caller, &format!("/storage/{storage}"), "Datastore.AllocateSpace")
    })
}

/// Brings every drive of the settings to normal form.
pub(crate) fn check_drives(world: &World, settings: &mut BTreeMap<String, String>) -> Result<(), ApiError> {
    for (key, text) in settings.iter_mut().filter(|(key, _)| is_drive(key) && !key.starts_with("unused")) {
        *text = check_drive_param(world, key, text)?;
    }
    Ok(())
}

pub(crate) fn check_ssh_keys(settings: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let Some(keys) = settings.get("sshkeys") else { return Ok(()) };
    let decoded = crate::wire::percent_decode(keys);
    let good =
        decoded.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).all(is_ssh_key);
    if good { Ok(()) } else { Err(ApiError::plain("SSH public key validation error")) }
}

/// A key line: type and a blob that begins with the same type's name.
fn is_ssh_key(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (Some(kind), Some(blob)) = (words.next(), words.next()) else { return false };
    let known = ["ssh-", "ecdsa-sha2-", "sk-"].iter().any(|prefix| kind.starts_with(prefix));
    known && blob.len() >= 4 * (kind.len() + 4).div_ceil(3) && blob.starts_with("AAAA")
}

/// The second control group version knows no more than ten thousand shares.
pub(crate) fn clamp_cpu_units(settings: &mut BTreeMap<String, String>) {
    if let Some(units) = settings.get_mut("cpuunits")
        && units.parse::<u32>().is_ok_and(|number| number > 10_000)
    {
        *units = "10000".into();
    }
}

impl World {
    /// Prints NICs in normal form and gives an address to those without one.
    pub(crate) fn add_macs(&mut self, settings: &mut BTreeMap<String, String>) {
        let prefix = self.options.get("mac_prefix").cloned().unwrap_or_else(|| "BC:24:11".into());
        for (_, text) in settings.iter_mut().filter(|(key, _)| is_nic(key)) {
            let mut net = schema::parse_as("net", text);
            net.entry("macaddr".into()).or_insert_with(|| self.random.mac(&prefix));
            *text = schema::print("net", &net);
        }
    }

    /// Tags as they are stored: lower case, sorted, once each, unless the data centre says otherwise.
    pub(crate) fn normal_tags(&self, text: &str) -> String {
        let style = self
            .options
            .get("tag-style")
            .map(|style| schema::parse_as("opt-tag-style", style))
            .unwrap_or_default();
        let keep_case = style.get("case-sensitive").is_some_and(|flag| flag == "1");
        let keep_order = style.get("ordering").is_some_and(|order| order == "config");
        let mut tags: Vec<String> = Vec::new();
        for tag in split_list(text).filter(|tag| is_tag(tag)) {
            let tag = if keep_case { tag.to_owned() } else { tag.to_lowercase() };
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        if !keep_order {
            tags.sort();
        }
        if tags.is_empty() { " ".into() } else { tags.join(";") }
    }
}

impl CreateJob {
    pub(crate) fn allocations(&self) -> Allocations {
        allocations(&self.settings, self.storage.as_deref())
    }

    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let before = world.volumes_of(self.vmid);
        match self.make(world, job) {
            Ok(config) => {
                let disks = config.keys().filter(|key| is_drive(key)).count() as u64;
                self.settings = config;
                Ok(world.timing.create + disks * world.timing.per_disk)
            }
            Err(reason) => {
                // Only what this worker made goes; volumes that were there stay.
                for key in world.volumes_of(self.vmid).iter().filter(|key| !before.contains(key)) {
                    world.volumes.remove(key);
                }
                world.vms.remove(&self.vmid);
                Err(format!("unable to create VM {} - {reason}", self.vmid))
            }
        }
    }

    fn make(&self, world: &mut World, job: &Job) -> Result<BTreeMap<String, String>, String> {
        let mut config = self.settings.clone();
        for (key, text) in self.settings.iter().filter(|(key, _)| is_drive(key) && !key.starts_with("unused"))
        {
            let wanted = Wanted {
                node: &job.node,
                vmid: self.vmid,
                default_storage: self.storage.as_deref(),
                config: &config
                    .iter()
                    .filter(|(other, _)| *other != key)
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect(),
            };
            let printed = world.make_disk(Some(job), &wanted, Drive::parse(key, text))?;
            config.insert(key.clone(), printed);
        }
        if let Some(tags) = config.get_mut("tags").filter(|_| world.has(Change::TagsOnCreate)) {
            let subject = Subject { caller: &job.caller, vmid: self.vmid, pool: None };
            world.check_tags(&subject, "", tags).map_err(|error| error.text())?;
            *tags = world.normal_tags(tags);
        }
        if let Some(description) = config.get_mut("description") {
            description.truncate(description.trim_end().len());
        }
        if let Some(machine) = config.get_mut("machine") {
            *machine = schema::print("machine", &schema::parse_as("machine", machine));
        }
        let boot = default_boot(&config);
        config.entry("boot".into()).or_insert(boot);
        let (uuid, generation) = (world.random.uuid(), world.random.uuid());
        config.entry("smbios1".into()).or_insert(format!("uuid={uuid}"));
        let own = config.entry("vmgenid".into()).or_insert_with(|| "1".into());
        if own == "1" {
            *own = generation;
        }
        let ctime = world.unix();
        config.insert("meta".into(), format!("creation-qemu={},ctime={ctime}", world.known_release().qemu));
        Ok(config)
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        let vm = world.vm_mut(self.vmid)?;
        vm.config = std::mem::take(&mut self.settings);
        let template = vm.is_template();
        if template {
            world.convert_to_template(&job.node, self.vmid, None);
        }
        if let Some(pool) = self.pool.as_ref().and_then(|pool| world.pools.get_mut(pool)) {
            pool.vms.insert(self.vmid);
        }
        if self.ha {
            let entry = BTreeMap::from([("state".to_owned(), "started".to_owned())]);
            world.ha_resources.insert(format!("vm:{}", self.vmid), entry);
        }
        if self.start {
            let start = super::power::PowerJob::start(self.vmid);
            world.spawn(&job.node, "qmstart", &self.vmid.to_string(), &job.caller, Work::Power(start));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_lowered_sorted_and_deduplicated() {
        let mut world = World::new(1, 0);
        assert_eq!(world.normal_tags("talos;Cluster-A,b b"), "b;cluster-a;talos");
        assert_eq!(world.normal_tags(""), " ");
        world.options.insert("tag-style".into(), "ordering=config,case-sensitive=1".into());
        assert_eq!(world.normal_tags("b;A"), "b;A");
    }

    #[test]
    fn ssh_keys_need_a_body() {
        let keys = |text: &str| check_ssh_keys(&BTreeMap::from([("sshkeys".to_owned(), text.to_owned())]));
        assert!(keys("ssh-ed25519%20AAAA%20x").is_err());
        assert!(
            keys(
                "ssh-ed25519%20AAAAC3NzaC1lZDI1NTE5AAAAIOmaqhBn4t7sp6kRuvPOtl4UYzqkDRWLkXTNDHWKVWoo%20a%40b"
            )
            .is_ok()
        );
    }

    #[test]
    fn shares_are_clamped() {
        let mut settings = BTreeMap::from([("cpuunits".to_owned(), "262144".to_owned())]);
        clamp_cpu_units(&mut settings);
        assert_eq!(settings["cpuunits"], "10000");
    }
}
