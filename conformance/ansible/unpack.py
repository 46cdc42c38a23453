"""Takes the collection community.proxmox, and nothing else, out of the package `ansible`."""

import json
import sys
import zipfile

wheel, target, version = sys.argv[1:]
prefix = "ansible_collections/community/proxmox/"

with zipfile.ZipFile(wheel) as archive:
    found = json.loads(archive.read(prefix + "MANIFEST.json"))["collection_info"]["version"]
    if found != version:
        sys.exit(f"{wheel} has community.proxmox {found} instead of {version}")
    for name in archive.namelist():
        if name.startswith(prefix):
            archive.extract(name, target)
