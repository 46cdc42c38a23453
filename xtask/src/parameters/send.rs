//! Puts generated requests on the wire of a simulator in memory.

use anyhow::Context as _;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use talmox_sim::{Body, FileFacts, Pool, Request, Starter, World, encode_form, percent_encode};

use super::generate::{Case, Encoding, is_path_variable};
use super::oracle::{Errors, Given, is_of_schema};
use super::schema::Endpoint;

/// What became of a request.
pub(crate) enum Verdict {
    /// The schema had nothing against it.
    Passed,
    Refused(Errors),
    /// Something else decided before the schema was asked.
    NotReached(String),
}

/// A world each request starts from, and a login of `root@pam`.
pub(crate) struct Server {
    world: World,
    ticket: String,
    csrf: String,
}

impl Server {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let started = Starter::new(2, 1, 1_700_000_000_000).build();
        let mut world = started.world;
        world.add_vm("pve1", 100, BTreeMap::new(), false);
        // A pool that is not there is refused as if one had no right to it.
        let pools = super::samples::values("pve-poolid").into_iter().map(|name| (name, Pool::default()));
        world.pools.extend(pools);
        let body = encode_form([("username", "root@pam"), ("password", started.root_password.as_str())]);
        let login = Request {
            method: "POST".into(),
            path: "/api2/json/access/ticket".into(),
            body: Body::Bytes { content_type: None, bytes: body.into_bytes() },
            ..Request::default()
        };
        let reply: Value = serde_json::from_slice(&world.handle(&login, 0).body)?;
        let text = |name: &str| reply["data"][name].as_str().map(str::to_owned).context("no login");
        Ok(Self { ticket: text("ticket")?, csrf: text("CSRFPreventionToken")?, world })
    }

    /// The request on the wire; nothing if it cannot be sent like that.
    pub(crate) fn request(&self, endpoint: &Endpoint, case: &Case) -> Option<Request> {
        let mut path = endpoint.path.clone();
        let mut params = BTreeMap::new();
        for (name, given) in &case.params {
            if let (Given::Text(text), true) = (given, is_path_variable(endpoint, name)) {
                path = path.replace(&format!("{{{name}}}"), &percent_encode(text));
            } else {
                params.insert(name.as_str(), given);
            }
        }
        let has_body = matches!(endpoint.method.as_str(), "POST" | "PUT");
        let is_upload = endpoint.path.ends_with("/upload");
        let (query, body) = match case.encoding {
            Encoding::Form if is_upload => (String::new(), upload(&params)?),
            Encoding::Form if !has_body => (form(&params), Body::Empty),
            Encoding::Form => {
                (String::new(), Body::Bytes { content_type: None, bytes: form(&params).into_bytes() })
            }
            Encoding::Json => {
                let content_type = Some("application/json".to_owned());
                (String::new(), Body::Bytes { content_type, bytes: json(&params).to_string().into_bytes() })
            }
        };
        Some(Request {
            method: endpoint.method.clone(),
            path: format!("/api2/json{path}"),
            query,
            body,
            cookie: Some(percent_encode(&self.ticket)),
            csrf: Some(self.csrf.clone()),
            ..Request::default()
        })
    }

    pub(crate) fn ask(&self, request: &Request) -> Verdict {
        let mut world = self.world.clone();
        let reply = world.handle(request, 0);
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let errors: Errors = body["errors"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, reason)| (name.clone(), reason.as_str().unwrap_or_default().to_owned()))
            .collect();
        let is_login = request.path.ends_with("/access/ticket");
        match reply.status {
            400 if errors.values().any(|reason| is_of_schema(reason)) => Verdict::Refused(errors),
            401 if is_login => Verdict::Passed,
            401 | 403 | 501..=599 => Verdict::NotReached(format!("{} {}", reply.status, reply.reason)),
            _ => Verdict::Passed,
        }
    }
}

fn form(params: &BTreeMap<&str, &Given>) -> String {
    let mut pairs = Vec::new();
    for (name, given) in params {
        let name = percent_encode(name);
        match given {
            Given::Null => pairs.push(name),
            Given::Text(text) => pairs.push(format!("{name}={}", percent_encode(text))),
            Given::Flag(flag) => pairs.push(format!("{name}={}", u8::from(*flag))),
            Given::List(items) => {
                pairs.extend(items.iter().map(|item| format!("{name}={}", percent_encode(item))));
            }
            Given::Object => {}
        }
    }
    pairs.join("&")
}

fn json(params: &BTreeMap<&str, &Given>) -> Value {
    let value = |given: &Given| match given {
        Given::Null => Value::Null,
        Given::Text(text) => Value::from(text.as_str()),
        Given::Flag(flag) => Value::from(*flag),
        Given::List(items) => Value::from(items.clone()),
        Given::Object => Value::Object(Map::new()),
    };
    params.iter().map(|(name, given)| ((*name).to_owned(), value(given))).collect::<Map<_, _>>().into()
}

/// The name of an uploaded file comes with the file.
fn upload(params: &BTreeMap<&str, &Given>) -> Option<Body> {
    let mut fields = BTreeMap::new();
    for (name, given) in params {
        let Given::Text(text) = given else { return None };
        fields.insert((*name).to_owned(), text.clone());
    }
    let filename = fields.remove("filename")?;
    Some(Body::Upload { fields, filename, file: FileFacts::default() })
}
