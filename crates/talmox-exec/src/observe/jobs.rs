//! Jobs that name guests.

use futures_util::future::join;
use talmox_plan::SeenJobs;
use talmox_pve::client::{Client, ErrorKind};

use super::ObserveError;

/// Backup and replication jobs. Who may not list backup jobs learns of the others.
pub(super) async fn jobs(client: &Client) -> Result<SeenJobs, ObserveError> {
    let (backups, replications) = join(client.backup_jobs(), client.replication_jobs()).await;
    let backups = match backups {
        Ok(jobs) => Some(jobs.into_iter().map(|job| (job.id.clone(), job.guests().collect())).collect()),
        Err(error) if matches!(error.kind(), ErrorKind::Denied(_)) => None,
        Err(error) => return Err(ObserveError::new("read the backup jobs")(error)),
    };
    let replications = replications.map_err(ObserveError::new("read the replication jobs"))?;
    Ok(SeenJobs { backups, replications: replications.into_iter().map(|job| (job.id, job.guest)).collect() })
}
