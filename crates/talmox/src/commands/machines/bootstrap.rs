//! What people have done to a cluster that has just begun: their manifests, and a program of theirs.

use std::path::Path;
use std::sync::PoisonError;

use futures_util::TryStreamExt as _;
use secrecy::SecretString;
use talmox_exec::{Images as _, Manifest};

use super::Inside;
use crate::commands::shared::Job;
use crate::private_folder::PrivateFolder;
use crate::trust::{Folder, command, program_need};

/// A manifest larger than this is no manifest.
const LARGEST: usize = 16 << 20;

impl Inside<'_> {
    pub(super) async fn texts(&self) -> Result<Vec<Manifest>, String> {
        let mut all = Vec::new();
        for name in &self.job.desired.kubernetes.bootstrap_manifests {
            let text = if !name.contains("://") {
                self.job.folder.text(name).map_err(|failure| failure.to_string())?
            } else if self.is_simulated() {
                self.leave_out(format!("a simulation fetches nothing; apply would fetch and apply {name}"));
                continue;
            } else {
                fetch(self.job, name).await?
            };
            all.push(Manifest { name: name.clone(), text: SecretString::from(text) });
        }
        Ok(all)
    }

    fn is_simulated(&self) -> bool {
        self.job.session.simulated_in().is_some()
    }

    fn leave_out(&self, what: String) {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// What a simulated run did not do, once.
    pub(in crate::commands) fn left_out(&self) -> Vec<String> {
        std::mem::take(&mut self.left_out.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs the program the person allowed, with files of its own to reach the cluster by: it must not depend on what is current
    /// in the user's. In a simulation nothing runs.
    pub(super) async fn run(&self, argv: &[String]) -> Result<(), String> {
        let words: Vec<String> = argv.iter().map(|word| format!("{word:?}")).collect();
        if self.is_simulated() {
            self.leave_out(format!(
                "a simulation runs no program; apply would run [{}] (post_bootstrap)",
                words.join(", ")
            ));
            return Ok(());
        }
        let folder =
            PrivateFolder::make().map_err(|error| format!("there is no place for its files: {error}"))?;
        let clients = self.clients().map_err(|error| error.to_string())?;
        let (talosconfig, kubeconfig) =
            clients.write_into(folder.path()).map_err(|error| format!("{error:#}"))?;
        hand_over(argv, &self.job.folder, (&talosconfig, &kubeconfig)).await
    }
}

/// Runs a program of the description's, if the person allowed it.
async fn hand_over(argv: &[String], folder: &Folder, files: (&Path, &Path)) -> Result<(), String> {
    let program = argv.first().ok_or("there is no program to run")?;
    let allowed = program_need(argv, folder).and_then(|need| command(&need, folder));
    let mut command = tokio::process::Command::from(allowed.map_err(|failure| failure.to_string())?);
    let (talosconfig, kubeconfig) = files;
    let output = command
        .env("TALOSCONFIG", talosconfig)
        .env("KUBECONFIG", kubeconfig)
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| format!("could not run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("it ended with {}{}", output.status, last_lines(&output.stderr, &output.stdout)))
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

    #[tokio::test]
    async fn a_program_runs_once_it_is_allowed_and_gets_the_files_of_this_cluster() {
        let place = tempfile::tempdir().unwrap();
        let script = |text: &str| std::fs::write(place.path().join("hand-over.sh"), text).unwrap();
        let folder = Folder::closed(place.path());
        let argv = ["sh", "hand-over.sh", "now"].map(str::to_owned);
        let run = async || hand_over(&argv, &folder, (Path::new("/t"), Path::new("/k"))).await;
        script("echo \"$1 $TALOSCONFIG $KUBECONFIG\" > handed-over; echo there is no flux here >&2; exit 3");
        let refused = run().await.unwrap_err();
        assert!(refused.contains("not allowed: ") && refused.contains("hand-over.sh"), "{refused}");
        assert!(!place.path().join("handed-over").exists());
        folder.add(&[program_need(&argv, &folder).unwrap().grant()]);
        let failed = run().await.unwrap_err();
        assert_eq!(failed, "it ended with exit status: 3\n  there is no flux here");
        let handed = crate::regular_file::text(&place.path().join("handed-over"), 100).unwrap();
        assert_eq!(handed.as_str(), "now /t /k\n");
        script("exit 0");
        assert!(
            run().await.unwrap_err().contains("not allowed"),
            "the script has changed since it was allowed"
        );
    }

    #[test]
    fn the_end_of_what_a_program_said_is_told() {
        let lines = |stderr: &str, stdout: &str| last_lines(stderr.as_bytes(), stdout.as_bytes());
        assert_eq!(lines("", ""), "");
        assert_eq!(lines(" \n", "done\n"), "\n  done");
        assert_eq!(lines("1\n2\n\n3\n4\n5\n6\n", "x"), "\n  2\n  3\n  4\n  5\n  6");
    }
}
