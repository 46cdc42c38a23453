//! Which image a machine installs, chosen by the provider it runs on.
//!
//! A provider is recognised by a word anywhere in its name, in any case (`proxmox-prod`, `My-QEMU`); where several
//! words are in it, the longest wins, and of two equally long ones the first. Its image is the one configured for it,
//! else the default one, else none. Machines of virtual providers also get a serial console and the guest agent.

use std::collections::BTreeMap;
use std::fmt;

use talmox_types::{Contract, SchematicId, Version};

use crate::Schematic;

/// The kernel argument that makes a virtual serial port the console.
pub const CONSOLE: &str = "console=ttyS0,115200";

/// The extension through which a hypervisor learns of addresses and asks for shutdowns.
pub const GUEST_AGENT: &str = "siderolabs/qemu-guest-agent";

/// From here on configurations are made with `grubUseUKICmdline`, and Talos refuses extra arguments beside it.
const ARGUMENTS_REFUSED: Contract = Contract::new(1, 12);

/// From here on a fresh install on UEFI boots a unified kernel image, whose arguments are fixed.
const ARGUMENTS_FIXED_ON_UEFI: Contract = Contract::new(1, 10);

/// Virtual providers that have an install image of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    Proxmox,
    Kubevirt,
    Libvirt,
    Kvm,
    Vmware,
    Virtualbox,
    Hyperv,
}

/// The words providers are recognised by.
const WORDS: [(&str, Provider); 9] = [
    ("proxmox", Provider::Proxmox),
    ("kubevirt", Provider::Kubevirt),
    ("libvirt", Provider::Libvirt),
    ("kvm", Provider::Kvm),
    ("qemu", Provider::Kvm),
    ("vmware", Provider::Vmware),
    ("virtualbox", Provider::Virtualbox),
    ("hyper-v", Provider::Hyperv),
    ("hyperv", Provider::Hyperv),
];

/// The key of the image for every virtual provider without one of its own.
pub const DEFAULT: &str = "default";

/// Keys of `install_images` and the variables that set the same.
pub const VARIABLES: [(&str, &str); 8] = [
    ("proxmox", "TALOS_VM_INSTALL_IMAGE_PROXMOX"),
    ("kubevirt", "TALOS_VM_INSTALL_IMAGE_KUBEVIRT"),
    ("libvirt", "TALOS_VM_INSTALL_IMAGE_LIBVIRT"),
    ("kvm", "TALOS_VM_INSTALL_IMAGE_KVM"),
    ("vmware", "TALOS_VM_INSTALL_IMAGE_VMWARE"),
    ("virtualbox", "TALOS_VM_INSTALL_IMAGE_VIRTUALBOX"),
    ("hyperv", "TALOS_VM_INSTALL_IMAGE_HYPERV"),
    (DEFAULT, "TALOS_VM_INSTALL_IMAGE_DEFAULT"),
];

impl Provider {
    /// The virtual provider a name speaks of.
    pub fn detect(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        WORDS
            .iter()
            .filter_map(|(word, provider)| Some((name.find(word)?, word.len(), *provider)))
            .max_by_key(|(place, length, _)| (*length, std::cmp::Reverse(*place)))
            .map(|(_, _, provider)| provider)
    }

    /// Its key in `install_images`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Proxmox => "proxmox",
            Self::Kubevirt => "kubevirt",
            Self::Libvirt => "libvirt",
            Self::Kvm => "kvm",
            Self::Vmware => "vmware",
            Self::Virtualbox => "virtualbox",
            Self::Hyperv => "hyperv",
        }
    }
}

/// The install images somebody configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallImages {
    by_key: BTreeMap<&'static str, (String, Source)>,
}

/// Where an image was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `install_images` of the description.
    Description,
    /// An environment variable, by its name.
    Variable(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Description => "install_images",
            Self::Variable(name) => name,
        })
    }
}

