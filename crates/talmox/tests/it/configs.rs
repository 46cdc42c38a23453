//! Machine configuration and the files people reach a cluster with.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::OnceLock;

use crate::support::{Run, Scratch, command, finish, root, run};
use secrecy::ExposeSecret as _;
use talmox_machine::{Bundle, SystemRandom, Time};
use talmox_types::Contract;

/// Texts of bundles; one for all tests, and another one.
fn bundles() -> &'static [String; 2] {
    static BUNDLES: OnceLock<[String; 2]> = OnceLock::new();
    BUNDLES.get_or_init(|| {
        [0, 1].map(|_| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let now = Time::from_unix(i64::try_from(now.as_secs()).unwrap());
            let bundle = Bundle::generate(Contract::new(1, 13), now, &mut SystemRandom).unwrap();
            bundle.to_yaml().expose_secret().to_owned()
        })
    })
}

/// A copy of `examples/homelab` with a bundle.
fn lab(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    for file in ["cluster.yaml", "nodes.yaml"] {
        fs::copy(root().join("examples/homelab").join(file), scratch.0.join(file)).unwrap();
    }
    fs::write(scratch.0.join("secrets.yaml"), &bundles()[0]).unwrap();
    scratch
}

fn append(scratch: &Scratch, file: &str, text: &str) {
    let path = scratch.0.join(file);
    let before = read(&path);
    fs::write(path, before + text).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a file of the test")]
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs a verb on a folder.
fn on(scratch: &Scratch, arguments: &[&str]) -> Run {
    let folder = scratch.0.display().to_string();
    run(&[arguments, &["-f", &folder]].concat())
}

#[test]
fn a_config_with_and_without_its_secrets() {
    let lab = lab("config");
    let whole = on(&lab, &["render", "config", "cp-1"]).succeeded();
    assert!(whole.stdout.contains("hostname: cp-1") && whole.stdout.contains("kind: Layer2VIPConfig"));
    assert!(whole.stdout.contains("secretboxEncryptionSecret: ") && !whole.stdout.contains("******"));
    assert_eq!(whole.stderr, "");
    let redacted = on(&lab, &["render", "config", "cp-1", "--redact"]).succeeded();
    assert!(redacted.stdout.contains("secretboxEncryptionSecret: '******'"));
    let json = on(&lab, &["render", "config", "worker-1", "--redact", "-o", "json"]).succeeded();
    let documents: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(documents[0]["machine"]["type"], "worker");
    assert_eq!(documents[1]["kind"], "HostnameConfig");
    let verbose = on(&lab, &["render", "config", "cp-1", "-v"]).succeeded();
    assert!(verbose.stderr.contains("secrets.yaml"), "{}", verbose.stderr);
}

#[test]
fn without_a_bundle_the_places_and_the_remedy_are_named() {
    for verb in [
        &["render", "config", "cp-1"][..],
        &["talosconfig"],
        &["kubeconfig"],
        &["render", "all", "--to", "x"],
    ] {
        let failed = run(&[verb, &["-f", "examples/homelab"]].concat()).failed();
        for part in
            ["examples/homelab has none of secrets.sops.yaml, secrets.yaml", "talmox secrets generate"]
        {
            assert!(failed.stderr.contains(part), "{}", failed.stderr);
        }
    }
    let lab = lab("named");
    append(&lab, "cluster.yaml", "secrets_file: keys/lab.yaml\n");
    let failed = on(&lab, &["kubeconfig"]).failed();
    assert!(failed.stderr.contains("keys/lab.yaml, where secrets_file"), "{}", failed.stderr);
}

#[test]
fn a_node_that_is_not_there() {
    let lab = lab("unknown");
    let failed = on(&lab, &["render", "config", "cp-9"]).failed();
    assert!(failed.stderr.contains("there is no node cp-9"), "{}", failed.stderr);
}

#[test]
fn all_of_it_into_a_folder_of_ones_own() {
    let lab = lab("all");
    let out = lab.path("out");
    let written = on(&lab, &["render", "all", "--to", &out]).succeeded();
    let names: Vec<&str> = written.stdout.lines().map(|line| line.rsplit('/').next().unwrap()).collect();
    let expected = [
        "homelab-cp-1.yaml",
        "homelab-cp-2.yaml",
        "homelab-cp-3.yaml",
        "homelab-worker-1.yaml",
        "homelab-worker-2.yaml",
        "homelab-worker-3.yaml",
        "talosconfig",
    ];
    assert_eq!(names, expected);
    assert!(written.stderr.contains("7 files written"), "{}", written.stderr);
    assert_eq!(mode(Path::new(&out)), 0o700);
    for name in expected {
        assert_eq!(mode(&lab.0.join("out").join(name)), 0o600, "{name}");
    }
    assert!(read(&lab.0.join("out/talosconfig")).contains("- 10.0.7.13"));

    fs::remove_file(lab.0.join("out/homelab-cp-1.yaml")).unwrap();
    let refused = on(&lab, &["render", "all", "--to", &out]).failed();
    assert!(
        refused.stderr.contains("and 5 other files would be overwritten; nothing was written"),
        "{}",
        refused.stderr
    );
    assert!(!lab.0.join("out/homelab-cp-1.yaml").exists());
    let forced = on(&lab, &["render", "all", "--to", &out, "--force", "-o", "json"]).succeeded();
    let written: serde_json::Value = serde_json::from_str(&forced.stdout).unwrap();
    assert_eq!((written.as_array().unwrap().len(), &written[0]["node"]), (7, &"cp-1".into()));
}

#[test]
fn differences_field_by_field() {
    let lab = lab("diff");
    let out = lab.path("out");
    on(&lab, &["render", "all", "--to", &out]).succeeded();
    let same = on(&lab, &["diff", "worker-1", &out, "--detailed-exitcode"]).succeeded();
    assert!(same.stdout.starts_with("No differences"), "{}", same.stdout);

    append(&lab, "cluster.yaml", "ntp_servers: [time.lan]\n");
    let differs = on(&lab, &["diff", "worker-1", &out]).succeeded();
    for part in
        ["TimeSyncConfig", "  ntp.servers[0]\n    - 162.159.200.1\n    + time.lan\n", "2 differences between"]
    {
        assert!(differs.stdout.contains(part), "{part}\n{}", differs.stdout);
    }
    assert_eq!(on(&lab, &["diff", "worker-1", &out, "--detailed-exitcode"]).code, 2);
    let json =
        on(&lab, &["diff", "worker-1", &format!("{out}/homelab-worker-1.yaml"), "-o", "json"]).succeeded();
    let told: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(told[0]["path"], "ntp.servers[0]");

    fs::write(lab.0.join("secrets.yaml"), &bundles()[1]).unwrap();
    let secrets = on(&lab, &["diff", "cp-1", &out]).succeeded();
    assert!(secrets.stdout.contains("cluster.secret\n    another secret\n"), "{}", secrets.stdout);
    let key = bundles()[0].lines().find_map(|line| line.trim().strip_prefix("secret: ")).unwrap();
    assert!(!secrets.stdout.contains(key));

    // Without a file the node itself is asked, and where it is Proxmox says.
    let nothing = on(&lab, &["diff", "cp-1"]).failed();
    assert!(nothing.stderr.contains("PROXMOX_VE_API_TOKEN"), "{}", nothing.stderr);
    let not_one = on(&lab, &["diff", "cp-1", &lab.path("secrets.yaml")]).failed();
    assert!(not_one.stderr.contains("is not a machine configuration"), "{}", not_one.stderr);
}

#[test]
fn a_talosconfig_is_merged_once_and_nobody_is_overwritten() {
    let lab = lab("talosconfig");
    let printed = on(&lab, &["talosconfig"]).succeeded();
    assert!(printed.stdout.starts_with("context: homelab\n"), "{}", printed.stdout);
    let file = lab.0.join("home/.talos/config");
    let merge = |extra: &[&str]| {
        let folder = lab.0.display().to_string();
        let arguments = [&["talosconfig", "--merge", "-f", &folder], extra].concat();
        finish(command(&arguments).env("HOME", lab.path("home"))).succeeded()
    };
    assert!(merge(&[]).stderr.contains("added context homelab"));
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    let first = read(&file);
    assert!(merge(&[]).stderr.contains("good until"));
    assert_eq!(read(&file), first);
    assert!(merge(&["--force"]).stderr.contains("renewed context homelab"));
    assert_ne!(read(&file), first);
    assert_eq!(read(&file).matches("endpoints:").count(), 1);

    // A cluster of the same name with other keys.
    fs::write(lab.0.join("secrets.yaml"), &bundles()[1]).unwrap();
    let renamed = merge(&[]);
    assert!(renamed.stderr.contains("is called homelab-1"), "{}", renamed.stderr);
    assert!(merge(&[]).stderr.contains("has context homelab-1, good until"));
    let both = read(&file);
    assert!(both.starts_with("context: homelab-1\n") && both.matches("endpoints:").count() == 2, "{both}");
}

#[test]
fn variables_and_flags_say_which_file_it_is() {
    let lab = lab("files");
    let folder = lab.0.display().to_string();
    let in_environment = |verb: &str, name: &str, value: &str| {
        finish(command(&[verb, "--merge", "-f", &folder]).env(name, value)).succeeded()
    };
    in_environment("talosconfig", "TALOSCONFIG", &lab.path("a"));
    in_environment("talosconfig", "TALOS_HOME", &lab.path("b"));
    in_environment("kubeconfig", "KUBECONFIG", &format!("{}:{}", lab.path("c"), lab.path("d")));
    for name in ["a", "b/config", "c"] {
        assert_eq!(mode(&lab.0.join(name)), 0o600, "{name}");
    }
    assert!(!lab.0.join("d").exists());
    let nowhere = on(&lab, &["kubeconfig", "--merge"]).failed();
    assert!(nowhere.stderr.contains("no home folder"), "{}", nowhere.stderr);
    let taken = on(&lab, &["kubeconfig", "--to", &lab.path("c")]).failed();
    assert!(taken.stderr.contains("is there already; nothing was written"), "{}", taken.stderr);
    on(&lab, &["kubeconfig", "--to", &lab.path("c"), "--force"]).succeeded();
    fs::write(lab.0.join("strange"), "- not one\n").unwrap();
    let strange = on(&lab, &["kubeconfig", "--merge", "--to", &lab.path("strange")]).failed();
    assert!(strange.stderr.contains("cannot be merged into, and was left as it is"), "{}", strange.stderr);
    assert_eq!(read(&lab.0.join("strange")), "- not one\n");
}

#[test]
fn a_kubeconfig_keeps_what_others_put_there() {
    let lab = lab("kubeconfig");
    let file = lab.path("config");
    let other = "apiVersion: v1\nkind: Config\npreferences: {}\nclusters:\n  - name: homelab\n    cluster: {server: https://other:6443}\n\
        users: []\ncontexts: []\ncurrent-context: \"\"\n";
    fs::write(&file, other).unwrap();
    let merged = on(&lab, &["kubeconfig", "--merge", "--to", &file]).succeeded();
    assert!(merged.stderr.contains("homelab was taken by something else"), "{}", merged.stderr);
    let text = read(Path::new(&file));
    for part in [
        "https://other:6443",
        "https://10.0.7.10:6443",
        "name: homelab-1",
        "current-context: admin@homelab-1\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(on(&lab, &["kubeconfig", "--merge", "--to", &file]).succeeded().stderr.contains("good until"));
    append(&lab, "cluster.yaml", "cluster_endpoint: https://k8s.lan:6443\n");
    let moved = on(&lab, &["kubeconfig", "--merge", "--to", &file]).succeeded();
    assert!(moved.stderr.contains("renewed context admin@homelab-1"), "{}", moved.stderr);
    let text = read(Path::new(&file));
    assert!(text.contains("https://k8s.lan:6443") && !text.contains("https://10.0.7.10:6443"), "{text}");
    assert_eq!(mode(Path::new(&file)), 0o600);
}

#[test]
fn patches_apply_in_order_and_their_places_are_told() {
    let lab = lab("patches");
    fs::create_dir(lab.0.join("patches")).unwrap();
    fs::write(
        lab.0.join("patches/all.yaml"),
        "machine:\n  sysctls: {a: cluster, b: cluster}\n  env: {T: '${TOKEN}'}\n",
    )
    .unwrap();
    append(
        &lab,
        "cluster.yaml",
        "patches: [patches/all.yaml]\nproxmox_vm_controller_defaults: {patches: [{machine: {sysctls: {b: role}}}]}\n",
    );
    let missing = on(&lab, &["render", "config", "cp-1"]).failed();
    assert!(
        missing.stderr.contains("patches/all.yaml:3: the variable TOKEN is not set"),
        "{}",
        missing.stderr
    );
    fs::write(lab.0.join("talenv.yaml"), "TOKEN: hush-hush\n").unwrap();
    let control_plane = on(&lab, &["render", "config", "cp-1"]).succeeded().stdout;
    assert!(control_plane.contains("        a: cluster\n        b: role\n"), "{control_plane}");
    assert!(control_plane.contains("T: hush-hush"));
    let worker = on(&lab, &["render", "config", "worker-1"]).succeeded().stdout;
    assert!(worker.contains("        a: cluster\n        b: cluster\n"));

    fs::write(lab.0.join("patches/all.yaml"), "machine:\n  network:\n    hostname: ${TOKEN}\n").unwrap();
    let conflict = on(&lab, &["render", "config", "cp-1"]).failed().stderr;
    for part in [
        "patches/all.yaml:3:15: machine.network.hostname",
        "HostnameConfig is made from the description",
        "talmox explain cp-1.patches",
    ] {
        assert!(conflict.contains(part), "{part}\n{conflict}");
    }
    assert!(!conflict.contains("hush-hush"));
    append(&lab, "nodes.yaml", "    patches: [{machine: {nonsense: 1}}]\n");
    fs::write(lab.0.join("patches/all.yaml"), "machine: {env: {A: b}}\n").unwrap();
    let inline = on(&lab, &["render", "config", "worker-3"]).failed().stderr;
    assert!(
        inline.contains("nodes.yaml:18 (inline):2:13") && inline.contains("machine.nonsense"),
        "{inline}"
    );
}

#[test]
fn a_pool_has_guessed_addresses_until_somebody_looks() {
    let lab = lab("pool");
    append(
        &lab,
        "cluster.yaml",
        "region: lab\nprovider_id: proxmox\nnode_pools: [{name: pool, count: 2, addresses: 10.0.7.32/28}]\n",
    );
    let guessed = on(&lab, &["render", "config", "pool-1", "--redact"]).succeeded();
    assert!(
        guessed.stdout.contains("address: 10.0.7.32/24") || guessed.stdout.contains("address: 10.0.7.33/24")
    );
    for part in ["pool-1: the address is the one an empty pool would give", "left out the provider id"] {
        assert!(guessed.stderr.contains(part), "{}", guessed.stderr);
    }
    assert!(!guessed.stdout.contains("providerID"));
    let world = format!("--simulate={}", lab.path("world"));
    on(&lab, &["apply", &world, "--auto-approve"]).succeeded();
    let seen = on(&lab, &["render", "config", "pool-1", "--redact", &world]).succeeded();
    assert!(seen.stdout.contains("providerID: proxmox://lab/20"), "{}", seen.stdout);
    assert!(seen.stdout.contains("topology.kubernetes.io/zone: pve\n"), "{}", seen.stdout);
    assert!(!seen.stderr.contains("empty pool"), "{}", seen.stderr);
}

#[test]
fn the_install_disk_is_explained() {
    let lab = lab("disk");
    append(&lab, "cluster.yaml", "proxmox_vm_controller_defaults: {disk_bus: virtio}\n");
    let explained = on(&lab, &["explain", "cp-1.disk"]).succeeded().stdout;
    assert!(explained.starts_with("/dev/vda\n") && explained.contains("disk_bus virtio"), "{explained}");
    assert!(on(&lab, &["explain", "worker-1.disk"]).succeeded().stdout.starts_with("/dev/sda\n"));
}

#[test]
fn what_talos_would_refuse_is_said_before_anything_is_sent() {
    let scratch = lab("rehearsal");
    append(&scratch, "cluster.yaml", "\npatches: [time.yaml]\n");
    // The description has a document for it already.
    fs::write(scratch.0.join("time.yaml"), "machine:\n  time:\n    servers: [10.0.0.1]\n").unwrap();
    let place = "time.yaml:3:14";
    let (plan, apply) =
        (["plan", "--until=healthy", "--simulate"], ["apply", "--until=healthy", "--simulate"]);
    for verb in [&["validate"][..], &plan, &apply] {
        let world = format!("{}", scratch.0.join("world").display());
        let simulated: Vec<String> =
            verb.iter().map(|word| word.replace("--simulate", &format!("--simulate={world}"))).collect();
        let words: Vec<&str> = simulated.iter().map(String::as_str).collect();
        let refused = on(&scratch, &words);
        assert_eq!(refused.code, 1, "{verb:?}");
        assert!(refused.stderr.contains(place), "{verb:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("for cp-1, cp-2, cp-3, worker-1 and 2 more"), "{}", refused.stderr);
        assert!(
            !refused.stdout.contains("valid:") && !refused.stdout.contains("Plan:"),
            "{}",
            refused.stdout
        );
    }
    let said: serde_json::Value =
        serde_json::from_str(&on(&scratch, &["validate", "-o", "json"]).stdout).unwrap();
    assert_eq!(said[0]["code"], "machine-config");
    assert_eq!((&said[0]["line"], &said[0]["column"]), (&3.into(), &14.into()));

    // Whoever looks may lack a variable that whoever applies has; what its value is, is nobody's business.
    fs::write(scratch.0.join("time.yaml"), "machine:\n  sysctls:\n    a: ${TALMOX_TEST_UNSET}\n").unwrap();
    let looked = on(&scratch, &["validate"]);
    assert!(looked.code == 0 && looked.stderr.contains("TALMOX_TEST_UNSET is not set"), "{}", looked.stderr);
}
