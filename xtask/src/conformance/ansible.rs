//! Ansible with community.proxmox, by playbooks of ours.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use super::session::{IMAGE, ISO, SITE, Session, said};

pub(super) fn run(session: &mut Session, peers: &[PathBuf]) -> anyhow::Result<()> {
    for (title, playbook) in [
        ("build", "build.yaml"),
        ("build again", "build.yaml"),
        ("remove", "remove.yaml"),
        ("remove again", "remove.yaml"),
    ] {
        let text = play(session, peers, playbook)?;
        session.say(title, &outcomes(&text));
        session.say_world(&format!("the world after {title}"))?;
        if playbook == "build.yaml" {
            let text = inventory(session, peers)?;
            session.say("inventory", &text);
        }
    }
    Ok(())
}

/// What Ansible itself makes of the VMs it finds.
fn inventory(session: &Session, peers: &[PathBuf]) -> anyhow::Result<String> {
    let output = command(session, peers, "ansible-inventory")?
        .arg("--inventory")
        .arg(session.folder.join("lab.proxmox.yaml"))
        .arg("--graph")
        .output()?;
    said(&output, 0, "ansible-inventory")
}

fn play(session: &Session, peers: &[PathBuf], playbook: &str) -> anyhow::Result<String> {
    let output = command(session, peers, "ansible-playbook")?
        .arg(session.folder.join(playbook))
        .args(["--inventory", "localhost,"])
        .output()?;
    said(&output, 0, playbook)
}

fn command(session: &Session, peers: &[PathBuf], program: &str) -> anyhow::Result<Command> {
    let peer = peers.first().context("no Ansible")?;
    let ((host, port), (user, name, secret)) = (session.address(), session.token());
    let mut command = session.command(&peer.join("python/bin").join(program));
    command
        .env("ANSIBLE_COLLECTIONS_PATH", peer.join("collections"))
        .env("ANSIBLE_LOCALHOST_WARNING", "False")
        .env("ANSIBLE_NOCOLOR", "1")
        .env("ANSIBLE_PYTHON_INTERPRETER", peer.join("python/bin/python"))
        .env("REQUESTS_CA_BUNDLE", &session.ready.ca_file)
        .env("PROXMOX_URL", &session.ready.endpoint)
        .env("PROXMOX_HOST", host)
        .env("PROXMOX_PORT", port)
        .env("PROXMOX_USER", user)
        .env("PROXMOX_TOKEN_ID", name)
        .env("PROXMOX_TOKEN_SECRET", secret)
        .env("PROXMOX_CA_PATH", &session.ready.ca_file)
        .env("PROXMOX_API_TIMEOUT", "30")
        .env("IMAGE_URL", format!("http://{SITE}/{IMAGE}"))
        .env("ISO_URL", format!("http://{SITE}/{ISO}"));
    Ok(command)
}

/// `changed  name of the task` for every task, and the counts of the recap.
fn outcomes(text: &str) -> String {
    let mut task = "";
    let mut lines = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("TASK [").and_then(|rest| rest.split(']').next()) {
            task = name;
        } else if let Some((outcome, _)) = line.split_once(": [localhost]") {
            lines.push_str(&format!("{outcome:<8} {task}\n"));
        } else if line.starts_with("localhost ") && line.contains("ok=") {
            let counts: Vec<&str> = line.split_whitespace().filter(|word| word.contains('=')).collect();
            lines.push_str(&format!("{}\n", counts.join(" ")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_counts_are_read() {
        let text = "\nPLAY [x] ****\n\nTASK [Create a VM] ****\nchanged: [localhost]\n\nTASK [Look] ***\n\
                    ok: [localhost] => {\n    \"msg\": 1\n}\n\nPLAY RECAP ***\n\
                    localhost                  : ok=2    changed=1    unreachable=0    failed=0  \n";
        assert_eq!(
            outcomes(text),
            "changed  Create a VM\nok       Look\nok=2 changed=1 unreachable=0 failed=0\n"
        );
    }
}
