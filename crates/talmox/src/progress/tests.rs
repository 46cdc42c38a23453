//! Progress as lines: for people, and for programs.

use std::sync::Mutex;
use std::time::Duration;

use insta::assert_snapshot;
use talmox_exec::{Event, Reporter, StepError};
use talmox_plan::Plan;
use talmox_pve::client::{Upid, Waiting};

use super::*;
use crate::screens::testbed::{clone_step, configure, empty, id, start};
use crate::screens::{Broken, Failed, broken};

fn plan() -> Plan {
    let mut plan = empty();
    plan.steps = vec![clone_step("cp-1", 2000), configure("cp-1", 2000, Vec::new()), start("cp-1", 2000)];
    plan.steps.extend([clone_step("worker-1", 2001), start("worker-1", 2001)]);
    plan
}

fn stuck() -> StepError {
    StepError::Stuck { vmid: id(2001), host: "pve".parse().unwrap(), lock: "create".to_owned() }
}

/// A run in which one thing of every kind happens.
fn play(reporter: &dyn Reporter, plan: &Plan) {
    let [clone, configure, start, other, last] = plan.steps.as_slice() else { panic!("five steps") };
    let upid = Upid::parse("UPID:pve:000003A1:00027BF7:6AF96AED:qmclone:9000:ci@pve!talmox:").unwrap();
    let waiting = |seconds| Event::Waiting {
        step: clone,
        name: "clone of 9000 to 2000",
        detail: "transferred 4.9 GiB of 8.0 GiB (61.00%)",
        elapsed: Duration::from_secs(seconds),
        limit: Duration::from_mins(10),
    };
    reporter.event(Event::Started { step: clone });
    reporter.event(Event::Task { step: clone, upid: &upid });
    for seconds in [1, 31, 32, 65] {
        reporter.event(waiting(seconds));
    }
    let still = |step, name, detail, seconds| {
        let (elapsed, limit) = (Duration::from_secs(seconds), Duration::from_mins(10));
        reporter.event(Event::Still { step, name, detail, elapsed, limit });
    };
    still(clone, "clone of 9000 to 2000", "transferred 4.9 GiB of 8.0 GiB (61.00%)", 30);
    still(clone, "clone of 9000 to 2000", "", 60);
    still(start, "its lock", "locked (backup)", 30);
    still(start, "", "", 60);
    reporter.event(Event::Warned { step: clone, words: "disk is thin\u{7}" });
    reporter.event(Event::OtherId { step: clone, vmid: id(2007) });
    reporter.event(Event::Done { step: clone, elapsed: Duration::from_millis(66_200) });
    reporter.event(Event::Done { step: configure, elapsed: Duration::from_millis(310) });
    reporter.event(Event::Done { step: start, elapsed: Duration::from_millis(3_240) });
    reporter.event(Event::Failed { step: other, error: &stuck() });
    for seconds in [1, 3, 5, 40] {
        reporter.waiting(&Waiting {
            name: "VM 2009, which somebody else is making",
            elapsed: Duration::from_secs(seconds),
            limit: Duration::from_hours(1),
            detail: "locked (create)",
        });
    }
    reporter.event(Event::Skipped { step: last, because: "worker-1/clone was not done" });
}

fn told(make: impl for<'a> FnOnce(Sink<'a>) -> Box<dyn Reporter + 'a>) -> String {
    let lines = Mutex::new(Vec::new());
    let plan = plan();
    {
        let reporter = make(Box::new(|line: &str| lines.lock().unwrap().push(line.to_owned())));
        play(&*reporter, &plan);
    }
    lines.into_inner().unwrap().join("\n")
}

#[test]
fn plain_lines() {
    assert_snapshot!(told(|sink| Box::new(Lines::new(&plan(), sink))));
}

#[test]
fn lines_for_programs() {
    let text = told(|sink| Box::new(JsonLines::new(sink)));
    let values = text.lines().map(|line| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["at"].is_number());
        value["at"] = "TIME".into();
        value.to_string()
    });
    assert_snapshot!(values.collect::<Vec<_>>().join("\n"));
}

/// The last screen is made of what happened.
#[test]
fn the_ledger() {
    let plan = plan();
    let lines = Lines::new(&plan, Box::new(|_| {}));
    let ledger = Ledger::new(&plan, &lines);
    play(&ledger, &plan);
    play(&ledger, &plan);
    let failures = vec![Failed::step(&stuck())];
    let run =
        Broken { failures, state: ledger.state(), interrupted: false, again: "talmox apply".to_owned() };
    assert_snapshot!(anstream::adapter::strip_str(&broken(&run)).to_string());
}

/// Bars draw to nowhere in a test; what they keep count of must not panic on anything that happens.
#[test]
fn bars_bear_everything() {
    let plan = plan();
    let bars = Bars::new(&plan);
    play(&bars, &plan);
    bars.finish();
}
