//! Images on storages: bringing them there, and removing them.
//!
//! ```text
//!  there already? ──yes──▶ done
//!        │ no
//!  a task brings it? ──yes──▶ follow it, look again
//!        │ no
//!  uncompressed: the host fetches it · compressed: stream, unpack, upload (unpack.rs)
//!        │
//!  seen on the storage: done
//! ```

use std::time::Duration;

use talmox_plan::FileKind;
use talmox_pve::client::{
    Download, Error, ErrorKind, FileContent, ImageKind, TaskInfo, TaskQuery, TaskSource, Upload, Volume,
};
use talmox_pve::property::VolumeId;
use talmox_types::desired::{Compression, Image, OUR_FILES};
use talmox_types::{HostName, StorageId};

use super::unpack::{Unpacked, unpack};
use super::{CHANGE_LIMIT, follow};
use crate::StepError;
use crate::work::{End, Result, Work};

/// How long an image may travel: some lines are slow.
pub(super) const TRANSFER_LIMIT: Duration = Duration::from_hours(3);
/// An image and where it goes.
pub(super) struct Order<'a> {
    pub(super) host: &'a HostName,
    pub(super) storage: &'a StorageId,
    pub(super) content: FileKind,
    pub(super) image: &'a Image,
}

pub(super) async fn fetch(work: &Work<'_>, order: &Order<'_>) -> Result {
    if let Some(compression) = order.image.compression {
        // An upload can be seen while it is written, so whoever writes is waited for first.
        wait_for_others(work, order).await?;
        if order.look(work).await?.is_some() {
            return Ok(End::Unchanged);
        }
        upload(work, order, compression).await?;
    } else {
        if order.look(work).await?.is_some() {
            return Ok(End::Unchanged);
        }
        // Perhaps a try of ours whose answer was lost.
        if wait_for_others(work, order).await? && order.look(work).await?.is_some() {
            return Ok(End::Unchanged);
        }
        download(work, order).await?;
    }
    let changed = || StepError::Changed { what: format!("{} on {}", order.name(), order.storage) };
    order.look(work).await?.map(|_| End::Changed).ok_or_else(changed)
}

impl Order<'_> {
    fn name(&self) -> &str {
        &self.image.file
    }

    fn kind(&self) -> ImageKind {
        match self.content {
            FileKind::Iso => ImageKind::Iso,
            FileKind::Import => ImageKind::Import,
        }
    }

    /// The file, if it is there.
    async fn look(&self, work: &Work<'_>) -> Result<Option<Volume>> {
        let Self { host, storage, content, .. } = self;
        let doing = format!("look for {} on {storage} of {host}", self.name());
        let listed = work.client().content(host, storage, Some(content.word())).await;
        let listed = listed.map_err(StepError::call(doing))?;
        let name = format!("{}/{}", content.word(), self.name());
        Ok(listed.into_iter().find(|volume| volume.volid.name() == name))
    }

    /// Whether a running task may be bringing the file. An upload's task does not say which.
    fn is_brought_by(&self, task: &TaskInfo) -> bool {
        let runs = task.endtime.is_none();
        let brings = match self.image.compression {
            None => task.kind == "download" && task.id.as_deref() == Some(self.name()),
            Some(_) => task.kind == "imgcopy",
        };
        runs && brings
    }
}

/// Follows tasks that may be bringing the file, however they end; false if there were none.
async fn wait_for_others(work: &Work<'_>, order: &Order<'_>) -> Result<bool> {
    let doing = format!("look what {} is doing", order.host);
    let query = TaskQuery { source: TaskSource::Active, ..TaskQuery::default() };
    let tasks = work.client().tasks(order.host, &query).await.map_err(StepError::call(doing))?;
    let mut waited = false;
    for task in tasks.iter().filter(|task| order.is_brought_by(task)) {
        let name = format!("whoever brings {} to {} on {}", order.name(), order.storage, order.host);
        // Nothing of ours: how it ended is seen on the storage.
        let progress = work.progress();
        let followed = work.client().follow(&task.upid, &name, TRANSFER_LIMIT, &progress);
        drop(work.unless_stopped(&name, followed).await?);
        waited = true;
    }
    Ok(waited)
}

