//! Whose a VM is.

use talmox_plan::{Class, Observed, Power, Request, Rule, check};
use talmox_pve::property::Smbios;

use crate::support::*;

#[test]
fn ours_is_what_mark_and_witness_say() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    assert!(matches!(class(&desired, &observed, 2000), Class::Ours(owned) if owned.finished));
    edit(&mut observed, 2000, |config| {
        config.remove("smbios1");
    });
    observed.guests.get_mut(&id(2000)).unwrap().power = Power::Stopped;
    assert!(matches!(class(&desired, &observed, 2000), Class::Ours(owned) if !owned.finished));
}

#[test]
fn people_write_below_the_mark_too() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        let notes = config.description().unwrap_or_default().to_owned();
        config.set("description", &format!("above\n{notes}\nbelow, where people write\n"));
    });
    assert!(matches!(class(&desired, &observed, 2000), Class::Ours(owned) if owned.finished));
    assert!(planned(&desired, &observed, &Request::default()).is_empty());
}

#[test]
fn of_marks_that_differ_both_are_shown_and_the_vm_is_left_alone() {
    let desired = desired(2, 0);
    let mut observed = converged(&desired);
    let (own, other) = (mark("cp-1", 2000), mark("cp-2", 2001));
    edit(&mut observed, 2000, |config| {
        config.set("description", &format!("{other}\n{own}"));
    });
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty(), "{plan:#?}");
    let problem = &plan.refusals[0].problem;
    assert!(problem.contains("hold marks that differ"), "{problem}");
    assert!(problem.contains(&own.to_string()) && problem.contains(&other.to_string()), "{problem}");
    assert_eq!(
        plan.refusals[0].choices,
        ["leave the line talmox:v1 … that is right in the notes of VM 2000, and take the others out"]
    );
}

/// A VM that runs with a mark somebody wrote, and without the witness.
fn unproven(observed: &mut Observed, vmid: u32) {
    edit(observed, vmid, |config| {
        config.remove("smbios1");
    });
}

#[test]
fn one_that_runs_without_the_witness_is_shown_and_left_alone() {
    let desired = desired(1, 1);
    let mut observed = converged(&desired);
    unproven(&mut observed, 2001);
    assert!(matches!(class(&desired, &observed, 2001), Class::Lost { mark: Some(_), .. }));
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty(), "nothing is made beside it: {plan:#?}");
    let refusal = &plan.refusals[0];
    assert!(
        refusal.problem.contains("VM 2001") && refusal.problem.contains("it has the mark of w-1 and runs")
    );
    assert!(refusal.choices[0].ends_with("talmox adopt w-1 --vmid 2001"), "{refusal:?}");
    assert!(refusal.choices[1].contains("remove the line talmox:v1 … from the notes"), "{refusal:?}");
    // Whether it runs is not known either where its host does not say.
    observed.guests.get_mut(&id(2001)).unwrap().power = Power::Unknown;
    assert!(matches!(class(&desired, &observed, 2001), Class::Lost { .. }));
}

#[test]
fn destroying_and_pruning_leave_what_runs_without_the_witness() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    // Its mark says that it is a node the description does not have.
    let forged = mark("w-9", 2009);
    let mut guest = observed.guests[&id(2000)].clone();
    (guest.vmid, guest.name) = (id(2009), Some("w-9".to_owned()));
    observed.guests.insert(guest.vmid, guest);
    edit(&mut observed, 2009, |config| {
        config.set("description", &forged);
        for key in ["smbios1", "net0", "ipconfig0"] {
            config.remove(key);
        }
    });
    for request in [
        Request { goal: talmox_plan::Goal::Destroy, ..Request::default() },
        Request { prune: true, ..Request::default() },
        Request { remove: [name("w-9")].into(), ..Request::default() },
    ] {
        let plan = planned(&desired, &observed, &request);
        let touched =
            |planned: &talmox_plan::Planned| planned.step.vm().is_some_and(|vm| vm.vmid() == id(2009));
        assert!(!plan.steps.iter().any(touched) && plan.refusals.is_empty(), "{plan:#?}");
        assert!(plan.notes.iter().any(|note| note.text.contains("VM 2009 may be w-9")), "{plan:#?}");
    }
    // Stopped, it is a clone that was not finished.
    observed.guests.get_mut(&id(2009)).unwrap().power = Power::Stopped;
    let plan = planned(&desired, &observed, &Request { remove: [name("w-9")].into(), ..Request::default() });
    assert_eq!(steps(&plan), ["w-9/remove destroy"]);
    // It was started since: whoever checks does not let the plan through.
    observed.guests.get_mut(&id(2009)).unwrap().power = Power::Running;
    let violations =
        check(&plan, &desired, &observed, &Request { remove: [name("w-9")].into(), ..Request::default() });
    assert!(violations.iter().any(|violation| violation.rule == Rule::OursOnly), "{violations:#?}");
}

