//! `talmox secrets`: made once, shown without being shown, converted both ways.

#![expect(clippy::disallowed_methods, reason = "files the test itself had written")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{self, Run, Scratch, command, finish};
use secrecy::ExposeSecret as _;
use talmox_secrets::SystemRandom;
use talmox_secrets::age::Identity;

/// A description whose Proxmox is on this machine, where nobody listens.
fn cluster() -> String {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    let endpoint = taken.local_addr().expect("it has an address");
    format!(
        "cluster_name: lab\ncluster_uid: 0123456789abcdef\nnode_cidr: 10.0.7.0/24\n\
         proxmox_endpoint: https://{endpoint}\nproxmox_api_token: sops:proxmox.sops.yaml#proxmox.token\n"
    )
}

const NODES: &str = "nodes:\n  - {name: cp-1, address: 10.0.7.11, controller: true}\n";

/// A folder with a description, and a key.
struct Lab {
    scratch: Scratch,
    key: Identity,
}

impl Lab {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        fs::write(scratch.0.join("cluster.yaml"), cluster()).expect("a scratch folder can be used");
        fs::write(scratch.0.join("nodes.yaml"), NODES).expect("a scratch folder can be used");
        let key = Identity::generate(&mut SystemRandom).expect("a scratch folder can be used");
        fs::write(scratch.0.join("keys.txt"), key.to_text().expose_secret())
            .expect("a scratch folder can be used");
        Self { scratch, key }
    }

    /// With a `.sops.yaml` that names the key.
    fn with_rules(self) -> Self {
        let rules =
            format!("creation_rules:\n  - path_regex: \\.sops\\.yaml$\n    age: {}\n", self.key.recipient());
        fs::write(self.scratch.0.join(".sops.yaml"), rules).expect("a scratch folder can be used");
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.current_dir(&self.scratch.0).env("SOPS_AGE_KEY_FILE", self.scratch.path("keys.txt"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Run {
        finish(&mut self.command(arguments))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.scratch.0.join(name)).expect("a scratch folder can be used")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.scratch.0.join(name), text).expect("a scratch folder can be used");
    }

    fn has(&self, name: &str) -> bool {
        self.scratch.0.join(name).exists()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.scratch.0.join(name)).expect("a scratch folder can be used").permissions().mode()
            & 0o777
    }

    /// A bundle that was made once for all tests: its RSA key takes a while.
    fn with_bundle(self) -> Self {
        self.write("secrets.yaml", bundle());
        fs::set_permissions(self.scratch.0.join("secrets.yaml"), fs::Permissions::from_mode(0o600))
            .expect("a scratch folder can be used");
        self
    }
}

fn bundle() -> &'static str {
    static BUNDLE: OnceLock<String> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let lab = Lab::new("secrets-bundle");
        lab.run(&["secrets", "generate", "--offline"]).succeeded();
        lab.read("secrets.yaml")
    })
}

#[test]
fn a_bundle_is_made_once_for_its_owner_alone() {
    let lab = Lab::new("secrets-generate");
    let run = lab.run(&["secrets", "generate", "--offline"]).succeeded();
    assert_eq!(run.stdout, "");
    assert_eq!(lab.mode("secrets.yaml"), 0o600);
    assert_eq!(lab.read(".gitignore"), "/secrets.yaml\n/talosconfig\n/kubeconfig\n");
    let before = lab.read("secrets.yaml");
    let again = lab.run(&["secrets", "generate", "--offline"]).failed();
    assert!(again.stderr.contains("has its secrets already"), "{}", again.whole());
    assert_eq!(lab.read("secrets.yaml"), before);
}

#[test]
fn without_proxmox_nobody_knows_whether_it_is_the_first() {
    let lab = Lab::new("secrets-unreachable");
    let run = lab.run(&["secrets", "generate"]).failed();
    assert!(
        run.stderr.contains("whether the cluster has VMs") && run.stderr.contains("--offline"),
        "{}",
        run.whole()
    );
    assert!(!lab.has("secrets.yaml"));
}

