//! A plan on a terminal.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use talmox_plan::{Applies, Change, CloneKind, Effect, NoteKind, Plan, Planned, Step, Upkeep, Volume};
use talmox_types::NodeName;
use talmox_types::desired::{Desired, Role};

use super::places::Places;
use super::rolling::{Roll, quorum_kept, rest};
use super::story::{Act, Machine, Sign, Story};
use super::text::{duration, listed, padded, plural, safe, short_uid, size, width};
use super::things::details;
use super::waiting::waiting;
use super::words::{self, change_mode, verb_of};
use crate::printer::{BOLD, DIM, GREEN};

pub(super) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(super) const RED: Style = AnsiColor::Red.on_default();
const MAGENTA: Style = AnsiColor::Magenta.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();

/// Whether what is not from us and left alone is told too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    Normal,
    Everything,
}

/// The whole plan: what is, what will happen, and the sum of it.
pub(crate) fn plan_text(story: &Story<'_>, places: &Places, verbosity: Verbosity) -> String {
    // Who wants to know everything gets every step of every node.
    let rolls = match verbosity {
        Verbosity::Normal => Roll::all(story),
        Verbosity::Everything => Vec::new(),
    };
    let acts = acts(story, &rolls, places);
    let mut parts = vec![heading(story), templates(story) + &acts, remarks(story, verbosity)];
    parts.push(later(story));
    parts.push(waiting(story.plan));
    parts.push(refusals(story.plan));
    parts.push(sum(story));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// When there is nothing to do.
pub(crate) fn nothing_to_do(
    plan: &Plan,
    desired: &Desired,
    verbosity: Verbosity,
    requests: u64,
    elapsed: Duration,
) -> String {
    let story = Story::new(plan, desired);
    let mut parts = vec![remarks(&story, verbosity), waiting(plan)];
    parts.retain(|part| !part.is_empty());
    let cost = format!(
        "({}, {}, {})",
        plural(desired.nodes.len(), "VM"),
        plural(usize::try_from(requests).unwrap_or(usize::MAX), "request"),
        duration(elapsed)
    );
    parts.push(if plan.waiting.is_empty() {
        format!("{GREEN}No changes.{GREEN:#} {} matches its description {cost}.\n", plan.cluster)
    } else {
        format!("{YELLOW}Nothing can be done now.{YELLOW:#} {} waits {cost}.\n", plan.cluster)
    });
    parts.join("\n")
}

/// When templates were asked for and there is nothing to do.
pub(crate) fn no_template_to_do(
    plan: &Plan,
    desired: &Desired,
    verbosity: Verbosity,
    (result, cost): (&str, &str),
) -> String {
    let story = Story::new(plan, desired);
    let mut parts = vec![remarks(&story, verbosity), waiting(plan)];
    parts.retain(|part| !part.is_empty());
    parts.push(if plan.waiting.is_empty() {
        format!("{GREEN}No changes.{GREEN:#} {result} ({cost}).\n")
    } else {
        format!("{YELLOW}Nothing can be done now.{YELLOW:#} Something is under way ({cost}).\n")
    });
    parts.join("\n")
}

fn heading(story: &Story<'_>) -> String {
    let Plan { cluster, uid, .. } = story.plan;
    let uid = uid.as_ref().map_or_else(|| "no uid yet".to_owned(), |uid| format!("uid {}", short_uid(uid)));
    if !story.acts.is_empty() && story.is_from_nothing() {
        let count = |role| story.desired.nodes.iter().filter(|node| node.role == role).count();
        return format!(
            "talmox will build cluster {BOLD}{cluster}{BOLD:#} ({uid}): {}, {}\n",
            plural(count(Role::Controller), "control plane"),
            plural(count(Role::Worker), "worker")
        );
    }
    let machines = story.acts.iter().any(|act| act.node().is_some() || act.kind() == "cluster");
    match (story.desired.nodes.is_empty(), machines || story.acts.is_empty()) {
        (true, _) => format!("{BOLD}templates{BOLD:#}\n"),
        (false, true) => format!("cluster {BOLD}{cluster}{BOLD:#} ({uid})\n"),
        (false, false) => format!("templates of cluster {BOLD}{cluster}{BOLD:#} ({uid})\n"),
    }
}

/// What the new VMs are cloned from, once for each template that is there.
fn templates(story: &Story<'_>) -> String {
    let mut used: BTreeMap<(u32, String, String, &str), usize> = BTreeMap::new();
    for planned in &story.plan.steps {
        let Step::CloneVm { template, clone, .. } = &planned.step else { continue };
        let made =
            |act: &Act<'_>| act.kind() == "template" && act.at.is_some_and(|(vmid, _)| vmid == template.vmid);
        if story.acts.iter().any(made) {
            continue;
        }
        let how = match clone {
            CloneKind::Linked => "linked clone",
            CloneKind::Full { .. } => "full clone",
        };
        let key = (template.vmid.get(), safe(&template.name), template.host.to_string(), how);
        *used.entry(key).or_default() += 1;
    }
    used.into_iter()
        .map(|((vmid, name, host, how), count)| {
            format!("{DIM}      template  {name}  {vmid} on {host}, {}{DIM:#}\n", plural(count, how))
        })
        .collect()
}

fn acts<'p>(story: &Story<'p>, rolls: &[Roll<'p>], places: &Places) -> String {
    let told = story.acts.iter().filter(|act| !act.is_last_wait());
    let acts: Vec<Act<'p>> = told.filter_map(|act| rest(act, rolls)).collect();
    let numbers: Vec<String> = rolls.iter().map(Roll::name).collect();
    let machines = |act: &&Act<'_>| act.node().is_some() || act.kind() == "cluster";
    let names = acts.iter().filter(machines).map(Act::name);
    let machines_wide = width(names.chain(numbers.iter().map(String::as_str)));
    let things_wide = width(acts.iter().filter(|act| is_thing(act)).map(Act::name));
    let machines: Vec<Option<Machine>> = acts.iter().map(|act| story.machine(act)).collect();
    let columns = Columns::of(machines.iter().flatten());
    let rolled = rolls.iter().map(|roll| {
        let lines = roll.lines(story).join(&format!("\n{}", " ".repeat(18 + machines_wide)));
        format!(
            "  {YELLOW}{:<3}{YELLOW:#} {:<9} {}  {lines}\n",
            "↑",
            "talos",
            padded(&roll.name(), machines_wide)
        )
    });
    let rows = acts.iter().zip(&machines).map(|(act, machine)| {
        let style = style(act.sign);
        let names = if is_thing(act) { things_wide } else { machines_wide };
        let start = format!(
            "  {style}{:<3}{style:#} {:<9} {}",
            act.sign.symbol(),
            act.kind(),
            padded(&safe(act.name()), names)
        );
        // Addresses are long: they begin below the name.
        let indent = " ".repeat(if is_thing(act) { 16 } else { 18 + names });
        let lines = match (act.sign, machine) {
            (Sign::Create, Some(machine)) => {
                let row = columns.row(machine, act) + &placement(story, act);
                std::iter::once(row).chain(former(story, act)).collect()
            }
            (Sign::Change, _) if is_thing(act) => {
                details(act).into_iter().chain(changed(act, places, false)).collect()
            }
            (Sign::Change, _) => changed(act, places, story.is_carried(act)),
            (Sign::Create | Sign::Replace | Sign::Destroy, _) if is_thing(act) => thing(act),
            (Sign::Create, None) if act.kind() == "cluster" => deeds(act).collect(),
            (Sign::Replace, Some(machine)) => {
                let old = act
                    .replaced()
                    .map_or_else(String::new, |(vmid, host)| format!(" in place of {vmid} on {host}"));
                let mut lines = vec![columns.row(machine, act)];
                lines.extend(departure(act));
                lines.push(format!("built anew{old}, {}", disks(act)));
                lines.extend(lost(act));
                lines
            }
            (Sign::Create | Sign::Replace | Sign::Destroy, _) => {
                let mut lines =
                    vec![act.at.map_or_else(String::new, |(vmid, host)| format!("{vmid} on {host}"))];
                lines.extend(departure(act));
                lines.extend(lost(act));
                lines
            }
        };
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        format!("{start}  {}", lines.join(&format!("\n{indent}"))).trim_end().to_owned() + "\n"
    });
    rows.chain(rolled).collect()
}

/// Schematics, images and templates: things that have names of their own width.
fn is_thing(act: &Act<'_>) -> bool {
    matches!(act.kind(), "schematic" | "image" | "template")
}

fn thing(act: &Act<'_>) -> Vec<String> {
    let told = details(act).into_iter().enumerate();
    let mut lines: Vec<String> =
        told.map(|(index, line)| if index == 0 { line } else { format!("{DIM}{line}{DIM:#}") }).collect();
    lines.extend(lost(act));
    lines
}

fn style(sign: Sign) -> Style {
    match sign {
        Sign::Create => GREEN,
        Sign::Change => YELLOW,
        Sign::Replace => MAGENTA,
        Sign::Destroy => RED,
    }
}

/// Widths of what is told of new machines.
struct Columns {
    cpu: usize,
    memory: usize,
    disk: usize,
    address: usize,
}

impl Columns {
    fn of<'m>(machines: impl Iterator<Item = &'m Machine> + Clone) -> Self {
        Self {
            cpu: width(machines.clone().map(|machine| machine.cpu.as_str())),
            memory: width(machines.clone().map(|machine| machine.memory.as_str())),
            disk: width(machines.clone().map(|machine| machine.disk.as_str())),
            address: width(machines.map(|machine| machine.address.as_str())),
        }
    }

    fn row(&self, machine: &Machine, act: &Act<'_>) -> String {
        let Self { cpu, memory, disk, address } = *self;
        let right = |text: &str, width| format!("{text:>width$}");
        let at = act.at.map_or_else(String::new, |(vmid, host)| format!("{vmid} on {host}"));
        format!(
            "{}  {}  {}  {}  {at}",
            right(&machine.cpu, cpu),
            right(&machine.memory, memory),
            right(&machine.disk, disk),
            padded(&machine.address, address)
        )
    }
}

