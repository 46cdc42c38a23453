//! The configuration a machine has, beside the one it should have.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};
use talmox_machine::{Config, Hidden, Source};
use talmox_plan::{Applies, Change, Incomparable};
use talmox_talos::{ApplyMode, Client, Deadlines, Kind, kinds};
use talmox_types::{NodeName, Phases};

use super::{images, without_secrets};
use crate::{MachineConfig, Reach, Whereabouts};

/// Parts of `machine` that Talos takes over while it runs. Every other document is taken over too, and all of `cluster` but
/// [`ETCD`]; of the rest, `env`, `files`, `disks` and others, it says that it needs a restart, and from 1.14 on it says nothing.
const TAKEN_OVER: [&str; 18] = [
    "acceptedCAs",
    "ca",
    "certSANs",
    "controlPlane",
    "features",
    "install",
    "kubelet",
    "logging",
    "network",
    "nodeAnnotations",
    "nodeLabels",
    "nodeTaints",
    "pods",
    "registries",
    "seccompProfiles",
    "sysctls",
    "sysfs",
    "time",
];

/// What Talos takes without a word, and etcd reads when it starts. Talos restarts it with the machine only, so what was sent would be
/// in force by every look, and have no effect.
const ETCD: &str = "cluster.etcd";

/// How old a trial is taken to be at most. Whoever began it chose how long it runs, a minute unless they said otherwise, and the
/// machine does not tell; what is older was staged before a trial, and waits for its restart.
const TRIAL_AT_MOST: Duration = Duration::from_hours(1);

/// The first minor that takes every change without a word, and leaves it to others to know which need a restart.
const SAYS_NOTHING: u64 = 14;

/// What Talos says of a change that needs a restart, where it was told to do without.
const NOT_IMMEDIATELY: &str = "can't be applied in immediate mode";

/// What a machine has: on its disk, and in force.
pub struct Held {
    pub kept: Option<SecretString>,
    pub active: Option<SecretString>,
    /// Since when the one in force is younger than the one on the disk, since 1970: a trial puts it there and leaves the disk
    /// alone, where what waits for a restart is written to the disk alone. Says nothing unless the two differ.
    pub tried: Option<Duration>,
}

impl Held {
    /// Since when something is on trial, if the two differ. Clocks differ too, so what began a moment from now counts.
    pub(crate) fn on_trial(&self, now: u64) -> Option<Duration> {
        let age = |since: Duration| Duration::from_secs(now).checked_sub(since);
        self.tried.filter(|since| age(*since).is_none_or(|age| age < TRIAL_AT_MOST))
    }
}

/// Both of them. Talos from before it told them apart has the one in force alone.
pub async fn held(client: &Client) -> Result<Held, talmox_talos::Error> {
    let (mut kept, mut active) = (None, None);
    let (mut written, mut in_force) = (None, None);
    for found in client.list::<kinds::MachineConfig>().await? {
        let text = SecretString::from(String::from_utf8_lossy(&found.spec.yaml_marshalled).into_owned());
        match found.id.as_str() {
            "persistent" => (kept, written) = (Some(text), found.updated),
            "v1alpha1" => (active, in_force) = (Some(text), found.updated),
            _ => {}
        }
    }
    let tried = in_force.zip(written).filter(|(in_force, written)| in_force > written).map(|(at, _)| at);
    Ok(Held { kept: kept.or_else(|| active.clone()), active, tried })
}

/// What of a machine's configuration is not as described, document by document and field by field, secrets masked.
pub(crate) async fn differences(
    reach: &Reach<'_>,
    node: &NodeName,
    at: &Whereabouts,
    client: &Client,
) -> Result<Vec<Change>, Incomparable> {
    against(reach, node, at, client).await.changes.unwrap_or_else(|| Ok(Vec::new()))
}