#[test]
fn a_cluster_that_has_vms_gets_no_second_bundle() {
    let lab = Lab::new("secrets-vms");
    let world = format!("--simulate={}", lab.scratch.path("world"));
    lab.run(&["apply", "--auto-approve", &world]).succeeded();
    let run = lab.run(&["secrets", "generate", &world]).failed();
    assert!(run.stderr.contains("the cluster has 1 VM") && run.stderr.contains("--from"), "{}", run.whole());
    // Secrets it had before there was a description may be taken over, and not replaced afterwards.
    lab.write("old.yaml", bundle());
    lab.run(&["secrets", "generate", "--from", "old.yaml", &world]).succeeded();
    assert_eq!(lab.read("secrets.yaml"), bundle());
    let run = lab.run(&["secrets", "generate", "--force", "--from", "old.yaml", &world]).failed();
    assert!(run.stderr.contains("it gets no others"), "{}", run.whole());
}

#[test]
fn a_named_bundle_stays_out_of_version_control_too() {
    let lab = Lab::new("secrets-named");
    lab.write("cluster.yaml", &(cluster() + "secrets_file: keys/lab.yaml\n"));
    lab.write("old.yaml", bundle());
    fs::create_dir(lab.scratch.0.join("keys")).unwrap();
    lab.run(&["secrets", "generate", "--from", "old.yaml", "--offline"]).succeeded();
    assert_eq!(lab.read(".gitignore"), "/keys/lab.yaml\n/talosconfig\n/kubeconfig\n");
    lab.run(&["secrets", "check"]).succeeded();
    lab.write("cluster.yaml", &(cluster() + "secrets_file: lab.sops.yaml\n"));
    let nobody = lab.run(&["secrets", "generate", "--from", "old.yaml", "--offline"]).failed();
    assert!(nobody.stderr.contains("nobody is known who may read lab.sops.yaml"), "{}", nobody.whole());
}

#[test]
fn secrets_are_taken_from_a_control_plane() {
    let lab = Lab::new("secrets-config").with_bundle();
    let config = lab.run(&["render", "config", "cp-1"]).succeeded().stdout;
    fs::remove_file(lab.scratch.0.join("secrets.yaml")).unwrap();
    lab.write("controlplane.yaml", &config);
    lab.run(&["secrets", "generate", "--from", "controlplane.yaml", "--offline"]).succeeded();
    assert_eq!(lab.read("secrets.yaml"), bundle());
}

#[test]
fn rules_encrypt_what_is_made_and_taken_over() {
    let lab = Lab::new("secrets-rules").with_rules();
    lab.write("talsecret.txt", bundle());
    lab.run(&["secrets", "generate", "--from", "talsecret.txt", "--offline"]).succeeded();
    assert!(lab.has("secrets.sops.yaml") && !lab.has("secrets.yaml") && !lab.has(".gitignore"));
    let file = lab.read("secrets.sops.yaml");
    assert!(file.contains(&lab.key.recipient().to_string()) && file.contains("ENC["));
    let plain = lab.run(&["secrets", "decrypt", "secrets.sops.yaml", "--stdout"]).succeeded().stdout;
    // A token that begins with a digit is in quotes in one of them.
    let secret = |text: &str| {
        text.lines().find(|line| line.contains("bootstraptoken")).unwrap().trim().replace('"', "")
    };
    assert_eq!(secret(&plain), secret(bundle()));
    let wrong = finish(lab.command(&["secrets", "show"]).env_remove("SOPS_AGE_KEY_FILE")).failed();
    assert!(wrong.stderr.contains("none of the keys at hand opens it"), "{}", wrong.whole());
    assert!(wrong.stderr.contains("SOPS_AGE_KEY"), "{}", wrong.whole());
}