/// Where a machine goes, if that deserves a word.
fn placement(story: &Story<'_>, act: &Act<'_>) -> String {
    let notes = story.plan.notes.iter().filter(|note| note.kind == NoteKind::Placement);
    let own = notes.filter(|note| note.node.as_ref() == act.node());
    own.map(|note| format!("   {YELLOW}!{YELLOW:#} {}", safe(&note.text))).collect()
}

fn changed(act: &Act<'_>, places: &Places, carried: bool) -> Vec<String> {
    let told: Vec<(String, &Change)> = act.changes().map(|change| (difference(change), change)).collect();
    let wide = width(told.iter().map(|(text, _)| text.as_str())).min(56);
    let mut lines = Vec::new();
    for (text, change) in told {
        let effect = match change.applies {
            Applies::Now | Applies::OnTrial => String::new(),
            Applies::AfterReboot | Applies::Written if carried => {
                format!("{YELLOW}with the restart of the upgrade{YELLOW:#}")
            }
            Applies::AfterReboot | Applies::Written if act.reboots() => {
                format!("{YELLOW}restarts it{YELLOW:#}")
            }
            Applies::AfterReboot | Applies::Written => format!("{YELLOW}needs a reboot{YELLOW:#}"),
        };
        lines.push(format!("{}   {effect}", padded(&text, wide)).trim_end().to_owned());
        let place = act.node().zip(change.field.as_deref()).and_then(|(node, field)| places.get(node, field));
        lines.extend(place.map(|place| format!("{DIM}{place}{DIM:#}")));
    }
    lines.extend(deeds(act));
    if lines.is_empty() {
        let later = act.later.chunk_by(|one, other| one.reason == other.reason).map(|same| {
            let verbs: Vec<&str> = same.iter().map(|intent| without_object(verb_of(&intent.step))).collect();
            format!(
                "{}: {}",
                verbs.join(" · "),
                same.first().map(|one| safe(&one.reason)).unwrap_or_default()
            )
        });
        lines.extend(later);
    }
    lines.extend(lost(act));
    lines
}

