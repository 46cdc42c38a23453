//! What every verb about machine configuration needs: description, secrets, patches, variables, and where machines are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use talmox_config::{Member, Outcome, Sources, WrittenPatch, add_file};
use talmox_image::install::InstallImages;
use talmox_machine::Time;
use talmox_machine::client::{Context, TalosRole, Talosconfig};
use talmox_plan::{Given, Observed, View, given_by_an_empty_proxmox, view};
use talmox_pve::property::Smbios;
use talmox_render::{Inputs, PatchText, RenderError, Rendered, Variables, Whereabouts, render};
use talmox_types::desired::{Cni, Desired, Node, NodeAddress, Patch, Role};
use talmox_types::{FamilyPair, NodeName};

use super::shared::{Job, block_on, boxed};
use super::unknown_node;
use crate::args::{Making, Simulate};
use crate::connect::folder;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::secrets_file::{self, Loaded};
use crate::variables_file;

/// A description, its secrets, and all that configs are made with.
pub(super) struct Workshop {
    outcome: Box<Outcome>,
    pub(super) desired: Desired,
    pub(super) secrets: Loaded,
    images: InstallImages,
    variables: Variables,
    manifest: Option<String>,
    world: World,
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
    pub(super) fn open(making: &Making, printer: &Printer) -> anyhow::Result<Self> {
        let folder = folder(&making.description.file);
        if making.live || making.connection.simulate != Simulate::Off {
            return block_on(async {
                let job = Job::open(&making.description, &making.connection, printer).await?;
                let observed = job.observe().await;
                let Job { outcome, desired, session, .. } = job;
                session.close().await?;
                let world = seen(&desired, &observed?);
                Self::new(outcome, desired, &folder, world, printer)
            });
        }
        let (outcome, desired) = boxed(&making.description.file, printer)?;
        let world = World::Empty(given_by_an_empty_proxmox(&desired));
        Self::new(outcome, desired, &folder, world, printer)
    }

    fn new(
        outcome: Box<Outcome>,
        desired: Desired,
        folder: &Path,
        world: World,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        let secrets = open_secrets(&desired, folder, printer)?;
        let manifest = match &desired.kubernetes.cni {
            Cni::Manifest(file) => Some(read_text(&folder.join(file))?),
            Cni::Flannel | Cni::None | Cni::Urls(_) => None,
        };
        Ok(Self {
            images: InstallImages::new(&desired.talos.install_images, super::install_image::variable),
            variables: variables_file::load(folder)?,
            outcome,
            desired,
            secrets,
            manifest,
            world,
        })
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
        self.render_member(node, &member, printer)
    }

    /// The configurations of all nodes, in the order of the description.
    pub(super) fn render_all(&self, printer: &Printer) -> anyhow::Result<Vec<(&Node, Rendered)>> {
        let members = self.outcome.description.members();
        let one = |(node, member)| Ok((node, self.render_member(node, member, printer)?));
        self.desired.nodes.iter().zip(&members).map(one).collect()
    }

    fn render_member(&self, node: &Node, member: &Member<'_>, printer: &Printer) -> anyhow::Result<Rendered> {
        let whereabouts = self.whereabouts(node, printer)?;
        let patches = self.outcome.description.patches(member);
        let patches: Vec<PatchText> = patches.iter().map(patch_text).collect::<Result<_, _>>()?;
        let rendered = render(&Inputs {
            desired: &self.desired,
            node,
            bundle: &self.secrets.bundle,
            whereabouts: &whereabouts,
            install_images: &self.images,
            patches: &patches,
            cni_manifest: self.manifest.as_deref(),
            variables: &self.variables,
        });
        let rendered = rendered.map_err(|error| failure(node, &error))?;
        for warning in &rendered.warnings {
            printer.say(&format!("{}: Talos would warn: {warning}", node.name));
        }
        for left_out in &rendered.left_out {
            printer.say(&format!("{}: left out {left_out}", node.name));
        }
        Ok(rendered)
    }

    fn whereabouts(&self, node: &Node, printer: &Printer) -> Result<Whereabouts, Failure> {
        let no_address = || {
            Failure::new(format!("there is no address left for {}", node.name))
                .with_hint("widen the addresses of its pool")
        };
        match &self.world {
            World::Empty(given) => {
                let address = match &node.address {
                    NodeAddress::Declared(address) => *address,
                    NodeAddress::FromPool(_) => {
                        let address =
                            given.get(&node.name).and_then(|given| given.address).ok_or_else(no_address)?;
                        let words = "is the address an empty pool would give; --live looks at what it has";
                        printer.say(&format!("{}: {} {words}", node.name, address.primary()));
                        address
                    }
                };
                Ok(Whereabouts { address, vmid: node.vm.id, host: node.vm.host.clone(), uuid: None })
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
        let mut endpoints = Vec::new();
        for node in self.desired.nodes.iter().filter(|node| node.role == Role::Controller) {
            endpoints.push(self.whereabouts(node, printer)?.address.primary().to_string());
        }
        let bundle = &self.secrets.bundle;
        let client = bundle.talos_client(
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

/// The secrets bundle, if certificates can be made with it.
pub(super) fn open_secrets(desired: &Desired, folder: &Path, printer: &Printer) -> Result<Loaded, Failure> {
    let secrets = secrets_file::load(desired, folder)?;
    let name = secrets.path.display();
    let problems = secrets.bundle.check(now());
    if !problems.is_empty() {
        return Err(Failure::new(format!(
            "the secrets bundle {name} is of no use:\n{}",
            problems.join("\n")
        )));
    }
    if printer.is_verbose() {
        printer.say(&format!("secrets from {name}"));
    }
    Ok(secrets)
}

/// The clock of this machine.
pub(super) fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// A text file of the user's.
pub(super) fn read_text(path: &Path) -> Result<String, Failure> {
    let mut sources = Sources::default();
    match add_file(&mut sources, path) {
        Ok(id) => Ok(sources.get(id).text.clone()),
        Err(problem) => Err(Failure::new(problem.message)),
    }
}

fn patch_text(written: &WrittenPatch) -> Result<PatchText, Failure> {
    match &written.patch {
        Patch::Inline(text) => {
            Ok(PatchText { name: format!("{} (inline)", written.place), text: text.clone() })
        }
        Patch::File(file) => {
            let path = written.folder.join(file);
            let name = path.strip_prefix(".").unwrap_or(&path).display().to_string();
            Ok(PatchText { name, text: read_text(&path)? })
        }
    }
}

fn failure(node: &Node, error: &RenderError) -> Failure {
    let failure = Failure::new(format!("there is no configuration for {}:\n{error}", node.name));
    match error {
        RenderError::Variable(_) => failure
            .with_hint("variables come from the environment and from talenv.yaml beside the description"),
        RenderError::Patch(_)
        | RenderError::Idle(_)
        | RenderError::Blamed(_)
        | RenderError::InvalidPatch(_) => failure.with_hint(format!(
            "talmox explain {}.patches lists its patches in the order they apply",
            node.name
        )),
        RenderError::Input(_)
        | RenderError::TwoVirtualAddresses(_)
        | RenderError::TwoTaints(_)
        | RenderError::MissingManifest(_)
        | RenderError::Refused { .. } => failure,
    }
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
