//! The question on a terminal, and what a yes is kept as.

use crate::support::terminal::Terminal;
use crate::trust::lab::Stranger;

const QUESTION: &str = "Allow this for this folder from now on? [y/N] ";

#[tokio::test(flavor = "multi_thread")]
async fn one_yes_is_enough_and_another_folder_needs_its_own() {
    let stranger = Stranger::new("asking", "proxmox_api_token: env:PROXMOX_VE_API_TOKEN\n").await;
    let fingerprint = stranger.remote.server.hosts()[0].fingerprint.clone();
    let token = stranger.token();
    let mut command = stranger.command(&["status"]);
    command.env("PROXMOX_VE_API_TOKEN", &token);
    let shown = fingerprint.clone();
    let asked = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::run(command);
        let before = terminal.answers(QUESTION, "y");
        assert!(before.contains(&shown) && before.contains("pve-ssl.pem"), "{before}");
        terminal.ends()
    });
    let (code, rest) = asked.await.unwrap();
    assert_eq!(code, 0, "{rest}");
    let kept = std::fs::read_to_string(stranger.path("home/.config/talmox/trust.yaml")).unwrap();
    assert!(kept.contains(&fingerprint) && !kept.contains(token.rsplit('=').next().unwrap()), "{kept}");
    // From now on nobody is asked.
    let variable = ("PROXMOX_VE_API_TOKEN", token.as_str());
    stranger.run(&["status"], &[variable]).await.succeeded();
    let calls = stranger.remote.server.calls();
    // The same description in another folder is another description.
    for name in ["cluster.yaml", "nodes.yaml"] {
        std::fs::copy(stranger.path("lab").join(name), stranger.path("outside").join(name)).unwrap();
    }
    let other = stranger.path("outside").display().to_string();
    stranger.run(&["status", "-f", &other], &[variable]).await.failed();
    assert_eq!(stranger.remote.server.calls(), calls);
    // And it can be taken back.
    stranger.run(&["trust", "--forget"], &[]).await.succeeded();
    stranger.run(&["status"], &[variable]).await.failed();
    assert_eq!(stranger.remote.server.calls(), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_leaves_everything_as_it_was() {
    let stranger =
        Stranger::new("no", "proxmox_api_token: {exec: [sh, -c, \"touch pwned; echo a@pve!b=c\"]}\n").await;
    let command = stranger.command(&["plan"]);
    let asked = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::run(command);
        let before = terminal.answers(QUESTION, "");
        assert!(before.contains("touch pwned"), "{before}");
        terminal.ends()
    });
    let (code, rest) = asked.await.unwrap();
    assert!(code == 1 && rest.contains("not allowed"), "{rest}");
    assert!(!stranger.has("lab/pwned") && !stranger.has("home/.config/talmox/trust.yaml"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_needed_is_listed_with_what_is_missing() {
    let lines = "proxmox_api_token: file:token\npost_bootstrap: [sh, hook.sh]\nbootstrap_manifests: [\"https://example.org/a.yaml\"]\npatches: [../outside/patch.yaml]\n";
    let stranger = Stranger::new("listed", lines).await;
    stranger.write("lab/token", "a@pve!b=c");
    stranger.write("lab/hook.sh", "true");
    stranger.write("outside/patch.yaml", "machine: {}");
    let listed = stranger.run(&["trust"], &[]).await.failed().stdout;
    for need in ["program", "credential", "folder", "host", "hook.sh", "https://example.org:443", "missing"] {
        assert!(listed.contains(need), "{need} is missing in\n{listed}");
    }
    let grants = stranger.printed_grants(&[]).await;
    let listed = stranger.run(&["trust"], &[("TALMOX_TRUST", &grants)]).await.succeeded().stdout;
    assert!(listed.contains("allowed") && !listed.contains("missing"), "{listed}");
    let data = stranger.run(&["trust", "-o", "json"], &[]).await.failed().stdout;
    let data: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(data["needs"].as_array().unwrap().len(), 4, "{data:#}");
}
