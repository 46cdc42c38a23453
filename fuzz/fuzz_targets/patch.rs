//! A patch, and after a NUL the config it is applied to; without one a small config.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talmox_fuzz::{CONTRACTS, halves, source};
use talmox_machine::validate::Mode;
use talmox_machine::{Config, Patch, patch};

const BASE: &str = "version: v1alpha1\nmachine:\n  type: worker\n  network:\n    interfaces:\n      - interface: eth0\n        addresses: [10.0.0.2/24]\n  \
                    sysctls: {a: b}\ncluster:\n  network: {podSubnets: [10.244.0.0/16]}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n";

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    let (text, base) = halves(text);
    let Ok(read) = Patch::parse(source(text)) else { return };
    read.idle();
    let Ok(base) = Config::parse(source(if base.is_empty() { BASE } else { base })) else { return };
    let Ok(patched) = patch::apply(base, "base", &[read]) else { return };
    let Ok(config) = patched.into_config("base") else { return };
    config.validate(Mode::Cloud, CONTRACTS[2]);
    let printed = config.to_yaml();
    assert!(Config::parse(source(&printed)).is_ok_and(|again| again == config), "{printed}");
});
