//! From two configs to the patches between them, and back: what comes out is what was wanted.

use talmox_machine::patch::Between;
use talmox_machine::sample::Sampler;
use talmox_machine::{Config, Patch, Role, patch};

use crate::{config, parse, source};

const SEEDS: u64 = 300;

/// The patches of a change, with secrets as they are.
fn texts(change: &Between) -> Vec<String> {
    let set = change.set(&mut |_, secret| secret.to_owned());
    change.removed().into_iter().chain(set).collect()
}

fn applied(base: &Config, texts: &[String]) -> Result<Config, String> {
    let read = |text: &String| {
        let patch = Patch::parse(source("p", text)).map_err(|faults| faults.to_string())?;
        match patch.idle().first() {
            None => Ok(patch),
            Some(idle) => Err(idle.to_string()),
        }
    };
    let patches: Vec<Patch> = texts.iter().map(read).collect::<Result<_, String>>()?;
    let done = patch::apply(base.clone(), "base", &patches).map_err(|error| error.to_string())?;
    match done.ignored.first() {
        None => done.into_config("base").map_err(|faults| faults.to_string()),
        Some(ignored) => Err(ignored.to_string()),
    }
}

/// Whether the change between two configs leads from one to the other.
fn leads(base: &Config, wanted: &Config) -> Result<(), String> {
    let texts = texts(&base.change_to(wanted));
    let told = |why: String| format!("{why}\n{}", texts.join("\n======\n"));
    let made = applied(base, &texts).map_err(told)?;
    let differences = made.differences(wanted);
    if differences.is_empty() { Ok(()) } else { Err(told(format!("{differences:?}"))) }
}

#[test]
fn drawn_configs_are_led_to_each_other() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for seed in 0..SEEDS {
        let mut sampler = Sampler::new(seed, if seed % 2 == 0 { 13 } else { 14 });
        let Ok(base) = Config::parse(source("base", &sampler.config())) else { continue };
        let Ok(patch) = Patch::parse(source("patch", &sampler.patch(&base))) else { continue };
        let Ok(wanted) = patch::apply(base.clone(), "base", &[patch]) else { continue };
        let wanted = wanted.into_config("base").unwrap();
        for (from, to) in [(&base, &wanted), (&wanted, &base)] {
            // Every config has this one, and no patch takes it away.
            if from.document("").is_some() && to.document("").is_none() {
                continue;
            }
            tried += 1;
            if let Err(why) = leads(from, to) {
                wrong.push(format!("seed {seed}: {why}"));
            }
        }
    }
    println!("{tried} changes");
    assert!(tried > 300, "{tried}");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn layouts_of_all_contracts_are_led_to_each_other() {
    for (from, to) in [(8, 12), (11, 13), (13, 11), (13, 14), (14, 13)] {
        for role in [Role::ControlPlane, Role::Worker] {
            if let Err(why) = leads(&config(from, role), &config(to, role)) {
                panic!("{from} to {to}: {why}");
            }
        }
    }
}

#[test]
fn what_is_shared_is_what_all_do() {
    let base = parse("machine: {certSANs: [a], sysctls: {x: \"1\"}}\ncluster: {clusterName: lab}\n");
    let one = parse("machine: {certSANs: [a, b, c]}\ncluster: {clusterName: other}\n");
    let two = parse("machine: {certSANs: [a, b, d]}\ncluster: {clusterName: other}\n");
    let changes = [base.change_to(&one), base.change_to(&two)];
    let shared = Between::shared(changes.iter());
    assert_eq!(shared.removed().as_deref(), Some("machine:\n    sysctls:\n        $patch: delete\n"));
    let set = shared.set(&mut |_, secret| secret.to_owned()).unwrap();
    assert_eq!(set, "machine:\n    certSANs:\n        - b\ncluster:\n    clusterName: other\n");
    let between = applied(&base, &texts(&shared)).unwrap();
    for wanted in [&one, &two] {
        assert_eq!(leads(&between, wanted), Ok(()));
    }
}

#[test]
fn secrets_are_hidden_with_their_place() {
    let (base, wanted) = (config(13, Role::Worker), config(13, Role::ControlPlane));
    let mut hidden = Vec::new();
    let text = base.change_to(&wanted).set(&mut |place, secret| {
        hidden.push((place.to_owned(), secret.to_owned()));
        format!("HIDDEN-{}", hidden.len())
    });
    let text = text.unwrap();
    assert!(hidden.iter().any(|(place, _)| place == "cluster serviceAccount key"), "{:?}", hidden.len());
    for (place, secret) in &hidden {
        assert!(!text.contains(secret.as_str()), "{place}");
    }
}
