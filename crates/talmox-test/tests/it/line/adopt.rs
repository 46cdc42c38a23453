//! VMs made by other hands become nodes, and nothing on them changes but the mark.

use std::collections::BTreeMap;

use talmox_adopt::{Adoption, Marked, Proposal, Selection, mark, probe, propose};
use talmox_config::{Files, Outcome, read_files};
use talmox_exec::observe;
use talmox_plan::{Effect, Nonce, Plan, Request};
use talmox_sim::{Dump, World};
use talmox_test::{Fault, When};
use talmox_types::desired::{Desired, Role};
use talmox_types::{Mark, NodeName, VmId};

use crate::chance::Chance;
use crate::line::bed::{Bed, told};
use crate::line::hands::Made;
use crate::line::spec::{Spec, UID};
use crate::line::worlds::fitting;

const SEED: u64 = 8;
const VMS: usize = 50;

fn cluster_text(pool: &str) -> String {
    format!(
        "# the cluster\ncluster_name: lab\ncluster_uid: \"{UID}\"\nproxmox_endpoint: https://pve1:8006\n\
         proxmox_storage: local-zfs\nproxmox_bridge: vmbr0\nnode_cidr: 10.0.7.0/24\nnode_gateway: 10.0.7.1\n\
         cluster_api_addr: 10.0.7.9\nproxmox_pool: {pool}\ntemplate: talos-1.13.9\n"
    )
}

/// The description as it lies in files.
#[derive(Clone)]
struct Folder {
    cluster: String,
    nodes: String,
}

impl Folder {
    fn read(&self) -> Box<Outcome> {
        let outcome = Box::new(read_files(Files::from_texts(&self.cluster, Some(&self.nodes))));
        assert!(!outcome.has_errors(), "{:#?}\n{}", outcome.problems, self.nodes);
        outcome
    }

    fn desired(&self) -> Desired {
        self.read().desired.unwrap()
    }

    fn write(&mut self, proposal: &Proposal) {
        for file in &proposal.files {
            let text = if file.name == "nodes.yaml" { &mut self.nodes } else { &mut self.cluster };
            assert_eq!(*text, file.before);
            text.clone_from(&file.after);
        }
    }
}

fn world_with(vms: &[Made], hosts: usize) -> World {
    let mut world = fitting(&Spec { nodes: Vec::new(), ..Spec::lab(hosts, 0, 0) }, SEED);
    for vm in vms {
        vm.put(&mut world);
    }
    world
}

async fn look(bed: &Bed, folder: &Folder, selection: &Selection) -> Proposal {
    let outcome = folder.read();
    let observed = bed.look(&probe(outcome.desired.as_ref().unwrap(), selection)).await;
    propose(outcome, &observed, selection, &Nonce::new(0xad0b7))
        .unwrap_or_else(|error| panic!("{}", told(&error)))
}

/// The whole verb: look, write the files, mark.
async fn adopt(bed: &Bed, folder: &mut Folder, selection: &Selection) -> Result<Proposal, String> {
    let outcome = folder.read();
    let desired = probe(outcome.desired.as_ref().unwrap(), selection);
    let observed = observe(&bed.client(), &desired).await.map_err(|error| told(&error))?;
    let proposal =
        propose(outcome, &observed, selection, &Nonce::new(0xad0b7)).map_err(|error| told(&error))?;
    folder.write(&proposal);
    for adoption in &proposal.adoptions {
        let marked = mark(&bed.client(), adoption).await.map_err(|error| told(&error))?;
        assert_eq!(marked == Marked::WitnessAfterRestart, adoption.witness_waits);
    }
    Ok(proposal)
}

fn node(name: &str) -> NodeName {
    NodeName::parse(name).unwrap()
}

fn id(vmid: u32) -> VmId {
    VmId::try_from(vmid).unwrap()
}

fn writes(bed: &Bed) -> usize {
    bed.lab.calls().iter().filter(|call| call.method != "GET").count()
}

/// What of a VM adoption may not touch.
fn untouched(dump: &Dump) -> Dump {
    let mut dump = dump.clone();
    for vm in dump.vms.values_mut() {
        for values in [&mut vm.config, &mut vm.pending] {
            values.remove("description");
            values.remove("smbios1");
        }
    }
    dump
}

fn is_live_only(plan: &Plan) -> bool {
    plan.refusals.is_empty() && plan.steps.iter().all(|planned| planned.effect <= Effect::ChangeLive)
}

/// Comments of a text, in their order.
fn comments(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.split_once('#').map(|(_, comment)| comment.to_owned())).collect()
}

