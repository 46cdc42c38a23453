//! Machine configurations that change under nodes that live.

use std::time::Duration;

use talmox_plan::{ChangeMode, Request, Step, Upkeep, Waiting};
use talmox_render::PatchText;
use talmox_sim_talos::{CallFault, Code, Flapping};

use crate::gate::bed::{Bed, described, healthy};

fn patch(text: &str) -> Vec<PatchText> {
    vec![PatchText { name: "patch.yaml".to_owned(), text: text.to_owned() }]
}

async fn bed(seed: u64, versions: &str) -> Bed {
    let bed = Bed::new(seed, described(3, 1, versions));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed
}

fn modes(plan: &talmox_plan::Plan) -> Vec<ChangeMode> {
    let mode = |planned: &talmox_plan::Planned| {
        if let Step::Upkeep(Upkeep::ChangeNode { mode, .. }) = &planned.step { Some(*mode) } else { None }
    };
    plan.steps.iter().filter_map(mode).collect()
}

async fn converges(bed: &Bed, request: &Request) {
    bed.converge(request, 2).await.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    bed.settles().await;
    bed.is_healthy().await;
    assert_eq!(bed.cordoned().await, Vec::<String>::new());
    let plan = bed.plan(request).await;
    assert!(plan.is_empty(), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_talos_takes_over_is_changed_without_a_restart() {
    let mut bed = bed(61, "").await;
    bed.handed.patches = patch(
        "machine: {sysctls: {vm.max_map_count: \"262144\"}}\ncluster: {apiServer: {extraArgs: {v: \"4\"}}}",
    );
    let plan = bed.plan(&healthy()).await;
    assert_eq!(modes(&plan), [ChangeMode::NoReboot; 4]);
    let first = &plan.steps[0];
    assert_eq!(first.reason, "Talos takes this over while it runs");
    assert!(first.changes.iter().any(|change| change.key.starts_with("machine.sysctls")), "{first:#?}");
    converges(&bed, &healthy()).await;
    assert_eq!(bed.accepted("/Reboot"), 0);
    let told = bed.told.lines();
    let at = |line: &str| told.iter().position(|told| told == line).unwrap();
    let mut control_planes = ["cp-1", "cp-2", "cp-3"];
    control_planes.sort_by_key(|node| at(&format!("{node}/change-node begins")));
    for pair in control_planes.windows(2) {
        let (done, next) =
            (format!("{}/change-node done", pair[0]), format!("{}/change-node begins", pair[1]));
        assert!(at(&done) < at(&next), "one after the other");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_joins_while_the_others_change() {
    let mut bed = bed(66, "").await;
    bed.desired = described(3, 2, "");
    bed.handed.patches = patch("machine: {env: {GRPC_GO_LOG_SEVERITY_LEVEL: info}}");
    let plan = bed.plan(&healthy()).await;
    // Those that are there change, one after the other; the new one is made with what they get.
    assert_eq!(modes(&plan), [ChangeMode::Reboot; 4]);
    let steps: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert!(steps.contains(&"worker-2/clone") && !steps.contains(&"worker-2/change-node"), "{steps:?}");
    let making = plan.steps.iter().find(|step| step.id.as_str() == "worker-2/clone").unwrap();
    assert!(making.needs.iter().all(|need| !need.as_str().contains("change-node")), "{making:?}");
    converges(&bed, &healthy()).await;
    assert_eq!(bed.accepted("/Reboot"), 4, "nobody restarts twice, and the new one not at all");
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_restart_gets_one_if_it_is_allowed() {
    for versions in ["", SILENT] {
        let mut bed = bed(62, versions).await;
        bed.handed.patches = patch("machine: {env: {GRPC_GO_LOG_SEVERITY_LEVEL: info}}");
        let forbidden = Request { allow_reboot: false, ..healthy() };
        let plan = bed.plan(&forbidden).await;
        assert!(modes(&plan).is_empty());
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::Reboot { keys, .. } if keys[0].starts_with("machine.env"));
        assert_eq!(plan.waiting.iter().filter(|waiting| waits(waiting)).count(), 4, "{plan:#?}");
        let plan = bed.plan(&healthy()).await;
        assert_eq!(modes(&plan), [ChangeMode::Reboot; 4]);
        converges(&bed, &healthy()).await;
        assert_eq!(bed.accepted("/Reboot"), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_not_about_restarts_is_told_and_restarts_nobody() {
    let mut bed = bed(69, "").await;
    bed.handed.patches = patch("machine: {sysctls: {vm.max_map_count: \"262144\"}}");
    let refusal = CallFault::Answer {
        code: Code::InvalidArgument as u16,
        message: "version of Kubernetes is too new to be used with Talos".to_owned(),
        happens: false,
    };
    bed.lab.nodes(|nodes| nodes.faults.call("*/ApplyConfiguration", 1, 4, refusal));
    let plan = bed.plan(&healthy()).await;
    assert_eq!(modes(&plan), [ChangeMode::NoReboot; 4], "{plan:#?}");
    let said = plan.notes.iter().filter(|note| note.text.contains("version of Kubernetes is too new"));
    assert_eq!(said.count(), 4, "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_etcd_reads_when_it_starts_needs_a_restart_though_talos_takes_it() {
    let mut bed = Bed::new(68, described(3, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.handed.patches = patch("cluster: {etcd: {extraArgs: {quota-backend-bytes: \"4294967296\"}}}");
    let plan = bed.plan(&healthy()).await;
    assert_eq!(modes(&plan), [ChangeMode::Reboot; 3], "{plan:#?}");
    let changed = plan.steps.iter().find(|step| step.id.as_str().ends_with("/change-node")).unwrap();
    assert!(changed.reason.contains("cluster.etcd.extraArgs"), "{}", changed.reason);
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_restart_can_be_left_for_the_next() {
    let mut bed = bed(63, "").await;
    bed.handed.patches = patch("machine: {env: {A: b}}");
    let mut staged = healthy();
    staged.upkeep.stage = true;
    assert_eq!(modes(&bed.plan(&staged).await), [ChangeMode::Staged; 4]);
    bed.converge(&staged, 2).await.unwrap();
    assert_eq!(bed.accepted("/Reboot"), 0);
    // Whoever comes next finds that it waits.
    assert_eq!(modes(&bed.plan(&healthy()).await), [ChangeMode::Reboot; 4]);
    let writes = bed.accepted("ApplyConfiguration");
    converges(&bed, &healthy()).await;
    assert_eq!(bed.accepted("/Reboot"), 4);
    assert_eq!(bed.accepted("ApplyConfiguration"), writes, "it was written down before");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_network_is_tried_first() {
    let mut bed = bed(64, "").await;
    bed.handed.patches =
        patch("apiVersion: v1alpha1\nkind: StaticHostConfig\nname: 10.0.7.53\nhostnames: [ns.lab]");
    let plan = bed.plan(&healthy()).await;
    assert_eq!(modes(&plan), [ChangeMode::Try; 4]);
    assert!(plan.steps[0].reason.ends_with("could cut it off"), "{}", plan.steps[0].reason);
    converges(&bed, &healthy()).await;
}

/// A host name more: a document of the network, which Talos takes over at once.
const NETWORK: &str = "apiVersion: v1alpha1\nkind: StaticHostConfig\nname: 10.0.7.53\nhostnames: [ns.lab]";

/// Which configuration is in force on cp-2.
fn in_force(bed: &Bed) -> Option<u64> {
    let nodes = bed.lab.nodes(|nodes| serde_json::to_value(&*nodes).unwrap());
    nodes.pointer("/machines/2001/run/active/version")?.as_u64()
}

#[tokio::test(start_paused = true)]
async fn a_change_that_cuts_a_machine_off_is_taken_back_by_the_machine() {
    let mut bed = bed(65, "").await;
    bed.handed.patches = patch(NETWORK);
    // cp-1 leads etcd and goes last, so cp-2 is the first.
    let before = in_force(&bed);
    let (ended, ()) = futures_util::future::join(bed.converge(&healthy(), 2), cut_off(&bed, before)).await;
    let error = ended.unwrap_err();
    assert!(error.contains("cp-2") && error.contains("took"), "{error}");
    bed.settles().await;
    // It has what it had before, and nobody else was given the change.
    assert_eq!(modes(&bed.plan(&healthy()).await), [ChangeMode::Try; 4]);
}

/// Talos that says nothing beforehand, so that the first configuration a machine is sent is the one on trial.
const SILENT: &str = "talos_version: 1.14.0\nkubernetes_version: 1.36.3\ntalos_contract: \"1.13\"\n";

#[tokio::test(start_paused = true)]
async fn a_change_of_the_network_is_tried_before_the_restart_that_comes_with_it() {
    for versions in ["", SILENT] {
        let mut bed = bed(83, versions).await;
        bed.handed.patches = patch(&format!("machine: {{env: {{A: b}}}}\n---\n{NETWORK}"));
        let plan = bed.plan(&healthy()).await;
        assert_eq!(modes(&plan), [ChangeMode::TryFirst, ChangeMode::Reboot].repeat(4), "{plan:#?}");
        converges(&bed, &healthy()).await;
        assert_eq!(bed.accepted("/Reboot"), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_network_is_tried_before_the_rest_is_left_for_the_next_restart() {
    let mut bed = bed(84, "").await;
    bed.handed.patches = patch(&format!("machine: {{env: {{A: b}}}}\n---\n{NETWORK}"));
    let mut staged = healthy();
    staged.upkeep.stage = true;
    assert_eq!(modes(&bed.plan(&staged).await), [ChangeMode::TryFirst, ChangeMode::Staged].repeat(4));
    bed.converge(&staged, 2).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(bed.accepted("/Reboot"), 0);
    let waits = bed.plan(&Request { allow_reboot: false, ..healthy() }).await.waiting;
    let only_env =
        |waiting: &Waiting| matches!(waiting, Waiting::Reboot { keys, .. } if keys == &["machine.env"]);
    assert!(waits.len() == 4 && waits.iter().all(only_env), "the network is in force: {waits:#?}");
}

/// Cuts cp-2 off from the moment it has another configuration until long after a trial is over.
async fn cut_off(bed: &Bed, before: Option<u64>) {
    let first = "10.0.7.12".parse().unwrap();
    while in_force(bed) == before {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bed.lab.nodes(|nodes| nodes.faults.flap(first, Flapping { up: 0, down: u64::MAX }));
    tokio::time::sleep(Duration::from_mins(4)).await;
    bed.lab.nodes(|nodes| nodes.faults.steady(first));
}

#[tokio::test(start_paused = true)]
async fn what_cuts_a_machine_off_is_not_written_down_for_its_restart() {
    let mut bed = bed(85, "").await;
    bed.handed.patches = patch(&format!("machine: {{env: {{A: b}}}}\n---\n{NETWORK}"));
    let before = in_force(&bed);
    let (ended, ()) = futures_util::future::join(bed.converge(&healthy(), 2), cut_off(&bed, before)).await;
    let error = ended.unwrap_err();
    assert!(error.contains("cp-2 took the change back"), "{error}");
    bed.settles().await;
    assert_eq!(bed.accepted("/Reboot"), 0);
    let kept = talmox_exec::held(&bed.client("10.0.7.12")).await.unwrap().kept.unwrap();
    assert!(!secrecy::ExposeSecret::expose_secret(&kept).contains("ns.lab"), "nothing of it is on the disk");
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_never_reached_the_machine_is_sent_again() {
    let busy =
        CallFault::answer(Code::FailedPrecondition, "another apply configuration is already in progress");
    for fault in [busy, CallFault::Refuse, CallFault::Break, CallFault::LoseReply] {
        let mut bed = bed(86, SILENT).await;
        bed.handed.patches = patch(NETWORK);
        let first = "10.0.7.12".parse().unwrap();
        bed.lab.nodes(|nodes| nodes.faults.call_to(first, "*ApplyConfiguration", 1, 1, fault));
        converges(&bed, &healthy()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_is_always_refused_for_the_moment_ends_with_its_words() {
    let mut bed = bed(87, SILENT).await;
    bed.handed.patches = patch(NETWORK);
    let busy =
        CallFault::answer(Code::FailedPrecondition, "another apply configuration is already in progress");
    let first = "10.0.7.12".parse().unwrap();
    bed.lab.nodes(|nodes| nodes.faults.call_to(first, "*ApplyConfiguration", 1, u64::MAX, busy));
    let error = bed.converge(&healthy(), 2).await.unwrap_err();
    assert!(error.contains("already in progress") && !error.contains("took the change back"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_trial_whose_answer_is_lost_with_the_machine_is_not_tried_again() {
    let mut bed = bed(88, SILENT).await;
    bed.handed.patches = patch(NETWORK);
    let (first, before) = ("10.0.7.12".parse().unwrap(), in_force(&bed));
    bed.lab.nodes(|nodes| nodes.faults.call_to(first, "*ApplyConfiguration", 1, 1, CallFault::LoseReply));
    let sent = bed.lab.calls().asking("CALL", "ApplyConfiguration").count();
    let (ended, ()) = futures_util::future::join(bed.converge(&healthy(), 2), cut_off(&bed, before)).await;
    let error = ended.unwrap_err();
    assert!(error.contains("cp-2 took the change back"), "{error}");
    assert_eq!(bed.lab.calls().asking("CALL", "ApplyConfiguration").count(), sent + 1, "once is enough");
}

/// Somebody tries a configuration on cp-2 for so long.
async fn tries(bed: &Bed, trial: Duration) {
    let first = bed.client("10.0.7.12");
    let held = talmox_exec::held(&first).await.unwrap().kept.unwrap();
    let other = "apiVersion: v1alpha1\nkind: StaticHostConfig\nname: 10.0.7.54\nhostnames: [old.lab]\n";
    let text = format!("{}\n---\n{other}", secrecy::ExposeSecret::expose_secret(&held));
    first.apply_configuration(text.into(), talmox_talos::ApplyMode::Try(trial), false).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_long_trial_of_somebody_else_is_waited_for() {
    let mut bed = bed(89, "").await;
    tries(&bed, Duration::from_mins(10)).await;
    let on_trial = in_force(&bed);
    bed.handed.patches = patch(NETWORK);
    let towards_its_end = async {
        tokio::time::sleep(Duration::from_secs(590)).await;
        in_force(&bed)
    };
    let (ended, then) = futures_util::future::join(bed.converge(&healthy(), 2), towards_its_end).await;
    ended.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert_eq!(then, on_trial, "another one on top of it would go back to the first");
    bed.settles().await;
    assert!(bed.plan(&healthy()).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_trial_of_somebody_else_that_does_not_end_is_left_to_them() {
    let mut bed = bed(90, "").await;
    tries(&bed, Duration::from_mins(40)).await;
    let on_trial = in_force(&bed);
    bed.handed.patches = patch(NETWORK);
    let error = bed.converge(&healthy(), 2).await.unwrap_err();
    assert!(error.contains("cp-2 has a change of somebody else on trial, still after 15 min"), "{error}");
    assert_eq!(in_force(&bed), on_trial, "nothing was sent on top of it");
}

#[tokio::test(start_paused = true)]
async fn a_trial_does_not_begin_while_another_is_under_way() {
    let mut bed = bed(67, "").await;
    // A run that died had begun with what was described then, on the node that is changed first.
    let before = in_force(&bed);
    tries(&bed, Duration::from_mins(2)).await;
    let on_trial = in_force(&bed);
    assert_ne!(on_trial, before);
    bed.handed.patches = patch(NETWORK);
    let towards_its_end = async {
        tokio::time::sleep(Duration::from_secs(110)).await;
        in_force(&bed)
    };
    let (ended, then) = futures_util::future::join(bed.converge(&healthy(), 2), towards_its_end).await;
    ended.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert_eq!(then, on_trial, "another one on top of it would go back to the first");
    bed.settles().await;
    assert!(bed.plan(&healthy()).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_trial_of_somebody_else_is_told_and_left_to_end() {
    let bed = bed(69, "").await;
    let worker = bed.client("10.0.7.14");
    let held = talmox_exec::held(&worker).await.unwrap().kept.unwrap();
    let other = "apiVersion: v1alpha1\nkind: StaticHostConfig\nname: 10.0.7.54\nhostnames: [try.lab]\n";
    let text = format!("{}\n---\n{other}", secrecy::ExposeSecret::expose_secret(&held));
    let trial = talmox_talos::ApplyMode::Try(Duration::from_mins(2));
    worker.apply_configuration(text.into(), trial, false).await.unwrap();
    let plan = bed.plan(&healthy()).await;
    let [Waiting::Trial { node, keys, since: Some(_) }] = plan.waiting.as_slice() else {
        panic!("{plan:#?}")
    };
    assert_eq!((node.as_str(), keys.len()), ("worker-1", 1));
    assert!(plan.is_empty(), "nothing restarts for it: {plan:#?}");
    tokio::time::sleep(Duration::from_mins(3)).await;
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty() && plan.waiting.is_empty(), "{plan:#?}");
    // What is staged waits for a restart, and is no trial.
    let held = talmox_exec::held(&worker).await.unwrap().kept.unwrap();
    let text = format!("{}\n---\n{other}", secrecy::ExposeSecret::expose_secret(&held));
    worker.apply_configuration(text.into(), talmox_talos::ApplyMode::Staged, false).await.unwrap();
    assert_eq!(talmox_exec::held(&worker).await.unwrap().tried, None);
}
