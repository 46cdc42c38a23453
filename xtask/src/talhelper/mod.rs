//! `cargo xtask talhelper`: drawn `talconfig.yaml` files, rendered by talhelper and, converted, by us.
//!
//! Everything talhelper's configs say has to be in ours, except where the machine is another: our VMs are nocloud machines
//! with plain devices, and labels of Talos' own stay. What we say beside it (subnets, name and time servers) is not looked at.

mod draw;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use secrecy::ExposeSecret as _;
use talmox_config::{Files, read_files};
use talmox_dialects::talhelper::{Converted, Surroundings, Verdict, convert_text};
use talmox_image::install::InstallImages;
use talmox_machine::sample::Sampler;
use talmox_machine::{Bundle, Source, SystemRandom, Time, Value, read_values};
use talmox_render::{Inputs, PatchText, Variables, Whereabouts, render};
use talmox_types::Contract;
use talmox_types::desired::{Desired, Node, NodeAddress, Patch};

use crate::conformance::peers::{self, Peer};
use crate::scratch::Scratch;
use crate::side_by_side;

const INPUTS: usize = 60;
const NOW: Time = Time::from_unix(1_790_000_000);

/// What may differ, by how it begins and what is in it, and why.
const EXCUSED: [(&str, &str, &str); 7] = [
    ("machine.install.image", "", "nocloud machines have another installer"),
    ("machine.network.interfaces", "", "links follow from the VM's devices"),
    ("LinkConfig", "", "links follow from the VM's devices"),
    ("LinkAliasConfig", "", "links follow from the VM's devices"),
    ("Layer2VIPConfig", ".link = ", "links follow from the VM's devices"),
    ("ResolverConfig.searchDomains.disableDefault", " = false", "that is what there is if nothing is said"),
    ("cluster.network.cni.name", " = flannel", "Flannel is what there is if nothing is said"),
];

/// Runs the chore and gives what it prints.
pub fn command(mut args: impl Iterator<Item = String>) -> anyhow::Result<String> {
    let mut inputs = INPUTS;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--inputs" => inputs = args.next().context("--inputs wants a number")?.parse()?,
            _ => bail!("talhelper knows --inputs N, not {arg}"),
        }
    }
    let folder = match peers::get("talhelper")? {
        Peer::Folder(folder) => folder,
        Peer::Unavailable(excuse) => return Ok(format!("not run: {excuse}")),
    };
    let bundle = Bundle::generate(Contract { major: 1, minor: 13 }, NOW, &mut SystemRandom)?;
    let scratch = Scratch::new("talhelper")?;
    let begin = Instant::now();
    let outcomes = side_by_side::run(inputs, |case| {
        let scratch = scratch.inside(&case.to_string())?;
        let text = draw::talconfig(&mut Sampler::new(case as u64 + 1, 13));
        compare(&folder.join("talhelper"), &scratch, &text, &bundle)
            .map_err(|error| anyhow::anyhow!("{error:#}\n{text}"))
    });
    let failed = outcomes.iter().enumerate();
    let failed: Vec<String> = failed
        .filter_map(|(case, outcome)| Some(format!("case {case}: {:#}", outcome.as_ref().err()?)))
        .collect();
    let mut total = Counted::default();
    for counted in outcomes.iter().flatten() {
        total.add(counted);
    }
    let summary = format!(
        "talhelper: {} of {inputs} talconfigs say the same converted ({} fields honoured, {} translated, {} unsupported; {} values \
         compared), {:.0} s",
        inputs - failed.len(),
        total.honoured,
        total.translated,
        total.unsupported,
        total.values,
        begin.elapsed().as_secs_f64()
    );
    ensure!(failed.is_empty(), "{summary}\n{}", failed.join("\n"));
    Ok(summary)
}

#[derive(Default)]
struct Counted {
    honoured: usize,
    translated: usize,
    unsupported: usize,
    values: usize,
}

impl Counted {
    fn add(&mut self, other: &Self) {
        self.honoured += other.honoured;
        self.translated += other.translated;
        self.unsupported += other.unsupported;
        self.values += other.values;
    }

    fn of(converted: &Converted) -> Self {
        let count = |verdict| converted.fields.iter().filter(|field| field.verdict == verdict).count();
        Self {
            honoured: count(Verdict::Honoured),
            translated: count(Verdict::Translated),
            unsupported: count(Verdict::Unsupported),
            values: 0,
        }
    }
}

/// Drawn files name no others and have one variable.
struct Nothing;

