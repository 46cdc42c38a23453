//! `talmox schematic`

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use talmox_image::client::{FactoryClient, HttpTransport, Settings};
use talmox_image::{
    Artifact, Compression, DiskFormat, Factory, ImageFile, InvalidSchematic, Remark, Schematic, SecureBoot,
};
use talmox_trust::{Need, Origin};
use talmox_types::desired::Desired;
use talmox_types::support::DEFAULT_TALOS;
use talmox_types::{SchematicId, Url, Version};
use talmox_yaml::NodeKind;

use super::read;
use super::shared::block_on;
use crate::args::{Format, MadeOf, SchematicUrl, SchematicWhat, TrustArgs, Wanted};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::regular_file;
use crate::trust::{Folder, is_official, settle};

/// A schematic is a page of text; anything larger is something else.
const LARGEST_FILE: u64 = 4 << 20;

/// What `url` shows when nothing is asked for by name: all that matters on Proxmox.
const USUAL: [Wanted; 5] = [
    Wanted::File(Artifact::disk(DiskFormat::Qcow2)),
    Wanted::File(Artifact::Disk { format: DiskFormat::Raw, compression: Some(Compression::Xz) }),
    Wanted::File(Artifact::Iso),
    Wanted::Installer,
    Wanted::Pxe,
];

pub(super) fn run(args: &crate::args::Schematic, printer: &Printer) -> anyhow::Result<()> {
    match &args.what {
        SchematicWhat::Id(args) => {
            let schematic = Source::of(&args.made_of, printer)?.schematic;
            let id = schematic.id();
            note_order(&schematic, printer);
            if args.output.output == Format::Table {
                return printer.data(id.as_str());
            }
            printer.structured(args.output.output, &serde_json::json!({ "id": id }))
        }
        SchematicWhat::Show(args) => {
            let schematic = Source::of(&args.made_of, printer)?.schematic;
            if args.output.output == Format::Table {
                return printer.data(&schematic.canonical());
            }
            printer.structured(args.output.output, &Shown::of(&schematic))
        }
        SchematicWhat::Url(args) => url(args, printer),
    }
}

/// What the factory answers when it is told of a schematic.
#[derive(Serialize)]
struct Shown {
    id: SchematicId,
    schematic: String,
}

impl Shown {
    fn of(schematic: &Schematic) -> Self {
        Self { id: schematic.id(), schematic: schematic.canonical() }
    }
}

/// The factory's page sorts extensions, so that the same list has another id there.
pub(super) fn note_order(schematic: &Schematic, printer: &Printer) {
    let mut sorted = schematic.clone();
    sorted.extensions.sort();
    if printer.is_verbose() && sorted != *schematic {
        printer.say(&format!(
            "note: the order of extensions counts; sorted, as the factory's page has them, the id is {}",
            sorted.id()
        ));
    }
}

/// A schematic, and the description it came from if it did.
struct Source {
    schematic: Schematic,
    desired: Option<Box<Desired>>,
    /// The description's, with what it may cause.
    folder: Option<Folder>,
}

impl Source {
    fn of(made_of: &MadeOf, printer: &Printer) -> anyhow::Result<Self> {
        let MadeOf {
            file,
            trust,
            extensions,
            kernel_args,
            meta,
            bootloader,
            enroll_keys,
            well_known_certificates,
        } = made_of;
        let asked = !extensions.is_empty()
            || !kernel_args.is_empty()
            || !meta.is_empty()
            || bootloader.is_some()
            || enroll_keys.is_some()
            || *well_known_certificates;
        let mut source = match file {
            Some(path) => Self::read(path, trust, printer)?,
            None if asked => Self { schematic: Schematic::default(), desired: None, folder: None },
            None => Self::described(Path::new("."), trust, printer)?,
        };
        let schematic = &mut source.schematic;
        schematic.extensions.extend(extensions.iter().cloned());
        schematic.extra_kernel_args.extend(kernel_args.iter().cloned());
        schematic.meta.extend(meta.iter().cloned());
        schematic.bootloader = bootloader.or(schematic.bootloader);
        let SecureBoot { enroll_keys: keys, include_well_known_certificates: known } =
            &mut schematic.secure_boot;
        *keys = enroll_keys.or(*keys);
        *known |= well_known_certificates;
        Ok(source)
    }

    /// A schematic file, or a description: which it is can be seen from its keys.
    fn read(path: &Path, trust: &TrustArgs, printer: &Printer) -> anyhow::Result<Self> {
        if path.is_dir() {
            return Self::described(path, trust, printer);
        }
        let text = read_file(path)?;
        if !is_schematic(&text) {
            return Self::described(path, trust, printer);
        }
        let schematic = Schematic::parse(&text).map_err(|invalid| faults(path, &invalid))?;
        Ok(Self { schematic, desired: None, folder: None })
    }

    fn described(path: &Path, trust: &TrustArgs, printer: &Printer) -> anyhow::Result<Self> {
        let folder = Folder::open(path, trust)?;
        let (_, desired) = read(&folder, printer)?;
        let schematic = Schematic::from(&desired.talos.schematic);
        let own: Vec<&str> = desired
            .nodes
            .iter()
            .filter(|node| node.schematic_id.is_some())
            .map(|node| node.name.as_str())
            .collect();
        if !own.is_empty() {
            printer.say(&format!("note: schematic_id gives {} another schematic than this", own.join(", ")));
        }
        Ok(Self { schematic, desired: Some(Box::new(desired)), folder: Some(folder) })
    }
}

