//! Clusters whose configurations others made, described so that rendering makes the same.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(clippy::disallowed_methods, reason = "golden files are no part of the repository")]

use std::path::{Path, PathBuf};

use talmox_adopt::cluster::{Described, LiveCluster, LiveNode, describe};
use talmox_machine::secrets::from_config;
use talmox_machine::{Bundle, Config, Patch, Source, patch};
use talmox_plan::Nonce;
use talmox_types::desired::Role;
use talmox_types::{ClusterUid, NodeName, Version};

/// Files Talos' own tests hold its generator to.
#[expect(clippy::print_stdout, reason = "a test that did nothing must say so")]
fn golden() -> Option<PathBuf> {
    let folder = std::env::var_os("TALMOX_SHARED_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let folder = folder.join("talos-golden");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no {}", folder.display());
    println!("skipped: no ../shared/data");
    None
}

fn config(path: &Path) -> Config {
    // The vectors have a Kubernetes of their own that no machine of these releases takes.
    let text = std::fs::read_to_string(path).unwrap().replace("v1.28.0", "v1.35.4");
    Config::parse(Source { name: "live", text: &text }).unwrap()
}

fn node(name: &str, role: Role, last: u8, config: Config) -> LiveNode {
    let address = [10, 0, 7, last].into();
    LiveNode { name: NodeName::parse(name).unwrap(), role, address, prefix: None, config, vm: None }
}

fn described(bundle: &Bundle, talos: Version, nodes: Vec<LiveNode>) -> Described {
    let live = LiveCluster {
        name: None,
        uid: ClusterUid::from([1; 8]),
        talos,
        bundle,
        nodes,
        proxmox: "proxmox_endpoint: https://pve.lan:8006\nproxmox_pool: none\n".to_owned(),
        observed: None,
    };
    describe(&live, &Nonce::new(7)).unwrap()
}

/// Nothing is left over, no file but the one for variables has a secret in it, and none has more than it needs.
fn well(told: &str, bundle: &Bundle, described: &Described) {
    assert!(described.remaining.is_empty(), "{told}: {:#?}", described.remaining);
    let secrets = bundle.to_yaml();
    let secrets = secrecy::ExposeSecret::expose_secret(&secrets);
    let values: Vec<&str> =
        secrets.lines().filter_map(|line| line.split_once(": ")).map(|(_, v)| v).collect();
    for file in described.files.iter().filter(|file| !file.secret) {
        for line in secrets.lines().filter(|line| line.contains("key: ") || line.contains("secret: ")) {
            let value = line.split_once(": ").unwrap().1;
            assert!(!file.text.contains(value), "{told}: {} has a secret of the bundle", file.name);
        }
    }
    assert!(values.len() > 10);
}

#[test]
fn golden_configurations_render_the_same() {
    let Some(folder) = golden() else { return };
    let mut sets = 0;
    for (version, kind, contract) in [
        ("v1.8", "base", "1.11"),
        ("v1.10", "base", "1.11"),
        ("v1.12", "base", "1.12"),
        ("v1.13", "base", "1.13"),
        ("v1.13", "overrides", "1.13"),
        ("v1.14", "base", "1.14"),
    ] {
        let read = |role: &str| config(&folder.join(version).join(format!("{kind}-{role}.yaml")));
        let (plane, worker) = (read("controlplane"), read("worker"));
        let bundle = from_config(&plane).unwrap();
        let talos = if version == "v1.14" { Version::new(1, 14, 0) } else { Version::new(1, 13, 9) };
        for (planes, workers) in [(1, 0), (1, 1), (3, 2)] {
            let planes =
                (1..=planes).map(|n| node(&format!("cp-{n}"), Role::Controller, 10 + n, plane.clone()));
            let workers =
                (1..=workers).map(|n| node(&format!("w-{n}"), Role::Worker, 20 + n, worker.clone()));
            let nodes: Vec<LiveNode> = planes.chain(workers).collect();
            let told = format!("{version} {kind}, {} nodes", nodes.len());
            let described = described(&bundle, talos.clone(), nodes);
            assert_eq!(described.contract.to_string(), contract, "{told}");
            well(&told, &bundle, &described);
            let counts = described.patches;
            println!("{told}: contract {contract}, steps {counts:?}");
            sets += 1;
        }
    }
    println!("{sets} sets render what is live");
}

