//! The command line as people meet it: what it prints where, and how it exits.

use std::fs;

use crate::support::{self, Scratch, command, finish, run};
use insta::assert_snapshot;

const FAULTY: &str = "crates/talmox-config/tests/faulty";

#[test]
fn the_help_page() {
    assert_snapshot!(run(&["--help"]).succeeded().stdout);
}

#[test]
fn the_help_of_a_verb() {
    assert_snapshot!(run(&["validate", "--help"]).succeeded().stdout);
}

#[test]
fn no_verb_shows_the_help_page_and_fails() {
    let run = run(&[]).failed();
    assert!(run.stderr.contains("Usage:") && run.stdout.is_empty(), "{}", run.whole());
}

#[test]
fn usage_errors_exit_with_1() {
    assert_snapshot!(run(&["validat"]).failed().whole());
    assert_snapshot!(run(&["validate", "--outptu", "json"]).failed().whole());
    assert_snapshot!(run(&["validate", "-o", "xml"]).failed().whole());
}

#[test]
fn valid_descriptions() {
    for example in ["minimal", "homelab", "datacenter"] {
        let run = run(&["validate", "-f", &format!("examples/{example}")]).succeeded();
        assert_eq!(run.stderr, "", "{example} deserves no remark");
    }
    assert_snapshot!(run(&["validate", "-f", "examples/homelab"]).whole());
}

#[test]
fn mistakes_are_explained_on_stderr() {
    assert_snapshot!(run(&["validate", "-f", &format!("{FAULTY}/duplicate-address.yaml")]).failed().whole());
}

#[test]
fn mistakes_as_json() {
    let run = run(&["validate", "-o", "json", "-f", &format!("{FAULTY}/many-at-once.yaml")]).failed();
    let list: Vec<serde_json::Value> = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(list.len(), 8, "{}", run.stdout);
    for problem in &list {
        let keys: Vec<&str> = problem.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["file", "line", "column", "code", "message", "hint", "severity"]);
        assert!(problem["line"].as_u64().unwrap() > 0);
    }
    assert_snapshot!(serde_json::to_string_pretty(&list[0]).unwrap());
}

#[test]
fn mistakes_as_yaml() {
    let run = run(&["validate", "-o", "yaml", "-f", &format!("{FAULTY}/unknown-key-typo.yaml")]).failed();
    assert_snapshot!(run.stdout);
}

#[test]
fn more_mistakes_than_are_shown_are_counted() {
    let scratch = Scratch::new("many-mistakes");
    let lines: String = (0..300).map(|number| format!("mistake_{number:03}: 1\n")).collect();
    fs::write(scratch.0.join("cluster.yaml"), lines).unwrap();
    let table = run(&["validate", "-f", &scratch.path("")]).failed();
    // And the one that says how many there are.
    assert_eq!(table.stderr.matches("error: ").count(), 101, "{}", table.whole());
    assert!(table.stderr.contains(" more problems are not shown\n"), "{}", table.whole());
    let json = run(&["validate", "-o", "json", "-f", &scratch.path("")]).failed();
    let list: Vec<serde_json::Value> = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(list.len(), 101);
    assert!(list[..100].iter().all(|entry| entry["severity"] == "error" && entry.get("more").is_none()));
    let (rest, more) = (&list[100], list[100]["more"].as_u64().unwrap());
    assert_eq!((&rest["code"], &rest["severity"]), (&"more-problems".into(), &"error".into()), "{rest}");
    assert_eq!(rest["message"], format!("{more} more problems are not shown"));
    assert!(more >= 200, "{more}");
}

#[test]
fn a_valid_description_as_json_is_an_empty_list() {
    let run = run(&["validate", "-o", "json", "-f", "examples/homelab"]).succeeded();
    assert_eq!(run.stdout, "[]\n");
}