#[test]
fn what_was_encrypted_stays_so_for_the_same_people() {
    let lab = Lab::new("secrets-readers");
    let recipient = lab.key.recipient().to_string();
    lab.write("theirs.yaml", bundle());
    lab.run(&["secrets", "encrypt", "theirs.yaml", "--age", &recipient]).succeeded();
    let take = ["secrets", "generate", "--from", "theirs.sops.yaml", "--offline"];
    let without = finish(lab.command(&take).env_remove("SOPS_AGE_KEY_FILE")).failed();
    assert!(without.stderr.contains("could not decrypt theirs.sops.yaml"), "{}", without.whole());
    assert!(without.stderr.contains("SOPS_AGE_KEY_FILE"), "{}", without.whole());
    assert!(!lab.has("secrets.sops.yaml") && !lab.has("secrets.yaml") && !lab.has(".gitignore"));
    lab.run(&take).succeeded();
    assert!(lab.has("secrets.sops.yaml") && !lab.has("secrets.yaml"));
    assert!(lab.read("secrets.sops.yaml").contains(&recipient));
    assert_eq!(lab.mode("secrets.sops.yaml"), 0o600);
    fs::remove_file(lab.scratch.0.join("secrets.sops.yaml")).unwrap();
    // Those a file of ours cannot be encrypted for are not left out in silence.
    let pgp = "sops:\n    pgp:\n        - fp: ABC\n          enc: x\n          created_at: \"2026-01-01T00:00:00Z\"\n";
    lab.write("theirs.sops.yaml", &lab.read("theirs.sops.yaml").replace("sops:\n", pgp));
    let run = lab.run(&take).failed();
    assert!(run.stderr.contains("is encrypted with pgp, and nobody is known"), "{}", run.whole());
    assert!(!lab.has("secrets.sops.yaml") && !lab.has("secrets.yaml"), "{}", run.whole());
    let named = [&take[..], &["--age", &recipient]].concat();
    lab.run(&named).succeeded();
    assert!(lab.has("secrets.sops.yaml"));
}

#[test]
fn what_is_shown_is_no_secret() {
    let lab = Lab::new("secrets-show").with_bundle();
    let secrets: Vec<String> = bundle()
        .lines()
        .filter_map(|line| line.trim().split_once(": ").map(|(_, value)| value.to_owned()))
        .filter(|value| value.len() > 12)
        .collect();
    assert!(secrets.len() > 10);
    let mut said = String::new();
    for arguments in [&["secrets", "show"][..], &["secrets", "show", "-o", "json"], &["secrets", "check"]] {
        said.push_str(&lab.run(arguments).succeeded().whole());
    }
    assert!(said.contains("Talos authority") && said.contains("\"days_left\": 36"), "{said}");
    for secret in &secrets {
        assert!(!said.contains(secret.as_str()), "{secret}");
    }
}

#[test]
fn a_broken_or_open_bundle_is_told() {
    let lab = Lab::new("secrets-check").with_bundle();
    fs::set_permissions(lab.scratch.0.join("secrets.yaml"), fs::Permissions::from_mode(0o644)).unwrap();
    let run = lab.run(&["secrets", "check", "-o", "json"]).failed();
    let data: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(data["problems"].as_array().unwrap().len(), 1, "{}", run.whole());
    assert!(run.stderr.contains("chmod 600"), "{}", run.whole());
}

#[test]
fn files_are_converted_both_ways() {
    let lab = Lab::new("secrets-convert");
    lab.write("token.yaml", "# for CI\nproxmox:\n    token: hush-hush # mine\n");
    let nobody = lab.run(&["secrets", "encrypt", "token.yaml"]).failed();
    assert!(nobody.stderr.contains("nobody is known who may read"), "{}", nobody.whole());
    let recipient = lab.key.recipient().to_string();
    let run = lab.run(&["secrets", "encrypt", "token.yaml", "--age", &recipient]).succeeded();
    assert!(run.stderr.contains("still there in plain text"), "{}", run.whole());
    assert_eq!(lab.mode("token.sops.yaml"), 0o600);
    assert!(!lab.read("token.sops.yaml").contains("hush"));
    let refused = lab.run(&["secrets", "decrypt", "token.sops.yaml"]).failed();
    assert!(refused.stderr.contains("is there already"), "{}", refused.whole());
    lab.run(&["secrets", "decrypt", "token.sops.yaml", "--to", "again.yaml"]).succeeded();
    assert_eq!((lab.read("again.yaml"), lab.mode("again.yaml")), (lab.read("token.yaml"), 0o600));

    // Encrypting again keeps what did not change, and needs no recipient to be named.
    let before = lab.read("token.sops.yaml");
    lab.write("token.yaml", &(lab.read("token.yaml") + "more: 1\n"));
    lab.run(&["secrets", "encrypt", "token.yaml", "--force"]).succeeded();
    let kept = |text: &str| text.lines().find(|line| line.contains("token:")).unwrap().to_owned();
    assert_eq!(kept(&before), kept(&lab.read("token.sops.yaml")));
}

