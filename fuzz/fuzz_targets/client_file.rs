//! talosconfig and kubeconfig: read, merged, printed; and a kubeconfig as what the Kubernetes client needs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use secrecy::{ExposeSecret as _, SecretString};
use talmox_fuzz::{halves, source};
use talmox_machine::client::{ClientFile, Kubeconfig, Talosconfig};

fn exercise<C: ClientFile>(mine: &str, other: &str) {
    let Ok(mut file) = C::parse(source(mine)) else { return };
    let printed = file.to_yaml();
    let again =
        C::parse(source(printed.expose_secret())).unwrap_or_else(|_| panic!("what is printed can be read"));
    assert!(again.to_yaml().expose_secret() == printed.expose_secret());
    for context in file.contexts().into_iter().map(str::to_owned).collect::<Vec<_>>() {
        let _ = (file.certificate(&context), file.trusts(&context));
    }
    if let Ok(other) = C::parse(source(other)) {
        file.renew(&other);
        file.take_back(&other);
        file.remove(&other);
        let after = file.to_yaml();
        assert!(C::parse(source(after.expose_secret())).is_ok());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    let (mine, other) = halves(text);
    exercise::<Talosconfig>(mine, other);
    exercise::<Kubeconfig>(mine, other);
    let _ = talmox_k8s::Access::from_kubeconfig(&SecretString::from(mine));
});
