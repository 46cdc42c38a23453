//! Where grants come from, and what they allow.

use crate::trust::lab::Stranger;

const PROGRAM: &str = "proxmox_api_token: {exec: [sh, -c, \"touch pwned; echo a@pve!b=c\"]}\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_only_as_it_was_allowed() {
    let stranger = Stranger::new("program", PROGRAM).await;
    let refused = stranger.run(&["plan"], &[]).await.failed();
    assert!(
        refused.stderr.contains("not allowed: ") && refused.stderr.contains("touch pwned"),
        "{}",
        refused.whole()
    );
    assert!(refused.stderr.trim_end().ends_with("talmox trust -f ."), "{}", refused.whole());
    assert!(!stranger.has("lab/pwned"));

    let grants = stranger.printed_grants(&[]).await;
    assert!(grants.contains("- program: [\"sh\", \"-c\", \"touch pwned; echo a@pve!b=c\"]"), "{grants}");
    assert!(grants.contains("- credential: "), "{grants}");
    // The token it prints goes nowhere good, and is sent: the person allowed both.
    stranger.run(&["plan"], &[("TALMOX_TRUST", &grants)]).await.failed();
    assert!(stranger.has("lab/pwned"));

    std::fs::remove_file(stranger.path("lab/pwned")).unwrap();
    for changed in [PROGRAM.replace("echo a", "echo  a"), PROGRAM.replace("-c", "-ec")] {
        stranger.describe(&changed);
        stranger.run(&["plan"], &[("TALMOX_TRUST", &grants)]).await.failed();
        assert!(!stranger.has("lab/pwned"), "{changed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_no_variable_that_is_not_granted() {
    let lines = "proxmox_api_token: {exec: [sh, -c, \"env > seen; echo a@pve!b=c\"]}\n";
    let stranger = Stranger::new("variables", lines).await;
    let grants = stranger.printed_grants(&[]).await;
    let secret = ("SOPS_AGE_KEY", "AGE-SECRET-KEY-CANARY");
    stranger.run(&["plan"], &[("TALMOX_TRUST", &grants), secret]).await.failed();
    let seen = std::fs::read_to_string(stranger.path("lab/seen")).unwrap();
    assert!(seen.contains("HOME=") && !seen.contains("CANARY") && !seen.contains("TALMOX_TRUST"), "{seen}");
    let named = grants.replacen("  path:", "  variables: [\"SOPS_AGE_KEY\"]\n  path:", 1);
    stranger.run(&["plan"], &[("TALMOX_TRUST", &named), secret]).await.failed();
    let seen = std::fs::read_to_string(stranger.path("lab/seen")).unwrap();
    assert!(seen.contains("SOPS_AGE_KEY=AGE-SECRET-KEY-CANARY"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_file_goes_to_an_endpoint_the_person_allowed() {
    let stranger = Stranger::new("token", "proxmox_api_token: file:token\nproxmox_insecure: true\n").await;
    stranger.write("lab/token", &stranger.token());
    let refused = stranger.run(&["plan"], &[]).await.failed();
    assert!(
        refused.stderr.contains("the token of proxmox_api_token (file:token) is not sent to"),
        "{}",
        refused.whole()
    );
    assert_eq!(stranger.remote.server.calls(), 0);
    // Allowing the endpoint is not allowing any certificate.
    let grants = stranger.printed_grants(&[]).await;
    let refused = stranger.run(&["status"], &[("TALMOX_TRUST", &grants)]).await.failed();
    assert!(refused.stderr.contains("TALMOX_FINGERPRINT="), "{}", refused.whole());
    assert_eq!(stranger.remote.server.calls(), 0);
    let fingerprint = stranger.remote.server.hosts()[0].fingerprint.clone();
    let pinned = grants.replace("certificate: system", &format!("certificate: [\"{fingerprint}\"]"));
    stranger.run(&["status"], &[("TALMOX_TRUST", &pinned)]).await.succeeded();
    assert!(stranger.remote.server.calls() > 0);
    // A token outside the folder needs its folder, too.
    stranger.describe("proxmox_api_token: file:../outside/token\n");
    stranger.write("outside/token", &stranger.token());
    let calls = stranger.remote.server.calls();
    let both = pinned.replace("file:token", "file:../outside/token");
    let refused = stranger.run(&["status"], &[("TALMOX_TRUST", &both)]).await.failed();
    assert!(refused.stderr.contains("read files in"), "{}", refused.whole());
    assert_eq!(stranger.remote.server.calls(), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_never_come_from_beside_or_above_the_description() {
    let stranger = Stranger::new("beside", PROGRAM).await;
    let grants = stranger.printed_grants(&[]).await;
    for place in ["lab/grants.yaml", "grants.yaml"] {
        stranger.write(place, &grants);
        let path = stranger.path(place).display().to_string();
        let refused = stranger.run(&["plan"], &[("TALMOX_TRUST_FILE", &path)]).await.failed();
        assert!(refused.stderr.contains("grants nothing"), "{}", refused.whole());
        assert!(!stranger.has("lab/pwned"));
    }
    stranger.write("outside/grants.yaml", &grants);
    let path = stranger.path("outside/grants.yaml").display().to_string();
    stranger.run(&["plan"], &[("TALMOX_TRUST_FILE", &path)]).await.failed();
    assert!(stranger.has("lab/pwned"), "elsewhere they count");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_others_can_write_to_grants_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let stranger = Stranger::new("store", PROGRAM).await;
    let grants = stranger.printed_grants(&[]).await;
    let folder = stranger.path("lab").canonicalize().unwrap();
    let indented: String = grants.lines().map(|line| format!("  {line}\n")).collect();
    std::fs::create_dir_all(stranger.path("home/.config/talmox")).unwrap();
    stranger
        .write("home/.config/talmox/trust.yaml", &format!("{:?}:\n{indented}", folder.display().to_string()));
    let store = stranger.path("home/.config/talmox/trust.yaml");
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o666)).unwrap();
    let refused = stranger.run(&["plan"], &[]).await.failed();
    assert!(refused.stderr.contains("others than you can write to it"), "{}", refused.whole());
    assert!(!stranger.has("lab/pwned"));
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o600)).unwrap();
    stranger.run(&["plan"], &[]).await.failed();
    assert!(stranger.has("lab/pwned"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pipes_and_devices_are_refused_and_nothing_waits() {
    let stranger = Stranger::new("pipes", "").await;
    let pipe = stranger.path("lab/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let endpoint = stranger.remote.endpoint();
    let home = [("PROXMOX_VE_ENDPOINT", endpoint.as_str())];
    for (lines, verb) in [
        ("secrets_file: pipe\n", &["secrets", "show"][..]),
        ("proxmox_api_token: file:pipe\n", &["plan"]),
        ("proxmox_api_token: sops:pipe#a.token\n", &["plan"]),
        ("patches: [\"@pipe\"]\n", &["validate"]),
    ] {
        stranger.describe(lines);
        let refused = stranger.run(verb, &home).await.failed();
        assert!(refused.stderr.contains("not a regular file"), "{lines}{}", refused.whole());
    }
    let device = [("TALMOX_CA_FILE", "/dev/zero"), ("PROXMOX_VE_API_TOKEN", "a@pve!b=c"), home[0]];
    stranger.describe("");
    let refused = stranger.run(&["plan"], &device).await.failed();
    assert!(refused.stderr.contains("not a regular file"), "{}", refused.whole());
}
