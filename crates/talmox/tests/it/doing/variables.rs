//! What variables stand for is shown nowhere: a canary in every kind of place, every verb that reads patches, every format.

#![expect(clippy::disallowed_methods, reason = "files the program had written")]

use std::process::Command;

use secrecy::ExposeSecret as _;
use talmox_secrets::SystemRandom;
use talmox_secrets::age::Identity;

use crate::doing::{CLUSTER, Lab, Run};
use crate::support::finish;

const ALONE: &str = "nodes: [{name: cp-1, address: 10.0.7.11, controller: true}]\n";

/// Words that stand nowhere else, by the source they come from.
const FLAG: &str = "qzvFlag8Jt2";
const PREFIXED: &str = "qzvPref1Xk7";
const KEPT: &str = "qzvKept4Mw9";
const OWN: &str = "qzvOwn26Rb5";
const OUTSIDE: &str = "qzvOut93Hd6";
const PART: &str = "qzvPart5Lc3";
const LINE: &str = "qzvLine7Ns8";
const PIN: &str = "904713862";
const ELSEWHERE: &str = "qzvElse2Gp4";

const CANARIES: [&str; 9] = [FLAG, PREFIXED, KEPT, OWN, OUTSIDE, PART, LINE, PIN, ELSEWHERE];

/// As many letters of a canary as may be shown.
const WINDOW: usize = 7;