async fn fifty(pool: &str, seed: u64) {
    let chance = Chance::new(seed);
    let vms: Vec<Made> = (1..=VMS).map(|number| Made::by(&chance, number, 3)).collect();
    let entries: String =
        vms.iter().enumerate().map(|(index, vm)| vm.entry(index + 1, &chance, pool != "none")).collect();
    let mut folder =
        Folder { cluster: cluster_text(pool), nodes: format!("# all of them\nnodes:\n{entries}") };
    let written = folder.clone();
    let bed = Bed::new(world_with(&vms, 3), seed);
    let before = bed.dump();
    let first = adopt(&bed, &mut folder, &Selection::AllMatching).await.unwrap();
    let by_itself = first.adoptions.len();
    // A name alone proves nothing: these are asked for.
    for refused in &first.refused {
        let name = refused.node.as_ref().unwrap();
        assert!(refused.problem.contains("matches by name only"), "{refused:?}");
        let vm = vms.iter().find(|vm| vm.name == name.as_str()).unwrap();
        let selection = Selection::Node { node: name.clone(), vmid: Some(id(vm.vmid)) };
        let second = adopt(&bed, &mut folder, &selection).await.unwrap();
        assert!(second.refused.is_empty(), "{vm:?}\n{:#?}", second.refused);
        assert_eq!(second.adoptions.len(), 1);
    }
    let after = bed.dump();
    assert_eq!(untouched(&after), untouched(&before), "only the mark was written");
    for vm in &vms {
        let config = &after.vms[&vm.vmid].config;
        let mark = Mark::of_description(&config["description"]).unwrap();
        assert_eq!((mark.node.as_str(), mark.vmid.get()), (vm.name.as_str(), vm.vmid));
        let notes = config["description"].strip_suffix(&mark.to_string()).unwrap();
        let expected = vm.notes.as_ref().map_or_else(String::new, |notes| format!("{notes}\n"));
        assert_eq!(notes, expected, "notes of {}", vm.vmid);
    }
    assert_eq!(comments(&folder.nodes), comments(&written.nodes), "comments are kept");
    assert_eq!(folder.cluster, written.cluster);
    let desired = folder.desired();
    let plan = bed.plan(&desired, &Request::default(), 2).await;
    assert!(is_live_only(&plan), "{plan:#?}");
    assert!(plan.is_empty() || pool != "none", "{plan:#?}");
    let live = plan
        .steps
        .iter()
        .filter_map(|planned| planned.node.clone())
        .collect::<std::collections::BTreeSet<_>>();
    // What follows is carried out, and then there is nothing left: no step, no write.
    bed.apply(&desired, &Request::default(), 2, &plan)
        .await
        .unwrap_or_else(|error| panic!("{}", told(&error)));
    let count = writes(&bed);
    let again = bed.plan(&desired, &Request::default(), 3).await;
    assert!(again.is_empty(), "{again:#?}");
    bed.apply(&desired, &Request::default(), 3, &again)
        .await
        .unwrap_or_else(|error| panic!("{}", told(&error)));
    let twice = adopt(&bed, &mut folder, &Selection::AllMatching).await.unwrap();
    assert!(twice.adoptions.is_empty() && twice.files.is_empty() && twice.refused.is_empty());
    assert_eq!(twice.already.len(), VMS);
    assert_eq!(writes(&bed), count, "a second adoption and a second apply write nothing");
    println!(
        "seed {seed}, pool {pool}: {VMS} VMs adopted ({by_itself} by what they have in common, {} by --vmid): {} with an \
         empty plan, {} with live changes, 0 writes afterwards",
        VMS - by_itself,
        VMS - live.len(),
        live.len()
    );
}

#[tokio::test(start_paused = true)]
async fn fifty_vms_of_other_hands() {
    fifty("none", SEED).await;
}

#[tokio::test(start_paused = true)]
async fn fifty_more_that_join_a_pool() {
    fifty("talmox-lab", SEED + 1).await;
}

/// A VM as the web page makes it, with its name, and a description of one node.
fn one(name: &str, vmid: u32, net: &str, more: &[(&str, &str)]) -> (World, Folder) {
    let mut world = world_with(&[], 1);
    add(&mut world, name, vmid, net, more, true);
    let folder = Folder {
        cluster: cluster_text("none"),
        nodes: "nodes:\n  - name: cp-1\n    address: 10.0.7.11\n    mac_addr: BC:24:11:00:00:01 # label\n    controller: true\n"
            .to_owned(),
    };
    (world, folder)
}

