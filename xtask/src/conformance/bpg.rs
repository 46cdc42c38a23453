//! OpenTofu with the bpg provider.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::provider;
use super::session::{IMAGE, ISO, SITE, Session, said};

/// `plan -detailed-exitcode` with nothing to do.
const NO_CHANGES: i32 = 0;

struct Tofu<'a> {
    session: &'a mut Session,
    program: PathBuf,
    folder: PathBuf,
}

pub(super) fn run(session: &mut Session, peers: &[PathBuf]) -> anyhow::Result<()> {
    let [tofu, bpg] = peers else { anyhow::bail!("OpenTofu and the provider are both needed") };
    let folder = prepare(session, bpg)?;
    let mut tofu = Tofu { session, program: tofu.join("tofu"), folder };
    tofu.run("init", &["init"], 0)?;
    tofu.apply("first apply", "first")?;
    tofu.nothing_to_do("plan after it", "first")?;
    tofu.session.say_world("the world after first apply")?;
    tofu.apply("apply of changes", "second")?;
    tofu.nothing_to_do("plan after it", "second")?;
    tofu.session.say_world("the world after the changes")?;
    tofu.import()?;
    tofu.run("destroy", &["destroy", "-auto-approve", "-var", "stage=second"], 0)?;
    tofu.session.say_world("the world after destroy")?;
    tofu.run("plan to destroy again", &["plan", "-destroy", "-detailed-exitcode"], NO_CHANGES)
}

/// A mirror with the one provider, and a folder with our files.
fn prepare(session: &Session, bpg: &Path) -> anyhow::Result<PathBuf> {
    provider::mirror(session.scratch(), bpg)?;
    let folder = session.scratch().join("configuration");
    fs::create_dir_all(&folder)?;
    for entry in fs::read_dir(&session.folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "tf" || extension == "iso") {
            fs::copy(&path, folder.join(path.file_name().context("a file without a name")?))?;
        }
    }
    Ok(folder)
}

impl Tofu<'_> {
    fn apply(&mut self, title: &str, stage: &str) -> anyhow::Result<()> {
        self.run(title, &["apply", "-auto-approve", "-var", &format!("stage={stage}")], 0)
    }

    fn nothing_to_do(&mut self, title: &str, stage: &str) -> anyhow::Result<()> {
        let stage = format!("stage={stage}");
        self.run(title, &["plan", "-detailed-exitcode", "-var", &stage], NO_CHANGES)
    }

    /// Forgets a VM and takes it in again.
    fn import(&mut self) -> anyhow::Result<()> {
        let vm = "proxmox_virtual_environment_vm.plain";
        self.run("forget", &["state", "rm", vm], 0)?;
        self.run("import", &["import", "-var", "stage=second", vm, "pve2/2002"], 0)?;
        self.apply("apply after import", "second")?;
        self.nothing_to_do("plan after it", "second")
    }

    fn run(&mut self, title: &str, arguments: &[&str], code: i32) -> anyhow::Result<()> {
        let (verb, rest) = arguments.split_first().context("no verb")?;
        let mut command = self.session.command(&self.program);
        command.arg(format!("-chdir={}", self.folder.display())).arg(verb);
        if *verb != "state" {
            command.args(["-no-color", "-input=false"]);
        }
        let output = command
            .args(rest)
            .env("CHECKPOINT_DISABLE", "1")
            .env("TF_CLI_CONFIG_FILE", self.session.scratch().join("tofurc"))
            .env("TF_IN_AUTOMATION", "1")
            .env("TF_VAR_image_url", format!("http://{SITE}/{IMAGE}"))
            .env("TF_VAR_iso_url", format!("http://{SITE}/{ISO}"))
            .env("PROXMOX_VE_ENDPOINT", &self.session.ready.endpoint)
            .env("PROXMOX_VE_API_TOKEN", &self.session.ready.token)
            .env("SSL_CERT_FILE", &self.session.ready.ca_file)
            .output()?;
        let text = said(&output, code, &format!("tofu {}", arguments.join(" ")))?;
        self.session.say(title, &outcomes(&text));
        Ok(())
    }
}

/// What would be and was done, without values and times.
fn outcomes(text: &str) -> String {
    let tells = |line: &&str| {
        line.starts_with("  # ")
            || [
                "Plan: ",
                "No changes.",
                "Apply complete!",
                "Destroy complete!",
                "Import successful!",
                "Success",
                "Removed ",
            ]
            .iter()
            .any(|begin| line.starts_with(begin))
            || line.contains("successfully initialized")
    };
    text.lines().filter(tells).map(|line| format!("{}\n", line.trim_start())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_read() {
        let text = "OpenTofu will perform:\n\n  # proxmox_x.y will be created\n  + resource {\n      # (3 unchanged)\n\n\
                    Plan: 1 to add, 0 to change, 0 to destroy.\nproxmox_x.y: Creating...\n\
                    Apply complete! Resources: 1 added, 0 changed, 0 destroyed.\n";
        assert_eq!(
            outcomes(text),
            "# proxmox_x.y will be created\nPlan: 1 to add, 0 to change, 0 to destroy.\n\
             Apply complete! Resources: 1 added, 0 changed, 0 destroyed.\n"
        );
    }
}
