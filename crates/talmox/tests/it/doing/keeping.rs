//! What a cluster's owner keeps: its secrets, and the contexts people reach it by.

#![expect(clippy::disallowed_methods, reason = "files the program had written")]

use std::os::unix::fs::PermissionsExt as _;

use talmox_sim::{Calls, Fault};

use crate::doing::broken::remote;
use crate::support::command;
use crate::support::terminal::Terminal;

#[tokio::test(flavor = "multi_thread")]
async fn the_first_apply_makes_the_secrets_and_none_is_made_beside_vms() {
    let remote = remote("first-secrets").await;
    let secrets = remote.scratch.0.join("secrets.yaml");
    // Nothing is to come of it: this is not about machines.
    let refused = Fault::Answer { status: 403, text: "not today".to_owned(), happens: false };
    let clones = Calls::to("POST", "/nodes/*/qemu/9000/clone");
    remote.server.with(|simulation| simulation.faults.always(clones, refused));
    let configured = [("TALMOX_UNTIL", "configured")];
    let apply = ["apply", "--auto-approve"];
    // Without a yes nothing is made.
    remote.run(&["apply"], &configured).await.failed();
    assert!(!secrets.exists());
    let first = remote.run(&apply, &configured).await.failed();
    assert!(first.stderr.contains("secrets.yaml\n"), "{}", first.whole());
    assert!(first.stderr.contains("not today"), "{}", first.whole());
    let made = std::fs::read_to_string(&secrets).unwrap();
    assert_eq!(std::fs::metadata(&secrets).unwrap().permissions().mode() & 0o777, 0o600);
    let ignored = std::fs::read_to_string(remote.scratch.0.join(".gitignore")).unwrap();
    assert!(ignored.lines().any(|line| line == "/secrets.yaml"), "{ignored}");
    // The next one finds them.
    remote.run(&apply, &configured).await.failed();
    assert_eq!(std::fs::read_to_string(&secrets).unwrap(), made);
    // VMs know the secrets they were made with, wherever those are.
    remote.server.with(|simulation| simulation.faults.clear());
    remote.run(&apply, &[]).await.succeeded();
    std::fs::remove_file(&secrets).unwrap();
    let lost = remote.run(&apply, &configured).await.failed();
    assert!(lost.stderr.contains("--until reachable"), "{}", lost.whole());
    assert!(!secrets.exists(), "{}", lost.whole());
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_go_with_the_cluster_if_its_owner_says_so() {
    let remote = remote("contexts").await;
    let (folder, home) = (remote.scratch.path(""), remote.scratch.path("home"));
    let variables = [("HOME", home.as_str())];
    remote.run(&["secrets", "generate", "--offline"], &variables).await.succeeded();
    let files = [format!("{home}/.talos/config"), format!("{home}/.kube/config")];
    for verb in ["talosconfig", "kubeconfig"] {
        remote.run(&[verb, "--merge"], &variables).await.succeeded();
    }
    // Its owner has added something to each.
    for (path, key, added) in
        [(&files[0], "endpoints:", "cluster: mine"), (&files[1], "namespace:", "extensions: []")]
    {
        let text = std::fs::read_to_string(path).unwrap();
        let (before, after) = text.split_once(key).unwrap();
        let indent = &before[before.rfind('\n').unwrap() + 1..];
        std::fs::write(path, format!("{before}{added}\n{indent}{key}{after}")).unwrap();
    }
    let holds = |name: &str| files.clone().map(|path| std::fs::read_to_string(path).unwrap().contains(name));
    for (answer, stays) in [("n", true), ("y", false)] {
        assert_eq!(holds("lab"), [true, true]);
        remote.run(&["apply", "--auto-approve"], &variables).await.succeeded();
        let mut destroy = command(&["destroy", "-f", &folder]);
        destroy.env("HOME", &home).env("PROXMOX_VE_ENDPOINT", remote.endpoint());
        destroy.env("TALMOX_FINGERPRINT", &remote.server.hosts()[0].fingerprint);
        let conversation = tokio::task::spawn_blocking(move || {
            let mut terminal = Terminal::run(destroy);
            terminal.answers("name (lab) to go on: ", "lab");
            let asked = terminal.answers("? [y/N] ", answer);
            assert!(asked.contains("Remove its contexts that were changed too ("), "{asked}");
            assert!(asked.contains(".talos/config") && asked.contains(".kube/config"), "{asked}");
            terminal.ends()
        });
        let (code, rest) = conversation.await.unwrap();
        assert_eq!(code, 0, "{rest}");
        assert_eq!(rest.contains("removed context admin@lab from"), !stays, "{rest}");
        assert_eq!(holds("lab"), [stays, stays]);
    }
}

/// Contexts that say only what this program wrote are its own to take back.
#[tokio::test(flavor = "multi_thread")]
async fn contexts_nobody_changed_go_with_the_cluster_unasked() {
    let remote = remote("contexts-unasked").await;
    let home = remote.scratch.path("home");
    let variables = [("HOME", home.as_str())];
    remote.run(&["secrets", "generate", "--offline"], &variables).await.succeeded();
    std::fs::create_dir_all(format!("{home}/.kube")).unwrap();
    let other = "apiVersion: v1\nkind: Config\ncurrent-context: other\ncontexts:\n- {name: other, context: {cluster: o, user: o}}\n";
    std::fs::write(format!("{home}/.kube/config"), other).unwrap();
    for verb in ["talosconfig", "kubeconfig"] {
        remote.run(&[verb, "--merge"], &variables).await.succeeded();
    }
    remote.run(&["apply", "--auto-approve"], &variables).await.succeeded();
    let gone = remote.run(&["destroy", "--auto-approve"], &variables).await.succeeded();
    assert!(gone.stderr.contains("removed context lab from"), "{}", gone.whole());
    assert!(gone.stderr.contains("removed context admin@lab from"), "{}", gone.whole());
    let [talos, kubernetes] = [".talos/config", ".kube/config"]
        .map(|path| std::fs::read_to_string(format!("{home}/{path}")).unwrap());
    assert!(!talos.contains("lab"), "{talos}");
    assert!(kubernetes.contains("name: other") && !kubernetes.contains("lab"), "{kubernetes}");
    assert!(kubernetes.contains("current-context: \"\""), "{kubernetes}");
}
