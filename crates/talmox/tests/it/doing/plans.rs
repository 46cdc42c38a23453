//! Plans that are kept, and plans for programs.

#![expect(clippy::disallowed_methods, reason = "files the test itself had written")]

use insta::assert_snapshot;
use serde_json::Value;

use crate::doing::{CLUSTER, Lab, NODES};
use crate::support::run;

#[test]
fn a_plan_that_was_kept_is_carried_out() {
    let lab = Lab::new("kept");
    let file = lab.scratch.path("lab.plan");
    let kept = lab.run(&["plan", "--out", &file]).succeeded();
    assert!(kept.stderr.contains("to carry it out: talmox apply "), "{}", kept.stderr);
    lab.run(&["apply", "--auto-approve", &file]).succeeded();
    assert!(lab.run(&["plan"]).succeeded().stdout.starts_with("No changes."));
    assert_snapshot!(lab.filtered(&lab.run(&["apply", "--auto-approve", &file]).failed().stderr));
}

#[test]
fn a_stale_plan_is_refused() {
    let lab = Lab::new("stale");
    let file = lab.scratch.path("lab.plan");
    lab.run(&["plan", "--out", &file]).succeeded();
    lab.describe(&CLUSTER.replace("memory: 4096", "memory: 6144"), NODES);
    assert_snapshot!(lab.filtered(&lab.run(&["apply", "--auto-approve", &file]).failed().stderr));
    lab.describe(CLUSTER, NODES);
    lab.run(&["apply", "--auto-approve", "--target", "cp-1"]).succeeded();
    assert_snapshot!(lab.filtered(&lab.run(&["apply", "--auto-approve", &file]).failed().stderr));
    let refused = lab.run(&["apply", &file, "--prune"]).failed().stderr;
    assert!(refused.contains("cannot be used with"), "{refused}");
}

#[test]
fn a_plan_file_holds_no_secret_and_no_half() {
    let lab = Lab::new("secret");
    let file = lab.scratch.path("lab.plan");
    lab.run(&["plan", "--out", &file]).succeeded();
    let text = std::fs::read_to_string(&file).unwrap();
    let world = std::fs::read_to_string(lab.scratch.path("world/token")).unwrap();
    let secret = world.trim().rsplit('=').next().unwrap().to_owned();
    assert!(secret.len() > 10 && !text.contains(&secret));
    let left: Vec<String> = std::fs::read_dir(&lab.scratch.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains(".new"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    lab.run(&["plan", "--out", &lab.scratch.path("no/such/folder")]).failed();
}

#[test]
fn exit_codes() {
    let lab = Lab::new("codes");
    assert_eq!(lab.run(&["plan"]).code, 0);
    assert_eq!(lab.run(&["plan", "--detailed-exitcode"]).code, 2);
    lab.run(&["apply", "--auto-approve"]).succeeded();
    assert_eq!(lab.run(&["plan", "--detailed-exitcode"]).code, 0);
    // A disk cannot shrink.
    lab.describe(&CLUSTER.replace("memory: 4096", "memory: 4096\n  disk_size: 60"), NODES);
    let refused = lab.run(&["plan", "--detailed-exitcode"]).failed();
    assert_snapshot!(lab.shown(&refused));
    lab.run(&["apply", "--auto-approve"]).failed();
}

#[test]
fn real_plans_fit_the_schema() {
    let schema: Value = serde_json::from_str(&run(&["schema", "plan"]).succeeded().stdout).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let lab = Lab::new("schema");
    let check = |arguments: &[&str]| {
        let plan: Value = serde_json::from_str(&lab.run(arguments).stdout).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&plan).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:?}");
        plan
    };
    assert_eq!(check(&["plan", "-o", "json"])["summary"]["create"], 4);
    lab.run(&["apply", "--auto-approve"]).succeeded();
    assert_eq!(check(&["plan", "-o", "json"])["empty"], true);
    lab.describe(&CLUSTER.replace("memory: 4096", "memory: 6144"), NODES);
    let change = &check(&["plan", "-o", "json"])["steps"][0]["changes"][0];
    assert_eq!((change["key"].as_str(), change["new"].as_str()), (Some("memory"), Some("6144")));
    assert!(change["place"].as_str().unwrap().ends_with("cluster.yaml:9 proxmox_vm_worker_defaults.memory"));
    check(&["plan", "-o", "json", "--replace", "worker-1"]);
}

#[test]
fn a_plan_for_a_pull_request() {
    let lab = Lab::new("markdown");
    assert_snapshot!(lab.filtered(&lab.run(&["plan", "-o", "markdown"]).succeeded().stdout));
}
