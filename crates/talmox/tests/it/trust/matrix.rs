//! Every verb, and every way in which a description could cause something.
//!
//! A verb that is new does not compile here until it has a line in [`words`] (and in `talmox-trust`, a row of causes).

use talmox_trust::{Cause, Verb};

use crate::support::Run;
use crate::trust::lab::Stranger;

/// How each verb is typed, so that it goes as far as it can without a person.
pub(super) fn words(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::Init => &["init", "new", "--yes"],
        Verb::Validate => &["validate"],
        Verb::Check => &["check"],
        Verb::Plan => &["plan", "--until", "healthy"],
        Verb::Apply => &["apply", "--auto-approve", "--until", "healthy"],
        Verb::Status => &["status", "--until", "healthy"],
        Verb::Health => &["health", "--timeout", "0"],
        Verb::Destroy => &["destroy", "--auto-approve"],
        Verb::Adopt => &["adopt", "--all-matching"],
        Verb::AdoptCluster => &["adopt", "cluster", "-f", "adopted", "--nodes", "127.0.0.1"],
        Verb::Explain => &["explain", "cp-1", "--live"],
        Verb::RenderVm => &["render", "vm", "cp-1"],
        Verb::RenderConfig => &["render", "config", "cp-1", "--live"],
        Verb::RenderAll => &["render", "all", "--to", "rendered", "--live"],
        Verb::RenderInstallImage => &["render", "install-image", "--provider", "kvm"],
        Verb::Diff => &["diff", "cp-1"],
        Verb::Talosconfig => &["talosconfig", "--to", "t", "--live"],
        Verb::Kubeconfig => &["kubeconfig", "--to", "k"],
        Verb::Output => &["output"],
        Verb::SecretsGenerate => &["secrets", "generate"],
        Verb::SecretsShow => &["secrets", "show"],
        Verb::SecretsCheck => &["secrets", "check"],
        Verb::SecretsEncrypt => &["secrets", "encrypt", "plain.yaml"],
        Verb::SecretsDecrypt => &["secrets", "decrypt", "plain.sops.yaml", "--stdout"],
        Verb::SecretsRotateClient => &["secrets", "rotate-client", "--talosconfig", "t"],
        Verb::SecretsRotateCa => &["secrets", "rotate-ca"],
        Verb::EtcdStatus => &["etcd", "status"],
        Verb::EtcdMembers => &["etcd", "members"],
        Verb::EtcdSnapshot => &["etcd", "snapshot"],
        Verb::EtcdDefrag => &["etcd", "defrag"],
        Verb::EtcdRestore => &["etcd", "restore", "plain.yaml"],
        Verb::SchematicId => &["schematic", "id"],
        Verb::SchematicUrl => &["schematic", "url", "--register"],
        Verb::SchematicShow => &["schematic", "show"],
        Verb::Convert => &["convert", "talhelper", "talconfig.yaml"],
        Verb::TemplateBuild => &["template", "build", "--auto-approve"],
        Verb::TemplateList => &["template", "list"],
        Verb::TemplateShow => &["template", "show", "talos-1.13.9"],
        Verb::TemplatePrune => &["template", "prune", "--auto-approve"],
        Verb::HostDrain => &["host", "drain", "pve", "--auto-approve"],
        Verb::HostReturn => &["host", "return", "pve", "--auto-approve"],
        Verb::Trust => &["trust"],
        Verb::Sim => &["sim", "behaviours"],
        Verb::Schema => &["schema"],
        Verb::Completion => &["completion", "bash"],
        Verb::Man => &["man"],
        Verb::Version => &["version"],
    }
}

const CANARY: &str = "CANARY0001";

/// One way, the description that tries it, and the sign that it worked.
struct Way {
    name: &'static str,
    lines: &'static str,
    happened: fn(&Stranger, &Run) -> bool,
    /// Verbs with this cause do it once it is allowed, and no other verb does; none: what is allowed shows elsewhere.
    allowed: Option<Cause>,
}

