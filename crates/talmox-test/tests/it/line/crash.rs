//! A client that dies at any call of any work, and another that comes after it.
//!
//! Six nodes on two hosts. Each piece of work is done once undisturbed, which gives the number of its calls and how
//! everything looks afterwards; then once more for every call, with the client killed before it is sent and after it
//! arrived. Another run must end with the same.

use std::collections::BTreeMap;
use std::time::Instant;

use talmox_plan::Request;
use talmox_pve::property::Smbios;
use talmox_sim::{Dump, World};
use talmox_test::thorough::runtime;
use talmox_test::{Fault, When};
use talmox_types::{Mark, NodeName};

use crate::line::bed::{Bed, destroy, foreign, ours, reboots};
use crate::line::spec::{Spec, UID};
use crate::line::worlds::fitting;

const SEED: u64 = 11;

/// Three control planes and as many workers as said, alternating between two hosts.
fn cluster(workers: usize) -> Spec {
    Spec::lab(2, 3, workers)
}

/// A piece of work: what is there, and what is wanted.
struct Work {
    name: &'static str,
    before: World,
    wanted: Spec,
    request: Request,
}

/// A world in which a description has been carried out, and something that is nobody's.
async fn built(spec: &Spec) -> World {
    let mut world = fitting(spec, SEED);
    let config = [("name", "web"), ("scsi0", "local-zfs:vm-150-disk-0,size=8G"), ("tags", "talos")];
    let config = config.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    world.add_vm("pve1", 150, config, true);
    let bed = Bed::new(world, SEED);
    if !spec.nodes.is_empty() {
        bed.converge(&spec.desired(), &reboots(), 1).await.unwrap();
        // The hosts have told each other.
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    }
    bed.lab.world(|world| world.clone())
}

fn names(names: &[&str]) -> std::collections::BTreeSet<NodeName> {
    names.iter().map(|name| NodeName::parse(name).unwrap()).collect()
}

/// Larger, with other tags, another disk and another network device.
fn changed() -> Spec {
    let mut spec = cluster(3);
    for node in &mut spec.nodes {
        node.memory = 6144;
        node.disk = 25;
    }
    spec.machine_tags = vec!["prod", "talos"];
    spec.nodes[4].disks.push((1, 5, false));
    spec.nodes[5].nics.push((1, 1, Some(7)));
    spec
}

/// Everything of the cluster under the names of its nodes, without ids and what is made by chance.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Normal {
    nodes: BTreeMap<String, (String, bool, BTreeMap<String, String>)>,
    volumes: Vec<(String, String, u64)>,
    pool: bool,
}

fn normal(dump: &Dump) -> Normal {
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    let mut nodes = BTreeMap::new();
    for vmid in ours(dump, UID) {
        let vm = &dump.vms[&vmid];
        let mark = Mark::of_description(&vm.config["description"]).unwrap();
        let own = |text: &String| text.replace(&vmid.to_string(), "ID").replace(&mark.incarnation, "RUN");
        let chance = ["vmgenid", "meta"];
        let mut config: BTreeMap<String, String> = vm
            .config
            .iter()
            .chain(&vm.pending)
            .filter(|(key, _)| !chance.contains(&key.as_str()))
            .map(|(key, text)| (key.clone(), own(text)))
            .collect();
        let smbios = Smbios::parse(&vm.config["smbios1"]).unwrap();
        assert_eq!(smbios.serial, Some(mark.witness_serial()), "the witness of {}", mark.node);
        assert_eq!(smbios.family, Some(mark.witness_family()), "the witness of {}", mark.node);
        config.remove("smbios1");
        config.extend(vm.deletes.iter().map(|key| (key.clone(), "goes".to_owned())));
        let twice = nodes.insert(mark.node.to_string(), (vm.node.clone(), vm.running, config));
        assert!(twice.is_none(), "two VMs of {}", mark.node);
        names.insert(vmid, mark.node.to_string());
    }
    let mut volumes = Vec::new();
    for (key, volume) in &dump.volumes {
        let Some(owner) = volume.owner else { continue };
        assert!(dump.vms.contains_key(&owner), "{key} is left without a VM");
        if let Some(name) = names.get(&owner) {
            volumes.push((name.clone(), key.replace(&owner.to_string(), "ID"), volume.size));
        }
    }
    volumes.sort();
    Normal { nodes, volumes, pool: dump.pools.contains_key("talmox-lab") }
}

