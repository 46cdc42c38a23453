//! What is left between what a description makes and what runs, as patches of cluster, roles and nodes.

use std::collections::BTreeMap;

use talmox_config::edit::Yaml;
use talmox_machine::Config;
use talmox_machine::patch::Between;
use talmox_types::NodeName;
use talmox_types::desired::Role;

use super::{Counts, LiveCluster, LiveNode, NewFile, addresses};

/// The file variables are read from.
const VARIABLES: &str = "talenv.yaml";

/// What stands for a secret until the text is printed: nothing in a configuration looks like it.
const PLACEHOLDER: &str = "talmoxHiddenSecretNumber";

/// Changes by whom they are for.
pub(super) struct Scopes {
    cluster: Between,
    roles: BTreeMap<Role, Between>,
    nodes: BTreeMap<NodeName, Between>,
}

impl Scopes {
    pub(super) fn counts(&self) -> Counts {
        let sum = |all: &mut dyn Iterator<Item = &Between>| all.map(Between::len).sum();
        Counts {
            cluster: self.cluster.len(),
            roles: sum(&mut self.roles.values()),
            nodes: sum(&mut self.nodes.values()),
        }
    }
}

/// A node on its way from what a description makes of it to what it runs with.
struct Way<'a> {
    live: &'a LiveNode,
    at: Config,
}

/// Shares out what leads from the bases, in the order of the nodes, to what runs. Each share is taken from where the one
/// before it led, so whatever that did on the way is made good.
pub(super) fn between(live: &LiveCluster<'_>, bases: &[Config]) -> Scopes {
    let ways = live.nodes.iter().zip(bases).map(|(live, base)| Way { live, at: base.clone() });
    let mut ways: Vec<Way<'_>> = ways.collect();
    let everybody: Vec<usize> = (0..ways.len()).collect();
    let cluster = share(&mut ways, &everybody);
    let mut roles = BTreeMap::new();
    for role in [Role::Controller, Role::Worker] {
        let members = ways.iter().enumerate().filter(|(_, way)| way.live.role == role);
        let members: Vec<usize> = members.map(|(index, _)| index).collect();
        roles.insert(role, share(&mut ways, &members));
    }
    let nodes = ways.iter().map(|way| (way.live.name.clone(), way.at.change_to(&way.live.config)));
    Scopes { cluster, roles, nodes: nodes.collect() }
}

