//! `talmox init` with a Proxmox to ask.

#![expect(clippy::disallowed_methods, reason = "files the test itself had written")]

use insta::assert_snapshot;
use secrecy::ExposeSecret as _;

use crate::doing::connecting::Remote;
use crate::support::{Run, Scratch, command, finish};

/// Runs init into a folder of its own; gives what it said and what it wrote.
async fn init(remote: &Remote, arguments: &[&str], variables: &[(&str, &str)]) -> (Run, String) {
    let folder = remote.scratch.path("new");
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = command(&["init", &folder, "--yes"]);
    command.args(arguments).envs(variables.iter().copied());
    let run = tokio::task::spawn_blocking(move || finish(&mut command)).await.unwrap();
    let written = std::fs::read_to_string(format!("{folder}/cluster.yaml")).unwrap_or_default();
    (run, written)
}

/// What was chosen, without the uid.
fn chosen(text: &str) -> String {
    let lines = text.lines().filter(|line| line.starts_with("proxmox_") || line.starts_with("cluster_name"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_nobody_vouches_for_is_shown_and_nothing_is_sent() {
    let remote = Remote::start("init-certificate").await;
    let (endpoint, token) = (remote.endpoint(), remote.token.expose_secret().to_owned());
    let (run, written) = init(&remote, &["--endpoint", &endpoint], &[("PROXMOX_VE_API_TOKEN", &token)]).await;
    assert_eq!(run.code, 0, "{}", run.whole());
    assert_eq!(remote.server.calls(), 0, "nothing was sent");
    assert_snapshot!(remote.filtered(&format!("{}----\n{}", run.stderr, chosen(&written))));
    let other = "00:".repeat(31) + "00";
    let (run, written) = init(&remote, &["--endpoint", &endpoint, "--fingerprint", &other], &[]).await;
    assert_eq!((run.code, written.as_str()), (1, ""));
    assert!(run.stderr.contains("another certificate than --fingerprint names"), "{}", run.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_offered() {
    let remote = Remote::start("init-offer").await;
    let (endpoint, token) = (remote.endpoint(), remote.token.expose_secret().to_owned());
    let fingerprint = remote.server.hosts()[0].fingerprint.clone();
    let home = remote.scratch.path("home");
    let token = ("PROXMOX_VE_API_TOKEN", token.as_str());
    let variables = [("PROXMOX_VE_ENDPOINT", endpoint.as_str()), token, ("HOME", home.as_str())];
    let (run, written) = init(&remote, &["-v", "--fingerprint", &fingerprint], &variables).await;
    assert_eq!(run.code, 0, "{}", run.whole());
    assert_snapshot!(remote.filtered(&format!("{}----\n{}", run.stderr, chosen(&written))));
    let folder = remote.scratch.path("new");
    let check = async |variables: &[(&str, &str)]| {
        let mut check = command(&["check", "-o", "json", "-f", &folder]);
        check.envs(variables.iter().copied());
        tokio::task::spawn_blocking(move || finish(&mut check)).await.unwrap()
    };
    // What it wrote can be worked with at once: the grant is kept, and only the token is missing.
    let checked = check(&[token, ("HOME", &home)]).await;
    assert!(checked.stdout.contains("\"verdict\": \"ok\""), "{}", checked.whole());
    // On another machine, one variable beside those of the token and its endpoint does the same.
    let calls = remote.server.calls();
    let elsewhere = [("PROXMOX_VE_ENDPOINT", endpoint.as_str()), token];
    assert_eq!(check(&elsewhere).await.code, 1);
    assert_eq!(remote.server.calls(), calls, "nothing was sent");
    let checked = check(&[&elsewhere[..], &[("TALMOX_FINGERPRINT", &fingerprint)]].concat()).await;
    assert!(checked.stdout.contains("\"verdict\": \"ok\""), "{}", checked.whole());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_another_endpoint_is_not_sent() {
    let remote = Remote::start("init-elsewhere").await;
    let (endpoint, token) = (remote.endpoint(), remote.token.expose_secret().to_owned());
    let fingerprint = remote.server.hosts()[0].fingerprint.clone();
    let variables = [("PROXMOX_URL", "https://pve.elsewhere:8006"), ("PROXMOX_VE_API_TOKEN", token.as_str())];
    let flags = ["--endpoint", &endpoint, "--fingerprint", &fingerprint];
    let (run, written) = init(&remote, &flags, &variables).await;
    assert_eq!((run.code, written.as_str()), (1, ""), "{}", run.whole());
    assert_eq!(remote.server.calls(), 0);
    assert_snapshot!(remote.filtered(&run.stderr));
}

#[test]
fn a_simulated_proxmox_has_things_to_choose_from() {
    let scratch = Scratch::new("init-simulated");
    let (folder, world) = (scratch.path("lab"), format!("--simulate={}", scratch.path("world")));
    let run = finish(&mut command(&["init", &folder, "--yes", &world, "--name", "lab"])).succeeded();
    let text = std::fs::read_to_string(format!("{folder}/cluster.yaml")).unwrap();
    assert!(text.contains("proxmox_node: pve1") && text.contains("proxmox_pool: talmox-lab"), "{text}");
    assert!(
        run.stderr.contains("Storage for disk images: local; --image-storage names another"),
        "{}",
        run.stderr
    );
    finish(&mut command(&["check", "--setup", "-f", &folder, &world])).succeeded();
}
