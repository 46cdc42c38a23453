//! Errors without what is not to be shown.
//!
//! Keys, names and kinds of documents come out of patches, and in them may stand what a variable stood for, or what is written in a
//! file that is no patch at all.

use talmox_machine::validate::Problem;
use talmox_machine::{Fault, Hidden, PatchError, Place};

use crate::inputs::PatchText;
use crate::patches::Blamed;
use crate::render::RenderError;
use crate::variables::{InvalidVariable, Unset};

/// What is said instead of anything that is written in a file outside.
const NOTHING_SHOWN: &str = "this is no patch Talos takes; the file is outside of the description's folder, so nothing of it is shown";
const NAME_NOT_SHOWN: &str =
    "a variable has no value; the file is outside of the description's folder, so its name is not shown";

impl RenderError {
    /// The same error with a mask in the place of everything hidden.
    #[must_use]
    pub(crate) fn without(mut self, hidden: &Hidden) -> Self {
        match &mut self {
            Self::Input(_) | Self::TwoVirtualAddresses(_) | Self::Unset(_) => {}
            Self::TwoTaints(text) | Self::MissingManifest(text) => *text = hidden.cover_message(text),
            Self::Variable(InvalidVariable { message, .. }) => *message = hidden.cover_message(message),
            Self::InvalidPatch(faults) | Self::Idle(faults) | Self::Patch(PatchError::Config(faults)) => {
                for fault in &mut faults.0 {
                    self::fault(fault, hidden);
                }
            }
            Self::Patch(
                PatchError::Refused { patch, target, message } | PatchError::Clash { patch, target, message },
            ) => {
                place(patch, hidden);
                *target = hidden.cover_message(target);
                *message = hidden.cover_message(message);
            }
            Self::Blamed(blamed) => {
                for Blamed { place, message, against } in blamed {
                    *place = hidden.cover(place);
                    *message = hidden.cover_message(message);
                    *against = against.as_deref().map(|against| hidden.cover_message(against));
                }
            }
            Self::Refused { problems, .. } => {
                for problem in problems {
                    self::problem(problem, hidden);
                }
            }
        }
        self
    }

    /// The same error without what is written in files outside of the description's folder that are no patches: only where in them
    /// something is wrong. What is a patch to Talos is told as any other.
    #[must_use]
    pub fn without_texts_of(mut self, outside: &[&PatchText]) -> Self {
        let is_outside = |name: &str| outside.iter().any(|patch| patch.name == name);
        match &mut self {
            Self::Variable(InvalidVariable { source_name, message, .. }) if is_outside(source_name) => {
                NOTHING_SHOWN.clone_into(message);
            }
            Self::Unset(unset) => {
                let (hidden, shown): (Vec<Unset>, Vec<Unset>) =
                    std::mem::take(unset).into_iter().partition(|one| is_outside(&one.source_name));
                match hidden.into_iter().next() {
                    Some(Unset { source_name, line, .. }) if shown.is_empty() => {
                        let message = NAME_NOT_SHOWN.to_owned();
                        return Self::Variable(InvalidVariable { source_name, line, message });
                    }
                    Some(_) | None => *unset = shown,
                }
            }
            Self::InvalidPatch(faults) => {
                for fault in faults.0.iter_mut().filter(|fault| is_outside(&fault.place.source)) {
                    fault.place.path.clear();
                    NOTHING_SHOWN.clone_into(&mut fault.message);
                }
            }
            Self::Input(_)
            | Self::TwoVirtualAddresses(_)
            | Self::TwoTaints(_)
            | Self::MissingManifest(_)
            | Self::Variable(_)
            | Self::Idle(_)
            | Self::Patch(_)
            | Self::Blamed(_)
            | Self::Refused { .. } => {}
        }
        self
    }
}

fn place(place: &mut Place, hidden: &Hidden) {
    place.path = hidden.cover(&place.path);
}

fn fault(fault: &mut Fault, hidden: &Hidden) {
    place(&mut fault.place, hidden);
    fault.message = hidden.cover_message(&fault.message);
}

pub(crate) fn problem(problem: &mut Problem, hidden: &Hidden) {
    problem.document = hidden.cover(&problem.document);
    problem.path = hidden.cover(&problem.path);
    problem.message = hidden.cover_message(&problem.message);
}