fn read_file(path: &Path) -> anyhow::Result<String> {
    let text = regular_file::text(path, LARGEST_FILE)
        .map_err(|error| Failure::new(format!("could not read {}: {error}", path.display())))?;
    Ok(text.to_string())
}

/// Whether a text has one of a schematic's keys at the top, or nothing a description could be.
fn is_schematic(text: &str) -> bool {
    let parsed = talmox_yaml::parse(text);
    let Some(NodeKind::Mapping(entries)) = parsed.documents.first().map(|document| &document.kind) else {
        return false;
    };
    let keys = entries.iter().filter_map(|entry| entry.key.as_scalar());
    keys.into_iter().any(|key| ["customization", "overlay", "owner"].contains(&key.text.as_str()))
}

fn faults(path: &Path, invalid: &InvalidSchematic) -> Failure {
    let mut text = format!("{} is no schematic", path.display());
    for fault in &invalid.faults {
        text.push_str(&format!("\n  {}:{}:{}: {}", path.display(), fault.line, fault.column, fault.message));
        if let Some(hint) = &fault.hint {
            text.push_str(&format!(" ({hint})"));
        }
    }
    if invalid.more > 0 {
        text.push_str(&format!("\n  {} more mistakes are not shown", invalid.more));
    }
    Failure::new(text)
}

/// An address, and what it is of.
#[derive(Serialize)]
struct Address {
    format: String,
    url: String,
}

/// Everything `url` says, for programs.
#[derive(Serialize)]
struct Addresses {
    id: SchematicId,
    talos_version: Version,
    platform: &'static str,
    arch: &'static str,
    secure_boot: bool,
    urls: Vec<Address>,
}

fn url(args: &SchematicUrl, printer: &Printer) -> anyhow::Result<()> {
    let Source { schematic, desired, folder } = Source::of(&args.made_of, printer)?;
    let described = desired.as_deref().map(|desired| &desired.talos);
    let version =
        args.talos_version.clone().or_else(|| Some(described?.version.clone())).unwrap_or(DEFAULT_TALOS);
    let factory = factory(args.factory.as_ref(), desired.as_deref())?;
    if args.register {
        // A factory the person typed needs no grant; one of the description does.
        if let (None, Some(desired), Some(folder)) = (&args.factory, &desired, &folder) {
            let origin = Origin::of_url(&desired.talos.factory_url)
                .map_err(|error| Failure::new(error.to_string()))?;
            let needs = if is_official(&origin) { Vec::new() } else { vec![Need::Host(origin)] };
            settle(&needs, folder, printer)?;
        }
        block_on(register(&factory, &schematic, &version, printer))?;
    }
    let secure_boot = args.secure_boot
        || desired.as_ref().is_some_and(|desired| desired.nodes.iter().all(|node| node.vm.secure_boot));
    let id = schematic.id();
    let wanted: Vec<Wanted> = args.format.map_or_else(|| USUAL.to_vec(), |wanted| vec![wanted]);
    let urls: Vec<Address> = wanted
        .into_iter()
        .map(|wanted| match wanted {
            Wanted::Installer => Address {
                format: "installer".to_owned(),
                url: factory.installer_image(&id, &version, &args.platform, secure_boot),
            },
            Wanted::Pxe => Address {
                format: "pxe".to_owned(),
                url: factory.pxe_url(&id, &version, &args.platform, args.arch, secure_boot),
            },
            Wanted::File(artifact) => {
                let file = ImageFile { platform: args.platform, arch: args.arch, secure_boot, artifact };
                Address { format: artifact.to_string(), url: factory.image_url(&id, &version, &file) }
            }
        })
        .collect();
    if args.output.output == Format::Table {
        let alone = args.format.is_some();
        let row = |Address { format, url }: &Address| {
            if alone { format!("{url}\n") } else { format!("{format:<10} {url}\n") }
        };
        return printer.data(&urls.iter().map(row).collect::<String>());
    }
    let (platform, arch) = (args.platform.as_str(), args.arch.as_str());
    let addresses = Addresses { id, talos_version: version, platform, arch, secure_boot, urls };
    printer.structured(args.output.output, &addresses)
}

/// The factory somebody named, else the description's, else the public one.
fn factory(named: Option<&Url>, desired: Option<&Desired>) -> anyhow::Result<Factory> {
    match (named, desired) {
        (Some(url), _) => Ok(Factory::new(url.clone())),
        (None, Some(desired)) => Ok(Factory::new(Url::parse(&desired.talos.factory_url)?)),
        (None, None) => Ok(Factory::official()),
    }
}

async fn register(
    factory: &Factory,
    schematic: &Schematic,
    version: &Version,
    printer: &Printer,
) -> anyhow::Result<()> {
    let client = FactoryClient::new(factory.clone(), Arc::new(HttpTransport::new()?), Settings::default());
    let remarks = client.check(schematic, version).await?;
    for remark in &remarks {
        printer.say(&remark.to_string());
    }
    if remarks.iter().any(|remark| matches!(remark, Remark::Unknown { .. })) {
        return Err(Failure::new(format!(
            "Talos {version} does not have every extension; nothing was registered"
        ))
        .with_hint(format!("{}/version/v{version}/extensions/official lists those it has", factory.base()))
        .into());
    }
    let id = client.register(schematic).await?;
    printer.say(&format!("{} knows the schematic {id}", factory.base()));
    Ok(())
}
