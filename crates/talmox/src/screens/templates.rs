//! Templates and images: what exists where, whose it is, and what may go.

use std::collections::{BTreeMap, BTreeSet};

use anstyle::Style;
use serde::Serialize;
use talmox_plan::{
    Change, Guest, GuestKind, NamedTemplate, Observed, OwnTemplate, Plan, Step, TemplateState, image_digest,
    own_templates, wanted_templates,
};
use talmox_pve::property::{DiskSize, VmConfig};
use talmox_types::desired::{Desired, OUR_FILES};
use talmox_types::{ClusterUid, Digest16, HostName, StorageId, TemplateMark, Version, VmId};

use super::plan_text::{RED, YELLOW, difference};
use super::table::{Cell, table};
use super::text::{listed, padded, plural, safe, size, width};
use crate::printer::{BOLD, DIM, GREEN};

/// For programs; the screens are made of it too.
#[derive(Serialize)]
pub(crate) struct TemplatesData {
    format: &'static str,
    templates: Vec<TemplateData>,
    images: Vec<ImageData>,
}

#[derive(Serialize)]
struct TemplateData {
    vmid: VmId,
    name: String,
    host: HostName,
    storage: Option<StorageId>,
    state: &'static str,
    /// None for one that somebody else made.
    mark: Option<TemplateMark>,
    /// Whether the description or the manifests ask for it.
    wanted: bool,
    /// Whether it was built for them, and nothing asks for it any more.
    stale: bool,
    /// Whether prune would remove it.
    removable: bool,
    talos: Option<String>,
    schematic: Option<String>,
    /// VMs whose disks stand on it.
    clones: Vec<Clone>,
    /// What build would change in place.
    changes: Vec<Change>,
    config: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Clone {
    vmid: VmId,
    name: Option<String>,
    host: HostName,
}

#[derive(Serialize)]
struct ImageData {
    file: String,
    host: HostName,
    storage: StorageId,
    bytes: u64,
    wanted: bool,
    removable: bool,
}

impl TemplatesData {
    /// `wanted` is the plan to build all that is wanted, `gone` the one to remove all that may go.
    pub(crate) fn new(desired: &Desired, observed: &Observed, wanted: &Plan, gone: &Plan) -> Self {
        let context = Context {
            own: own_templates(observed),
            digests: wanted_templates(desired).iter().map(image_digest).collect(),
            owners: owners(desired),
            observed,
            wanted,
            gone,
        };
        let vms = observed.guests.values().filter(|guest| guest.kind == GuestKind::Vm);
        let templates = vms.filter_map(|guest| context.template(guest)).collect();
        let files: BTreeSet<String> =
            wanted_templates(desired).into_iter().map(|template| template.image.file).collect();
        Self { format: "talmox.templates/v1", templates, images: context.images(&files) }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let names: BTreeSet<&str> = self.templates.iter().map(|template| template.name.as_str()).collect();
        names.into_iter()
    }

    /// Leaves only these templates, and no images.
    pub(crate) fn keep(&mut self, is_meant: impl Fn(&str, VmId) -> bool) {
        self.templates.retain(|template| is_meant(&template.name, template.vmid));
        self.images.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.templates.is_empty()
    }
}

/// Whose templates are told to be stale: the cluster's own, and those of manifests.
fn owners(desired: &Desired) -> BTreeSet<String> {
    let uid = desired.uid.as_ref().map(ClusterUid::to_string);
    desired.templates.iter().filter_map(|template| template.owner.clone()).chain(uid).collect()
}

struct Context<'a> {
    own: Vec<OwnTemplate>,
    digests: BTreeSet<Digest16>,
    owners: BTreeSet<String>,
    observed: &'a Observed,
    wanted: &'a Plan,
    gone: &'a Plan,
}

