//! Authorities that patches have machines accept beside their own.
//!
//! A replacement of authorities ends with machines that believe the new one alone. What a patch adds comes back with every
//! configuration, so nobody may say it was dropped.

use std::fmt;

use talmox_machine::{Config, Patch, Value};
use talmox_types::Realm;

/// A patch after which machines accept one more authority.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Accepts {
    pub realm: Realm,
    /// Where in which patch.
    pub place: String,
}

impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { realm, place } = self;
        write!(
            f,
            "{place}: machines accept another authority of {} because of this patch, and would after a replacement; \
             take these lines out and apply that first",
            realm.name()
        )
    }
}

/// Documents as places tell them, and where in them authorities are accepted.
const PLACES: [(Realm, &str, &str, &[&str]); 3] = [
    (Realm::Talos, "", "machine.acceptedCAs", &["machine", "acceptedCAs"]),
    (Realm::Kubernetes, "", "cluster.acceptedCAs", &["cluster", "acceptedCAs"]),
    (Realm::Kubernetes, "KubeAPIServerCAConfig", "acceptedCAs", &["acceptedCAs"]),
];

/// What a configuration has accepted, place by place.
pub(crate) fn listed(config: &Config) -> [Vec<Value>; 3] {
    PLACES.map(|(_, kind, _, keys)| {
        let list = config.document(kind).and_then(|document| document.at(keys)).and_then(Value::as_list);
        list.unwrap_or_default().to_vec()
    })
}

/// What was accepted before the patches is none of their work: workers of the new layout are told of the cluster's own authority so.
pub(crate) fn of(before: &[Vec<Value>; 3], config: &Config, patches: &[Patch]) -> Vec<Accepts> {
    let now = listed(config);
    let added = PLACES.into_iter().zip(before.iter().zip(&now));
    let added = added.filter(|(_, (before, now))| now.iter().any(|one| !before.contains(one)));
    added
        .map(|((realm, kind, path, _), _)| {
            let document = if kind.is_empty() { "the document with machine and cluster" } else { kind };
            let place = patches.iter().rev().find_map(|patch| patch.place_of(document, path));
            // JSON patches do not tell.
            let place = place.map_or_else(|| format!("a patch of {path}"), |place| place.to_string());
            Accepts { realm, place }
        })
        .collect()
}
