//! The description as it is being written.

use talmox_config::edit::{Setting, Yaml, edit};
use talmox_config::{Files, Outcome, read_files};
use talmox_plan::{Nonce, Observed};
use talmox_types::desired::{Desired, Role};
use talmox_types::{Contract, NodeName};

use super::addresses::Addresses;
use super::facts::Facts;
use super::patches::Written;
use super::settings::{Candidate, Said, Scoped};
use super::{DescribeError, LiveCluster, LiveNode, errors};
use crate::{Proposal, Selection, propose};

/// Texts that were read and are valid.
pub(super) struct Draft {
    head: String,
    lines: Vec<(&'static str, Yaml)>,
    nodes: String,
    outcome: Box<Outcome>,
}

/// A draft as it was.
pub(super) struct Saved {
    lines: Vec<(&'static str, Yaml)>,
    nodes: String,
}

impl Draft {
    pub(super) fn new(
        live: &LiveCluster<'_>,
        facts: &Facts,
        addresses: &[Addresses],
    ) -> Result<Self, DescribeError> {
        let name = Yaml::text(&facts.name).print();
        let head = format!(
            "# The cluster, as it was found. The nodes are in nodes.yaml, and what neither has a word for in patches.\n\
             cluster_name: {name}\n\
             # Tells this cluster from others of its name. Never change it: VMs are recognised by it.\n\
             cluster_uid: \"{}\"\n\n{}\n",
            live.uid, live.proxmox
        );
        let nodes = live.nodes.iter().zip(addresses).map(|(live, addresses)| node(live, addresses));
        let nodes: Vec<String> = nodes.collect();
        let nodes = format!("# The nodes, as they were found.\nnodes:\n{}", nodes.concat());
        let lines = facts.needed.clone();
        let outcome = read(&head, &lines, &nodes);
        let mut draft = Self { head, lines, nodes, outcome };
        draft.valid()?;
        for wanted in &facts.wanted {
            // What the rules do not have is left to patches.
            if !draft.add(wanted) && wanted.len() > 1 {
                for one in wanted {
                    draft.add(std::slice::from_ref(one));
                }
            }
        }
        Ok(draft)
    }