fn add(world: &mut World, name: &str, vmid: u32, net: &str, more: &[(&str, &str)], running: bool) {
    let volume = format!("local-zfs:vm-{vmid}-disk-0,size=32G");
    let base =
        [("name", name), ("scsi0", &volume), ("net0", net), ("memory", "4096"), ("boot", "order=scsi0")];
    let config: BTreeMap<String, String> =
        base.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    world.add_vm("pve1", vmid, config, running);
    let now = world.clock();
    world.advance_to(now + 20_000);
}

const OURS: &str = "virtio=BC:24:11:00:00:01,bridge=vmbr0";
const OTHER: &str = "virtio=BC:24:11:99:99:99,bridge=vmbr0";

/// Everything that is refused, in the words people get.
#[tokio::test(start_paused = true)]
async fn what_is_refused_and_why() {
    let foreign = "talmox:v1 uid=0000111122223333 cluster=lab node=cp-1 vmid=105 incarnation=00000001";
    let copied = format!("talmox:v1 uid={UID} cluster=lab node=cp-9 vmid=100 incarnation=00000001");
    let asked = |vmid| Selection::Node { node: node("cp-1"), vmid: Some(id(vmid)) };
    let by_name = Selection::Node { node: node("cp-1"), vmid: None };
    let mut told = String::new();
    let mut cases: Vec<(&str, World, Folder, Selection)> = Vec::new();
    let mut case = |what: &'static str, (world, folder): (World, Folder), selection: Selection| {
        cases.push((what, world, folder, selection));
    };
    case("name only", one("cp-1", 105, OTHER, &[]), by_name.clone());
    case("name only, all matching", one("cp-1", 105, OTHER, &[]), Selection::AllMatching);
    case("nothing", one("web", 105, OTHER, &[]), by_name.clone());
    let mut two = one("cp-1", 105, OURS, &[]);
    add(&mut two.0, "web", 106, OURS, &[], false);
    case("two of them", two, by_name.clone());
    case("another cluster's", one("cp-1", 105, OURS, &[("description", foreign)]), asked(105));
    case("a copy", one("cp-1", 105, OURS, &[("description", &copied)]), asked(105));
    case("a template", one("cp-1", 105, OURS, &[("template", "1")]), asked(105));
    let mut locked = one("cp-1", 105, OURS, &[]);
    locked.0.set_lock(105, Some("backup"));
    case("locked", locked, asked(105));
    case("not there", one("cp-1", 105, OURS, &[]), asked(999));
    case(
        "no such node",
        one("cp-1", 105, OURS, &[]),
        Selection::Node { node: node("cp-7"), vmid: Some(id(105)) },
    );
    case(
        "boots from elsewhere",
        one("cp-1", 105, OURS, &[("scsi2", "local-zfs:vm-105-disk-1,size=9G"), ("boot", "order=scsi2")]),
        asked(105),
    );
    case(
        "another VM's disk",
        one("cp-1", 105, OURS, &[("scsi0", "local-zfs:vm-150-disk-0,size=9G")]),
        asked(105),
    );
    case("a VM of no node", one("web", 105, OTHER, &[]), Selection::Vm(id(105)));
    let mut pool = one("pool-1", 105, OURS, &[]);
    pool.1.nodes.push_str("node_pools:\n  - {name: pool, count: 1, addresses: 10.0.7.100-109}\n");
    case("a member of a pool", pool, Selection::Node { node: node("pool-1"), vmid: Some(id(105)) });
    let mut alias = one("cp-1", 105, OURS, &[]);
    alias.1.nodes =
        "nodes:\n  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n    vm_memory: &memory 8192\n"
            .to_owned();
    case("an anchor", alias, asked(105));
    for (what, world, mut folder, selection) in cases {
        let bed = Bed::new(world, SEED);
        let before = (bed.dump(), folder.nodes.clone());
        let proposal = adopt(&bed, &mut folder, &selection).await.unwrap();
        assert!(proposal.adoptions.is_empty(), "{what}: {:#?}", proposal.adoptions);
        told.push_str(&format!("## {what}\n"));
        for refused in &proposal.refused {
            let who = refused.node.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            told.push_str(&format!("{who} {:?}: {}\n", refused.vmid.map(VmId::get), refused.problem));
            told.push_str(&refused.hints.iter().map(|hint| format!("  {hint}\n")).collect::<String>());
        }
        assert_eq!((bed.dump(), folder.nodes), before, "{what}: nothing is touched");
        assert_eq!(writes(&bed), 0, "{what}");
    }
    insta::assert_snapshot!(told);
}

