//! Calls against a script: what is sent, and what is made of the answers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use talmox_k8s::{
    Access, Apply, BoxFuture, Change, Client, Eviction, Kind, Lock, Manifest, Outcome, Pod, Request,
    Response, Selection, Server, Standing, Time, Transport, TransportError,
};

type Answer = Result<(u16, Value), TransportError>;

/// Answers in order; says what was asked.
struct Script {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<(String, Value)>>,
}

impl Transport for Script {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        let query: Vec<String> = request.query.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let line = format!("{} {}{query}", request.method, request.path);
        let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        self.asked.lock().unwrap().push((line, body));
        let answer = self.answers.lock().unwrap().pop_front().expect("an answer for every request");
        Box::pin(async move {
            let (status, body) = answer?;
            Ok(Response { status, date: None, body: Bytes::from(body.to_string()) })
        })
    }
}

impl Script {
    fn lines(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(line, _)| line.clone()).collect()
    }

    fn body(&self, index: usize) -> Value {
        self.asked.lock().unwrap()[index].1.clone()
    }
}

fn scripted(answers: impl IntoIterator<Item = Answer>) -> (Arc<Script>, Client) {
    let script =
        Arc::new(Script { answers: Mutex::new(answers.into_iter().collect()), asked: Mutex::default() });
    let identity = crate::support::Authority::new().identity("admin");
    let access = Access { server: Server::new("10.0.0.5", 6443), identity };
    (Arc::clone(&script), Client::new(script, access))
}

#[expect(clippy::unnecessary_wraps, reason = "scripts are lists of these")]
fn failure(code: u16, reason: &str) -> Answer {
    let message = format!("it is {reason}");
    Ok((
        code,
        json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message }),
    ))
}

fn lost() -> Answer {
    Err(TransportError::Lost { reason: "cut".to_owned() })
}

