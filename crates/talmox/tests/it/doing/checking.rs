//! `talmox check`: what people see, and what programs read.

use insta::assert_snapshot;
use serde_json::Value;
use talmox_sim::{AclEntry, Token};

use crate::doing::Lab;
use crate::doing::connecting::Remote;

/// Ports and times that differ from run to run.
fn settled(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((front, after)) = rest.split_once("127.0.0.1:") {
        out.push_str(front);
        out.push_str("127.0.0.1:PORT");
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out.push_str(rest);
    // How far our clock is from the simulated one, and what to do about it.
    let is_clock = |line: &&str| !line.starts_with("! clock") && !line.contains("chronyc");
    let lines = out.lines().filter(is_clock).map(|line| match line.split_once("--expire ") {
        Some((front, after)) => {
            format!("{front}--expire TIME{}\n", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => format!("{line}\n"),
    });
    lines.collect()
}

#[test]
fn everything_is_there() {
    let lab = Lab::new("check");
    let seen = lab.run(&["check"]).succeeded();
    assert_snapshot!(settled(&lab.shown(&seen)));
    lab.run(&["apply", "--auto-approve"]).succeeded();
    let seen = lab.run(&["check", "-o", "json"]).succeeded();
    let data: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!((&data["format"], &data["problems"]), (&"talmox.check/v1".into(), &0.into()));
    let agents: Vec<&Value> =
        data["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "agent").collect();
    // The template is somebody else's, and its image has no guest agent.
    assert_eq!(agents[0]["verdict"], "warning", "{agents:?}");
}

#[test]
fn lines_to_paste() {
    let lab = Lab::new("check-setup");
    let lines = lab.run(&["check", "--setup"]).succeeded();
    assert_snapshot!(settled(&lines.stdout));
    let refused = lab.run(&["check", "--setup", "--user", "root@pam"]).failed();
    assert!(refused.stderr.contains("a user of its own is made"), "{}", refused.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_only_look() {
    let remote = Remote { trusted: true, ..Remote::start("check").await };
    let secret = "8f4d0f52-1a7b-4a05-9c64-d3a0c0ffee00";
    remote.server.with(|simulation| {
        let access = &mut simulation.world.access;
        let token = Token { secret: secret.to_owned(), privsep: true, ..Token::default() };
        access.users.get_mut("talmox@pve").unwrap().tokens.insert("weak".to_owned(), token);
        access.acl.push(AclEntry {
            path: "/".to_owned(),
            kind: "token".to_owned(),
            subject: "talmox@pve!weak".to_owned(),
            role: "PVEAuditor".to_owned(),
            propagate: true,
        });
    });
    std::fs::write(remote.scratch.0.join("token"), format!("talmox@pve!weak={secret}")).unwrap();
    remote.describe("proxmox_api_token: file:token\n");
    let seen = remote.run(&["check"], &[]).await.failed();
    assert_snapshot!(remote.filtered(&settled(&seen.stdout)));
    assert_eq!(seen.stderr, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_to_paste_are_there_before_any_token() {
    let remote = Remote::start("check-first").await;
    remote.describe("");
    let lines = remote.run(&["check", "--setup"], &[]).await.succeeded();
    assert_eq!(remote.server.calls(), 0);
    assert_snapshot!(settled(&remote.filtered(&format!("{}---- stderr\n{}", lines.stdout, lines.stderr))));
}
