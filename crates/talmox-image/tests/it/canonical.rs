//! The canonical text of unusual values, and the ids of known schematics.

use proptest::prelude::*;
use talmox_image::{MetaValue, Overlay, Schematic, SecureBoot};

/// A text, and how the factory's own YAML library prints it as an item of a list eight deep.
const PRINTED: &[(&str, &str)] = &[
    ("", "\"\""),
    ("plain", "plain"),
    ("a b", "a b"),
    ("console=ttyS0,115200", "console=ttyS0,115200"),
    ("siderolabs/qemu-guest-agent", "siderolabs/qemu-guest-agent"),
    ("123", "\"123\""),
    ("-7", "\"-7\""),
    ("+7", "\"+7\""),
    ("007", "\"007\""),
    ("08", "\"08\""),
    ("0x1F", "\"0x1F\""),
    ("0b12", "0b12"),
    ("0o17", "\"0o17\""),
    ("0o18", "0o18"),
    ("1_000", "\"1_000\""),
    ("1__0", "\"1__0\""),
    ("_1", "_1"),
    ("1.5", "\"1.5\""),
    ("1.", "\"1.\""),
    ("-.5", "\"-.5\""),
    (".5", "\".5\""),
    (".5_5", "\".5_5\""),
    ("._5", "._5"),
    ("1e3", "\"1e3\""),
    ("1e", "1e"),
    ("1e999", "1e999"),
    ("18446744073709551615", "\"18446744073709551615\""),
    ("18446744073709551616", "\"18446744073709551616\""),
    ("99999999999999999999e9", "\"99999999999999999999e9\""),
    ("-0", "\"-0\""),
    ("-0.0", "\"-0.0\""),
    ("0", "\"0\""),
    ("1:30", "\"1:30\""),
    ("+190:20:30.15", "\"+190:20:30.15\""),
    ("1:60", "1:60"),
    ("12:30:45", "\"12:30:45\""),
    ("a:b", "a:b"),
    ("a: b", "'a: b'"),
    ("a:", "'a:'"),
    ("12:", "'12:'"),
    ("http://a:80/b", "http://a:80/b"),
    ("true", "\"true\""),
    ("True", "\"True\""),
    ("tRue", "tRue"),
    ("yes", "\"yes\""),
    ("No", "\"No\""),
    ("on", "\"on\""),
    ("OFF", "\"OFF\""),
    ("y", "\"y\""),
    ("n", "\"n\""),
    ("~", "\"~\""),
    ("null", "\"null\""),
    ("NULL", "\"NULL\""),
    (".nan", "\".nan\""),
    (".inf", "\".inf\""),
    ("+.inf", "\"+.inf\""),
    ("-.Inf", "\"-.Inf\""),
    ("inf", "inf"),
    ("<<", "\"<<\""),
    ("=", "="),
    ("2026-08-01", "\"2026-08-01\""),
    ("2026-8-1", "\"2026-8-1\""),
    ("2026-02-30", "2026-02-30"),
    ("2024-2-29", "\"2024-2-29\""),
    ("2026-08-01T10:00:00Z", "\"2026-08-01T10:00:00Z\""),
    ("2026-08-01t1:2:3.5+01:00", "\"2026-08-01t1:2:3.5+01:00\""),
    ("2026-08-01 10:00:00", "\"2026-08-01 10:00:00\""),
    ("2026-08-01  10:00:00,25", "\"2026-08-01  10:00:00,25\""),
    ("2026-08-01 10:00", "2026-08-01 10:00"),
    ("2026-08-01T10:00:00-24:60", "\"2026-08-01T10:00:00-24:60\""),
    ("2026-08", "2026-08"),
    ("# no comment", "'# no comment'"),
    ("a # comment", "'a # comment'"),
    ("a#b", "a#b"),
    ("a\t# c", "\"a\\t# c\""),
    ("- item", "'- item'"),
    ("-", "'-'"),
    ("--", "--"),
    ("-a", "-a"),
    ("---", "'---'"),
    ("--- a", "'--- a'"),
    ("...", "'...'"),
    ("? key", "'? key'"),
    ("?", "'?'"),
    ("?a", "?a"),
    (": v", "': v'"),
    (":a", ":a"),
    ("[a]", "'[a]'"),
    ("a[0]", "a[0]"),
    ("{a: b}", "'{a: b}'"),
    ("a, b", "a, b"),
    (",", "','"),
    ("&anchor", "'&anchor'"),
    ("*alias", "'*alias'"),
    ("!tag", "'!tag'"),
    ("!important", "'!important'"),
    ("| pipe", "'| pipe'"),
    ("|", "'|'"),
    ("> fold", "'> fold'"),
    ("%directive", "'%directive'"),
    ("@at", "'@at'"),
    ("`tick`", "'`tick`'"),
    ("it's", "it's"),
    ("'quoted'", "'''quoted'''"),
    ("'", "''''"),
    ("\"double\"", "'\"double\"'"),
    ("say \"hi\"", "say \"hi\""),
    ("back\\slash", "back\\slash"),
    (" leading", "' leading'"),
    ("trailing ", "'trailing '"),
    ("  ", "'  '"),
    ("a  b", "a  b"),
    ("tab\there", "\"tab\\there\""),
    ("\t", "\"\\t\""),
    ("größer", "größer"),
    ("漢字", "漢字"),
    ("\u{a0}", "\u{a0}"),
    ("non\u{a0}breaking", "non\u{a0}breaking"),
    ("\u{85}", "\"\\N\""),
    ("a\u{2028}b", "'a\u{2028}          b'"),
    ("\u{2029}end", "'\u{2029}          end'"),
    ("😀 smile", "\"\\U0001F600 smile\""),
    ("\u{feff}bom", "\"\\uFEFF\\x62\\x6F\\x6D\""),
    ("a\u{feff}b", "\"a\\uFEFFb\""),
    ("\u{0}", "\"\\0\""),
    ("\u{1b}[0m", "\"\\e[0m\""),
    ("\u{7f}", "\"\\x7F\""),
    ("\u{80}", "\"\\x80\""),
    ("\r", "\"\\r\""),
    ("a\rb", "\"a\\rb\""),
    ("one\ntwo", "|-\n          one\n          two"),
    ("one\ntwo\n", "|\n          one\n          two"),
    ("one\n\n", "|+\n          one\n"),
    ("\none", "|-\n\n          one"),
    ("\n", "\"\\n\""),
    ("\n\n", "\"\\n\\n\""),
    (" \n", "\" \\n\""),
    ("  indented\nnext", "|4-\n            indented\n          next"),
    (" lead\n\n", "|4+\n           lead\n"),
    ("one \ntwo", "\"one \\ntwo\""),
    ("one\n two", "|-\n          one\n           two"),
    ("one\ttab\ntwo", "|-\n          one\ttab\n          two"),
    ("with \"quotes\"\n# and: things\n", "|\n          with \"quotes\"\n          # and: things"),
    ("a\r\nb\r\n", "\"a\\r\\nb\\r\\n\""),
    ("a\n😀", "\"a\\n\\U0001F600\""),
    ("a\nb ", "\"a\\nb \""),
    ("a\n\u{2028}b\n", "|\n          a\n\u{2028}          b"),
    (
        "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: \"off\"\n",
        "|\n          apiVersion: v1alpha1\n          kind: HostnameConfig\n          auto: \"off\"",
    ),
];