#[tokio::test]
async fn lists_are_asked_for_by_selectors_and_read() {
    let pod = json!({
        "metadata": { "name": "a", "namespace": "kube-system", "labels": null, "annotations": { "kubernetes.io/config.mirror": "x" } },
        "spec": { "nodeName": "cp-1", "containers": [{ "name": "c", "image": "i" }] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    let (script, client) =
        scripted([Ok((200, json!({ "items": [pod] }))), Ok((200, json!({ "items": null })))]);
    let selection = Selection::in_namespace("kube-system")
        .with_labels("k8s-app=kube-apiserver")
        .with_fields("spec.nodeName=cp-1");
    let pods = client.pods(&selection).await.unwrap();
    assert!(pods[0].is_ready() && pods[0].is_mirror() && !pods[0].must_leave());
    assert_eq!(client.daemon_sets(&Selection::all()).await.unwrap(), []);
    assert_eq!(
        script.lines(),
        [
            "GET /api/v1/namespaces/kube-system/pods?labelSelector=k8s-app=kube-apiserver&fieldSelector=spec.nodeName=cp-1",
            "GET /apis/apps/v1/daemonsets"
        ]
    );
}

#[tokio::test]
async fn cordoning_notes_what_for_and_uncordoning_leaves_nothing() {
    let node = json!({ "metadata": { "name": "w-1", "annotations": { "talmox.dev/cordoned": "upgrade" } }, "spec": { "unschedulable": true } });
    let (script, client) = scripted([Ok((200, node)), Ok((200, json!({ "metadata": { "name": "w-1" } })))]);
    let node = client.cordon("w-1", "upgrade").await.unwrap();
    assert!(node.spec.unschedulable);
    assert_eq!(node.cordoned_for(), Some("upgrade"));
    client.uncordon("w-1").await.unwrap();
    let patch = |reason: Value, unschedulable: Value| json!({ "metadata": { "labels": {}, "annotations": { "talmox.dev/cordoned": reason } }, "spec": { "unschedulable": unschedulable } });
    assert_eq!(script.body(0), patch(json!("upgrade"), json!(true)));
    assert_eq!(script.body(1), patch(Value::Null, Value::Null));
}

#[tokio::test]
async fn an_eviction_names_the_budget_in_its_way() {
    let blocked = json!({
        "kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "Cannot evict pod.",
        "details": { "causes": [{ "reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2 currently" }] },
    });
    let two = json!({ "kind": "Status", "status": "Failure", "code": 500, "message": "more than one PodDisruptionBudget" });
    let (script, client) = scripted([
        Ok((429, blocked)),
        failure(404, "NotFound"),
        failure(409, "Conflict"),
        Ok((201, json!({ "kind": "Status", "status": "Success" }))),
        Ok((201, two)),
    ]);
    let pod: Pod =
        serde_json::from_value(json!({ "metadata": { "name": "web-0", "namespace": "shop", "uid": "u" } }))
            .unwrap();
    let error = client.evict(&pod).await.unwrap_err();
    assert_eq!((error.kind(), error.disruption_budget()), (Kind::Blocked, Some("web")));
    assert_eq!(
        error.to_string(),
        "evict pod shop/web-0 at 10.0.0.5:6443: Cannot evict pod. \
         The disruption budget web needs 2 healthy pods and has 2 currently"
    );
    assert_eq!(client.evict(&pod).await.unwrap(), Eviction::Gone);
    assert_eq!(client.evict(&pod).await.unwrap(), Eviction::Gone);
    assert_eq!(client.evict(&pod).await.unwrap(), Eviction::Begun);
    let error = client.evict(&pod).await.unwrap_err();
    assert!(error.to_string().ends_with("more than one PodDisruptionBudget"), "{error}");
    assert_eq!(script.lines()[0], "POST /api/v1/namespaces/shop/pods/web-0/eviction");
    assert_eq!(script.body(0)["deleteOptions"]["preconditions"]["uid"], "u");
}

fn lease(holder: &str, version: &str, renewed: Time, transitions: u64) -> Value {
    json!({
        "metadata": { "name": "talmox", "namespace": "kube-system", "resourceVersion": version },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 120, "leaseTransitions": transitions,
                  "acquireTime": renewed.to_string(), "renewTime": renewed.to_string() },
    })
}

const BEGIN: Time = Time::from_unix(1_767_225_600);

#[tokio::test]
async fn a_lease_nobody_has_is_made_and_anothers_is_told() {
    let (script, client) = scripted([
        failure(404, "NotFound"),
        Ok((201, lease("me", "1", BEGIN, 0))),
        Ok((200, lease("you", "7", BEGIN, 3))),
        Ok((200, lease("you", "7", BEGIN, 3))),
    ]);
    let lock = Lock::new(client, "me");
    assert!(matches!(lock.acquire(BEGIN, false).await.unwrap(), Outcome::Ours(held) if held.since == BEGIN));
    assert_eq!(script.body(1)["spec"]["holderIdentity"], "me");
    let soon = BEGIN.plus(Duration::from_secs(119));
    let Outcome::Theirs(held) = lock.acquire(soon, false).await.unwrap() else { panic!("not ours") };
    assert_eq!((held.holder.as_str(), held.ends), ("you", BEGIN.plus(Duration::from_mins(2))));
    assert!(matches!(lock.renew(BEGIN.plus(Duration::from_mins(5))).await.unwrap(), Outcome::Theirs(_)));
}

#[tokio::test]
async fn a_lease_that_ran_out_or_is_taken_over_counts_on() {
    for (later, take_over) in [(Duration::from_mins(2), false), (Duration::from_secs(1), true)] {
        let now = BEGIN.plus(later);
        let (script, client) =
            scripted([Ok((200, lease("you", "7", BEGIN, 3))), Ok((200, lease("me", "8", now, 4)))]);
        let outcome = Lock::new(client, "me").acquire(now, take_over).await.unwrap();
        assert!(matches!(outcome, Outcome::Ours(held) if held.holder == "me" && held.since == now));
        let put = script.body(1);
        assert_eq!(put["metadata"]["resourceVersion"], "7");
        assert_eq!(
            (&put["spec"]["leaseTransitions"], &put["spec"]["acquireTime"]),
            (&json!(4), &json!(now.to_string()))
        );
    }
}

#[tokio::test]
async fn of_two_who_reach_for_a_lease_one_hears_of_the_other() {
    let (_, client) = scripted([
        failure(404, "NotFound"),
        failure(409, "AlreadyExists"),
        Ok((200, lease("", "1", BEGIN, 0))),
        failure(409, "Conflict"),
        Ok((200, lease("you", "2", BEGIN, 1))),
    ]);
    let outcome = Lock::new(client, "me").acquire(BEGIN, false).await.unwrap();
    assert!(matches!(outcome, Outcome::Theirs(held) if held.holder == "you"));
}

#[tokio::test]
async fn a_lost_reply_is_uncertain_and_the_next_try_finds_the_lease_ours() {
    let now = BEGIN.plus(Duration::from_secs(20));
    let (script, client) = scripted([
        failure(404, "NotFound"),
        lost(),
        Ok((200, lease("me", "1", BEGIN, 0))),
        Ok((200, lease("me", "2", now, 0))),
    ]);
    let lock = Lock::new(client, "me");
    assert_eq!(lock.acquire(BEGIN, false).await.unwrap_err().kind(), Kind::Uncertain);
    assert!(matches!(lock.acquire(now, false).await.unwrap(), Outcome::Ours(_)));
    let put = &script.body(3)["spec"];
    assert_eq!((&put["acquireTime"], &put["leaseTransitions"]), (&json!(BEGIN.to_string()), &json!(0)));
}

#[tokio::test]
async fn only_its_holder_releases_a_lease() {
    let (script, client) = scripted([
        Ok((200, lease("you", "1", BEGIN, 0))),
        Ok((200, lease("me", "2", BEGIN, 0))),
        failure(409, "Conflict"),
        Ok((200, lease("me", "3", BEGIN, 0))),
        Ok((200, lease("", "4", BEGIN, 0))),
    ]);
    let lock = Lock::new(client, "me");
    lock.release(BEGIN).await.unwrap();
    lock.release(BEGIN).await.unwrap();
    assert_eq!(script.lines().len(), 5);
    assert_eq!(script.body(4)["spec"]["holderIdentity"], "");
}

const MANIFESTS: &str = "
apiVersion: demo.dev/v1
kind: Widget
metadata: {name: w, namespace: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.demo.dev}
spec: {group: demo.dev, names: {kind: Widget, plural: widgets}, versions: [{name: v1}]}
";

#[expect(clippy::unnecessary_wraps, reason = "scripts are lists of these")]
fn kinds(name: &str, kind: &str, namespaced: bool) -> Answer {
    let status = json!({ "name": format!("{name}/status"), "kind": kind, "namespaced": namespaced });
    Ok((200, json!({ "resources": [{ "name": name, "kind": kind, "namespaced": namespaced }, status] })))
}

#[tokio::test(start_paused = true)]
async fn definitions_go_first_and_their_kinds_are_waited_for() {
    let (script, client) = scripted([
        kinds("namespaces", "Namespace", false),
        Ok((200, json!({}))),
        kinds("customresourcedefinitions", "CustomResourceDefinition", false),
        Ok((201, json!({}))),
        failure(404, "NotFound"),
        Ok((200, json!({ "resources": [] }))),
        kinds("widgets", "Widget", true),
        failure(404, "NotFound"),
        kinds("widgets", "Widget", true),
        Ok((201, json!({}))),
    ]);
    let applied = client.apply(&Manifest::read_all(MANIFESTS).unwrap(), Apply::default()).await.unwrap();
    let changes: Vec<_> = applied.iter().map(|one| (one.what.as_str(), one.change)).collect();
    assert_eq!(
        changes,
        [
            ("Namespace shop", Change::Updated),
            ("CustomResourceDefinition widgets.demo.dev", Change::Created),
            ("Widget shop/w", Change::Created)
        ]
    );
    let last = script.lines().pop().unwrap();
    assert_eq!(last, "PATCH /apis/demo.dev/v1/namespaces/shop/widgets/w?fieldManager=talmox&force=false");
}

#[tokio::test(start_paused = true)]
async fn a_kind_nobody_brings_is_an_error_at_once() {
    let (script, client) = scripted([failure(404, "NotFound")]);
    let widget = &Manifest::read_all(MANIFESTS).unwrap()[..1];
    let error = client.apply(widget, Apply::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not apply Widget shop/w: the cluster has no kind Widget in demo.dev/v1"
    );
    assert_eq!(script.lines().len(), 1);
}

#[tokio::test]
async fn a_comparison_changes_nothing() {
    let object = |version: &str, data: &str| json!({ "metadata": { "name": "n", "resourceVersion": version, "managedFields": [version] }, "data": data });
    for (would_be, expected) in [("x", Standing::Same), ("y", Standing::Different)] {
        let (script, client) = scripted([
            kinds("namespaces", "Namespace", false),
            Ok((200, object("1", "x"))),
            Ok((200, object("2", would_be))),
        ]);
        let namespace = &Manifest::read_all(MANIFESTS).unwrap()[1];
        assert_eq!(client.compare(namespace).await.unwrap(), expected);
        assert!(script.lines()[2].ends_with("&dryRun=All"), "{:?}", script.lines());
    }
}

#[tokio::test]
async fn failures_keep_the_words_of_the_server() {
    let (_, client) = scripted([
        failure(403, "Forbidden"),
        lost(),
        Ok((200, json!("words"))),
        failure(500, "InternalError"),
    ]);
    let error = client.delete_node("w-1", Some("uid")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (Kind::Denied, "delete node w-1 at 10.0.0.5:6443: it is Forbidden")
    );
    assert_eq!(client.nodes().await.unwrap_err().kind(), Kind::Uncertain);
    let error = client.version().await.unwrap_err();
    assert!(error.to_string().contains("the reply makes no sense"), "{error}");
    assert_eq!(client.ready().await.unwrap_err().kind(), Kind::NotReady);
}
