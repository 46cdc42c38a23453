//! Patches: their order, their variables, and what is refused with both places.

use crate::support::{Around, NODES, at, bundle, of, pinned, rendered, try_render};

fn patched(
    minor: u16,
    node: &str,
    patches: &[(&'static str, &str)],
) -> Result<talmox_machine::Config, String> {
    let around = Around {
        patches: patches.iter().map(|(name, text)| (*name, (*text).to_owned())).collect(),
        variables: vec![("TOKEN", "s3cret"), ("NAME", "lab")],
        ..Around::default()
    };
    let text = format!("{}{NODES}", pinned(minor));
    try_render(&text, node, &around).map(|rendered| rendered.config).map_err(|error| error.to_string())
}

fn refused(minor: u16, patches: &[(&'static str, &str)]) -> String {
    patched(minor, "worker-1", patches).map(|config| config.to_yaml()).expect_err("an error")
}

#[test]
fn later_patches_have_the_last_word_and_all_come_after_the_description() {
    let config = patched(
        13,
        "worker-1",
        &[
            ("one.yaml", "machine: {sysctls: {a: '1', b: '1'}, install: {disk: /dev/nvme0n1}}\n"),
            ("two.yaml", "machine: {sysctls: {b: '2'}}\n---\napiVersion: v1alpha1\nkind: WatchdogTimerConfig\ndevice: /dev/watchdog0\n"),
        ],
    )
    .unwrap();
    assert_eq!(at(&config, "machine.sysctls"), "a: \"1\"\nb: \"2\"");
    assert_eq!(at(&config, "machine.install.disk"), "/dev/nvme0n1");
    assert_eq!(of(&config, "WatchdogTimerConfig", "device"), "/dev/watchdog0");
}

#[test]
fn what_is_there_can_be_deleted() {
    let delete = "apiVersion: v1alpha1\nkind: TimeSyncConfig\n$patch: delete\n";
    let config = patched(13, "worker-1", &[("no-time.yaml", delete)]).unwrap();
    assert!(config.document("TimeSyncConfig").is_none());
    let escaped = delete.replace("$patch", "$$patch");
    let config = patched(13, "worker-1", &[("no-time.yaml", &escaped)]).unwrap();
    assert!(config.document("TimeSyncConfig").is_none());
}

#[test]
fn json_patches_work_on_one_document() {
    let json = "- {op: replace, path: /machine/network/hostname, value: other}\n";
    let config = patched(11, "worker-1", &[("json.yaml", json)]).unwrap();
    assert_eq!(at(&config, "machine.network.hostname"), "other");
    let error = refused(13, &[("json.yaml", json)]);
    assert!(error.starts_with("json.yaml:1:1") && error.contains("strategic merge"), "{error}");
}

#[test]
fn variables_are_replaced_and_missing_ones_told_with_their_line() {
    let config =
        patched(13, "worker-1", &[("v.yaml", "machine:\n  env: {A: '${TOKEN}', B: '${B:-none}'}\n")])
            .unwrap();
    assert_eq!(at(&config, "machine.env"), "A: s3cret\nB: none");
    let error = refused(13, &[("v.yaml", "machine:\n  env:\n    A: ${MISSING}\n")]);
    assert!(error.starts_with("v.yaml:3: the variable MISSING is not set"), "{error}");
}

#[test]
fn errors_after_substitution_repeat_no_value() {
    let error = refused(13, &[("v.yaml", "machine:\n  kubelet: ${TOKEN}\n")]);
    assert!(error.contains("v.yaml:2") && !error.contains("s3cret"), "{error}");
}

#[test]
fn a_section_beside_the_document_that_took_its_place_is_refused_with_both_places() {
    for (text, parts) in [
        (
            "machine:\n  network:\n    hostname: other\n",
            ["net.yaml:3:15: machine.network.hostname", "HostnameConfig is made from the description"],
        ),
        (
            "machine:\n  network:\n    nameservers: [9.9.9.9]\n",
            ["net.yaml:3:18: machine.network.nameservers", "ResolverConfig is made from the description"],
        ),
        (
            "machine:\n  time:\n    servers: [a.lan]\n",
            ["net.yaml:3:14: machine.time.servers", "TimeSyncConfig is made from the description"],
        ),
    ] {
        let error = refused(13, &[("fine.yaml", "machine: {env: {A: b}}\n"), ("net.yaml", text)]);
        for part in parts {
            assert!(error.contains(part), "{part}\n{error}");
        }
    }
    let error = refused(
        14,
        &[(
            "old.yaml",
            "cluster:\n  proxy:\n    disabled: true\nmachine: {kubelet: {registerWithFQDN: true}}\n",
        )],
    );
    assert!(error.contains("machine.kubelet") && error.contains("KubeletConfig is made from"), "{error}");
}

#[test]
fn a_document_beside_the_section_it_takes_the_place_of_is_refused_with_both_places() {
    let text = "apiVersion: v1alpha1\nkind: KubeletConfig\nimage: ghcr.io/siderolabs/kubelet:v1.36.3\n";
    let lines = pinned(14).replace("\"1.14\"", "\"1.13\"");
    let around = Around { patches: vec![("kubelet.yaml", text.to_owned())], ..Around::default() };
    let error = try_render(&format!("{lines}{NODES}"), "worker-1", &around).unwrap_err().to_string();
    assert!(error.contains("kubelet.yaml:1:1"), "{error}");
    assert!(error.contains("machine.kubelet is made from the description"), "{error}");
}

#[test]
fn two_patches_that_exclude_each_other_are_both_named() {
    let lines = pinned(14).replace("\"1.14\"", "\"1.13\"");
    let around = Around {
        patches: vec![
            ("first.yaml", "machine: {baseRuntimeSpecOverrides: {a: b}}\n".to_owned()),
            (
                "second.yaml",
                "apiVersion: v1alpha1\nkind: CRIBaseRuntimeSpecConfig\noverrides: {a: c}\n".to_owned(),
            ),
        ],
        ..Around::default()
    };
    let error = try_render(&format!("{lines}{NODES}"), "worker-1", &around).unwrap_err().to_string();
    assert!(error.contains("second.yaml:1:1") && error.contains("from first.yaml:1:"), "{error}");
}

#[test]
fn what_would_come_to_nothing_is_refused() {
    for (text, place, words) in [
        ("machine:\n  install: null\n", "p.yaml:2:12: machine.install", "null changes nothing"),
        ("machine:\n  certSANs: []\n", "p.yaml:2:13: machine.certSANs", "empty list adds nothing"),
        ("cluster:\n  clusterName: ''\n", "p.yaml:2:16: cluster.clusterName", "empty text changes nothing"),
        (
            "apiVersion: v1alpha1\nkind: KmsgLogConfig\nname: none\n$patch: delete\n",
            "p.yaml:1:1",
            "there is no KmsgLogConfig none to delete from",
        ),
        ("machine:\n  time:\n    servers:\n      $patch: delete\n", "p.yaml:4:", ""),
        ("machine:\n  nonsense: 1\n", "p.yaml:2:13: machine.nonsense", ""),
    ] {
        let error = refused(13, &[("p.yaml", text)]);
        assert!(error.contains(place) && error.contains(words), "{text}\n{error}");
    }
}

#[test]
fn values_that_are_empty_for_a_reason_stay() {
    let text = "machine:\n  nodeLabels: {a: ''}\n  kubelet: {extraConfig: {b: null, c: []}}\n";
    assert_eq!(at(&patched(13, "worker-1", &[("p.yaml", text)]).unwrap(), "machine.nodeLabels"), "a: \"\"");
}

#[test]
fn a_document_a_version_does_not_know_is_the_patchs_fault() {
    let text = "apiVersion: v1alpha1\nkind: OOMConfig\nsampleInterval: 1s\n";
    let error = refused(11, &[("oom.yaml", text)]);
    assert!(error.contains("oom.yaml:1:1") && error.contains("Talos 1.11 does not know"), "{error}");
}

#[test]
fn patches_of_a_control_plane_hold_there_too() {
    let around = Around {
        patches: vec![("cp.yaml", "cluster: {apiServer: {extraArgs: {v: '2'}}}\n".to_owned())],
        ..Around::default()
    };
    for node in ["cp-1", "worker-1"] {
        let config = rendered(&format!("{}{NODES}", pinned(13)), node, &around).config;
        assert_eq!(at(&config, "cluster.apiServer.extraArgs"), "v: \"2\"");
    }
}

#[test]
fn what_patches_have_machines_accept_is_told_with_its_place() {
    let certificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    let legacy = format!(
        "machine:\n  acceptedCAs:\n    - crt: {certificate}\ncluster:\n  acceptedCAs:\n    - crt: {certificate}\n"
    );
    let pem = bundle().kubernetes.certificate.pem().trim_end().replace('\n', "\n    ");
    let document =
        format!("apiVersion: v1alpha1\nkind: KubeAPIServerCAConfig\nacceptedCAs:\n  - |\n    {pem}\n");
    let accepts = |minor: u16, text: &str| {
        let patches =
            vec![("one.yaml", "machine: {sysctls: {a: '1'}}\n".to_owned()), ("two.yaml", text.to_owned())];
        let around = Around { patches, ..Around::default() };
        let rendered = try_render(&format!("{}{NODES}", pinned(minor)), "cp-1", &around).unwrap();
        rendered.accepts.into_iter().map(|one| (one.realm.word(), one.place)).collect::<Vec<_>>()
    };
    assert_eq!(
        accepts(13, &legacy),
        [
            ("talos", "two.yaml:3:5: machine.acceptedCAs".to_owned()),
            ("kubernetes", "two.yaml:6:5: cluster.acceptedCAs".to_owned()),
        ]
    );
    assert_eq!(accepts(14, &document), [("kubernetes", "two.yaml:4:3: acceptedCAs".to_owned())]);
    assert_eq!(accepts(13, "machine: {sysctls: {b: '1'}}\n"), []);
}

#[test]
fn what_variables_stood_for_is_known_to_be_hidden() {
    let around = Around {
        patches: vec![("one.yaml", "machine: {sysctls: {a: 'x-${TOKEN}', b: '${SIZE}'}}\n".to_owned())],
        variables: vec![("TOKEN", "s3cret"), ("SIZE", "4096"), ("OTHER", "unnamed")],
        ..Around::default()
    };
    let rendered = try_render(&format!("{}{NODES}", pinned(13)), "cp-1", &around).unwrap();
    let hidden: Vec<&str> = rendered.hidden.texts().collect();
    assert!(
        hidden.contains(&"s3cret") && hidden.contains(&"unnamed") && !hidden.contains(&"4096"),
        "{hidden:?}"
    );
    let shown = rendered.config.guarded(&rendered.hidden).to_yaml();
    assert!(!shown.contains("s3cret") && shown.contains("4096"));
}

/// An error of a node of a contract, with these patches and `SECRET`.
fn error_with(minor: u16, secret: &'static str, patch: &str) -> String {
    let around = Around {
        patches: vec![("p.yaml", patch.to_owned())],
        variables: vec![("SECRET", secret), ("JSON", "{\"private_key\": \"correct-horse\"}")],
        ..Around::default()
    };
    let text = format!("{}{NODES}", pinned(minor));
    let error = try_render(&text, "cp-1", &around).map(|rendered| rendered.config.to_yaml());
    error.expect_err("an error").to_string()
}

#[test]
fn no_error_says_what_a_variable_stands_for() {
    const SECRET: &str = "swordfish-staple";
    for (minor, patch) in [
        (13, "machine: {\"${SECRET}\": 1}\n"),
        (13, "machine:\n  ${SECRET}: 1\n"),
        (13, "machine: {files: [{path: /x, \"a-${SECRET}\": 1}]}\n"),
        (13, "apiVersion: v1alpha1\nkind: ${SECRET}\n"),
        (13, "apiVersion: ${SECRET}\nkind: HostnameConfig\n"),
        (13, "machine: {kubelet: ${SECRET}}\n"),
        (13, "machine: {sysctls: ${JSON}}\n"),
        (13, "machine: {nodeLabels: {\"${SECRET} x\": \"1\"}}\n"),
        (13, "machine: {nodeTaints: {a: \"${SECRET}:b:c\"}}\n"),
        (13, "machine: {\"${SECRET}\": {$patch: delete}}\n"),
        (13, "cluster: {apiServer: {extraArgs: {x: {$patch: delete, \"${SECRET}\": 1}}}}\n"),
        (13, "apiVersion: v1alpha1\nkind: RegistryAuthConfig\nname: ${SECRET}\n$patch: delete\n"),
        (13, "apiVersion: v1alpha1\nkind: ${SECRET}\nname: x\n$patch: delete\n"),
        (
            13,
            "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: ${SECRET}_\nprovisioning: {minSize: 1GB}\n",
        ),
        (
            13,
            "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\nprovisioning:\n  minSize: 1GB\n  diskSelector: {match: \"${SECRET}\"}\n",
        ),
        (11, "- {op: add, path: \"/machine/${SECRET}/x\", value: 1}\n"),
        (11, "- {op: \"${SECRET}\", path: /machine}\n"),
        (11, "- {op: test, path: \"/machine/a~0${SECRET}\", value: 1}\n"),
        (11, "- {op: add, path: \"/machine/${SECRET}\", value: 1}\n"),
    ] {
        let error = error_with(minor, SECRET, patch);
        for part in ["swordfish", "staple", "correct-horse"] {
            assert!(!error.contains(part), "{patch}\n{error}");
        }
        assert!(error.contains("p.yaml") || error.contains("the configuration of"), "{patch}\n{error}");
    }
    // A secret with what a place in a JSON patch escapes.
    let error = error_with(11, "sword~fish/x", "- {op: add, path: \"/machine/${SECRET}/x\", value: 1}\n");
    assert!(!error.contains("fish"), "{error}");
}

#[test]
fn all_variables_without_a_value_are_told_at_once() {
    let error = refused(
        13,
        &[
            ("a.yaml", "machine:\n  env: {A: \"${ONE}\", B: \"${TWO}\"}\n"),
            ("b.yaml", "\nmachine:\n  env: {C: '${ONE}'}\n"),
        ],
    );
    assert_eq!(
        error,
        "a.yaml:2: the variable ONE is not set\na.yaml:2: the variable TWO is not set\nb.yaml:3: the variable ONE is not set"
    );
}

#[test]
fn a_value_never_changes_what_a_patch_is_made_of() {
    let around = Around {
        patches: vec![(
            "p.yaml",
            "machine:\n  sysctls:\n    ${KEY}: ${MAP}\n    b: ${LIST}\n    c: ${COMMENT}\n  kubelet:\n    registerWithFQDN: ${YES}\n"
                .to_owned(),
        )],
        variables: vec![("KEY", "a: 1 #"), ("MAP", "{x: 1}"), ("LIST", "- x"), ("COMMENT", "1 # 2"), ("YES", "true")],
        ..Around::default()
    };
    let config = rendered(&format!("{}{NODES}", pinned(13)), "cp-1", &around).config;
    assert_eq!(at(&config, "machine.kubelet.registerWithFQDN"), "true");
    let sysctls = config.at(&["machine", "sysctls"]).and_then(talmox_machine::Value::as_map).unwrap();
    let text = |key: &str| sysctls.get(key).and_then(talmox_machine::Value::as_text).map(str::to_owned);
    assert_eq!(text("a: 1 #").as_deref(), Some("{x: 1}"));
    assert_eq!((text("b").as_deref(), text("c").as_deref()), (Some("- x"), Some("1 # 2")));
}
