//! Resource pools.

use serde::Deserialize;
use talmox_types::{PoolName, StorageId, VmId};

use crate::client::{Client, Error, Params, scalar};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Pool {
    pub poolid: PoolName,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub comment: Option<String>,
    #[serde(default)]
    pub members: Vec<PoolMember>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PoolMember {
    /// `qemu/100`, `storage/pve1/local`.
    pub id: String,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub vmid: Option<VmId>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub storage: Option<StorageId>,
}

/// Members to add or take out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolChange {
    pub vms: Vec<VmId>,
    pub storages: Vec<StorageId>,
    /// Whether they are taken out instead of added.
    pub remove: bool,
    /// Whether VMs may be taken away from another pool.
    pub allow_move: bool,
}

impl Client {
    pub async fn pools(&self) -> Result<Vec<Pool>, Error> {
        self.get("/pools", Params::new()).await
    }

    /// A pool with its members, if there is one of that name.
    pub async fn pool(&self, pool: &PoolName) -> Result<Option<Pool>, Error> {
        match self.get::<Vec<Pool>>("/pools", Params::new().with("poolid", pool)).await {
            Ok(pools) => Ok(pools.into_iter().next()),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn create_pool(&self, pool: &PoolName, comment: Option<&str>) -> Result<(), Error> {
        self.post("/pools", Params::new().with("poolid", pool).with_some("comment", comment)).await
    }

    pub async fn change_pool(&self, pool: &PoolName, change: &PoolChange) -> Result<(), Error> {
        let PoolChange { vms, storages, remove, allow_move } = change;
        let vms = vms.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let storages = storages.iter().map(StorageId::as_str).collect::<Vec<_>>().join(",");
        let params = Params::new()
            .with("poolid", pool)
            .with_some("vms", (!vms.is_empty()).then_some(vms))
            .with_some("storage", (!storages.is_empty()).then_some(storages))
            .with_some("delete", remove.then_some(1))
            .with_some("allow-move", allow_move.then_some(1));
        self.put("/pools", params).await
    }

    /// Removes an empty pool.
    pub async fn delete_pool(&self, pool: &PoolName) -> Result<(), Error> {
        self.delete("/pools", Params::new().with("poolid", pool)).await
    }
}
