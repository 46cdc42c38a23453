//! Makes the configuration of every node once, before anything is sent anywhere: what Talos would refuse is known then, of all
//! nodes together, and not when VMs are waiting for it.
//!
//! Made with secrets nobody is given, and with addresses as an empty Proxmox would give them: neither decides whether Talos
//! takes the result.

use std::collections::{BTreeMap, BTreeSet};

use talmox_config::{Code, Problem, Severity};
use talmox_machine::{Bundle, SystemRandom};
use talmox_plan::{Given, given_by_an_empty_proxmox};
use talmox_render::{Accepts, RenderError, Rendered, Unset, Whereabouts};
use talmox_types::NodeName;
use talmox_types::desired::{Node, NodeAddress};

use super::configs::{Blame, Described, Ingredients, Unrendered, Whole, named, now};
use crate::variables_file;

/// What keeps nodes from having a configuration, each thing once with those it is true of. `unset` is how bad it is that a
/// variable has no value: whoever only looks may lack what whoever applies has. An error means that nobody can tell.
pub(super) fn problems(
    described: &Described<'_>,
    covers: impl Fn(&NodeName) -> bool,
    unset: Severity,
) -> anyhow::Result<Vec<Problem>> {
    let mut found: Vec<(Wrong, Vec<NodeName>)> = Vec::new();
    let mut without_value = WithoutValue::default();
    rehearse(described, covers, |node, made| match made {
        Err(Unrendered::Error(RenderError::Unset(unset))) => without_value.add(node, unset),
        made => {
            for wrong in made.err().map(wrongs).unwrap_or_default() {
                match found.iter_mut().find(|(known, _)| *known == wrong) {
                    Some((_, nodes)) => nodes.push(node.clone()),
                    None => found.push((wrong, vec![node.clone()])),
                }
            }
        }
    })?;
    let told = found.into_iter().map(|(wrong, nodes)| wrong.told(&nodes));
    Ok(without_value.told(unset).into_iter().chain(told).collect())
}

/// Variables without a value, of all nodes: one problem, so that they can be added at once.
#[derive(Default)]
struct WithoutValue {
    unset: BTreeSet<Unset>,
    nodes: Vec<NodeName>,
}

impl WithoutValue {
    fn add(&mut self, node: &NodeName, unset: Vec<Unset>) {
        self.unset.extend(unset);
        self.nodes.push(node.clone());
    }

    fn told(self, severity: Severity) -> Option<Problem> {
        let unset: Vec<Unset> = self.unset.into_iter().collect();
        let first = unset.first()?;
        let names: BTreeSet<&str> = unset.iter().map(|one| one.name.as_str()).collect();
        let message = if names.len() == 1 {
            first.what()
        } else {
            let place = |one: &Unset| format!("{} ({}:{})", one.name, one.source_name, one.line);
            let places: Vec<String> = unset.iter().map(place).collect();
            format!("{} variables have no value: {}", names.len(), places.join(", "))
        };
        let message = format!("{message} (for {})", named(&self.nodes));
        let problem = match severity {
            Severity::Warning | Severity::Note => Problem::warning(Code::MachineConfig, message),
            Severity::Error => Problem::error(Code::MachineConfig, message),
        };
        Some(problem.in_file(&first.source_name, first.line, 1).hint(variables_file::advice(&unset)))
    }
}

/// Authorities that patches have machines accept, each once. What has no configuration is told elsewhere.
pub(super) fn accepts(described: &Described<'_>) -> anyhow::Result<BTreeSet<Accepts>> {
    let mut found = BTreeSet::new();
    rehearse(
        described,
        |_| true,
        |_, made| {
            found.extend(made.into_iter().flat_map(|rendered| rendered.accepts));
        },
    )?;
    Ok(found)
}

/// Makes the configuration of each node that is covered, and hands on what became of it.
fn rehearse(
    described: &Described<'_>,
    covers: impl Fn(&NodeName) -> bool,
    mut made: impl FnMut(&NodeName, Result<Rendered, Unrendered>),
) -> anyhow::Result<()> {
    let ingredients = Ingredients::read(described)?;
    let Described { outcome, desired, folder, .. } = *described;
    let bundle = Bundle::for_rehearsal(desired.talos.contract, now(), &mut SystemRandom)?;
    let whole = Whole { outcome, desired, bundle: &bundle, folder };
    let renderer = whole.renderer(&ingredients);
    let given = given_by_an_empty_proxmox(desired);
    let members = outcome.description.members();
    for (node, member) in desired.nodes.iter().zip(&members).filter(|(node, _)| covers(&node.name)) {
        let Some(whereabouts) = whereabouts(node, &given) else { continue };
        made(&node.name, whole.attempt((node, member), &whereabouts, &renderer));
    }
    Ok(())
}

/// One thing that is wrong.
#[derive(PartialEq)]
struct Wrong {
    text: String,
    blame: Blame,
}

fn wrongs(why: Unrendered) -> Vec<Wrong> {
    let (text, blame) = match why {
        Unrendered::File(failure) => (failure.to_string(), Blame::Description),
        Unrendered::Error(error) => (error.to_string(), Blame::of(&error)),
    };
    match blame {
        // A line for each.
        Blame::Patch => text.lines().map(|line| Wrong { text: line.to_owned(), blame }).collect(),
        Blame::Description => vec![Wrong { text, blame }],
    }
}

/// Where an empty Proxmox would have a node. A pool that is too small is told by the rules.
fn whereabouts(node: &Node, given: &BTreeMap<NodeName, Given>) -> Option<Whereabouts> {
    let address = match &node.address {
        NodeAddress::Declared(address) => *address,
        NodeAddress::FromPool(_) => given.get(&node.name)?.address?,
    };
    Some(Whereabouts { address, vmid: node.vm.id, host: node.vm.host.clone(), uuid: None })
}

impl Wrong {
    fn told(&self, nodes: &[NodeName]) -> Problem {
        let (place, text) = match place(&self.text) {
            Some((place, rest)) => (Some(place), rest),
            None => (None, self.text.as_str()),
        };
        let message = format!("{text} (for {})", named(nodes));
        let problem = Problem::error(Code::MachineConfig, message);
        let problem = match place {
            Some((name, line, column)) => problem.in_file(name, line, column),
            None => problem,
        };
        match nodes.first().and_then(|first| self.blame.hint(first)) {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

/// `patch.yaml:5:14: what is wrong`, taken apart; the column may be missing.
fn place(text: &str) -> Option<((&str, usize, usize), &str)> {
    let (place, rest) = text.split_once(": ")?;
    let (before, last) = place.rsplit_once(':')?;
    let last: usize = last.parse().ok()?;
    if let Some((name, line)) = before.rsplit_once(':')
        && let Ok(line) = line.parse()
    {
        return Some(((name, line, last), rest));
    }
    Some(((before, last, 1), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_what_is_said() {
        let cases = [
            ("lab/p.yaml:5:14: machine.time: no", Some((("lab/p.yaml", 5, 14), "machine.time: no"))),
            ("p.yaml:7: ${A} has no value", Some((("p.yaml", 7, 1), "${A} has no value"))),
            ("Talos 1.14 would refuse: this", None),
            ("nothing at all", None),
        ];
        for (text, expected) in cases {
            assert_eq!(place(text), expected, "{text}");
        }
    }
}
