//! Every reply of the recordings, read by the client: data into its types, refusals into classes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::{Value, json};
use talmox_pve::client::{
    BoxFuture, Client, Credentials, Endpoint, Error, ErrorKind, HttpRequest, HttpResponse, Params,
    RetryPolicy, Settings, Silent, Target, TaskError, TaskQuery, Transport, TransportError, Upid,
};
use talmox_pve::property::VolumeId;
use talmox_types::{HostName, StorageId, VmId};

/// Answers everything with one reply.
struct Always(Mutex<HttpResponse>);

impl Transport for Always {
    fn send<'a>(
        &'a self,
        _: &'a Target,
        _: HttpRequest,
    ) -> BoxFuture<'a, Result<HttpResponse, TransportError>> {
        Box::pin(async { Ok(self.0.lock().unwrap().clone()) })
    }
}

fn client(response: &Value) -> Client {
    let body = match &response["body"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        json @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => json.to_string(),
    };
    let reply = HttpResponse {
        status: u16::try_from(response["status"].as_u64().unwrap()).unwrap(),
        reason: response["reason"].as_str().unwrap_or_default().to_owned(),
        body: Bytes::from(body),
    };
    let credentials = Credentials::token(&SecretString::from("a@pve!b=c")).unwrap();
    let settings = Settings { retry: RetryPolicy::ONCE, ..Settings::default() };
    let endpoint = Endpoint::parse("pve1").unwrap();
    Client::new(vec![endpoint], &credentials, Arc::new(Always(Mutex::new(reply))), settings).unwrap()
}

fn id(text: &str) -> Option<VmId> {
    VmId::try_from(text.parse::<u32>().ok()?).ok()
}

/// Reads a successful reply with the call that would have asked for it. `None` for calls the client does not have.
async fn read(client: &Client, method: &str, path: &str) -> Option<Result<(), Error>> {
    let node = HostName::parse("pve1").unwrap();
    let storage = StorageId::parse("local").unwrap();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    Some(match (method, parts.as_slice()) {
        ("GET", ["version"]) => client.version().await.map(drop),
        ("GET", ["cluster", "resources"]) => client.resources().await.map(drop),
        ("GET", ["cluster", "status"]) => client.cluster_status().await.map(drop),
        ("GET", ["cluster", "options"]) => client.cluster_options().await.map(drop),
        ("GET", ["cluster", "mapping", "pci"]) => client.pci_mappings().await.map(drop),
        ("GET", ["cluster", "ha", "resources"]) => client.ha_resources().await.map(drop),
        ("GET", ["cluster", "ha", "rules"]) => client.ha_rules().await.map(drop),
        ("GET", ["cluster", "ha", "status", "current"]) => client.ha_status().await.map(drop),
        ("GET", ["access", "permissions"]) => client.permissions(None).await.map(drop),
        ("GET", ["pools"]) => client.pools().await.map(drop),
        ("GET", ["nodes"]) => client.nodes().await.map(drop),
        ("GET", ["nodes", _, "status"]) => client.node_status(&node).await.map(drop),
        ("GET", ["nodes", _, "network"]) => client.bridges(&node).await.map(drop),
        ("GET", ["nodes", _, "storage"]) => client.storages(&node).await.map(drop),
        ("GET", ["nodes", _, "storage", _, "content"]) => {
            client.content(&node, &storage, None).await.map(drop)
        }
        ("GET", ["nodes", _, "storage", _, "content", ..]) => {
            client.volume_info(&node, &VolumeId::parse("local:iso/x.iso").unwrap()).await.map(drop)
        }
        ("GET", ["nodes", _, "query-url-metadata"]) => {
            client.url_metadata(&node, "https://x").await.map(drop)
        }
        ("GET", ["nodes", _, "tasks"]) => client.tasks(&node, &TaskQuery::default()).await.map(drop),
        ("GET", ["nodes", _, "tasks", upid, "status"]) => {
            client.task_state(&Upid::parse(upid).ok()?).await.map(drop)
        }
        ("GET", ["nodes", _, "tasks", upid, "log"]) => {
            client.task_log(&Upid::parse(upid).ok()?, 0, 50).await.map(drop)
        }
        ("GET", ["nodes", _, "qemu"]) => client.vms(&node).await.map(drop),
        ("GET", ["nodes", _, "qemu", vm, "cloudinit"]) => {
            client.cloud_init_pending(&node, id(vm)?).await.map(drop)
        }
        ("GET", ["nodes", _, "qemu", vm, "config"]) => client.vm_config(&node, id(vm)?).await.map(drop),
        ("GET", ["nodes", _, "qemu", vm, "pending"]) => client.pending(&node, id(vm)?).await.map(drop),
        ("GET", ["nodes", _, "qemu", vm, "status", "current"]) => {
            client.vm_status(&node, id(vm)?).await.map(drop)
        }
        ("GET", ["nodes", _, "qemu", vm, "migrate"]) => {
            client.migrate_preconditions(&node, id(vm)?).await.map(drop)
        }
        ("GET", ["nodes", _, "qemu", vm, "feature"]) => {
            client.vm_feature(&node, id(vm)?, "clone").await.map(drop)
        }
        ("GET", ["nodes", _, "qemu", vm, "cloudinit", "dump"]) => {
            client.dump_cloud_init(&node, id(vm)?, "user").await.map(drop)
        }
        ("GET", ["nodes", _, "qemu", vm, "agent", "network-get-interfaces"]) => {
            client.agent_interfaces(&node, id(vm)?).await.map(drop)
        }
        ("POST", ["nodes", _, "qemu", vm, "status", _]) => client.start_vm(&node, id(vm)?).await.map(drop),
        ("POST", ["nodes", _, "qemu", vm, "template"]) => {
            client.make_template(&node, id(vm)?).await.map(drop)
        }
        ("DELETE", ["nodes", _, "qemu", vm]) => client.delete_vm(&node, id(vm)?, false).await.map(drop),
        ("POST", ["nodes", _, "qemu"]) => client.start_vm(&node, id("100")?).await.map(drop),
        _ => return None,
    })
}

