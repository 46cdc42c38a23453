//! What scripts and pipelines rely on: exit codes, lines for programs, commands that can be typed again.

use std::process::Stdio;

use serde_json::Value;

use crate::doing::{CLUSTER, Lab, NODES};

#[test]
fn whoever_stops_reading_is_not_told_that_all_is_done() {
    let lab = Lab::new("pipe");
    let code = |arguments: &[&str]| {
        let mut command = lab.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        drop(child.stdout.take());
        child.wait().unwrap().code()
    };
    assert_eq!(code(&["apply", "--auto-approve"]), Some(1), "nothing was done");
    // Where showing is all there is to it, somebody just had enough.
    assert_eq!(code(&["plan"]), Some(0));
    assert_eq!(code(&["plan", "--detailed-exitcode"]), Some(1), "nobody knows whether there are changes");
}

#[test]
fn every_line_for_programs_is_an_object() {
    let lab = Lab::new("objects");
    let events = |arguments: &[&str]| -> Vec<Value> {
        let run = lab.run(arguments);
        run.stderr
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
            .collect()
    };
    let told = |events: &[Value], event: &str, words: &str| {
        let mut own = events.iter().filter(|one| one["event"] == event);
        own.any(|one| one["detail"].as_str().is_some_and(|detail| detail.contains(words)))
    };
    let done = events(&["apply", "--auto-approve", "--log-format", "json"]);
    assert!(told(&done, "said", "Done (simulated). lab: 3 VMs as described"), "{done:#?}");
    let failed = events(&["apply", "--auto-approve", "--log-format", "json", "--target", "nobody"]);
    assert!(told(&failed, "error", "there is no node nobody"), "{failed:#?}");
    assert!(failed.iter().any(|one| one["hints"][0].is_string()), "{failed:#?}");
}

#[test]
fn what_waits_for_a_restart_is_a_change() {
    let lab = Lab::new("waits");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    lab.describe(&CLUSTER.replace("memory: 4096", "memory: 6144"), NODES);
    let incomplete = lab.run(&["apply", "--auto-approve"]);
    assert_eq!(incomplete.code, 1, "{}", incomplete.whole());
    let plan = lab.run(&["plan", "--detailed-exitcode"]);
    assert_eq!(plan.code, 2, "{}", plan.whole());
    assert!(plan.stdout.contains("--allow-reboot"), "{}", plan.whole());
    lab.run(&["apply", "--auto-approve", "--allow-reboot"]).succeeded();
    assert_eq!(lab.run(&["plan", "--detailed-exitcode"]).code, 0);
}

/// The last lines of a run: what is left, each with the command that goes on.
fn left_of(stderr: &str) -> Vec<&str> {
    let lines = stderr.lines().skip_while(|line| !line.starts_with("left: "));
    lines.collect()
}

#[test]
fn what_is_left_is_named_and_decides_the_exit_code() {
    let lab = Lab::new("left");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    lab.describe(&CLUSTER.replace("memory: 4096", "memory: 6144"), NODES);
    // Once in the run that writes the change, and again in one that finds nothing to do.
    for round in ["writes", "waits"] {
        let run = lab.run(&["apply", "--auto-approve"]);
        assert_eq!(run.code, 1, "{round}: {}", run.whole());
        let left = left_of(&run.stderr);
        let commands: Vec<&str> = left.iter().filter(|line| line.starts_with("      ")).copied().collect();
        assert_eq!(commands.len(), 1, "{round}: {left:#?}");
        assert!(commands[0].starts_with("      talmox apply --allow-reboot"), "{round}: {left:#?}");
        assert!(left[0].contains("memory of VM 2001 waits for a restart"), "{round}: {left:#?}");
        assert!(!run.stderr.contains("Done"), "{round}: {}", run.stderr);
    }
    let allowed = lab.run(&["apply", "--auto-approve", "--allow-incomplete"]);
    assert_eq!(allowed.code, 0, "{}", allowed.whole());
    assert!(!left_of(&allowed.stderr).is_empty(), "{}", allowed.whole());
    let json = lab.run(&["apply", "--auto-approve", "--log-format", "json"]);
    let last: Value = serde_json::from_str(json.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((json.code, &last["event"], &last["complete"]), (1, &"ended".into(), &false.into()));
    assert_eq!((&last["left"][0]["nodes"][0], &last["left"][0]["waits"]), (&"worker-1".into(), &true.into()));
    assert!(last["left"][0]["command"].as_str().unwrap().contains("--allow-reboot"), "{last}");
    lab.run(&["apply", "--auto-approve", "--allow-reboot"]).succeeded();
    let json = lab.run(&["apply", "--auto-approve", "--log-format", "json"]).succeeded();
    let last: Value = serde_json::from_str(json.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((&last["complete"], &last["left"]), (&true.into(), &serde_json::json!([])));
    // A refusal is no wait.
    let refused = lab.run(&["apply", "--auto-approve", "--allow-incomplete", "--target", "nobody"]);
    assert_eq!(refused.code, 1, "{}", refused.whole());
}

#[test]
fn a_window_that_never_opens_is_refused() {
    let lab = Lab::new("shut");
    for (from, to, why) in [
        ("2098-01-02T00:00:00Z", "2098-01-01T00:00:00Z", "it ends before it begins"),
        ("22:00", "22:00", "it ends when it begins"),
        ("22:00", "2020-01-01T00:00:00Z", "that is over"),
    ] {
        let refused = lab.run(&["plan", "--not-before", from, "--not-after", to]).failed();
        assert!(
            refused.stderr.contains("the window never opens") && refused.stderr.contains(why),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains("hint: "), "{}", refused.stderr);
    }
}

#[test]
fn a_host_that_could_not_be_drained_is_named_in_the_command_that_goes_on() {
    let lab = Lab::new("drain-again");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    let faults = lab.scratch.path("faults.yaml");
    std::fs::write(
        &faults,
        "faults:\n- {fault: error, calls: 'PUT /nodes/*/qemu/*/config', times: all, text: boom}\n",
    )
    .unwrap();
    let failed = lab.run(&["host", "drain", "pve", "--auto-approve", "--fault", &faults]).failed();
    assert!(failed.stderr.contains("talmox host drain pve --simulate="), "{}", failed.whole());
}