#[test]
fn keys_are_found_where_sops_looks() {
    let lab = Lab::new("secrets-keys");
    lab.write("a.yaml", "one: hush-hush\n");
    let recipient = lab.key.recipient().to_string();
    lab.run(&["secrets", "encrypt", "a.yaml", "--age", &recipient]).succeeded();
    for home in ["xdg", "home/.config"] {
        fs::create_dir_all(lab.scratch.0.join(home).join("sops/age")).unwrap();
        fs::copy(lab.scratch.0.join("keys.txt"), lab.scratch.0.join(home).join("sops/age/keys.txt")).unwrap();
    }
    let (key, xdg, home) = (lab.read("keys.txt"), lab.scratch.path("xdg"), lab.scratch.path("home"));
    let stranger = Identity::generate(&mut SystemRandom).unwrap().to_text();
    let several = format!("{} {key}", stranger.expose_secret());
    let places = [
        ("SOPS_AGE_KEY", several.as_str()),
        ("SOPS_AGE_KEY_CMD", "/bin/cat keys.txt"),
        ("XDG_CONFIG_HOME", &xdg),
        ("HOME", &home),
    ];
    let decrypt = |name: &str, value: &str| {
        let mut command = lab.command(&["secrets", "decrypt", "a.sops.yaml", "--stdout"]);
        finish(command.env_remove("SOPS_AGE_KEY_FILE").env(name, value))
    };
    for (name, value) in places {
        let run = decrypt(name, value).succeeded();
        assert_eq!(run.stdout, "one: hush-hush\n", "{name}");
    }
    let wrong = decrypt("SOPS_AGE_KEY", "AGE-SECRET-KEY-1MISTYPED").failed();
    assert!(
        wrong.stderr.contains("SOPS_AGE_KEY, line 1") && !wrong.stderr.contains("MISTYPED"),
        "{}",
        wrong.whole()
    );
    let none = decrypt("SOPS_AGE_KEY", stranger.expose_secret()).failed();
    assert!(none.stderr.contains(&recipient), "{}", none.whole());
}

#[test]
fn a_file_that_was_tampered_with_is_refused() {
    let lab = Lab::new("secrets-tampered");
    lab.write("a.yaml", "one: hush-hush\ntwo: quiet\nopen_unencrypted: 1\n");
    let recipient = lab.key.recipient().to_string();
    lab.run(&["secrets", "encrypt", "a.yaml", "--age", &recipient]).succeeded();
    let file = lab.read("a.sops.yaml");
    lab.write("a.sops.yaml", &file.replace("open_unencrypted: 1", "open_unencrypted: 2"));
    let run = lab.run(&["secrets", "decrypt", "a.sops.yaml", "--stdout"]).failed();
    assert!(run.stderr.contains("MAC mismatch") && run.stdout.is_empty(), "{}", run.whole());
    let two = file.lines().find(|line| line.starts_with("two: ")).unwrap();
    lab.write("a.sops.yaml", &file.replace(two, &two.replace("data:", "data:AAAA")));
    let run = lab.run(&["secrets", "decrypt", "a.sops.yaml", "--stdout"]).failed();
    assert!(run.stderr.contains("two was changed") && !run.whole().contains("quiet"), "{}", run.whole());
}

#[test]
fn files_for_other_kinds_of_keys_are_not_overwritten() {
    let lab = Lab::new("secrets-kinds");
    lab.write("a.yaml", "one: 1\n");
    let recipient = lab.key.recipient().to_string();
    lab.run(&["secrets", "encrypt", "a.yaml", "--age", &recipient]).succeeded();
    let pgp = "sops:\n    pgp:\n        - fp: ABC\n          enc: x\n          created_at: \"2026-01-01T00:00:00Z\"\n";
    let both = lab.read("a.sops.yaml").replace("sops:\n", pgp);
    lab.write("a.sops.yaml", &both);
    lab.run(&["secrets", "decrypt", "a.sops.yaml", "--stdout"]).succeeded();
    for flags in [&["--force"][..], &["--force", "--age", &recipient]] {
        let arguments = [&["secrets", "encrypt", "a.yaml"], flags].concat();
        let run = lab.run(&arguments).failed();
        assert!(run.stderr.contains("pgp"), "{}", run.whole());
    }
    assert_eq!(lab.read("a.sops.yaml"), both);
}

