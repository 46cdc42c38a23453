//! Nodes with two VMs.

use talmox_plan::{NodeState, Observed, Power, Request, view};
use talmox_types::desired::Desired;

use crate::support::*;

/// A cluster in which cp-3 has two VMs: 2002 on pve1, and 2005 on pve2.
fn doubled(desired: &Desired, powers: [Power; 2]) -> Observed {
    let mut observed = converged(desired);
    let second = finished(desired, "cp-3", 2005, "pve2");
    observed.guests.insert(second.vmid, second);
    for (vmid, power) in [2002, 2005].into_iter().zip(powers) {
        observed.guests.get_mut(&id(vmid)).unwrap().power = power;
    }
    observed
}

fn shown(desired: &Desired, observed: &Observed) -> (NodeState, Option<u32>, Option<Power>) {
    let view = view(desired, observed);
    let node = view.nodes.iter().find(|node| node.node == name("cp-3")).unwrap();
    (node.state, node.vmid.map(talmox_types::VmId::get), node.power)
}

#[test]
fn the_one_that_lives_stays_whatever_its_id() {
    let desired = desired(3, 0);
    let observed = doubled(&desired, [Power::Stopped, Power::Running]);
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(
        problems(&plan),
        ["there are two VMs of this node: 2005 (pve2, runs) stays, 2002 (pve1, stopped) should not be"]
    );
    assert_eq!(
        plan.refusals[0].choices,
        ["look at 2002 in Proxmox, and remove it there if it is not needed"]
    );
    assert_eq!(shown(&desired, &observed), (NodeState::Double, Some(2005), Some(Power::Running)));
    let observed = doubled(&desired, [Power::Running, Power::Stopped]);
    assert_eq!(shown(&desired, &observed), (NodeState::Double, Some(2002), Some(Power::Running)));
}

#[test]
fn where_it_cannot_be_told_none_is_named_to_go() {
    let desired = desired(3, 0);
    for (power, does) in [(Power::Running, "runs"), (Power::Stopped, "stopped")] {
        let observed = doubled(&desired, [power, power]);
        let plan = planned(&desired, &observed, &Request::default());
        let expected = format!(
            "there are two VMs of this node, and which of them it is cannot be told: 2002 (pve1, {does}) and 2005 (pve2, {does})"
        );
        assert_eq!(problems(&plan), [expected]);
        assert!(plan.refusals[0].choices[0].contains("smbios1"), "{:?}", plan.refusals);
    }
}

/// Two runs at once made two: neither was ever started.
#[test]
fn of_those_that_never_ran_the_lower_id_stays() {
    let desired = desired(3, 0);
    let mut observed = doubled(&desired, [Power::Stopped, Power::Stopped]);
    for vmid in [2002, 2005] {
        edit(&mut observed, vmid, |config| drop(config.remove("smbios1")));
    }
    let plan = planned(&desired, &observed, &Request::default());
    assert!(problems(&plan)[0].contains("2002 (pve1, stopped) stays"), "{plan:#?}");
}
