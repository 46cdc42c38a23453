//! age files as a whole.

use proptest::prelude::*;
use secrecy::ExposeSecret as _;
use talmox_secrets::SystemRandom;
use talmox_secrets::age::{DecryptError, Identity, decrypt, encrypt, encrypt_armored};

fn identity() -> Identity {
    Identity::generate(&mut SystemRandom).expect("the system has random numbers")
}

#[test]
fn texts_of_any_size_come_back() {
    let (a, b) = (identity(), identity());
    let recipients = [a.recipient().clone(), b.recipient().clone()];
    for size in [0, 1, 15, 65_535, 65_536, 65_537, 131_072, 200_000] {
        let plain: Vec<u8> = (0..size).map(|n: u32| n.to_le_bytes()[0]).collect();
        let file = encrypt(&plain, &recipients, &mut SystemRandom).unwrap();
        for identity in [&a, &b] {
            assert_eq!(
                decrypt(&file, std::slice::from_ref(identity)).unwrap().expose_secret(),
                plain,
                "{size}"
            );
        }
        assert_eq!(decrypt(&file, &[identity()]).unwrap_err(), DecryptError::NoKeyFits);
        let armored = encrypt_armored(&plain, &recipients, &mut SystemRandom).unwrap();
        assert_eq!(
            decrypt(armored.as_bytes(), &[identity(), b.clone()]).unwrap().expose_secret(),
            plain,
            "{size}"
        );
    }
}

#[test]
fn a_file_that_was_cut_off_is_refused_wherever_it_was() {
    let key = identity();
    let file = encrypt(&vec![7; 140_000], &[key.recipient().clone()], &mut SystemRandom).unwrap();
    let chunk = 64 * 1024 + 16;
    let payload = file.len() - 140_000 - 3 * 16;
    for end in
        [0, 10, 100, payload - 1, payload, payload + 15, payload + chunk, payload + 2 * chunk, file.len() - 1]
    {
        assert!(decrypt(&file[..end], std::slice::from_ref(&key)).is_err(), "{end}");
    }
    // Chunks that changed places.
    let mut turned = file[..payload].to_vec();
    turned.extend_from_slice(&file[payload + chunk..payload + 2 * chunk]);
    turned.extend_from_slice(&file[payload..payload + chunk]);
    turned.extend_from_slice(&file[payload + 2 * chunk..]);
    assert_eq!(decrypt(&turned, &[key]).unwrap_err(), DecryptError::Payload);
}

#[test]
fn what_was_decrypted_is_not_shown() {
    let key = identity();
    let file = encrypt(b"hush-hush", &[key.recipient().clone()], &mut SystemRandom).unwrap();
    let plain = decrypt(&file, &[key]).unwrap();
    let shown = format!("{plain:?}");
    assert!(!shown.contains("104") && !shown.contains("hush"), "{shown}");
}

#[test]
fn nobody_to_encrypt_for_is_an_error() {
    assert!(encrypt(b"x", &[], &mut SystemRandom).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_changed_byte_is_noticed(plain in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>()) {
        let key = identity();
        let mut file = encrypt(&plain, &[key.recipient().clone()], &mut SystemRandom).unwrap();
        let at = at.index(file.len());
        file[at] ^= 1;
        prop_assert!(decrypt(&file, &[key]).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), begun in 0..4_usize) {
        let starts: [&[u8]; 4] = [b"", b"age-encryption.org/v1\n", b"age-encryption.org/v1\n-> X25519 ",
            b"-----BEGIN AGE ENCRYPTED FILE-----\n"];
        let file = [starts[begun], &bytes].concat();
        prop_assert!(decrypt(&file, &[identity()]).is_err());
    }
}
