//! proxmoxer, by a script of ours: what a person would call from Python.

use std::path::PathBuf;

use anyhow::Context as _;

use super::session::{IMAGE, ISO, SITE, Session, said};

pub(super) fn run(session: &mut Session, peers: &[PathBuf]) -> anyhow::Result<()> {
    for (title, part) in
        [("build", "build"), ("build again", "build"), ("remove", "remove"), ("remove again", "remove")]
    {
        let text = script(session, peers, part)?;
        session.say(title, &text);
        session.say_world(&format!("the world after {title}"))?;
    }
    Ok(())
}

fn script(session: &Session, peers: &[PathBuf], verb: &str) -> anyhow::Result<String> {
    let ((host, port), (user, name, secret)) = (session.address(), session.token());
    let output = session
        .command(&peers.first().context("no Python")?.join("python/bin/python"))
        .arg(session.folder.join("life.py"))
        .arg(verb)
        .env("PVE_HOST", host)
        .env("PVE_PORT", port)
        .env("PVE_CA", &session.ready.ca_file)
        .env("PVE_USER", user)
        .env("PVE_TOKEN_NAME", name)
        .env("PVE_TOKEN_SECRET", secret)
        .env("PVE_ROOT_PASSWORD", &session.ready.root_password)
        .env("IMAGE_URL", format!("http://{SITE}/{IMAGE}"))
        .env("ISO_URL", format!("http://{SITE}/{ISO}"))
        .output()?;
    said(&output, 0, &format!("life.py {verb}"))
}
