//! What is asked of both servers. Every line of the transcript is one answer.

use std::time::Duration;

use serde_json::{Value, json};
use talmox_k8s::{Apply, Change, Eviction, Kind, Lock, Manifest, Outcome, Selection, Time};

use super::raw::{Who, World, masked};

/// Long enough for a kind to be served, or to be gone.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

struct Script<'a> {
    world: &'a World,
    lines: Vec<String>,
}

pub(super) async fn run(world: &World) -> anyhow::Result<Vec<String>> {
    let mut script = Script { world, lines: Vec::new() };
    script.server().await?;
    script.nodes().await?;
    script.refusals().await?;
    script.pods().await?;
    script.leases().await?;
    script.fields().await?;
    script.definitions().await?;
    Ok(script.lines)
}

fn node(name: &str, labels: &Value) -> Value {
    let conditions = json!([{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }]);
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
        "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.9" }], "conditions": conditions },
    })
}

fn pod(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "shop", "labels": { "app": app } },
        "spec": { "nodeName": "w-1", "containers": [{ "name": "main", "image": "none" }] },
    })
}

fn budget(name: &str, app: &str, least: u64) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name, "namespace": "shop" },
        "spec": { "minAvailable": least, "selector": { "matchLabels": { "app": app } } },
    })
}

fn settings(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings", "namespace": "shop" }, "data": data })
}

