//! `talmox render install-image`

use std::path::Path;

use serde::Serialize;
use talmox_image::install::{CONSOLE, Customization, GUEST_AGENT, InstallImages, Place, customize};
use talmox_image::{Factory, Platform, Schematic};
use talmox_types::desired::Desired;
use talmox_types::support::DEFAULT_TALOS;
use talmox_types::{NodeName, SchematicId, Url, Version};

use super::{read, unknown_node};
use crate::args::{Format, RenderInstallImage};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::trust::Folder;

/// What was decided, for programs.
#[derive(Serialize)]
struct Decided {
    provider: String,
    recognised_as: &'static str,
    talos_version: Version,
    /// What somebody configured.
    install_image: Option<String>,
    from: Option<String>,
    /// The schematic inside it, if its name says which.
    image_schematic: Option<SchematicId>,
    additions: Vec<Addition>,
    /// The schematic with what goes there, or the node's own as it is.
    schematic: SchematicId,
    /// The installer made from that schematic.
    installer: String,
    log: Vec<String>,
}

#[derive(Serialize)]
struct Addition {
    what: &'static str,
    place: &'static str,
    /// False where somebody else decides what is in there: it should be in it already.
    added: bool,
    why: &'static str,
}

pub(super) fn run(args: &RenderInstallImage, printer: &Printer) -> anyhow::Result<()> {
    let desired = description(args, printer)?;
    let talos = desired.as_ref().map(|desired| &desired.talos);
    let version =
        args.talos_version.clone().or_else(|| Some(talos?.version.clone())).unwrap_or(DEFAULT_TALOS);
    let configured = talos.map(|talos| talos.install_images.clone()).unwrap_or_default();
    let images = InstallImages::new(&configured, variable);
    let Some(found) = customize(&args.provider, &version, &images) else {
        return Err(Failure::new(format!(
            "{} names no virtual provider, so nothing is customized",
            args.provider
        ))
        .with_hint("a name with proxmox, kubevirt, libvirt, kvm, qemu, vmware, virtualbox or hyper-v in it")
        .into());
    };
    let decided = decide(args, desired.as_deref(), &version, &found)?;
    for line in &decided.log {
        printer.say(line);
    }
    if args.output.output == Format::Table {
        return printer.data(&table(&decided));
    }
    printer.structured(args.output.output, &decided)
}

/// The description, if there is one or one was named: variables alone are enough to choose an image.
fn description(args: &RenderInstallImage, printer: &Printer) -> anyhow::Result<Option<Box<Desired>>> {
    let path = args.file.as_deref().unwrap_or(Path::new("."));
    if args.file.is_none() && !path.join("cluster.yaml").exists() {
        return Ok(None);
    }
    let folder = Folder::open(path, &args.trust)?;
    let (outcome, desired) = read(&folder, printer)?;
    if let Some(name) = &args.node
        && let Err(closest) = outcome.description.member(name)
    {
        return Err(unknown_node(&outcome, name, closest.as_ref().map(NodeName::as_str)).into());
    }
    Ok(Some(Box::new(desired)))
}

#[expect(clippy::disallowed_methods, reason = "the variables of another tool, read as they are")]
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn decide(
    args: &RenderInstallImage,
    desired: Option<&Desired>,
    version: &Version,
    found: &Customization,
) -> anyhow::Result<Decided> {
    let base = desired.map(|desired| Schematic::from(&desired.talos.schematic)).unwrap_or_default();
    let factory = match desired {
        Some(desired) => Factory::new(Url::parse(&desired.talos.factory_url)?),
        None => Factory::official(),
    };
    let named = args.node.as_ref().zip(desired);
    let node = named.and_then(|(name, desired)| desired.nodes.iter().find(|node| node.name.as_str() == name));
    // A node with a schematic of its own gets what is in that one, and nothing is added to it.
    let own = node.and_then(|node| node.schematic_id.clone());
    let addition = |what, to, why| {
        let added = own.is_none() || to == Place::MachineConfig;
        Addition { what, place: place(to), added, why }
    };
    let additions = vec![
        addition(CONSOLE, found.console, found.console_reason),
        addition(GUEST_AGENT, found.guest_agent, found.guest_agent_reason),
    ];
    let schematic = own.unwrap_or_else(|| found.schematic(&base).id());
    let secure_boot = match (node, desired) {
        (Some(node), _) => node.vm.secure_boot,
        (None, Some(desired)) => desired.nodes.iter().all(|node| node.vm.secure_boot),
        (None, None) => false,
    };
    let platform = match found.provider.key() {
        "vmware" => Platform::parse("vmware")?,
        _ => Platform::NOCLOUD,
    };
    let nodes: Vec<String> = match (&args.node, desired) {
        (Some(node), _) => vec![node.clone()],
        (None, Some(desired)) => desired.nodes.iter().map(|node| node.name.to_string()).collect(),
        (None, None) => Vec::new(),
    };
    Ok(Decided {
        provider: args.provider.clone(),
        recognised_as: found.provider.key(),
        talos_version: version.clone(),
        install_image: found.image.as_ref().map(|chosen| chosen.image.clone()),
        from: found.image.as_ref().map(|chosen| match chosen.source {
            talmox_image::install::Source::Description => format!("install_images.{}", chosen.key),
            talmox_image::install::Source::Variable(name) => name.to_owned(),
        }),
        image_schematic: found.image.as_ref().and_then(talmox_image::install::Chosen::schematic),
        additions,
        installer: factory.installer_image(&schematic, version, &platform, secure_boot),
        schematic,
        log: nodes.iter().map(|node| found.log_line(&args.provider, node)).collect(),
    })
}

fn place(place: Place) -> &'static str {
    match place {
        Place::MachineConfig => "machine.install.extraKernelArgs",
        Place::Schematic => "schematic",
    }
}

fn table(decided: &Decided) -> String {
    let mut rows =
        vec![("provider", format!("{}, recognised in {}", decided.recognised_as, decided.provider))];
    rows.push(("talos", decided.talos_version.to_string()));
    rows.push(match (&decided.install_image, &decided.from) {
        (Some(image), Some(from)) => ("image", format!("{image}  ({from})")),
        _ => ("image", format!("{}  (none configured: that of the schematic below)", decided.installer)),
    });
    if decided.install_image.is_some() {
        let inside = match &decided.image_schematic {
            Some(id) if *id == decided.schematic => "its schematic is the one below",
            Some(_) => {
                "its schematic is another than the one below: what is added there must be in it already"
            }
            None => {
                "its name does not say what is in it: what is added to the schematic must be in it already"
            }
        };
        rows.push(("", inside.to_owned()));
    }
    for addition in &decided.additions {
        rows.push(if addition.added {
            ("adds", format!("{} to {}", addition.what, addition.place))
        } else {
            ("needs", format!("{} in the node's own {}", addition.what, addition.place))
        });
        rows.push(("", addition.why.to_owned()));
    }
    rows.push(("schematic", decided.schematic.to_string()));
    if decided.install_image.is_some() {
        rows.push(("installer", format!("{}  (of that schematic)", decided.installer)));
    }
    rows.into_iter().map(|(name, text)| format!("{name:<10} {text}\n")).collect()
}
