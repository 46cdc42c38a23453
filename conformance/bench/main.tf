# Linked clones of a template that is there, not started: what every tool of the benchmark makes.

terraform {
  required_providers {
    proxmox = {
      source  = "bpg/proxmox"
      version = "0.112.0"
    }
  }
}

provider "proxmox" {}

variable "vms" {
  type = number
}

variable "memory" {
  type = number
}

resource "proxmox_virtual_environment_vm" "vm" {
  count         = var.vms
  node_name     = "pve1"
  vm_id         = 2001 + count.index
  name          = "vm-${2001 + count.index}"
  tags          = ["bench"]
  machine       = "q35"
  bios          = "ovmf"
  scsi_hardware = "virtio-scsi-pci"
  started       = false

  clone {
    vm_id = 9000
    full  = false
  }
  cpu {
    cores = 2
    type  = "host"
  }
  memory {
    dedicated = var.memory
  }
  network_device {
    bridge = "vmbr0"
  }
  operating_system {
    type = "l26"
  }
}