/// What these have in common, carried out on all of them; nothing, if it cannot be.
fn share(ways: &mut [Way<'_>], members: &[usize]) -> Between {
    let changes: Vec<Between> =
        members.iter().map(|index| ways[*index].at.change_to(&ways[*index].live.config)).collect();
    let mut shared = Between::shared(changes.iter());
    if let [only] = members {
        // Nobody else can tell what is its own: that is where its name, address or device stands.
        shared = shared.without(&own_words(ways[*only].live));
    }
    let carried: Result<Vec<Config>, _> =
        members.iter().map(|index| shared.apply(ways[*index].at.clone())).collect();
    match carried {
        Ok(carried) => {
            for (index, config) in members.iter().zip(carried) {
                ways[*index].at = config;
            }
            shared
        }
        Err(_) => Between::default(),
    }
}

fn own_words(node: &LiveNode) -> Vec<String> {
    let mac = node.vm.as_ref().and_then(|vm| vm.mac).map(|mac| mac.to_string());
    let macs = mac.into_iter().flat_map(|mac| [mac.to_ascii_lowercase(), mac.to_ascii_uppercase()]);
    let addresses = addresses::of(node).into_iter().map(|(address, _)| format!("{address}/"));
    [node.name.to_string()].into_iter().chain(addresses).chain(macs).collect()
}

/// Files of patches, where they belong, and what the variables in them stand for.
pub(super) struct Written {
    pub(super) files: BTreeMap<String, String>,
    pub(super) cluster: Vec<String>,
    pub(super) roles: BTreeMap<Role, Vec<String>>,
    pub(super) nodes: BTreeMap<NodeName, Vec<String>>,
    pub(super) variables: Vec<(String, String)>,
}

pub(super) fn write(scopes: &Scopes) -> Written {
    let mut writer = Writer::default();
    let cluster = writer.write("patches/cluster", ("every node has", "no node has"), &scopes.cluster);
    let roles = scopes.roles.iter().map(|(role, change)| {
        let (name, whose) = match role {
            Role::Controller => {
                ("patches/controlplanes", ("every control plane has", "no control plane has"))
            }
            Role::Worker => ("patches/workers", ("every worker has", "no worker has")),
        };
        (*role, writer.write(name, whose, change))
    });
    let roles = roles.collect();
    let nodes = scopes.nodes.iter().map(|(node, change)| {
        let whose = (format!("{node} has"), format!("{node} does not have"));
        let name = format!("patches/nodes/{node}");
        (node.clone(), writer.write(&name, (&whose.0, &whose.1), change))
    });
    let nodes = nodes.collect();
    Written { files: writer.files, cluster, roles, nodes, variables: writer.variables }
}

#[derive(Default)]
struct Writer {
    files: BTreeMap<String, String>,
    /// Names and what they stand for, in the order they came up.
    variables: Vec<(String, String)>,
}

impl Writer {
    /// The names of the files a change was written into, in the order they apply.
    fn write(&mut self, name: &str, (has, lacks): (&str, &str), change: &Between) -> Vec<String> {
        let mut names = Vec::new();
        if let Some(removed) = change.removed() {
            let text = format!(
                "# What the description would add and {lacks}. Take out of here what you want.\n{}",
                literal(&removed)
            );
            names.push(self.add(format!("{name}.removed.yaml"), text));
        }
        let mut hidden: Vec<String> = Vec::new();
        let set = change.set(&mut |place, secret| {
            hidden.push(self.variable(place, secret));
            format!("{PLACEHOLDER}{}x", hidden.len() - 1)
        });
        if let Some(set) = set {
            let mut text = literal(&set);
            for (number, variable) in hidden.iter().enumerate() {
                text = text.replace(&format!("{PLACEHOLDER}{number}x"), &format!("\"${{{variable}}}\""));
            }
            let text = format!("# What {has} and the description has no word for.\n{text}");
            names.push(self.add(format!("{name}.yaml"), text));
        }
        names
    }

    fn add(&mut self, name: String, text: String) -> String {
        self.files.insert(name.clone(), text);
        name
    }

    /// The variable that stands for a secret: one for each.
    fn variable(&mut self, place: &str, secret: &str) -> String {
        if let Some((name, _)) = self.variables.iter().find(|(_, known)| *known == secret) {
            return name.clone();
        }
        let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let plain: String = place.chars().map(word).collect();
        let is_free = |name: &String| !self.variables.iter().any(|(known, _)| known == name);
        let numbered = (2..).map(|number| format!("{plain}_{number}"));
        let name = std::iter::once(plain.clone()).chain(numbered).find(is_free).unwrap_or(plain);
        self.variables.push((name.clone(), secret.to_owned()));
        name
    }
}

/// The text as it must be written so that it is left as it is: what looks like a variable is none.
fn literal(text: &str) -> String {
    let line = |line: &str| {
        // In comments, or what looks like one, nothing is replaced.
        if line.trim_start().starts_with('#') {
            return line.to_owned();
        }
        line.replace("${", "$${").replace("$$patch", "$$$patch")
    };
    text.split_inclusive('\n').map(line).collect()
}

/// What variables stand for, as a file; none where there are none.
pub(super) fn variables_file(variables: &[(String, String)]) -> Option<NewFile> {
    let lines: Vec<String> =
        variables.iter().map(|(name, value)| format!("{name}: {}\n", Yaml::text(value).print())).collect();
    (!lines.is_empty()).then(|| NewFile { name: VARIABLES.to_owned(), text: lines.concat(), secret: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use talmox_machine::{Source, read_values};
    use talmox_render::{Variables, values};

    #[test]
    fn what_looks_like_a_variable_stays_as_it_is() {
        for text in [
            "a: ${NAME}\n",
            "a: $${NAME} $$ $x\n",
            "a: |\n    # ${NAME}\n    echo ${X:-1} $$patch $patch\n",
            "$patch: delete\n",
        ] {
            let meant = read_values(Source { name: "p", text }).unwrap();
            let given = values(Source { name: "p", text: &literal(text) }, &Variables::default()).unwrap();
            assert!(given == meant, "{text}");
        }
    }
}
