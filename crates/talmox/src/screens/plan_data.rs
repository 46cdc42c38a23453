//! A plan for programs. Fields are only ever added; whatever else changes gets another `format`.

use serde::Serialize;
use talmox_plan::{Applies, Effect, Intent, Note, Plan, Planned, Refusal, Step, SubChange, Waiting};
use talmox_types::{ClusterName, ClusterUid, HostName, NodeName, VmId};

use super::places::Places;
use super::story::{Sign, Story};

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
    change: usize,
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
    reason: &'p str,
    effect: Effect,
    changes: Vec<ChangeData<'p>>,
    destroys: Vec<VolumeData>,
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
    let at = if let Step::CloneVm { host, mark, .. } = step {
        Some((mark.vmid, host))
    } else {
        step.vm().map(|vm| (vm.vmid(), &vm.host))
    };
    let place = |field: Option<&str>| places.get(node.as_ref()?, field?);
    StepData {
        id: id.as_str(),
        needs: needs.iter().map(talmox_plan::StepId::as_str).collect(),
        node: node.as_ref(),
        action: step.word(),
        vmid: at.map(|(vmid, _)| vmid),
        host: at.map(|(_, host)| host),
        reason,
        effect: *effect,
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
    }
}
