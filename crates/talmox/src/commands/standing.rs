//! Which client certificates machines take while authorities are replaced.
//!
//! ```text
//!                        Before   Accepted   Issuing   Alone
//!  old client is let in    ✓         ✓          ✓
//!  new client is let in              ✓          ✓        ✓
//! ```
//!
//! From the moment every machine has accepted the new authority its clients are let in everywhere, and stay so. What a server
//! shows is no matter: clients trust both as long as a rotation lasts.

use talmox_machine::Bundle;
use talmox_plan::{Observed, SeenMachine};
use talmox_types::desired::Desired;
use talmox_types::{Phase, Phases, Realm};

/// How far machines are, as far as anybody asked them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Whether they were asked.
    asked: bool,
    /// Whose new authority every machine has accepted.
    talos: bool,
    kubernetes: bool,
}

impl Standing {
    /// What machines said.
    pub(super) fn of(desired: &Desired, observed: &Observed) -> Self {
        let told = observed.talos.values().filter_map(SeenMachine::configured).map(|seen| seen.phases);
        let told: Vec<Phases> = told.collect();
        // One that is switched off says as little as one that does not answer.
        let silent = desired.nodes.len().saturating_sub(told.len());
        let everywhere = |realm: Realm| {
            let phases: Vec<Phase> = told.iter().map(|phases| phases.of(realm)).collect();
            accepted_everywhere(&phases, silent)
        };
        Self { asked: true, talos: everywhere(Realm::Talos), kubernetes: everywhere(Realm::Kubernetes) }
    }

    /// The bundle whose clients are let in.
    pub(super) fn signing(self, bundle: &Bundle) -> Bundle {
        let new = Realm::ALL.into_iter().filter(|realm| self.takes_new(*realm));
        new.fold(bundle.clone(), |bundle, realm| bundle.settled(realm))
    }

    /// What to say of a client file, unless no authority is being replaced.
    pub(super) fn remark(self, bundle: &Bundle, realm: Realm) -> Option<String> {
        bundle.next(realm)?;
        let (name, which) = (realm.name(), if self.takes_new(realm) { "new" } else { "old" });
        let until = match (self.asked, self.takes_new(realm)) {
            (_, true) => "all machines let it in",
            (true, false) => "not all machines know the new one yet",
            (false, false) => "machines let it in up to the last phase, and nobody asked how far they are",
        };
        Some(format!(
            "the authority of {name} is being replaced: this trusts the old one and the new one, and its certificate is of the \
             {which} one ({until}); talmox apply finishes it, then make this once more"
        ))
    }

    fn takes_new(self, realm: Realm) -> bool {
        match realm {
            Realm::Talos => self.talos,
            Realm::Kubernetes => self.kubernetes,
        }
    }
}

/// Whether every machine lets in whoever the new authority signed. No phase begins before the one before it is complete, so one
/// that signs with the new authority speaks for those that say nothing.
fn accepted_everywhere(phases: &[Phase], silent: usize) -> bool {
    let all = silent == 0 && !phases.is_empty() && phases.iter().all(|phase| *phase >= Phase::Accepted);
    all || phases.iter().any(|phase| *phase >= Phase::Issuing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_one_is_used_once_every_machine_takes_it() {
        use Phase::{Accepted, Alone, Before, Issuing};
        for (phases, silent, new) in [
            (&[][..], 0, false),
            (&[Before, Before], 0, false),
            (&[Accepted, Before], 0, false),
            (&[Accepted, Accepted], 0, true),
            // Whoever is silent may not know it yet.
            (&[Accepted, Accepted], 1, false),
            (&[Issuing, Accepted], 0, true),
            (&[Issuing, Accepted], 1, true),
            (&[Alone, Issuing], 0, true),
            (&[Alone, Alone], 1, true),
        ] {
            assert_eq!(accepted_everywhere(phases, silent), new, "{phases:?}, {silent} silent");
        }
    }
}
