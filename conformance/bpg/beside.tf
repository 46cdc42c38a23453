# What people keep beside their VMs: files, rights, watched VMs, devices.

resource "proxmox_virtual_environment_file" "seed" {
  node_name    = "pve1"
  datastore_id = "local"
  content_type = "iso"

  source_file {
    path = "${path.module}/seed.iso"
  }
}

resource "proxmox_virtual_environment_role" "operator" {
  role_id    = "Operator"
  privileges = local.changed ? ["VM.Audit", "VM.Console", "VM.PowerMgmt"] : ["VM.Audit", "VM.PowerMgmt"]
}

resource "proxmox_user_token" "pipeline" {
  user_id               = "talmox@pve"
  token_name            = "pipeline"
  comment               = local.changed ? "of the new pipeline" : "of the pipeline"
  privileges_separation = true
}

resource "proxmox_acl" "pipeline" {
  path      = "/pool/${proxmox_virtual_environment_pool.lab.pool_id}"
  role_id   = proxmox_virtual_environment_role.operator.role_id
  token_id  = proxmox_user_token.pipeline.id
  propagate = true
}

resource "proxmox_haresource" "linked" {
  resource_id = "vm:${proxmox_virtual_environment_vm.linked.vm_id}"
  state       = "stopped"
  comment     = local.changed ? "watched closely" : "watched"
}

resource "proxmox_harule" "linked" {
  rule      = "linked-stays"
  type      = "node-affinity"
  resources = [proxmox_haresource.linked.resource_id]
  nodes     = { pve1 = local.changed ? 3 : 2 }
}

resource "proxmox_hardware_mapping_pci" "gpu" {
  name    = "gpu"
  comment = local.changed ? "the other card" : "the card"

  map = [{
    id           = "10de:2204"
    iommu_group  = 4
    node         = "pve1"
    path         = "0000:01:00.0"
    subsystem_id = "10de:1467"
  }]
}

data "proxmox_virtual_environment_roles" "all" {}

data "proxmox_virtual_environment_users" "all" {}

data "proxmox_virtual_environment_pools" "all" {
  depends_on = [proxmox_virtual_environment_pool.lab]
}

data "proxmox_virtual_environment_node" "first" {
  node_name = "pve1"
}

data "proxmox_virtual_environment_dns" "first" {
  node_name = "pve1"
}

data "proxmox_haresources" "all" {
  depends_on = [proxmox_haresource.linked]
}

data "proxmox_hardware_pci" "first" {
  node_name = "pve1"
}

data "proxmox_files" "first" {
  node_name    = "pve1"
  datastore_id = "local"
  depends_on   = [proxmox_virtual_environment_file.seed]
}

data "proxmox_virtual_environment_vm" "worker" {
  node_name = "pve1"
  vm_id     = proxmox_virtual_environment_vm.worker.vm_id
}

output "pools" {
  value = data.proxmox_virtual_environment_pools.all.pool_ids
}

output "watched" {
  value = data.proxmox_haresources.all.resource_ids
}
