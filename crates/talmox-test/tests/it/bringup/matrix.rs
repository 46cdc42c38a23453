//! Every release of Proxmox with every line of Talos, every boot source and every way a configuration takes.

use std::fmt;
use std::time::{Duration, Instant};

use talmox_plan::{NoteKind, Step};
use talmox_test::thorough::runtime;
use talmox_test::{Call, CallLog};

use crate::bringup::bed::{Bed, described, healthy};

const PROXMOX: [&str; 2] = ["8.4", "9.2"];
/// Versions of Talos, and a Kubernetes of each.
const TALOS: [(&str, &str); 3] = [("1.12.11", "1.35.4"), ("1.13.9", "1.36.3"), ("1.14.0", "1.37.0")];
const BOOTS: [&str; 2] = ["template", "iso"];
const DELIVERIES: [&str; 3] = ["maintenance", "cidata", "url"];

/// One of the combinations.
#[derive(Clone, Copy)]
struct Combination {
    proxmox: &'static str,
    talos: (&'static str, &'static str),
    boot: &'static str,
    delivery: &'static str,
    controllers: usize,
}

impl Combination {
    fn all() -> impl Iterator<Item = Self> {
        let talos = PROXMOX.into_iter().flat_map(|proxmox| TALOS.map(|talos| (proxmox, talos)));
        let boots = talos.flat_map(|(proxmox, talos)| BOOTS.map(|boot| (proxmox, talos, boot)));
        boots.flat_map(|(proxmox, talos, boot)| {
            DELIVERIES.map(|delivery| Self { proxmox, talos, boot, delivery, controllers: 1 })
        })
    }

    /// The same with three control planes.
    fn of_three(self) -> Self {
        Self { controllers: 3, ..self }
    }

    fn bed(&self, seed: u64) -> Bed {
        let Self { proxmox, talos: (talos, kubernetes), boot, delivery, controllers } = *self;
        let contract = talos.rsplit_once('.').map_or(talos, |(line, _)| line);
        let network = if delivery == "url" { "dhcp" } else { "static" };
        let more = format!(
            "talos_version: {talos}\nkubernetes_version: {kubernetes}\ntalos_contract: \"{contract}\"\n\
             node_network: {network}\nconfig_delivery: {delivery}\nproxmox_vm_defaults: {{boot: {boot}}}"
        );
        let bed = Bed::new(seed, described(controllers, 1, &more));
        bed.reserve();
        bed.lab.world(|world| world.set_release(proxmox).unwrap());
        bed
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proxmox, talos: (talos, _), boot, delivery, controllers } = self;
        write!(f, "{proxmox:<5} {talos:<8} {boot:<9} {delivery:<12} {controllers}+1  ")
    }
}

/// What a bring-up took on the cluster's clock, and what was asked of whom.
struct Took {
    time: Duration,
    proxmox: usize,
    talos: usize,
    kubernetes: usize,
    /// Those of them that may change something.
    writes: usize,
}

impl Took {
    /// Everything after so many milliseconds and calls.
    fn since(bed: &Bed, begun: u64, skip: usize) -> Self {
        let calls = bed.lab.calls();
        let since = || calls.iter().filter(|call| call.number > skip);
        // Methods of Talos have the name of a package first; Proxmox is asked by the name of a host.
        let of_talos = |call: &Call| call.path.split('/').nth(1).is_some_and(|first| first.contains('.'));
        let of_proxmox = |call: &Call| call.host.starts_with("pve");
        let talos = since().filter(|call| of_talos(call)).count();
        let proxmox = since().filter(|call| of_proxmox(call)).count();
        Self {
            time: Duration::from_millis(bed.lab.transport().now() - begun),
            proxmox,
            talos,
            kubernetes: since().count() - talos - proxmox,
            writes: calls.writes().count(),
        }
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, proxmox, talos, kubernetes, writes } = self;
        let time = time.as_secs_f64();
        write!(f, "{time:>7.1} {proxmox:>8} {talos:>6} {kubernetes:>11} {writes:>7}")
    }
}

/// What calls after the first so many wrote, on any layer. A session of Proxmox's is no change.
fn written(calls: &CallLog, skip: usize) -> Vec<String> {
    let writes = calls.writes().filter(|call| call.number > skip && !call.path.contains("/access/ticket"));
    writes.map(ToString::to_string).collect()
}

/// From nothing to healthy, in the way it was told, and a second time with nothing to do.
async fn comes_up(combination: Combination, seed: u64) -> Took {
    let bed = combination.bed(seed);
    let planned = bed.plan(&healthy()).await;
    let count = |is: fn(&Step) -> bool| planned.steps.iter().filter(|step| is(&step.step)).count();
    let drives = count(|step| matches!(step, Step::AttachSeed { .. }));
    let addresses = count(|step| matches!(step, Step::PublishConfig { .. }));
    let (begun, calls) = (bed.lab.transport().now(), bed.lab.calls().len());
    let end = bed.converge(&healthy(), 1).await;
    end.unwrap_or_else(|error| panic!("{combination}: {error}\n{}", bed.told.lines().join("\n")));
    let took = Took::since(&bed, begun, calls);
    bed.is_healthy().await;
    let nodes = bed.desired.nodes.len();
    let by = |delivery| if combination.delivery == delivery { nodes } else { 0 };
    assert_eq!((drives, addresses), (by("cidata"), by("url")), "{combination}");
    assert_eq!(bed.accepted("ApplyConfiguration"), by("maintenance"), "{combination}");
    assert_eq!((bed.accepted("Bootstrap"), bed.etcd_clusters()), (1, 1), "{combination}");
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty() && plan.waiting.is_empty(), "{combination}: {plan:#?}");
    assert!(plan.notes.iter().all(|note| note.kind != NoteKind::Inside), "{combination}: {:?}", plan.notes);
    let before = bed.lab.calls().len();
    bed.converge(&healthy(), 2).await.unwrap();
    let written = written(&bed.lab.calls(), before);
    assert!(written.is_empty(), "{combination}: {written:#?}");
    took
}

#[test]
fn every_combination_comes_up() {
    let begun = Instant::now();
    let three = Combination::all().last().map(Combination::of_three);
    let combinations: Vec<Combination> = Combination::all().chain(three).collect();
    println!("PVE   Talos    boot      delivery     nodes seconds  Proxmox  Talos  Kubernetes  writes");
    for (seed, combination) in (61..).zip(&combinations) {
        let took = runtime().block_on(comes_up(*combination, seed));
        println!("{combination} {took}");
    }
    println!(
        "{} combinations from nothing to healthy and without a write the second time, {:.1} s",
        combinations.len(),
        begun.elapsed().as_secs_f64()
    );
}
