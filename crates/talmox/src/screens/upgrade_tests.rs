//! What people see when an upgrade stops.

use std::collections::BTreeMap;
use std::time::Duration;

use insta::assert_snapshot;
use talmox_exec::{StepError, UpgradeFault};
use talmox_types::NodeName;

use super::ending::{Broken, Failed, broken};

fn node() -> NodeName {
    NodeName::parse("cp-2").unwrap()
}

fn screen(error: &StepError) -> String {
    let run = Broken {
        failures: vec![Failed::step(error)],
        state: BTreeMap::new(),
        interrupted: false,
        again: "talmox apply -f lab".to_owned(),
    };
    anstream::adapter::strip_str(&broken(&run)).to_string()
}

#[test]
fn every_end_of_an_upgrade_says_what_is_there_and_what_to_do() {
    let (from, to) = ("1.13.6".to_owned(), "1.13.9".to_owned());
    let image = "factory.talos.dev/nocloud-installer/ce4c98:v1.13.9".to_owned();
    let faults = [
        UpgradeFault::Installer { image, words: "the installer ended with 3".to_owned() },
        UpgradeFault::FellBack { to: to.clone(), version: from.clone() },
        UpgradeFault::TakenBack {
            from: from.clone(),
            to: to.clone(),
            words: "runs and is not well: running, services: kubelet not healthy".to_owned(),
        },
        UpgradeFault::Stranded {
            to,
            words: "runs and is not well: booting".to_owned(),
            reason: "Rollback on 10.0.7.12: file does not exist".to_owned(),
        },
        UpgradeFault::Off,
        UpgradeFault::Gone { after: Duration::from_mins(20), words: "connection refused".to_owned() },
    ];
    let screens = faults.map(|fault| screen(&StepError::Upgrade { node: node(), fault }));
    assert_snapshot!(screens.join("\n"));
}

#[test]
fn a_budget_that_never_yields_is_named() {
    let error = StepError::Undrained {
        node: node(),
        limit: Duration::from_mins(5),
        reason: "default/stubborn-1 (kept by stubborn)".to_owned(),
        budgets: vec!["stubborn".to_owned()],
    };
    assert_snapshot!(screen(&error));
}
