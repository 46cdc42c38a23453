//! Snapshots of etcd: where they go, and those this run kept.

use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};

use talmox_exec::SnapshotSink;
use talmox_machine::Time;
use talmox_secrets::age::Recipient;

use super::Inside;
use crate::commands::configs::now;
use crate::commands::shared::Job;
use crate::snapshot_file::{Draft, Place};
use crate::trust::refuse_strange_receivers;

impl Inside<'_> {
    /// Where snapshots of etcd go. Those of a simulation stay with it: real ones must never make room for them.
    pub(in crate::commands) fn place(&self) -> Result<Place, String> {
        let Job { desired, folder, session, .. } = self.job;
        let backup = desired.talos.etcd_backup.as_ref();
        let backup = backup.ok_or_else(|| "the description has no etcd_backup".to_owned())?;
        let recipient = |text: &String| text.parse::<Recipient>().map_err(|error| error.to_string());
        let recipients: Vec<Recipient> = backup.age.iter().map(recipient).collect::<Result<_, String>>()?;
        if session.simulated_in().is_none() {
            refuse_strange_receivers(&recipients, folder).map_err(|failure| failure.to_string())?;
        }
        Ok(Place {
            folder: match session.simulated_in() {
                Some(simulation) => simulation.join("etcd-backup"),
                None => folder.writable(&backup.dir).map_err(|failure| failure.to_string())?,
            },
            cluster: desired.name.to_string(),
            recipients,
            keep: usize::try_from(backup.keep).unwrap_or(usize::MAX),
        })
    }

    /// Whether the description says where snapshots of etcd go.
    pub(in crate::commands) fn has_place(&self) -> bool {
        self.job.desired.talos.etcd_backup.is_some()
    }

    /// Snapshots this run kept.
    pub(in crate::commands) fn kept(&self) -> MutexGuard<'_, Vec<(Time, PathBuf)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn draft(&self) -> Result<Sink<'_>, String> {
        let place = self.place()?;
        let draft = place.begin()?;
        Ok(Sink { inside: self, place, draft })
    }
}

/// A snapshot on its way to where the description keeps them.
pub(super) struct Sink<'a> {
    inside: &'a Inside<'a>,
    place: Place,
    draft: Draft,
}

impl SnapshotSink for Sink<'_> {
    fn write(&mut self, piece: &[u8]) -> Result<(), String> {
        self.draft.write(piece).map_err(|error| error.to_string())
    }

    fn keep(self: Box<Self>) -> Result<String, String> {
        let Self { inside, place, draft } = *self;
        let now = now();
        let path = place.keep(draft, now)?;
        let shown = path.display().to_string();
        inside.kept().push((now, path));
        Ok(shown)
    }
}
