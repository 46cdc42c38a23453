//! Memory of VMs that run.

use serde_json::json;

use super::common::Lab;

#[test]
fn a_balloon_moves_while_the_vm_runs_and_its_device_waits_for_a_restart() {
    let mut lab = Lab::new(&["a"]);
    let config = [("memory".to_owned(), "4096".to_owned())];
    lab.world.add_vm("a", 100, config.into_iter().collect(), false);
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/status/start", &[]), "OK");
    let mut pending_after = |value: &str| {
        lab.call("PUT", "/nodes/a/qemu/100/config", &[("balloon", value)]);
        let all = lab.call("GET", "/nodes/a/qemu/100/pending", &[]);
        let of_it = all.as_array().expect("a list").iter().find(|entry| entry["key"] == "balloon").cloned();
        of_it.map(|entry| (entry["value"].clone(), entry["pending"].clone())).expect("an entry")
    };
    // Without a value the device is there.
    assert_eq!(pending_after("2048"), (json!(2048), json!(null)));
    assert_eq!(pending_after("1024"), (json!(1024), json!(null)));
    assert_eq!(pending_after("0"), (json!(1024), json!(0)));
}