impl Script<'_> {
    fn say(&mut self, line: impl Into<String>) {
        self.lines.push(masked(&line.into()));
    }

    async fn ask(&mut self, line: &str, body: Value) -> anyhow::Result<Value> {
        self.ask_as(Who::Administrator, line, body).await
    }

    async fn ask_as(&mut self, who: Who, line: &str, body: Value) -> anyhow::Result<Value> {
        let reply = self.world.send(who, line, &body).await?;
        self.say(format!("{line} -> {}", reply.line()));
        Ok(reply.body)
    }

    async fn server(&mut self) -> anyhow::Result<()> {
        let client = self.world.client();
        let version = client.version().await?.git_version;
        self.say(format!("version {version}"));
        client.ready().await?;
        self.ask_as(Who::Stranger, "GET /api/v1/nodes", Value::Null).await?;
        let reply = self.world.send(Who::Other, "GET /api/v1/nodes", &Value::Null).await?;
        self.say(format!("no rights: {} {}", reply.code, reply.body["reason"]));
        self.ask("GET /apis/nowhere.dev/v1/things", Value::Null).await?;
        self.ask("GET /api/v1/things", Value::Null).await?;
        self.ask("GET /apis/nowhere.dev/v1", Value::Null).await?;
        Ok(())
    }

    async fn nodes(&mut self) -> anyhow::Result<()> {
        let client = self.world.client();
        self.ask("POST /api/v1/nodes", node("w-1", &json!({ "zone": "a" }))).await?;
        self.ask(
            "POST /api/v1/nodes",
            node("w-2", &json!({ "zone": "b", "node-role.kubernetes.io/control-plane": "" })),
        )
        .await?;
        self.ask("POST /api/v1/nodes", node("w-1", &json!({}))).await?;
        let all = client.nodes().await?;
        let shown: Vec<String> = all
            .iter()
            .map(|node| {
                format!(
                    "{} {} {} {:?} {:?}",
                    node.name(),
                    node.is_ready(),
                    node.is_control_plane(),
                    node.addresses().collect::<Vec<_>>(),
                    node.spec.taints
                )
            })
            .collect();
        self.say(format!("nodes {shown:?}"));
        for selector in [
            "zone=a",
            "zone!=a",
            "zone in (a,b)",
            "zone notin (a)",
            "!zone",
            "node-role.kubernetes.io/control-plane",
        ] {
            let found = self
                .world
                .send(
                    Who::Administrator,
                    &format!("GET /api/v1/nodes?labelSelector={selector}"),
                    &Value::Null,
                )
                .await?;
            let names: Vec<&str> = found.body["items"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|one| one["metadata"]["name"].as_str())
                .collect();
            self.say(format!("{selector}: {names:?}"));
        }
        let cordoned = client.cordon("w-1", "upgrade").await?;
        self.say(format!("cordoned {} {:?}", cordoned.spec.unschedulable, cordoned.cordoned_for()));
        self.ask("GET /api/v1/nodes?fieldSelector=spec.unschedulable=true", Value::Null).await?;
        let free = client.uncordon("w-1").await?;
        self.say(format!("free {} {:?}", free.spec.unschedulable, free.cordoned_for()));
        self.ask(
            "PATCH:strategic /api/v1/nodes/w-1/status",
            json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }),
        )
        .await?;
        let node = client.node("w-1").await?;
        self.say(format!("ready {} {}", node.is_ready(), node.status.conditions.len()));
        let error = client.delete_node("w-2", Some("00000000-0000-4000-8000-000000000000")).await.err();
        self.say(format!(
            "another's uid: {:?} {}",
            error.as_ref().map(talmox_k8s::Error::kind),
            error.and_then(|error| error.status().map(|status| status.message.clone())).unwrap_or_default()
        ));
        client.delete_node("w-2", Some(&all[1].metadata.uid)).await?;
        self.ask("DELETE /api/v1/nodes/w-2", Value::Null).await?;
        self.ask("GET /api/v1/nodes/w-2", Value::Null).await?;
        Ok(())
    }

    async fn refusals(&mut self) -> anyhow::Result<()> {
        self.ask(
            "POST /api/v1/nodes",
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x" } }),
        )
        .await?;
        self.ask("PUT /api/v1/nodes/w-1", node("w-9", &json!({}))).await?;
        self.ask(
            "POST /api/v1/nodes",
            node("w-9", &json!({}))
                .as_object()
                .map(|map| {
                    let mut map = map.clone();
                    map.insert("metadata".to_owned(), json!({ "name": "w-9", "resourceVersion": "5" }));
                    Value::Object(map)
                })
                .unwrap_or_default(),
        )
        .await?;
        self.ask("GET /api/v1/nodes?fieldSelector=spec.color=red", Value::Null).await?;
        let reply = self
            .world
            .send(Who::Administrator, "GET /api/v1/nodes?labelSelector=zone of (a)", &Value::Null)
            .await?;
        self.say(format!("a selector that is none: {} {}", reply.code, reply.body["reason"]));
        let reply =
            self.world.send(Who::Administrator, "PATCH:strange /api/v1/nodes/w-1", &json!({})).await?;
        self.say(format!("a patch that is none: {} {}", reply.code, reply.body["reason"]));
        let reply = self
            .world
            .send(Who::Administrator, "PATCH:apply /api/v1/nodes/w-1", &node("w-1", &json!({})))
            .await?;
        self.say(format!("an apply by nobody: {} {}", reply.code, reply.body["reason"]));
        let test = json!([{ "op": "test", "path": "/metadata/labels/zone", "value": "z" }]);
        let reply = self.world.send(Who::Administrator, "PATCH:json /api/v1/nodes/w-1", &test).await?;
        self.say(format!("a test that fails: {} {}", reply.code, reply.body["reason"]));
        let bad = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "Bad_Name" } });
        let reply =
            self.world.send(Who::Administrator, "POST /api/v1/namespaces/default/configmaps", &bad).await?;
        self.say(format!("a bad name: {} {}", reply.code, reply.body["reason"]));
        let none = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {} });
        let reply =
            self.world.send(Who::Administrator, "POST /api/v1/namespaces/default/configmaps", &none).await?;
        self.say(format!("no name: {} {}", reply.code, reply.body["reason"]));
        let elsewhere = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "kube-system" } });
        self.ask("POST /api/v1/namespaces/default/configmaps", elsewhere).await?;
        self.ask(
            "POST /api/v1/namespaces/nowhere/configmaps",
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }),
        )
        .await?;
        self.ask(
            "PUT /api/v1/namespaces/default/configmaps/a",
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }),
        )
        .await?;
        Ok(())
    }

    async fn pods(&mut self) -> anyhow::Result<()> {
        let client = self.world.client();
        self.ask(
            "POST /api/v1/namespaces",
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
        )
        .await?;
        for (name, app) in [("web-0", "web"), ("web-1", "web"), ("db-0", "db"), ("free-0", "free")] {
            self.ask("POST /api/v1/namespaces/shop/pods", pod(name, app)).await?;
            let running = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
            self.ask(&format!("PATCH:strategic /api/v1/namespaces/shop/pods/{name}/status"), running).await?;
        }
        self.guard("web", budget("web", "web", 2), 2).await?;
        self.guard("db", budget("db", "db", 1), 1).await?;
        self.guard("db-too", budget("db-too", "db", 1), 1).await?;
        let pods = client.pods(&Selection::in_namespace("shop").with_fields("spec.nodeName=w-1")).await?;
        for pod in &pods {
            let outcome = match client.evict(pod).await {
                Ok(eviction) => format!("{eviction:?}"),
                Err(error) => format!("{:?} {:?} {}", error.kind(), error.disruption_budget(), error.cause),
            };
            self.say(format!("evict {}: {outcome}", pod.full_name()));
        }
        let mut other = pods[0].clone();
        other.metadata.uid = "00000000-0000-4000-8000-000000000000".to_owned();
        other.metadata.name = "free-0".to_owned();
        let again = client.evict(&other).await?;
        self.say(format!("another of its name: {again:?} {}", again == Eviction::Gone));
        for pod in client.pods(&Selection::in_namespace("shop")).await? {
            self.say(format!(
                "{} leaves {} must {}",
                pod.full_name(),
                pod.is_terminating(),
                pod.must_leave()
            ));
        }
        self.ask("DELETE /api/v1/namespaces/shop/pods/free-0?gracePeriodSeconds=0", Value::Null).await?;
        let left = client.pods(&Selection::in_namespace("shop").with_labels("app=free")).await?;
        self.say(format!("left {}", left.len()));
        Ok(())
    }

    /// A budget, with what its controller would work out: there is none at the genuine server.
    async fn guard(&mut self, name: &str, body: Value, pods: u64) -> anyhow::Result<()> {
        self.ask("POST /apis/policy/v1/namespaces/shop/poddisruptionbudgets", body).await?;
        let status = json!({ "status": {
            "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": pods, "desiredHealthy": pods, "expectedPods": pods,
        } });
        self.ask(
            &format!("PATCH:merge /apis/policy/v1/namespaces/shop/poddisruptionbudgets/{name}/status"),
            status,
        )
        .await?;
        Ok(())
    }

    async fn leases(&mut self) -> anyhow::Result<()> {
        let now = Time::from_unix(1_790_000_000);
        let later = |seconds: u64| now.plus(Duration::from_secs(seconds));
        let (one, two) = (Lock::new(self.world.client(), "one"), Lock::new(self.world.client(), "two"));
        let told = |outcome: Outcome| match outcome {
            Outcome::Ours(held) => format!("ours {} {}", held.holder, held.since.unix() - now.unix()),
            Outcome::Theirs(held) => format!("theirs {} {}", held.holder, held.since.unix() - now.unix()),
        };
        let outcomes = [
            one.acquire(now, false).await?,
            two.acquire(later(10), false).await?,
            one.renew(later(60)).await?,
            two.acquire(later(179), false).await?,
            two.acquire(later(180), false).await?,
            one.renew(later(181)).await?,
            one.acquire(later(182), true).await?,
        ];
        for outcome in outcomes {
            self.say(told(outcome));
        }
        two.release(later(183)).await?;
        self.say(format!("held by {:?}", one.look(later(183)).await?.map(|held| held.holder)));
        one.release(later(184)).await?;
        self.say(format!("held by {:?}", one.look(later(184)).await?.map(|held| held.holder)));
        self.race(later(185)).await?;
        self.raw_leases().await
    }

    /// Eight reach for one lease at once.
    async fn race(&mut self, now: Time) -> anyhow::Result<()> {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..8 {
            let lock = Lock::new(self.world.client(), format!("racer-{number}")).named("default", "race");
            tasks.spawn(async move { lock.acquire(now, false).await });
        }
        let (mut winners, mut holders) = (0, Vec::new());
        while let Some(outcome) = tasks.join_next().await {
            match outcome?? {
                Outcome::Ours(held) => {
                    winners += 1;
                    holders.push(held.holder);
                }
                Outcome::Theirs(held) => holders.push(held.holder),
            }
        }
        holders.dedup();
        self.say(format!("{winners} of eight, and all say the same: {}", holders.len() == 1));
        Ok(())
    }

    async fn raw_leases(&mut self) -> anyhow::Result<()> {
        const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let lease = |version: Option<&str>| {
            let mut body = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "raw", "namespace": "default" },
                "spec": { "holderIdentity": "x", "leaseDurationSeconds": 5 },
            });
            if let Some(version) = version {
                body["metadata"]["resourceVersion"] = version.into();
            }
            body
        };
        let one = format!("{PATH}/raw");
        self.ask(&format!("PUT {one}"), lease(None)).await?;
        self.ask(&format!("POST {PATH}"), lease(None)).await?;
        self.ask(&format!("PUT {one}"), lease(None)).await?;
        self.ask(&format!("PUT {one}"), lease(Some("1"))).await?;
        let live = self.ask(&format!("GET {one}"), Value::Null).await?;
        let version = live["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let same = self.ask(&format!("PUT {one}"), lease(Some(&version))).await?;
        self.say(format!(
            "nothing changed, same version: {}",
            same["metadata"]["resourceVersion"] == version.as_str()
        ));
        self.ask(&format!("DELETE {one}"), Value::Null).await?;
        Ok(())
    }

    async fn fields(&mut self) -> anyhow::Result<()> {
        const PATH: &str = "/api/v1/namespaces/shop/configmaps/settings";
        let client = self.world.client();
        let manifest = |data: Value| Manifest::read_all(&settings(&data).to_string());
        let first = manifest(json!({ "a": "1", "b": "1" }))?;
        self.say(format!("{:?}", client.compare(&first[0]).await?));
        for _ in 0..2 {
            let applied = client.apply(&first, Apply::default()).await?;
            self.say(format!("{} {:?}", applied[0].what, applied[0].change == Change::Created));
        }
        self.say(format!("{:?}", client.compare(&first[0]).await?));
        let second = manifest(json!({ "a": "2" }))?;
        self.say(format!("{:?}", client.compare(&second[0]).await?));
        self.ask(&format!("PATCH:apply {PATH}?fieldManager=other"), settings(&json!({ "b": "1", "c": "1" })))
            .await?;
        self.ask(&format!("PATCH:apply {PATH}?fieldManager=other"), settings(&json!({ "a": "9" }))).await?;
        self.ask(&format!("PATCH:apply {PATH}?fieldManager=other"), settings(&json!({ "a": "9", "b": "9" })))
            .await?;
        self.show(PATH).await?;
        client.apply(&second, Apply::default()).await?;
        self.show(PATH).await?;
        self.ask(
            &format!("PATCH:merge {PATH}?fieldManager=editor"),
            json!({ "data": { "a": "3", "d": "1" } }),
        )
        .await?;
        let error = client.apply(&second, Apply::default()).await.err();
        let words = error
            .map(|error| std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default())
            .unwrap_or_default();
        self.say(words.split_once(": ").map(|(_, words)| words.to_owned()).unwrap_or_default());
        client.apply(&second, Apply { force: true, ..Apply::default() }).await?;
        self.show(PATH).await?;
        self.ask(&format!("PATCH:apply {PATH}?fieldManager=other&force=true"), settings(&json!({}))).await?;
        self.show(PATH).await?;
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key", "namespace": "shop" }, "stringData": { "k": "v" } });
        let secret = Manifest::read_all(&secret.to_string())?;
        client.apply(&secret, Apply::default()).await?;
        let live = self.ask("GET /api/v1/namespaces/shop/secrets/key", Value::Null).await?;
        self.say(format!("{} {} {}", live["data"], live["stringData"], live["type"]));
        self.containers().await
    }

    async fn show(&mut self, path: &str) -> anyhow::Result<()> {
        let live = self.ask(&format!("GET {path}"), Value::Null).await?;
        let mut data: Vec<String> = live["data"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        data.sort();
        let mut managers: Vec<String> = live["metadata"]["managedFields"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| format!("{} {} {}", one["manager"], one["operation"], owned(&one["fieldsV1"])))
            .collect();
        managers.sort();
        self.say(format!("{data:?} {managers:?}"));
        Ok(())
    }

    /// Two who own parts of one list.
    async fn containers(&mut self) -> anyhow::Result<()> {
        const PATH: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
        let labels = json!({ "app": "other" });
        let deployment = |containers: Value| {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
                "spec": {
                    "replicas": 0, "selector": { "matchLabels": labels },
                    "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
                },
            })
        };
        let images = |live: &Value| {
            let containers = live["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
            containers.map(|one| format!("{}={}", one["name"], one["image"])).collect::<Vec<_>>().join(" ")
        };
        let line = |manager: &str| format!("PATCH:apply {PATH}?fieldManager={manager}");
        let live = self.ask(&line("one"), deployment(json!([{ "name": "a", "image": "1" }]))).await?;
        self.say(images(&live));
        let live = self.ask(&line("two"), deployment(json!([{ "name": "b", "image": "1" }]))).await?;
        self.say(images(&live));
        self.ask(
            &line("two"),
            deployment(json!([{ "name": "a", "image": "2" }, { "name": "b", "image": "1" }])),
        )
        .await?;
        let live = self.ask(&line("one"), deployment(json!([{ "name": "b", "image": "1" }]))).await?;
        self.say(images(&live));
        Ok(())
    }

    async fn definitions(&mut self) -> anyhow::Result<()> {
        const PATH: &str = "/apis/demo.talmox.dev/v1/namespaces/shop/widgets";
        let client = self.world.client();
        let widget = json!({ "apiVersion": "demo.talmox.dev/v1", "kind": "Widget", "metadata": { "name": "w", "namespace": "shop" }, "spec": { "size": 3 } });
        let schema =
            json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "widgets.demo.talmox.dev" },
            "spec": {
                "group": "demo.talmox.dev", "scope": "Namespaced", "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"] },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema, "subresources": { "status": {} } }],
            },
        });
        self.ask(&format!("POST {PATH}"), widget.clone()).await?;
        let missing = client.apply(&Manifest::read_all(&widget.to_string())?, Apply::default()).await.err();
        self.say(missing.map(|error| error.to_string()).unwrap_or_default());
        let text = format!("{widget}\n---\n{definition}\n");
        let applied = client.apply(&Manifest::read_all(&text)?, Apply::default()).await?;
        self.say(format!("{applied:?}"));
        let mut live = self.ask(&format!("GET {PATH}/w"), Value::Null).await?;
        self.say(format!("{} {} {}", live["kind"], live["spec"], live["metadata"]["generation"]));
        live["spec"]["size"] = 4.into();
        live["status"] = json!({ "ignored": true });
        let live = self.ask(&format!("PUT {PATH}/w"), live).await?;
        self.say(format!("{} {} {}", live["spec"], live["status"], live["metadata"]["generation"]));
        let live = self
            .ask(
                &format!("PATCH:merge {PATH}/w/status"),
                json!({ "status": { "seen": 1 }, "spec": { "size": 9 } }),
            )
            .await?;
        self.say(format!("{} {} {}", live["spec"], live["status"], live["metadata"]["generation"]));
        self.ask(&format!("PUT {PATH}/w"), widget.clone()).await?;
        self.ask(&format!("PATCH:strategic {PATH}/w"), json!({})).await.map(drop)?;
        self.ask(
            "DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.talmox.dev",
            Value::Null,
        )
        .await?;
        let gone = self.gone(&format!("GET {PATH}/w")).await?;
        self.say(format!("the kind is gone: {gone}"));
        let error = client
            .apply(
                &Manifest::read_all(&widget.to_string())?,
                Apply { wait: Duration::ZERO, ..Apply::default() },
            )
            .await
            .err();
        let kind = error.map(|error| match error {
            talmox_k8s::ApplyError::Call { source, .. } => source.kind(),
            talmox_k8s::ApplyError::NoSuchKind { .. } => Kind::NotFound,
        });
        self.say(format!("{kind:?}"));
        Ok(())
    }

    async fn gone(&self, line: &str) -> anyhow::Result<bool> {
        for _ in 0..TRIES {
            if self.world.send(Who::Administrator, line, &Value::Null).await?.code == 404 {
                return Ok(true);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(false)
    }
}

/// The keys of `data` in a set of fields.
fn owned(fields: &Value) -> String {
    let keys = fields["f:data"].as_object().into_iter().flatten();
    let mut keys: Vec<&str> = keys.map(|(key, _)| key.as_str()).filter(|key| *key != ".").collect();
    keys.sort_unstable();
    keys.join(",")
}
