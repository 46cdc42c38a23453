//! Whether what is installed is what the description declares.

use talmox_image::Schematic;
use talmox_types::NodeName;

use super::{Court, Rule};
use crate::{Planned, SeenMachine, Step, Upkeep};

pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        if let Step::Upkeep(Upkeep::UpgradeNode { vm, to, installer, schematic, .. }) = &step.step {
            described(court, step, (&vm.mark.node, to), (installer, schematic.as_deref()));
        }
    }
}

/// The installer is of the version and schematic the description declares, or one the described configuration names.
fn described(
    court: &mut Court<'_>,
    step: &Planned,
    (node, to): (&NodeName, &str),
    (installer, schematic): (&str, Option<&str>),
) {
    let talos = &court.desired.talos;
    if *to != talos.version.to_string() {
        let problem = format!("it installs Talos {to}, described is {}", talos.version);
        court.violate(Rule::Installer, step, problem);
    }
    if schematic.is_some_and(|schematic| !installer.contains(schematic)) {
        court.violate(Rule::Installer, step, "its installer is not made from the schematic it says");
    }
    let Some(declared) = court.node(node) else { return };
    let own = declared.schematic_id.clone().unwrap_or_else(|| Schematic::from(&talos.schematic).id());
    let named = match court.observed.talos.get(node) {
        Some(SeenMachine::Configured(seen)) => {
            let changed = seen.config.iter().flatten().filter_map(|change| change.new.as_deref());
            changed.chain(seen.images.values().map(String::as_str)).any(|image| image == installer)
        }
        Some(
            SeenMachine::Unreachable { .. } | SeenMachine::Maintenance { .. } | SeenMachine::Foreign { .. },
        )
        | None => false,
    };
    if !named && schematic != Some(own.as_str()) {
        court.violate(Rule::Installer, step, format!("{installer} is not what the description declares"));
    }
}