#[tokio::test(start_paused = true)]
async fn every_success_is_read() {
    let Some(Value::Array(pairs)) = crate::support::json("pve-transcripts.json") else { return };
    let mut read_by_call = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| pair["response"]["status"] == 200) {
        let method = pair["request"]["method"].as_str().unwrap();
        let path = pair["request"]["path"].as_str().unwrap();
        let Some(path) = path.split('?').next().and_then(|path| path.strip_prefix("/api2/json")) else {
            continue;
        };
        if let Some(result) = read(&client(&pair["response"]), method, path).await {
            // An agent that refuses a command says so in a success.
            let fine = result.as_ref().map_or_else(|error| *error.kind() == ErrorKind::Agent, |()| true);
            assert!(fine, "{method} {path}: {result:?}");
            let shape =
                path.split('/').filter(|part| id(part).is_none() && !part.contains(':')).collect::<Vec<_>>();
            *read_by_call.entry(format!("{method} {}", shape.join("/"))).or_insert(0) += 1;
        }
    }
    assert!(read_by_call.values().sum::<i32>() > 400, "{read_by_call:#?}");
}

/// Recordings of production servers, from version 6 on.
const RECORDED: &[&str] = &[
    "pve6_nodes",
    "pve6_permissions",
    "pve6_pools",
    "pve6_servers",
    "pve6_storages",
    "pve6_tasks",
    "pve7or8_snapshots",
    "pve9_access_reads",
    "pve9_cluster_andha_reads",
    "pve9_compute_reads",
    "pve9_ha_resource_migrate",
    "pve9_iso_upload",
    "pve9_qemu_lifecycle",
    "pve9_resource_affinity_placement",
    "pve9_storage_reads",
    "pve9_version_round_trip",
];

#[tokio::test(start_paused = true)]
async fn every_success_of_production_servers_is_read() {
    let mut count = 0;
    for name in RECORDED {
        let Some(recording) = crate::support::json(&format!("recorded/{name}.json")) else { return };
        for exchange in recording["exchanges"].as_array().unwrap() {
            let (status, reason) = exchange["status"].as_str().and_then(|line| line.split_once(' ')).unwrap();
            let status: u16 = status.parse().unwrap();
            let response = json!({ "status": status, "reason": reason, "body": exchange["reply"] });
            let (method, path) = (exchange["method"].as_str().unwrap(), exchange["path"].as_str().unwrap());
            let Some(result) = read(&client(&response), method, path).await else { continue };
            assert_eq!(result.is_ok(), status == 200, "{name}: {method} {path}: {result:?}");
            count += 1;
        }
    }
    assert!(count > 100, "only {count} exchanges found: has the layout changed?");
}

/// Sentences without a class: each is about one call and leaves a caller nothing to do but show it.
const UNCLASSED: &[&str] = &[
    "Linked clone feature is not supported",
    "SSH public key validation error",
    "can't clone",
    "cannot create group",
    "cannot index groups",
    "command '",
    "create ha rule failed",
    "invalid server response",
    "malformed JSON string",
    "node is not in a cluster",
    "no options specified",
    "not allowed for linked clones",
    "does not support",
    "unable to create template, because VM contains snapshots",
    "unable to parse directory volume name",
    "volume_size_info",
    "you can't move to the same storage",
    "already attached",
    "decompression not supported",
    "qemu-img",
    "clone failed",
    "failed to stat",
    "migration aborted",
    "snapshot feature is not available",
    "shrinking disks is not supported",
    "you can't resize a cdrom",
];

#[tokio::test(start_paused = true)]
async fn every_refusal_has_a_class_and_proxmoxs_words() {
    let Some(Value::Array(pairs)) = crate::support::json("pve-transcripts.json") else { return };
    let mut refusals = 0;
    for pair in
        pairs.iter().filter(|pair| pair["response"]["status"].as_u64().is_some_and(|status| status >= 400))
    {
        let response = &pair["response"];
        let error = client(response).get::<Value>("/x", Params::new()).await.unwrap_err();
        let reason = response["reason"].as_str().unwrap_or_default();
        assert!(error.words().starts_with(reason.trim()), "{:?} for {reason:?}", error.words());
        let unclassed = UNCLASSED.iter().any(|part| error.words().contains(part));
        assert_eq!(*error.kind() == ErrorKind::Other, unclassed, "{error:?}");
        refusals += 1;
    }
    assert!(refusals > 200, "only {refusals} refusals found: has the layout changed?");
}

#[tokio::test(start_paused = true)]
async fn every_failed_task_has_a_class() {
    let Some(Value::Array(pairs)) = crate::support::json("pve-transcripts.json") else { return };
    let mut failures = 0;
    for pair in &pairs {
        let upid = pair["response"]["body"]["data"]["upid"].as_str().and_then(|text| Upid::parse(text).ok());
        let ended = pair["response"]["body"]["data"]["exitstatus"].is_string();
        let Some(upid) = upid.filter(|_| ended) else { continue };
        match client(&pair["response"]).follow(&upid, "a task", Duration::from_mins(1), &Silent).await {
            Ok(_) => {}
            Err(TaskError::Failed { kind, words, .. }) => {
                let unclassed = UNCLASSED.iter().any(|part| words.contains(part));
                assert_eq!(kind == ErrorKind::Other, unclassed, "{kind:?}: {words}");
                failures += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(failures > 30, "only {failures} failures found: has the layout changed?");
}
