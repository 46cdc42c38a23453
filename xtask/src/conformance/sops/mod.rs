//! The genuine `sops` and `age` against `talmox-secrets`, both ways, on random files.
//!
//! What a file says is judged by `sops` alone: two files say the same if it prints the same text for both, comments
//! included.

mod sample;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use secrecy::ExposeSecret as _;
use talmox_secrets::age::{self, Identity};
use talmox_secrets::sops::{Rule, Selection, SopsFile, encrypt};
use talmox_secrets::{CreationRules, SystemRandom};

use super::peers::{self, Peer};
use sample::{RULES, Sampler};

pub(super) const TITLE: &str = "sops 3.13.3, age 1.3.2";

/// Files in each direction.
const FILES: usize = 72;
/// Texts for age; among them those around the size of a chunk.
const TEXTS: [usize; 8] = [0, 1, 100, 65_535, 65_536, 65_537, 131_072, 300_000];
const NOW: &str = "2026-11-15T12:00:00Z";
/// A comment that was not opened.
const LOST: &str = "#ENC[";
const SEED: u64 = 20_261_115;

pub(super) fn judge() -> anyhow::Result<String> {
    let folder = match peers::get("sops")? {
        Peer::Folder(folder) => folder,
        Peer::Unavailable(excuse) => return Ok(format!("{TITLE}: not run: {excuse}")),
    };
    let begin = Instant::now();
    let seed = seed()?;
    let bench = Bench::new(folder)?;
    let mut tally = Tally::default();
    for number in 0..FILES {
        let plain = Sampler::new(seed + number as u64).file();
        bench
            .file(number, &plain, &mut tally)
            .with_context(|| format!("file {number} of seed {seed}:\n{plain}"))?;
    }
    bench.groups(&mut tally).context("key groups")?;
    bench.refusals(&mut tally)?;
    for size in TEXTS {
        bench.age(size, &mut tally).with_context(|| format!("age, {size} bytes"))?;
    }
    let Tally { ours, theirs, edited, chosen, refused, age, groups, beyond } = tally;
    ensure!(ours >= 50 && theirs >= 50, "too few files were compared: {ours} and {theirs}");
    Ok(format!(
        "{TITLE}: {ours} of our files read by sops, {theirs} of its read by us, {edited} edited by the other, {chosen} \
         encrypted by the same rule, {refused} tampered files refused by both, {beyond} of its files that it cannot open again opened by us, {groups} opened with \
         parts of a key, {age} age \
         files both ways, {:.1} s",
        begin.elapsed().as_secs_f64()
    ))
}

/// The same files each time, unless `TALMOX_FUZZ_SEED` asks for others.
fn seed() -> anyhow::Result<u64> {
    match std::env::var_os("TALMOX_FUZZ_SEED") {
        Some(text) => text.to_string_lossy().parse().context("TALMOX_FUZZ_SEED is a number"),
        None => Ok(SEED),
    }
}

#[derive(Default)]
struct Tally {
    ours: usize,
    theirs: usize,
    edited: usize,
    chosen: usize,
    refused: usize,
    age: usize,
    groups: usize,
    /// Files of its own that `sops` does not read, and we do.
    beyond: usize,
}

/// The programs and a scratch folder.
struct Bench {
    folder: PathBuf,
    scratch: PathBuf,
    identity: Identity,
    stranger: Identity,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

impl Bench {
    fn new(folder: PathBuf) -> anyhow::Result<Self> {
        let scratch = std::env::temp_dir().join(format!("talmox-sops-{}", std::process::id()));
        fs::create_dir_all(&scratch)?;
        let identity = Identity::generate(&mut SystemRandom)?;
        fs::write(scratch.join("keys.txt"), identity.to_text().expose_secret())?;
        Ok(Self { folder, scratch, identity, stranger: Identity::generate(&mut SystemRandom)? })
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join(name));
        command
            .current_dir(&self.scratch)
            .env_clear()
            .env("HOME", &self.scratch)
            .env("SOPS_AGE_KEY_FILE", self.scratch.join("keys.txt"))
            .env("SOPS_DISABLE_VERSION_CHECK", "true")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Output> {
        self.command(name).args(arguments).output().with_context(|| format!("could not run {name}"))
    }

    fn sops(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run("sops", arguments)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "sops {}: {said}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        fs::write(self.scratch.join(name), text).with_context(|| format!("could not write {name}"))
    }

    #[expect(clippy::disallowed_methods, reason = "what a program wrote, no description")]
    fn read(&self, name: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.scratch.join(name)).with_context(|| format!("no {name}"))
    }

    fn decrypt(&self, text: &str) -> anyhow::Result<String> {
        let file = SopsFile::parse(text)?.decrypt(std::slice::from_ref(&self.identity))?;
        Ok(file.to_yaml().expose_secret().to_owned())
    }

