//! A cluster in memory behind the screens of the command line.

use std::sync::Mutex;

use talmox_exec::{Reach, observe_whole};
use talmox_plan::{Nonce, Plan, Request, check, plan, view};
use talmox_test::bed::Bed;

use crate::args::{Approval, LogFormat};
use crate::commands::carry_out::{CarryOut, Ended, Gatekeeper};
use crate::commands::machines::health;
use crate::commands::shared::Site;
use crate::printer::Printer;
use crate::progress::Lines;
use crate::screens::{
    EtcdView, InsideView, PLAN_SCHEMA, Places, PlanData, Story, Verbosity, left_lines, nothing_to_do,
    plan_text, rotation_words, status_text,
};

/// How the description is named on the command line.
const FLAGS: &str = " -f lab";

/// A run that is over: all that was shown, and whether it got there.
pub(super) struct Played {
    pub(super) screen: String,
    pub(super) got_there: bool,
}

impl Played {
    #[track_caller]
    pub(super) fn got_there(self) -> String {
        assert!(self.got_there, "{}", self.screen);
        self.screen
    }

    #[track_caller]
    pub(super) fn stopped_short(self) -> String {
        assert!(!self.got_there, "{}", self.screen);
        self.screen
    }
}

/// `talmox apply`, not on a terminal.
pub(super) async fn apply(bed: &Bed, request: &Request, number: u32) -> Played {
    let nonce = Nonce::new(number);
    bed.reached(number, async |reach: &Reach<'_>| {
        let plan = made(bed, request, &nonce, reach).await;
        let (client, images) = (bed.lab.client(), bed.lab.images());
        let approval = Approval {
            auto_approve: true,
            allow_incomplete: false,
            parallelism: None,
            log_format: LogFormat::Text,
        };
        let carry_out = CarryOut {
            site: Site {
                client: &client,
                images: &images,
                desired: &bed.desired,
                flags: FLAGS,
                simulated: false,
            },
            request,
            nonce: &nonce,
            approval: &approval,
            verb: "apply",
            reach: Some(reach),
        };
        let lines = Mutex::new(Vec::new());
        let ended = {
            let told = Lines::new(&plan, Box::new(|line: &str| lines.lock().unwrap().push(line.to_owned())));
            let gatekeeper = Gatekeeper::of(true);
            carry_out.with(&plan, &told, None, gatekeeper, &Printer::silent()).await.unwrap()
        };
        let (end, got_there) = match ended {
            Ended::There { screen, left } => (screen + &left_lines(&left), left.is_empty()),
            Ended::Short { screen, .. } => (screen, false),
        };
        let command = carry_out.site.command_for("apply", request);
        let lines = lines.into_inner().unwrap().join("\n");
        let screen = format!("$ {command}\n{}\n{lines}\n\n{end}", shown(bed, &plan));
        Played { screen: readable(&screen), got_there }
    })
    .await
}

/// `talmox plan`.
pub(super) async fn planned(bed: &Bed, request: &Request) -> String {
    let plan =
        bed.reached(90, async |reach: &Reach<'_>| made(bed, request, &Nonce::new(90), reach).await).await;
    readable(&format!("$ talmox plan{FLAGS}\n{}", shown(bed, &plan)))
}

/// `talmox status`.
pub(super) async fn status(bed: &Bed) -> String {
    let observed = bed.look(&talmox_test::bed::healthy()).await;
    let etcd = bed.etcd().await;
    let inside = InsideView {
        health: health(&bed.desired, Some(&bed.cluster()), &observed).await,
        described: bed.desired.talos.version.to_string(),
        etcd: EtcdView::of(&observed, &etcd, &bed.control_planes()),
        certificates_end: None,
        ending: Vec::new(),
        rotation: rotation_words(&observed),
        talos: observed.talos.clone(),
        kubernetes: observed.kubernetes.clone(),
    };
    let screen = status_text(&view(&bed.desired, &observed), Some(&inside), FLAGS);
    readable(&format!("$ talmox status{FLAGS}\n{screen}"))
}

async fn made(bed: &Bed, request: &Request, nonce: &Nonce, reach: &Reach<'_>) -> Plan {
    let observed = observe_whole(&bed.lab.client(), &bed.desired, request, Some(reach)).await.unwrap();
    let made = plan(&bed.desired, &observed, request, nonce);
    let violations = check(&made, &bed.desired, &observed, request);
    assert!(violations.is_empty(), "{violations:#?}\n{made:#?}");
    fits_the_schema(bed, &made);
    made
}

/// Programs read the same plan.
fn fits_the_schema(bed: &Bed, plan: &Plan) {
    let schema: serde_json::Value = serde_json::from_str(PLAN_SCHEMA).unwrap();
    let (story, places) = (Story::new(plan, &bed.desired), Places::default());
    let data = serde_json::to_value(PlanData::new(&story, &places)).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&data).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

fn shown(bed: &Bed, plan: &Plan) -> String {
    if plan.is_empty() && plan.refusals.is_empty() {
        return nothing_to_do(plan, &bed.desired, Verbosity::Normal, 0, std::time::Duration::ZERO);
    }
    plan_text(&Story::new(plan, &bed.desired), &Places::default(), Verbosity::Normal)
}

/// Without colours, and without what differs from run to run: how long things took, and the names pods drew.
fn readable(text: &str) -> String {
    let plain = anstream::adapter::strip_str(text).to_string();
    let lines = plain.lines().map(|line| {
        let line = match line.rsplit_once("   ") {
            Some((words, time)) if is_duration(time) => format!("{words}   TIME"),
            _ => line.to_owned(),
        };
        let line = match line
            .split_once(" in ")
            .map(|(words, rest)| (words, rest.strip_suffix(").").unwrap_or(rest)))
        {
            Some((words, time)) if is_duration(time) => format!("{words} in TIME)."),
            _ => line,
        };
        line.split(' ').map(without_drawn_name).collect::<Vec<_>>().join(" ").trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// `0.2 s`, `3 min 20 s`.
fn is_duration(text: &str) -> bool {
    let mut words = text.split(' ');
    let mut any = false;
    while let Some(number) = words.next() {
        if number.parse::<f64>().is_err() || !matches!(words.next(), Some("s" | "min")) {
            return false;
        }
        any = true;
    }
    any
}

/// `default/stubborn-7f9c4-x2x8k` becomes `default/stubborn-POD`.
fn without_drawn_name(word: &str) -> String {
    match word.split_once("default/stubborn-") {
        Some((before, drawn)) => {
            let rest = drawn.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '-');
            format!("{before}default/stubborn-POD{rest}")
        }
        None => word.to_owned(),
    }
}