/// Credentials that may not mark the VM, or not put it into the pool, are told before a file is written.
#[tokio::test(start_paused = true)]
async fn what_the_credentials_lack_is_said_before_files_are_written() {
    let (world, mut folder) = one("cp-1", 105, OURS, &[]);
    folder.cluster = cluster_text("lab");
    let bed = Bed::new(world, SEED);
    let selection = Selection::Node { node: node("cp-1"), vmid: Some(id(105)) };
    let desired = probe(folder.read().desired.as_ref().unwrap(), &selection);
    let all = bed.look(&desired).await;
    assert!(all.rights.holds("/vms/105", "VM.Config.Options"), "{:?}", all.rights);
    let needed = ["VM.Config.Options", "VM.Config.HWType", "Pool.Allocate"];
    for lacking in needed {
        let rights = all.rights.clone().without(lacking);
        let observed = talmox_plan::Observed { rights, ..all.clone() };
        let proposal = propose(folder.read(), &observed, &selection, &Nonce::new(0xad0b7)).unwrap();
        assert!(proposal.adoptions.is_empty() && proposal.files.is_empty(), "{lacking}: {proposal:#?}");
        let [refused] = &proposal.refused[..] else { panic!("{lacking}: {:#?}", proposal.refused) };
        let place = if lacking == "Pool.Allocate" { "/pool/lab" } else { "/vms/105" };
        let problem = format!("{lacking} is missing on {place}, to ");
        assert!(refused.problem.starts_with(&problem), "{lacking}: {}", refused.problem);
        assert!(
            refused.hints[0].contains("pvesh set /pools/lab --vms 105"),
            "{lacking}: {:?}",
            refused.hints
        );
    }
    assert_eq!(adopt(&bed, &mut folder, &selection).await.unwrap().adoptions.len(), 1, "with all of them");
}

/// A description with comments, odd spacing and both styles, before and after.
#[tokio::test(start_paused = true)]
async fn files_keep_what_people_wrote() {
    let mut world = world_with(&[], 1);
    add(
        &mut world,
        "cp-1",
        105,
        "virtio=BC:24:11:00:00:01,bridge=vmbr1,firewall=1,queues=2",
        &[("cores", "3"), ("tags", "mine")],
        true,
    );
    add(
        &mut world,
        "w-1",
        106,
        "virtio=BC:24:11:00:00:02,bridge=vmbr0,tag=7",
        &[("scsi1", "local-zfs:vm-106-disk-1,size=9G"), ("onboot", "1")],
        false,
    );
    let nodes = "# Nodes of the lab.\r\nnodes:\r\n\r\n  # the first one\r\n  -   name: cp-1     # left\r\n      address:   10.0.7.11\r\n      \
                 mac_addr: \"BC:24:11:00:00:01\"\r\n      controller: true # yes\r\n      # below\r\n      labels:\r\n        a: b   # deep\r\n\r\n  \
                 - {name: w-1, address: 10.0.7.12, mac_addr: BC:24:11:00:00:02,\r\n     memory: 1024 } # end\r\n# the end\r\n";
    let mut folder = Folder { cluster: cluster_text("none"), nodes: nodes.to_owned() };
    let bed = Bed::new(world, SEED);
    let proposal = adopt(&bed, &mut folder, &Selection::AllMatching).await.unwrap();
    assert_eq!(proposal.adoptions.len(), 2, "{:#?}", proposal.refused);
    assert!(!folder.nodes.replace("\r\n", "").contains('\n'), "line ends are kept");
    insta::assert_snapshot!(folder.nodes.replace("\r\n", "\n"));
    // Every line there was is still there, those of changed values aside.
    let lines: Vec<&str> = folder.nodes.lines().collect();
    let gone: Vec<&str> = nodes.lines().filter(|line| !lines.contains(line)).collect();
    assert_eq!(gone, ["     memory: 1024 } # end"]);
}

/// A node the description lacks is added by name, with what it is.
#[tokio::test(start_paused = true)]
async fn a_vm_becomes_a_new_node() {
    let (mut world, mut folder) = one("cp-1", 105, OURS, &[]);
    let more =
        [("ide2", "local-zfs:vm-106-cloudinit,media=cdrom"), ("ipconfig0", "ip=10.0.7.44/24,gw=10.0.7.1")];
    add(&mut world, "something", 106, "virtio=BC:24:11:00:00:02,bridge=vmbr0", &more, true);
    let bed = Bed::new(world, SEED);
    adopt(&bed, &mut folder, &Selection::AllMatching).await.unwrap();
    let new = Selection::New { vmid: id(106), name: node("w-1"), role: Role::Worker, address: None };
    let proposal = adopt(&bed, &mut folder, &new).await.unwrap();
    assert!(proposal.refused.is_empty(), "{:#?}", proposal.refused);
    let [Adoption { follows, .. }] = proposal.adoptions.as_slice() else { panic!("one") };
    assert_eq!(follows, &["name something → w-1"]);
    insta::assert_snapshot!(folder.nodes);
    let plan = bed.plan(&folder.desired(), &Request::default(), 2).await;
    assert!(is_live_only(&plan), "{plan:#?}");
    let again = adopt(&bed, &mut folder, &new).await.unwrap_err();
    assert_eq!(again, "there is a node w-1 already");
}

