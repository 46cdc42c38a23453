//! What every verb about machine configuration needs: description, secrets, patches, variables, and where machines are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use talmox_config::{Member, Outcome, Sources, WrittenPatch, add_file};
use talmox_image::install::InstallImages;
use talmox_machine::client::{Context, TalosRole, Talosconfig};
use talmox_machine::{Bundle, Time};
use talmox_plan::{Given, Observed, View, given_by_an_empty_proxmox, view};
use talmox_pve::property::Smbios;
use talmox_render::{Common, PatchText, RenderError, Rendered, Renderer, Variables, Whereabouts};
use talmox_trust::Verb;
use talmox_types::desired::{Cni, Desired, Node, NodeAddress, Patch, Role};
use talmox_types::{FamilyPair, NodeName, Realm};

use super::machines::Inside;
use super::shared::{Job, block_on, boxed};
use super::standing::Standing;
use super::unknown_node;
use crate::args::{Making, Simulate, VariableFlags};
use crate::failure::Failure;
use crate::printer::Printer;
pub(super) use crate::secrets_file::now;
use crate::secrets_file::{self, Loaded};
use crate::trust::{Aim, Folder, needs, settle};
use crate::variables_file;

/// A description, its secrets, and all that configs are made with.
pub(super) struct Workshop {
    outcome: Box<Outcome>,
    pub(super) desired: Desired,
    pub(super) secrets: Loaded,
    folder: Folder,
    variables: VariableFlags,
    world: World,
    standing: Standing,
}

/// What only configs need: a talosconfig asks for no variables.
pub(super) struct Ingredients {
    images: InstallImages,
    variables: Variables,
    manifest: Option<String>,
}

/// A description that was read, and what comes with it.
#[derive(Clone, Copy)]
pub(super) struct Described<'a> {
    pub(super) outcome: &'a Outcome,
    pub(super) desired: &'a Desired,
    /// What paths in the description are relative to.
    pub(super) folder: &'a Folder,
    pub(super) variables: &'a VariableFlags,
}

impl Ingredients {
    pub(super) fn read(described: &Described<'_>) -> Result<Self, Failure> {
        let Described { desired, folder, variables, .. } = *described;
        let manifest = match &desired.kubernetes.cni {
            Cni::Manifest(file) => Some(folder.text(file)?),
            Cni::Flannel | Cni::None | Cni::Urls(_) => None,
        };
        let described = &desired.talos.install_images;
        Ok(Self {
            images: InstallImages::new(described, super::install_image::variable),
            variables: variables_file::load(folder, variables)?,
            manifest,
        })
    }
}

/// What is known of machines besides what is declared.
enum World {
    /// Nobody looked.
    Empty(BTreeMap<NodeName, Given>),
    Seen {
        view: View,
        uuids: BTreeMap<NodeName, String>,
    },
}

impl Workshop {
    pub(super) fn open(verb: Verb, making: &Making, printer: &Printer) -> anyhow::Result<Self> {
        let variables = making.variables.clone();
        if making.live || making.connection.simulate != Simulate::Off {
            return block_on(async {
                let job = Job::open(verb, &making.description, &making.connection, printer).await?;
                let job = job.with_variables(&variables);
                let observed = looked_at(&job).await;
                let Job { outcome, desired, session, folder, .. } = job;
                let simulation = session.simulated_in().map(Path::to_owned);
                session.close().await?;
                let (observed, standing) = observed?;
                let world = seen(&desired, &observed);
                let secrets = open_secrets(&desired, &folder, simulation.as_deref(), printer)?;
                Ok(Self { outcome, desired, secrets, folder, variables, world, standing })
            });
        }
        let folder = Folder::open(&making.description.file, &making.description.trust)?;
        let (outcome, desired) = boxed(&folder, printer)?;
        settle(&needs(Aim { verb, simulated: true }, &outcome, &desired, &folder)?, &folder, printer)?;
        let world = World::Empty(given_by_an_empty_proxmox(&desired));
        let secrets = open_secrets(&desired, &folder, None, printer)?;
        let standing = Standing::default();
        Ok(Self { outcome, desired, secrets, folder, variables, world, standing })
    }

    /// The node of a name.
    pub(super) fn node(&self, name: &str) -> Result<&Node, Failure> {
        self.desired.nodes.iter().find(|node| node.name.as_str() == name).ok_or_else(|| {
            let closest = self.outcome.description.member(name).err().flatten();
            unknown_node(&self.outcome, name, closest.as_ref().map(NodeName::as_str))
        })
    }