const WAYS: [Way; 9] = [
    Way {
        name: "a program for the token",
        lines: "proxmox_api_token: {exec: [sh, -c, \"touch pwned; echo a@pve!b=c\"]}\n",
        happened: |stranger, _| stranger.has("lab/pwned"),
        allowed: Some(Cause::Token),
    },
    Way {
        name: "a program after the bootstrap",
        lines: "post_bootstrap: [sh, -c, \"touch pwned\"]\n",
        happened: |stranger, _| stranger.has("lab/pwned"),
        allowed: None,
    },
    Way {
        name: "a token to a server of theirs",
        lines: "proxmox_api_token: file:token\nproxmox_insecure: true\n",
        happened: |stranger, _| stranger.remote.server.calls() > 0,
        allowed: None,
    },
    Way {
        name: "a token of the environment to a server of theirs",
        lines: "proxmox_api_token: env:PROXMOX_VE_API_TOKEN\nproxmox_insecure: true\n",
        happened: |stranger, _| stranger.remote.server.calls() > 0,
        allowed: None,
    },
    Way {
        name: "a file outside the folder",
        lines: "patches: [../outside/canary.yaml]\ncni: {manifest: ../outside/canary.yaml}\nsecrets_file: ../outside/canary.yaml\n",
        happened: |_, run| shows(run, CANARY),
        allowed: None,
    },
    Way {
        name: "a variable of the environment",
        lines: "patches:\n  - |\n    machine: {sysctls: {\"${CANARY_VARIABLE}\": \"1\", a: \"${CANARY_VARIABLE}\"}}\n",
        happened: |_, run| shows(run, CANARY),
        allowed: None,
    },
    Way {
        name: "an address that talmox fetches from",
        lines: "factory_url: FETCHED\nbootstrap_manifests: [\"FETCHED/a.yaml\"]\n",
        happened: |stranger, _| stranger.fetched(),
        allowed: None,
    },
    Way {
        name: "secrets for a receiver of theirs",
        lines: "etcd_backup: {dir: ../outside/backup, age: [age1yt3tfqlfrwdwx0z0ynwplcr6qxcxfaqycuprpmy89nr83ltx74tqdpszlw]}\n",
        happened: |stranger, _| {
            stranger.has("outside/backup")
                || stranger.has("lab/secrets.sops.yaml")
                || stranger.has("lab/plain.sops.yaml")
        },
        allowed: None,
    },
    Way {
        name: "control characters on the terminal",
        lines: "patches:\n  - \"machine: {\\e[2J\\x9b2J\\u202e: 1}\"\nproxmox_api_token: \"file:\\e]0;x\\a\"\npost_bootstrap: [\"\\e[2J\"]\n",
        happened: |_, run| {
            [&run.stdout, &run.stderr]
                .iter()
                .any(|text| text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7}']))
        },
        allowed: None,
    },
];

fn shows(run: &Run, canary: &str) -> bool {
    run.stdout.contains(canary) || run.stderr.contains(canary)
}

/// A place with everything the ways reach for.
async fn prepare(way: &Way) -> Stranger {
    let stranger = Stranger::new("matrix", "").await;
    let lines = way.lines.replace("FETCHED", &stranger.fetched_from());
    stranger.describe(&lines);
    stranger.write("lab/token", &stranger.token());
    stranger.write("lab/plain.yaml", "a: 1\n");
    let strange = "age1yt3tfqlfrwdwx0z0ynwplcr6qxcxfaqycuprpmy89nr83ltx74tqdpszlw";
    stranger.write("lab/.sops.yaml", &format!("creation_rules:\n  - age: {strange}\n"));
    stranger.write(
        "lab/talconfig.yaml",
        "clusterName: x\nendpoint: https://${CANARY_VARIABLE}:6443\nnodes: []\n",
    );
    stranger.write("outside/canary.yaml", &format!("{CANARY}: {CANARY}\n"));
    stranger
}

const PERSON: [(&str, &str); 3] =
    [("CANARY_VARIABLE", CANARY), ("PROXMOX_VE_API_TOKEN", "root@pam!own=CANARY0001"), ("NO_COLOR", "1")];

#[tokio::test(flavor = "multi_thread")]
async fn a_description_alone_causes_nothing() {
    let mut count = 0;
    for way in &WAYS {
        let stranger = prepare(way).await;
        for verb in Verb::ALL {
            let run = stranger.run(words(verb), &PERSON).await;
            assert!(!(way.happened)(&stranger, &run), "{}: {}\n{}", way.name, verb.words(), run.whole());
            assert!(!run.stderr.contains("panicked"), "{}", run.whole());
            stranger.tidy();
            count += 1;
        }
    }
    println!("{count} runs of {} verbs, {} ways: nothing happened", Verb::ALL.len(), WAYS.len());
}

/// The test above could not fail if nothing ever happened. With the grants that `talmox trust --print` writes it does, for
/// the verbs of the table and for no other.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_happens_for_the_verbs_of_the_table_alone() {
    for way in &WAYS {
        let Some(cause) = way.allowed else { continue };
        let stranger = prepare(way).await;
        let grants = stranger.printed_grants(&PERSON).await;
        for verb in Verb::ALL {
            // It writes a description of its own, and the endpoint is one the person types.
            if verb == Verb::AdoptCluster {
                continue;
            }
            let variables = [&PERSON[..], &[("TALMOX_TRUST", grants.as_str())]].concat();
            let run = stranger.run(words(verb), &variables).await;
            let expected = verb.causes().contains(&cause);
            assert_eq!(
                (way.happened)(&stranger, &run),
                expected,
                "{}: {}\n{}",
                way.name,
                verb.words(),
                run.whole()
            );
            stranger.tidy();
        }
    }
}
