//! `--untrusted`: a stranger's description is read by a process that has nothing of the person's.
//!
//! The command runs again as a child: with PATH and the terminal's settings as its only variables, an empty folder as HOME, nothing to
//! read on its standard input, and limits of time and memory. So no variable, key, grant or file of the
//! person can get into what it prints, whatever the description says.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::failure::Failure;

/// Tells the child that it is the confined process.
const INSIDE: &str = "TALMOX_CONFINED";
/// Far beyond what a description of a thousand nodes takes.
const SECONDS: u64 = 120;
const BYTES: u64 = 2 << 30;
/// What of the environment decides how text looks, and nothing else.
const HARMLESS: [&str; 6] = ["PATH", "TERM", "NO_COLOR", "LANG", "LC_ALL", "COLUMNS"];
/// Flags can come from variables too: those that say what to look at and how to print it.
const FLAGS: [&str; 7] = [
    "TALMOX_FILE",
    "TALMOX_OUTPUT",
    "TALMOX_SIMULATE",
    "TALMOX_COLOR",
    "TALMOX_QUIET",
    "TALMOX_UNTIL",
    "TALMOX_SPEED",
];

/// Runs the command again in a confined process and gives its exit code. Gives none in that process itself, which goes on.
#[expect(clippy::disallowed_methods, reason = "variables of the system, read as they are")]
pub(crate) fn confine(description: &Path) -> anyhow::Result<Option<i32>> {
    if std::env::var(INSIDE).is_ok() {
        limit()?;
        return Ok(None);
    }
    let typed = std::env::args_os().skip(1);
    if typed.filter_map(|word| word.into_string().ok()).any(|word| word.starts_with("--trust")) {
        return Err(Failure::new("--untrusted and --trust exclude each other").into());
    }
    let home = tempfile::tempdir().context("there is no place for an empty home")?;
    let program = std::env::current_exe().context("could not find the program itself")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env_clear().stdin(Stdio::null());
    for name in HARMLESS.into_iter().chain(FLAGS) {
        if let Ok(value) = std::env::var(name) {
            command.env(name, value);
        }
    }
    command
        .env("TALMOX_UNTRUSTED", "true")
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env(INSIDE, "1");
    let mut child = command.spawn().context("could not run the confined process")?;
    let code = wait(&mut child)?.and_then(|status| status.code());
    let given_up = || {
        Failure::new(format!(
            "the description in {} was given up: reading it takes more than {} GiB of memory or {SECONDS} s",
            description.display(),
            BYTES >> 30
        ))
    };
    Ok(Some(code.ok_or_else(given_up)?))
}

/// Waits for the child as long as it may take; none if it was ended.
fn wait(child: &mut Child) -> anyhow::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(SECONDS) {
        if let Some(status) = child.try_wait().context("could not wait for the confined process")? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().context("could not end the confined process")?;
    child.wait().context("could not wait for the confined process")?;
    Ok(None)
}

fn limit() -> anyhow::Result<()> {
    for (resource, most) in [(Resource::As, BYTES), (Resource::Cpu, SECONDS), (Resource::Core, 0)] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).map_err(|error| {
            Failure::new(format!("the limits of --untrusted cannot be set here: {error}"))
        })?;
    }
    Ok(())
}