fn with_argument(text: &str) -> Schematic {
    Schematic { extra_kernel_args: vec![text.to_owned()], ..Schematic::default() }
}

fn with_extensions(names: &[&str]) -> Schematic {
    let extensions = names.iter().map(|name| format!("siderolabs/{name}")).collect();
    Schematic { extensions, ..Schematic::default() }
}

#[test]
fn unusual_values_are_printed_as_the_factory_prints_them() {
    for (text, printed) in PRINTED {
        let expected = format!("customization:\n    extraKernelArgs:\n        - {printed}\n");
        assert_eq!(with_argument(text).canonical(), expected, "{text:?}");
    }
}

#[test]
fn lines_are_indented_by_where_they_stand() {
    let text = "one\n  two\n".to_owned();
    let schematic = Schematic {
        overlay: Some(Overlay { image: text.clone(), name: String::new(), options: Vec::new() }),
        embedded_machine_configuration: Some(text.clone()),
        meta: vec![MetaValue { key: 10, value: text.clone() }],
        extensions: vec![text, "last".to_owned()],
        ..Schematic::default()
    };
    insta::assert_snapshot!(schematic.canonical(), @r#"
    overlay:
        image: |
            one
              two
        name: ""
    customization:
        embeddedMachineConfiguration: |
            one
              two
        meta:
            - key: 10
              value: |
                one
                  two
        systemExtensions:
            officialExtensions:
                - |
                  one
                    two
                - last
    "#);
}

#[test]
fn known_schematics_have_their_known_ids() {
    let agent_and_console = Schematic {
        extra_kernel_args: vec!["console=ttyS0,115200".to_owned()],
        ..with_extensions(&["qemu-guest-agent"])
    };
    let arguments = |list: &[&str]| Schematic {
        extra_kernel_args: list.iter().map(ToString::to_string).collect(),
        ..Schematic::default()
    };
    let well_known = SecureBoot { include_well_known_certificates: true, ..SecureBoot::default() };
    let raspberry = Overlay {
        image: "siderolabs/sbc-raspberrypi".to_owned(),
        name: "rpi_generic".to_owned(),
        options: Vec::new(),
    };
    let known = [
        (Schematic::default(), "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"),
        (
            with_extensions(&["qemu-guest-agent"]),
            "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515",
        ),
        (agent_and_console, "b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea"),
        (
            with_extensions(&["nfsrahead", "qemu-guest-agent"]),
            "29d123fd0e746fccd5ff52d37c0cdbd2d653e10ae29c39276b6edb9ffbd56cf4",
        ),
        (
            with_extensions(&["iscsi-tools", "qemu-guest-agent", "util-linux-tools"]),
            "88d1f7a5c4f1d3aba7df787c448c1d3d008ed29cfb34af53fa0df4336a56040b",
        ),
        (
            with_extensions(&["iscsi-tools", "qemu-guest-agent", "trident-iscsi-tools", "util-linux-tools"]),
            "b0f2a8b575460a3dcb1234cc081c73c88e795aaef36eda9b88a6f4dddbd49365",
        ),
        (
            arguments(&["noapic", "nolapic"]),
            "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c",
        ),
        (
            Schematic { meta: vec![MetaValue { key: 10, value: "foo".to_owned() }], ..Schematic::default() },
            "d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f",
        ),
        (
            Schematic { secure_boot: well_known, ..Schematic::default() },
            "fa8e05f142a851d3ee568eb0a8e5841eaf6b0ebc8df9a63df16ac5ed2c04f3e6",
        ),
        (
            Schematic { sector_size: Some(4096), ..Schematic::default() },
            "92833e9ddd9bb9e11b2464fa5525429f01866306d52ebd882ee08d7918f6d1ea",
        ),
        (
            Schematic { overlay: Some(raspberry), ..Schematic::default() },
            "ee21ef4a5ef808a9b7484cc0dda0f25075021691c8c09a276591eedb638ea1f9",
        ),
    ];
    for (schematic, id) in known {
        assert_eq!(schematic.id().as_str(), id, "{}", schematic.canonical());
    }
}

#[test]
fn order_counts_and_empty_lists_do_not() {
    let (one, other) = (
        with_extensions(&["nfsrahead", "qemu-guest-agent"]),
        with_extensions(&["qemu-guest-agent", "nfsrahead"]),
    );
    assert_ne!(one.id(), other.id());
    let empty = "customization: {extraKernelArgs: [], meta: [], systemExtensions: {officialExtensions: []}}";
    assert_eq!(Schematic::parse(empty).unwrap().id(), Schematic::default().id());
}

proptest! {
    /// Whatever stands in a schematic, what is sent means the same schematic.
    #[test]
    fn what_is_sent_reads_back(
        arguments in prop::collection::vec("\\PC{0,12}[ -~äé漢\u{85}\u{2028}\\n\\t]{0,20}", 0..4),
        extensions in prop::collection::vec("siderolabs/[a-z-]{1,12}", 0..4),
        meta in prop::collection::vec((any::<u8>(), "[ -~\\n]{0,16}"), 0..3),
    ) {
        let schematic = Schematic {
            extra_kernel_args: arguments,
            extensions,
            meta: meta.into_iter().map(|(key, value)| MetaValue { key, value }).collect(),
            ..Schematic::default()
        };
        let text = schematic.submission();
        prop_assert_eq!(Schematic::parse(&text).map_err(|error| error.to_string()), Ok(schematic), "{}", text);
    }
}
