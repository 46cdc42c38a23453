//! Versions: known ones, in pairs that run together.

use talmox_types::support::{LINES, TalosLine, line_of};
use talmox_types::{Contract, Version};

use super::Subject;
use crate::problem::{Code, Problem};
use crate::source::Location;

/// The oldest line whose clusters talmox looks after; the two before it are places to upgrade from.
const OLDEST_MANAGED: Contract = Contract::new(1, 12);
const OLDEST_UPGRADABLE: Contract = Contract::new(1, 10);

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    let talos = subject.description.talos_version();
    let Some(line) = line_of(&talos) else {
        if let Some(at) = &file.talos_version {
            unknown(&talos, at.location, problems);
        }
        return;
    };
    if let Some(at) = &file.talos_version
        && line.talos < OLDEST_MANAGED
    {
        old(line, at.location, problems);
    }
    pair(subject, &talos, line, problems);
    contract(subject, &talos, problems);
}

fn unknown(talos: &Version, location: Location, problems: &mut Vec<Problem>) {
    let [oldest, .., newest] = LINES;
    let known = format!("{} to {}", oldest.talos, newest.talos);
    let problem = if talos.contract() > newest.talos {
        Problem::error(Code::VersionUnknown, format!("Talos {talos} is newer than this talmox knows"))
            .at(location, format!("after {}", newest.talos))
    } else {
        Problem::error(Code::VersionUnknown, format!("Talos {talos} is too old"))
            .at(location, format!("before {}", oldest.talos))
    };
    problems.push(problem.hint(format!("Talos {known} is known; a newer talmox may know more")));
}

fn old(line: &TalosLine, location: Location, problems: &mut Vec<Problem>) {
    let (message, hint) = if line.talos < OLDEST_UPGRADABLE {
        ("configuration can be rendered for this Talos, clusters on it are not managed", "use 1.12 or newer")
    } else {
        ("clusters on this Talos are managed only to be upgraded", "upgrade to 1.12 or newer")
    };
    problems.push(
        Problem::warning(Code::VersionUnknown, format!("Talos {} is old: {message}", line.talos))
            .at(location, "old")
            .hint(hint),
    );
}

fn pair(subject: &Subject<'_>, talos: &Version, line: &TalosLine, problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    let Some(kubernetes) = &file.kubernetes_version else { return };
    if line.supports(&kubernetes.value) {
        return;
    }
    let mut problem = Problem::error(
        Code::VersionPair,
        format!("Talos {talos} does not run Kubernetes {}", kubernetes.value),
    )
    .at(kubernetes.location, format!("{} to {} would do", line.kubernetes_from, line.kubernetes_to));
    if let Some(at) = &file.talos_version {
        problem = problem.related(at.location, format!("Talos {}", at.value));
    }
    let fitting: Vec<String> = LINES
        .iter()
        .filter(|line| line.supports(&kubernetes.value) && line.talos >= OLDEST_MANAGED)
        .map(|line| line.talos.to_string())
        .collect();
    problems.push(if fitting.is_empty() {
        problem.hint(format!("{} is what Talos {talos} was made for", line.default_kubernetes()))
    } else {
        problem.hint(format!(
            "Kubernetes {} runs on Talos {}",
            kubernetes.value.contract(),
            fitting.join(", ")
        ))
    });
}

fn contract(subject: &Subject<'_>, talos: &Version, problems: &mut Vec<Problem>) {
    let Some(contract) = &subject.description.cluster.file.talos_contract else { return };
    let [oldest, ..] = LINES;
    if contract.value > talos.contract() {
        problems.push(
            Problem::error(
                Code::Contract,
                format!("Talos {talos} cannot read configuration of contract {}", contract.value),
            )
            .at(contract.location, "newer than Talos itself")
            .hint(format!("{} or older", talos.contract())),
        );
    } else if contract.value < oldest.talos {
        problems.push(
            Problem::error(
                Code::Contract,
                format!("contract {} is older than talmox renders", contract.value),
            )
            .at(contract.location, "too old")
            .hint(format!("{} or newer", oldest.talos)),
        );
    }
}
