//! A SOPS file: opened, changed and opened again.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use secrecy::ExposeSecret as _;
use talmox_fuzz::{Counter, KEY};
use talmox_secrets::age::Identity;
use talmox_secrets::sops::{SopsFile, is_sops};

static IDENTITY: LazyLock<Identity> =
    LazyLock::new(|| Identity::parse(KEY.trim()).expect("the key of the seeds is one"));

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    is_sops(text);
    let Ok(file) = SopsFile::parse(text) else { return };
    let Ok(opened) = file.decrypt(std::slice::from_ref(&*IDENTITY)) else { return };
    let plain = opened.to_yaml();
    for key in opened.keys() {
        opened.value(&key);
    }
    let Ok(sealed) = opened.update(plain.expose_secret(), "2026-01-31T12:00:00Z", &mut Counter::default())
    else {
        return;
    };
    let again = SopsFile::parse(&sealed).expect("what was encrypted can be read");
    let again = again.decrypt(std::slice::from_ref(&*IDENTITY)).expect("and be opened");
    assert!(again.to_yaml().expose_secret() == plain.expose_secret());
});