/// Marks that were lost come back as they were: the SMBIOS values still tell which.
#[tokio::test(start_paused = true)]
async fn a_lost_vm_is_taken_back() {
    let (world, mut folder) = one("cp-1", 105, OURS, &[]);
    let bed = Bed::new(world, SEED);
    adopt(&bed, &mut folder, &Selection::AllMatching).await.unwrap();
    let marked = bed.dump().vms[&105].config["description"].clone();
    bed.lab.world(|world| {
        world.root_call("PUT", "/nodes/pve1/qemu/105/config", &[("description", "tidied up")]).unwrap()
    });
    let plan = bed.plan(&folder.desired(), &Request::default(), 2).await;
    assert_eq!(plan.refusals[0].choices[0], "if it is this node: talmox adopt cp-1 --vmid 105");
    let text = folder.nodes.clone();
    let back =
        adopt(&bed, &mut folder, &Selection::Node { node: node("cp-1"), vmid: Some(id(105)) }).await.unwrap();
    assert!(!back.adoptions[0].witness_waits && back.files.is_empty());
    assert_eq!(folder.nodes, text);
    assert_eq!(bed.dump().vms[&105].config["description"], format!("tidied up\n{marked}"));
    assert!(bed.plan(&folder.desired(), &Request::default(), 3).await.is_empty());
}

/// A client that dies at any call, before or after it is sent: another adoption ends with the same.
#[test]
fn killed_at_every_call() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let begin = || {
        let mut world = world_with(&[], 1);
        add(&mut world, "cp-1", 105, OURS, &[("description", "mine")], true);
        add(&mut world, "w-1", 106, OTHER, &[("cores", "3")], false);
        let nodes = "nodes:\n  - {name: cp-1, address: 10.0.7.11, mac_addr: BC:24:11:00:00:01, controller: true}\n  \
                     - {name: w-1, address: 10.0.7.12, mac_addr: BC:24:11:99:99:99}\n";
        (Bed::new(world, SEED), Folder { cluster: cluster_text("none"), nodes: nodes.to_owned() })
    };
    let (calls, expected) = runtime().block_on(async {
        let (bed, mut folder) = begin();
        adopt(&bed, &mut folder, &Selection::AllMatching).await.unwrap();
        (bed.lab.calls().len(), (bed.dump(), folder.nodes))
    });
    let mut runs = 0;
    for fault in [Fault::KillClient { sent: false }, Fault::KillClient { sent: true }, Fault::ReplyLost] {
        for number in 1..=calls {
            runtime().block_on(async {
                let (bed, mut folder) = begin();
                bed.lab.plan(When::call(u64::try_from(number).unwrap()), fault.clone());
                let _ = adopt(&bed, &mut folder, &Selection::AllMatching).await;
                bed.lab.transport().revive_client();
                let again = adopt(&bed, &mut folder, &Selection::AllMatching).await;
                let again = again.unwrap_or_else(|error| panic!("{fault:?} at call {number}: {error}"));
                assert!(again.refused.is_empty(), "{fault:?} at call {number}: {:#?}", again.refused);
                assert_eq!((bed.dump(), folder.nodes), expected, "{fault:?} at call {number}");
                runs += 1;
            });
        }
    }
    println!("adopt: K = {calls} calls, {runs} runs, all the same in the end");
}

/// Somebody was faster: what was proven is not what is there any more.
#[tokio::test(start_paused = true)]
async fn a_vm_that_changed_meanwhile_is_not_marked() {
    let (world, folder) = one("cp-1", 105, OURS, &[]);
    let bed = Bed::new(world, SEED);
    let proposal = look(&bed, &folder, &Selection::AllMatching).await;
    bed.lab
        .world(|world| world.root_call("PUT", "/nodes/pve1/qemu/105/config", &[("memory", "8192")]).unwrap());
    let before = bed.dump();
    let error = mark(&bed.client(), &proposal.adoptions[0]).await.unwrap_err();
    assert!(
        error.to_string().ends_with("has changed since it was looked at; nothing was written to it"),
        "{error}"
    );
    assert_eq!(bed.dump(), before);
}
