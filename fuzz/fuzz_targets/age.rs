//! age: files, binary and armoured, and texts with keys.

#![no_main]

use std::io::Read as _;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use secrecy::{ExposeSecret as _, SecretString};
use talmox_fuzz::KEY;
use talmox_secrets::age::{Identity, Opener, Recipient, decrypt, parse_identities};

static IDENTITY: LazyLock<Identity> =
    LazyLock::new(|| Identity::parse(KEY.trim()).expect("the key of the seeds is one"));

fuzz_target!(|bytes: &[u8]| {
    let identities = std::slice::from_ref(&*IDENTITY);
    let whole = decrypt(bytes, identities);
    // The same read as a stream: what one opens the other opens.
    if Opener::<&[u8]>::begins(bytes) {
        let mut streamed = Vec::new();
        let opened = Opener::new(bytes, identities).and_then(|mut opener| opener.read_to_end(&mut streamed));
        assert_eq!(opened.is_ok(), whole.is_ok());
        if let Ok(whole) = &whole {
            assert!(whole.expose_secret() == streamed);
        }
    }
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    let _ = parse_identities(&SecretString::from(text));
    if let Ok(recipient) = text.parse::<Recipient>() {
        assert_eq!(recipient.to_string().parse::<Recipient>().as_ref(), Ok(&recipient));
    }
});
