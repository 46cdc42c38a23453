//! Nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::meta::{Condition, Meta, Selection, or_default};
use crate::client::{Call, JSON, MERGE_PATCH};
use crate::{Client, Error, Method};

/// The annotation that tells a node we cordoned from one that somebody else did; its value says what for.
pub const CORDONED: &str = "talmox.dev/cordoned";

/// The annotation that names an installer which was run and waits for the node's restart, and the boot it was run in.
pub const INSTALLED: &str = "talmox.dev/installed";

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: Meta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    pub unschedulable: bool,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<NodeAddress>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    pub node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname`.
    #[serde(rename = "type")]
    pub kind: String,
    pub address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeInfo {
    /// `v1.36.3`.
    pub kubelet_version: String,
    #[serde(rename = "osImage")]
    pub os_image: String,
    #[serde(rename = "systemUUID")]
    pub system_uuid: String,
    /// What tells one boot from another.
    #[serde(rename = "bootID")]
    pub boot_id: String,
}

impl Node {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The condition `Ready`; none before the kubelet said anything.
    pub fn readiness(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == "Ready")
    }

    pub fn is_ready(&self) -> bool {
        self.readiness().is_some_and(|condition| condition.status == "True")
    }

    pub fn is_control_plane(&self) -> bool {
        self.metadata.labels.contains_key(CONTROL_PLANE)
    }

    /// Internal and external addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let ours = |one: &&NodeAddress| ["InternalIP", "ExternalIP"].contains(&one.kind.as_str());
        self.status.addresses.iter().filter(ours).filter_map(|one| one.address.parse().ok())
    }

    /// What we cordoned it for, if it was us.
    pub fn cordoned_for(&self) -> Option<&str> {
        self.metadata.annotations.get(CORDONED).map(String::as_str)
    }
}

impl Node {
    /// The installer that was run since the last boot, if it was us.
    pub fn installed(&self) -> Option<&str> {
        let (image, boot) = self.metadata.annotations.get(INSTALLED)?.split_once(' ')?;
        (boot == self.status.node_info.boot_id).then_some(image)
    }
}

/// A change of a node; what is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeChange {
    pub unschedulable: Option<bool>,
    /// None removes.
    pub labels: BTreeMap<String, Option<String>>,
    /// None removes.
    pub annotations: BTreeMap<String, Option<String>>,
}

impl NodeChange {
    fn to_json(&self) -> Value {
        let Self { unschedulable, labels, annotations } = self;
        let mut patch = Map::new();
        if !labels.is_empty() || !annotations.is_empty() {
            patch.insert("metadata".to_owned(), json!({ "labels": labels, "annotations": annotations }));
        }
        if let Some(unschedulable) = unschedulable {
            // As kubectl does: a node that can be used says nothing about it.
            let value = if *unschedulable { Value::Bool(true) } else { Value::Null };
            patch.insert("spec".to_owned(), json!({ "unschedulable": value }));
        }
        Value::Object(patch)
    }
}

impl Client {
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        self.list("/api/v1", "nodes", &Selection::all()).await
    }

    pub async fn node(&self, name: &str) -> Result<Node, Error> {
        self.ask(Call::get(format!("/api/v1/nodes/{name}"), format!("read node {name}"))).await
    }

    pub async fn change_node(&self, name: &str, change: &NodeChange) -> Result<Node, Error> {
        self.patch_node(name, change, format!("change node {name}")).await
    }

    /// Lets no new pods onto a node, and notes on it what for.
    pub async fn cordon(&self, name: &str, reason: &str) -> Result<Node, Error> {
        let annotations = BTreeMap::from([(CORDONED.to_owned(), Some(reason.to_owned()))]);
        let change = NodeChange { unschedulable: Some(true), annotations, ..NodeChange::default() };
        self.patch_node(name, &change, format!("cordon node {name}")).await
    }

    pub async fn uncordon(&self, name: &str) -> Result<Node, Error> {
        let annotations = BTreeMap::from([(CORDONED.to_owned(), None)]);
        let change = NodeChange { unschedulable: Some(false), annotations, ..NodeChange::default() };
        self.patch_node(name, &change, format!("uncordon node {name}")).await
    }

    /// Notes which installer was run in which boot; none: the note goes.
    pub async fn note_installed(&self, name: &str, installed: Option<(&str, &str)>) -> Result<Node, Error> {
        let note = installed.map(|(image, boot)| format!("{image} {boot}"));
        let annotations = BTreeMap::from([(INSTALLED.to_owned(), note)]);
        let change = NodeChange { annotations, ..NodeChange::default() };
        self.patch_node(name, &change, format!("change node {name}")).await
    }

    async fn patch_node(&self, name: &str, change: &NodeChange, action: String) -> Result<Node, Error> {
        let path = format!("/api/v1/nodes/{name}");
        let call = Call::new(Method::Patch, path, action)
            .query("fieldManager", super::FIELD_MANAGER)
            .body(MERGE_PATCH, change.to_json());
        self.ask(call).await
    }

    /// Removes a node's object; with a uid only that very one, not a node of the same name that joined since.
    pub async fn delete_node(&self, name: &str, uid: Option<&str>) -> Result<(), Error> {
        let path = format!("/api/v1/nodes/{name}");
        let mut call = Call::new(Method::Delete, path, format!("delete node {name}"));
        if let Some(uid) = uid {
            let options = json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid },
            });
            call = call.body(JSON, options);
        }
        self.send(call).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_says_only_what_changes() {
        assert_eq!(NodeChange::default().to_json(), json!({}));
        let annotations = BTreeMap::from([("a".to_owned(), None)]);
        let change = NodeChange { unschedulable: Some(false), annotations, ..NodeChange::default() };
        let expected = json!({ "metadata": { "labels": {}, "annotations": { "a": null } }, "spec": { "unschedulable": null } });
        assert_eq!(change.to_json(), expected);
    }
}