impl Context<'_> {
    fn template(&self, guest: &Guest) -> Option<TemplateData> {
        let own = self.own.iter().find(|own| own.mark.vmid == guest.vmid);
        if own.is_none() && !guest.template {
            return None;
        }
        let config = guest.seen().map(|seen| &seen.next);
        let wanted = own.is_some_and(|own| self.digests.contains(&own.mark.image));
        let tag = |prefix: &str| {
            let tags = guest.tags.iter().filter(|_| own.is_some());
            tags.filter_map(|tag| tag.strip_prefix(prefix)).map(str::to_owned).collect::<Vec<_>>()
        };
        Some(TemplateData {
            vmid: guest.vmid,
            name: guest.name.clone().unwrap_or_default(),
            host: guest.host.clone(),
            storage: own.map_or_else(|| config.and_then(first_storage), |own| own.storage.clone()),
            state: own.map_or("ready", |own| word(own.state)),
            mark: own.map(|own| own.mark.clone()),
            wanted,
            stale: !wanted && own.is_some_and(|own| self.owners.contains(&own.mark.owner)),
            removable: steps(self.gone)
                .any(|(step, vmid, _)| step == "remove-template" && vmid == guest.vmid),
            // People have tags of that beginning too.
            talos: tag("talos-").into_iter().find(|text| Version::parse(text).is_ok()),
            schematic: tag("schematic-").into_iter().next(),
            clones: own.map(|own| self.clones(&own.clones)).unwrap_or_default(),
            changes: steps(self.wanted)
                .filter(|(_, vmid, _)| *vmid == guest.vmid)
                .flat_map(|(_, _, changes)| changes.to_vec())
                .collect(),
            config: config.map(shown).unwrap_or_default(),
        })
    }

    fn clones(&self, ids: &[VmId]) -> Vec<Clone> {
        let guests = ids.iter().filter_map(|id| self.observed.guests.get(id));
        let clone =
            |guest: &Guest| Clone { vmid: guest.vmid, name: guest.name.clone(), host: guest.host.clone() };
        guests.map(clone).collect()
    }

    fn images(&self, wanted: &BTreeSet<String>) -> Vec<ImageData> {
        let mut seen = BTreeSet::new();
        let mut images = Vec::new();
        for ((host, storage), files) in &self.observed.files {
            let shared = self.observed.storage(host, storage).is_some_and(|storage| storage.shared);
            for file in files.iter().filter(|file| file.volume.file_name().starts_with(OUR_FILES)) {
                if shared && !seen.insert(file.volume.clone()) {
                    continue;
                }
                let name = file.volume.file_name().to_owned();
                let goes = |step: &Step| {
                    matches!(step, Step::RemoveImage { host: on, volume }
                        if *volume == file.volume && (shared || on == host))
                };
                images.push(ImageData {
                    wanted: wanted.contains(&name),
                    removable: self.gone.steps.iter().any(|planned| goes(&planned.step)),
                    file: name,
                    host: host.clone(),
                    storage: storage.clone(),
                    bytes: file.size,
                });
            }
        }
        images
    }
}

/// Steps on templates: what is done, to which, and what changes.
fn steps(plan: &Plan) -> impl Iterator<Item = (&'static str, VmId, &[Change])> {
    plan.steps.iter().filter_map(|planned| {
        let template = planned.step.template()?;
        Some((planned.step.word(), template.vmid(), planned.changes.as_slice()))
    })
}

fn word(state: TemplateState) -> &'static str {
    match state {
        TemplateState::Ready => "ready",
        TemplateState::Unfinished => "unfinished",
        TemplateState::Busy => "busy",
    }
}

fn first_storage(config: &VmConfig) -> Option<StorageId> {
    let disks = config.disks().ok()?;
    let mut volumes = disks.values().filter(|disk| !disk.is_cdrom()).filter_map(|disk| disk.source.volume());
    volumes.next().map(|volume| volume.storage().clone())
}

/// What `qm config` would show, without what may be secret.
fn shown(config: &VmConfig) -> BTreeMap<String, String> {
    let open = config.iter().filter(|(key, _)| !["cipassword", "smbios1", "sshkeys", "digest"].contains(key));
    open.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A table of templates, one of images, and what to type next.
pub(crate) fn templates_text(data: &TemplatesData, flags: &str) -> String {
    if data.templates.is_empty() && data.images.is_empty() {
        return format!("There is no template.\n\nnext: talmox template build{flags}\n");
    }
    let mut text = String::new();
    if !data.templates.is_empty() {
        let titles = ["VMID", "NAME", "HOST", "STORAGE", "STATE", "CLONES", "NOTES"];
        text.push_str(&table(&titles, data.templates.iter().map(template_row)));
    }
    if !data.images.is_empty() {
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(gap);
        let titles = ["IMAGE", "HOST", "STORAGE", "SIZE", "NOTES"];
        text.push_str(&table(&titles, data.images.iter().map(image_row)));
    }
    text + &next(data, flags)
}

fn template_row(template: &TemplateData) -> Vec<Cell> {
    let state = match template.state {
        "ready" => GREEN,
        _ => YELLOW,
    };
    let clones = match template.clones.len() {
        0 => "–".to_owned(),
        number => number.to_string(),
    };
    let (notes, style) = notes(template);
    vec![
        Cell::plain(template.vmid.to_string()),
        Cell::plain(safe(&template.name)),
        Cell::plain(template.host.to_string()),
        Cell::plain(template.storage.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string)),
        Cell { text: template.state.to_owned(), style: state },
        Cell::plain(clones),
        Cell { text: notes, style },
    ]
}

fn notes(template: &TemplateData) -> (String, Style) {
    let Some(mark) = &template.mark else { return ("somebody else's".to_owned(), DIM) };
    let mut notes = Vec::new();
    if template.wanted && template.changes.is_empty() {
        notes.push("wanted".to_owned());
    } else if template.wanted {
        notes.push(format!("wanted, {} to change", plural(template.changes.len(), "setting")));
    } else if template.removable {
        notes.push("stale, may go".to_owned());
    } else if template.stale {
        notes.push("stale, stays".to_owned());
    } else {
        notes.push(format!("built for {}", safe(&mark.owner)));
    }
    notes.extend(version(template));
    let style = if template.wanted { Style::new() } else { YELLOW };
    (notes.join(" · "), if template.stale || !template.changes.is_empty() { YELLOW } else { style })
}

