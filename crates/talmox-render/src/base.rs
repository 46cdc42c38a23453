//! What `talosctl` would make: the configuration before anything the description adds to it.

use talmox_image::install::{Customization, InstallImages, customize};
use talmox_image::{Factory, Platform, Schematic};
use talmox_machine::{Config, Input, Options, Role};
use talmox_types::desired::{Cni, Node, Role as NodeRole};
use talmox_types::{Contract, SchematicId, Url};

use crate::inputs::Inputs;
use crate::render::RenderError;

/// Until here arguments of the kernel are part of the configuration; later the image has them, and Talos refuses both.
const KERNEL_ARGUMENTS_IN_IMAGE: Contract = Contract::new(1, 12);

/// Before this release the installer knew nothing of a schematic's kernel arguments, unless it was one for Secure Boot.
const INSTALLER_HAS_ARGUMENTS: Contract = Contract::new(1, 10);

/// The port of the local load balancer for the Kubernetes API.
const KUBEPRISM: u16 = 7445;

/// What a base depends on besides the description: nodes that are alike in this have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    role: NodeRole,
    install_disk: String,
    schematic: Option<SchematicId>,
    secure_boot: bool,
}

impl Machine {
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            role: node.role,
            install_disk: node.install_disk.clone(),
            schematic: node.schematic_id.clone(),
            secure_boot: node.vm.secure_boot,
        }
    }
}

/// What `talosctl` would make of the same.
pub(crate) fn of(inputs: &Inputs<'_>) -> Result<Config, RenderError> {
    let desired = inputs.desired;
    let machine = Machine::of(inputs.node);
    let input = Input {
        contract: desired.talos.contract,
        cluster_name: desired.name.to_string(),
        endpoint: desired.network.endpoint.clone(),
        kubernetes: desired.kubernetes.version.to_string(),
        secrets: inputs.bundle,
        options: options(inputs, &machine),
    };
    let role = match machine.role {
        NodeRole::Controller => Role::ControlPlane,
        NodeRole::Worker => Role::Worker,
    };
    input.generate(role).map_err(RenderError::Input)
}

fn options(inputs: &Inputs<'_>, machine: &Machine) -> Options {
    let (network, kubernetes) = (&inputs.desired.network, &inputs.desired.kubernetes);
    let subnets = |pair: &talmox_types::FamilyPair<talmox_types::Cidr>| {
        pair.iter().map(|cidr| cidr.network().to_string()).collect::<Vec<_>>()
    };
    let cni_urls = match &kubernetes.cni {
        Cni::Urls(urls) => urls.clone(),
        Cni::Flannel | Cni::None | Cni::Manifest(_) => Vec::new(),
    };
    let disk = &machine.install_disk;
    Options {
        additional_sans: names(inputs),
        allow_scheduling_on_control_planes: kubernetes.allow_scheduling_on_control_planes,
        dns_domain: kubernetes.dns_domain.clone(),
        pod_subnets: subnets(&network.pod_cidr),
        service_subnets: subnets(&network.service_cidr),
        install_disk: disk.starts_with('/').then(|| disk.clone()),
        install_image: Some(install_image(inputs, machine)),
        extra_kernel_args: kernel_arguments(inputs, machine),
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
pub(crate) fn install_image(inputs: &Inputs<'_>, machine: &Machine) -> String {
    let talos = &inputs.desired.talos;
    let images: &InstallImages = inputs.install_images;
    if let Some(chosen) = customize(PROVIDER, &talos.version, images).and_then(|found| found.image) {
        return chosen.image;
    }
    let schematic = machine.schematic.clone().unwrap_or_else(|| Schematic::from(&talos.schematic).id());
    let factory = Url::parse(&talos.factory_url).map_or_else(|_| Factory::official(), Factory::new);
    factory.installer_image(&schematic, &talos.version, &Platform::NOCLOUD, machine.secure_boot)
}

/// Who these machines are provided by.
const PROVIDER: &str = "proxmox";

/// Arguments that belong into the configuration: the serial console where Talos still takes it there, and the
/// schematic's own where the installer would forget them. Later the image has all of them.
fn kernel_arguments(inputs: &Inputs<'_>, machine: &Machine) -> Vec<String> {
    let talos = &inputs.desired.talos;
    let version = talos.version.contract();
    if talos.contract >= KERNEL_ARGUMENTS_IN_IMAGE || version >= KERNEL_ARGUMENTS_IN_IMAGE {
        return Vec::new();
    }
    let found = customize(PROVIDER, &talos.version, inputs.install_images);
    let console = found.iter().flat_map(Customization::extra_kernel_args).map(|text| (*text).to_owned());
    let forgotten = version < INSTALLER_HAS_ARGUMENTS && !machine.secure_boot;
    let own = machine.schematic.is_none().then_some(&talos.schematic.kernel_args);
    let own = own.filter(|_| forgotten).into_iter().flatten().cloned();
    let mut arguments: Vec<String> = Vec::new();
    for argument in console.chain(own) {
        if !arguments.contains(&argument) {
            arguments.push(argument);
        }
    }
    arguments
}
