//! The crate as its users see it, on one bundle made once: an RSA key takes seconds.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod between;
mod client;
mod fuzz;
mod generate;
mod hidden;
mod openssl;
mod patch;
mod properties;
mod rotation;
mod secrets;
mod validate;

use std::sync::OnceLock;

use talmox_machine::{Bundle, Config, Input, Options, Patch, Role, Source, SystemRandom, Time};
use talmox_types::{Contract, support};

const NOW: Time = Time::from_unix(1_790_000_000);

/// Every contract configs are made for.
const CONTRACTS: std::ops::RangeInclusive<u16> = 8..=14;

fn bundle() -> &'static Bundle {
    static BUNDLE: OnceLock<Bundle> = OnceLock::new();
    BUNDLE.get_or_init(|| Bundle::generate(contract(13), NOW, &mut SystemRandom).unwrap())
}

fn contract(minor: u16) -> Contract {
    Contract { major: 1, minor }
}

/// What is known of a line of Talos.
fn line(minor: u16) -> &'static support::TalosLine {
    support::LINES.iter().find(|line| line.talos == contract(minor)).unwrap()
}

fn input(minor: u16, options: Options) -> Input<'static> {
    Input {
        contract: contract(minor),
        cluster_name: "test".to_owned(),
        endpoint: "https://10.0.0.1:6443".to_owned(),
        kubernetes: format!("v{}", line(minor).default_kubernetes()),
        secrets: bundle(),
        options,
    }
}

fn config(minor: u16, role: Role) -> Config {
    let options = Options { install_disk: Some("/dev/sda".to_owned()), ..Options::default() };
    input(minor, options).generate(role).unwrap()
}

fn source<'a>(name: &'a str, text: &'a str) -> Source<'a> {
    Source { name, text }
}

fn parse(text: &str) -> Config {
    Config::parse(source("config.yaml", text)).unwrap()
}

fn read_patch(text: &str) -> Patch {
    Patch::parse(source("patch.yaml", text)).unwrap()
}