#[test]
fn credentials_come_from_sops_files() {
    let lab = Lab::new("secrets-token");
    let endpoint = lab.read("cluster.yaml");
    let endpoint = endpoint.split("proxmox_endpoint: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    let token = "proxmox:\n  token: root@pam!t=00000000-0000-0000-0000-000000000001\n";
    lab.write("token.yaml", &format!("{token}  endpoint: {endpoint}\n"));
    let recipient = lab.key.recipient().to_string();
    lab.run(&["secrets", "encrypt", "token.yaml", "--to", "proxmox.sops.yaml", "--age", &recipient])
        .succeeded();
    let run = lab.run(&["plan", "-v"]).failed();
    assert!(
        run.stderr
            .contains("credentials root@pam!t from proxmox_api_token (sops:proxmox.sops.yaml#proxmox.token)"),
        "{}",
        run.whole()
    );
    assert!(!run.stderr.contains("000000000001"), "{}", run.whole());
    assert!(run.stderr.contains("stands encrypted beside the token"), "{}", run.whole());
    // The description names another endpoint than the one that is encrypted with the token.
    lab.write("cluster.yaml", &cluster());
    let run = lab.run(&["plan"]).failed();
    assert!(run.stderr.contains("the endpoint beside the token is another"), "{}", run.whole());
    lab.write("cluster.yaml", &cluster().replace("#proxmox.token", "#proxmox.tokne"));
    let run = lab.run(&["plan"]).failed();
    assert!(
        run.stderr.contains("has no value proxmox.tokne") && run.stderr.contains("its keys are proxmox"),
        "{}",
        run.whole()
    );
}

#[test]
fn a_client_certificate_is_renewed_in_its_context_alone() {
    let lab = Lab::new("secrets-rotate").with_bundle();
    let authority = bundle().lines().skip_while(|line| line.trim() != "os:").nth(1).unwrap();
    let authority = authority.trim().strip_prefix("crt: ").unwrap();
    let context = |ca: &str| {
        format!(
            "endpoints: [10.0.7.11]\n    nodes: [10.0.7.11]\n    ca: {ca}\n    crt: b2xk\n    key: b2xk\n"
        )
    };
    lab.write(
        "talosconfig",
        &format!(
            "context: lab\ncontexts:\n  lab:\n    {}  other:\n    {}",
            context(authority),
            context("b3RoZXI=")
        ),
    );
    let run = lab.run(&["secrets", "rotate-client", "--days", "30"]).succeeded();
    assert!(run.stderr.contains("renewed lab in talosconfig"), "{}", run.whole());
    let text = lab.read("talosconfig");
    assert_eq!(text.matches("b2xk").count(), 2, "the other context stays as it was");
    assert!(text.contains("10.0.7.11") && lab.mode("talosconfig") == 0o600);
    let other = lab.run(&["secrets", "rotate-client", "--context", "other"]).failed();
    assert!(other.stderr.contains("of another cluster"), "{}", other.whole());
    let missing = lab.run(&["secrets", "rotate-client", "--context", "none"]).failed();
    assert!(missing.stderr.contains("contexts: lab, other"), "{}", missing.whole());
}

#[test]
fn init_makes_the_bundle_too() {
    let scratch = Scratch::new("secrets-init");
    let plain = scratch.path("plain");
    support::run(&["init", &plain, "--yes"]).succeeded();
    assert!(Path::new(&plain).join("secrets.yaml").exists());
    assert!(fs::read_to_string(Path::new(&plain).join(".gitignore")).unwrap().contains("/secrets.yaml"));
    support::run(&["secrets", "check", "-f", &plain]).succeeded();

    let key = Identity::generate(&mut SystemRandom).unwrap();
    fs::write(scratch.0.join(".sops.yaml"), format!("creation_rules:\n  - age: {}\n", key.recipient()))
        .unwrap();
    let encrypted = scratch.path("encrypted");
    // Whose key it is cannot be known where the key is not at hand: anybody can write a .sops.yaml.
    let refused = support::run(&["init", &encrypted, "--yes"]).failed();
    assert!(
        refused.stderr.contains(&format!("encrypt secrets for {}", key.recipient())),
        "{}",
        refused.whole()
    );
    assert!(!Path::new(&encrypted).join("cluster.yaml").exists());
    finish(command(&["init", &encrypted, "--yes"]).env("SOPS_AGE_KEY", key.to_text().expose_secret()))
        .succeeded();
    let folder = Path::new(&encrypted);
    assert!(folder.join("secrets.sops.yaml").exists() && !folder.join("secrets.yaml").exists());
    assert!(!folder.join(".gitignore").exists());
    let check = finish(
        command(&["secrets", "check", "-f", &encrypted]).env("SOPS_AGE_KEY", key.to_text().expose_secret()),
    );
    check.succeeded();
}

#[test]
fn new_authorities_lie_beside_the_present_ones_and_no_key_is_shown() {
    let lab = Lab::new("secrets-rotate").with_bundle();
    let first = lab.run(&["secrets", "rotate-ca", "--talos"]).succeeded();
    assert!(first.stderr.contains("wrote a new authority of Talos"), "{}", first.whole());
    let begun = lab.read("secrets.yaml");
    assert!(begun.starts_with(bundle().trim_end()) && begun.contains("rotation:"), "the rest is as it was");
    assert_eq!(lab.mode("secrets.yaml"), 0o600);
    // A second one would be another authority; the first is known to machines by then.
    let second = lab.run(&["secrets", "rotate-ca"]).succeeded();
    assert!(second.stderr.contains("of Talos is being replaced already"), "{}", second.whole());
    // Nor is the other one begun by whoever means to go on.
    assert!(
        second.stderr.contains("no new authority of Kubernetes was made beside it"),
        "{}",
        second.whole()
    );
    assert_eq!(lab.read("secrets.yaml"), begun);
    let other = lab.run(&["secrets", "rotate-ca", "--kubernetes", "-o", "json"]).succeeded();
    let data: serde_json::Value = serde_json::from_str(&other.stdout).unwrap();
    assert_eq!(
        (&data["begun"][0]["authority"], &data["pending"]),
        (&"kubernetes".into(), &serde_json::json!([]))
    );
    assert!(data["file"].as_str().unwrap().ends_with("secrets.yaml"), "{data}");
    let both = lab.read("secrets.yaml");
    let talos = begun.split("    os:").last().unwrap();
    assert!(both.ends_with(talos) && both.len() > begun.len(), "that of Kubernetes was added");
    let third = lab.run(&["secrets", "rotate-ca"]).succeeded();
    assert_eq!(lab.read("secrets.yaml"), both);
    lab.run(&["secrets", "check"]).succeeded();
    let shown = lab.run(&["secrets", "show"]).succeeded();
    assert!(shown.stdout.contains("new Talos authority, not in force everywhere yet"), "{}", shown.whole());
    let keys: Vec<&str> = both.lines().filter_map(|line| line.trim().strip_prefix("key: ")).collect();
    assert!(keys.len() >= 6);
    for run in [&first, &second, &other, &third, &shown] {
        assert!(keys.iter().all(|key| !run.whole().contains(key)));
    }
}

#[test]
fn new_authorities_are_encrypted_as_the_file_is() {
    let lab = Lab::new("secrets-rotate-sops").with_rules();
    lab.write("talsecret.txt", bundle());
    lab.run(&["secrets", "generate", "--from", "talsecret.txt", "--offline"]).succeeded();
    let before = lab.read("secrets.sops.yaml");
    lab.run(&["secrets", "rotate-ca"]).succeeded();
    let file = lab.read("secrets.sops.yaml");
    let rotation = file.split("rotation:").nth(1).unwrap().split("sops:").next().unwrap();
    assert_eq!(rotation.matches("ENC[").count(), 4, "{rotation}");
    let same = before.lines().filter(|line| file.contains(*line)).count();
    assert!(same + 4 > before.lines().count(), "what did not change keeps its lines");
    lab.run(&["secrets", "check"]).succeeded();
    let plain = lab.run(&["secrets", "decrypt", "secrets.sops.yaml", "--stdout"]).succeeded().stdout;
    assert!(plain.contains("rotation:"));
}
