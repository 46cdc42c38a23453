//! A machine configuration: read, checked, printed so that it reads the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talmox_fuzz::{CONTRACTS, source};
use talmox_machine::Config;
use talmox_machine::validate::Mode;

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    let Ok(config) = Config::parse(source(text)) else { return };
    for contract in CONTRACTS {
        config.validate(Mode::Metal, contract);
        config.validate(Mode::Cloud, contract);
    }
    let printed = config.to_yaml();
    let again = Config::parse(source(&printed)).expect("what is printed can be read");
    assert!(again == config, "{printed}");
    config.redacted().to_yaml();
});
