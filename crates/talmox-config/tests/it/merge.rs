//! Properties of the merge: the nearest place wins, whatever the order in which things are written, and `explain` names
//! the place that won.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use proptest::prelude::*;
use talmox_config::{Files, Rank, explain, read_files};
use talmox_types::desired::{Desired, Node};

/// Cases of each property; CI runs this many.
const CASES: u32 = 256;

/// A setting that every place can have: its key, and values that are told apart.
const SETTINGS: [(&str, [&str; 5]); 9] = [
    ("cores", ["1", "2", "3", "5", "6"]),
    ("memory", ["2048", "3072", "4096", "5120", "6144"]),
    ("disk_size", ["20", "30", "40", "50", "60"]),
    ("proxmox_storage", ["tank-a", "tank-b", "tank-c", "tank-d", "tank-e"]),
    ("cpu_type", ["kvm64", "max", "x86-64-v2", "x86-64-v3", "x86-64-v4"]),
    ("tags", ["[a]", "[b]", "[c, d]", "[e]", "[f, g]"]),
    ("startup_delay", ["1", "2", "3", "4", "5"]),
    ("network_bridge", ["vmbr1", "vmbr2", "vmbr3", "vmbr4", "vmbr5"]),
    ("vm_power", ["running", "stopped", "running", "stopped", "running"]),
];

/// The places a setting can stand in, from the farthest to the nearest.
const PLACES: [Rank; 4] = [Rank::Cluster, Rank::Role, Rank::Pool, Rank::Node];

/// Which of the settings stands in which place: an index of its values, or none.
type Choice = Vec<[Option<usize>; 4]>;

fn choices() -> impl Strategy<Value = Choice> {
    let value = proptest::option::of(0_usize..5);
    proptest::collection::vec([value.clone(), value.clone(), value.clone(), value], SETTINGS.len())
}

/// The lines of one place, in the order a permutation of the settings gives.
fn lines(choice: &Choice, place: usize, order: &[usize], indent: &str) -> String {
    order
        .iter()
        .filter_map(|setting| {
            let (key, values) = SETTINGS[*setting];
            choice[*setting][place].map(|value| format!("{indent}{key}: {}\n", values[value]))
        })
        .collect()
}

/// A description with one node (which is in no pool) and one pool, both workers.
fn description(choice: &Choice, order: &[usize], blocks_reversed: bool) -> String {
    let block =
        |key: &str, lines: String| if lines.is_empty() { String::new() } else { format!("{key}:\n{lines}") };
    let mut blocks = [
        "cluster_uid: \"0123456789abcdef\"\nnode_cidr: 10.0.7.0/24\n".to_owned(),
        block("proxmox_vm_defaults", lines(choice, 0, order, "  ")),
        block("proxmox_vm_worker_defaults", lines(choice, 1, order, "  ")),
        format!(
            "node_pools:\n  - name: pool\n    count: 1\n    addresses: 10.0.7.20-29\n{}",
            lines(choice, 2, order, "    ")
        ),
        format!(
            "nodes:\n  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n  - name: single\n    address: 10.0.7.12\n{}",
            lines(choice, 3, order, "    ")
        ),
    ];
    if blocks_reversed {
        blocks.reverse();
    }
    blocks.concat()
}

fn resolve(text: &str) -> Desired {
    let outcome = read_files(Files::from_texts(text, None));
    assert_eq!(outcome.problems, [], "{text}");
    outcome.desired.unwrap()
}

fn node<'d>(desired: &'d Desired, name: &str) -> &'d Node {
    desired.nodes.iter().find(|node| node.name.as_str() == name).unwrap()
}