impl InstallImages {
    /// Images by key from a description, and from variables, which win: they are set for one run. An empty one counts
    /// as not set.
    pub fn new(description: &BTreeMap<String, String>, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |text: &String| !text.trim().is_empty();
        let mut by_key = BTreeMap::new();
        for (key, name) in VARIABLES {
            if let Some(image) = variable(name).filter(set) {
                by_key.insert(key, (image.trim().to_owned(), Source::Variable(name)));
            } else if let Some(image) = description.get(key).filter(|text| set(text)) {
                by_key.insert(key, (image.clone(), Source::Description));
            }
        }
        Self { by_key }
    }

    /// The image of a provider: its own, else the default one, else none.
    pub fn choose(&self, provider: Provider) -> Option<Chosen> {
        [provider.key(), DEFAULT].into_iter().find_map(|key| {
            let (image, source) = self.by_key.get(key)?;
            Some(Chosen { image: image.clone(), key, source: *source })
        })
    }
}

/// An install image and why it is that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub image: String,
    /// The key of `install_images` it stands under: the provider's, or `default`.
    pub key: &'static str,
    pub source: Source,
}

impl Chosen {
    /// The schematic inside the image, if its name says it.
    pub fn schematic(&self) -> Option<SchematicId> {
        let last = self.image.rsplit('/').next().unwrap_or_default();
        SchematicId::parse(last.split(['@', ':']).next().unwrap_or_default()).ok()
    }
}

/// Where an addition takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `machine.install.extraKernelArgs` of the machine configuration.
    MachineConfig,
    /// The schematic of the image.
    Schematic,
}

/// What a machine of a virtual provider gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Customization {
    pub provider: Provider,
    pub image: Option<Chosen>,
    /// Where [`CONSOLE`] goes.
    pub console: Place,
    /// Why it goes there.
    pub console_reason: &'static str,
    /// Where [`GUEST_AGENT`] goes.
    pub guest_agent: Place,
    pub guest_agent_reason: &'static str,
}

/// What a machine gets whose provider is called so; none if that is no virtual provider.
pub fn customize(provider: &str, talos: &Version, images: &InstallImages) -> Option<Customization> {
    let provider = Provider::detect(provider)?;
    let (console, console_reason) = console_place(talos.contract());
    Some(Customization {
        provider,
        image: images.choose(provider),
        console,
        console_reason,
        guest_agent: Place::Schematic,
        guest_agent_reason: "extensions are part of the image; no version of Talos reads machine.install.customization",
    })
}

fn console_place(talos: Contract) -> (Place, &'static str) {
    if talos >= ARGUMENTS_REFUSED {
        let reason = "Talos 1.12 and newer refuses install.extraKernelArgs beside grubUseUKICmdline";
        return (Place::Schematic, reason);
    }
    let reason = if talos >= ARGUMENTS_FIXED_ON_UEFI {
        "Talos before 1.12 takes it there; on UEFI, 1.10 and 1.11 heed only the image's own arguments"
    } else {
        "Talos before 1.10 takes it there"
    };
    (Place::MachineConfig, reason)
}

impl Customization {
    /// The line that says what was decided, in the words people search their logs for.
    pub fn log_line(&self, provider: &str, node: &str) -> String {
        let end = match &self.image {
            Some(chosen) => format!("with install image: {}", chosen.image),
            None => "(no custom install image configured)".to_owned(),
        };
        format!(
            "Detected virtual machine provider {provider} for node {node}, applying VM customizations {end}"
        )
    }

    /// The schematic with everything added that belongs there and is not in it yet.
    pub fn schematic(&self, base: &Schematic) -> Schematic {
        let mut schematic = base.clone();
        let add = |list: &mut Vec<String>, item: &str| {
            if !list.iter().any(|known| known == item) {
                list.push(item.to_owned());
            }
        };
        if self.console == Place::Schematic {
            add(&mut schematic.extra_kernel_args, CONSOLE);
        }
        if self.guest_agent == Place::Schematic {
            add(&mut schematic.extensions, GUEST_AGENT);
        }
        schematic
    }

    /// Arguments for `machine.install.extraKernelArgs`.
    pub fn extra_kernel_args(&self) -> &'static [&'static str] {
        match self.console {
            Place::MachineConfig => &[CONSOLE],
            Place::Schematic => &[],
        }
    }
}
