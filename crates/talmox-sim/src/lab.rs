//! A ready-made cluster to try things on.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::{ROOT, Token, User};
use crate::storage::Storage;
use crate::world::{PciDevice, World};

/// A world with hosts, storages and one token that may do everything.
pub struct Lab {
    pub world: World,
    /// `user@realm!name=secret`, as it stands in the `Authorization` header after `PVEAPIToken=`.
    pub token: String,
    /// Password of `root@pam`.
    pub password: String,
}

impl Lab {
    /// `hosts` hosts named `pve1`, `pve2`, …, each with a directory for files and a pool of zvols, and a directory all of
    /// them share. `epoch` is the Unix time in milliseconds at which they booted.
    pub fn new(seed: u64, epoch: u64, hosts: u8) -> Self {
        let mut world = World::new(seed, epoch);
        for index in 1..=hosts.max(1) {
            let node = world.add_node(&format!("pve{index}"), &format!("192.0.2.{index}"));
            node.pci.push(PciDevice {
                address: "0000:01:00.0".into(),
                class: "0x030000".into(),
                vendor: "0x10de".into(),
                device: "0x2204".into(),
                iommu_group: 14,
            });
        }
        if hosts > 1 {
            world.cluster = Some(("lab".into(), u32::from(hosts)));
        }
        let files = ["iso", "import", "snippets", "vztmpl", "backup"];
        world.storages = vec![
            storage("local", "dir", "/var/lib/vz", &files, false),
            storage("local-zfs", "zfspool", "rpool/data", &["images", "rootdir"], false),
            storage("shared", "dir", "/mnt/shared", &["images", "iso", "import"], true),
        ];
        let secret = world.random.uuid();
        let password = world.random.hex(16);
        let entry = Token { secret: secret.clone(), ..Token::default() };
        let tokens = BTreeMap::from([("lab".to_owned(), entry)]);
        let root = User { password: Some(password.clone()), tokens, ..User::default() };
        world.access.users.insert(ROOT.to_owned(), root);
        Self { world, token: format!("{ROOT}!lab={secret}"), password }
    }
}

fn storage(id: &str, kind: &str, place: &str, content: &[&str], shared: bool) -> Storage {
    let content: BTreeSet<String> = content.iter().map(|name| (*name).to_owned()).collect();
    Storage { id: id.into(), kind: kind.into(), place: place.into(), content, shared, ..Storage::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Request;

    #[test]
    fn the_token_opens_the_door_and_seeds_differ() {
        let mut lab = Lab::new(1, 0, 3);
        let mut request =
            Request { method: "GET".into(), path: "/api2/json/cluster/status".into(), ..Request::default() };
        request.authorization = Some(format!("PVEAPIToken={}", lab.token));
        assert_eq!(lab.world.handle(&request, 0).status, 200);
        assert_ne!(Lab::new(2, 0, 1).token, Lab::new(3, 0, 1).token);
    }
}
