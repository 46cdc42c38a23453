//! Resources about disks and volumes.

use talmox_machine::{Map, Value};
use talmox_proto::definitions::volume_status::Phase;
use talmox_proto::definitions::{Disk, SystemDisk, VolumeStatus};

use super::View;
use super::resource::{Resource, number, texts};
use crate::hardware::{self, Drive};

const MIB: u64 = 1 << 20;
const OWNER: &str = "block.VolumeManagerController";

/// Folders Talos keeps as volumes of their own on a configured node.
const FOLDERS: [&str; 14] = [
    "/var/lib",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/lib/kubelet/seccomp",
    "/var/lib/kubelet/seccomp/profiles",
    "/var/log",
    "/var/log/audit",
    "/var/log/audit/kube",
    "/var/log/containers",
    "/var/log/pods",
    "/var/mnt",
    "/var/run",
    "/var/run/lock",
];
/// Those it needs where the root is read-only: not in a container.
const OVERLAYS: [&str; 4] = ["/etc/cni", "/etc/kubernetes", "/opt", "/usr/libexec/kubernetes"];

impl View<'_> {
    pub(super) fn block_resources(&self, kind: &str) -> Vec<Resource> {
        match kind {
            "Disks.block.talos.dev" => self.disks(),
            "SystemDisks.block.talos.dev" => self.system_disk().into_iter().collect(),
            "VolumeStatuses.block.talos.dev" => self.volumes(),
            "DiscoveredVolumes.block.talos.dev" => self.discovered(),
            "MountStatuses.block.talos.dev" => self.mounts(),
            _ => Vec::new(),
        }
    }

    fn drives(&self) -> &[Drive] {
        if self.run.is_container() {
            return &[];
        }
        self.nodes.machines.get(&self.machine).map_or(&[], |machine| &machine.hardware.drives)
    }

    fn system(&self) -> Option<&hardware::Disk> {
        self.drives().iter().find_map(|drive| match drive {
            Drive::Disk(disk) if Some(disk.id) == self.run.system => Some(disk),
            Drive::Disk(_) | Drive::Cd(_) => None,
        })
    }

    fn disks(&self) -> Vec<Resource> {
        let mut found = Vec::new();
        let mut cds = 0;
        for drive in self.drives() {
            match drive {
                Drive::Disk(disk) => {
                    found.push(self.disk(&disk.name, &disk.serial, disk.size, (false, false)));
                }
                Drive::Cd(_) => {
                    found.push(self.disk(&format!("sr{cds}"), "", 0, (false, true)));
                    cds += 1;
                }
            }
        }
        if !found.is_empty() {
            // The root file system is one too.
            found.push(self.disk("loop0", "", 96 * MIB, (true, false)));
        }
        found
    }

    fn disk(&self, name: &str, serial: &str, size: u64, (readonly, cdrom): (bool, bool)) -> Resource {
        let transport = match name {
            _ if name.starts_with("vd") || name.starts_with("sd") => "virtio",
            _ if name.starts_with("nvme") => "nvme",
            _ if cdrom => "ata",
            _ => "",
        };
        let pretty = pretty(size);
        let proto = Disk {
            size,
            io_size: 512,
            sector_size: 512,
            readonly,
            transport: transport.to_owned(),
            cdrom,
            dev_path: format!("/dev/{name}"),
            serial: serial.to_owned(),
            pretty_size: pretty.clone(),
            model: if name.starts_with('s') { "QEMU HARDDISK".to_owned() } else { String::new() },
            ..Disk::default()
        };
        let map = Map::new()
            .with("dev_path", proto.dev_path.clone())
            .with("size", number(size))
            .with("pretty_size", pretty)
            .with("io_size", 512_u16)
            .with("sector_size", 512_u16)
            .with("readonly", readonly)
            .with("cdrom", cdrom)
            .with("model", proto.model.clone())
            .with("transport", transport);
        let map = if serial.is_empty() { map } else { map.with("serial", serial) };
        Resource::new(("runtime", "Disks.block.talos.dev"), name, "block.DisksController", self.run.started)
            .proto(&proto)
            .yaml(map)
    }

    fn system_disk(&self) -> Option<Resource> {
        let disk = self.system()?;
        let proto = SystemDisk { disk_id: disk.name.clone(), dev_path: format!("/dev/{}", disk.name) };
        let map = Map::new().with("diskID", proto.disk_id.clone()).with("devPath", proto.dev_path.clone());
        let place = ("runtime", "SystemDisks.block.talos.dev");
        Some(
            Resource::new(place, "system-disk", "block.SystemDiskController", self.run.started)
                .proto(&proto)
                .yaml(map),
        )
    }

    /// META and STATE are looked for from the start; the rest comes with a configuration.
    fn volumes(&self) -> Vec<Resource> {
        let ready = self.run.volumes;
        let disk = self.system();
        let size = disk.map_or(0, |disk| disk.size);
        let ephemeral = size.saturating_sub(2300 * MIB);
        let meta = if disk.is_some() { Phase::Ready } else { Phase::Waiting };
        let phase = if ready { Phase::Ready } else { Phase::Waiting };
        let part = |at: u32| disk.map(|disk| format!("/dev/{}{at}", disk.name)).unwrap_or_default();
        let mut found =
            vec![self.volume("META", meta, &part(4), MIB), self.volume("STATE", phase, &part(5), 100 * MIB)];
        if self.run.active.is_some() {
            found.push(self.volume("EPHEMERAL", phase, &part(6), ephemeral));
            if self.run.is_control_plane() {
                found.push(self.volume("ETCD", phase, "", 0));
            }
            found.extend(self.folders().map(|folder| self.volume(folder, phase, "", 0)));
        }
        found
    }

    fn folders(&self) -> impl Iterator<Item = &'static str> {
        let overlays = if self.run.is_container() { &[][..] } else { &OVERLAYS[..] };
        FOLDERS.iter().chain(overlays).copied()
    }

    fn volume(&self, id: &str, phase: Phase, location: &str, size: u64) -> Resource {
        let proto = VolumeStatus {
            phase: phase.into(),
            location: location.to_owned(),
            size,
            ..VolumeStatus::default()
        };
        let words = if phase == Phase::Ready { "ready" } else { "waiting" };
        let kind = if location.is_empty() && size == 0 { "directory" } else { "partition" };
        let mut map = Map::new().with("phase", words).with("type", kind);
        if !location.is_empty() {
            map = map.with("location", location).with("size", number(size)).with("prettySize", pretty(size));
        }
        Resource::new(("runtime", "VolumeStatuses.block.talos.dev"), id, OWNER, self.run.started)
            .label("talos.dev/system-volume", "")
            .proto(&proto)
            .yaml(map)
    }

    fn discovered(&self) -> Vec<Resource> {
        let resource = |name: String| {
            let place = ("runtime", "DiscoveredVolumes.block.talos.dev");
            let map = Map::new().with("dev_path", format!("/dev/{name}"));
            Resource::new(place, name, "block.DiscoveryController", self.run.started).yaml(map)
        };
        let mut names: Vec<String> = self.disks().into_iter().map(|disk| disk.id).collect();
        if let Some(disk) = self.system() {
            // EFI, BIOS, BOOT and META come with the image, STATE and EPHEMERAL with the configuration.
            let last = if self.run.volumes { 6 } else { 4 };
            names.extend((1..=last).map(|part| format!("{}{part}", disk.name)));
        }
        names.into_iter().map(resource).collect()
    }

    fn mounts(&self) -> Vec<Resource> {
        if !self.run.volumes {
            return Vec::new();
        }
        let etcd = self.run.is_control_plane().then_some("ETCD");
        let ids = self.folders().chain(["EPHEMERAL"]).chain(etcd);
        ids.map(|id| {
            let place = ("runtime", "MountStatuses.block.talos.dev");
            let spec = Map::new().with("volumeID", id).with("requesters", texts::<String>([]));
            let map = Map::new().with("spec", spec).with("target", Value::text(id));
            Resource::new(place, id, "block.MountController", self.run.started).yaml(map)
        })
        .collect()
    }
}

/// `10 GB`.
fn pretty(size: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let (mut rest, mut unit) = (size, 0);
    while rest >= 10_000 && unit < 4 || rest >= 1000 && unit < 4 && rest % 1000 < 50 {
        (rest, unit) = (rest / 1000, unit + 1);
    }
    format!("{rest} {}", UNITS[unit])
}