/// `upgrade Talos on` is `upgrade Talos` where it is clear on what.
fn without_object(verb: &str) -> &str {
    let prepositions = [" onto", " into", " out of", " on", " of", " to"];
    prepositions.iter().find_map(|word| verb.strip_suffix(word)).unwrap_or(verb)
}

/// What is done without changing a value, and how a configuration is changed. A reason that several have one after the other is told with the last.
fn deeds<'a>(act: &'a Act<'_>) -> impl Iterator<Item = String> + 'a {
    let is_told = |planned: &&Planned| planned.changes.is_empty() || change_mode(&planned.step).is_some();
    let steps: Vec<&Planned> = act.steps.iter().copied().filter(is_told).collect();
    let same = |at: usize| steps.get(at + 1).is_some_and(|next| next.reason == steps[at].reason);
    let told: Vec<String> = (0..steps.len()).map(|at| deed(steps[at], !same(at))).collect();
    told.into_iter()
}

fn deed(planned: &Planned, with_reason: bool) -> String {
    let style = match planned.effect {
        Effect::Drain | Effect::Move | Effect::Reboot | Effect::Stop | Effect::Replace | Effect::Destroy => {
            YELLOW
        }
        Effect::Wait | Effect::Create | Effect::ChangeLive | Effect::Start | Effect::ChangePending => {
            Style::new()
        }
    };
    let what = format!("{style}{}{style:#}", words::deed(&planned.step));
    if with_reason { format!("{what}   {DIM}{}{DIM:#}", safe(&planned.reason)) } else { what }
}

