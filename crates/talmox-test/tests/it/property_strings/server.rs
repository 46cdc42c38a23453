//! The simulator's side: a value is set through its API and read back.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_sim::{Body, FileFacts, Request, Storage, User, World, encode_form, percent_encode};

/// A world with one VM, and root logged in: only root may set everything.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) world: World,
    cookie: String,
    csrf: String,
}

pub(crate) const VMID: u32 = 100;
const NODE: &str = "pve1";

impl Server {
    /// A VM with a disk under each of the keys, and a NIC.
    pub(crate) fn new() -> Self {
        let mut world = World::new(1, 1_767_225_600_000);
        world.add_node(NODE, "192.0.2.11");
        for (id, kind) in [("local", "dir"), ("local-zfs", "zfspool")] {
            world.storages.push(storage(id, kind));
        }
        let root = User { password: Some("p".into()), ..User::default() };
        world.access.users.insert("root@pam".into(), root);
        let disks = [
            ("scsi0", "local-zfs:vm-100-disk-0,size=8G"),
            ("virtio0", "local-zfs:vm-100-disk-1,size=8G"),
            ("sata0", "local-zfs:vm-100-disk-2,size=8G"),
            ("ide0", "local:100/vm-100-disk-3.qcow2,size=8G"),
            ("efidisk0", "local-zfs:vm-100-disk-4,efitype=4m,size=1M"),
            ("tpmstate0", "local-zfs:vm-100-disk-5,size=4M,version=v2.0"),
            ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0"),
        ];
        let config = disks.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        world.add_vm(NODE, VMID, config, false);
        let mut server = Self { world, cookie: String::new(), csrf: String::new() };
        server.log_in();
        let map = "node=pve1,path=0000:01:00.0,id=10de:2204";
        server.send("POST", "/cluster/mapping/pci", &[("id", "gpu"), ("map", map)]).unwrap();
        server
    }

    fn log_in(&mut self) {
        let reply =
            self.send("POST", "/access/ticket", &[("username", "root@pam"), ("password", "p")]).unwrap();
        self.cookie = percent_encode(reply["ticket"].as_str().unwrap());
        reply["CSRFPreventionToken"].as_str().unwrap().clone_into(&mut self.csrf);
    }

    /// The data of the reply, or message and reasons.
    fn send(&mut self, method: &str, path: &str, params: &[(&str, &str)]) -> Result<Value, String> {
        let form = encode_form(params.iter().copied());
        let reads = method == "GET";
        let body = Body::Bytes { content_type: None, bytes: form.clone().into_bytes() };
        let request = Request {
            method: method.to_owned(),
            path: format!("/api2/json{path}"),
            query: if reads { form } else { String::new() },
            cookie: Some(self.cookie.clone()).filter(|cookie| !cookie.is_empty()),
            csrf: Some(self.csrf.clone()),
            body: if reads { Body::Empty } else { body },
            ..Request::default()
        };
        let reply = self.world.handle(&request, self.world.clock());
        let mut body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if reply.status == 200 {
            return Ok(body["data"].take());
        }
        Err(format!("{}{}", body["message"].as_str().unwrap_or(&reply.reason), body["errors"]))
    }

    /// Sets a key of the VM and gives what is shown then.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<String, String> {
        let path = format!("/nodes/{NODE}/qemu/{VMID}/config");
        self.send("PUT", &path, &[(key, value)])?;
        let value = &self.send("GET", &path, &[])?[key];
        if value.is_null() {
            return Err("not shown".to_owned());
        }
        Ok(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// Makes what a recorded value names: storages, images, files, mappings.
    pub(crate) fn prepare(&mut self, key: &str, value: &str) {
        let parts = value.split(',').map(|part| part.split_once('=').map_or(part, |(_, value)| value));
        for (storage_id, name) in parts.filter_map(|part| part.split_once(':')) {
            if storage_id.is_empty() || !storage_id.starts_with(|c: char| c.is_ascii_alphabetic()) {
                continue;
            }
            let files = name.contains('/') || name.parse::<f64>().is_ok() || name == "cloudinit";
            if !self.world.storages.iter().any(|storage| storage.id == storage_id) {
                self.world.storages.push(storage(storage_id, if files { "dir" } else { "zfspool" }));
            }
            if name.starts_with("iso/") || name.starts_with("import/") {
                let format =
                    name.rsplit('.').next().filter(|_| name.starts_with("import/")).map(str::to_owned);
                let file = FileFacts { size: 1 << 20, format, ..FileFacts::default() };
                self.world.add_file(NODE, &format!("{storage_id}:{name}"), file);
            }
        }
        if let Some(id) = value.split(',').find_map(|part| part.strip_prefix("mapping=")) {
            let map = "node=pve1,path=0000:01:00.0,id=10de:2204";
            // Another value may have named it before.
            let _ = self.send("POST", "/cluster/mapping/pci", &[("id", id), ("map", map)]);
        }
        if let Some(source) = value.split(',').find_map(|part| part.strip_prefix("import-from=")) {
            self.adopt(VMID + 2, "scsi1", &format!("{source},size=1G"));
        }
        if let Some(order) = value.strip_prefix("order=").filter(|_| key == "boot") {
            for device in order.split(';') {
                let what = if device.starts_with("net") { "virtio,bridge=vmbr0" } else { "local:1" };
                self.set(device, what).unwrap();
            }
        }
        self.adopt(VMID + 1, key, value);
    }

    /// Puts an image on its storage, as that of a VM made by other means.
    fn adopt(&mut self, vmid: u32, key: &str, value: &str) {
        let config = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        self.world.add_vm(NODE, vmid, config, false);
    }
}

fn storage(id: &str, kind: &str) -> Storage {
    let content = if kind == "dir" { "images,iso,import,snippets" } else { "images" };
    Storage {
        id: id.to_owned(),
        kind: kind.to_owned(),
        place: format!("/mnt/{id}"),
        content: content.split(',').map(str::to_owned).collect(),
        total: Some(1 << 50),
        ..Storage::default()
    }
}

impl Server {
    /// Sets a value and then what is shown of it: what is printed must be a fixed point.
    pub(crate) fn set_after(mut self, key: &str, value: &str, shown: &str) -> Result<String, String> {
        self.set(key, value)?;
        self.set(key, shown)
    }
}
