//! One setting given in two places of equal rank.

use super::Subject;
use crate::file::Settings;
use crate::problem::{Code, Problem};
use crate::read::Block;

/// Settings whose places add up instead of beating each other.
const ADDED_UP: [&str; 4] = ["labels", "annotations", "drift", "patches"];

/// The top level, `proxmox_vm_defaults` and `proxmox_vm_advanced` all speak for the whole cluster: where two of them
/// disagree nobody can say who wins.
pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let cluster = &subject.description.cluster;
    let places = [
        ("", &cluster.top),
        ("proxmox_vm_defaults.", &cluster.defaults),
        ("proxmox_vm_advanced.", &cluster.advanced),
    ];
    for key in Settings::info().keys.iter().filter(|key| !ADDED_UP.contains(&key.name)) {
        let mut set =
            places.iter().filter_map(|(prefix, settings)| Some((*prefix, settings.shown(key.name)?)));
        let Some((first_prefix, first)) = set.next() else { continue };
        for (prefix, other) in set {
            if first.text == other.text {
                continue;
            }
            let (one, two) = (format!("{first_prefix}{}", first.key), format!("{prefix}{}", other.key));
            problems.push(
                Problem::error(
                    Code::AliasConflict,
                    format!("{one} and {two} are one setting, and they disagree"),
                )
                .at(other.location, format!("{two} says {}", other.text))
                .related(first.location, format!("{one} says {}", first.text))
                .hint("keep one of them"),
            );
        }
    }
}
