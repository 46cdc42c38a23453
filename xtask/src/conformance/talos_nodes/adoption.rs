//! What the adoption of a cluster others made has to come to, whoever made it: a description that renders what runs, marks, and nothing
//! else, ever.

use anyhow::ensure;

use super::cluster::{Cluster, Writes};
use super::programs::{Program, Said, Talosctl};
use crate::scratch::Scratch;

/// What is said when the proof holds.
const PROVEN: &str = "Proven: rendered, the description is what every node runs with";

/// A cluster that talmox had no part in, and a place for its description.
pub(super) struct Adoption<'a> {
    pub(super) own: &'a Program<'a>,
    pub(super) scratch: &'a Scratch,
    pub(super) cluster: &'a Cluster,
    /// What its nodes are called, control planes first.
    pub(super) names: Vec<String>,
}

impl Adoption<'_> {
    /// Asks for a description in a folder of its own; `way` leads to the machines, and `token` to Proxmox. Nothing is changed by that.
    fn ask(&self, folder: &str, way: &[&str], token: &str) -> anyhow::Result<Said> {
        let (endpoint, authority, _) = self.cluster.proxmox()?;
        std::fs::create_dir(self.scratch.path().join(folder))?;
        self.scratch.write(&format!("{folder}/proxmox.pem"), authority)?;
        self.scratch.write(&format!("{folder}/token"), token)?;
        let before = self.cluster.writes()?;
        let authority = format!("{folder}/proxmox.pem");
        let proxmox =
            ["--endpoint", &endpoint, "--api-token", "file:token", "--ca-file", &authority, "-f", folder];
        let said = self.own.ask(&[&["adopt", "cluster"], way, &proxmox].concat())?;
        ensure!(self.cluster.writes()? == before, "describing a cluster changed something");
        Ok(said)
    }

    /// Describes the cluster in a folder of its own; `way` leads to the machines.
    pub(super) fn describe(&self, folder: &str, way: &[&str]) -> anyhow::Result<Said> {
        let (_, _, token) = self.cluster.proxmox()?;
        let said = self.ask(folder, way, token)?.well(&[PROVEN])?;
        for file in ["cluster.yaml", "nodes.yaml", "patches/cluster.yaml"] {
            let text = self.scratch.read(&format!("{folder}/{file}")).unwrap_or_default();
            ensure!(!text.contains("hush"), "{file} has a secret in it");
        }
        Ok(said)
    }

    /// A description that cannot be had: it is said why, and nothing is written. `token` is another one than that of Proxmox.
    pub(super) fn refused(&self, way: &[&str], token: Option<&str>, words: &[&str]) -> anyhow::Result<()> {
        let (_, _, own) = self.cluster.proxmox()?;
        self.ask("refused", way, token.unwrap_or(own))?.badly(words)?;
        let folder = self.scratch.path().join("refused");
        let left = std::fs::read_dir(&folder)?.count();
        // What was there before: a certificate and a token.
        ensure!(left == 2, "{left} files are in a folder nothing is written to");
        Ok(std::fs::remove_dir_all(folder)?)
    }

    /// Marks the VMs: one call for each, and none to a machine.
    pub(super) fn mark(&self, folder: &str) -> anyhow::Result<()> {
        let before = self.cluster.writes()?;
        let vms = format!("{} VMs adopted", self.names.len());
        self.own.ask(&["adopt", "--all-matching", "--auto-approve", "-f", folder])?.well(&[&vms])?;
        let Writes { proxmox, machines } = self.cluster.writes()?;
        let marks = Writes { proxmox: before.proxmox + self.names.len(), machines };
        ensure!(
            self.cluster.writes()? == marks,
            "marking is one call for each VM: {before:?}, then {proxmox}"
        );
        ensure!(machines == before.machines, "marking changed a machine");
        Ok(())
    }

    /// Once the cluster is at rest, there is nothing to do, and nothing is done.
    pub(super) fn unchanged(&self, folder: &str, talosctl: &mut Talosctl<'_>) -> anyhow::Result<()> {
        self.cluster.settle()?;
        self.own.ask(&["health", "-f", folder])?.well(&[])?;
        let before = (self.cluster.writes()?, self.versions(talosctl)?);
        self.own.ask(&["plan", "-f", folder])?.well(&["No changes."])?;
        for name in &self.names {
            self.own.ask(&["diff", name, "-f", folder])?.well(&["No differences"])?;
        }
        self.own.ask(&["apply", "--auto-approve", "-f", folder])?.well(&["No changes."])?;
        let after = (self.cluster.writes()?, self.versions(talosctl)?);
        ensure!(before == after, "an empty plan changed something: {before:?}, then {after:?}");
        Ok(())
    }

    /// What the machines say of their configurations: a version counts every change.
    fn versions(&self, talosctl: &mut Talosctl<'_>) -> anyhow::Result<Vec<String>> {
        let mut all = Vec::new();
        for node in self.cluster.layout.everybody() {
            let said = talosctl.of(&node.to_string(), &["get", "machineconfigs"])?;
            all.push(said.well(&["MachineConfig"])?.text);
        }
        Ok(all)
    }

    /// Every control plane loses its data, with etcd's in it. A second bootstrap would make another cluster under the name of this
    /// one: the plan refuses, and nobody bootstraps anything.
    pub(super) fn is_never_begun_again(
        &self,
        folder: &str,
        talosctl: &mut Talosctl<'_>,
    ) -> anyhow::Result<()> {
        for node in &self.cluster.layout.control_planes {
            let wipe = ["reset", "--graceful=false", "--reboot", "--wait=false"];
            let data = ["--system-labels-to-wipe", "EPHEMERAL"];
            talosctl.of(&node.to_string(), &[&wipe[..], &data].concat())?.well(&[])?;
        }
        for node in &self.cluster.layout.control_planes {
            let node = node.to_string();
            talosctl.wait(&["-e", &node, "-n", &node, "service", "etcd"], &["STATE    Preparing"])?;
        }
        let lost = "this cluster was bootstrapped before, and no control plane has data of etcd any more";
        let before = self.cluster.writes()?;
        self.own.ask(&["plan", "-f", folder])?.badly(&[lost])?;
        self.own.ask(&["apply", "--auto-approve", "-f", folder])?.badly(&[lost])?;
        ensure!(self.cluster.writes()? == before, "a refused plan changed something");
        Ok(())
    }
}
