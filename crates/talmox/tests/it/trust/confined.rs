//! `--untrusted`: a stranger's description, without anything of the person's.

use crate::trust::lab::Stranger;

const VERBS: [&[&str]; 2] = [&["validate", "--untrusted"], &["plan", "--untrusted", "--simulate"]];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_person_gets_into_what_is_printed() {
    let lines =
        "patches:\n  - ../outside/patch.yaml\n  - |\n    machine: {sysctls: {\"${CANARY}\": \"1\"}}\n";
    let stranger = Stranger::new("confined", lines).await;
    stranger.write("outside/patch.yaml", "CANARY-KEY: CANARY-VALUE\n");
    // Even what the person had allowed is not there.
    let grants = "- variable: CANARY\n- folder: /\n  access: read\n";
    for verb in VERBS {
        let variables = [("CANARY", "CANARY-VARIABLE"), ("TALMOX_TRUST", grants)];
        let run = stranger.run(verb, &variables).await;
        let all = run.whole();
        assert_eq!(run.code, 1, "{all}");
        for canary in ["CANARY-KEY", "CANARY-VALUE", "CANARY-VARIABLE"] {
            assert!(!all.contains(canary), "{all}");
        }
        let both = [verb, &["--trust", grants]].concat();
        let refused = stranger.run(&both, &[]).await.failed();
        assert!(refused.stderr.contains("exclude each other"), "{}", refused.whole());
    }
    assert!(!stranger.has("home/.local"), "nothing is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harmless_description_is_read_as_ever() {
    let stranger = Stranger::new("harmless", "").await;
    let [validate, plan] = VERBS;
    let valid = stranger.run(validate, &[]).await.succeeded();
    assert!(valid.stdout.contains("valid"), "{}", valid.whole());
    let planned = stranger.run(plan, &[]).await.succeeded();
    assert!(
        planned.stdout.contains("4 to create") || planned.stdout.contains("to create"),
        "{}",
        planned.whole()
    );
    let real = stranger.run(&["plan", "--untrusted"], &[]).await.failed();
    assert!(real.stderr.contains("--untrusted plans on a simulated Proxmox alone"), "{}", real.whole());
    assert_eq!(stranger.remote.server.calls(), 0);
}
