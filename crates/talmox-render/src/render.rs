//! One node's configuration.

use std::fmt;

use talmox_image::install::{Customization, InstallImages, customize};
use talmox_image::{Factory, Platform, Schematic};
use talmox_machine::validate::Problem;
use talmox_machine::{Config, Faults, Input, InputError, Options, PatchError, Role};
use talmox_types::desired::{Cni, Role as NodeRole};
use talmox_types::{Contract, Url};

use crate::inputs::Inputs;
use crate::layer::Layer;
use crate::patches::{self, Blamed};
use crate::variables::InvalidVariable;

/// Until here arguments of the kernel are part of the configuration; later the image has them, and Talos refuses both.
const KERNEL_ARGUMENTS_IN_IMAGE: Contract = Contract::new(1, 12);

/// Before this release the installer knew nothing of a schematic's kernel arguments, unless it was one for Secure Boot.
const INSTALLER_HAS_ARGUMENTS: Contract = Contract::new(1, 10);

/// The port of the local load balancer for the Kubernetes API.
const KUBEPRISM: u16 = 7445;

/// A configuration Talos takes.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub config: Config,
    /// What Talos would remark upon.
    pub warnings: Vec<Problem>,
    /// What the description asks for and is not known yet, in words.
    pub left_out: Vec<String>,
}

/// Why there is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("{0}")]
    Input(InputError),
    #[error(
        "cluster_api_addr is two addresses, and the layout of contract {0} has room for one; set talos_contract to 1.12 or newer"
    )]
    TwoVirtualAddresses(Contract),
    #[error("two taints have the key {0}, and Talos gives a node one for each key")]
    TwoTaints(String),
    #[error("the text of the CNI manifest {0} is missing")]
    MissingManifest(String),
    #[error("{0}")]
    Variable(InvalidVariable),
    /// Not a patch.
    #[error("{0}")]
    InvalidPatch(Faults),
    /// Patches, or parts of them, that Talos would pass over in silence.
    #[error("{0}")]
    Idle(Faults),
    #[error("{0}")]
    Patch(PatchError),
    /// What patches made of it.
    #[error("{}", lines(.0))]
    Blamed(Vec<Blamed>),
    /// What the description itself made.
    #[error("Talos {talos} would refuse what the description says:\n{}", lines(.problems))]
    Refused { talos: Contract, problems: Vec<Problem> },
}

fn lines<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Makes a node's configuration: the base, what the description says, the patches; then asks what Talos would refuse.
pub fn render(inputs: &Inputs<'_>) -> Result<Rendered, RenderError> {
    let name = format!("the configuration of {}", inputs.node.name);
    let layer = Layer::of(inputs)?;
    let said = [layer.to_patch()?];
    let described = || patches::apply(base(inputs)?, &name, &said);
    let config = described()?;
    let given = patches::read(inputs)?;
    let config = patches::apply(config, &name, &given)?;
    let talos = inputs.desired.talos.version.contract();
    let (refused, warnings) = patches::validate(&config, talos);
    if !refused.is_empty() {
        return Err(patches::blame(&described()?, &given, &refused, talos));
    }
    Ok(Rendered { config, warnings, left_out: layer.left_out })
}

/// What `talosctl` would make of the same.
fn base(inputs: &Inputs<'_>) -> Result<Config, RenderError> {
    let desired = inputs.desired;
    let input = Input {
        contract: desired.talos.contract,
        cluster_name: desired.name.to_string(),
        endpoint: desired.network.endpoint.clone(),
        kubernetes: desired.kubernetes.version.to_string(),
        secrets: inputs.bundle,
        options: options(inputs),
    };
    let role = match inputs.node.role {
        NodeRole::Controller => Role::ControlPlane,
        NodeRole::Worker => Role::Worker,
    };
    input.generate(role).map_err(RenderError::Input)
}

fn options(inputs: &Inputs<'_>) -> Options {
    let (network, kubernetes) = (&inputs.desired.network, &inputs.desired.kubernetes);
    let subnets = |pair: &talmox_types::FamilyPair<talmox_types::Cidr>| {
        pair.iter().map(|cidr| cidr.network().to_string()).collect::<Vec<_>>()
    };
    let cni_urls = match &kubernetes.cni {
        Cni::Urls(urls) => urls.clone(),
        Cni::Flannel | Cni::None | Cni::Manifest(_) => Vec::new(),
    };
    let disk = &inputs.node.install_disk;
    Options {
        additional_sans: names(inputs),
        allow_scheduling_on_control_planes: kubernetes.allow_scheduling_on_control_planes,
        dns_domain: kubernetes.dns_domain.clone(),
        pod_subnets: subnets(&network.pod_cidr),
        service_subnets: subnets(&network.service_cidr),
        install_disk: disk.starts_with('/').then(|| disk.clone()),
        install_image: Some(install_image(inputs)),
        extra_kernel_args: kernel_arguments(inputs),
        cni_urls,
        registry_mirrors: kubernetes.registry_mirrors.clone(),
        discovery: kubernetes.discovery,
        kubespan: kubernetes.kubespan.then_some(true),
        kubeprism_port: kubernetes.kubeprism.then_some(KUBEPRISM),
        ..Options::default()
    }
}

/// Names the certificates are good for besides those of the node: the shared addresses, which a node has only at times,
/// and what the description adds.
fn names(inputs: &Inputs<'_>) -> Vec<String> {
    let network = &inputs.desired.network;
    let shared =
        network.vip.iter().flat_map(talmox_types::FamilyPair::iter).map(|address| address.to_string());
    let mut names: Vec<String> = Vec::new();
    for name in shared.chain(network.api_tls_sans.iter().cloned()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The provider's install image if one is configured, else the installer of the schematic the VM was made from: another
/// one would make every upgrade a change of extensions.
pub(crate) fn install_image(inputs: &Inputs<'_>) -> String {
    let talos = &inputs.desired.talos;
    let images: &InstallImages = inputs.install_images;
    if let Some(chosen) = customize(PROVIDER, &talos.version, images).and_then(|found| found.image) {
        return chosen.image;
    }
    let schematic =
        inputs.node.schematic_id.clone().unwrap_or_else(|| Schematic::from(&talos.schematic).id());
    let factory = Url::parse(&talos.factory_url).map_or_else(|_| Factory::official(), Factory::new);
    factory.installer_image(&schematic, &talos.version, &Platform::NOCLOUD, inputs.node.vm.secure_boot)
}

/// Who these machines are provided by.
const PROVIDER: &str = "proxmox";

/// Arguments that belong into the configuration: the serial console where Talos still takes it there, and the
/// schematic's own where the installer would forget them. Later the image has all of them.
fn kernel_arguments(inputs: &Inputs<'_>) -> Vec<String> {
    let talos = &inputs.desired.talos;
    let version = talos.version.contract();
    if talos.contract >= KERNEL_ARGUMENTS_IN_IMAGE || version >= KERNEL_ARGUMENTS_IN_IMAGE {
        return Vec::new();
    }
    let found = customize(PROVIDER, &talos.version, inputs.install_images);
    let console = found.iter().flat_map(Customization::extra_kernel_args).map(|text| (*text).to_owned());
    let forgotten = version < INSTALLER_HAS_ARGUMENTS && !inputs.node.vm.secure_boot;
    let own = inputs.node.schematic_id.is_none().then_some(&talos.schematic.kernel_args);
    let own = own.filter(|_| forgotten).into_iter().flatten().cloned();
    let mut arguments: Vec<String> = Vec::new();
    for argument in console.chain(own) {
        if !arguments.contains(&argument) {
            arguments.push(argument);
        }
    }
    arguments
}