    /// A node's configuration; what is left out or guessed is said.
    pub(super) fn render(&self, node: &Node, printer: &Printer) -> anyhow::Result<Rendered> {
        let member = self.outcome.description.member(node.name.as_str());
        let member = member.map_err(|_| Failure::new(format!("there is no node {}", node.name)))?;
        let mut remarks = Remarks::default();
        let ingredients = Ingredients::read(&self.described())?;
        let whole = self.whole();
        let rendered =
            self.render_member(&whole, (node, &member), &whole.renderer(&ingredients), &mut remarks)?;
        self.say_what_is_under_way(printer);
        remarks.say(printer);
        Ok(rendered)
    }

    /// Hands over the configurations of all nodes one by one, in the order of the description.
    pub(super) fn render_all(
        &self,
        printer: &Printer,
        mut take: impl FnMut(&Node, Rendered),
    ) -> anyhow::Result<()> {
        let members = self.outcome.description.members();
        let mut remarks = Remarks::default();
        let ingredients = Ingredients::read(&self.described())?;
        let whole = self.whole();
        let renderer = whole.renderer(&ingredients);
        for (node, member) in self.desired.nodes.iter().zip(&members) {
            take(node, self.render_member(&whole, (node, member), &renderer, &mut remarks)?);
        }
        self.say_what_is_under_way(printer);
        remarks.say(printer);
        Ok(())
    }

    /// Says that machines may be given something else at the moment.
    fn say_what_is_under_way(&self, printer: &Printer) {
        for realm in self.secrets.bundle.rotating() {
            printer.say(&format!(
                "the authority of {} is being replaced: this is what is described before its first phase (the old one signs, the \
                 new one is not known); talmox apply gives each machine what its phase needs",
                realm.name()
            ));
        }
    }

    fn described(&self) -> Described<'_> {
        let Self { outcome, desired, folder, variables, .. } = self;
        Described { outcome, desired, folder, variables }
    }

    fn whole(&self) -> Whole<'_> {
        Whole {
            outcome: &self.outcome,
            desired: &self.desired,
            bundle: &self.secrets.bundle,
            folder: &self.folder,
        }
    }

    fn render_member(
        &self,
        whole: &Whole<'_>,
        (node, member): (&Node, &Member<'_>),
        renderer: &Renderer<'_>,
        remarks: &mut Remarks,
    ) -> anyhow::Result<Rendered> {
        let whereabouts = self.whereabouts(node, remarks)?;
        let config = whole.render((node, member), &whereabouts, renderer)?;
        for warning in &config.warnings {
            remarks.add(node, format!("Talos would warn: {warning}"));
        }
        for left_out in &config.left_out {
            remarks.add(node, format!("left out {left_out}"));
        }
        Ok(config)
    }

    fn whereabouts(&self, node: &Node, remarks: &mut Remarks) -> Result<Whereabouts, Failure> {
        let no_address = || {
            Failure::new(format!("there is no address left for {}", node.name))
                .with_hint("widen the addresses of its pool")
        };
        match &self.world {
            World::Empty(given) => {
                let address = match &node.address {
                    NodeAddress::Declared(address) => *address,
                    NodeAddress::FromPool(_) => {
                        remarks.add(node, FROM_AN_EMPTY_POOL.to_owned());
                        given.get(&node.name).and_then(|given| given.address).ok_or_else(no_address)?
                    }
                };
                let (vmid, host) = (node.vm.id, node.vm.host.clone());
                Ok(Whereabouts { address, vmid, host, uuid: None })
            }
            World::Seen { view, uuids } => {
                let seen = view.nodes.iter().find(|seen| seen.node == node.name);
                let addresses = seen.map(|seen| seen.addresses.as_slice()).unwrap_or_default();
                Ok(Whereabouts {
                    address: pair(addresses).ok_or_else(no_address)?,
                    vmid: seen.and_then(|seen| seen.vmid).or(node.vm.id),
                    host: seen.and_then(|seen| seen.host.clone()).or_else(|| node.vm.host.clone()),
                    uuid: uuids.get(&node.name).cloned(),
                })
            }
        }
    }

    /// A talosconfig for this cluster. Its endpoints are the control planes; the node is the first of them alone, so that a
    /// command without `--nodes` never meets the whole cluster.
    pub(super) fn talosconfig(&self, now: Time, printer: &Printer) -> anyhow::Result<Talosconfig> {
        let mut remarks = Remarks::default();
        let mut endpoints = Vec::new();
        for node in self.desired.nodes.iter().filter(|node| node.role == Role::Controller) {
            endpoints.push(self.whereabouts(node, &mut remarks)?.address.primary().to_string());
        }
        remarks.say(printer);
        let bundle = &self.secrets.bundle;
        if let Some(remark) = self.standing.remark(bundle, Realm::Talos) {
            printer.say(&remark);
        }
        let client = self.standing.signing(bundle).talos_client(
            &[TalosRole::Admin],
            now,
            talmox_machine::client::DEFAULT_LIFETIME,
            &mut talmox_machine::SystemRandom,
        )?;
        let nodes = &endpoints[..endpoints.len().min(1)];
        let context = Context { name: self.desired.name.as_str(), endpoints: &endpoints, nodes };
        Ok(Talosconfig::new(&context, bundle, &client))
    }
}

