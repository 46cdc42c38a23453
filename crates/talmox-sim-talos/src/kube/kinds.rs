//! The kinds an API server is born with.

use serde_json::{Value, json};

/// A kind of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    /// Empty for the core.
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) kind: String,
    pub(super) namespaced: bool,
    /// Whether its status is written apart from the rest.
    pub(super) has_status: bool,
    pub(super) short: Vec<String>,
    /// Brought by a definition.
    pub(super) custom: bool,
}

impl Resource {
    /// `nodes`, `leases.coordination.k8s.io`.
    pub(super) fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `Node`, `Lease.coordination.k8s.io`.
    pub(super) fn full_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Where its objects lie.
    pub(super) fn table(&self) -> String {
        table(&self.group, &self.plural)
    }

    /// What failures say of an object: it is called by the plural there.
    pub(super) fn details(&self, name: &str) -> Value {
        let mut details = json!({ "name": name });
        if !self.group.is_empty() {
            details["group"] = self.group.as_str().into();
        }
        details["kind"] = self.plural.as_str().into();
        details
    }

    /// Whether an object without a version may overwrite what is there.
    pub(super) fn overwrites_blindly(&self) -> bool {
        !self.custom
            && !matches!(
                self.plural.as_str(),
                "leases" | "poddisruptionbudgets" | "customresourcedefinitions"
            )
    }

    /// Whether putting an object that is not there makes it.
    pub(super) fn is_made_by_put(&self) -> bool {
        !self.custom && matches!(self.plural.as_str(), "leases" | "events" | "endpoints")
    }
}

pub(super) fn table(group: &str, plural: &str) -> String {
    format!("{group}/{plural}")
}

/// Group, version, plural, singular, kind, namespaced, status, short names.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    bool,
    bool,
    &'static [&'static str],
);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("", "v1", "configmaps", "configmap", "ConfigMap", true, false, &["cm"]),
    ("", "v1", "endpoints", "endpoints", "Endpoints", true, false, &["ep"]),
    ("", "v1", "events", "event", "Event", true, false, &["ev"]),
    ("", "v1", "limitranges", "limitrange", "LimitRange", true, false, &["limits"]),
    ("", "v1", "namespaces", "namespace", "Namespace", false, true, &["ns"]),
    ("", "v1", "nodes", "node", "Node", false, true, &["no"]),
    ("", "v1", "persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", true, true, &["pvc"]),
    ("", "v1", "persistentvolumes", "persistentvolume", "PersistentVolume", false, true, &["pv"]),
    ("", "v1", "pods", "pod", "Pod", true, true, &["po"]),
    ("", "v1", "resourcequotas", "resourcequota", "ResourceQuota", true, true, &["quota"]),
    ("", "v1", "secrets", "secret", "Secret", true, false, &[]),
    ("", "v1", "serviceaccounts", "serviceaccount", "ServiceAccount", true, false, &["sa"]),
    ("", "v1", "services", "service", "Service", true, true, &["svc"]),
    ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "mutatingwebhookconfiguration", "MutatingWebhookConfiguration", false, false, &[]),
    ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "validatingwebhookconfiguration", "ValidatingWebhookConfiguration", false, false, &[]),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "customresourcedefinition", "CustomResourceDefinition", false, true, &["crd", "crds"]),
    ("apiregistration.k8s.io", "v1", "apiservices", "apiservice", "APIService", false, true, &[]),
    ("apps", "v1", "daemonsets", "daemonset", "DaemonSet", true, true, &["ds"]),
    ("apps", "v1", "deployments", "deployment", "Deployment", true, true, &["deploy"]),
    ("apps", "v1", "replicasets", "replicaset", "ReplicaSet", true, true, &["rs"]),
    ("apps", "v1", "statefulsets", "statefulset", "StatefulSet", true, true, &["sts"]),
    ("autoscaling", "v2", "horizontalpodautoscalers", "horizontalpodautoscaler", "HorizontalPodAutoscaler", true, true, &["hpa"]),
    ("batch", "v1", "cronjobs", "cronjob", "CronJob", true, true, &["cj"]),
    ("batch", "v1", "jobs", "job", "Job", true, true, &[]),
    ("coordination.k8s.io", "v1", "leases", "lease", "Lease", true, false, &[]),
    ("discovery.k8s.io", "v1", "endpointslices", "endpointslice", "EndpointSlice", true, false, &[]),
    ("networking.k8s.io", "v1", "ingressclasses", "ingressclass", "IngressClass", false, false, &[]),
    ("networking.k8s.io", "v1", "ingresses", "ingress", "Ingress", true, true, &["ing"]),
    ("networking.k8s.io", "v1", "networkpolicies", "networkpolicy", "NetworkPolicy", true, false, &["netpol"]),
    ("policy", "v1", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget", true, true, &["pdb"]),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding", false, false, &[]),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "clusterrole", "ClusterRole", false, false, &[]),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "rolebinding", "RoleBinding", true, false, &[]),
    ("rbac.authorization.k8s.io", "v1", "roles", "role", "Role", true, false, &[]),
    ("scheduling.k8s.io", "v1", "priorityclasses", "priorityclass", "PriorityClass", false, false, &["pc"]),
    ("storage.k8s.io", "v1", "csidrivers", "csidriver", "CSIDriver", false, false, &[]),
    ("storage.k8s.io", "v1", "csinodes", "csinode", "CSINode", false, false, &[]),
    ("storage.k8s.io", "v1", "storageclasses", "storageclass", "StorageClass", false, false, &["sc"]),
    ("storage.k8s.io", "v1", "volumeattachments", "volumeattachment", "VolumeAttachment", false, true, &[]),
];

/// All of them.
pub(super) fn built_in() -> impl Iterator<Item = Resource> {
    TABLE.iter().map(|&(group, version, plural, singular, kind, namespaced, has_status, short)| Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        singular: singular.to_owned(),
        kind: kind.to_owned(),
        namespaced,
        has_status,
        short: short.iter().map(|&name| name.to_owned()).collect(),
        custom: false,
    })
}

/// The one that lies in a table.
pub(super) fn find(group: &str, plural: &str) -> Option<Resource> {
    built_in().find(|one| one.group == group && one.plural == plural)
}
