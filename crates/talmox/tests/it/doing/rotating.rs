//! Rotations that stop half-way: whoever reaches the cluster goes on doing so.

#![expect(clippy::disallowed_methods, reason = "files the test itself had written")]

use secrecy::ExposeSecret as _;
use talmox_machine::client::{ClientFile, Kubeconfig, Talosconfig};
use talmox_machine::{Bundle, Source, SystemRandom, Time};
use talmox_types::Contract;

use crate::doing::{Lab, Run};
use crate::support::{command, finish};

const NODES: &str =
    "nodes:\n- {name: cp-1, address: 10.0.7.11, controller: true}\n- {name: worker-1, address: 10.0.7.12}\n";

fn run(lab: &Lab, arguments: &[&str]) -> Run {
    lab.run_without_snapshots(arguments)
}

fn opened<C: ClientFile>(path: &str) -> C {
    let text = std::fs::read_to_string(path).unwrap();
    C::parse(Source { name: path, text: &text }).unwrap()
}

/// Machines let in whoever has the talosconfig that was written, and are believed by them.
fn reaches(lab: &Lab) {
    let (talosconfig, folder) = (lab.scratch.path("world/talosconfig"), lab.scratch.path("looked-at"));
    let world = format!("--simulate={}", lab.scratch.path("world"));
    let words = [
        "adopt",
        "cluster",
        "--talosconfig",
        &talosconfig,
        "--context",
        "lab",
        &world,
        "-f",
        &folder,
        "--dry-run",
    ];
    let looked = finish(command(&words).env_remove("TALMOX_UNTIL")).whole();
    assert!(looked.contains("worker-1") && !looked.contains("could not be read"), "{looked}");
}

#[test]
fn the_way_in_stays_open_in_every_phase() {
    let lab = Lab::new("rotating");
    lab.describe(crate::doing::CLUSTER, NODES);
    run(&lab, &["apply", "--auto-approve"]).succeeded();
    run(&lab, &["secrets", "rotate-ca", "--talos"]).succeeded();
    // Somebody works with another cluster meanwhile.
    let path = lab.scratch.path("world/talosconfig");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("context: lab", "context: other", 1)).unwrap();
    // Twice the worker does not take what the second phase of the run has for it.
    let file = lab.scratch.path("faults.yaml");
    let fault = "{fault: error, code: Unavailable, calls: '*/ApplyConfiguration', address: 10.0.7.12, at: 2, times: all}";
    std::fs::write(&file, format!("node_calls:\n- {fault}\n")).unwrap();
    for phase in ["sign with the new one", "know the new one only"] {
        let stopped = run(&lab, &["apply", "--auto-approve", "--fault", &file]).failed().stderr;
        // What the machine said comes first, not what it has therefore.
        assert!(stopped.contains("error: could not change the configuration of worker-1\n"), "{stopped}");
        assert!(stopped.contains("Unavailable"), "{stopped}");
        assert!(!stopped.contains("made it the current one"), "{stopped}");
        let status = run(&lab, &["status"]).succeeded().stdout;
        assert!(status.contains(&format!("1 of 2 machines {phase}")), "{status}");
        let written: Talosconfig = opened(&path);
        assert_eq!((written.trusts("lab").len(), written.current()), (2, Some("other")));
        reaches(&lab);
    }
    let made = run(&lab, &["talosconfig"]).succeeded();
    assert!(
        made.stderr.contains("its certificate is of the new one (all machines let it in)"),
        "{}",
        made.stderr
    );
    let rendered = run(&lab, &["render", "config", "cp-1", "--redact"]).succeeded();
    let under_way =
        "the authority of Talos is being replaced: this is what is described before its first phase";
    assert!(rendered.stderr.contains(under_way), "{}", rendered.stderr);
    run(&lab, &["apply", "--auto-approve"]).succeeded();
    let written: Talosconfig = opened(&path);
    assert_eq!((written.trusts("lab").len(), written.contexts()), (1, vec!["lab"]));
    reaches(&lab);
}

fn json(run: &Run) -> serde_json::Value {
    serde_json::from_str(&run.stdout).unwrap()
}

/// Until the first phase is through, machines take the certificate of the old authority only, whatever they are asked first.
#[test]
fn machines_are_asked_and_restored_before_anybody_knows_the_new_authority() {
    let lab = Lab::new("rotating-begun");
    lab.describe(crate::doing::CLUSTER, NODES);
    run(&lab, &["apply", "--auto-approve"]).succeeded();
    let begun = json(&run(&lab, &["secrets", "rotate-ca", "--talos", "-o", "json"]).succeeded());
    assert_eq!(begun["begun"][0]["authority"], "talos", "{begun}");
    let members = run(&lab, &["etcd", "members"]).succeeded();
    assert!(members.stdout.contains("cp-1"), "{}", members.whole());
    run(&lab, &["etcd", "status"]).succeeded();
    run(&lab, &["health"]).succeeded();
    let file = lab.scratch.path("begun.snapshot");
    let taken = json(&run(&lab, &["etcd", "snapshot", &file, "-o", "json"]).succeeded());
    assert_eq!(
        (&taken["node"], &taken["file"], &taken["encrypted"]),
        (&"cp-1".into(), &file.as_str().into(), &false.into()),
        "{taken}"
    );
    let whole = json(&finish(&mut command(&["etcd", "restore", &file, "-o", "json"])).succeeded());
    assert_eq!((&whole["bytes"], &whole["file"]), (&taken["bytes"], &taken["file"]), "{whole}");
    assert_eq!(whole["sha256"].as_str().unwrap().len(), 64);
    run(&lab, &["destroy", "--auto-approve"]).succeeded();
    let restored = run(&lab, &["apply", "--auto-approve", "--restore", &file]).succeeded();
    assert!(restored.stderr.contains("lab: healthy, 2 nodes as described"), "{}", restored.whole());
}

#[test]
fn who_asks_nobody_is_told_which_certificate_it_is() {
    let lab = Lab::new("rotating-offline");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let now = Time::from_unix(i64::try_from(now).unwrap());
    let bundle = Bundle::generate(Contract::new(1, 13), now, &mut SystemRandom).unwrap();
    std::fs::write(lab.scratch.path("secrets.yaml"), bundle.to_yaml().expose_secret()).unwrap();
    let folder = lab.scratch.path("");
    let run = |words: &[&str]| finish(&mut command(&[words, &["-f", &folder]].concat())).succeeded();
    run(&["secrets", "rotate-ca"]);
    for (verb, context, realm) in [("talosconfig", "lab", "Talos"), ("kubeconfig", "admin@lab", "Kubernetes")]
    {
        let made = run(&[verb]);
        let said =
            format!("the authority of {realm} is being replaced: this trusts the old one and the new one");
        assert!(
            made.stderr.contains(&said) && made.stderr.contains("talmox apply finishes it"),
            "{}",
            made.stderr
        );
        let source = Source { name: verb, text: &made.stdout };
        let trusts = match verb {
            "talosconfig" => Talosconfig::parse(source).unwrap().trusts(context),
            _ => Kubeconfig::parse(source).unwrap().trusts(context),
        };
        assert_eq!(trusts.len(), 2, "{verb}");
    }
}