#[test]
fn quiet_and_verbose() {
    let warned = format!("{FAULTY}/alias-twice.yaml");
    assert!(run(&["validate", "-f", &warned]).succeeded().stderr.contains("warning"));
    assert_eq!(run(&["validate", "-q", "-f", &warned]).succeeded().stderr, "");
    let noted = format!("{FAULTY}/not-ours.yaml");
    assert_eq!(run(&["validate", "-f", &noted]).succeeded().stderr, "");
    assert!(run(&["validate", "-v", "-f", &noted]).succeeded().stderr.contains("cloudflare_domain"));
    assert!(run(&["validate", "-q", "-v", "-f", &noted]).failed().stderr.contains("cannot be used with"));
}

#[test]
fn colour_only_where_it_is_wanted() {
    let faulty = format!("{FAULTY}/unknown-key-typo.yaml");
    assert!(!run(&["validate", "-f", &faulty]).stderr.contains('\u{1b}'), "not a terminal");
    assert!(run(&["validate", "--color", "always", "-f", &faulty]).stderr.contains('\u{1b}'));
    let no_color =
        finish(command(&["validate", "-f", &faulty]).env("NO_COLOR", "1").env("CLICOLOR_FORCE", ""));
    assert!(!no_color.stderr.contains('\u{1b}'));
}

#[test]
fn flags_have_variables() {
    let run =
        finish(command(&["validate"]).env("TALMOX_FILE", "examples/minimal").env("TALMOX_OUTPUT", "json"));
    assert_eq!(run.succeeded().stdout, "[]\n");
}

#[test]
fn variables_of_switches_take_the_usual_words() {
    let warned = format!("{FAULTY}/alias-twice.yaml");
    for (value, quiet) in
        [("1", true), ("true", true), ("yes", true), ("0", false), ("false", false), ("", false)]
    {
        let run = finish(command(&["validate", "-f", &warned]).env("TALMOX_QUIET", value)).succeeded();
        assert_eq!(run.stderr.is_empty(), quiet, "TALMOX_QUIET={value}");
    }
}

#[test]
fn what_is_derived_is_explained_as_it_is_rendered() {
    let explained =
        |subject: &str| run(&["explain", "-f", "examples/datacenter", subject]).succeeded().stdout;
    assert!(explained("cp-1.tpm").starts_with("true\n"));
    assert!(explained("cp-1.boot").starts_with("template\n"));
    assert!(explained("cp-1.template").starts_with("{name: talos-1.13.9, tags: [secureboot]}\n"));
    assert!(
        explained("cp-1.placement")
            .starts_with("{reserve_memory: 16384, cpu_overcommit: 2, storage_overcommit: 1}")
    );
    assert!(explained("cp-1.etcd_subnets").starts_with("10.20.0.0/22, fd20:0:0:1::/64\n"));
    assert!(explained("worker-1.address").contains("next free one"));
    assert!(explained("cp-1.patches").contains("cluster.yaml"));
    assert!(
        run(&["explain", "-f", "examples/datacenter", "cp-1.nodes"])
            .failed()
            .stderr
            .contains("no field nodes")
    );
}

#[test]
fn secure_boot_without_a_template_boots_from_the_iso() {
    let scratch = Scratch::new("secure-boot");
    let text = "cluster_uid: \"0123456789abcdef\"\ntalos_version: 1.13.9\nsecure_boot: true\n\
                nodes: [{name: cp-1, address: 10.0.7.11, controller: true}]\n";
    fs::write(scratch.path("cluster.yaml"), text).unwrap();
    let file = scratch.path("cluster.yaml");
    let explained = run(&["explain", "-f", &file, "cp-1.boot"]).succeeded().stdout;
    assert!(explained.starts_with("iso\n"), "{explained}");
}

#[test]
fn a_pipe_is_refused_instead_of_waited_for() {
    let scratch = Scratch::new("pipe");
    let made = std::process::Command::new("mkfifo").arg(scratch.path("p.yaml")).status().unwrap();
    assert!(made.success());
    let run = run(&["validate", "-f", &scratch.path("p.yaml")]).failed();
    assert!(run.stderr.contains("not a regular file"), "{}", run.stderr);
}

#[test]
fn a_full_disk_is_named() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&["schema"]).stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("could not write to the standard output") && stderr.contains("because:"),
        "{stderr}"
    );
}

