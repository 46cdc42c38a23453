//! `cargo xtask talos`: random configs and patches, compared with what Talos' own library makes of them.
//!
//! Configs rendered from random descriptions must be accepted, in metal and in cloud mode.
//!
//! The library of each version is a small program (`conformance/oracle`) that makes, patches and validates configs. What both
//! refuse counts as the same; what only one refuses does not.

pub(crate) mod descriptions;
mod expressions;
mod mutants;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use secrecy::ExposeSecret as _;
use talmox_machine::sample::Sampler;
use talmox_machine::validate::{Mode, Severity};
use talmox_machine::{Bundle, Config, Input, Options, Patch, Role, Source, SystemRandom, Time, patch};
use talmox_types::{Contract, support};

use crate::conformance::peers::{self, Peer};
use crate::golden::compare;
use crate::scratch::Scratch;
use crate::side_by_side;

use descriptions::DESCRIPTIONS;
use mutants::Verdicts;

/// How many configs, and how many chains of patches, are compared with each version.
const INPUTS: usize = 200;

/// When the bundle begins; Talos' library does not look at it.
const NOW: Time = Time::from_unix(1_790_000_000);

/// Before 1.14 Talos could not merge an address over another, nor a number over the tag of a choice.
pub(crate) const UNSETTABLE: &str = "is not settable";

/// Runs the chore and gives what it prints.
pub fn command(mut args: impl Iterator<Item = String>) -> anyhow::Result<String> {
    let (mut inputs, mut mutants) = (INPUTS, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--inputs" => inputs = args.next().context("--inputs wants a number")?.parse()?,
            "--mutants" => mutants = Some(args.next().context("--mutants wants a number")?.parse()?),
            _ => bail!("talos knows --inputs N and --mutants N, not {arg}"),
        }
    }
    let folders = match peers::get("oracle")? {
        Peer::Folder(folders) => folders,
        Peer::Unavailable(excuse) => return Ok(format!("not run: {excuse}")),
    };
    let bundle = Bundle::generate(Contract { major: 1, minor: 13 }, NOW, &mut SystemRandom)?;
    let lines: Result<Vec<String>, _> = folders
        .to_str()
        .context("folders of programs are text")?
        .lines()
        .map(|folder| {
            let judge = Judge::new(Path::new(folder), &bundle)?;
            match mutants {
                Some(mutants) => judge.mutants(mutants),
                None => Ok(format!(
                    "{}\n{}",
                    judge.compare(inputs)?,
                    judge.mutants(mutants::MUTANTS.min(3 * inputs))?
                )),
            }
        })
        .collect();
    lines.map(|lines| lines.join("\n"))
}

/// One version of Talos' library.
struct Judge<'a> {
    version: String,
    minor: u16,
    program: PathBuf,
    bundle: &'a Bundle,
    scratch: Scratch,
}

