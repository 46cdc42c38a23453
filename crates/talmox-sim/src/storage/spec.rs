//! A storage as people write it: `fast=lvmthin:500G`, `ceph=rbd`, `vault=dir:2T,shared,nodes=pve1+pve2,content=iso+import`.

use std::str::FromStr;

use super::{Kind, Storage};
use crate::drive::parse_size;

/// What is wrong with a storage that somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadStorage {
    #[error("'{text}' is no storage: it is written NAME=TYPE[:SIZE][,shared][,nodes=A+B][,content=X+Y]")]
    Form { text: String },
    #[error("'{name}' is no name of a storage")]
    Name { name: String },
    #[error("there is no storage type '{kind}': there are {}", Kind::names())]
    Kind { kind: String },
    #[error("'{size}' is no size: it is a number with K, M, G or T")]
    Size { size: String },
    #[error("a storage of type {kind} cannot hold '{content}'")]
    Content { kind: String, content: String },
    #[error("a storage of type {kind} cannot be shared")]
    Shared { kind: String },
}

/// One TiB, unless somebody says otherwise.
const USUAL_SIZE: u64 = 1 << 40;

impl FromStr for Storage {
    type Err = BadStorage;

    fn from_str(text: &str) -> Result<Self, BadStorage> {
        let form = || BadStorage::Form { text: text.to_owned() };
        let mut parts = text.split(',');
        let (id, what) = parts.next().and_then(|head| head.split_once('=')).ok_or_else(form)?;
        let (kind, size) = what.split_once(':').map_or((what, None), |(kind, size)| (kind, Some(size)));
        if !is_id(id) {
            return Err(BadStorage::Name { name: id.to_owned() });
        }
        if Kind::named(kind).name != kind {
            return Err(BadStorage::Kind { kind: kind.to_owned() });
        }
        let bytes = size.map_or(Some(USUAL_SIZE), parse_size).filter(|bytes| *bytes > 0);
        let total = bytes.ok_or_else(|| BadStorage::Size { size: size.unwrap_or_default().to_owned() })?;
        let mut storage = Self::of_kind(id, kind, total);
        for part in parts {
            match part.split_once('=') {
                None if part == "shared" => storage.share()?,
                Some(("nodes", list)) => storage.nodes = list.split('+').map(str::to_owned).collect(),
                Some(("content", list)) => storage.hold(list)?,
                _ => return Err(form()),
            }
        }
        Ok(storage)
    }
}

/// Begins with a letter, ends with a letter or a digit.
fn is_id(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(inner)
}

impl Storage {
    /// One that holds whatever its type can, where such a storage usually lies.
    pub(crate) fn of_kind(id: &str, kind: &str, total: u64) -> Self {
        let traits = Kind::named(kind);
        let pairs: &[(&str, &str)] = match traits.name {
            "zfspool" => &[("sparse", "1")],
            "lvm" => &[("vgname", "vmdata")],
            "lvmthin" => &[("vgname", "pve"), ("thinpool", "data")],
            "rbd" => &[("krbd", "0")],
            "nfs" => &[("server", "192.0.2.5"), ("export", "/srv/export")],
            "cifs" => &[("server", "192.0.2.5"), ("share", "export")],
            _ => &[],
        };
        let place = match (traits.place, traits.name) {
            (_, "zfspool") => "rpool/data".to_owned(),
            (Some("pool"), _) => id.to_owned(),
            (Some(_), _) if id == "local" => "/var/lib/vz".to_owned(),
            (Some(_), _) => format!("/mnt/pve/{id}"),
            (None, _) => String::new(),
        };
        Self {
            id: id.to_owned(),
            kind: kind.to_owned(),
            place,
            content: traits
                .content
                .iter()
                .filter(|name| **name != "none")
                .map(|name| (*name).to_owned())
                .collect(),
            shared: traits.shared,
            total: Some(total),
            options: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..Self::default()
        }
    }

    /// Marks it as seen by all hosts alike; what is bound to one machine cannot be.
    fn share(&mut self) -> Result<(), BadStorage> {
        if matches!(self.traits().name, "zfspool" | "lvmthin") {
            return Err(BadStorage::Shared { kind: self.kind.clone() });
        }
        self.shared = true;
        Ok(())
    }

    fn hold(&mut self, list: &str) -> Result<(), BadStorage> {
        let known = self.traits().content;
        if let Some(content) = list.split('+').find(|name| !known.contains(name)) {
            return Err(BadStorage::Content { kind: self.kind.clone(), content: content.to_owned() });
        }
        self.content = list.split('+').map(str::to_owned).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storages_are_read_as_people_write_them() {
        let fast: Storage = "fast=lvmthin:500G".parse().unwrap();
        assert_eq!((fast.total, fast.shared, fast.volume_group()), (Some(500 << 30), false, "pve"));
        let ceph: Storage = "ceph=rbd,shared".parse().unwrap();
        assert_eq!((ceph.total, ceph.shared, ceph.place.as_str()), (Some(1 << 40), true, "ceph"));
        let vault: Storage = "vault=dir:2T,shared,nodes=a+b,content=iso+import".parse().unwrap();
        assert_eq!((vault.nodes.len(), vault.content.len(), vault.shared), (2, 2, true));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| text.parse::<Storage>().unwrap_err().to_string();
        assert!(error("fast").contains("NAME=TYPE") && error("fast=dir,x").contains("NAME=TYPE"));
        assert_eq!(error("1=dir"), "'1' is no name of a storage");
        assert!(error("fast=lvmthinn").ends_with("zfspool, lvm, lvmthin, rbd"), "{}", error("fast=lvmthinn"));
        assert!(error("fast=dir:lots").contains("no size") && error("fast=dir:0").contains("no size"));
        assert_eq!(error("fast=rbd,content=iso"), "a storage of type rbd cannot hold 'iso'");
        assert_eq!(error("fast=zfspool,shared"), "a storage of type zfspool cannot be shared");
    }
}
