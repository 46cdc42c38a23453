//! Laws of the merge, on generated documents.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use talmox_machine::{Config, Patch, patch};

use crate::{parse, source};

/// A part of a config in flow style. Lists and mappings are among it, and fields that are keyed or replaced.
fn part() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["a", "b", "c", "10.0.0.0/8"]);
    let words = vec(word.clone(), 0..3).prop_map(|words| format!("[{}]", words.join(", ")));
    let map = btree_map(prop::sample::select(vec!["k", "l", "m"]), word.clone(), 0..3).prop_map(|map| {
        let entries: Vec<String> = map.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        format!("{{{}}}", entries.join(", "))
    });
    // Each name once: of two entries that say the same, Talos merges into the first, and then the order of patches tells.
    let names = prop::sample::select(vec!["eth0", "eth1"]);
    let interfaces = btree_map(names, (words.clone(), any::<bool>()), 0..3).prop_map(|map| {
        let item = |(name, (addresses, dhcp)): (&&str, &(String, bool))| {
            format!("{{interface: {name}, addresses: {addresses}, dhcp: {dhcp}}}")
        };
        format!("[{}]", map.iter().map(item).collect::<Vec<_>>().join(", "))
    });
    prop_oneof![
        words.clone().prop_map(|words| format!("machine: {{certSANs: {words}}}")),
        map.clone().prop_map(|map| format!("machine: {{sysctls: {map}}}")),
        map.prop_map(|map| format!("machine: {{kubelet: {{extraConfig: {map}}}}}")),
        words.prop_map(|words| format!("cluster: {{network: {{podSubnets: {words}}}}}")),
        interfaces.prop_map(|interfaces| format!("machine: {{network: {{interfaces: {interfaces}}}}}")),
        word.prop_map(|word| format!("machine: {{type: {word}}}")),
        any::<bool>().prop_map(|value| format!("machine: {{features: {{rbac: {value}}}}}")),
    ]
}

fn applied(base: Config, texts: &[&str]) -> Config {
    let patches: Vec<Patch> = texts.iter().map(|text| Patch::parse(source("p", text)).unwrap()).collect();
    patch::apply(base, "base", &patches).unwrap().into_config("base").unwrap()
}

#[test]
fn documents_of_every_kind_survive_being_patched_printed_and_read() {
    let mut applied = 0;
    for seed in 0..400 {
        let mut sampler = talmox_machine::sample::Sampler::new(seed, 14);
        let Ok(base) = Config::parse(source("base", &sampler.config())) else { continue };
        let text = sampler.patch(&base);
        let patch = Patch::parse(source("patch", &text)).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
        let Ok(patched) = patch::apply(base, "base", &[patch]) else { continue };
        let config = patched.into_config("base").unwrap();
        assert_eq!(parse(&config.to_yaml()), config, "seed {seed}");
        applied += 1;
    }
    assert!(applied > 300, "{applied}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// Applying two patches one after the other is applying what the second makes of the first. (Selectors and
    /// sizes, which a patch resets by not naming them, are the exception Talos makes; so are deletes.)
    #[test]
    fn the_merge_is_associative(a in part(), b in part(), c in part()) {
        let one_by_one = applied(parse(&a), &[&b, &c]);
        let together = applied(parse(&b), &[&c]).to_yaml();
        prop_assert_eq!(one_by_one, applied(parse(&a), &[&together]));
    }

    #[test]
    fn a_config_is_what_its_text_says(a in part(), b in part()) {
        let config = applied(parse(&a), &[&b]);
        prop_assert_eq!(parse(&config.to_yaml()), config);
    }

    /// A text of any characters survives being printed and read.
    #[test]
    fn texts_survive(text in "\\PC{0,40}|[ \\n\\t:#'\"{}|>-]{0,12}") {
        let quoted: String = text.chars().map(|c| match c {
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            '\n' => "\\n".to_owned(),
            '\t' => "\\t".to_owned(),
            c => c.to_string(),
        }).collect();
        let config = parse(&format!("machine: {{env: {{X: \"{quoted}\"}}}}"));
        let again = parse(&config.to_yaml());
        let read = |config: &Config| config.at(&["machine", "env", "X"]).and_then(talmox_machine::Value::as_text).map(str::to_owned);
        prop_assert_eq!(read(&again), Some(text));
    }
}