/// The value of a setting in the resolved model, as it would be written.
fn resolved(node: &Node, key: &str) -> String {
    let vm = &node.vm;
    match key {
        "cores" => vm.cores.to_string(),
        "memory" => vm.memory.to_string(),
        "disk_size" => vm.disk_size.to_string(),
        "proxmox_storage" => vm.storage.to_string(),
        "cpu_type" => vm.cpu_type.clone(),
        "tags" => format!("[{}]", vm.tags.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        "startup_delay" => vm.startup.up.to_string(),
        "vm_power" => format!("{:?}", node.vm.power).to_lowercase(),
        "network_bridge" => vm.nics[0].bridge.to_string(),
        other => unreachable!("{other} is not in the table"),
    }
}

fn permutation() -> impl Strategy<Value = Vec<usize>> {
    Just((0..SETTINGS.len()).collect::<Vec<_>>()).prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_never_matters(choice in choices(), order in permutation(), reversed: bool) {
        let straight: Vec<usize> = (0..SETTINGS.len()).collect();
        let first = resolve(&description(&choice, &straight, false));
        let second = resolve(&description(&choice, &order, reversed));
        prop_assert_eq!(first, second);
    }

    #[test]
    fn the_nearest_place_wins_and_explain_names_it(choice in choices(), order in permutation()) {
        let text = description(&choice, &order, false);
        let outcome = read_files(Files::from_texts(&text, None));
        let desired = outcome.desired.as_ref().unwrap();
        // The single node sees cluster, role and itself; the pooled one sees cluster, role and its pool.
        for (name, visible) in [("single", [0, 1, 3]), ("pool-1", [0, 1, 2])] {
            let member = outcome.description.member(name).unwrap();
            for (setting, (key, values)) in SETTINGS.iter().enumerate() {
                let winner = visible.iter().rev().find_map(|place| Some((*place, choice[setting][*place]?)));
                let explanation = explain(&outcome.description, &member, key).unwrap();
                let first = &explanation.candidates[0];
                let found = resolved(node(desired, name), key);
                prop_assert_eq!(explanation.value.as_ref(), Some(&found));
                prop_assert!(first.wins);
                match winner {
                    Some((place, value)) => {
                        prop_assert_eq!(&found, values[value]);
                        prop_assert_eq!(first.rank, PLACES[place]);
                        let line: usize = first.place.strip_prefix("cluster.yaml:").unwrap().parse().unwrap();
                        let written = text.lines().nth(line - 1).unwrap().trim();
                        prop_assert_eq!(written, format!("{key}: {}", values[value]));
                    }
                    None => prop_assert_eq!(first.rank, Rank::BuiltIn),
                }
                // Everything that has a say is listed, the built-in value too.
                let says = visible.iter().filter(|place| choice[setting][**place].is_some()).count();
                prop_assert_eq!(explanation.candidates.len(), says + 1);
            }
        }
    }

    #[test]
    fn labels_merge_key_by_key_and_the_nearest_wins(
        far in proptest::collection::btree_map("[a-d]", "[w-z]", 0..4),
        near in proptest::collection::btree_map("[a-d]", "[w-z]", 0..4),
    ) {
        let block = |labels: &std::collections::BTreeMap<String, String>, indent: &str| {
            let lines: String = labels.iter().map(|(k, v)| format!("{indent}  {k}: \"{v}\"\n")).collect();
            if lines.is_empty() { String::new() } else { format!("{indent}labels:\n{lines}") }
        };
        let defaults = block(&far, "  ");
        let text = format!(
            "cluster_uid: \"0123456789abcdef\"\n{}nodes:\n  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n{}",
            if defaults.is_empty() { String::new() } else { format!("proxmox_vm_defaults:\n{defaults}") },
            block(&near, "    "),
        );
        let desired = resolve(&text);
        let mut expected = far.clone();
        expected.extend(near);
        prop_assert_eq!(&node(&desired, "cp-1").labels, &expected);
    }
}

#[test]
fn a_template_is_named_in_every_way_and_the_nearest_wins() {
    use talmox_types::desired::TemplateRef::{Id, Name, Tagged};
    use talmox_types::{Tag, VmId};
    let text = "cluster_uid: \"0123456789abcdef\"\nnode_cidr: 10.0.7.0/24\ntemplate: {name: talos, tags: [prod]}\n\
                proxmox_vm_worker_defaults: {template: {tags: gpu}}\nnodes:\n  \
                - {name: cp-1, address: 10.0.7.11, controller: true}\n  \
                - {name: w-1, address: 10.0.7.12}\n  \
                - {name: w-2, address: 10.0.7.13, template: {vmid: 9000}}\n  \
                - {name: w-3, address: 10.0.7.14, template: \"9001\"}\n  \
                - {name: w-4, address: 10.0.7.15, template: {name: talos}}\n  \
                - {name: w-5, address: 10.0.7.16, template: talos}\n";
    let desired = resolve(text);
    let tags = |tag: &str| vec![Tag::parse(tag).unwrap()];
    let id = |id: u32| Id(VmId::try_from(id).unwrap());
    for (name, template) in [
        ("cp-1", Tagged { name: Some("talos".into()), tags: tags("prod") }),
        ("w-1", Tagged { name: None, tags: tags("gpu") }),
        ("w-2", id(9000)),
        ("w-3", id(9001)),
        ("w-4", Name("talos".into())),
        ("w-5", Name("talos".into())),
    ] {
        assert_eq!(node(&desired, name).vm.template, Some(template), "{name}");
    }
}

#[test]
fn patches_add_up_from_the_farthest_to_the_nearest() {
    let text = "cluster_uid: \"0123456789abcdef\"\npatches: [top.yaml]\nproxmox_vm_defaults: {patches: [all.yaml]}\n\
                proxmox_vm_controller_defaults: {patches: [\"@role.yaml\"]}\nnodes:\n  - name: cp-1\n    \
                address: 10.0.7.11\n    controller: true\n    patches:\n      - machine: {sysctls: {a: \"1\"}}\n";
    let desired = resolve(text);
    assert_eq!(
        format!("{:?}", node(&desired, "cp-1").patches),
        r#"[File("top.yaml"), File("all.yaml"), File("role.yaml"), Inline("machine:\n  sysctls:\n    a: \"1\"\n")]"#
    );
}

#[test]
fn merge_keys_give_way_to_what_is_written_out() {
    let text = "cluster_uid: \"0123456789abcdef\"\nnodes:\n  - &first\n    name: cp-1\n    address: 10.0.7.11\n    \
                controller: true\n    vm_cores: 2\n    vm_memory: 4096\n  - <<: *first\n    name: worker-1\n    \
                address: 10.0.7.12\n    controller: false\n    cores: 6\n";
    let desired = resolve(text);
    let worker = node(&desired, "worker-1");
    assert_eq!((worker.vm.cores, worker.vm.memory), (6, 4096));
}