/// What a configuration was found to be.
#[derive(Default)]
pub(super) struct Compared {
    /// None: nobody compared it.
    pub(super) changes: Option<Result<Vec<Change>, Incomparable>>,
    /// Images it names.
    pub(super) images: BTreeMap<String, String>,
    /// How far the machine is with authorities that are being replaced.
    pub(super) phases: Phases,
    /// What the machine has against the described one, other than that it needs a restart.
    pub(super) refuses: Option<String>,
    /// Since when another one is on trial, since 1970.
    pub(super) on_trial: Option<u64>,
}

/// The same, the images the configuration names, and its phases: what is described depends on them. Each change says whether the machine takes it while it runs; what is
/// written down already and waits for a restart is among them.
pub(super) async fn against(
    reach: &Reach<'_>,
    node: &NodeName,
    at: &Whereabouts,
    client: &Client,
) -> Compared {
    let unknown = |reason| Compared { changes: Some(Err(Incomparable::Has(reason))), ..Compared::default() };
    let held = match held(client).await {
        Ok(held) => held,
        Err(error) => return unknown(error.to_string()),
    };
    let on_trial = held.on_trial(reach.clock.now());
    let Some(kept) = held.kept else { return unknown("it has none".to_owned()) };
    let images = images::named_in(&kept);
    let phases = reach.machines.phases_of(held.active.as_ref().unwrap_or(&kept));
    let wanted = match reach.machines.config(node, &Whereabouts { phases, ..at.clone() }) {
        Ok(wanted) => wanted,
        Err(reason) => {
            return Compared {
                changes: Some(Err(Incomparable::Wanted(reason))),
                images,
                phases,
                ..Compared::default()
            };
        }
    };
    let mut refuses = None;
    let changes = match compare(&kept, &wanted) {
        Ok(changes) if changes.is_empty() => match &held.active {
            Some(active) => {
                let applies = if on_trial.is_some() { Applies::OnTrial } else { Applies::Written };
                compare(active, &wanted).map(|changes| all(changes, applies))
            }
            None => Ok(changes),
        },
        Ok(changes) => {
            let written = match held.active.as_ref().filter(|_| on_trial.is_none()) {
                Some(active) => compare_without(active, &kept, &wanted.hidden).unwrap_or_default(),
                None => Vec::new(),
            };
            let judged = judged(client, &wanted, changes, !written.is_empty()).await;
            refuses = judged.refuses;
            Ok([judged.changes, all(written, Applies::Written)].concat())
        }
        Err(reason) => Err(reason),
    };
    let on_trial = on_trial.map(|since| since.as_secs());
    Compared { changes: Some(changes.map_err(Incomparable::Wanted)), images, phases, refuses, on_trial }
}

fn all(changes: Vec<Change>, applies: Applies) -> Vec<Change> {
    changes.into_iter().map(|change| Change { applies, ..change }).collect()
}

/// Changes and how each of them applies, and what the machine has against them.
struct Judged {
    changes: Vec<Change>,
    refuses: Option<String>,
}

impl From<Vec<Change>> for Judged {
    fn from(changes: Vec<Change>) -> Self {
        Self { changes, refuses: None }
    }
}

/// Which changes need a restart: the machine itself says so, as long as its Talos does. It says so of a configuration as a whole,
/// and also because of what waits for a restart already.
async fn judged(client: &Client, wanted: &MachineConfig, changes: Vec<Change>, waits: bool) -> Judged {
    let known: Vec<Change> = changes.clone().into_iter().map(by_place).collect();
    let minor = client.version().await.ok().and_then(|release| minor(&release.tag));
    if minor.is_none_or(|minor| minor >= SAYS_NOTHING) {
        return known.into();
    }
    let text = Bytes::from(wanted.text.expose_secret().as_bytes().to_vec());
    let client = client.clone().with_deadlines(Deadlines::default());
    match client.apply_configuration(text, ApplyMode::NoReboot, true).await {
        Ok(_) => changes.into_iter().map(taken_over).collect::<Vec<_>>().into(),
        Err(error) if error.kind() == Kind::Refused => {
            let words = error.to_string();
            if !words.contains(NOT_IMMEDIATELY) {
                // An older Talos knows no newer Kubernetes, for one: that says nothing about restarts.
                return Judged { changes: known, refuses: Some(without_secrets(&words, wanted)) };
            }
            let is_named = known.iter().any(|change| change.applies == Applies::AfterReboot);
            if is_named || waits { known.into() } else { all(changes, Applies::AfterReboot).into() }
        }
        Err(_) => known.into(),
    }
}