/// Has the host fetch the image.
async fn download(work: &Work<'_>, order: &Order<'_>) -> Result<()> {
    let Order { host, storage, image, .. } = order;
    let doing = format!("fetch {} from {} to {storage} on {host}", image.file, image.url);
    let download = Download {
        url: image.url.clone(),
        kind: order.kind(),
        filename: image.file.clone(),
        checksum: image.checksum.clone(),
        compression: None,
        verify_certificates: true,
    };
    let _turn = work.turn(host).await;
    let task = work.client().download_url(host, storage, &download).await;
    let task = task.map_err(StepError::call(doing.clone()))?;
    let name = format!("download of {}", image.file);
    match work.follow(&task, &name, TRANSFER_LIMIT).await.map_err(StepError::task(doing)) {
        // Another run was faster; whether it is there is looked at next.
        Err(error) if error.kind() == Some(&ErrorKind::Exists) => Ok(()),
        other => other,
    }
}

/// Fetches and unpacks the image here, and sends it to the host.
async fn upload(work: &Work<'_>, order: &Order<'_>, compression: Compression) -> Result<()> {
    let Order { host, storage, image, .. } = order;
    let unpacked = unpack(work, image, compression, &format!("{storage} on {host}")).await?;
    let doing = format!("send {} to {storage} on {host}", image.file);
    let upload = Upload {
        kind: order.kind(),
        filename: image.file.clone(),
        content: FileContent::File { path: unpacked.path().to_owned(), length: unpacked.length },
        checksum: Some(unpacked.checksum.clone()),
        timeout: TRANSFER_LIMIT,
    };
    let _turn = work.turn(host).await;
    let task = work.client().upload(host, storage, &upload, &work.progress()).await;
    let task = task.map_err(StepError::call(doing.clone()))?;
    let name = format!("import of {}", image.file);
    match work.follow(&task, &name, TRANSFER_LIMIT).await.map_err(StepError::task(doing)) {
        Err(error) => Err(what_is_left(work, order, &unpacked).await.unwrap_or(error)),
        Ok(()) => Ok(()),
    }
}

/// A worker that was killed leaves a part of the file under its name, which the next run would take for all of it.
async fn what_is_left(work: &Work<'_>, order: &Order<'_>, unpacked: &Unpacked) -> Option<StepError> {
    let left = order.look(work).await.ok().flatten()?;
    (left.size != unpacked.length).then(|| StepError::Partial {
        volume: left.volid.to_string(),
        host: order.host.clone(),
        storage: order.storage.clone(),
        found: left.size,
        expected: unpacked.length,
    })
}

/// Removes a file of ours from a storage.
pub(super) async fn remove(work: &Work<'_>, host: &HostName, volume: &VolumeId) -> Result {
    let doing = format!("remove {volume} on {host}");
    if !volume.file_name().starts_with(OUR_FILES) {
        return Err(StepError::Changed { what: format!("{volume}, which is not an image of ours,") });
    }
    if !is_listed(work, host, volume).await.map_err(StepError::call(doing.clone()))? {
        return Ok(End::Unchanged);
    }
    let _turn = work.turn(host).await;
    let task = match work.client().delete_volume(host, volume).await {
        Err(error) if error.is_not_found() => None,
        other => other.map_err(StepError::call(doing.clone()))?,
    };
    follow(work, task, &doing, CHANGE_LIMIT).await?;
    let left = is_listed(work, host, volume).await.map_err(StepError::call(doing))?;
    if left { Err(StepError::Changed { what: volume.to_string() }) } else { Ok(End::Changed) }
}

async fn is_listed(work: &Work<'_>, host: &HostName, volume: &VolumeId) -> std::result::Result<bool, Error> {
    let content = volume.name().split('/').next();
    let listed = work.client().content(host, volume.storage(), content).await?;
    Ok(listed.iter().any(|listed| listed.volid == *volume))
}
