use super::*;

fn read_all(text: &str) -> (FaultPlan, Trouble, String) {
    let mut sources = Sources::default();
    let source = sources.add("faults.yaml".to_owned(), text.to_owned(), None);
    let hosts = ["pve1".to_owned(), "pve2".to_owned()];
    let mut reader = Reader::new(source, &hosts);
    let plan = reader.plan(text);
    (plan, reader.trouble, report(&sources, &reader.problems, Colour::Never))
}

/// What a file says of nodes.
pub(super) fn read_nodes(text: &str) -> (NodeFaults, String) {
    let mut sources = Sources::default();
    let source = sources.add("faults.yaml".to_owned(), text.to_owned(), None);
    let mut reader = Reader::new(source, &[]);
    reader.plan(text);
    (reader.nodes, report(&sources, &reader.problems, Colour::Never))
}

fn read_text(text: &str) -> (FaultPlan, String) {
    let (plan, _, problems) = read_all(text);
    (plan, problems)
}

#[test]
fn what_is_wrong_with_the_factory_can_be_written() {
    let (_, trouble, problems) =
        read_all("factory: {dead: true, slow: 20s, cut: 1000, missing: [v1.13.9, 1.12.0]}");
    assert_eq!(problems, "");
    let missing = ["v1.12.0", "v1.13.9"].map(ToOwned::to_owned).into();
    assert_eq!(trouble, Trouble { dead: true, slow: 20_000, cut: Some(1000), missing });
    let (_, _, problems) =
        read_all("factory: {ded: true, slow: soon, cut: -1, missing: [newest]}\nfaults: []");
    for words in
        ["factory has no ded", "slow: soon will not do", "cut: -1 will not do", "missing: not a version"]
    {
        assert!(problems.contains(words), "{words} in {problems}");
    }
}

/// What the n-th call of a kind meets.
fn met(plan: &mut FaultPlan, calls: &[(&str, &str)]) -> Vec<Option<Fault>> {
    calls.iter().map(|(method, path)| plan.take("pve1", method, path)).collect()
}

#[test]
fn every_kind_can_be_written() {
    let kinds = [
        ("error, text: no", Fault::Answer { status: 500, text: "no".into(), happens: false }),
        (
            "error, status: 401",
            Fault::Answer { status: 401, text: "Authentication failed!".into(), happens: false },
        ),
        (
            "error, status: 596, happens: true",
            Fault::Answer { status: 596, text: "Connection timed out".into(), happens: true },
        ),
        ("hang", Fault::Hang),
        ("slow, by: 20s", Fault::Slow { by: 20_000 }),
        ("lost-reply", Fault::LoseReply),
        ("cut-body, bytes: 5", Fault::CutBody { after: 5 }),
        ("close-idle", Fault::CloseIdle),
        ("kill-worker, after: 3s", Fault::KillWorker { after: 3_000 }),
        ("fail-worker, after: 1m, text: full", Fault::FailWorker { after: 60_000, text: "full".into() }),
        ("host-down", Fault::HostDown),
        (
            "host-lost, node: pve2, back: 5m",
            Fault::LoseHost { host: Some("pve2".into()), after: 0, back: Some(300_000) },
        ),
        ("clock-jump, by: -2h", Fault::JumpClock { by: -7_200_000 }),
        ("busy, lasts: 40s", Fault::BusyHost { lasts: 40_000 }),
        ("disk-error", Fault::DiskError),
        ("backup, lasts: 10m", Fault::Backup { lasts: 600_000 }),
    ];
    let written: std::collections::BTreeSet<&str> =
        kinds.iter().filter_map(|(text, _)| text.split(',').next()).collect();
    assert_eq!(written.len(), KINDS.len(), "every kind is tried");
    for (text, expected) in kinds {
        let (mut plan, problems) = read_text(&format!("faults: [{{fault: {text}}}]"));
        assert_eq!(problems, "");
        assert_eq!(plan.take("pve1", "GET", "/version"), Some(expected), "{text}");
    }
}

#[test]
fn calls_are_chosen_by_method_path_host_and_number() {
    let (mut plan, problems) = read_text(
        "faults:\n- {fault: hang, calls: POST */clone, at: 2, times: 2}\n- {fault: lost-reply, host: pve2, times: all}\n",
    );
    assert_eq!(problems, "");
    let clone = ("POST", "/api2/json/nodes/pve1/qemu/9000/clone");
    assert_eq!(
        met(&mut plan, &[clone, ("GET", "/version"), clone, clone, clone]),
        [None, None, Some(Fault::Hang), Some(Fault::Hang), None]
    );
    assert_eq!(plan.take("pve2", "GET", "/version"), Some(Fault::LoseReply));
    assert_eq!(plan.take("pve2", "GET", "/version"), Some(Fault::LoseReply));
}

#[test]
fn a_chance_holds_for_all_calls_and_repeats() {
    let hits = |seed: u64| -> Vec<bool> {
        let (mut plan, problems) =
            read_text(&format!("seed: {seed}\nfaults: [{{fault: hang, chance: 0.5}}]"));
        assert_eq!(problems, "");
        (0..100).map(|_| plan.take("pve1", "GET", "/x").is_some()).collect()
    };
    assert_eq!(hits(1), hits(1));
    assert!((30..70).contains(&hits(1).iter().filter(|hit| **hit).count()));
    assert_ne!(hits(1), hits(2));
}

#[test]
fn mistakes_are_all_named_with_place_and_remedy() {
    let (_, problems) = read_text(
        "seeds: 1
faults:
  - fault: eror
  - fault: slow
  - fault: error
    status: 200
    text: no
  - fault: hang
    after: 2s
    chance: 20
    calls: clone
  - fault: host-lost
    node: pve9
    after: 20
  - calls: GET /version
",
    );
    insta::assert_snapshot!(problems);
}

/// A document as a reader of the schema sees it.
fn as_json(text: &str) -> serde_json::Value {
    fn convert(node: &Node) -> serde_json::Value {
        match &node.kind {
            NodeKind::Sequence(items) => items.iter().map(convert).collect(),
            NodeKind::Mapping(entries) => entries
                .iter()
                .map(|entry| (key_of(entry).to_owned(), convert(&entry.value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            NodeKind::Scalar(scalar) if scalar.style == talmox_yaml::Style::Plain => {
                serde_json::from_str(&scalar.text).unwrap_or_else(|_| scalar.text.clone().into())
            }
            NodeKind::Scalar(scalar) => scalar.text.clone().into(),
        }
    }
    convert(&talmox_yaml::parse(text).documents[0])
}

#[test]
fn the_example_is_valid_and_so_says_the_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/faults/faults.yaml");
    let text = text_of(&path).unwrap();
    let (plan, problems) = read_text(&text);
    assert_eq!((problems.as_str(), plan.len()), ("", 5));
    let value: serde_json::Value = as_json(&text);
    let schema = jsonschema::validator_for(&json_schema()).unwrap();
    assert!(
        schema.is_valid(&value),
        "{:?}",
        schema.iter_errors(&value).map(|e| e.to_string()).collect::<Vec<_>>()
    );
    for wrong in [
        "{}",
        "faults: [{fault: eror}]",
        "faults: [{fault: hang, after: 2s}]",
        "faults: [{fault: slow, by: 20}]",
    ] {
        let value: serde_json::Value = as_json(wrong);
        assert!(!schema.is_valid(&value), "{wrong}");
    }
}