/// A description with its secrets.
pub(super) struct Whole<'a> {
    pub(super) outcome: &'a Outcome,
    pub(super) desired: &'a Desired,
    pub(super) bundle: &'a Bundle,
    pub(super) folder: &'a Folder,
}

impl<'a> Whole<'a> {
    /// What renders its nodes.
    pub(super) fn renderer(&self, ingredients: &'a Ingredients) -> Renderer<'a> {
        Renderer::new(Common {
            desired: self.desired,
            bundle: self.bundle,
            install_images: &ingredients.images,
            cni_manifest: ingredients.manifest.as_deref(),
            variables: &ingredients.variables,
        })
    }

    /// What a node is configured with, of which this much is known.
    pub(super) fn render(
        &self,
        (node, member): (&Node, &Member<'_>),
        whereabouts: &Whereabouts,
        renderer: &Renderer<'_>,
    ) -> Result<Rendered, Failure> {
        self.attempt((node, member), whereabouts, renderer).map_err(|unrendered| match unrendered {
            Unrendered::File(failure) => failure,
            Unrendered::Error(error) => failure(node, &error),
        })
    }

    /// The same, with what is wrong as it was found.
    pub(super) fn attempt(
        &self,
        (node, member): (&Node, &Member<'_>),
        whereabouts: &Whereabouts,
        renderer: &Renderer<'_>,
    ) -> Result<Rendered, Unrendered> {
        let written = self.outcome.description.patches(member);
        let patches: Vec<PatchText> = written
            .iter()
            .map(|written| patch_text(written, self.folder))
            .collect::<Result<_, _>>()
            .map_err(Unrendered::File)?;
        renderer.render(node, whereabouts, &patches).map_err(|error| {
            let outside = written.iter().zip(&patches).filter(|(written, _)| match &written.patch {
                Patch::File(file) => self.folder.is_outside(file),
                Patch::Inline(_) => false,
            });
            let outside: Vec<&PatchText> = outside.map(|(_, text)| text).collect();
            Unrendered::Error(error.without_texts_of(&outside))
        })
    }
}

/// Why there is no configuration.
pub(super) enum Unrendered {
    /// A file the description names cannot be read.
    File(Failure),
    Error(RenderError),
}

const FROM_AN_EMPTY_POOL: &str =
    "the address is the one an empty pool would give; --live looks at what it has";

/// More nodes than this are counted rather than named.
const NAMED: usize = 4;

/// What there is to say of nodes, each thing once with those it is true of.
#[derive(Default)]
struct Remarks(Vec<(String, Vec<NodeName>)>);

impl Remarks {
    fn add(&mut self, node: &Node, remark: String) {
        match self.0.iter_mut().find(|(known, _)| *known == remark) {
            Some((_, nodes)) => nodes.push(node.name.clone()),
            None => self.0.push((remark, vec![node.name.clone()])),
        }
    }

    fn say(&self, printer: &Printer) {
        for (remark, nodes) in &self.0 {
            printer.say(&format!("{}: {remark}", named(nodes)));
        }
    }
}

/// The first few nodes by name, the others by their number.
pub(super) fn named(nodes: &[NodeName]) -> String {
    let names: Vec<&str> = nodes.iter().take(NAMED).map(NodeName::as_str).collect();
    let more = nodes.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", names.join(", "))
}

/// The secrets bundle, if certificates can be made with it. One with an authority that ended is as good as its others: whoever
/// needs that one says so. `simulation` is the folder of a simulated world.
pub(super) fn open_secrets(
    desired: &Desired,
    folder: &Folder,
    simulation: Option<&Path>,
    printer: &Printer,
) -> anyhow::Result<Loaded> {
    let secrets = match simulation {
        Some(simulation) => secrets_file::load_simulated(desired, folder, simulation)?,
        None => secrets_file::load(desired, folder)?,
    };
    let name = secrets.path.display();
    let problems = secrets.bundle.broken(now());
    if !problems.is_empty() {
        return Err(Failure::new(format!(
            "the secrets bundle {name} is of no use:\n{}",
            problems.join("\n")
        ))
        .with_hint(
            "get it from a backup, or from a control plane: talmox secrets generate --from controlplane.yaml",
        )
        .into());
    }
    if printer.is_verbose() {
        printer.say(&format!("secrets from {name}"));
    }
    Ok(secrets)
}

/// A text file of the user's.
pub(super) fn read_text(path: &Path) -> Result<String, Failure> {
    let mut sources = Sources::default();
    match add_file(&mut sources, path) {
        Ok(id) => Ok(sources.get(id).text.clone()),
        Err(problem) => Err(Failure::new(problem.message)),
    }
}

fn patch_text(written: &WrittenPatch, folder: &Folder) -> Result<PatchText, Failure> {
    match &written.patch {
        Patch::Inline(text) => {
            Ok(PatchText { name: format!("{} (inline)", written.place), text: text.clone() })
        }
        Patch::File(file) => {
            let path = written.folder.join(file);
            let name = path.strip_prefix(".").unwrap_or(&path).display().to_string();
            Ok(PatchText { name, text: folder.text(file)? })
        }
    }
}

fn failure(node: &Node, error: &RenderError) -> Failure {
    let failure = Failure::new(format!("there is no configuration for {}:\n{error}", node.name));
    if let RenderError::Unset(unset) = error {
        return failure.with_hint(variables_file::advice(unset));
    }
    match Blame::of(error).hint(&node.name) {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// What is to blame for a configuration that cannot be.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Blame {
    Patch,
    /// The description itself, or a file it names.
    Description,
}

impl Blame {
    pub(super) fn of(error: &RenderError) -> Self {
        match error {
            RenderError::Variable(_)
            | RenderError::Unset(_)
            | RenderError::Patch(_)
            | RenderError::Idle(_)
            | RenderError::Blamed(_)
            | RenderError::InvalidPatch(_) => Self::Patch,
            RenderError::Input(_)
            | RenderError::TwoVirtualAddresses(_)
            | RenderError::TwoTaints(_)
            | RenderError::MissingManifest(_)
            | RenderError::Refused { .. } => Self::Description,
        }
    }

    /// Where to look, for a node it is true of.
    pub(super) fn hint(self, node: &NodeName) -> Option<String> {
        match self {
            Self::Patch => {
                Some(format!("talmox explain {node}.patches lists its patches in the order they apply"))
            }
            Self::Description => None,
        }
    }
}

/// Looks at Proxmox; at the machines only where how far they are with a new authority decides what they take.
async fn looked_at(job: &Job) -> anyhow::Result<(Observed, Standing)> {
    let inside = Inside::open(job, &Printer::silent())?;
    let standing = inside.look_how_far().await?;
    Ok((job.observe().await?, standing))
}

fn seen(desired: &Desired, observed: &Observed) -> World {
    let view = view(desired, observed);
    let uuid = |vmid| {
        let config = &observed.guests.get(&vmid)?.seen()?.live;
        Smbios::parse(config.get("smbios1")?).ok()?.uuid
    };
    let uuids = view.nodes.iter().filter_map(|seen| Some((seen.node.clone(), uuid(seen.vmid?)?))).collect();
    World::Seen { view, uuids }
}

fn pair(addresses: &[String]) -> Option<FamilyPair<IpAddr>> {
    let parsed: Vec<IpAddr> = addresses.iter().filter_map(|text| text.parse().ok()).collect();
    match parsed.as_slice() {
        [one] => Some(FamilyPair::one(*one)),
        [one, two] => FamilyPair::two(*one, *two),
        _ => None,
    }
}

/// The name of a node's file, as `talosctl`'s users have it.
pub(super) fn file_name(desired: &Desired, node: &NodeName) -> PathBuf {
    PathBuf::from(format!("{}-{node}.yaml", desired.name))
}
