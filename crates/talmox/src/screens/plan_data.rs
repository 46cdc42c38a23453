//! A plan for programs. Fields are only ever added; whatever else changes gets another `format`.

use serde::Serialize;
use talmox_plan::{
    Applies, ChangeMode, Effect, Intent, Note, Plan, Planned, Refusal, Step, SubChange, Waiting,
};
use talmox_types::{Checksum, ClusterName, ClusterUid, HostName, NodeName, SchematicId, StorageId, VmId};

use super::places::Places;
use super::story::{Sign, Story};
use super::things::packing;
use super::words::change_mode;

/// What `format` says; the schema below describes it.
const FORMAT: &str = "talmox.plan/v1";

/// `talmox schema plan`.
pub(crate) const PLAN_SCHEMA: &str = include_str!("plan.schema.json");

#[derive(Serialize)]
pub(crate) struct PlanData<'p> {
    format: &'static str,
    cluster: &'p ClusterName,
    uid: Option<&'p ClusterUid>,
    /// Whether nothing is to be done.
    empty: bool,
    summary: Summary,
    steps: Vec<StepData<'p>>,
    later: &'p [Intent],
    waiting: &'p [Waiting],
    refusals: &'p [Refusal],
    notes: &'p [Note],
}

#[derive(Serialize)]
struct Summary {
    create: usize,
    /// Those that are upgraded among them.
    change: usize,
    upgrade: usize,
    replace: usize,
    destroy: usize,
    reboots: Vec<String>,
    stops: Vec<String>,
    destroyed_volumes: usize,
    destroyed_bytes: u64,
}

#[derive(Serialize)]
struct StepData<'p> {
    id: &'p str,
    needs: Vec<&'p str>,
    node: Option<&'p NodeName>,
    action: &'static str,
    vmid: Option<VmId>,
    host: Option<&'p HostName>,
    template: Option<TemplateData<'p>>,
    image: Option<ImageData<'p>>,
    schematic: Option<SchematicData<'p>>,
    reason: &'p str,
    effect: Effect,
    /// How a machine takes another configuration, if this step gives it one.
    mode: Option<ChangeMode>,
    changes: Vec<ChangeData<'p>>,
    destroys: Vec<VolumeData>,
    /// Jobs and the like that will not name the VM any more.
    purges: &'p [String],
}

#[derive(Serialize)]
struct TemplateData<'p> {
    name: &'p str,
    /// Where its disk goes, if this step makes it.
    storage: Option<&'p StorageId>,
}

#[derive(Serialize)]
struct ImageData<'p> {
    file: &'p str,
    storage: &'p StorageId,
    /// None for one that goes.
    url: Option<&'p str>,
    checksum: Option<&'p Checksum>,
    compression: Option<&'static str>,
}

#[derive(Serialize)]
struct SchematicData<'p> {
    id: &'p SchematicId,
    factory: &'p str,
}

#[derive(Serialize)]
struct ChangeData<'p> {
    key: &'p str,
    old: Option<&'p str>,
    new: Option<&'p str>,
    applies: Applies,
    field: Option<&'p str>,
    /// Of a value with options, those that differ.
    sub: &'p [SubChange],
    /// The place in the files that wants it.
    place: Option<&'p str>,
}

#[derive(Serialize)]
struct VolumeData {
    slot: String,
    volume: String,
    bytes: Option<u64>,
}

impl<'p> PlanData<'p> {
    pub(crate) fn new(story: &'p Story<'p>, places: &'p Places) -> Self {
        let Plan { cluster, uid, steps, later, waiting, refusals, notes } = story.plan;
        let (destroyed_volumes, bytes) = story.destroyed();
        Self {
            format: FORMAT,
            cluster,
            uid: uid.as_ref(),
            empty: story.plan.is_empty(),
            summary: Summary {
                create: story.count(Sign::Create),
                change: story.count(Sign::Change),
                upgrade: story.upgraded(),
                replace: story.count(Sign::Replace),
                destroy: story.count(Sign::Destroy),
                reboots: story.interrupted(Effect::Reboot),
                stops: story.interrupted(Effect::Stop),
                destroyed_volumes,
                destroyed_bytes: bytes.bytes(),
            },
            steps: steps.iter().map(|planned| step(planned, places)).collect(),
            later,
            waiting,
            refusals,
            notes,
        }
    }
}

fn step<'p>(planned: &'p Planned, places: &'p Places) -> StepData<'p> {
    let Planned { id, needs, node, step, reason, effect, changes, destroys } = planned;
    let place = |field: Option<&str>| places.get(node.as_ref()?, field?);
    StepData {
        id: id.as_str(),
        needs: needs.iter().map(talmox_plan::StepId::as_str).collect(),
        node: node.as_ref(),
        action: step.word(),
        vmid: vmid(step),
        host: host(step),
        template: template(step),
        image: image(step),
        schematic: schematic(step),
        reason,
        effect: *effect,
        mode: change_mode(step),
        changes: changes
            .iter()
            .map(|change| ChangeData {
                key: &change.key,
                old: change.old.as_deref(),
                new: change.new.as_deref(),
                applies: change.applies,
                field: change.field.as_deref(),
                sub: &change.sub,
                place: place(change.field.as_deref()),
            })
            .collect(),
        destroys: destroys
            .iter()
            .map(|volume| VolumeData {
                slot: volume.slot.to_string(),
                volume: volume.volume.to_string(),
                bytes: volume.size.map(talmox_pve::property::DiskSize::bytes),
            })
            .collect(),
        purges: if let Step::RemoveVm { purges, .. } = step { purges } else { &[] },
    }
}

/// The VM or template a step is about.
fn vmid(step: &Step) -> Option<VmId> {
    if let Step::BuildTemplate { mark, .. } = step {
        return Some(mark.vmid);
    }
    let made = step.makes().map(|mark| mark.vmid);
    let there = step.vm().map(talmox_plan::Expected::vmid);
    made.or(there).or_else(|| step.template().map(talmox_plan::ExpectedTemplate::vmid))
}

/// The host a step works on.
fn host(step: &Step) -> Option<&HostName> {
    if let Step::CloneVm { host, .. }
    | Step::CreateVm { host, .. }
    | Step::FetchImage { host, .. }
    | Step::BuildTemplate { host, .. }
    | Step::RemoveImage { host, .. } = step
    {
        return Some(host);
    }
    step.vm().map(|vm| &vm.host).or_else(|| step.template().map(|template| &template.host))
}

fn template(step: &Step) -> Option<TemplateData<'_>> {
    if let Step::BuildTemplate { name, storage, .. } = step {
        return Some(TemplateData { name, storage: Some(storage) });
    }
    step.template().map(|template| TemplateData { name: &template.name, storage: None })
}

fn image(step: &Step) -> Option<ImageData<'_>> {
    if let Step::FetchImage { storage, image, .. } = step {
        return Some(ImageData {
            file: &image.file,
            storage,
            url: Some(&image.url),
            checksum: image.checksum.as_ref(),
            compression: image.compression.map(packing),
        });
    }
    let Step::RemoveImage { volume, .. } = step else { return None };
    let (file, storage) = (volume.file_name(), volume.storage());
    Some(ImageData { file, storage, url: None, checksum: None, compression: None })
}

fn schematic(step: &Step) -> Option<SchematicData<'_>> {
    let Step::RegisterSchematic { schematic } = step else { return None };
    Some(SchematicData { id: &schematic.id, factory: &schematic.factory })
}