    /// One plain text through everything.
    fn file(&self, number: usize, plain: &str, tally: &mut Tally) -> anyhow::Result<()> {
        let (name, pattern) = RULES[number % RULES.len()];
        let mac_only = number.is_multiple_of(3);
        let config = self.config(name, pattern, mac_only);
        self.write(".sops.yaml", &config)?;
        self.write("plain.sops.yaml", plain)?;
        let theirs = self.sops(&["encrypt", "plain.sops.yaml"])?;
        let rule = CreationRules::parse(&config)?.choose("plain.sops.yaml")?;
        ensure!(
            matches!(&rule, Rule { selection, .. } if named(selection) == name),
            "another rule was chosen"
        );
        let ours = encrypt(plain, &rule, NOW, &mut SystemRandom)?;
        same_choice(&ours, &theirs)?;
        tally.chosen += 1;

        self.write("theirs.yaml", &theirs)?;
        self.write("ours.yaml", &ours)?;
        let expected = match self.sops(&["decrypt", "theirs.yaml"]) {
            Ok(text) if !text.contains(LOST) => text,
            Ok(_) | Err(_) => return self.beyond(&theirs, tally),
        };
        same(&expected, &self.sops(&["decrypt", "ours.yaml"])?).context("sops reads ours")?;
        tally.ours += 1;

        let read = self.decrypt(&theirs).context("we read theirs")?;
        same(&expected, &self.through_sops(&read)?).context("what we read of theirs")?;
        let read = self.decrypt(&ours).context("we read ours")?;
        same(&expected, &self.through_sops(&read)?).context("what we read of ours")?;
        tally.theirs += 1;
        self.edits(&ours, &theirs, tally)
    }

    /// With rules by comments, `sops` writes comments in lists so that it cannot open the file again, and some comments it
    /// cannot open where it put them. We can, and it reads what we write.
    fn beyond(&self, theirs: &str, tally: &mut Tally) -> anyhow::Result<()> {
        let read = self.decrypt(theirs).context("we read theirs, which sops does not")?;
        ensure!(!read.contains(LOST), "a comment of theirs was not opened");
        let read = self.sops(&["decrypt", "ours.yaml"]).context("sops reads ours")?;
        ensure!(!read.contains(LOST), "a comment of ours was not opened by sops");
        tally.beyond += 1;
        Ok(())
    }

    /// What `sops` prints for a plain text once it was encrypted.
    fn through_sops(&self, plain: &str) -> anyhow::Result<String> {
        self.write("again.sops.yaml", plain)?;
        let encrypted = self.sops(&["encrypt", "again.sops.yaml"])?;
        self.write("again.yaml", &encrypted)?;
        self.sops(&["decrypt", "again.yaml"])
    }

    fn config(&self, name: &str, pattern: &str, mac_only: bool) -> String {
        let (us, stranger) = (self.identity.recipient(), self.stranger.recipient());
        format!(
            "creation_rules:\n  - path_regex: ^other/\n    age: {stranger}\n  - path_regex: \\.sops\\.ya?ml$\n    \
             age: >-\n      {us},\n      {stranger}\n    {name}: '{pattern}'\n    mac_only_encrypted: {mac_only}\n"
        )
    }

