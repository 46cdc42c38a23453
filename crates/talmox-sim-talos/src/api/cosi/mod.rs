//! Resources of a node (`cosi.resource.State`): what `talosctl get` shows.
//!
//! Nothing is stored. A resource is worked out from the state of the machine when somebody asks, so it cannot disagree with it.

mod block;
mod cluster;
mod kinds;
mod kubelet;
mod kubernetes;
mod machine;
mod network;
mod resource;
mod secrets;
pub(crate) mod watch;

use talmox_proto::definitions::{PrintColumn, ResourceDefinition};
use talmox_proto::resource::{
    GetRequest, GetResponse, LabelQuery, ListRequest, ListResponse, label_term::Operation,
};

use super::authorize;
use super::{Asked, Handlers};
use crate::hardware::MachineId;
use crate::machine::Run;
use crate::nodes::Nodes;
use crate::wire::{ApiReply, Code, Status};
use resource::{Resource, texts};
use talmox_machine::{Map, Value};

pub(super) const HANDLERS: Handlers = &[
    (talmox_proto::resource::state::GET.path, get),
    (talmox_proto::resource::state::LIST.path, list),
    (talmox_proto::resource::state::WATCH.path, watch::watch),
];

/// What is looked at.
pub(super) struct View<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) machine: MachineId,
    pub(super) run: &'a Run,
}

fn get(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let request: GetRequest = asked.request()?;
    allowed(nodes, asked, &request.namespace, &request.r#type)?;
    let found = contents(nodes, asked.machine, &request.namespace, &request.r#type);
    let GetRequest { namespace, r#type: kind, id, .. } = request;
    match found.into_iter().find(|one| one.id == id) {
        Some(found) => Ok(nodes.reply(&GetResponse { resource: Some(found.sent(nodes)) })),
        None => {
            let words = format!("resource {kind}({namespace}/{id}@undefined) doesn't exist");
            Err(Status::new(Code::NotFound, words))
        }
    }
}

fn list(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let request: ListRequest = asked.request()?;
    allowed(nodes, asked, &request.namespace, &request.r#type)?;
    let found = contents(nodes, asked.machine, &request.namespace, &request.r#type);
    let options = request.options.unwrap_or_default();
    let wanted = found.iter().filter(|one| has_labels(one, &options.label_query));
    let replies: Vec<ListResponse> =
        wanted.map(|one| ListResponse { resource: Some(one.sent(nodes)) }).collect();
    Ok(nodes.reply_all(replies))
}

/// Who may see a type, and whether there is such a thing.
pub(super) fn allowed(nodes: &Nodes, asked: &Asked<'_>, namespace: &str, kind: &str) -> Result<(), Status> {
    let denied = |words: String| Err(Status::new(Code::PermissionDenied, words));
    let minor = nodes.run(asked.machine).map_or(0, Run::minor);
    let Some(found) = kinds::find(kind, minor) else {
        return denied(format!("resource type {kind:?} is not supported"));
    };
    if !kinds::NAMESPACES.iter().any(|(name, since)| *name == namespace && *since <= minor) {
        return denied(format!("namespace {namespace:?} is not supported"));
    }
    if found.sensitive && !authorize::roles(nodes, asked).iter().any(|role| role == "os:admin") {
        return denied("not authorized".to_owned());
    }
    Ok(())
}

fn has_labels(resource: &Resource, queries: &[LabelQuery]) -> bool {
    let matches = |query: &LabelQuery| {
        query.terms.iter().all(|term| {
            let value = resource.labels().get(&term.key);
            let holds = match term.op() {
                Operation::Exists => value.is_some(),
                Operation::NotExists => value.is_none(),
                Operation::Equal => value.is_some() && value == term.value.first(),
                Operation::In => value.is_some_and(|value| term.value.contains(value)),
            };
            holds != term.invert
        })
    };
    queries.is_empty() || queries.iter().any(matches)
}

/// Everything of a type, in the order of ids.
pub(super) fn contents(nodes: &Nodes, machine: MachineId, namespace: &str, kind: &str) -> Vec<Resource> {
    let Some(run) = nodes.run(machine) else { return Vec::new() };
    let view = View { nodes, machine, run };
    let Some(known) = kinds::find(kind, run.minor()) else { return Vec::new() };
    let mut found = match known.name {
        "ResourceDefinitions.meta.cosi.dev" => view.definitions(),
        "Namespaces.meta.cosi.dev" => view.namespaces(),
        name => [
            view.machine_resources(name),
            view.network_resources(name),
            view.block_resources(name),
            view.cluster_resources(name),
            view.kubernetes_resources(name),
            view.secret_resources(name),
        ]
        .concat(),
    };
    found.retain(|one| one.namespace == namespace);
    found.sort_by(|one, other| one.id.cmp(&other.id));
    found
}

impl View<'_> {
    fn definitions(&self) -> Vec<Resource> {
        let place = ("meta", "ResourceDefinitions.meta.cosi.dev");
        let define = |kind: &kinds::Kind| {
            let columns = kind.columns();
            let definition = ResourceDefinition {
                resource_type: kind.name.to_owned(),
                display_type: kind.display(),
                default_namespace: kind.namespace.to_owned(),
                aliases: kind.aliases(),
                all_aliases: kind.all_aliases(),
                print_columns: columns
                    .iter()
                    .map(|(name, path)| PrintColumn {
                        name: (*name).to_owned(),
                        json_path: (*path).to_owned(),
                    })
                    .collect(),
                sensitivity: i32::from(kind.sensitive),
            };
            let shown = columns
                .iter()
                .map(|(name, path)| Map::new().with("name", *name).with("jsonPath", *path).into());
            let mut map = Map::new()
                .with("type", kind.name)
                .with("displayType", kind.display())
                .with("defaultNamespace", kind.namespace)
                .with("aliases", texts(kind.aliases()))
                .with("allAliases", texts(kind.all_aliases()))
                .with("printColumns", Value::List(shown.collect()));
            if kind.sensitive {
                map.set("sensitivity", "sensitive");
            }
            Resource::new(place, kind.name.to_lowercase(), "meta", self.run.started)
                .proto(&definition)
                .yaml(map)
        };
        kinds::kinds(self.run.minor()).map(define).collect()
    }

    fn namespaces(&self) -> Vec<Resource> {
        let known = kinds::NAMESPACES.iter().filter(|(_, since)| *since <= self.run.minor());
        known
            .map(|(name, _)| {
                Resource::new(("meta", "Namespaces.meta.cosi.dev"), *name, "meta", self.run.started)
                    .yaml(Map::new().with("description", *name))
            })
            .collect()
    }
}