/// What becomes of a node's former self, whose VM is gone, before another is made.
fn former(story: &Story<'_>, act: &Act<'_>) -> Option<String> {
    let forgets = |planned: &&&Planned| matches!(planned.step, Step::Upkeep(Upkeep::ForgetNode { .. }));
    act.steps.iter().find(forgets)?;
    let declared = story.desired.nodes.iter().find(|node| Some(&node.name) == act.node());
    let is_worker = declared.is_some_and(|node| node.role == Role::Worker);
    let what = if is_worker {
        "its old Node is removed from Kubernetes"
    } else {
        "its old member is removed from etcd, and its Node from Kubernetes"
    };
    Some(format!("{YELLOW}{what}{YELLOW:#}"))
}

/// How a node leaves its cluster before its VM goes.
fn departure(act: &Act<'_>) -> Option<String> {
    let mut told: Vec<&str> = Vec::new();
    for planned in &act.steps {
        let Step::Upkeep(upkeep) = &planned.step else { continue };
        let word = match upkeep.word() {
            "drain" => "drained",
            "retire" => "out of the cluster, wiped",
            "forget" => "forgotten by etcd and Kubernetes",
            _ => continue,
        };
        if !told.contains(&word) {
            told.push(word);
        }
    }
    (!told.is_empty()).then(|| format!("leaves first: {}", told.join(", ")))
}

/// What becomes of the disks of a VM that is built anew.
fn disks(act: &Act<'_>) -> String {
    let mut kept: Vec<String> = Vec::new();
    for planned in &act.steps {
        if let Step::Upkeep(Upkeep::MoveDisk { slot, .. }) = &planned.step {
            let slot = slot.to_string();
            if !kept.contains(&slot) {
                kept.push(slot);
            }
        }
    }
    match kept.len() {
        0 => "with empty disks".to_owned(),
        1 => format!("with {} as it is; other disks are empty", listed(&kept)),
        _ => format!("with {} as they are; other disks are empty", listed(&kept)),
    }
}

/// Volumes that go, each with its size, and the jobs that forget the VM.
fn lost(act: &Act<'_>) -> Vec<String> {
    let volumes: Vec<(String, String)> = act
        .destroys()
        .map(|volume| {
            let bytes = volume_size(volume);
            (format!("{} {}", volume.slot, safe(&volume.volume.to_string())), bytes)
        })
        .collect();
    let wide = width(volumes.iter().map(|(text, _)| text.as_str()));
    let line =
        |(text, bytes): (String, String)| format!("{RED}destroys{RED:#} {}  {bytes}", padded(&text, wide));
    let purged = act.purges().map(|place| format!("{RED}leaves{RED:#} {}", safe(place)));
    volumes.into_iter().map(line).chain(purged).collect()
}

