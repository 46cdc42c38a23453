//! Templates that are there: finishing, changing and removing them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use talmox_plan::ExpectedTemplate;
use talmox_pve::client::{ConfigChange, ErrorKind, Look, TaskQuery, TaskSource};
use talmox_pve::property::{Disk, Slot};
use talmox_types::TemplateMark;

use super::follow;
use super::meaning::is_there;
use super::remove::{check_volumes, destroy, must_be_stopped};
use crate::StepError;
use crate::find::{Found, check_template};
use crate::work::{End, Result, Work};

/// How long turning disks into base images may take: Proxmox renames or links them.
const CONVERT_LIMIT: Duration = Duration::from_mins(30);

/// Turns a built VM into a template. What a worker that died left half done is finished.
pub(super) async fn convert(work: &Work<'_>, template: &ExpectedTemplate) -> Result {
    let found = expect(work, template, &[&template.mark]).await?;
    let doing = format!("turn {} into a template", found.name());
    if found.config.is_template() {
        return finish(work, template, &found, &doing).await;
    }
    must_be_stopped(work, &found).await?;
    let task = match work.client().make_template(&found.host, found.vmid).await {
        // Somebody was faster.
        Err(error) if *error.kind() == ErrorKind::WrongState => None,
        other => other.map_err(StepError::call(doing.clone()))?,
    };
    match follow(work, task, &doing, CONVERT_LIMIT).await {
        Err(error) if error.kind() != Some(&ErrorKind::WrongState) => return Err(error),
        _ => {}
    }
    let found = expect(work, template, &[&template.mark]).await?;
    if !found.config.is_template() {
        return Err(changed(&found));
    }
    finish(work, template, &found, &doing).await?;
    Ok(End::Changed)
}

/// Proxmox sets the flag first and turns the disks one by one. Disks that nobody works on any more and that have not been
/// turned are turned now; a storage that has no base images leaves them as they are, without a word.
async fn finish(work: &Work<'_>, template: &ExpectedTemplate, found: &Found, doing: &str) -> Result {
    if unturned(found).is_empty() {
        return Ok(End::Unchanged);
    }
    let (client, host, vmid) = (work.client(), &found.host, found.vmid);
    let name = format!("whoever works on {}", found.name());
    let look = async || {
        let query = TaskQuery { vmid: Some(vmid), source: TaskSource::Active, ..TaskQuery::default() };
        let tasks = client.tasks(host, &query).await?;
        let busy = tasks.into_iter().find(|task| task.endtime.is_none());
        Ok(busy.map_or(Look::Done(()), |task| Look::NotYet(task.kind)))
    };
    work.unless_stopped(&name, work.until(&name, CONVERT_LIMIT, look)).await??;
    let mut end = End::Unchanged;
    for slot in unturned(&expect(work, template, &[&template.mark]).await?) {
        let task = client.make_base(host, vmid, slot).await.map_err(StepError::call(doing))?;
        follow(work, task, doing, CONVERT_LIMIT).await?;
        end = End::Changed;
    }
    Ok(end)
}

/// Disks of the template's own that are no base images.
fn unturned(found: &Found) -> Vec<Slot> {
    let slots = found.config.slots().filter(|(slot, _)| slot.holds_volume());
    let plain = slots.filter(|(_, text)| {
        let disk = Disk::parse(text).ok().filter(|disk| !disk.is_cdrom() && !disk.is_cloud_init());
        let volume = disk.and_then(|disk| disk.source.volume().cloned());
        volume.is_some_and(|volume| volume.owner() == Some(found.vmid) && !volume.is_base())
    });
    plain.map(|(slot, _)| slot).collect()
}

/// What is to be changed, and the mark that says so afterwards.
pub(super) struct Change<'a> {
    pub(super) set: &'a BTreeMap<String, String>,
    pub(super) delete: &'a BTreeSet<String>,
    pub(super) mark: &'a TemplateMark,
}

/// Changes options in place. The mark is written last: it says that everything else was.
pub(super) async fn configure(work: &Work<'_>, template: &ExpectedTemplate, change: &Change<'_>) -> Result {
    let marks = [&template.mark, change.mark];
    let mut found = expect(work, template, &marks).await?;
    let mut end = End::Unchanged;
    let (set, delete) = change.left(&found);
    if !set.is_empty() || !delete.is_empty() {
        send(work, &found, &set, &delete).await?;
        found = expect(work, template, &marks).await?;
        end = End::Changed;
    }
    if found.template_mark().as_ref() != Some(change.mark) {
        let description = change.mark.below(found.config.description().unwrap_or_default());
        let set = BTreeMap::from([("description".to_owned(), description)]);
        send(work, &found, &set, &BTreeSet::new()).await?;
        found = expect(work, template, &[change.mark]).await?;
        end = End::Changed;
    }
    let (set, delete) = change.left(&found);
    if set.is_empty() && delete.is_empty() { Ok(end) } else { Err(changed(&found)) }
}

impl Change<'_> {
    /// What of it is not there yet.
    fn left(&self, found: &Found) -> (BTreeMap<String, String>, BTreeSet<String>) {
        let config = &found.config;
        let set = self.set.iter().filter(|(key, value)| !is_there(key, value, config.get(key)));
        let delete = self.delete.iter().filter(|key| config.get(key).is_some());
        (set.map(|(key, value)| (key.clone(), value.clone())).collect(), delete.cloned().collect())
    }
}

async fn send(
    work: &Work<'_>,
    found: &Found,
    set: &BTreeMap<String, String>,
    delete: &BTreeSet<String>,
) -> Result<()> {
    let doing = format!("configure template {}", found.name());
    let mut change = ConfigChange::new();
    for (key, value) in set {
        change = change.set(key, value).map_err(StepError::impossible(doing.clone()))?;
    }
    for key in delete {
        change = change.delete(key);
    }
    if let Some(digest) = found.config.digest() {
        change = change.if_digest(digest);
    }
    work.client().change_config(&found.host, found.vmid, &change).await.map_err(StepError::call(doing))
}

/// Removes a template, or a build nobody finished. Proxmox itself refuses while a linked clone stands on its disks.
pub(super) async fn remove(work: &Work<'_>, template: &ExpectedTemplate) -> Result {
    let Some(found) = work.find_template(template).await? else { return Ok(End::Unchanged) };
    check_template(&[&template.mark], &found)?;
    if !found.config.is_template() {
        must_be_stopped(work, &found).await?;
    }
    check_volumes(work, &found)?;
    destroy(work, &found, false).await?;
    Ok(End::Changed)
}

/// The template, free of locks and with one of these marks.
async fn expect(work: &Work<'_>, template: &ExpectedTemplate, marks: &[&TemplateMark]) -> Result<Found> {
    let gone = || StepError::Gone { vmid: template.vmid(), host: template.host.clone() };
    let found = work.find_template(template).await?.ok_or_else(gone)?;
    check_template(marks, &found)?;
    Ok(found)
}

fn changed(found: &Found) -> StepError {
    StepError::Changed { what: format!("template {}", found.name()) }
}
