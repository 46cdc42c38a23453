"""A VM's life through proxmoxer: `life.py build` and `life.py remove`, each meant to be run twice.

Prints one line per step: what it came to, or what the server said against it. Waits for every task.
"""

import os
import sys
import tempfile
import time

from proxmoxer import ProxmoxAPI, ResourceException
from proxmoxer.tools import Tasks

SERVER = {
    "host": os.environ["PVE_HOST"],
    "port": int(os.environ["PVE_PORT"]),
    "verify_ssl": os.environ["PVE_CA"],
}
NODE, OTHER = "pve1", "pve2"
TEMPLATE, FULL, LINKED, IMPORTED = 9000, 2001, 2002, 2003


def by_token():
    return ProxmoxAPI(
        user=os.environ["PVE_USER"],
        token_name=os.environ["PVE_TOKEN_NAME"],
        token_value=os.environ["PVE_TOKEN_SECRET"],
        **SERVER,
    )


def by_password():
    return ProxmoxAPI(user="root@pam", password=os.environ["PVE_ROOT_PASSWORD"], **SERVER)


pve = by_token()


def finished(upid):
    """The end of a task, in the server's words."""
    status = Tasks.blocking_status(pve, upid, timeout=60, polling_interval=0.05)
    assert status is not None, f"{upid} does not end"
    log = Tasks.decode_log(pve.nodes(status["node"]).tasks(upid).log.get())
    assert log.splitlines()[-1].startswith("TASK "), log
    return status["exitstatus"]


def step(what, call):
    try:
        result = call()
    except ResourceException as refusal:
        reasons = refusal.errors or refusal.content.strip() or refusal.status_message
        print(f"{what}: {refusal.status_code} {reasons}")
        return
    if isinstance(result, str) and result.startswith("UPID:"):
        parsed = Tasks.decode_upid(result)
        result = f"{parsed['type']} {finished(result)}"
    print(f"{what}: {'done' if result is None else result}")


def vm(number, node=NODE):
    return pve.nodes(node).qemu(number)


def names(entries, key):
    return " ".join(sorted(str(entry[key]) for entry in entries))


def upload():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "seed.iso")
        with open(path, "wb") as file:
            file.write(b"seed")
        with open(path, "rb") as file:
            return pve.nodes(NODE).storage("local").upload.post(content="iso", filename=file)


def wait_for_names():
    """The list of the cluster learns names within ten seconds of the server's time."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        listed = pve.cluster.resources.get(type="vm")
        if all("name" in entry for entry in listed):
            return " ".join(f"{entry['vmid']}={entry['name']}" for entry in sorted(listed, key=lambda e: e["vmid"]))
        time.sleep(0.05)
    return "names never came"


def build():
    step("version", lambda: pve.version.get()["release"])
    step("version by ticket", lambda: by_password().version.get()["release"])
    step("hosts", lambda: names(pve.nodes.get(), "node"))
    step("storages", lambda: names(pve.nodes(NODE).storage.get(), "storage"))
    step("make a pool", lambda: pve.pools.post(poolid="lab", comment="of the lab"))
    step(
        "download an image",
        lambda: pve.nodes(NODE).storage("local")("download-url").post(
            content="import", filename="talos.qcow2", url=os.environ["IMAGE_URL"]
        ),
    )
    step("upload an ISO", upload)
    step(
        "create",
        lambda: pve.nodes(NODE).qemu.post(
            vmid=TEMPLATE,
            name="base",
            machine="q35",
            bios="ovmf",
            cpu="host",
            cores=2,
            memory=2048,
            scsihw="virtio-scsi-pci",
            efidisk0="local-zfs:1,efitype=4m",
            scsi0="local-zfs:0,import-from=local:import/talos.qcow2,discard=on,ssd=1",
            ide0="local-zfs:cloudinit",
            ipconfig0="ip=10.0.7.21/24,gw=10.0.7.1",
            ide2="local:iso/seed.iso,media=cdrom",
            net0="virtio,bridge=vmbr0",
            boot="order=scsi0;ide2",
            tags="talos;base",
        ),
    )
    step("resize", lambda: vm(TEMPLATE).resize.put(disk="scsi0", size="10G"))
    step("turn into a template", lambda: vm(TEMPLATE).template.post())
    step("full clone", lambda: vm(TEMPLATE).clone.post(newid=FULL, name="worker-1", full=1, pool="lab"))
    step("linked clone", lambda: vm(TEMPLATE).clone.post(newid=LINKED, name="worker-2"))
    step(
        "create elsewhere",
        lambda: pve.nodes(OTHER).qemu.post(vmid=IMPORTED, name="other", memory=512, scsi0="local-zfs:1"),
    )
    step("update", lambda: vm(FULL).config.put(cores=4, memory=4096, description="first line\nsecond line"))
    step("a disk more by a task", lambda: vm(FULL).config.post(scsi1="local-zfs:2,backup=0"))
    step("an address", lambda: vm(FULL).config.put(ipconfig0="ip=10.0.7.31/24,gw=10.0.7.1"))
    step("network data", lambda: "10.0.7.31" in vm(FULL).cloudinit.dump.get(type="network"))
    step("an unknown option", lambda: vm(FULL).config.put(colour="green"))
    step("a wrong value", lambda: vm(FULL).config.put(cores="many"))
    step("shrink", lambda: vm(FULL).resize.put(disk="scsi0", size="1G"))
    step("start", lambda: vm(FULL).status.start.post())
    step("status", lambda: vm(FULL).status.current.get()["status"])
    step("agent", lambda: vm(FULL).agent("network-get-interfaces").get())
    step("delete while it runs", lambda: vm(FULL).delete())
    step("memory while it runs", lambda: vm(FULL).config.put(memory=3072))
    step(
        "what is pending",
        lambda: " ".join(
            f"{entry['key']}={entry['pending']}" for entry in vm(FULL).pending.get() if "pending" in entry
        ),
    )
    step("list", wait_for_names)
    step("content", lambda: names(pve.nodes(NODE).storage("local").content.get(), "volid"))
    step("next free id", lambda: pve.cluster.nextid.get())
    step("an id that is taken", lambda: pve.cluster.nextid.get(vmid=FULL))
    step("a VM that is not there", lambda: vm(4711).config.get())
    step("a path that leads elsewhere", lambda: vm(FULL, OTHER).config.get())


def remove():
    step("stop", lambda: vm(FULL).status.stop.post())
    step("stop again", lambda: vm(FULL).status.stop.post())
    step("remove the template too early", lambda: vm(TEMPLATE).delete())
    for number, node in [(FULL, NODE), (LINKED, NODE), (TEMPLATE, NODE), (IMPORTED, OTHER)]:
        step(f"remove {number}", lambda: vm(number, node).delete(purge=1, **{"destroy-unreferenced-disks": 1}))
    for volume in ["local:iso/seed.iso", "local:import/talos.qcow2"]:
        step(f"remove {volume}", lambda: pve.nodes(NODE).storage("local").content(volume).delete())
    step("remove the pool", lambda: pve.pools.delete(poolid="lab"))
    step("list", wait_for_names)


{"build": build, "remove": remove}[sys.argv[1]]()