pub(super) fn volume_size(volume: &Volume) -> String {
    match volume.size {
        Some(bytes) => size(bytes),
        None if volume.volume.is_cloud_init() => "cloud-init drive".to_owned(),
        None => "size not known".to_owned(),
    }
}

/// Old and new. Of property strings only the parts that differ.
pub(super) fn difference(change: &Change) -> String {
    if !change.sub.is_empty() {
        let subs: Vec<String> = change.sub.iter().map(|sub| safe(&sub.to_string())).collect();
        return format!("{} {}", safe(&change.key), subs.join(", "));
    }
    let unit = if ["memory", "balloon"].contains(&change.key.as_str()) { " MiB" } else { "" };
    let (old, new) = match (&change.old, &change.new) {
        (Some(old), Some(new)) => differing_parts(old, new),
        (old, new) => (old.clone().unwrap_or_default(), new.clone().unwrap_or_default()),
    };
    let (key, old, new) = (safe(&change.key), safe(&old), safe(&new));
    match (change.old.is_some(), change.new.is_some()) {
        (true, true) => format!("{key} {old} → {new}{unit}"),
        (false, true) => format!("{key} set to {new}{unit}"),
        (true, false) => format!("{key} removed, was {old}{unit}"),
        (false, false) => key,
    }
}

fn differing_parts(old: &str, new: &str) -> (String, String) {
    let is_list = |text: &str| text.contains(',') && text.contains('=') && !text.contains('\n');
    if !is_list(old) && !is_list(new) {
        return (old.to_owned(), new.to_owned());
    }
    let (before, after): (Vec<&str>, Vec<&str>) = (old.split(',').collect(), new.split(',').collect());
    let only = |these: &[&str], those: &[&str]| {
        let kept: Vec<&str> = these.iter().copied().filter(|part| !those.contains(part)).collect();
        if kept.is_empty() { "–".to_owned() } else { kept.join(",") }
    };
    (only(&before, &after), only(&after, &before))
}

fn remarks(story: &Story<'_>, verbosity: Verbosity) -> String {
    let shown_with_its_act = |node: Option<&NodeName>| {
        story.acts.iter().any(|act| act.sign == Sign::Create && act.node().is_some() && act.node() == node)
    };
    let notes = story.plan.notes.iter().filter_map(|note| {
        let (sign, style) = match note.kind {
            NoteKind::Undeclared | NoteKind::Copy => ("?", CYAN),
            NoteKind::Placement if shown_with_its_act(note.node.as_ref()) => return None,
            NoteKind::Warning | NoteKind::LeftOut | NoteKind::Placement | NoteKind::Inside => ("!", YELLOW),
            NoteKind::Ignored => ("=", DIM),
            NoteKind::Foreign | NoteKind::Beyond if verbosity == Verbosity::Everything => ("=", DIM),
            NoteKind::Foreign | NoteKind::Beyond => return None,
        };
        let node = note.node.as_ref().map_or_else(String::new, |node| format!("{node}  "));
        Some(format!("  {style}{sign:<3}{style:#} {node}{}\n", safe(&note.text)))
    });
    notes.collect()
}

/// What is there and does not go with a cluster that is destroyed, for want of proof or because it is busy.
pub(crate) fn left_behind(plan: &Plan) -> String {
    let left = |kind| matches!(kind, NoteKind::Copy | NoteKind::Warning);
    let notes = plan.notes.iter().filter(|note| left(note.kind));
    let notes: String =
        notes.map(|note| format!("  {CYAN}{:<3}{CYAN:#} {}\n", "?", safe(&note.text))).collect();
    notes + &waiting(plan)
}