    /// Each changes a value in the other's file.
    fn edits(&self, ours: &str, theirs: &str, tally: &mut Tally) -> anyhow::Result<()> {
        self.write("ours.yaml", ours)?;
        self.sops(&["set", "ours.yaml", r#"["changed"]"#, r#""by sops""#])?;
        let text = self.read("ours.yaml")?;
        let file = SopsFile::parse(&text)?.decrypt(std::slice::from_ref(&self.identity));
        let value =
            file.context("ours, edited by sops")?.value("changed").context("the value that was set")?;
        ensure!(value.expose_secret() == "by sops", "ours, edited by sops, has another value");
        tally.edited += 1;

        let file = SopsFile::parse(theirs)?.decrypt(std::slice::from_ref(&self.identity))?;
        let plain = format!("by_talmox: true\n{}", file.to_yaml().expose_secret());
        let updated = file.update(&plain, NOW, &mut SystemRandom)?;
        self.write("theirs.yaml", &updated)?;
        let said = self.sops(&["decrypt", "theirs.yaml"]).context("theirs, edited by us")?;
        same(&self.through_sops(&plain)?, &said).context("theirs, edited by us")?;
        tally.edited += 1;
        Ok(())
    }

    /// A data key in parts: all of the groups, or as many as it takes.
    fn groups(&self, tally: &mut Tally) -> anyhow::Result<()> {
        let third = Identity::generate(&mut SystemRandom)?;
        let groups = [&self.identity, &self.stranger, &third]
            .map(|key| format!("      - age: [{}]\n", key.recipient()));
        let config =
            format!("creation_rules:\n  - shamir_threshold: 2\n    key_groups:\n{}", groups.concat());
        self.write(".sops.yaml", &config)?;
        self.write("plain.yaml", "a: one\nb: [2, 3.5]\n")?;
        let theirs = self.sops(&["encrypt", "plain.yaml"])?;
        for keys in [[&self.identity, &self.stranger], [&third, &self.identity]] {
            let keys = keys.map(Clone::clone);
            let file = SopsFile::parse(&theirs)?.decrypt(&keys).context("two of three groups")?;
            ensure!(file.value("a").is_some_and(|value| value.expose_secret() == "one"), "another value");
            ensure!(
                file.update("a: two\n", NOW, &mut SystemRandom).is_err(),
                "several groups are not written"
            );
            tally.groups += 1;
        }
        let one = SopsFile::parse(&theirs)?.decrypt(std::slice::from_ref(&third));
        ensure!(one.is_err(), "one group is not enough");
        ensure!(
            CreationRules::parse(&config)?.choose("plain.yaml").is_err(),
            "several groups are not written"
        );
        Ok(())
    }

    /// Files that were tampered with are refused by both.
    fn refusals(&self, tally: &mut Tally) -> anyhow::Result<()> {
        let plain = "a: one\nb: two\nc_unencrypted: open\n";
        let rule = Rule::for_recipients(vec![self.identity.recipient().clone()]);
        let file = encrypt(plain, &rule, NOW, &mut SystemRandom)?;
        let line = |key: &str| file.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        let value = |key: &str| line(key).split_once(' ').map(|(_, value)| value).unwrap_or_default();
        let tampered = [
            file.replace("c_unencrypted: open", "c_unencrypted: other"),
            file.replace(&format!("{}\n", line("b:")), ""),
            file.replace(value("a:"), value("b:")),
            file.replace(NOW, "2026-11-15T12:00:01Z"),
            file.replace(value("a:"), "plain"),
        ];
        for (number, text) in tampered.iter().enumerate() {
            self.write("tampered.yaml", text)?;
            ensure!(
                !self.run("sops", &["decrypt", "tampered.yaml"])?.status.success(),
                "sops takes {number}"
            );
            ensure!(self.decrypt(text).is_err(), "we take {number}");
            tally.refused += 1;
        }
        Ok(())
    }

    fn age(&self, size: usize, tally: &mut Tally) -> anyhow::Result<()> {
        let plain: Vec<u8> = (0..size).map(|n| (n * 7 % 251).to_le_bytes()[0]).collect();
        fs::write(self.scratch.join("plain"), &plain)?;
        let keys = std::slice::from_ref(&self.identity);
        let recipient = self.identity.recipient().to_string();
        for arguments in [
            &["-r", recipient.as_str(), "-o", "sealed", "plain"][..],
            &["-a", "-r", &recipient, "-o", "sealed", "plain"],
        ] {
            ensure!(self.run("age", arguments)?.status.success(), "age did not encrypt");
            let sealed = read_bytes(&self.scratch.join("sealed"))?;
            ensure!(age::decrypt(&sealed, keys)?.expose_secret() == plain, "we read something else");
            fs::remove_file(self.scratch.join("sealed"))?;
        }
        let recipients = [self.stranger.recipient().clone(), self.identity.recipient().clone()];
        let binary = age::encrypt(&plain, &recipients, &mut SystemRandom)?;
        let armored = age::encrypt_armored(&plain, &recipients, &mut SystemRandom)?;
        for sealed in [binary.as_slice(), armored.as_bytes()] {
            fs::write(self.scratch.join("sealed"), sealed)?;
            let output = self.run("age", &["-d", "-i", "keys.txt", "sealed"])?;
            ensure!(output.status.success() && output.stdout == plain, "age reads something else");
        }
        fs::remove_file(self.scratch.join("sealed"))?;
        tally.age += 4;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "what a program wrote, no description")]
fn read_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("no {}", path.display()))
}

fn named(selection: &Selection) -> &'static str {
    match selection {
        Selection::UnencryptedSuffix(_) => "unencrypted_suffix",
        Selection::EncryptedSuffix(_) => "encrypted_suffix",
        Selection::UnencryptedRegex(_) => "unencrypted_regex",
        Selection::EncryptedRegex(_) => "encrypted_regex",
        Selection::UnencryptedCommentRegex(_) => "unencrypted_comment_regex",
        Selection::EncryptedCommentRegex(_) => "encrypted_comment_regex",
    }
}

/// The same recipients, and the same values encrypted.
fn same_choice(ours: &str, theirs: &str) -> anyhow::Result<()> {
    let recipients = |text: &str| SopsFile::parse(text).map(|file| file.recipients());
    ensure!(recipients(ours)? == recipients(theirs)?, "other recipients");
    same(&encrypted_places(theirs), &encrypted_places(ours)).context("other values are encrypted")
}

/// The lines with encrypted values, without what differs each time. Comments in lists are members to `sops`.
fn encrypted_places(file: &str) -> String {
    let shape = |line: &str| {
        let (before, rest) = line.split_once("ENC[")?;
        let kind = rest.split_once(",type:")?.1.split(']').next()?.to_owned();
        let key = before.trim_start().trim_start_matches("- ").replace(['"', '\''], "");
        (kind != "comment" && !before.contains('#')).then(|| format!("{key}{kind}\n"))
    };
    let metadata = |line: &&str| !line.trim_start().starts_with("mac: ");
    file.lines().filter(metadata).filter_map(shape).collect()
}

fn same(expected: &str, got: &str) -> anyhow::Result<()> {
    if expected == got {
        return Ok(());
    }
    bail!("{}", super::difference(expected, got))
}
