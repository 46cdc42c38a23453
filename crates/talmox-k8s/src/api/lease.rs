//! A lease as a lock: one writer at a time, who it is and since when.
//!
//! ```text
//!            acquire                    renew, in time
//!   free ──────────────▶ held by us ───────────────────┐
//!    ▲  ▲                  │  │  ▲─────────────────────┘
//!    │  └── two minutes ───┘  └─ acquire(take over) by another ─▶ held by another
//!    └───── release
//! ```
//! Every write names the version that was read, so of two who reach for it at once one hears of the other. Whether time has
//! run out is judged by the caller's clock against the holder's; who does not trust them looks at [`Holding::age`], or watches
//! whether it is renewed ([`Lock::take_from`]). A lease tells careful people from each other and fences nothing, so whatever is done under it must
//! survive a second actor all the same.

use std::time::Duration;

use serde_json::{Value, json};
use talmox_types::excerpt;

use crate::client::{Call, JSON};
use crate::{Client, Error, Kind, Method, Time};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "talmox";
/// How long a lease holds after it was last renewed.
const TERM: Duration = Duration::from_mins(2);
/// Two who reach for the lease at once: each try has one winner, so this many are enough for as many losers.
const TRIES: u32 = 5;

/// Who holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// As it calls itself.
    pub holder: String,
    pub since: Time,
    pub renewed: Time,
    /// When it ends unless it is renewed.
    pub ends: Time,
    /// How long ago it was last written, by the clock of the server alone; none if the server does not tell.
    pub age: Option<Duration>,
}

/// What came of reaching for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is ours.
    Ours(Holding),
    /// It is another's.
    Theirs(Holding),
}

/// A lease, and the name under which it is held.
#[derive(Clone, Debug)]
pub struct Lock {
    client: Client,
    namespace: String,
    name: String,
    holder: String,
    term: Duration,
}

impl Lock {
    /// The cluster's lease for changes, `kube-system/talmox`. The holder's name must be of one run alone: who finds its own name
    /// in the lease takes it for its own.
    pub fn new(client: Client, holder: impl Into<String>) -> Self {
        let (namespace, name) = (NAMESPACE.to_owned(), NAME.to_owned());
        Self { client, namespace, name, holder: holder.into(), term: TERM }
    }

    /// Another lease of the cluster.
    #[must_use]
    pub fn named(mut self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        (self.namespace, self.name) = (namespace.into(), name.into());
        self
    }

    /// Who holds it at that time; nobody once time has run out.
    pub async fn look(&self, now: Time) -> Result<Option<Holding>, Error> {
        Ok(self.read().await?.and_then(|lease| lease.holding).filter(|holding| holding.ends > now))
    }

    /// Takes the lease if it is free or ours already, and another's if told so. After an uncertain end it can simply be called
    /// again.
    pub async fn acquire(&self, now: Time, take_over: bool) -> Result<Outcome, Error> {
        self.attempt(now, |holding| take_over || holding.ends <= now).await
    }

    /// Takes the lease from one that was seen not to renew it, whatever time stands in it: clocks may be far apart. If it was renewed
    /// since, or somebody else has it, it stays theirs. One that nobody has is taken as well.
    pub async fn take_from(&self, now: Time, holder: &str, renewed: Time) -> Result<Outcome, Error> {
        let same = |holding: &Holding| holding.holder == holder && holding.renewed.unix() == renewed.unix();
        self.attempt(now, same).await
    }

    /// Holds on to the lease. If it is another's by now, what was done under it has to stop. One that ran out and nobody took
    /// is ours again.
    pub async fn renew(&self, now: Time) -> Result<Outcome, Error> {
        self.attempt(now, |_| false).await
    }

