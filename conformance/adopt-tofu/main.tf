# A cluster's VMs as people make them with OpenTofu: three control planes with their addresses on a cloud-init drive, and a worker
# that gets its own by DHCP and has a disk for data. Talos is given to them afterwards.

terraform {
  required_providers {
    proxmox = {
      source  = "bpg/proxmox"
      version = "0.112.0"
    }
  }
}

provider "proxmox" {}

variable "image_url" {
  type = string
}

variable "worker_mac" {
  type = string
}

# Name of each control plane, and its address.
variable "control_planes" {
  type = map(string)
}

variable "gateway" {
  type = string
}

resource "proxmox_virtual_environment_pool" "k8s" {
  pool_id = "k8s"
  comment = "Managed by OpenTofu"
}

resource "proxmox_virtual_environment_download_file" "talos" {
  node_name    = "pve1"
  datastore_id = "local"
  content_type = "import"
  file_name    = "talos-nocloud-amd64.qcow2"
  url          = var.image_url
  overwrite    = false
}

resource "proxmox_virtual_environment_vm" "control_plane" {
  for_each = var.control_planes

  node_name     = "pve1"
  name          = each.key
  description   = "Talos control plane\n\nManaged by OpenTofu"
  tags          = ["control-plane", "k8s", "tofu"]
  pool_id       = proxmox_virtual_environment_pool.k8s.pool_id
  machine       = "q35"
  bios          = "ovmf"
  scsi_hardware = "virtio-scsi-single"
  boot_order    = ["scsi0"]
  on_boot       = true

  # The provider waits for an address that is not of the loopback network, and these are.
  agent {
    enabled = true
    timeout = "3s"
    trim    = true
  }
  cpu {
    cores = 2
    type  = "x86-64-v2-AES"
  }
  memory {
    dedicated = 4096
    floating  = 4096
  }
  efi_disk {
    datastore_id = "local-zfs"
    type         = "4m"
    file_format  = "raw"
  }
  disk {
    interface    = "scsi0"
    datastore_id = "local-zfs"
    import_from  = proxmox_virtual_environment_download_file.talos.id
    file_format  = "raw"
    size         = 20
    cache        = "writethrough"
    discard      = "on"
    iothread     = true
    ssd          = true
  }
  initialization {
    datastore_id = "local-zfs"
    ip_config {
      ipv4 {
        address = "${each.value}/24"
        gateway = var.gateway
      }
    }
    dns {
      servers = ["9.9.9.9"]
    }
  }
  network_device {
    bridge = "vmbr0"
  }
  operating_system {
    type = "l26"
  }
  serial_device {}
  stop_on_destroy = true
}

resource "proxmox_virtual_environment_vm" "worker" {
  node_name     = "pve1"
  vm_id         = 5121
  name          = "talos-worker-01"
  description   = "Talos worker"
  tags          = ["k8s", "tofu", "worker"]
  pool_id       = proxmox_virtual_environment_pool.k8s.pool_id
  scsi_hardware = "virtio-scsi-single"
  boot_order    = ["scsi0"]
  on_boot       = true

  agent {
    enabled = true
    timeout = "3s"
  }
  cpu {
    cores = 4
    type  = "host"
  }
  memory {
    dedicated = 8192
  }
  disk {
    interface    = "scsi0"
    datastore_id = "local-zfs"
    import_from  = proxmox_virtual_environment_download_file.talos.id
    file_format  = "raw"
    size         = 20
    discard      = "on"
    iothread     = true
  }
  disk {
    interface    = "scsi1"
    datastore_id = "local-zfs"
    file_format  = "raw"
    size         = 50
    backup       = false
    discard      = "on"
    iothread     = true
  }
  network_device {
    bridge      = "vmbr0"
    mac_address = var.worker_mac
  }
  operating_system {
    type = "l26"
  }
  startup {
    order    = 5
    up_delay = 20
  }
  stop_on_destroy = true
}
