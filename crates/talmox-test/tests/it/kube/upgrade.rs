//! Upgrades that nothing disturbs.

use talmox_plan::{Request, Step, Upkeep};
use talmox_render::PatchText;
use talmox_types::desired::Power;

use crate::kube::bed::Bed;
use crate::kube::cluster::{
    PATCH, Versions, applied, brought_up, configurations, of, runs, usual, wanted, writes,
};

/// Upgrades, and sees that it is done and that nothing is left to do.
async fn upgraded(bed: &Bed, version: &str) {
    bed.converge(&wanted(), 2)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    bed.is_healthy().await;
    runs(bed, version).await;
    let (since, configured) = (bed.lab.calls().len(), configurations(bed));
    bed.converge(&wanted(), 3).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(writes(bed, since), [""; 0], "the second apply writes nothing");
    assert_eq!(configurations(bed), configured, "the second apply writes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_patch_release_one_control_plane_at_a_time() {
    let bed = brought_up(71, usual(3, 2, PATCH.0), usual(3, 2, PATCH.1)).await;
    let plan = bed.plan(&wanted()).await;
    let kinds: Vec<&str> = plan.steps.iter().map(|step| step.step.word()).collect();
    assert_eq!(kinds, ["upgrade-kubernetes", "await-health"], "{plan:#?}");
    let Step::Upkeep(Upkeep::UpgradeKubernetes { from, to, .. }) = &plan.steps[0].step else {
        panic!("{plan:?}")
    };
    assert_eq!((from.as_str(), to.as_str()), PATCH);
    let since = configurations(&bed);
    upgraded(&bed, PATCH.1).await;
    // Many waits one after the other, none of them long: all the same it speaks every thirty seconds.
    let long = bed.told.long_steps();
    assert!(long.contains("upgrade-kubernetes"), "{long:?}");
    // Three parts, kube-proxy's image and the kubelet of a control plane; a worker's kubelet.
    assert_eq!(applied(&bed, &since), [5, 5, 5, 1, 1]);
    // Nobody is asked to apply before the last one's pod was ready.
    let told = bed.told.lines().join("\n");
    let first = told.find("waits for kube-apiserver of cp-1").unwrap();
    let second = told.find("waits for kube-apiserver of cp-2").unwrap();
    let next = told.find("waits for kube-controller-manager of cp-1").unwrap();
    let kubelet = told.find("waits for the kubelet of cp-1").unwrap();
    assert!(first < second && second < next && next < kubelet, "{told}");
}

#[tokio::test(start_paused = true)]
async fn not_before_the_window_opens() {
    let bed = brought_up(79, usual(1, 1, PATCH.0), usual(1, 1, PATCH.1)).await;
    let mut tonight = wanted();
    tonight.upkeep.window.not_before = Some("2099-01-01T22:00:00Z".parse().unwrap());
    let configured = configurations(&bed);
    let summary = bed.converge(&tonight, 2).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(!summary.left.is_empty(), "what is left is said");
    assert_eq!(configurations(&bed), configured, "no machine was given anything");
    upgraded(&bed, PATCH.1).await;
}

#[tokio::test(start_paused = true)]
async fn a_window_that_ends_half_way_leaves_the_rest_for_the_next() {
    let whole = brought_up(80, usual(3, 2, PATCH.0), usual(3, 2, PATCH.1)).await;
    let begun = whole.now();
    upgraded(&whole, PATCH.1).await;
    let takes = whole.now() - begun;
    // Among the API servers of three control planes, and among what follows them.
    for seconds in [takes / 6, takes / 2] {
        let bed = brought_up(80, usual(3, 2, PATCH.0), usual(3, 2, PATCH.1)).await;
        let (since, end) = (configurations(&bed), bed.now() + seconds);
        let of_day = end % 86_400;
        let mut tonight = wanted();
        let text = format!("{:02}:{:02}:{:02}", of_day / 3600, of_day % 3600 / 60, of_day % 60);
        tonight.upkeep.window.not_after = Some(moment(end / 86_400, &text));
        let summary = bed.converge(&tonight, 2).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(!summary.left.is_empty(), "what is left is said after {seconds} of {takes} s");
        let now = applied(&bed, &since);
        assert!(now.iter().sum::<u64>() > 0 && now != [5, 5, 5, 1, 1], "{now:?}");
        tokio::time::sleep(std::time::Duration::from_mins(5)).await;
        assert_eq!(applied(&bed, &since), now, "nothing goes on by itself");
        upgraded(&bed, PATCH.1).await;
        assert_eq!(applied(&bed, &since), [5, 5, 5, 1, 1], "nobody is given anything twice");
    }
}

/// A day, counted from 1970, as it is typed. The lab's clock is in January 2026.
fn moment(day: u64, time: &str) -> talmox_plan::Moment {
    format!("2026-01-{:02}T{time}Z", day - 20_454 + 1).parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_minor_release() {
    let bed = brought_up(72, usual(3, 2, "1.35.4"), usual(3, 2, "1.36.3")).await;
    upgraded(&bed, "1.36.3").await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_off_is_no_stranger_and_its_old_kubelet_comes_before_a_newer_talos() {
    let versions = |talos, kubernetes| Versions { talos, contract: "1.13", kubernetes };
    let described = |talos, kubernetes| of(1, 2, versions(talos, kubernetes), "");
    let mut bed = brought_up(85, described("1.13.6", "1.31.4"), described("1.13.6", "1.32.4")).await;
    // Off on purpose: the others get another Kubernetes, which still knows it.
    bed.desired.nodes[2].vm.power = Power::Stopped;
    bed.converge(&wanted(), 2)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    // Back, with a kubelet that the new Talos does not run.
    bed.desired = described("1.14.0", "1.32.4");
    bed.desired.nodes[2].vm.power = Power::Running;
    bed.converge(&wanted(), 3)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    let told = bed.told.lines();
    let at =
        |line: &str| told.iter().rposition(|one| one == line).unwrap_or_else(|| panic!("{line}: {told:#?}"));
    assert!(at("upgrade-kubernetes done") < at("worker-2/upgrade-node begins"), "{told:#?}");
    bed.is_healthy().await;
    runs(&bed, "1.32.4").await;
}

#[tokio::test(start_paused = true)]
async fn one_node_alone() {
    let bed = brought_up(73, usual(1, 0, PATCH.0), usual(1, 0, PATCH.1)).await;
    upgraded(&bed, PATCH.1).await;
}

#[tokio::test(start_paused = true)]
async fn documents_of_their_own() {
    let versions = |kubernetes| Versions { talos: "1.14.0", contract: "1.14", kubernetes };
    let bed = brought_up(74, of(1, 1, versions("1.36.3"), ""), of(1, 1, versions("1.37.0"), "")).await;
    upgraded(&bed, "1.37.0").await;
}

#[tokio::test(start_paused = true)]
async fn without_kube_proxy() {
    let versions = |kubernetes| Versions { talos: "1.13.9", contract: "1.13", kubernetes };
    let more = "kube_proxy: false\n";
    let bed = brought_up(75, of(1, 1, versions(PATCH.0), more), of(1, 1, versions(PATCH.1), more)).await;
    upgraded(&bed, PATCH.1).await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_writes_nothing_and_pulls_nothing() {
    let bed = brought_up(76, usual(3, 0, PATCH.0), usual(3, 0, PATCH.1)).await;
    let (since, configured) = (bed.lab.calls().len(), configurations(&bed));
    let plan = bed.plan(&wanted()).await;
    assert!(plan.steps.iter().any(|step| step.step.word() == "upgrade-kubernetes"), "{plan:#?}");
    assert_eq!(writes(&bed, since), [""; 0]);
    assert_eq!(configurations(&bed), configured);
}

#[tokio::test(start_paused = true)]
async fn a_jump_is_refused_before_anything_is_touched() {
    let bed = brought_up(77, usual(1, 0, "1.34.1"), usual(1, 0, "1.36.3")).await;
    let (since, configured) = (bed.lab.calls().len(), configurations(&bed));
    let error = bed.converge(&wanted(), 2).await.unwrap_err();
    assert!(error.contains("Kubernetes 1.34 cannot become 1.36 at once"), "{error}");
    assert_eq!(writes(&bed, since), [""; 0]);
    assert_eq!(configurations(&bed), configured);
}

#[tokio::test(start_paused = true)]
async fn what_was_left_for_the_next_restart_gets_it_first() {
    let mut bed = Bed::new(90, usual(3, 1, PATCH.0));
    bed.converge(&wanted(), 1).await.unwrap_or_else(|error| panic!("{error}"));
    let text = "machine: {env: {A: b}}".to_owned();
    bed.handed.patches = vec![PatchText { name: "patch.yaml".to_owned(), text }];
    let mut staged = wanted();
    staged.upkeep.stage = true;
    bed.converge(&staged, 2).await.unwrap_or_else(|error| panic!("{error}"));
    bed.desired = usual(3, 1, PATCH.1);
    let plan = bed.plan(&Request { allow_reboot: false, ..wanted() }).await;
    assert_eq!(plan.waiting.len(), 4, "{plan:#?}");
    assert!(plan.refusals[0].problem.contains("machine.env"), "{plan:#?}");
    let before = bed.accepted("/Reboot");
    bed.converge(&wanted(), 3)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    runs(&bed, PATCH.1).await;
    bed.is_healthy().await;
    assert_eq!(bed.accepted("/Reboot") - before, 4, "nobody restarts twice");
    let told = bed.told.lines();
    let at = |line: &str| told.iter().position(|told| told == line);
    assert!(at("worker-1/return done") < at("upgrade-kubernetes begins"), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn both_at_once_from_a_talos_that_does_not_know_the_new_kubernetes() {
    let versions = |talos, kubernetes| Versions { talos, contract: "1.12", kubernetes };
    let before = of(3, 1, versions("1.12.5", "1.35.2"), "");
    let bed = brought_up(91, before, of(3, 1, versions("1.13.9", "1.36.3"), "")).await;
    let request = Request { allow_reboot: false, ..wanted() };
    bed.converge(&request, 2)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    runs(&bed, "1.36.3").await;
    assert!(bed.plan(&request).await.is_empty());
}