#[test]
fn a_clone_of_ours_is_a_copy() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    let original = observed.guests[&id(2000)].clone();
    let copy = talmox_plan::Guest { vmid: id(2050), pool: None, ..original };
    observed.guests.insert(copy.vmid, copy);
    assert!(matches!(class(&desired, &observed, 2050), Class::Copy { .. }));
    let plan = planned(&desired, &observed, &Request::default());
    // It holds the address of the original: two machines with one address are both broken.
    assert!(problems(&plan)[0].starts_with("VM 2050 (cp-1) on pve1 holds BC:24:11:00:07:00"), "{plan:?}");
    edit(&mut observed, 2050, |config| {
        config.remove("net0");
        config.remove("ipconfig0");
    });
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.refusals.is_empty() && plan.steps.is_empty());
    assert!(plan.notes[0].text.contains("its mark was written for VM 2000: left alone"));
}

#[test]
fn a_template_made_of_ours_is_a_copy() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    observed.guests.get_mut(&id(2000)).unwrap().template = true;
    assert!(matches!(class(&desired, &observed, 2000), Class::Copy { .. }));
}

#[test]
fn a_witness_that_says_otherwise_disproves_the_mark() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    let other = mark("cp-2", 2001);
    edit(&mut observed, 2000, |config| {
        let smbios = Smbios {
            serial: Some(other.witness_serial()),
            family: Some(other.witness_family()),
            ..Smbios::default()
        };
        config.set("smbios1", &smbios);
    });
    assert!(matches!(class(&desired, &observed, 2000), Class::Copy { .. }));
}

#[test]
fn without_a_mark_it_is_lost_or_foreign() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        config.set("description", "somebody cleaned up here");
    });
    assert!(matches!(class(&desired, &observed, 2000), Class::Lost { mark: Some(_), .. }));
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty());
    assert!(plan.refusals[0].choices[0].ends_with("talmox adopt cp-1 --vmid 2000"), "{plan:?}");
    // Only name and MAC address are left.
    edit(&mut observed, 2000, |config| {
        config.remove("smbios1");
    });
    assert!(matches!(class(&desired, &observed, 2000), Class::Lost { mark: None, .. }));
    // Only the name: somebody else's VM may be called that.
    edit(&mut observed, 2000, |config| {
        config.remove("net0");
        config.remove("ipconfig0");
    });
    assert_eq!(class(&desired, &observed, 2000), Class::Foreign);
}

#[test]
fn a_cluster_of_the_same_name_is_another() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        let other = config.description().unwrap().replace(UID, "ffffffffffffffff");
        config.set("description", &other);
    });
    assert_eq!(class(&desired, &observed, 2000), Class::Foreign);
}

#[test]
fn two_vms_of_a_node_are_an_error() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    let twin = finished(&desired, "cp-1", 2009, "pve2");
    observed.guests.insert(twin.vmid, twin);
    let plan = planned(&desired, &observed, &Request::default());
    assert!(problems(&plan)[0].starts_with("there are two VMs of this node"), "{plan:#?}");
    assert!(plan.steps.is_empty());
}

#[test]
fn a_renamed_cluster_keeps_its_vms_and_their_notes() {
    let mut desired = desired(1, 0);
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        let text = format!("rack 4\n\nask Ann\n{}", mark("cp-1", 2000));
        config.set("description", &text);
    });
    desired.name = talmox_types::ClusterName::parse("home").unwrap();
    let plan = planned(&desired, &observed, &Request::default());
    let description = &plan.steps[0].changes[0];
    let line = mark("cp-1", 2000).to_string().replace("cluster=lab", "cluster=home");
    assert_eq!(description.new.as_deref(), Some(format!("rack 4\n\nask Ann\n{line}").as_str()));
}

#[test]
fn a_description_that_lost_its_uid_is_told_which_it_was() {
    let mut desired = desired(1, 0);
    let observed = converged(&desired);
    desired.uid = None;
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty());
    assert!(plan.refusals.iter().any(|refusal| {
        refusal.node.is_none()
            && refusal.choices == [format!("if they are this cluster's: cluster_uid: \"{UID}\"")]
    }));
    desired.uid = Some(talmox_types::ClusterUid::parse("ffffffffffffffff").unwrap());
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(plan.refusals[0].choices[0], format!("if it is this cluster's: cluster_uid: \"{UID}\""));
}