    /// Gives the lease back, if it is ours.
    pub async fn release(&self, now: Time) -> Result<(), Error> {
        for _ in 0..TRIES {
            let Some(lease) = self.read().await? else { return Ok(()) };
            if lease.holding.as_ref().is_none_or(|holding| holding.holder != self.holder) {
                return Ok(());
            }
            let mut body = lease.body;
            body["spec"]["holderIdentity"] = json!("");
            body["spec"]["renewTime"] = json!(now.to_string());
            match self.replace(&body).await {
                Err(error) if error.kind() == Kind::Conflict => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads, decides, writes; again where somebody else was faster.
    async fn attempt(&self, now: Time, may_take: impl Fn(&Holding) -> bool) -> Result<Outcome, Error> {
        let mut last = None;
        for _ in 0..TRIES {
            let lease = self.read().await?;
            let written = match &lease {
                None => self.create(now).await,
                Some(Lease { body, holding }) => match holding {
                    Some(holding) if holding.holder != self.holder && !may_take(holding) => {
                        return Ok(Outcome::Theirs(holding.clone()));
                    }
                    holding => self.replace(&self.taken(body, holding.as_ref(), now)).await,
                },
            };
            match written {
                Ok(answer) => return self.held(answer).map(Outcome::Ours),
                Err(error) if [Kind::Conflict, Kind::AlreadyThere].contains(&error.kind()) => {
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match last {
            Some(error) => Err(error),
            None => Err(self.nonsense()),
        }
    }

    /// The lease with us as holder. Who holds it already keeps the time since when.
    fn taken(&self, body: &Value, holding: Option<&Holding>, now: Time) -> Value {
        let mut body = body.clone();
        let ours = holding.is_some_and(|holding| holding.holder == self.holder);
        if !ours {
            let transitions = body["spec"]["leaseTransitions"].as_u64().unwrap_or_default();
            body["spec"]["holderIdentity"] = json!(self.holder);
            body["spec"]["acquireTime"] = json!(now.to_string());
            body["spec"]["leaseTransitions"] = json!(transitions + 1);
        }
        body["spec"]["renewTime"] = json!(now.to_string());
        body["spec"]["leaseDurationSeconds"] = json!(self.term.as_secs());
        body
    }

    fn held(&self, (body, date): Dated) -> Result<Holding, Error> {
        Lease::read(body, date).holding.ok_or_else(|| self.nonsense())
    }

    fn nonsense(&self) -> Error {
        let cause = crate::Cause::Reply("a lease without a holder".to_owned());
        self.client.error(Method::Get, &self.action("take"), cause)
    }

    async fn read(&self) -> Result<Option<Lease>, Error> {
        match self.client.ask_dated(Call::get(self.path(true), self.action("read"))).await {
            Ok((body, date)) => Ok(Some(Lease::read(body, date))),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, now: Time) -> Result<Dated, Error> {
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": self.name, "namespace": self.namespace },
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": self.term.as_secs(),
                "acquireTime": now.to_string(),
                "renewTime": now.to_string(),
                "leaseTransitions": 0,
            },
        });
        let call = Call::new(Method::Post, self.path(false), self.action("take")).body(JSON, body);
        self.client.ask_dated(call).await
    }

    async fn replace(&self, body: &Value) -> Result<Dated, Error> {
        let call = Call::new(Method::Put, self.path(true), self.action("take")).body(JSON, body.clone());
        self.client.ask_dated(call).await
    }

    fn path(&self, one: bool) -> String {
        let all = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace);
        if one { format!("{all}/{}", self.name) } else { all }
    }

    fn action(&self, verb: &str) -> String {
        format!("{verb} lease {}/{}", self.namespace, self.name)
    }
}

/// An object, and when the server answered.
type Dated = (Value, Option<Time>);

/// A lease as it was read, with the version a write has to name.
struct Lease {
    body: Value,
    holding: Option<Holding>,
}

impl Lease {
    /// A lease that lacks a time counts as held from its beginning on, so that it ends at once.
    fn read(body: Value, date: Option<Time>) -> Self {
        let spec = &body["spec"];
        let time = |key: &str| spec[key].as_str().and_then(Time::parse).unwrap_or(Time::from_unix(0));
        let holder = spec["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
        let term = Duration::from_secs(spec["leaseDurationSeconds"].as_u64().unwrap_or_default());
        let holding = holder.map(|holder| Holding {
            holder: excerpt(holder),
            since: time("acquireTime"),
            renewed: time("renewTime"),
            ends: time("renewTime").plus(term),
            age: date.zip(written(&body)).map(|(date, written)| date.since(written)),
        });
        Self { body, holding }
    }
}

/// When the server last wrote an object: the latest time among those it notes for each writer.
fn written(body: &Value) -> Option<Time> {
    let managers = body["metadata"]["managedFields"].as_array()?;
    managers.iter().filter_map(|manager| manager["time"].as_str().and_then(Time::parse)).max()
}