/// What follows once the steps are done, by what is done.
fn later(story: &Story<'_>) -> String {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for intent in &story.plan.later {
        let name = intent.node.as_ref().map(ToString::to_string);
        match groups.iter_mut().find(|(step, _)| *step == intent.step) {
            // Said of one node for two reasons, it is done once.
            Some((_, names)) => names.extend(name.filter(|name| !names.contains(name))),
            None => groups.push((&intent.step, name.into_iter().collect())),
        }
    }
    if let Some(last) = story.acts.iter().find(|act| act.is_last_wait())
        && let Some(planned) = last.steps.first()
        && !groups.iter().any(|(step, _)| *step == planned.step.word())
    {
        groups.push((planned.step.word(), Vec::new()));
    }
    if groups.is_empty() {
        return String::new();
    }
    let told = groups.iter().map(|(step, names)| {
        // More names than a person reads are counted.
        let whom = if names.len() > 3 { plural(names.len(), "node") } else { listed(names) };
        format!("{} {whom}", verb_of(step))
    });
    format!("then: {}\n", told.map(|text| text.trim_end().to_owned()).collect::<Vec<_>>().join(" · "))
}

fn refusals(plan: &Plan) -> String {
    let one = |refusal: &talmox_plan::Refusal| {
        let node = refusal.node.as_ref().map_or_else(String::new, |node| format!("{node}  "));
        let mut text = format!("  {RED}✗{RED:#}   {node}{}\n", safe(&refusal.problem));
        for (index, choice) in refusal.choices.iter().enumerate() {
            let lead = if index == 0 { "choose:" } else { "    or:" };
            text.push_str(&format!("      {DIM}{lead}{DIM:#} {}\n", safe(choice)));
        }
        text
    };
    plan.refusals.iter().map(one).collect()
}

/// How the nodes that are not refused can go ahead.
fn others(plan: &Plan) -> String {
    if plan.refusals.iter().any(|refusal| refusal.node.is_none()) {
        return String::new();
    }
    let mut nodes: Vec<&str> =
        plan.steps.iter().filter_map(|step| step.node.as_ref()).map(NodeName::as_str).collect();
    nodes.dedup();
    if nodes.is_empty() { String::new() } else { format!(" The rest alone: --target {}", nodes.join(",")) }
}

/// `Plan: 6 to create, 1 to change, 0 to destroy. No reboot of anything that runs.`
pub(super) fn sum(story: &Story<'_>) -> String {
    let count = |sign| story.count(sign);
    let replaced = match count(Sign::Replace) {
        0 => String::new(),
        number => format!("{number} to replace, "),
    };
    let (upgraded, to_upgrade) = match story.upgraded() {
        0 => (0, String::new()),
        number => (number, format!("{number} to upgrade, ")),
    };
    let mut text = format!(
        "{BOLD}Plan:{BOLD:#} {} to create, {} to change, {to_upgrade}{replaced}{} to destroy.",
        count(Sign::Create),
        count(Sign::Change) - upgraded,
        count(Sign::Destroy)
    );
    let (reboots, stops) = (story.interrupted(Effect::Reboot), story.interrupted(Effect::Stop));
    if !reboots.is_empty() {
        text.push_str(&format!(" {}: {}.", plural(reboots.len(), "reboot"), listed(&reboots)));
    }
    let stays = |name: &String| story.acts.iter().any(|act| act.name() == name && act.sign == Sign::Change);
    let stops: Vec<String> = stops.into_iter().filter(stays).collect();
    if !stops.is_empty() {
        text.push_str(&format!(" {} stopped: {}.", stops.len(), listed(&stops)));
    }
    match story.destroyed() {
        (0, _)
            if story.plan.refusals.is_empty()
                && reboots.is_empty()
                && stops.is_empty()
                && count(Sign::Replace) + count(Sign::Destroy) == 0 =>
        {
            text.push_str(" No reboot of anything that runs.");
        }
        (0, _) => {}
        (number, bytes) => {
            let unknown = story
                .acts
                .iter()
                .flat_map(Act::destroys)
                .any(|volume| volume.size.is_none() && !volume.volume.is_cloud_init());
            let least = if unknown { "at least " } else { "" };
            let are = if number == 1 { "is" } else { "are" };
            text.push_str(&format!(
                " {} with {least}{} {are} destroyed.",
                plural(number, "volume"),
                size(bytes)
            ));
        }
    }
    if story.plan.refusals.is_empty() {
        text.extend(quorum_kept(story));
    }
    match story.plan.refusals.len() {
        0 => {}
        number => {
            text.push_str(&format!(" {RED}{number} refused:{RED:#} nothing is done."));
            text.push_str(&others(story.plan));
        }
    }
    text + "\n"
}