#[test]
fn the_current_folder_is_the_default() {
    let run = finish(command(&["validate"]).current_dir(support::root().join("examples/homelab")));
    assert!(run.succeeded().stdout.contains("homelab"));
    let nothing = Scratch::new("empty");
    let run = finish(command(&["validate"]).current_dir(&nothing.0)).failed();
    assert_snapshot!(run.whole());
}

#[test]
fn a_file_brings_the_nodes_beside_it_unless_it_has_its_own() {
    let run = support::run(&["validate", "-f", "examples/homelab/cluster.yaml"]).succeeded();
    assert!(run.stdout.contains("3 control planes, 3 workers"), "{}", run.stdout);
    let scratch = Scratch::new("beside");
    let minimal = support::root().join("examples/minimal/cluster.yaml");
    fs::copy(minimal, scratch.0.join("one.yaml")).unwrap();
    fs::write(scratch.0.join("nodes.yaml"), "nodes: [{name: other, address: 10.0.0.1}]\n").unwrap();
    let run = support::run(&["validate", "-f", &scratch.path("one.yaml")]).succeeded();
    assert!(run.stdout.contains("1 control plane, 0 workers"), "{}", run.stdout);
}

#[test]
fn explain_one_field() {
    assert_snapshot!(run(&["explain", "-f", "examples/homelab", "worker-2.memory"]).succeeded().stdout);
    assert_snapshot!(
        run(&["explain", "-f", "examples/homelab", "worker-2.cluster_endpoint"]).succeeded().stdout
    );
    assert_snapshot!(
        run(&["explain", "-f", "examples/datacenter", "cp-1.proxmox_storage"]).succeeded().stdout
    );
    assert_snapshot!(run(&["explain", "-f", "examples/homelab", "cp-1.mtu"]).succeeded().stdout);
}

#[test]
fn explain_a_whole_node() {
    assert_snapshot!(run(&["explain", "-f", "examples/minimal", "talos"]).succeeded().stdout);
}

#[test]
fn explain_as_json() {
    assert_snapshot!(
        run(&["explain", "-o", "json", "-f", "examples/homelab", "worker-2.cores"]).succeeded().stdout
    );
}

#[test]
fn explain_names_what_was_probably_meant() {
    assert_snapshot!(run(&["explain", "-f", "examples/homelab", "worker-2.memroy"]).failed().whole());
    assert_snapshot!(run(&["explain", "-f", "examples/homelab", "worker2"]).failed().whole());
    assert_snapshot!(run(&["explain", "-f", "examples/homelab", "zebra"]).failed().whole());
}

#[test]
fn completion_scripts_know_every_verb() {
    for (shell, check) in [("bash", true), ("zsh", false), ("fish", false)] {
        let script = run(&["completion", shell]).succeeded().stdout;
        for verb in [
            "init",
            "validate",
            "plan",
            "apply",
            "status",
            "destroy",
            "explain",
            "render",
            "output",
            "sim",
            "schema",
            "completion",
            "man",
            "version",
        ] {
            assert!(script.contains(verb), "{shell} knows no {verb}");
        }
        if check {
            let scratch = Scratch::new("completion");
            fs::write(scratch.0.join("script"), &script).unwrap();
            let status =
                std::process::Command::new("bash").args(["-n", &scratch.path("script")]).status().unwrap();
            assert!(status.success());
        }
    }
}

#[test]
fn manual_pages() {
    let page = run(&["man"]).succeeded().stdout;
    assert!(page.contains(".TH talmox 1") && page.contains("talmox\\-validate(1)"), "{page}");
    let scratch = Scratch::new("man");
    run(&["man", "--to", &scratch.path("pages")]).succeeded();
    let mut pages: Vec<String> = fs::read_dir(scratch.0.join("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    pages.sort();
    assert_eq!(pages.len(), 56, "{pages:?}");
    assert!(pages.contains(&"talmox-render-vm.1".to_owned()));
}

#[test]
fn version() {
    assert_snapshot!(run(&["version"]).succeeded().stdout);
    let run = run(&["version", "-o", "json"]).succeeded();
    let known: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(known["talos"][5]["kubernetes_to"], "1.36");
}

#[test]
fn a_reader_that_had_enough_is_no_error() {
    let mut child = command(&["schema"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
