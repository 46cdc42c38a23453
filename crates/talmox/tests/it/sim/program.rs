//! `talmox sim` as a program.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use insta::assert_snapshot;
use serde_json::Value;
use talmox_pve::client::{Endpoint, Trust};

use crate::sim::client_with;
use crate::support::{Scratch, command, run};

/// A running simulator; killed if a test fails before it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(arguments: &[&str]) -> (Self, Value) {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        (Self(child), serde_json::from_str(&line).unwrap())
    }

    /// Ends it as Ctrl-C would; gives what it said.
    fn interrupt(mut self) -> String {
        let status = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
        assert!(self.0.wait().unwrap().success());
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of the simulator's")]
fn read(path: String) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn text(ready: &Value, key: &str) -> String {
    ready[key].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn one_line_is_enough_to_use_it() {
    let (running, ready) = Running::start(&["sim", "-o", "json", "--hosts", "2", "--latency", "0"]);
    let authority = read(text(&ready, "ca_file"));
    let endpoint = Endpoint::parse(&text(&ready, "endpoint")).unwrap();
    let client = client_with(vec![endpoint], &text(&ready, "token"), Trust::Authorities(authority));
    assert_eq!(client.version().await.unwrap().version.as_str(), text(&ready, "version"));
    let nodes = client.nodes().await.unwrap();
    assert_eq!(nodes[0].ssl_fingerprint.unwrap().to_string(), text(&ready, "fingerprint"));
    assert_eq!(ready["hosts"].as_array().unwrap().len(), 2);
    assert_eq!(read(text(&ready, "token_file")), text(&ready, "token"));
    let said = running.interrupt();
    assert!(!std::path::Path::new(&text(&ready, "ca_file")).exists(), "nothing is left behind");
    let shown = said
        .replace(&text(&ready, "ca_file"), "CA_FILE")
        .replace(&text(&ready, "token_file"), "TOKEN_FILE")
        .replace(&text(&ready, "factory"), "FACTORY")
        .replace(&text(&ready, "endpoint"), "ENDPOINT");
    assert!(!shown.contains(&text(&ready, "token")));
    assert_snapshot!(shown);
}

#[test]
fn a_kept_world_has_its_say() {
    let scratch = Scratch::new("sim-kept");
    let folder = scratch.path("lab");
    let (running, first) = Running::start(&["sim", "-o", "json", "--state", &folder, "--seed", "5"]);
    let busy = run(&["sim", "--state", &folder]).failed();
    let holder = running.0.id().to_string();
    assert_snapshot!(busy.stderr.replace(&folder, "FOLDER").replace(&holder, "PID"));
    running.interrupt();
    assert_snapshot!(run(&["sim", "--state", &folder, "--hosts", "3"]).failed().stderr);
    assert_snapshot!(run(&["sim", "--state", &folder, "--seed", "6"]).failed().stderr);
    let (running, second) = Running::start(&["sim", "-o", "json", "--state", &folder, "--hosts", "1"]);
    for key in ["token", "fingerprint", "ca_file"] {
        assert_eq!(first[key], second[key]);
    }
    running.interrupt();
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    assert_snapshot!(run(&["sim", "--version", "8.3"]).failed().stderr);
    let said = run(&["sim", "--hosts", "2", "--version", "pve1=8.4,pve3=9.2"]).failed().stderr;
    assert!(said.contains("--version names a host 'pve3' that is not there"), "{said}");
    assert!(said.contains("there are pve1, pve2; --hosts says how many"), "{said}");
    assert_snapshot!(run(&["sim", "--speed", "NaN"]).failed().stderr);
    assert_snapshot!(run(&["sim", "--hosts", "0"]).failed().stderr);
    let said = run(&["sim", "--storage", "fast=lvmthin:lots"]).failed().stderr;
    assert!(said.contains("'lots' is no size: it is a number with K, M, G or T"), "{said}");
}

#[tokio::test]
async fn versions_and_storages_can_be_chosen() {
    let scratch = Scratch::new("sim-chosen");
    let folder = scratch.path("lab");
    let chosen = ["--version", "8.4", "--storage", "fast=lvmthin:500G", "--storage", "local-zfs=rbd"];
    let start = [&["sim", "-o", "json", "--latency", "0", "--state", &folder][..], &chosen].concat();
    let (running, ready) = Running::start(&start);
    assert_eq!(text(&ready, "version"), "8.4.21");
    running.interrupt();
    let kept = |flags: &[&str]| run(&[&["sim", "--state", &folder][..], flags].concat()).failed().stderr;
    assert!(kept(&["--version", "9.2"]).contains("the world that was kept is Proxmox VE 8.4.21"));
    assert!(kept(&["--storage", "x1=dir"]).contains("the world that was kept has its storages already"));
    let world = read(format!("{folder}/world.json"));
    let world: Value = serde_json::from_str(&world).unwrap();
    let storages = world["world"]["storages"].as_array().unwrap();
    let kinds: Vec<(&str, &str)> =
        storages.iter().map(|one| (one["id"].as_str().unwrap(), one["kind"].as_str().unwrap())).collect();
    assert_eq!(kinds, [("local", "dir"), ("fast", "lvmthin"), ("local-zfs", "rbd")]);
}

#[tokio::test]
async fn hosts_can_be_of_several_versions() {
    let scratch = Scratch::new("sim-mixed");
    let folder = scratch.path("lab");
    let start = ["sim", "-o", "json", "--latency", "0", "--state", &folder];
    let chosen = ["--hosts", "2", "--version", "pve1=8.4,9.0"];
    let (running, ready) = Running::start(&[&start[..], &chosen].concat());
    let version = |at: usize| ready["hosts"][at]["version"].clone();
    assert_eq!(
        (text(&ready, "version"), version(0), version(1)),
        ("8.4.21".into(), "8.4.21".into(), "9.0.11".into())
    );
    running.interrupt();
    let said = run(&["sim", "--state", &folder, "--version", "9.0"]).failed().stderr;
    assert!(said.contains("the world that was kept is Proxmox VE 8.4.21 (pve1), 9.0.11 (pve2)"), "{said}");
    let (running, again) = Running::start(&[&start[..], &["--version", "9.0,pve1=8.4"]].concat());
    assert_eq!(again["hosts"][1]["version"], "9.0.11");
    running.interrupt();
}

#[test]
fn a_port_that_is_taken() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = run(&["sim", "--port", &port]).failed().stderr;
    assert_snapshot!(said.replace(&port, "PORT"));
}

#[test]
fn ports_that_do_not_fit() {
    let said = run(&["sim", "--port", "65535", "--hosts", "2"]).failed().stderr;
    assert!(said.contains("2 hosts need as many ports, and there are not so many from 65535 on"), "{said}");
    assert!(said.contains("--port 0"), "{said}");
}

#[test]
fn behaviours_name_their_source() {
    let list: Vec<Value> =
        serde_json::from_str(&run(&["sim", "behaviours", "-o", "json"]).succeeded().stdout).unwrap();
    assert!(list.iter().any(|entry| entry["id"] == "shell.close-idle" && entry["source"] == "§1"));
    let table = run(&["sim", "behaviours"]).succeeded().stdout;
    assert_eq!(table.lines().count(), list.len() + 1);
}

#[tokio::test]
async fn what_goes_wrong_is_said_in_a_file() {
    let scratch = Scratch::new("fault");
    let file = scratch.path("faults.yaml");
    std::fs::write(&file, "faults:\n- {fault: error, calls: GET /nodes, at: 2, text: got timeout}\n")
        .unwrap();
    let (running, ready) = Running::start(&["sim", "-o", "json", "--latency", "0", "--fault", &file]);
    let authority = read(text(&ready, "ca_file"));
    let endpoint = Endpoint::parse(&text(&ready, "endpoint")).unwrap();
    let client = client_with(vec![endpoint], &text(&ready, "token"), Trust::Authorities(authority));
    client.nodes().await.unwrap();
    assert!(client.nodes().await.unwrap_err().to_string().ends_with("got timeout"));
    client.nodes().await.unwrap();
    running.interrupt();

    std::fs::write(&file, "faults:\n- {fault: slow}\n").unwrap();
    let refused = run(&["sim", "--fault", &file]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("slow needs by") && refused.stderr.contains("Nothing was started."),
        "{}",
        refused.stderr
    );
}