/// One run with something planned to go wrong, then others until one has nothing left to do.
async fn run(work: &Work, when: Option<(When, Fault)>) -> (Bed, bool) {
    let bed = Bed::new(work.before.clone(), SEED);
    let desired = work.wanted.desired();
    let disturbed = when.is_some();
    if let Some((when, fault)) = when {
        bed.lab.plan(when, fault);
    }
    let first = bed.converge(&desired, &work.request, 0xa).await;
    if !disturbed {
        first.unwrap();
        return (bed, true);
    }
    bed.lab.transport().revive_client();
    if let Err(error) = bed.converge(&desired, &work.request, 0xb).await {
        panic!("{}: the run after it failed: {error}\n{}", work.name, bed.lab.calls());
    }
    (bed, first.is_ok())
}

/// Does the work with a fault at every call, and compares.
fn every_call(prepare: impl Fn() -> Work, least: usize, kind: &str, faults: &[Fault]) {
    let begun = Instant::now();
    let work = prepare();
    let (expected, others, calls) = runtime().block_on(async {
        let (bed, _) = run(&work, None).await;
        let dump = bed.dump();
        (normal(&dump), foreign(&dump, UID, Some("talmox-lab")), bed.lab.calls().len())
    });
    assert!(calls >= least, "{} takes only {calls} calls", work.name);
    let (mut runs, mut through) = (0, 0);
    for fault in faults {
        for number in 1..=calls {
            runtime().block_on(async {
                let when = When::call(u64::try_from(number).unwrap());
                let (bed, first) = run(&work, Some((when, fault.clone()))).await;
                let dump = bed.dump();
                let what = format!("{}, {fault:?} at call {number}", work.name);
                assert_eq!(normal(&dump), expected, "{what}\n{}", bed.lab.calls());
                assert_eq!(foreign(&dump, UID, Some("talmox-lab")), others, "{what}");
                (runs, through) = (runs + 1, through + usize::from(first));
            });
        }
    }
    println!(
        "{:<8} {kind}: K = {calls} calls, {runs} runs, all the same in the end ({through} at the first go), {:.1} s",
        work.name,
        begun.elapsed().as_secs_f64()
    );
}

fn create() -> Work {
    let before = runtime().block_on(built(&Spec { nodes: Vec::new(), ..cluster(3) }));
    Work { name: "create", before, wanted: cluster(3), request: reboots() }
}

fn scale_up() -> Work {
    let before = runtime().block_on(built(&cluster(1)));
    Work { name: "scale up", before, wanted: cluster(3), request: reboots() }
}

fn change() -> Work {
    let before = runtime().block_on(built(&cluster(3)));
    Work { name: "change", before, wanted: changed(), request: reboots() }
}

fn replace() -> Work {
    let before = runtime().block_on(built(&cluster(3)));
    let request = Request { replace: names(&["cp-2", "worker-1"]), ..reboots() };
    Work { name: "replace", before, wanted: cluster(3), request }
}

fn remove() -> Work {
    let before = runtime().block_on(built(&cluster(3)));
    let request = Request { prune: true, ..reboots() };
    Work { name: "remove", before, wanted: cluster(1), request }
}

fn gone() -> Work {
    let before = runtime().block_on(built(&cluster(3)));
    Work { name: "destroy", before, wanted: cluster(3), request: destroy() }
}

const KILLED: [Fault; 2] = [Fault::KillClient { sent: false }, Fault::KillClient { sent: true }];
const LOST: [Fault; 1] = [Fault::ReplyLost];

macro_rules! matrix {
    ($($work:ident, $least:literal;)+) => {$(
        mod $work {
            #[test]
            fn killed_at_every_call() {
                super::every_call(super::$work, $least, "killed", &super::KILLED);
            }

            #[test]
            fn without_any_one_reply() {
                super::every_call(super::$work, $least, "reply lost", &super::LOST);
            }
        }
    )+};
}

matrix! {
    create, 60;
    scale_up, 20;
    change, 30;
    replace, 20;
    remove, 10;
    gone, 20;
}
