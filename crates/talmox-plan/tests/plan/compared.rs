//! Configurations that cannot be compared.

use talmox_plan::{Incomparable, Request, SeenNode, Until};

use crate::inside::{boxed, healthy, living, member, see};
use crate::support::*;

#[test]
fn a_description_that_makes_no_configuration_is_no_match() {
    let desired = desired(3, 0);
    let mut observed = living(&desired);
    let unmade = SeenNode {
        config: None,
        incomparable: Some(Incomparable::Wanted("p.yaml:5:14: Talos has no such field".to_owned())),
        ..member(&desired, "cp-2")
    };
    see(&mut observed, "cp-2", boxed(unmade.clone()));
    let made = planned(&desired, &observed, &healthy());
    assert_eq!(made.refusals.len(), 1, "{made:#?}");
    assert!(made.refusals[0].problem.contains("p.yaml:5:14"), "{made:#?}");
    // Who looks at VMs alone is told, and not held up.
    let request = Request { until: Until::Reachable, ..healthy() };
    let looked = planned(&desired, &observed, &request);
    assert!(looked.refusals.is_empty(), "{looked:#?}");
    // A machine that does not say what it has may say so later.
    let silent = Some(Incomparable::Has("connection reset".to_owned()));
    see(&mut observed, "cp-2", boxed(SeenNode { incomparable: silent, ..unmade }));
    let waits = planned(&desired, &observed, &healthy());
    assert!(waits.refusals.is_empty(), "{waits:#?}");
    assert!(waits.notes.iter().any(|note| note.text.contains("connection reset")), "{waits:#?}");
}
