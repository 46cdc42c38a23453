//! Authorities that are replaced: in the bundle, and in the configurations of every phase.

use secrecy::ExposeSecret as _;
use talmox_machine::client::{
    ClientFile, Context, DEFAULT_LIFETIME, Kubeconfig, ReplaceError, TalosRole, Talosconfig,
};
use talmox_machine::{Bundle, Config, Options, Role, SystemRandom};
use talmox_types::{Phase, Phases, Realm};

use crate::{NOW, bundle, input, source};

fn rotating() -> Bundle {
    let mut bundle = bundle().clone();
    for realm in Realm::ALL {
        bundle.begin_rotation(realm, NOW, &mut SystemRandom).unwrap();
    }
    bundle
}

/// A node's configuration in these phases.
fn in_phases(bundle: &Bundle, minor: u16, role: Role, phases: Phases) -> Config {
    let issuing = bundle.issuing(phases);
    let options = Options { install_disk: Some("/dev/sda".to_owned()), ..Options::default() };
    let input = talmox_machine::Input { secrets: &issuing, ..input(minor, options) };
    bundle.accept(input.generate(role).unwrap(), phases).unwrap()
}

#[test]
fn what_is_to_come_lies_beside_what_is_and_can_be_read_again() {
    let bundle = rotating();
    let text = bundle.to_yaml();
    let read = Bundle::parse(source("secrets.yaml", text.expose_secret())).unwrap();
    assert_eq!(read.to_yaml().expose_secret(), text.expose_secret());
    assert_eq!(read.rotating().collect::<Vec<_>>(), Realm::ALL);
    assert!(read.check(NOW).is_empty(), "{:?}", read.check(NOW));
    for realm in Realm::ALL {
        let (old, new) = (read.present(realm), read.next(realm).unwrap());
        assert_ne!(old.certificate.pem(), new.certificate.pem());
        assert_eq!(old.key.kind(), new.key.kind());
        let settled = read.settled(realm);
        assert_eq!(settled.present(realm).certificate.pem(), new.certificate.pem());
        assert!(settled.next(realm).is_none());
    }
    // Without any the file is as it always was.
    let settled = read.settled(Realm::Talos).settled(Realm::Kubernetes);
    assert!(!settled.to_yaml().expose_secret().contains("rotation"));
    let shown = format!("{read:?} {:?}", read.rotation);
    assert!(!shown.contains("PRIVATE") && !shown.contains(new_key(&read).expose_secret().trim()), "{shown}");
}

fn new_key(bundle: &Bundle) -> secrecy::SecretString {
    bundle.rotation.os.as_ref().unwrap().key.pem().clone()
}

#[test]
fn a_configuration_tells_its_phase_in_either_layout() {
    let bundle = rotating();
    for minor in [12, 13, 14] {
        for role in [Role::ControlPlane, Role::Worker] {
            for talos in Phase::ALL {
                for kubernetes in Phase::ALL {
                    let phases = Phases { talos, kubernetes };
                    let config = in_phases(&bundle, minor, role, phases);
                    assert_eq!(bundle.phases_of(&config), phases, "{minor} {role:?}");
                    let again = Config::parse(source("config", &config.to_yaml())).unwrap();
                    assert_eq!(bundle.phases_of(&again), phases, "{minor} {role:?}, printed");
                }
            }
        }
    }
}

#[test]
fn before_and_after_a_configuration_is_an_ordinary_one() {
    let bundle = rotating();
    let after = Phases { talos: Phase::Alone, kubernetes: Phase::Alone };
    let settled = bundle.settled(Realm::Talos).settled(Realm::Kubernetes);
    for minor in [13, 14] {
        for role in [Role::ControlPlane, Role::Worker] {
            let first = in_phases(&bundle, minor, role, Phases::default());
            assert!(first.differences(&crate::config(minor, role)).is_empty());
            let last = in_phases(&bundle, minor, role, after);
            let ordinary = in_phases(&settled, minor, role, Phases::default());
            assert!(last.differences(&ordinary).is_empty(), "{minor} {role:?}");
        }
    }
}

/// The files people reach the cluster by, which trust what one bundle has, by a certificate of another.
fn client_files(trusted: &Bundle, signs: &Bundle) -> (Talosconfig, Kubeconfig) {
    let random = &mut SystemRandom;
    let talos = signs.talos_client(&[TalosRole::Admin], NOW, DEFAULT_LIFETIME, random).unwrap();
    let admin = signs.kubernetes_admin(NOW, DEFAULT_LIFETIME, random).unwrap();
    let context = Context { name: "test", endpoints: &[], nodes: &[] };
    (
        Talosconfig::new(&context, trusted, &talos),
        Kubeconfig::new("test", "https://10.0.0.1:6443", trusted, &admin),
    )
}

/// From the beginning of a rotation to its end there is one context, whichever authorities it trusted when it was written.
fn follows<C: ClientFile>(mut file: C, context: &str, [during, later, after]: [&C; 3]) {
    assert_eq!(file.counterpart(during), Some(context));
    assert!(!file.does_alike(context, during), "it trusts the old one alone");
    assert!(file.renew(during).is_empty());
    assert_eq!((file.trusts(context).len(), file.does_alike(context, during)), (2, true));
    assert!(!file.does_alike(context, later), "its certificate is of the old one");
    file.renew(later);
    assert!(file.does_alike(context, later));
    assert!(!file.does_alike(context, after), "it trusts the old one still");
    file.renew(after);
    assert_eq!((file.trusts(context).len(), file.contexts()), (1, vec![context]));
    assert!(file.does_alike(context, after));
}

#[test]
fn who_reaches_the_cluster_trusts_both_while_one_takes_the_place_of_the_other() {
    let bundle = rotating();
    let settled = bundle.settled(Realm::Talos).settled(Realm::Kubernetes);
    let (talos, kubernetes) = client_files(crate::bundle(), crate::bundle());
    let during = client_files(&bundle, &bundle);
    let later = client_files(&bundle, &settled);
    let after = client_files(&settled, &settled);
    follows(talos, "test", [&during.0, &later.0, &after.0]);
    follows(kubernetes, "admin@test", [&during.1, &later.1, &after.1]);
}

#[test]
fn a_client_renewed_meanwhile_trusts_both_too() {
    let bundle = rotating();
    let client = bundle.talos_client(&[TalosRole::Admin], NOW, DEFAULT_LIFETIME, &mut SystemRandom).unwrap();
    let (mut file, _) = client_files(crate::bundle(), crate::bundle());
    file.replace_client("test", &bundle, &client).unwrap();
    assert_eq!(file.trusts("test").len(), 2);
    // What was written then is known again when it is over.
    file.replace_client("test", &bundle.settled(Realm::Talos), &client).unwrap();
    assert_eq!(file.trusts("test").len(), 1);
    let other = file.replace_client("test", crate::bundle(), &client);
    assert_eq!(other, Err(ReplaceError::OtherCluster("test".to_owned())));
}