impl Surroundings for Nothing {
    fn file(&self, name: &str) -> Result<String, String> {
        Err(format!("{name} is not drawn"))
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == draw::VARIABLE.0).then(|| draw::VARIABLE.1.to_owned())
    }
}

fn compare(
    program: &std::path::Path,
    scratch: &Scratch,
    text: &str,
    bundle: &Bundle,
) -> anyhow::Result<Counted> {
    scratch.write("talconfig.yaml", text)?;
    scratch.write("talsecret.yaml", bundle.to_yaml().expose_secret())?;
    let output = Command::new(program)
        .args(["genconfig", "--offline-mode", "--no-gitignore", "--out-dir", "out"])
        .env_clear()
        .env("HOME", scratch.path())
        .env(draw::VARIABLE.0, draw::VARIABLE.1)
        .current_dir(scratch.path())
        .output()
        .context("could not run talhelper")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "talhelper refuses it: {said}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let converted = convert_text("talconfig.yaml", text, &Nothing);
    ensure!(!converted.has_errors(), "not converted: {:?}", converted.problems);
    let mut counted = Counted::of(&converted);
    let file =
        |name: &str| converted.files.iter().find(|(path, _)| path == name).map(|(_, text)| text.as_str());
    let cluster = file("cluster.yaml").context("a cluster.yaml")?;
    let read = read_files(Files::from_texts(cluster, file("nodes.yaml")));
    let desired = read.desired.with_context(|| format!("no description: {:?}\n{cluster}", read.problems))?;
    for node in &desired.nodes {
        let theirs = scratch.read(&format!("out/{}-{}.yaml", desired.name, node.name))?;
        let ours = rendered(&desired, node, bundle, &converted).with_context(|| node.name.to_string())?;
        let (theirs, ours) = (leaves(&theirs)?, leaves(&ours)?);
        counted.values += theirs.len();
        let missing: Vec<&String> = theirs.difference(&ours).filter(|leaf| !is_excused(leaf)).collect();
        ensure!(missing.is_empty(), "{}: talhelper says, and we do not: {missing:#?}", node.name);
    }
    Ok(counted)
}

fn is_excused(leaf: &str) -> bool {
    EXCUSED.iter().any(|(begin, part, _)| leaf.starts_with(begin) && leaf.contains(part))
}

fn rendered(
    desired: &Desired,
    node: &Node,
    bundle: &Bundle,
    converted: &Converted,
) -> anyhow::Result<String> {
    let NodeAddress::Declared(address) = node.address else { bail!("drawn nodes have an address") };
    let patch = |patch: &Patch| match patch {
        Patch::Inline(text) => Ok(PatchText { name: "in place".to_owned(), text: text.clone() }),
        Patch::File(name) => {
            let found = converted.files.iter().find(|(path, _)| path == name);
            let (name, text) = found.with_context(|| format!("{name} was not written"))?;
            Ok(PatchText { name: name.clone(), text: text.clone() })
        }
    };
    let patches = node.patches.iter().map(patch).collect::<anyhow::Result<Vec<_>>>()?;
    let variable = (draw::VARIABLE.0.to_owned(), draw::VARIABLE.1.to_owned());
    let rendered = render(&Inputs {
        desired,
        node,
        bundle,
        whereabouts: &Whereabouts::at(address),
        install_images: &InstallImages::default(),
        patches: &patches,
        cni_manifest: None,
        variables: &Variables::from_iter([variable]),
    })?;
    Ok(rendered.config.to_yaml())
}

/// Every value with its path; the order of lists does not count. Secrets are among them, so only paths are ever shown of
/// what Talos calls a secret: drawn values have none beside the bundle's, which both have.
fn leaves(config: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for document in read_values(Source { name: "config", text: config })? {
        let named = |key| document.at(&[key]).and_then(Value::as_text);
        let head = match (named("kind"), named("name")) {
            (None, _) => String::new(),
            (Some(kind), None) => format!("{kind}."),
            (Some(kind), Some(name)) => format!("{kind} {name}."),
        };
        collect(&document, &head, &mut found);
    }
    Ok(found)
}

fn collect(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Map(map) => {
            for (key, value) in map.iter() {
                let dot = if path.is_empty() || path.ends_with('.') { "" } else { "." };
                collect(value, &format!("{path}{dot}{key}"), found);
            }
        }
        Value::List(items) => {
            for item in items {
                collect(item, &format!("{path}[]"), found);
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Integer(_) | Value::Octal(_) | Value::Float(_) | Value::Text(_) => {
            found.insert(format!("{path} = {}", talmox_machine::print(value).trim_end()));
        }
    }
}
