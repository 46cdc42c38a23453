//! `talmox convert talhelper`, as a person uses it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Scratch, command, finish, run};

const TALCONFIG: &str = "\
clusterName: ${NAME}
talosVersion: v1.13.0
kubernetesVersion: v1.35.0
endpoint: https://10.0.7.11:6443
patches: [\"@own.yaml\"]
nodes:
  - hostname: cp-1
    ipAddress: 10.0.7.11
    controlPlane: true
    ignoreHostname: true
    certSANs: [cp.example]
";

#[expect(clippy::disallowed_methods, reason = "what the program wrote")]
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn talconfig(scratch: &Scratch) -> String {
    let file = scratch.path("talconfig.yaml");
    std::fs::write(&file, TALCONFIG).unwrap();
    std::fs::write(scratch.path("own.yaml"), "machine:\n  env: {A: \"${A}\"}\n").unwrap();
    std::fs::write(scratch.path("talsecret.sops.yaml"), "sops: {}\n").unwrap();
    file
}

#[test]
fn files_are_written_once_and_replaced_only_when_asked() {
    let scratch = Scratch::new("convert");
    let (file, to) = (talconfig(&scratch), scratch.path("lab"));
    let convert = |more: &[&str]| {
        let arguments = [&["convert", "talhelper", &file, "--to", &to], more].concat();
        finish(command(&arguments).env("TALMOX_VAR_NAME", "lab"))
    };
    let first = convert(&[]).succeeded();
    for part in ["clusterName", "honoured", "ignoreHostname", "unsupported", "certSANs", "translated"] {
        assert!(first.stdout.contains(part), "{part}\n{}", first.stdout);
    }
    assert!(first.stderr.contains("1 unsupported") && first.stderr.contains("next:"), "{}", first.stderr);
    let cluster = read(&format!("{to}/cluster.yaml"));
    assert!(cluster.contains("cluster_name: lab\n") && cluster.contains("talsecret.sops.yaml"), "{cluster}");
    assert_eq!(read(&format!("{to}/patches/own.yaml")), "machine:\n  env: {A: \"${A}\"}\n");
    run(&["validate", "-f", &to]).succeeded();

    let refused = convert(&[]).failed();
    assert!(
        refused.stderr.contains("is there already") && refused.stderr.contains("--force"),
        "{}",
        refused.stderr
    );
    assert_eq!(read(&format!("{to}/cluster.yaml")), cluster);
    // Its VMs are known by it: who replaces the files does not make another cluster.
    convert(&["--force"]).succeeded();
    assert_eq!(read(&format!("{to}/cluster.yaml")), cluster);
}

#[test]
fn without_a_folder_it_only_reports() {
    let scratch = Scratch::new("convert-report");
    let file = talconfig(&scratch);
    let run = run(&["convert", "talhelper", &file, "-o", "json", "--variable", "NAME=lab"]).succeeded();
    let data: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let field = |path: &str| {
        let fields = data["fields"].as_array().unwrap();
        fields.iter().find(|field| field["path"] == path).unwrap()["verdict"].clone()
    };
    assert_eq!(field("clusterName"), "honoured");
    assert_eq!(field("nodes[cp-1].ignoreHostname"), "unsupported");
    assert!(run.stderr.contains("nothing was written"), "{}", run.stderr);
    let names: Vec<_> =
        std::fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn a_variable_that_is_not_set_is_named() {
    let scratch = Scratch::new("convert-variable");
    let (file, to) = (talconfig(&scratch), scratch.path("lab"));
    let failed = run(&["convert", "talhelper", &file, "--to", &to]).failed();
    assert!(failed.stderr.contains("the variable NAME is not set"), "{}", failed.stderr);
    assert!(!std::path::Path::new(&to).exists());
}

#[test]
fn variables_of_patches_get_lines_in_talenv_and_none_is_overwritten() {
    let scratch = Scratch::new("convert-talenv");
    let (file, to) = (talconfig(&scratch), scratch.path("lab"));
    let patch = "machine:\n  env: {A: \"${A}\", B: \"${B}\", C: \"${C:-c}\"}\n";
    std::fs::write(scratch.path("own.yaml"), patch).unwrap();
    std::fs::write(scratch.path("talenv.yaml"), "NAME: lab\n# mine\nA: swordfish").unwrap();
    let convert = || run(&["convert", "talhelper", &file, "--to", &to, "--force"]).succeeded();
    let first = convert();
    let whole = format!("{}{}", first.stdout, first.stderr);
    assert!(whole.contains("variables that need a value") && whole.contains(": B\n"), "{whole}");
    assert!(!whole.contains("swordfish"), "{whole}");
    let talenv = format!("{to}/talenv.yaml");
    assert_eq!(read(&talenv), "NAME: lab\n# mine\nA: swordfish\nB:\n");
    // A line to be filled in gives no value, and hides none of another source.
    let missing = run(&["validate", "-f", &to]);
    assert!(missing.stderr.contains("the variable B is not set"), "{}", missing.stderr);
    let given = run(&["validate", "-f", &to, "--variable", "B=x"]).succeeded();
    assert!(!given.stderr.contains("variable"), "{}", given.stderr);
    std::fs::write(&talenv, "A: other\nB: filled\n").unwrap();
    convert();
    assert_eq!(read(&talenv), "A: other\nB: filled\n");
    // A new file where there was none.
    std::fs::remove_file(&talenv).unwrap();
    std::fs::remove_file(scratch.path("talenv.yaml")).unwrap();
    run(&["convert", "talhelper", &file, "--to", &to, "--force", "--variable", "NAME=lab"]).succeeded();
    assert!(read(&talenv).starts_with("# ") && read(&talenv).ends_with("\nA:\nB:\n"), "{}", read(&talenv));
}

#[test]
fn a_talconfig_does_not_see_the_environment() {
    let scratch = Scratch::new("convert-environment");
    let (file, to) = (talconfig(&scratch), scratch.path("lab"));
    let failed =
        finish(command(&["convert", "talhelper", &file, "--to", &to]).env("NAME", "hush-hush")).failed();
    assert!(failed.stderr.contains("the variable NAME is not set"), "{}", failed.stderr);
    assert!(!failed.stderr.contains("hush-hush"), "{}", failed.stderr);
}
