//! A secrets bundle: read, checked, printed so that it reads the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use secrecy::ExposeSecret as _;
use talmox_fuzz::source;
use talmox_machine::{Bundle, Time};

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    let Ok(bundle) = Bundle::parse(source(text)) else { return };
    bundle.check(Time::from_unix(1_790_000_000));
    let printed = bundle.to_yaml();
    let again = Bundle::parse(source(printed.expose_secret())).expect("what is printed can be read");
    assert!(again.to_yaml().expose_secret() == printed.expose_secret());
});
