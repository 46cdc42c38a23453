//! No request may bring the simulator down, whatever it asks.

use super::common::Lab;

/// A counter stirred: the same requests every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

const PATHS: &[&str] = &[
    "/nodes/a/qemu",
    "/nodes/a/qemu/100",
    "/nodes/a/qemu/100/config",
    "/nodes/a/qemu/100/clone",
    "/nodes/a/qemu/100/resize",
    "/nodes/a/qemu/100/template",
    "/nodes/a/qemu/100/move_disk",
    "/nodes/a/qemu/100/status/start",
    "/nodes/a/qemu/100/status/stop",
    "/nodes/a/qemu/100/status/shutdown",
    "/nodes/a/qemu/100/status/current",
    "/nodes/a/qemu/100/pending",
    "/nodes/a/qemu/100/cloudinit/dump",
    "/nodes/a/qemu/100/migrate",
    "/nodes/a/qemu/100/snapshot",
    "/nodes/a/qemu/100/unlink",
    "/nodes/a/qemu/101",
    "/nodes/a/qemu/101/config",
    "/nodes/a/qemu/101/status/start",
    "/nodes/a/storage/local/content",
    "/nodes/a/storage/zfs/content",
    "/nodes/a/storage/local/content/local:100/vm-100-disk-0.raw",
    "/nodes/b/qemu/100/config",
    "/cluster/resources",
    "/cluster/ha/resources",
    "/cluster/ha/rules",
    "/pools",
    "/pools/p",
    "/cluster/options",
    "/nodes/a/tasks",
    "/nodes/a/storage/local/download-url",
    "/access/permissions",
    "/nodes/a/qemu/100/agent/ping",
    "/cluster/mapping/pci",
];
const KEYS: &[&str] = &[
    "vmid",
    "newid",
    "memory",
    "cores",
    "scsi0",
    "scsi1",
    "ide2",
    "net0",
    "net1",
    "efidisk0",
    "tpmstate0",
    "boot",
    "delete",
    "revert",
    "force",
    "disk",
    "size",
    "storage",
    "target",
    "target-vmid",
    "full",
    "format",
    "name",
    "tags",
    "description",
    "ipconfig0",
    "agent",
    "type",
    "snapname",
    "poolid",
    "vms",
    "sid",
    "rule",
    "resources",
    "affinity",
    "nodes",
    "filename",
    "content",
    "url",
    "idlist",
    "digest",
    "timeout",
    "forceStop",
    "purge",
    "map",
    "id",
    "path",
    "template",
    "start",
    "background_delay",
    "cpu",
    "smbios1",
];
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "100",
    "101",
    "2048",
    "-1",
    "abc",
    "scsi0",
    "scsi1",
    "net0",
    "ide2",
    "local",
    "zfs",
    "shared",
    "a",
    "b",
    "zfs:1",
    "local:1",
    "local:0.5,format=qcow2",
    "local:cloudinit",
    "none,media=cdrom",
    "local:0,import-from=local:import/x.qcow2",
    "virtio,bridge=vmbr0",
    "order=scsi0;net0",
    "+1G",
    "99999999999T",
    "ip=dhcp",
    "ip=10.0.0.5/24,gw=10.0.0.1",
    "ip=manual",
    "user",
    "network",
    "s1",
    "p",
    "vm:100",
    "vm:100,vm:101",
    "negative",
    "positive",
    "x.iso",
    "iso",
    "http://h/x.iso",
    "0000",
    "\u{e9}\u{1f600}",
    "a,b;c d",
    "=,=,=",
    "host,flags=+aes",
    "uuid=1",
    "5",
    "node=a,path=0000:01:00.0,id=10de:2204",
    "unused0",
    "/vms/100",
    "raw",
    "qcow2",
    "ü=1",
];

#[test]
fn random_requests_are_answered() {
    let mut lab = Lab::new(&["a", "b"]);
    let mut dice = Dice(7);
    for round in 0..20_000 {
        let method = dice.pick(&["GET", "GET", "POST", "POST", "PUT", "DELETE"]);
        let path = dice.pick(PATHS);
        let count = dice.roll(5);
        let pairs: Vec<(&str, &str)> = (0..count).map(|_| (dice.pick(KEYS), dice.pick(VALUES))).collect();
        let reply = lab.send(method, path, &pairs);
        assert!((200..=599).contains(&reply.status), "{method} {path}");
        if round % 7 == 0 {
            let later = lab.world.clock() + 700;
            lab.world.advance_to(later);
        }
        if round % 50 == 0 {
            lab.send(
                "POST",
                "/nodes/a/qemu",
                &[("vmid", "100"), ("scsi0", "local:1"), ("net0", "virtio,bridge=vmbr0")],
            );
            lab.send("POST", "/nodes/a/qemu", &[("vmid", "101"), ("scsi0", "zfs:1"), ("agent", "1")]);
        }
    }
}