    /// Adds lines; false if the description is not valid with them, and has none of them.
    fn add(&mut self, lines: &[(&'static str, Yaml)]) -> bool {
        let before = self.lines.len();
        self.lines.extend_from_slice(lines);
        let outcome = self.read();
        let valid = outcome.desired.is_some() && !outcome.has_errors();
        if valid {
            self.outcome = outcome;
        } else {
            self.lines.truncate(before);
        }
        valid
    }

    fn read(&self) -> Box<Outcome> {
        read(&self.head, &self.lines, &self.nodes)
    }

    fn valid(&self) -> Result<(), DescribeError> {
        if self.outcome.desired.is_some() && !self.outcome.has_errors() {
            return Ok(());
        }
        Err(DescribeError::Invalid(errors(&self.outcome)))
    }

    fn set(&mut self, key: &'static str, value: Yaml) {
        self.lines.retain(|(known, _)| *known != key);
        self.lines.push((key, value));
    }

    pub(super) fn desired(&self) -> &Desired {
        self.outcome.desired.as_ref().expect("a draft is kept only while it is valid")
    }

    pub(super) fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// `cluster.yaml` and `nodes.yaml`.
    pub(super) fn texts(&self) -> (String, String) {
        (cluster(&self.head, &self.lines), self.nodes.clone())
    }

    /// Writes down what the VMs are, as adopting them one by one would.
    pub(super) fn take_vms(&mut self, observed: &Observed, nonce: &Nonce) -> Result<Proposal, DescribeError> {
        let proposal = propose(self.read(), observed, &Selection::AllMatching, nonce)?;
        if let Some(file) = proposal.files.iter().find(|file| file.name == "nodes.yaml") {
            self.nodes.clone_from(&file.after);
        }
        self.outcome = self.read();
        self.valid()?;
        Ok(proposal)
    }

    pub(super) fn set_contract(&mut self, contract: Contract) -> Result<(), DescribeError> {
        self.set("talos_contract", Yaml::Text(contract.to_string()));
        self.outcome = self.read();
        self.valid()
    }

    /// What is written so far.
    pub(super) fn saved(&self) -> Saved {
        Saved { lines: self.lines.clone(), nodes: self.nodes.clone() }
    }

    /// Back to what was written then.
    pub(super) fn restore(&mut self, Saved { lines, nodes }: Saved) {
        (self.lines, self.nodes) = (lines, nodes);
        self.outcome = self.read();
    }

    /// Writes a key where it belongs; false if the description is not valid with it.
    pub(super) fn try_add(&mut self, candidate: &Candidate) -> bool {
        match &candidate.said {
            Said::Cluster(value) => self.set(candidate.key, value.clone()),
            Said::Nodes(Scoped { all, roles, nodes }) => {
                let role = |(role, value): (&Role, &Yaml)| (defaults_of(*role), value.clone());
                let common = all.iter().map(|value| ("proxmox_vm_defaults", value.clone()));
                for (block, value) in common.chain(roles.iter().map(role)).collect::<Vec<_>>() {
                    self.put(block, candidate.key, value);
                }
                for (node, value) in nodes {
                    self.outcome = self.read();
                    let setting = Setting::Value { key: candidate.key, value: value.clone() };
                    if self.valid().is_err() || self.write(node, &setting).is_err() {
                        return false;
                    }
                }
            }
        }
        self.outcome = self.read();
        self.valid().is_ok()
    }

    /// Writes an entry of a block whose other entries stay.
    fn put(&mut self, block: &'static str, key: &str, value: Yaml) {
        let line = self.lines.iter_mut().find(|(known, _)| *known == block);
        if let Some((_, Yaml::Map(entries))) = line {
            entries.retain(|(known, _)| known != key);
            entries.push((key.to_owned(), value));
        } else {
            self.set(block, Yaml::Map(vec![(key.to_owned(), value)]));
        }
    }

    /// Names the files of patches where they belong.
    pub(super) fn refer(&mut self, written: &Written) -> Result<(), DescribeError> {
        let files = |names: &[String]| Yaml::List(names.iter().map(Yaml::text).collect());
        if !written.cluster.is_empty() {
            self.set("patches", files(&written.cluster));
        }
        for (role, names) in written.roles.iter().filter(|(_, names)| !names.is_empty()) {
            self.put(defaults_of(*role), "patches", files(names));
        }
        for (node, names) in written.nodes.iter().filter(|(_, names)| !names.is_empty()) {
            self.outcome = self.read();
            self.write(node, &Setting::Value { key: "patches", value: files(names) })?;
        }
        self.outcome = self.read();
        self.valid()
    }

    fn write(&mut self, node: &NodeName, setting: &Setting) -> Result<(), DescribeError> {
        let edited = edit(&self.outcome.description, node, std::slice::from_ref(setting));
        let edited = edited.map_err(|error| DescribeError::Invalid(vec![error.to_string()]))?;
        if let Some(edited) = edited {
            self.nodes = edited.text;
        }
        Ok(())
    }
}

/// The block of what nodes of a role have in common.
fn defaults_of(role: Role) -> &'static str {
    match role {
        Role::Controller => "proxmox_vm_controller_defaults",
        Role::Worker => "proxmox_vm_worker_defaults",
    }
}

fn cluster(head: &str, lines: &[(&'static str, Yaml)]) -> String {
    let line = |(key, value): &(&'static str, Yaml)| format!("{key}: {}\n", value.print());
    format!("{head}{}", lines.iter().map(line).collect::<String>())
}

/// On the heap: a description has a field for every key there is.
fn read(head: &str, lines: &[(&'static str, Yaml)], nodes: &str) -> Box<Outcome> {
    Box::new(read_files(Files::from_texts(&cluster(head, lines), Some(nodes))))
}

fn node(node: &LiveNode, addresses: &Addresses) -> String {
    let mut texts: Vec<Yaml> = addresses.iter().map(|(address, _)| Yaml::text(address)).collect();
    let address = if texts.len() == 1 { texts.remove(0) } else { Yaml::List(texts) };
    let mut text =
        format!("  - name: {}\n    address: {}\n", Yaml::text(&node.name).print(), address.print());
    if node.role == Role::Controller {
        text.push_str("    controller: true\n");
    }
    let Some(vm) = &node.vm else { return text };
    text.push_str(&format!("    vm_id: {}\n", vm.vmid));
    if let Some(mac) = &vm.mac {
        text.push_str(&format!("    mac_addr: {}\n", Yaml::text(mac).print()));
    }
    if vm.other_name.is_some() {
        text.push_str("    drift: {name: ignore}\n");
    }
    text
}
