# A template from a downloaded image, clones of it, and what people keep beside them. `stage` chooses between the
# configuration as it was first, and as somebody changed it.

terraform {
  required_providers {
    proxmox = {
      source  = "bpg/proxmox"
      version = "0.112.0"
    }
  }
}

provider "proxmox" {}

variable "stage" {
  type    = string
  default = "first"
}

variable "image_url" {
  type = string
}

variable "iso_url" {
  type = string
}

locals {
  changed = var.stage == "second"
}

resource "proxmox_virtual_environment_pool" "lab" {
  pool_id = "lab"
  comment = local.changed ? "of the laboratory" : "of the lab"
}

resource "proxmox_virtual_environment_download_file" "image" {
  node_name    = "pve1"
  datastore_id = "local"
  content_type = "import"
  file_name    = "talos.qcow2"
  url          = var.image_url
}

resource "proxmox_virtual_environment_download_file" "iso" {
  node_name    = "pve2"
  datastore_id = "local"
  content_type = "iso"
  url          = var.iso_url
}

resource "proxmox_virtual_environment_vm" "template" {
  node_name     = "pve1"
  vm_id         = 9000
  name          = "base"
  description   = "what the others are made of"
  tags          = ["base", "talos"]
  template      = true
  started       = false
  machine       = "q35"
  bios          = "ovmf"
  scsi_hardware = "virtio-scsi-pci"

  cpu {
    cores = 2
    type  = "host"
  }
  memory {
    dedicated = 1024
  }
  efi_disk {
    datastore_id = "local-zfs"
    type         = "4m"
    file_format  = "raw"
  }
  disk {
    interface    = "scsi0"
    datastore_id = "local-zfs"
    import_from  = proxmox_virtual_environment_download_file.image.id
    file_format  = "raw"
    size         = 4
    discard      = "on"
    ssd          = true
  }
  network_device {
    bridge = "vmbr0"
  }
  operating_system {
    type = "l26"
  }
}

# A full clone with more of everything.
resource "proxmox_virtual_environment_vm" "worker" {
  node_name     = "pve1"
  vm_id         = 2001
  name          = "worker-1"
  description   = local.changed ? "a worker, changed" : "a worker"
  tags          = local.changed ? ["lab", "larger", "talos"] : ["lab", "talos"]
  pool_id       = proxmox_virtual_environment_pool.lab.pool_id
  machine       = "q35"
  bios          = "ovmf"
  scsi_hardware = "virtio-scsi-pci"
  on_boot       = true

  agent {
    enabled = true
    timeout = "30s"
  }
  clone {
    vm_id = proxmox_virtual_environment_vm.template.vm_id
    full  = true
  }
  cpu {
    cores = local.changed ? 8 : 4
    type  = "host"
  }
  memory {
    dedicated = local.changed ? 4096 : 2048
  }
  disk {
    interface    = "scsi0"
    datastore_id = "local-zfs"
    file_format  = "raw"
    size         = local.changed ? 12 : 8
    discard      = "on"
    ssd          = true
  }
  initialization {
    datastore_id = "local-zfs"
    interface    = "ide0"
    ip_config {
      ipv4 {
        address = local.changed ? "10.0.7.31/24" : "10.0.7.21/24"
        gateway = "10.0.7.1"
      }
    }
    dns {
      servers = ["10.0.7.1"]
    }
  }
  network_device {
    bridge  = "vmbr0"
    vlan_id = 7
  }
  operating_system {
    type = "l26"
  }
  startup {
    order    = 4
    up_delay = 15
  }
  serial_device {}
  stop_on_destroy = true
}

# A linked clone.
resource "proxmox_virtual_environment_vm" "linked" {
  node_name     = "pve1"
  vm_id         = 2003
  name          = "worker-3"
  machine       = "q35"
  bios          = "ovmf"
  scsi_hardware = "virtio-scsi-pci"
  started       = false

  clone {
    vm_id = proxmox_virtual_environment_vm.template.vm_id
    full  = false
  }
  cpu {
    cores = 2
    type  = "host"
  }
  memory {
    dedicated = 1024
  }
  network_device {
    bridge = "vmbr0"
  }
  operating_system {
    type = "l26"
  }
}

# No clone, on the other host, with a CD; runs at first and is stopped later.
resource "proxmox_virtual_environment_vm" "plain" {
  node_name     = "pve2"
  vm_id         = 2002
  name          = "plain"
  started       = !local.changed
  scsi_hardware = "virtio-scsi-pci"

  cpu {
    cores = 1
  }
  memory {
    dedicated = 512
  }
  cdrom {
    file_id   = proxmox_virtual_environment_download_file.iso.id
    interface = "ide2"
  }
  disk {
    interface    = "scsi0"
    datastore_id = "local-zfs"
    file_format  = "raw"
    size         = 2
  }
  network_device {
    bridge      = "vmbr0"
    mac_address = "BC:24:11:00:00:02"
  }
  stop_on_destroy = true
}

data "proxmox_virtual_environment_version" "it" {}

data "proxmox_virtual_environment_nodes" "all" {}

data "proxmox_virtual_environment_datastores" "all" {
  node_name = "pve1"
}

data "proxmox_virtual_environment_vms" "all" {
  depends_on = [
    proxmox_virtual_environment_vm.linked,
    proxmox_virtual_environment_vm.plain,
    proxmox_virtual_environment_vm.worker,
  ]
}

output "release" {
  value = data.proxmox_virtual_environment_version.it.release
}

output "hosts" {
  value = data.proxmox_virtual_environment_nodes.all.names
}

output "ids" {
  value = sort([for vm in data.proxmox_virtual_environment_vms.all.vms : tostring(vm.vm_id)])
}
