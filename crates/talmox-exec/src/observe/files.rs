//! Images on storages.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt as _};
use talmox_plan::{FileKind, Host, SeenFile, Storage};
use talmox_pve::client::{Client, Error};
use talmox_types::{HostName, StorageId};

use super::ObserveError;
use super::configs::{READS_AT_ONCE, is_everybodys};

pub(crate) type Files = BTreeMap<(HostName, StorageId), Vec<SeenFile>>;

/// The files of every storage that takes images, as each host sees it. A storage that hosts share is asked once. One that
/// does not answer, or that the credentials may not look at, is left out.
pub(crate) async fn list(
    client: &Client,
    hosts: &BTreeMap<HostName, Host>,
    storages: &[Storage],
) -> Result<Files, ObserveError> {
    let usable = |storage: &&Storage| {
        storage.available
            && hosts.get(&storage.host).is_some_and(|host| host.online)
            && !kinds(storage).is_empty()
    };
    // The first host that sees a shared storage answers for all, else everybody for himself.
    let mut asked: BTreeMap<(Option<HostName>, StorageId), (Storage, Vec<HostName>)> = BTreeMap::new();
    for storage in storages.iter().filter(usable) {
        let owner = (!storage.shared).then(|| storage.host.clone());
        let asked = asked.entry((owner, storage.id.clone())).or_insert_with(|| (storage.clone(), Vec::new()));
        asked.1.push(storage.host.clone());
    }
    let lists = stream::iter(asked.into_values()).map(async |(storage, hosts): (Storage, Vec<HostName>)| {
        let files = content(client, &storage).await;
        (storage.id, hosts, files)
    });
    let lists: Vec<_> = lists.buffer_unordered(READS_AT_ONCE).collect().await;
    let mut files = Files::new();
    for (storage, hosts, list) in lists {
        let list = match list {
            Ok(list) => list,
            Err(error) if is_everybodys(&error) => {
                return Err(ObserveError::new("list the images on storages")(error));
            }
            Err(error) => {
                tracing::debug!("left out: {error}");
                continue;
            }
        };
        for host in hosts {
            files.insert((host, storage.clone()), list.clone());
        }
    }
    Ok(files)
}

fn kinds(storage: &Storage) -> Vec<FileKind> {
    let takes = |kind: &FileKind| storage.content.contains(kind.word());
    [FileKind::Iso, FileKind::Import].into_iter().filter(takes).collect()
}

async fn content(client: &Client, storage: &Storage) -> Result<Vec<SeenFile>, Error> {
    let mut files = Vec::new();
    for kind in kinds(storage) {
        let listed = client.content(&storage.host, &storage.id, Some(kind.word())).await?;
        files.extend(listed.into_iter().map(|volume| SeenFile { volume: volume.volid, size: volume.size }));
    }
    Ok(files)
}