fn version(template: &TemplateData) -> Option<String> {
    let talos = template.talos.as_ref()?;
    let schematic = template.schematic.as_ref().map(|id| format!(", schematic {id}")).unwrap_or_default();
    Some(format!("Talos {talos}{schematic}"))
}

fn image_row(image: &ImageData) -> Vec<Cell> {
    let (notes, style) = match (image.wanted, image.removable) {
        (true, _) => ("wanted", Style::new()),
        (false, true) => ("stale, may go", YELLOW),
        (false, false) => ("of a template that stays", Style::new()),
    };
    vec![
        Cell::plain(safe(&image.file)),
        Cell::plain(image.host.to_string()),
        Cell::plain(image.storage.to_string()),
        Cell::plain(size(DiskSize::from_bytes(image.bytes))),
        Cell { text: notes.to_owned(), style },
    ]
}

fn next(data: &TemplatesData, flags: &str) -> String {
    let removable = data.templates.iter().filter(|template| template.removable).count()
        + data.images.iter().filter(|image| image.removable).count();
    let unfinished = data
        .templates
        .iter()
        .any(|template| template.wanted && (template.state == "unfinished" || !template.changes.is_empty()));
    let mut commands = Vec::new();
    if unfinished {
        commands.push((format!("talmox template build{flags}"), "makes them as described"));
    }
    if removable > 0 {
        commands.push((format!("talmox template prune{flags}"), "removes what may go, after asking"));
    }
    let wide = width(commands.iter().map(|(command, _)| command.as_str()));
    let line = |(index, (command, what)): (usize, &(String, &str))| {
        let lead = if index == 0 { "\nnext:" } else { "     " };
        format!("{lead} {}  {DIM}{what}{DIM:#}\n", padded(command, wide))
    };
    commands.iter().enumerate().map(line).collect()
}

/// Everything that is known of one template, or of its namesakes.
pub(crate) fn show_text(data: &TemplatesData) -> String {
    data.templates.iter().map(one_text).collect::<Vec<_>>().join("\n")
}

fn one_text(template: &TemplateData) -> String {
    let (notes, style) = notes(template);
    let storage = template.storage.as_ref().map(|storage| format!(", {storage}")).unwrap_or_default();
    let mut text = format!(
        "{BOLD}{}{BOLD:#}  {} on {}{storage}  {}  {style}{notes}{style:#}\n",
        safe(&template.name),
        template.vmid,
        template.host,
        template.state
    );
    if let Some(mark) = &template.mark {
        text.push_str(&format!(
            "  built for {}, by run {}\n  image {}, settings {}\n",
            safe(&mark.owner),
            safe(&mark.incarnation),
            mark.image,
            mark.settings
        ));
    }
    let clones: Vec<String> = template.clones.iter().map(clone_words).collect();
    match (clones.is_empty(), template.mark.is_some()) {
        (false, _) => text.push_str(&format!("  the disks of {} stand on it\n", listed(&clones))),
        (true, true) => text.push_str("  no VM's disk stands on it (full clones leave no trace)\n"),
        (true, false) => {}
    }
    for change in &template.changes {
        text.push_str(&format!("  {YELLOW}~{YELLOW:#} {}\n", difference(change)));
    }
    let wide = width(template.config.keys().map(String::as_str));
    for (key, value) in template.config.iter().filter(|(key, _)| *key != "description") {
        text.push_str(&format!("  {DIM}{}{DIM:#}  {}\n", padded(key, wide), safe(value)));
    }
    text
}

fn clone_words(clone: &Clone) -> String {
    let name = clone.name.as_ref().map(|name| format!("{} ", safe(name))).unwrap_or_default();
    format!("{name}({} on {})", clone.vmid, clone.host)
}

/// Where a template is that somebody else made, and what is wrong with it.
pub(crate) fn reference_text(
    name: &str,
    wanted: &str,
    found: &[NamedTemplate],
    problems: &[(String, String)],
) -> String {
    let mut text = format!("{BOLD}{}{BOLD:#}  the template {}\n", safe(name), safe(wanted));
    let usable = found.iter().filter(|template| template.unusable.is_none());
    for template in usable {
        let disk = template.boot_disk.map(|slot| format!("boots from {slot}")).unwrap_or_default();
        let storages: Vec<&str> = template.storages.iter().map(StorageId::as_str).collect();
        text.push_str(&format!(
            "  {GREEN}✓{GREEN:#} {} on {}  {}  {disk}\n",
            template.vmid,
            template.host,
            storages.join(", ")
        ));
    }
    for (problem, remedy) in problems {
        text.push_str(&format!("  {RED}✗{RED:#} {}\n      {DIM}{}{DIM:#}\n", safe(problem), safe(remedy)));
    }
    if found.is_empty() && problems.is_empty() {
        text.push_str("  built by this run\n");
    }
    text
}
