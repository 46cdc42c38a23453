//! Patches: read, applied, and blamed for what Talos would refuse.

use std::collections::BTreeSet;
use std::fmt;

use talmox_machine::validate::{Mode, Problem, Severity};
use talmox_machine::{Config, Faults, Patch, PatchError, Source, patch};
use talmox_types::Contract;

use crate::inputs::Inputs;
use crate::render::RenderError;
use crate::substitute::{Unusable, substitute};

/// Proxmox boots Talos as the platform nocloud, which is a cloud to Talos: installing is not checked.
pub(crate) const MODE: Mode = Mode::Cloud;

/// A field or document Talos would refuse, with the patch that brought it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blamed {
    /// Where in the patch.
    pub place: String,
    pub message: String,
    /// What it does not go together with, and where that comes from.
    pub against: Option<String>,
}

impl fmt::Display for Blamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        self.against.as_ref().map_or(Ok(()), |against| write!(f, " ({against})"))
    }
}

/// The patches with their variables replaced, and nothing in them that would come to nothing.
pub(crate) fn read(inputs: &Inputs<'_>) -> Result<Vec<Patch>, RenderError> {
    let mut trees = Vec::with_capacity(inputs.patches.len());
    let mut unset = BTreeSet::new();
    for given in inputs.patches {
        let source = Source { name: &given.name, text: &given.text };
        let substituted = substitute(source, inputs.variables).map_err(|unusable| match unusable {
            Unusable::Variable(invalid) => RenderError::Variable(invalid),
            Unusable::Faults(faults) => RenderError::InvalidPatch(faults),
        })?;
        unset.extend(substituted.unset);
        trees.push(substituted.tree);
    }
    // All of them at once: whoever has to add them wants to do so once.
    if !unset.is_empty() {
        return Err(RenderError::Unset(unset.into_iter().collect()));
    }
    let mut idle = Vec::new();
    let mut patches = Vec::with_capacity(trees.len());
    for tree in trees {
        let patch = tree.read().map_err(RenderError::InvalidPatch)?;
        idle.extend(patch.idle());
        patches.push(patch);
    }
    if !idle.is_empty() {
        return Err(RenderError::Idle(Faults(idle)));
    }
    Ok(patches)
}

/// Applies them in order. A document that is to go and is not there would be passed over by Talos in silence.
pub(crate) fn apply(config: Config, name: &str, patches: &[Patch]) -> Result<Config, RenderError> {
    if patches.is_empty() {
        return Ok(config);
    }
    let result = patch::apply(config, name, patches).map_err(RenderError::Patch)?;
    if !result.ignored.is_empty() {
        return Err(RenderError::Idle(Faults(result.ignored)));
    }
    result.into_config(name).map_err(|faults| RenderError::Patch(PatchError::Config(faults)))
}

/// Says of everything Talos would refuse which patch brought it; what none did comes from the description.
pub(crate) fn blame(
    described: &Config,
    patches: &[Patch],
    refused: &[Problem],
    talos: Contract,
) -> RenderError {
    let mut blamed = Vec::new();
    let mut own = Vec::new();
    let before = |problem: &Problem, count: usize| {
        let config = apply(described.clone(), "the configuration", &patches[..count]).ok();
        config.is_some_and(|config| config.validate(MODE, talos).contains(problem))
    };
    for problem in refused {
        match (0..=patches.len()).find(|count| before(problem, *count)) {
            Some(0) | None => own.push(problem.clone()),
            Some(count) => blamed.push(with_places(problem, &patches[count - 1], &patches[..count - 1])),
        }
    }
    if blamed.is_empty() {
        RenderError::Refused { talos, problems: own }
    } else {
        RenderError::Blamed(blamed)
    }
}

fn with_places(problem: &Problem, patch: &Patch, earlier: &[Patch]) -> Blamed {
    let Problem { document, path, message, against, .. } = problem;
    let origin = |place: Option<talmox_machine::Place>| {
        place.map_or_else(|| "made from the description".to_owned(), |place| format!("from {place}"))
    };
    if let Some(place) = patch.place_of(document, path) {
        let against = against.as_ref().map(|kind| {
            let found = earlier.iter().chain([patch]).find_map(|patch| patch.place_of_kind(kind));
            format!("{kind} is {}", origin(found))
        });
        return Blamed { place: place.to_string(), message: message.clone(), against };
    }
    let section = if path.is_empty() { document } else { path };
    // The patch brought the document, and the section it excludes was there.
    if let Some((kind, place)) = against.as_ref().and_then(|kind| Some((kind, patch.place_of_kind(kind)?))) {
        let found = earlier.iter().find_map(|patch| patch.place_of(document, path));
        return Blamed {
            place: place.to_string(),
            message: format!("{kind} and {section} exclude each other"),
            against: Some(format!("{section} is {}", origin(found))),
        };
    }
    Blamed { place: patch.name().to_owned(), message: problem.to_string(), against: None }
}

/// What Talos would refuse, and what it would only remark upon.
pub(crate) fn validate(config: &Config, talos: Contract) -> (Vec<Problem>, Vec<Problem>) {
    config.validate(MODE, talos).into_iter().partition(|problem| problem.severity == Severity::Error)
}
