//! The steps. Each looks first and writes nothing if its work is done already, acts, and is done when the result is seen.

pub(crate) mod bootstrap;
mod build_template;
mod clone;
mod configure;
mod configure_node;
mod create_vm;
mod disks;
mod doubles;
mod ha;
mod hand_over;
mod health;
mod image;
mod making;
mod meaning;
mod moving;
mod node;
mod pool;
pub(crate) mod power;
mod publish;
mod record_configured;
mod remove;
mod schematic;
mod seed;
pub(crate) mod shelf;
mod template;
mod unpack;

use bootstrap::Begin;
use std::time::Duration;

use talmox_plan::Step;
use talmox_pve::client::Upid;

use crate::StepError;
use crate::work::{Result, Work};
use build_template::Build;
use node::NodeVm;

/// How long a task may take that changes a configuration or a small volume.
const CHANGE_LIMIT: Duration = Duration::from_mins(10);
/// How long a result may take to be seen once Proxmox says that it is done. HA acts up to a minute later.
const SEEN_LIMIT: Duration = Duration::from_mins(3);

/// Runs a step once.
pub(crate) async fn run(work: &Work<'_>) -> Result {
    match &work.planned.step {
        Step::CreatePool { pool, comment } => pool::create(work, pool, comment).await,
        Step::DeletePool { pool, comment } => pool::delete(work, pool, comment).await,
        Step::JoinPool { vm, pool } => pool::join(work, vm, pool).await,
        Step::CloneVm { host, mark, template, clone, pool } => {
            let recipe = clone::Copy { host, template, clone, pool: pool.as_ref() };
            making::run(work, NodeVm::new(mark.clone(), &recipe)).await
        }
        Step::CreateVm { host, mark, set, pool } => {
            let recipe = create_vm::New { host, set, pool: pool.as_ref() };
            making::run(work, NodeVm::new(mark.clone(), &recipe)).await
        }
        Step::RegisterSchematic { schematic } => schematic::register(work, schematic).await,
        Step::FetchImage { host, storage, content, image } => {
            image::fetch(work, &image::Order { host, storage, content: *content, image }).await
        }
        Step::RemoveImage { host, volume } => image::remove(work, host, volume).await,
        Step::BuildTemplate { host, mark, name, image, storage, set, notes, pool } => {
            let (mark, notes, pool) = (mark.clone(), notes.as_deref(), pool.as_ref());
            let shared = work.reserved.is_shared(storage);
            making::run(work, Build { host, mark, name, image, storage, shared, set, notes, pool }).await
        }
        Step::ConvertTemplate { template } => template::convert(work, template).await,
        Step::ConfigureTemplate { template, set, delete, mark } => {
            template::configure(work, template, &template::Change { set, delete, mark }).await
        }
        Step::RemoveTemplate { template } => template::remove(work, template).await,
        Step::ConfigureVm { vm, set, delete, drives, witness, digest } => {
            let order = configure::Order { set, delete, drives, witness: *witness };
            configure::run(work, vm, &order, digest.as_deref()).await
        }
        Step::AddDisk { vm, slot, storage, size, value } => {
            disks::add(work, vm, *slot, (storage, *size), value).await
        }
        Step::GrowDisk { vm, slot, to } => disks::grow(work, vm, *slot, *to).await,
        Step::StartVm { vm } => power::start(work, vm).await,
        Step::StopVm { vm, timeout } => power::stop(work, vm, *timeout).await,
        Step::RebootVm { vm, timeout } => power::reboot(work, vm, *timeout).await,
        Step::MoveVm { vm, to, local_disks } => moving::run(work, vm, to, *local_disks).await,
        Step::AddHa { vm, started, group, comment } => {
            ha::add(work, vm, *started, group.as_deref(), comment).await
        }
        Step::SetHaGroup { group, hosts, comment } => ha::set_group(work, group, hosts, comment).await,
        Step::SetHaRule { rule } => ha::set_rule(work, rule).await,
        Step::DeleteHaRule { rule } => ha::delete_rule(work, rule).await,
        Step::RemoveVm { vm, detach, .. } => remove::run(work, vm, detach).await,
        Step::AttachSeed { vm, address, storage } => seed::attach(work, vm, *address, storage).await,
        Step::EjectSeed { vm, volume, address } => seed::eject(work, vm, volume, *address).await,
        Step::RemoveSeed { host, volume } => seed::remove(work, host, volume).await,
        Step::PublishConfig { vm, address } => publish::publish(work, vm, *address).await,
        Step::WithdrawConfig { vm, address } => publish::withdraw(work, vm, *address).await,
        Step::ConfigureNode { vm, address, reconfigure, proof } => {
            Box::pin(configure_node::run(work, vm, *address, (reconfigure.as_ref(), *proof))).await
        }
        Step::Bootstrap { vm, address, control_planes } => {
            Box::pin(bootstrap::run(work, vm, *address, control_planes, Begin::Nothing)).await
        }
        Step::RecordBootstrap { vm } => bootstrap::record(work, vm).await,
        Step::RecordConfigured { vm } => record_configured::run(work, vm).await,
        Step::ApplyManifests { .. } => Box::pin(hand_over::manifests(work)).await,
        Step::PostBootstrap { command } => Box::pin(hand_over::post_bootstrap(work, command)).await,
        Step::AwaitHealth => Box::pin(health::wait(work)).await,
        Step::Upkeep(upkeep) => Box::pin(crate::upkeep::run(work, upkeep)).await,
    }
}

/// Follows a task, if Proxmox did not do it at once.
async fn follow(work: &Work<'_>, task: Option<Upid>, doing: &str, limit: Duration) -> Result<()> {
    let Some(upid) = task else { return Ok(()) };
    work.follow(&upid, doing, limit).await.map_err(StepError::task(doing))
}