/// Patches with variables in every place a configuration can have them.
const TAKEN: &str = "\
machine:
  sysctls:
    value: \"${FLAG}\"
    \"${PREFIXED}\": \"1\"
    number: ${PIN}
  kubelet:
    extraArgs: {part: \"before-${KEPT}-behind\"}
    extraConfig: {\"${KEPT}\": {inside: [\"${OWN}\"]}}
  certSANs: [\"${OWN}.lan\"]
  files: [{path: \"/var/etc/${FLAG}\", content: \"${JSON} ${LINES}\", op: create, permissions: 0o600}]
---
apiVersion: v1alpha1
kind: RegistryAuthConfig
name: ${KEPT}.lan
username: ${PREFIXED}
password: ${OWN}
";

/// Patches that are refused, with what is wrong.
const REFUSED: [(&str, &str); 14] = [
    ("an unknown field", "machine: {\"${FLAG}\": 1}\n"),
    ("an unknown field of an item", "machine: {files: [{path: /x, \"${KEPT}\": 1}]}\n"),
    ("a kind", "apiVersion: v1alpha1\nkind: ${PREFIXED}\n"),
    ("a version", "apiVersion: ${PREFIXED}\nkind: HostnameConfig\n"),
    ("a scalar for a mapping", "machine: {sysctls: ${JSON}}\n"),
    ("lines for a mapping", "machine: {sysctls: ${LINES}}\n"),
    ("a label", "machine: {nodeLabels: {\"${KEPT} x\": \"1\"}}\n"),
    ("a place of a JSON patch", "- {op: add, path: \"/machine/${FLAG}/x\", value: \"${KEPT}\"}\n"),
    ("an operation of a JSON patch", "- {op: \"${FLAG}\", path: /machine}\n"),
    (
        "an expression",
        "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\nprovisioning:\n  minSize: 1GB\n  diskSelector: {match: \"${OWN}\"}\n",
    ),
    (
        "a document that is not there",
        "apiVersion: v1alpha1\nkind: RegistryAuthConfig\nname: ${KEPT}\n$patch: delete\n",
    ),
    ("two keys that become the same", "machine: {sysctls: {\"${FLAG}\": 1, \"${SAME}\": 2}}\n"),
    ("a variable that was not let through", "machine: {env: {A: \"${OUTSIDE}\"}}\n"),
    ("a key that was not let through", "machine: {\"${SOPS_AGE_KEY}\": 1}\n"),
];

/// Every verb that reads patches, in each of its formats.
const VERBS: [&[&str]; 20] = [
    &["validate"],
    &["validate", "-v"],
    &["validate", "-o", "json"],
    &["validate", "-o", "yaml"],
    &["plan", "--allow-reboot"],
    &["plan", "--allow-reboot", "-v"],
    &["plan", "--allow-reboot", "-o", "json"],
    &["plan", "--allow-reboot", "-o", "yaml"],
    &["plan", "--allow-reboot", "-o", "markdown"],
    &["status"],
    &["status", "-o", "json"],
    &["diff", "cp-1"],
    &["diff", "cp-1", "-o", "json"],
    &["diff", "cp-1", "-o", "yaml"],
    &["render", "config", "cp-1", "--redact"],
    &["render", "config", "cp-1", "--redact", "-o", "json"],
    &["explain", "cp-1"],
    &["explain", "cp-1.patches", "-o", "json"],
    &["apply", "--auto-approve", "--allow-reboot", "--until", "vms"],
    &["apply", "--auto-approve", "--log-format", "json"],
];

/// Base64 of a text, without what fills it up.
fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> = text.bytes().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let letter = |six: &[u8]| {
        let value = (0..6).fold(0, |value, bit| value << 1 | usize::from(six.get(bit).copied().unwrap_or(0)));
        char::from(LETTERS[value])
    };
    bits.chunks(6).map(letter).collect()
}

struct Field {
    lab: Lab,
    key: String,
    /// What was looked at, and how often something was found.
    looked: usize,
}

impl Field {
    fn new(name: &str) -> Self {
        let lab = Lab::new(name);
        let key = Identity::generate(&mut SystemRandom).unwrap();
        let text = key.to_text().expose_secret().to_owned();
        let line = text.lines().find(|line| line.starts_with("AGE-SECRET-KEY")).unwrap().to_owned();
        std::fs::write(lab.scratch.path("recipient"), key.recipient().to_string()).unwrap();
        let field = Self { lab, key: line, looked: 0 };
        field.describe("");
        field
    }

    /// With a cluster that is as described.
    fn running(name: &str) -> Self {
        let mut field = Self::new(name);
        field.run(&["apply", "--auto-approve"]).succeeded();
        field
    }

    fn describe(&self, more: &str) {
        let cluster = CLUSTER.replace("talos_template: talos-1.13.9\n", "talos_version: 1.13.9\n");
        self.lab.describe(&format!("{cluster}{more}"), ALONE);
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.lab.scratch.0.join(name), text).unwrap();
    }

    fn patch(&self, text: &str) {
        self.write("patch.yaml", text);
        self.describe("patches: [patch.yaml]\n");
    }

    /// The variables as they are given: by flags, in the environment and in the file.
    fn command(&self, words: &[&str]) -> Command {
        let json = format!("JSON={{\"private_key\": \"{PART}\", \"list\": [\"{PART}\"]}}");
        let flag = format!("FLAG={FLAG}");
        let mut all = words.to_vec();
        let takes = |verb: &&str| ["validate", "plan", "apply", "status", "diff", "render"].contains(verb);
        if words.first().is_some_and(takes) || words.contains(&"rotate-ca") {
            all.extend(["--variable", &flag, "--variable", &json, "--variable", "OWN"]);
        }
        // A plan file says itself what it was made with.
        let of_a_file = words.get(1).is_some_and(|word| !word.starts_with('-'));
        if ["plan", "apply"].contains(&words[0]) && !of_a_file {
            all.push("--no-snapshot");
        }
        let folder = self.lab.scratch.path("");
        // What is looked at without Proxmox has no flag for a simulated one.
        let mut command = if words[0] == "validate" {
            all.extend(["-f", folder.as_str()]);
            crate::support::command(&all)
        } else {
            self.lab.command(&all)
        };
        command.env_remove("TALMOX_UNTIL").env("HOME", self.lab.scratch.path("home"));
        command.env("TALMOX_VAR_PREFIXED", PREFIXED).env("TALMOX_VAR_SAME", FLAG).env("TALMOX_VAR_PIN", PIN);
        // What the person allows is read, and shows nothing all the same.
        let outside = self.lab.scratch.0.parent().unwrap().canonicalize().unwrap();
        command
            .env("TALMOX_TRUST", format!("- folder: {:?}\n  access: read\n", outside.display().to_string()));
        // Faster, a machine's moments pass between two looks at it.
        command.env("TALMOX_SPEED", "20");
        command.env("OWN", OWN).env("OUTSIDE", OUTSIDE).env("SOPS_AGE_KEY", &self.key);
        command
    }

    fn run(&mut self, words: &[&str]) -> Run {
        let run = finish(&mut self.command(words));
        let whole = format!("{}{}", run.stdout, run.stderr);
        self.look(&whole, &format!("{words:?}"));
        run
    }

    /// No canary, and no seven letters of one in a row, as it is or in base64.
    fn look(&mut self, shown: &str, what: &str) {
        for canary in CANARIES.into_iter().chain([self.key.clone().as_str()]) {
            let encoded = base64(canary);
            // What is common to all of them says nothing.
            let own = canary.strip_prefix("AGE-SECRET-KEY-1").unwrap_or(canary);
            let windows = own.as_bytes().windows(WINDOW).map(|part| std::str::from_utf8(part).unwrap());
            for part in windows.chain([&encoded[..10]]) {
                assert!(!shown.contains(part), "{what} shows {part} of {canary}\n{shown}");
            }
            self.looked += 1;
        }
    }

    /// Every verb; those that are refused must be for what is wrong with the patch.
    fn every_verb(&mut self, refused: Option<&str>) {
        for words in VERBS {
            // What is accepted is sent later, once all others have looked.
            if refused.is_none() && words[0] == "apply" {
                continue;
            }
            let run = self.run(words);
            let whole = format!("{}{}", run.stdout, run.stderr);
            match refused {
                Some(what) if ["plan", "render", "apply"].contains(&words[0]) && !words.contains(&"vms") => {
                    assert!(run.code != 0 && whole.contains("patch.yaml"), "{what}: {words:?}\n{whole}");
                }
                Some(_) => {}
                None => assert_eq!(run.code, 0, "{words:?}\n{whole}"),
            }
        }
    }
}

#[test]
fn no_verb_shows_what_a_variable_stands_for() {
    let mut field = Field::running("variables");
    let file = format!("KEPT: {KEPT}\nLINES: |\n  first\n  user: {LINE}\n");
    field.write("talenv.yaml", &file);
    for (what, patch) in REFUSED {
        field.patch(patch);
        field.every_verb(Some(what));
    }
    // A file that is no patch, outside of the folder; a link to one inside.
    let outside = format!("{}-outside.yaml", field.lab.scratch.0.display());
    std::fs::write(&outside, format!("{ELSEWHERE}: 1\nother: {{\"{ELSEWHERE}\": [{ELSEWHERE}]}}\n")).unwrap();
    std::os::unix::fs::symlink(&outside, field.lab.scratch.path("link.yaml")).unwrap();
    for named in [outside.as_str(), "link.yaml"] {
        field.describe(&format!("patches: [{named}]\n"));
        let refused = field.run(&["validate"]).failed();
        assert!(refused.stderr.contains("outside of the description's folder"), "{}", refused.stderr);
        for words in VERBS {
            field.run(words);
        }
    }
    std::fs::remove_file(&outside).unwrap();

    field.patch(TAKEN);
    field.every_verb(None);
    let kept = field.lab.scratch.path("kept.plan");
    field.run(&["plan", "--allow-reboot", "--out", &kept]).succeeded();
    field.look(&std::fs::read_to_string(&kept).unwrap(), "the kept plan");
    let diff = field.run(&["diff", "cp-1"]).succeeded();
    assert!(
        diff.stdout.contains("    + '****** ") && diff.stdout.contains("RegistryAuthConfig ******"),
        "{}",
        diff.stdout
    );
    let redacted = field.run(&["render", "config", "cp-1", "--redact"]).succeeded().stdout;
    assert!(redacted.contains("'******': \"1\"") || redacted.contains("'******': '******'"), "{redacted}");

    // The same from an encrypted file.
    let recipient = std::fs::read_to_string(field.lab.scratch.path("recipient")).unwrap();
    let plain = field.lab.scratch.path("talenv.yaml");
    let encrypt = ["secrets", "encrypt", &plain, "--age", &recipient];
    finish(&mut crate::support::command(&encrypt)).succeeded();
    std::fs::remove_file(&plain).unwrap();
    field.every_verb(None);

    // What machines have then, while it is kept.
    field.run(&["apply", "--auto-approve", "--allow-reboot"]).succeeded();
    field.describe("");
    field.every_verb(None);
    let gone = field.run(&["diff", "cp-1"]).succeeded();
    assert!(gone.stdout.contains("    - '****** "), "{}", gone.stdout);
    field.run(&["secrets", "rotate-ca"]).succeeded();
    field.patch(TAKEN);
    field.run(&["plan", "--allow-reboot"]);
    println!("{} looks for a canary, none found", field.looked);
}

#[test]
fn a_description_that_relied_on_the_environment_is_told_once_what_it_needs() {
    let field = Field::new("relied");
    field.patch("machine:\n  env: {A: \"${ALPHA}\", B: \"${BETA}\"}\n  sysctls:\n    c: ${ALPHA}\n");
    let relied = |more: &[&str]| {
        let mut command =
            field.lab.command(&[&["plan", "--until", "healthy", "--no-snapshot"], more].concat());
        finish(command.env("ALPHA", "one-value").env("BETA", "two-value"))
    };
    let refused = relied(&[]).failed();
    for part in [
        "2 variables have no value",
        "ALPHA (",
        "BETA (",
        "talenv.yaml",
        "  ALPHA: …\n",
        "  BETA: …\n",
        "--variable ALPHA",
        "TALMOX_VAR_ALPHA",
        "1 problem",
    ] {
        assert!(refused.stderr.contains(part), "{part}\n{}", refused.stderr);
    }
    assert!(!refused.stderr.contains("one-value"), "{}", refused.stderr);
    let planned = relied(&["--variable", "ALPHA", "--variable", "BETA"]).succeeded();
    assert!(planned.stdout.contains("Plan:"), "{}", planned.stdout);
    // What is to be typed next names variables and no values.
    let kept = field.lab.scratch.path("kept.plan");
    let out = relied(&["--variable", "ALPHA", "--variable", "BETA=two-value", "--out", &kept]).succeeded();
    assert!(out.stderr.contains("--variable ALPHA --variable BETA=<value>"), "{}", out.stderr);
    assert!(!out.stderr.contains("two-value"), "{}", out.stderr);
}

#[test]
fn a_wrong_flag_is_told_without_its_value() {
    let field = Field::new("flags");
    for words in [
        &["--variable", "my-token=hush-hush"][..],
        &["--variable", "A=hush-hush", "--variable", "A=hush-hush"],
    ] {
        for verb in [&["plan"][..], &["render", "config", "cp-1"]] {
            let refused = field.lab.run(&[verb, words].concat()).failed();
            assert!(refused.stderr.contains("--variable"), "{}", refused.stderr);
            assert!(!refused.stderr.contains("hush-hush"), "{}", refused.stderr);
        }
    }
}
