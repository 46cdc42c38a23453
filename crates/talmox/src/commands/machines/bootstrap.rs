//! What people have done to a cluster that has just begun: their manifests, and a program of theirs.

use std::path::{Path, PathBuf};

use futures_util::TryStreamExt as _;
use secrecy::SecretString;
use talmox_exec::{Images as _, Manifest};

use super::Inside;
use crate::commands::configs::read_text;
use crate::commands::shared::Job;

/// A manifest larger than this is no manifest.
const LARGEST: usize = 16 << 20;

impl Inside<'_> {
    pub(super) async fn texts(&self) -> Result<Vec<Manifest>, String> {
        let mut all = Vec::new();
        for name in &self.job.desired.kubernetes.bootstrap_manifests {
            let text = if name.contains("://") {
                fetch(self.job, name).await?
            } else {
                read_text(&self.job.folder.join(name)).map_err(|failure| failure.to_string())?
            };
            all.push(Manifest { name: name.clone(), text: SecretString::from(text) });
        }
        Ok(all)
    }

    /// Runs a program with files of its own to reach the cluster by: it must not depend on what is current in the user's.
    pub(super) async fn run(&self, command: &[String]) -> Result<(), String> {
        let (program, arguments) = command.split_first().ok_or("there is no program to run")?;
        let folder = tempfile::tempdir().map_err(|error| format!("no place for its files: {error}"))?;
        let clients = self.clients().map_err(|error| error.to_string())?;
        let (talosconfig, kubeconfig) =
            clients.write_into(folder.path()).map_err(|error| format!("{error:#}"))?;
        let output = tokio::process::Command::new(program)
            .args(arguments)
            .current_dir(folder_or_here(&self.job.folder))
            .env("KUBECONFIG", kubeconfig)
            .env("TALOSCONFIG", talosconfig)
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| format!("could not run {program}: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("it ended with {}{}", output.status, last_lines(&output.stderr, &output.stdout)))
    }
}

async fn fetch(job: &Job, url: &str) -> Result<String, String> {
    let arriving = job.session.images.open(url).await.map_err(|error| error.to_string())?;
    let bytes = arriving
        .chunks
        .map_err(|error| error.to_string())
        .try_fold(Vec::new(), async |mut all, piece| {
            all.extend_from_slice(&piece);
            if all.len() > LARGEST { Err(format!("{url} is larger than a manifest can be")) } else { Ok(all) }
        })
        .await?;
    String::from_utf8(bytes).map_err(|_| format!("{url} is no text"))
}

fn folder_or_here(folder: &Path) -> PathBuf {
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }
}

/// The end of what a program said, its complaints before the rest.
fn last_lines(stderr: &[u8], stdout: &[u8]) -> String {
    const SHOWN: usize = 5;
    let said = if stderr.iter().all(u8::is_ascii_whitespace) { stdout } else { stderr };
    let text = String::from_utf8_lossy(said);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.iter().skip(lines.len().saturating_sub(SHOWN)).map(|line| format!("\n  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_what_a_program_said_is_told() {
        let lines = |stderr: &str, stdout: &str| last_lines(stderr.as_bytes(), stdout.as_bytes());
        assert_eq!(lines("", ""), "");
        assert_eq!(lines(" \n", "done\n"), "\n  done");
        assert_eq!(lines("1\n2\n\n3\n4\n5\n6\n", "x"), "\n  2\n  3\n  4\n  5\n  6");
    }
}
