//! A small laboratory: one or two hosts, a directory and a pool of zvols, and short ways to call.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use talmox_sim::{Body, PciDevice, Reply, Request, Storage, Token, User, World, encode_form};

pub(crate) struct Lab {
    pub(crate) world: World,
    /// The host that is asked; the first one unless another is named.
    pub(crate) via: Option<String>,
}

impl Lab {
    pub(crate) fn new(hosts: &[&str]) -> Self {
        let mut world = World::new(1, 1_790_000_000_000);
        for (index, host) in hosts.iter().enumerate() {
            world.add_node(host, &format!("192.0.2.{}", index + 1));
        }
        if hosts.len() > 1 {
            world.cluster = Some(("lab".into(), 1));
        }
        let contents =
            |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let storage = |id: &str, kind: &str, place: &str, content: &[&str]| Storage {
            id: id.into(),
            kind: kind.into(),
            place: place.into(),
            content: contents(content),
            ..Storage::default()
        };
        let files = ["images", "iso", "import", "snippets"];
        let mut shared = storage("shared", "dir", "/mnt/shared", &files);
        shared.shared = true;
        world.storages = vec![
            storage("local", "dir", "/var/lib/vz", &files),
            storage("zfs", "zfspool", "rpool/data", &["images"]),
            shared,
        ];
        let token = Token { secret: "s".into(), ..Token::default() };
        let root = User { tokens: BTreeMap::from([("t".into(), token)]), ..User::default() };
        world.access.users.insert("root@pam".into(), root);
        Self { world, via: None }
    }

    /// A lab with one storage of each usual type beside, named after it, of 100 GiB each.
    pub(crate) fn with_every_storage(hosts: &[&str]) -> Self {
        let mut lab = Self::new(hosts);
        let blocks = ["images", "rootdir"];
        let files = ["images", "iso", "import", "snippets"];
        for (kind, place, content, options) in [
            ("nfs", "/mnt/pve/nfs", &files[..], &[("server", "192.0.2.5"), ("export", "/srv")][..]),
            ("cifs", "/mnt/pve/cifs", &files, &[("server", "192.0.2.5"), ("share", "vms")]),
            ("btrfs", "/mnt/btrfs", &files, &[]),
            ("cephfs", "/mnt/pve/cephfs", &files[1..], &[]),
            ("zfspool", "tank/vms", &blocks, &[]),
            ("lvm", "", &blocks, &[("vgname", "thick")]),
            ("lvmthin", "", &blocks, &[("vgname", "pve"), ("thinpool", "data")]),
            ("rbd", "vms", &blocks, &[]),
        ] {
            let pairs = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            lab.world.storages.push(Storage {
                id: kind.into(),
                kind: kind.into(),
                place: place.into(),
                content: content.iter().map(|name| (*name).to_owned()).collect(),
                shared: ["nfs", "cifs", "cephfs", "rbd"].contains(&kind),
                total: Some(100 << 30),
                options: pairs.collect(),
                ..Storage::default()
            });
        }
        lab
    }

    /// Puts a card into a host, and gives the words by which a mapping names it.
    pub(crate) fn add_card(&mut self, host: &str, address: &str, iommu_group: i32) -> String {
        let card = PciDevice {
            address: address.into(),
            class: "0x030200".into(),
            vendor: "0x10de".into(),
            device: "0x20b0".into(),
            iommu_group,
        };
        self.world.nodes.get_mut(host).expect("a host").pci.push(card);
        let ids = "10de:20b0";
        format!("id={ids},iommugroup={iommu_group},node={host},path={address},subsystem-id={ids}")
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, pairs: &[(&str, &str)]) -> Reply {
        let form = encode_form(pairs.iter().copied());
        let mut request = Request {
            method: method.into(),
            path: format!("/api2/json{path}"),
            authorization: Some("PVEAPIToken=root@pam!t=s".into()),
            via: self.via.clone(),
            ..Request::default()
        };
        if matches!(method, "POST" | "PUT") {
            request.body = Body::Bytes { content_type: None, bytes: form.into_bytes() };
        } else {
            request.query = form;
        }
        let now = self.world.clock();
        self.world.handle(&request, now)
    }

    /// The data of a call that must succeed.
    pub(crate) fn call(&mut self, method: &str, path: &str, pairs: &[(&str, &str)]) -> Value {
        let reply = self.send(method, path, pairs);
        assert_eq!(reply.status, 200, "{method} {path}: {} {}", reply.reason, body(&reply));
        body(&reply)["data"].clone()
    }

    pub(crate) fn get(&mut self, path: &str) -> Value {
        self.call("GET", path, &[])
    }

    /// The reason of a call that must fail.
    pub(crate) fn fail(&mut self, method: &str, path: &str, pairs: &[(&str, &str)]) -> String {
        let reply = self.send(method, path, pairs);
        assert!(reply.status >= 400, "{method} {path} succeeded");
        reply.reason
    }

    /// Waits for a task and gives its exit status.
    pub(crate) fn wait(&mut self, upid: &Value) -> String {
        let upid = upid.as_str().expect("a UPID");
        while self.world.task_status(upid).expect("a task").is_none() {
            let at = self.world.next_event().expect("something to happen");
            self.world.advance_to(at);
        }
        self.world.task_status(upid).flatten().unwrap_or_default().to_owned()
    }

    pub(crate) fn run(&mut self, method: &str, path: &str, pairs: &[(&str, &str)]) -> String {
        let upid = self.call(method, path, pairs);
        self.wait(&upid)
    }
}

pub(crate) fn body(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_default()
}
