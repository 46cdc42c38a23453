//! Ctrl-C while something is under way.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::doing::Lab;

/// An apply that has begun its first step.
struct Running {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
}

impl Running {
    fn start(lab: &Lab) -> Self {
        let mut command =
            lab.command(&["apply", "--auto-approve", "--parallelism", "1", "--log-format", "json"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        said.find(|line| line.as_ref().unwrap().contains("\"started\"")).unwrap().unwrap();
        Self { child, said }
    }

    fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for a line.
    fn hear(&mut self, words: &str) {
        let found = self.said.by_ref().find(|line| line.as_ref().unwrap().contains(words));
        assert!(found.is_some(), "{words} was never said");
    }

    fn end(mut self) -> (Option<i32>, String) {
        let rest: Vec<String> = self.said.by_ref().map(Result::unwrap).collect();
        (self.child.wait().unwrap().code(), rest.join("\n"))
    }
}

#[test]
fn the_first_finishes_what_is_under_way() {
    let lab = Lab::new("interrupt");
    let mut running = Running::start(&lab);
    running.interrupt();
    running.hear("finishing what is under way");
    let (code, rest) = running.end();
    assert_eq!(code, Some(1), "{rest}");
    assert!(rest.contains("stopped as asked") && rest.contains("retry: safe"), "{rest}");
    assert!(rest.contains("talmox apply --until vms --simulate="), "{rest}");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    assert!(lab.run(&["plan"]).succeeded().stdout.starts_with("No changes."));
}

#[test]
fn the_second_stops_at_once_and_nothing_is_lost() {
    let lab = Lab::new("interrupt-twice");
    let mut running = Running::start(&lab);
    running.hear("\"task\"");
    running.interrupt();
    running.hear("finishing what is under way");
    running.interrupt();
    let (code, rest) = running.end();
    assert_eq!(code, Some(1), "{rest}");
    // The step may have ended before the second one came.
    assert!(rest.contains("stopped at once") || rest.contains("stopped as asked"), "{rest}");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    assert!(lab.run(&["plan"]).succeeded().stdout.starts_with("No changes."));
}

/// A process that is killed says nothing and saves nothing; the simulated Proxmox goes on where it stood.
#[test]
fn a_run_that_was_killed_is_finished_by_the_next() {
    let lab = Lab::new("killed");
    let mut running = Running::start(&lab);
    running.hear("\"task\"");
    running.child.kill().unwrap();
    assert_eq!(running.end().0, None);
    lab.run(&["apply", "--auto-approve"]).succeeded();
    assert!(lab.run(&["plan"]).succeeded().stdout.starts_with("No changes."));
    let vms = lab.run(&["status"]).succeeded().stdout;
    assert_eq!(
        vms.lines().filter(|line| line.contains(" run")).count(),
        4,
        "three VMs and a summary:\n{vms}"
    );
}