/// A change the machine takes while it runs; whether its parts do is another matter.
fn taken_over(change: Change) -> Change {
    let applies = if is_of_etcd(&change.key) { Applies::AfterReboot } else { Applies::Now };
    Change { applies, ..change }
}

fn by_place(change: Change) -> Change {
    let applies = if needs_restart(&change.key) { Applies::AfterReboot } else { Applies::Now };
    Change { applies, ..change }
}

fn is_of_etcd(key: &str) -> bool {
    key == ETCD || key.strip_prefix(ETCD).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a change at this place needs a restart.
pub(super) fn needs_restart(key: &str) -> bool {
    let part = key.strip_prefix("machine.").map(|rest| rest.split(['.', '[']).next().unwrap_or(rest));
    part.is_some_and(|part| !TAKEN_OVER.contains(&part)) || is_of_etcd(key)
}

/// Of `v1.13.9`.
pub(super) fn minor(tag: &str) -> Option<u64> {
    tag.trim_start_matches('v').split('.').nth(1)?.parse().ok()
}

/// What of a configuration is not as described; what is not to be shown is not.
fn compare(has: &SecretString, wanted: &MachineConfig) -> Result<Vec<Change>, String> {
    compare_without(has, &wanted.text, &wanted.hidden)
}

pub(crate) fn compare_texts(has: &SecretString, wanted: &SecretString) -> Result<Vec<Change>, String> {
    compare_without(has, wanted, &Hidden::default())
}

fn compare_without(
    has: &SecretString,
    wanted: &SecretString,
    hidden: &Hidden,
) -> Result<Vec<Change>, String> {
    // Talos keeps what it was given, so most of them need not be read.
    if has.expose_secret() == wanted.expose_secret() {
        return Ok(Vec::new());
    }
    let read = |name, text: &SecretString| {
        // What is wrong with a configuration could show a part of it.
        Config::parse(Source { name, text: text.expose_secret() })
            .map_err(|_| format!("{name} cannot be read"))
    };
    let (has, wanted) = (read("what the machine has", has)?, read("what is described", wanted)?);
    let change = |difference: talmox_machine::Difference| Change {
        key: match (difference.document.as_str(), difference.path.as_str()) {
            (document, "") => document.to_owned(),
            (document, path) if document.starts_with("the document") => path.to_owned(),
            (document, path) => format!("{document} {path}"),
        },
        old: difference.before,
        new: difference.after,
        applies: Applies::Now,
        field: None,
        sub: Vec::new(),
    };
    Ok(has.differences_without(&wanted, hidden).into_iter().map(change).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_tell_what_needs_a_restart() {
        let applies = |key: &str| {
            let change = Change {
                key: key.to_owned(),
                old: None,
                new: None,
                applies: Applies::Now,
                field: None,
                sub: Vec::new(),
            };
            by_place(change).applies
        };
        for key in [
            "machine.kubelet.extraArgs.v",
            "machine.sysctls.a",
            "cluster.apiServer.extraArgs",
            "cluster.etcdless",
            "HostnameConfig",
        ] {
            assert_eq!(applies(key), Applies::Now, "{key}");
        }
        for key in [
            "machine.env.A",
            "machine.files[0].path",
            "machine.type",
            "cluster.etcd.extraArgs.quota-backend-bytes",
        ] {
            assert_eq!(applies(key), Applies::AfterReboot, "{key}");
        }
        assert_eq!(minor("v1.14.0-rc.1"), Some(14));
    }
}
