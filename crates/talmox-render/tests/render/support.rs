//! Descriptions, rendered.

use std::sync::OnceLock;

use talmox_config::{Files, read_files};
use talmox_image::install::InstallImages;
use talmox_machine::validate::Mode;
use talmox_machine::{Bundle, Config, Document, Source, SystemRandom, Time, Value};
use talmox_render::{Inputs, PatchText, RenderError, Rendered, Variables, Whereabouts, render};
use talmox_types::Contract;
use talmox_types::desired::{Desired, NodeAddress};

/// Every contract there is a layout for.
pub(crate) const MINORS: [u16; 7] = [8, 9, 10, 11, 12, 13, 14];

/// One for all tests: a bundle takes a while.
pub(crate) fn bundle() -> &'static Bundle {
    static BUNDLE: OnceLock<Bundle> = OnceLock::new();
    let now = Time::from_unix(1_790_000_000);
    BUNDLE.get_or_init(|| Bundle::generate(Contract::new(1, 13), now, &mut SystemRandom).unwrap())
}

pub(crate) const NODES: &str = "
nodes:
  - {name: cp-1, address: 10.0.7.11, controller: true, mac_addr: 'BC:24:11:00:00:01'}
  - {name: worker-1, address: 10.0.7.14, mac_addr: 'BC:24:11:00:00:02'}
";

/// The lines that pin a contract and the Talos of its line.
pub(crate) fn pinned(minor: u16) -> String {
    let patch = [4, 6, 9, 6, 6, 9, 1][usize::from(minor - 8)];
    format!("talos_version: 1.{minor}.{patch}\ntalos_contract: \"1.{minor}\"\nnode_cidr: 10.0.7.0/24\n")
}

pub(crate) fn desired(description: &str) -> Desired {
    let outcome = read_files(Files::from_texts(description, None));
    let problems: Vec<String> = outcome.problems.iter().map(|problem| problem.message.clone()).collect();
    outcome.desired.unwrap_or_else(|| panic!("{problems:?}\n{description}"))
}

/// What stands around a description.
#[derive(Default)]
pub(crate) struct Around {
    pub patches: Vec<(&'static str, String)>,
    pub variables: Vec<(&'static str, &'static str)>,
    pub vmid: Option<u32>,
    pub host: Option<&'static str>,
    pub uuid: Option<&'static str>,
    pub manifest: Option<&'static str>,
    pub images: Vec<(&'static str, &'static str)>,
}

pub(crate) fn try_render(description: &str, node: &str, around: &Around) -> Result<Rendered, RenderError> {
    let desired = desired(description);
    let node = desired.nodes.iter().find(|one| one.name.as_str() == node).unwrap();
    let NodeAddress::Declared(address) = node.address else { panic!("a declared address") };
    let patch = |(name, text): &(&str, String)| PatchText { name: (*name).to_owned(), text: text.clone() };
    let patches: Vec<PatchText> = around.patches.iter().map(patch).collect();
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let variables: Variables = around.variables.iter().map(pair).collect();
    let images = around.images.iter().map(pair).collect();
    render(&Inputs {
        desired: &desired,
        node,
        bundle: bundle(),
        whereabouts: &Whereabouts {
            vmid: around.vmid.map(|id| id.try_into().unwrap()),
            host: around.host.map(|host| talmox_types::HostName::parse(host).unwrap()),
            uuid: around.uuid.map(str::to_owned),
            ..Whereabouts::at(address)
        },
        install_images: &InstallImages::new(&images, |_| None),
        patches: &patches,
        cni_manifest: around.manifest,
        variables: &variables,
    })
}

/// Renders what must work; the config must be what it reads as, and must hold on bare metal too.
pub(crate) fn rendered(description: &str, node: &str, around: &Around) -> Rendered {
    let rendered =
        try_render(description, node, around).unwrap_or_else(|error| panic!("{error}\n{description}"));
    let text = rendered.config.to_yaml();
    let again = Config::parse(Source { name: "again", text: &text }).unwrap();
    assert_eq!(again, rendered.config);
    let talos = desired(description).talos.version.contract();
    let refused: Vec<String> =
        rendered.config.validate(Mode::Metal, talos).iter().map(ToString::to_string).collect();
    assert!(refused.is_empty(), "{refused:?}\n{description}");
    rendered
}

/// The config of a node with a description of one contract and more lines.
pub(crate) fn config(minor: u16, lines: &str, node: &str) -> Config {
    rendered(&format!("{}{lines}{NODES}", pinned(minor)), node, &Around::default()).config
}

/// A value for comparisons.
pub(crate) fn show(value: Option<&Value>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| talmox_machine::print(value).trim_end().to_owned())
}

/// What stands in the document with `machine` and `cluster`.
pub(crate) fn at(config: &Config, path: &str) -> String {
    show(config.at(&path.split('.').collect::<Vec<_>>()))
}

/// What stands in a document, by kind or by kind and name.
pub(crate) fn of(config: &Config, document: &str, path: &str) -> String {
    let (kind, name) = match document.split_once(' ') {
        Some((kind, name)) => (kind, Some(name)),
        None => (document, None),
    };
    let mut found = config.of_kind(kind).filter(|one: &&Document| name.is_none() || one.name() == name);
    let found = found.next();
    show(found.and_then(|document| document.at(&path.split('.').collect::<Vec<_>>())))
}

/// Names of the documents of a kind.
pub(crate) fn names(config: &Config, kind: &str) -> Vec<String> {
    config.of_kind(kind).map(|document| document.name().unwrap_or_default().to_owned()).collect()
}