#[test]
fn what_is_shared_is_the_clusters_or_the_roles() {
    let Some(folder) = golden() else { return };
    let read = |role: &str| config(&folder.join(format!("v1.13/base-{role}.yaml")));
    let (plane, worker) = (read("controlplane"), read("worker"));
    let bundle = from_config(&plane).unwrap();
    let with = |config: &Config, text: &str| {
        let patch = Patch::parse(Source { name: "p", text }).unwrap();
        patch::apply(config.clone(), "c", &[patch]).unwrap().into_config("c").unwrap()
    };
    let all = "machine: {env: {HTTP_PROXY: 'http://proxy:3128', ODD: '${HOME} $$ #'}}\n";
    let control = "cluster: {apiServer: {extraArgs: {v: '3'}}}\n";
    let own = |last: u8| {
        format!(
            "machine: {{nodeLabels: {{rack: r{last}}}}}\n---\napiVersion: v1alpha1\nkind: RegistryAuthConfig\nname: ghcr.io\nusername: u\npassword: hush-{last}\n"
        )
    };
    let planes = (1..=3).map(|n| {
        let config = with(&with(&with(&plane, all), control), &own(n));
        node(&format!("cp-{n}"), Role::Controller, 10 + n, config)
    });
    let workers =
        (4..=5).map(|n| node(&format!("w-{n}"), Role::Worker, 10 + n, with(&with(&worker, all), &own(n))));
    let described = described(&bundle, Version::new(1, 13, 9), planes.chain(workers).collect());
    well("shared", &bundle, &described);
    let text = |name: &str| {
        let found = described.files.iter().find(|file| file.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {:?}", described.files)).text.clone()
    };
    assert!(text("patches/cluster.yaml").contains("HTTP_PROXY"));
    assert!(
        text("patches/cluster.yaml").contains("ODD: $${HOME} $$ #")
            || text("patches/cluster.yaml").contains("$${HOME}")
    );
    assert!(text("patches/controlplanes.yaml").contains("extraArgs"));
    for n in 1..=3 {
        let own = text(&format!("patches/nodes/cp-{n}.yaml"));
        assert!(!own.contains("rack") && !own.contains("hush"), "{own}");
        assert!(own.contains("password: \"${"), "{own}");
        assert!(text("nodes.yaml").contains(&format!("labels: {{rack: r{n}}}")), "{}", text("nodes.yaml"));
    }
    let variables = described.files.iter().find(|file| file.name == "talenv.yaml").unwrap();
    assert!(variables.secret && variables.text.contains("hush-1") && variables.text.contains("hush-5"));
    assert_eq!(described.variables.len(), 5);
    assert!(!format!("{described:?}").contains("hush"));
}

/// What an interrupted rotation left behind runs, so it is described; and it is named.
#[test]
fn authorities_of_others_are_kept_and_named() {
    let Some(folder) = golden() else { return };
    for (version, talos, place) in [
        ("v1.13", Version::new(1, 13, 9), "cluster.acceptedCAs"),
        ("v1.14", Version::new(1, 14, 0), "KubeAPIServerCAConfig acceptedCAs"),
    ] {
        let read = |role: &str| config(&folder.join(version).join(format!("base-{role}.yaml")));
        let (plane, worker) = (read("controlplane"), read("worker"));
        let bundle = from_config(&plane).unwrap();
        let now = talmox_machine::Time::from_unix(1_790_000_000);
        let mut stranger =
            Bundle::generate(talmox_types::Contract::new(1, 13), now, &mut talmox_machine::SystemRandom)
                .unwrap();
        for realm in talmox_types::Realm::ALL {
            stranger.begin_rotation(realm, now, &mut talmox_machine::SystemRandom).unwrap();
        }
        let accepted = talmox_types::Phase::Accepted;
        let phases = talmox_types::Phases { talos: accepted, kubernetes: accepted };
        let with = |config: &Config| stranger.accept(config.clone(), phases).unwrap();
        let nodes = vec![
            node("cp-1", Role::Controller, 11, with(&plane)),
            node("w-1", Role::Worker, 21, with(&worker)),
        ];
        let made = described(&bundle, talos.clone(), nodes);
        well(version, &bundle, &made);
        let found: Vec<_> = made
            .strangers
            .iter()
            .map(|one| (one.accepted.realm.word(), one.accepted.place, one.file.as_str()))
            .collect();
        assert!(
            found.contains(&("talos", "machine.acceptedCAs", "patches/cluster.yaml")),
            "{version}: {found:?}"
        );
        assert!(
            found.iter().any(|(realm, at, _)| *realm == "kubernetes" && *at == place),
            "{version}: {found:?}"
        );
        assert!(
            made.strangers
                .iter()
                .all(|one| one.accepted.fingerprint.len() == 64 && one.accepted.ends.is_some())
        );
        let clean = vec![node("cp-1", Role::Controller, 11, plane.clone())];
        assert!(described(&bundle, talos, clean).strangers.is_empty());
    }
}

/// What has a key is said there: once for all nodes, for a role, or for a node. What a key cannot say stays a patch.
#[test]
fn what_has_a_key_becomes_one() {
    let Some(folder) = golden() else { return };
    let read = |role: &str| config(&folder.join(format!("v1.13/base-{role}.yaml")));
    let (plane, worker) = (read("controlplane"), read("worker"));
    let bundle = from_config(&plane).unwrap();
    let with = |config: &Config, texts: &[&str]| {
        let patches = texts.iter().map(|text| Patch::parse(Source { name: "p", text }).unwrap());
        let patches: Vec<Patch> = patches.collect();
        patch::apply(config.clone(), "c", &patches).unwrap().into_config("c").unwrap()
    };
    let all = "machine: {nodeLabels: {site: 'yes', empty: ''}, nodeAnnotations: {example.com/a: b c}}\n";
    let mirror = "apiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: docker.io\nendpoints: [{url: https://mirror.lan}]\n";
    let workers = "machine: {nodeTaints: {dedicated: 'gpu:NoSchedule', spot: NoExecute}, kernel: {modules: [{name: nbd}]}}\n";
    let module = "machine: {kernel: {modules: [{name: zfs, parameters: [zfs_arc_max=1]}]}}\n";
    let planes =
        [1, 2, 3].map(|n| node(&format!("cp-{n}"), Role::Controller, 10 + n, with(&plane, &[all, mirror])));
    let first = node("w-1", Role::Worker, 21, with(&worker, &[all, mirror, workers]));
    let second = with(&worker, &[all, mirror, workers, "machine: {nodeLabels: {rack: two}}\n"]);
    let second = node("w-2", Role::Worker, 22, second);
    let talos = Version::new(1, 13, 9);
    let nodes: Vec<LiveNode> = planes.clone().into_iter().chain([first, second]).collect();
    let made = described(&bundle, talos.clone(), nodes);
    well("settings", &bundle, &made);
    let text = |made: &Described, name: &str| {
        made.files.iter().find(|file| file.name == name).map(|file| file.text.clone()).unwrap_or_default()
    };
    let cluster = text(&made, "cluster.yaml");
    for said in [
        "registry_mirrors: {docker.io: [https://mirror.lan]}",
        "labels: {empty: \"\", site: \"yes\"}",
        "annotations: {example.com/a: \"b c\"}",
        "taints: [\"dedicated=gpu:NoSchedule\", spot:NoExecute]",
        "kernel_modules: [nbd]",
    ] {
        assert!(cluster.contains(said), "no {said} in\n{cluster}");
    }
    assert!(text(&made, "nodes.yaml").contains("labels: {rack: two}"), "{}", text(&made, "nodes.yaml"));
    for file in
        made.files.iter().filter(|file| file.name.starts_with("patches/") && !file.name.contains("removed"))
    {
        let left = ["site", "example.com/a", "dedicated", "nbd", "mirror.lan", "rack"];
        let found = left.iter().find(|word| file.text.contains(**word));
        assert!(found.is_none(), "{found:?} is left in {}:\n{}", file.name, file.text);
    }
    // A module with parameters has no word.
    let odd = node("w-1", Role::Worker, 21, with(&worker, &[module]));
    let made = described(&bundle, talos, planes.into_iter().chain([odd]).collect());
    well("a module with parameters", &bundle, &made);
    assert!(!text(&made, "cluster.yaml").contains("zfs") && !text(&made, "nodes.yaml").contains("zfs"));
    assert!(
        made.files.iter().any(|file| file.name.starts_with("patches/") && file.text.contains("zfs_arc_max"))
    );
}

/// Machines with an address of either family are described with both, in the order they have them.
#[test]
fn addresses_of_both_families_are_described() {
    let Some(folder) = golden() else { return };
    for (version, talos) in [("v1.13", Version::new(1, 13, 9)), ("v1.14", Version::new(1, 14, 0))] {
        let read = |role: &str| config(&folder.join(format!("{version}/base-{role}.yaml")));
        let (plane, worker) = (read("controlplane"), read("worker"));
        let bundle = from_config(&plane).unwrap();
        let with = |config: &Config, last: u8| {
            let text = format!(
                "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses: [{{address: 10.0.7.{last}/24}}, {{address: 'fd00:7::{last}/64'}}]\nroutes: [{{gateway: 10.0.7.1}}, {{gateway: 'fd00:7::1'}}]\n"
            );
            let patch = Patch::parse(Source { name: "p", text: &text }).unwrap();
            patch::apply(config.clone(), "c", &[patch]).unwrap().into_config("c").unwrap()
        };
        // Whichever of them it was asked at.
        let asked_at_six = |node: LiveNode| LiveNode { address: "fd00:7::21".parse().unwrap(), ..node };
        let nodes = vec![
            node("cp-1", Role::Controller, 11, with(&plane, 11)),
            asked_at_six(node("w-1", Role::Worker, 21, with(&worker, 21))),
        ];
        let made = described(&bundle, talos.clone(), nodes);
        well(version, &bundle, &made);
        let text = |name: &str| made.files.iter().find(|file| file.name == name).unwrap().text.clone();
        for (file, said) in [
            ("cluster.yaml", "node_cidr: [10.0.7.0/24, fd00:7::/64]"),
            ("cluster.yaml", "node_gateway: [10.0.7.1, fd00:7::1]"),
            ("nodes.yaml", "address: [10.0.7.11, fd00:7::11]"),
            ("nodes.yaml", "address: [10.0.7.21, fd00:7::21]"),
        ] {
            assert!(text(file).contains(said), "{version}: no {said} in\n{}", text(file));
        }
        // Where only some have both, all are described with the one they were asked at.
        let single =
            "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses: [{address: 10.0.7.21/24}]\n";
        let patch = Patch::parse(Source { name: "p", text: single }).unwrap();
        let single = patch::apply(worker.clone(), "c", &[patch]).unwrap().into_config("c").unwrap();
        let nodes =
            vec![node("cp-1", Role::Controller, 11, with(&plane, 11)), node("w-1", Role::Worker, 21, single)];
        let made = described(&bundle, talos.clone(), nodes);
        well(&format!("{version}, one with both"), &bundle, &made);
    }
}
