//! The genuine `kubectl` at both servers: what it prints must be the same.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::raw::masked;
use crate::scratch::Scratch;

/// How `kubectl` gets to a server.
pub(super) struct Kubectl<'a> {
    pub(super) program: &'a Path,
    pub(super) access: Vec<String>,
    pub(super) scratch: &'a Scratch,
}

const NODE: &str = "apiVersion: v1
kind: Node
metadata: {name: k-1}
";

const MANIFESTS: &str = "apiVersion: v1
kind: Namespace
metadata: {name: lab}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: lab}
data: {a: \"1\", b: \"1\"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: lab}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
";

const CHANGED: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: lab}
data: {a: \"2\"}
";

const LINES: [&str; 30] = [
    "create -f NODE",
    "create -f NODE",
    "get nodes -o name",
    "label node k-1 zone=a",
    "label node k-1 zone=b",
    "label node k-1 zone=b --overwrite",
    "annotate node k-1 note=x",
    "taint node k-1 gpu=yes:NoSchedule",
    "taint node k-1 gpu-",
    "get nodes -l zone=b -o name",
    "get node k-1 -o jsonpath={.metadata.labels.zone}",
    "cordon k-1",
    "cordon k-1",
    "drain k-1 --timeout=20s",
    "uncordon k-1",
    "uncordon k-1",
    "apply --server-side -f MANIFESTS",
    "apply --server-side -f MANIFESTS",
    "apply --server-side --field-manager=other -f CHANGED",
    "apply --server-side --field-manager=other --force-conflicts -f CHANGED",
    "get configmap settings -n lab -o jsonpath={.data}",
    "patch configmap settings -n lab --type=json -p=[{\"op\":\"replace\",\"path\":\"/data/a\",\"value\":\"3\"}]",
    "patch configmap settings -n lab --type=merge -p={\"data\":{\"c\":\"1\"}}",
    "apply --server-side -f MANIFESTS",
    "get deployments -n lab -o jsonpath={.items[*].spec.template.spec.containers[*].image}",
    "delete configmap settings -n lab --wait=false",
    "get configmap settings -n lab",
    "get pods -A -l nothing=here -o name",
    "delete node k-1 --wait=false",
    "get node k-1 -o name",
];

impl Kubectl<'_> {
    pub(super) fn run(&self) -> anyhow::Result<Vec<String>> {
        let files = [("NODE", NODE), ("MANIFESTS", MANIFESTS), ("CHANGED", CHANGED)];
        let mut paths = Vec::new();
        for (name, text) in files {
            paths.push((name, self.scratch.write(name, text)?));
        }
        LINES.iter().map(|line| self.line(line, &paths)).collect()
    }

    fn line(&self, line: &str, paths: &[(&str, String)]) -> anyhow::Result<String> {
        let put = |word: &str| {
            paths.iter().find(|(name, _)| *name == word).map_or(word.to_owned(), |(_, path)| path.clone())
        };
        let output = Command::new(self.program)
            .args(&self.access)
            .arg(format!("--cache-dir={}", self.scratch.file("cache")))
            .args(line.split(' ').map(put))
            .env_clear()
            .env("HOME", self.scratch.path())
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::null())
            .output()
            .context("could not start kubectl")?;
        let (said, error) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let text = format!("{line}: {:?} {} {}", output.status.code(), said.trim(), error.trim());
        let folder = self.scratch.path().to_string_lossy().into_owned();
        Ok(masked(&text.replace(&folder, "FOLDER")))
    }
}
