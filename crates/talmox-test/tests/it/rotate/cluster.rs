//! A cluster that lives, secrets that say what is to be replaced, and how far its machines are.

use secrecy::ExposeSecret as _;
use talmox_machine::{Bundle, Config, Source};
use talmox_plan::{Plan, Request};
use talmox_sim_talos::Flapping;
use talmox_talos::{ApplyMode, kinds};
use talmox_types::desired::Desired;
use talmox_types::{Phase, Realm};

use crate::rotate::bed::{Bed, Secrets, described, healthy};

pub(crate) fn wanted() -> Request {
    healthy()
}

/// A description of one layout of configurations.
pub(crate) fn of(controllers: usize, workers: usize, contract: &str) -> Desired {
    let talos = if contract == "1.14" { "1.14.0" } else { "1.13.9" };
    let lines =
        format!("talos_version: {talos}\nkubernetes_version: 1.36.3\ntalos_contract: \"{contract}\"\n");
    described(controllers, workers, &lines)
}

/// A cluster that is healthy, and whose secrets say that these authorities are to be replaced.
pub(crate) async fn rotating(seed: u64, desired: Desired, realms: &[Realm]) -> Bed {
    let bed = Bed::new(seed, desired);
    bed.converge(&wanted(), 1).await.unwrap_or_else(|error| panic!("{error}"));
    bed.begin_rotation(realms);
    bed
}

/// Texts of private keys, each line of them: nobody may be shown any.
pub(crate) fn keys(bundle: &Bundle) -> Vec<String> {
    let present = Realm::ALL.into_iter().map(|realm| bundle.present(realm));
    let next = Realm::ALL.into_iter().filter_map(|realm| bundle.next(realm));
    let texts = present.chain(next).map(|authority| authority.key.pem().expose_secret().to_owned());
    texts
        .flat_map(|text| {
            text.lines().filter(|line| !line.contains("---")).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// The configuration in force at an address, as the simulated machine itself has it.
pub(crate) fn config(bed: &Bed, address: &str) -> Option<Config> {
    Config::parse(Source { name: "config", text: &bed.config_text(address)? }).ok()
}

/// Every machine has the new authorities and no others, the file too, nobody believes the old ones, and all is well.
pub(crate) async fn is_over(bed: &Bed, before: &Bundle, what: &str) {
    let after = bed.bundle();
    for realm in before.rotating() {
        let new = before.next(realm).unwrap().certificate.pem();
        assert_eq!(after.present(realm).certificate.pem(), new, "{what}: the file, {}", realm.name());
        assert!(after.next(realm).is_none(), "{what}: the file is not settled");
        for (address, phases) in bed.addresses().iter().zip(bed.phases(before)) {
            assert_eq!(phases.of(realm), Phase::Alone, "{what}: {address}, {}", realm.name());
        }
    }
    for address in bed.addresses() {
        let config = config(bed, &address).unwrap();
        let accepted = [config.at(&["machine", "acceptedCAs"]), config.at(&["cluster", "acceptedCAs"])];
        assert!(accepted.iter().all(Option::is_none), "{what}: {address} still accepts others");
    }
    let old = Secrets::of(Realm::ALL.into_iter().fold(before.clone(), without));
    for address in bed.addresses() {
        let realm = before.next(Realm::Talos).is_some();
        let client = old.client(bed, &address);
        assert_eq!(
            client.version().await.is_err(),
            realm,
            "{what}: {address} believes the old Talos authority"
        );
    }
    if before.next(Realm::Kubernetes).is_some() {
        for address in bed.control_planes().values() {
            let client = old.kubernetes_at(bed, &address.to_string());
            assert!(client.nodes().await.is_err(), "{what}: {address} believes the old Kubernetes authority");
        }
    }
    bed.is_healthy().await;
    let plan = bed.plan(&wanted()).await;
    assert!(plan.is_empty(), "{what}: {plan:#?}");
}

/// The bundle as it was before anything was to be replaced.
fn without(mut bundle: Bundle, realm: Realm) -> Bundle {
    match realm {
        Realm::Talos => bundle.rotation.os = None,
        Realm::Kubernetes => bundle.rotation.kubernetes = None,
    }
    bundle
}

/// Gives a machine another configuration, as somebody else would.
pub(crate) async fn tamper(bed: &Bed, address: &str, change: impl FnOnce(Config) -> Config) {
    let client = bed.client(address);
    let held = client.get::<kinds::MachineConfig>("v1alpha1").await.unwrap().unwrap();
    let text = String::from_utf8(held.spec.yaml_marshalled).unwrap();
    let text = change(Config::parse(Source { name: "config", text: &text }).unwrap()).to_yaml();
    client.apply_configuration(text.into_bytes().into(), ApplyMode::NoReboot, false).await.unwrap();
}

/// What the plan does about authorities, in order.
pub(crate) fn words(plan: &Plan) -> Vec<String> {
    let about = plan.steps.iter().filter(|step| step.id.to_string().contains("authority"));
    about.map(|step| step.id.to_string()).collect()
}

/// Nothing answers there any more.
pub(crate) fn cut_off(bed: &Bed, address: &str) {
    let never = Flapping { up: 1, down: 1 << 40 };
    bed.lab.nodes(|nodes| nodes.faults.flap(address.parse().unwrap(), never));
}