impl<'a> Judge<'a> {
    fn new(folder: &Path, bundle: &'a Bundle) -> anyhow::Result<Self> {
        let name = folder.file_name().and_then(|name| name.to_str()).context("a folder with a version")?;
        let version = name.trim_start_matches("oracle-").to_owned();
        let minor = version.split('.').nth(1).context("a version has a minor number")?.parse()?;
        Ok(Self {
            minor,
            program: folder.join("oracle"),
            bundle,
            scratch: Scratch::new(&format!("talos-{version}"))?,
            version,
        })
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<Result<String, String>> {
        let output =
            Command::new(&self.program).args(arguments).output().context("could not run the oracle")?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) })
    }

    fn compare(&self, inputs: usize) -> anyhow::Result<String> {
        for seed in 0..inputs {
            self.generated(seed).with_context(|| format!("Talos {}, config {seed}", self.version))?;
        }
        let mut excused = 0;
        let chains = inputs;
        for seed in 0..chains {
            let same =
                self.patched(seed).with_context(|| format!("Talos {}, patches {seed}", self.version))?;
            excused += usize::from(!same);
        }
        let descriptions = DESCRIPTIONS.min(inputs);
        for seed in 0..descriptions {
            self.described(seed).with_context(|| format!("Talos {}, description {seed}", self.version))?;
        }
        Ok(format!(
            "Talos {}: {inputs} configs made and accepted alike, {} chains of patches applied alike ({excused} excused), \
             configs of {descriptions} descriptions accepted",
            self.version,
            chains - excused
        ))
    }

    /// Configs with one field made another, and as many with a word of an expression made another: both take them, or both refuse.
    fn mutants(&self, count: usize) -> anyhow::Result<String> {
        let outcomes = side_by_side::run(2 * count, |seed| {
            let draw = if seed < count { mutants::draw } else { mutants::draw_expression };
            let mutant = draw(seed, &self.version, self.minor, self.bundle)?;
            let path = self.scratch.write(&format!("mutant-{seed}.yaml"), &mutant.text)?;
            let theirs = self.run(&["validate", "metal", &path])?.err();
            std::fs::remove_file(&path)?;
            Ok((mutant.change, theirs, mutants::refused(&mutant.text, self.minor)))
        });
        let mut verdicts = Verdicts::default();
        for outcome in outcomes {
            let outcome: anyhow::Result<_> = outcome;
            let (change, theirs, ours) = outcome?;
            verdicts.count(&change, theirs, ours);
        }
        verdicts.summary(&self.version)
    }

    /// A config of random inputs, compared with the library's, and validated by both.
    fn generated(&self, seed: usize) -> anyhow::Result<()> {
        let mut sampler = Sampler::new(seed as u64 + 1, self.minor);
        let line =
            support::LINES.iter().find(|line| line.talos.minor == self.minor).context("a line of Talos")?;
        let minor = 8 + u16::try_from(sampler.below(usize::from(self.minor) - 7))?;
        let (disk, image) = (
            sampler.one_of(&["/dev/sda", "/dev/vda", "/dev/disk/by-id/x"]),
            sampler.one_of(&["-", "factory/i:v1"]),
        );
        let endpoint = sampler.one_of(&[
            "https://base:6443",
            "https://[fd00::1]:6443",
            "https://10.0.0.1",
            "https://a.b/",
        ]);
        let name = sampler.one_of(&["base", "yes", "1.10", "a-b"]);
        let input = Input {
            contract: Contract { major: 1, minor },
            cluster_name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            kubernetes: line.default_kubernetes().to_string(),
            secrets: self.bundle,
            options: Options {
                install_disk: Some(disk.to_owned()),
                install_image: (image != "-").then(|| image.to_owned()),
                ..Options::default()
            },
        };
        let secrets = self.scratch.write("secrets.yaml", self.bundle.to_yaml().expose_secret())?;
        let contract = format!("v1.{minor}");
        let folder = self.scratch.path().to_string_lossy().into_owned();
        let made =
            self.run(&["gen", &secrets, name, endpoint, &contract, &input.kubernetes, disk, image, &folder])?;
        made.map_err(anyhow::Error::msg)?;
        for (role, file) in [(Role::ControlPlane, "controlplane.yaml"), (Role::Worker, "worker.yaml")] {
            let config = input.generate(role)?;
            let differences = compare::configs(&self.scratch.read(file)?, &config.to_yaml())?;
            ensure!(differences.is_empty(), "{contract} {file}: {}", differences.join(", "));
            let path = self.scratch.write(file, &config.to_yaml())?;
            for (mode, word) in [(Mode::Metal, "metal"), (Mode::Cloud, "cloud")] {
                let verdict = self.run(&["validate", word, &path])?;
                ensure!(verdict.is_ok(), "{contract} {file} in {word} mode: {verdict:?}");
                let problems = config.validate(mode, line.talos);
                let refused = problems.iter().find(|problem| problem.severity == Severity::Error);
                ensure!(
                    refused.is_none(),
                    "{contract} {file} in {word} mode: we refuse what Talos takes: {refused:?}"
                );
            }
        }
        Ok(())
    }

    /// The configs of a random description, which the library must accept.
    fn described(&self, seed: usize) -> anyhow::Result<()> {
        let case = descriptions::case(seed as u64, &self.version, self.minor, self.bundle)?;
        for (node, config) in &case.configs {
            let path = self.scratch.write("described.yaml", config)?;
            for mode in ["metal", "cloud"] {
                let verdict = self.run(&["validate", mode, &path])?;
                ensure!(verdict.is_ok(), "{node} in {mode} mode: {verdict:?}\n{}", case.text);
            }
        }
        Ok(())
    }

    /// A chain of random patches; false where the library could not merge and may be excused.
    fn patched(&self, seed: usize) -> anyhow::Result<bool> {
        let mut sampler = Sampler::new(seed as u64 + 1, self.minor);
        let base = sampler.config();
        let path = self.scratch.write("base.yaml", &base)?;
        let Ok(config) = Config::parse(Source { name: "base", text: &base }) else {
            let theirs = self.run(&["patch", &path, &path])?;
            ensure!(theirs.is_err(), "only we refuse the base:\n{base}");
            return Ok(true);
        };
        let mut arguments = vec!["patch".to_owned(), path];
        let mut patches = Vec::new();
        // Drawn, so without secrets: what differs can be looked at.
        let mut shown = format!("--- base\n{base}");
        for index in 0..=sampler.below(3) {
            let text = sampler.patch(&config);
            arguments.push(self.scratch.write(&format!("patch{index}.yaml"), &text)?);
            patches.push(Patch::parse(Source { name: "patch", text: &text })?);
            shown.push_str(&format!("--- patch {index}\n{text}"));
        }
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let theirs = self.run(&words)?;
        let ours = patch::apply_to_text(Source { name: "base", text: &base }, &patches);
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => {
                let differences = compare::configs(&theirs, &ours.to_yaml())?;
                ensure!(differences.is_empty(), "{}\n{shown}", differences.join(", "));
                Ok(true)
            }
            (Err(_), Err(_)) => Ok(true),
            (Err(theirs), Ok(_)) if self.minor < 14 && theirs.contains(UNSETTABLE) => Ok(false),
            (Err(theirs), Ok(_)) => bail!("only Talos refuses: {theirs}\n{shown}"),
            (Ok(_), Err(ours)) => bail!("only we refuse: {ours}\n{shown}"),
        }
    }
}
