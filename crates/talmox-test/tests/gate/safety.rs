//! etcd is safe whatever is asked for and whatever goes wrong: random changes of a cluster that lives, with faults, kills and
//! a second actor.
//!
//! ```text
//!  a cluster that lives ─▶ a change, and trouble ─▶ runs that may fail ─▶ trouble over: a run that must not ─▶ next change
//!         at every call: has etcd its quorum?                             nothing closed, nothing foreign touched, one bootstrap
//! ```
//!
//! What the world does by itself never costs a quorum: it takes a control plane only while all of them live and nobody is
//! taking one down. So a quorum that is lost was lost by us. `TALMOX_SEED` is the first case, `TALMOX_CASES` their number; a
//! case that fails says how to run it again.

use std::time::{Duration, Instant};

use futures_util::future::{Either, join, select};
use talmox_plan::Request;
use talmox_render::PatchText;
use talmox_talos::Code;
use talmox_test::{Fault, Lab, Watched, When};
use talmox_types::desired::Desired;

use crate::bed::{Bed, described, healthy};
use crate::chance::Chance;

const CHANGES: usize = 4;

/// What a case wants of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wish {
    controller_memory: u64,
    worker_memory: u64,
    workers: usize,
    /// Counts that become settings Talos takes over at once, on trial, or at a restart.
    sysctl: u64,
    hosts_entry: u64,
    environment: u64,
    at_a_time: usize,
}

impl Wish {
    fn first() -> Self {
        Self {
            controller_memory: 4096,
            worker_memory: 4096,
            workers: 2,
            sysctl: 0,
            hosts_entry: 0,
            environment: 0,
            at_a_time: 1,
        }
    }

    /// Something else than before.
    fn change(&mut self, chance: &Chance) -> &'static str {
        match chance.number(0, 6) {
            0 => {
                self.controller_memory += 1024;
                "more memory for control planes"
            }
            1 => {
                self.worker_memory += 1024;
                self.at_a_time = chance.small(1, 2);
                "more memory for workers"
            }
            2 => {
                (self.controller_memory, self.worker_memory) =
                    (self.controller_memory + 1024, self.worker_memory + 1024);
                "more memory for all"
            }
            3 => {
                self.sysctl += 1;
                "a setting that is taken over"
            }
            4 => {
                self.hosts_entry += 1;
                "another host name"
            }
            5 => {
                self.environment += 1;
                "a setting that needs a restart"
            }
            _ if self.workers < 4 => {
                self.workers += 1;
                "another worker"
            }
            _ => {
                self.controller_memory += 1024;
                self.environment += 1;
                "memory and a setting that needs a restart"
            }
        }
    }

    fn desired(&self) -> Desired {
        let Self { controller_memory, worker_memory, .. } = self;
        let more = format!(
            "proxmox_vm_controller_defaults: {{memory: {controller_memory}}}\n\
             proxmox_vm_worker_defaults: {{memory: {worker_memory}}}"
        );
        described(3, self.workers, &more)
    }

    fn patches(&self) -> Vec<PatchText> {
        let Self { sysctl, hosts_entry, environment, .. } = self;
        let mut parts = Vec::new();
        if *sysctl > 0 {
            parts.push(format!("sysctls: {{vm.max_map_count: \"{}\"}}", 262_144 + sysctl));
        }
        if *environment > 0 {
            parts.push(format!("env: {{ROUND: \"{environment}\"}}"));
        }
        let mut texts = Vec::new();
        if !parts.is_empty() {
            texts.push(format!("machine: {{{}}}", parts.join(", ")));
        }
        if *hosts_entry > 0 {
            let host =
                format!("apiVersion: v1alpha1\nkind: StaticHostConfig\nname: 10.0.7.{}", 100 + hosts_entry);
            texts.push(format!("{host}\nhostnames: [ns.lab]"));
        }
        let patch = |text| PatchText { name: "wish.yaml".to_owned(), text };
        texts.into_iter().map(patch).collect()
    }

    fn request(&self) -> Request {
        let mut request = healthy();
        request.upkeep.max_unavailable = std::num::NonZeroUsize::new(self.at_a_time);
        request
    }
}

/// What goes wrong during a change.
#[derive(Debug)]
enum Trouble {
    None,
    /// The run dies at a call.
    Killed {
        call: u64,
        sent: bool,
    },
    /// Calls fail.
    Faults(Vec<(u64, Fault)>),
    /// A control plane is switched off by others before it begins, and on again after a while.
    MemberOff {
        vmid: u32,
        seconds: u64,
    },
    /// Somebody else works on the same change, and may die.
    TwoActors {
        call: Option<u64>,
    },
}

impl Trouble {
    fn draw(chance: &Chance) -> Self {
        match chance.number(0, 9) {
            0 => Self::None,
            1..=4 => Self::Killed { call: chance.number(1, 900), sent: chance.percent(50) },
            5 | 6 => {
                let faults = [
                    Fault::Refused,
                    Fault::ReplyLost,
                    Fault::Hang { reached: true },
                    Fault::Hang { reached: false },
                    Fault::status(Code::Unavailable, "not now"),
                    Fault::reply(500, "got no worker upid"),
                ];
                let count = chance.small(1, 5);
                Self::Faults((0..count).map(|_| (chance.number(1, 900), chance.pick(&faults))).collect())
            }
            7 => Self::MemberOff {
                vmid: 2000 + u32::try_from(chance.number(0, 2)).unwrap(),
                seconds: chance.number(5, 900),
            },
            _ => Self::TwoActors { call: chance.percent(40).then(|| chance.number(1, 1500)) },
        }
    }
}

/// What a case came to.
#[derive(Default)]
struct Sum {
    calls: usize,
    looks: u64,
    runs: usize,
    failed: usize,
    kills: usize,
    struck: usize,
}

struct Case {
    bed: Bed,
    number: u32,
    sum: Sum,
}

impl Case {
    /// Runs until the change is there or the run gives up; any end is a good one but for what is checked after.
    async fn attempt(&mut self, wish: &Wish, trouble: &Trouble) {
        let lab = &self.bed.lab;
        match trouble {
            Trouble::None => {}
            Trouble::Killed { call, sent } => lab.plan(When::call(*call), Fault::KillClient { sent: *sent }),
            Trouble::Faults(faults) => {
                for (call, fault) in faults {
                    lab.plan(When::call(*call), fault.clone());
                }
            }
            Trouble::MemberOff { vmid, .. } => self.switch(*vmid, false).await,
            Trouble::TwoActors { call } => {
                if let Some(call) = call {
                    lab.plan(When::call(*call), Fault::KillClient { sent: true });
                }
            }
        }
        let (request, number) = (wish.request(), self.number);
        let ended = match trouble {
            Trouble::TwoActors { .. } => {
                let other = self.bed.beside();
                let both = join(
                    self.bed.converge_mortally(&request, number),
                    other.converge_mortally(&request, number + 1),
                );
                self.sum.runs += 1;
                let (one, other) = both.await;
                one.and(other)
            }
            Trouble::MemberOff { vmid, seconds } => {
                let back = async {
                    tokio::time::sleep(Duration::from_secs(*seconds)).await;
                    self.switch(*vmid, true).await;
                };
                let run = std::pin::pin!(self.bed.converge_mortally(&request, number));
                match select(run, std::pin::pin!(back)).await {
                    Either::Left((ended, back)) => {
                        back.await;
                        ended
                    }
                    Either::Right(((), run)) => run.await,
                }
            }
            Trouble::None | Trouble::Killed { .. } | Trouble::Faults(_) => {
                self.bed.converge_mortally(&request, number).await
            }
        };
        self.number += 2;
        self.sum.runs += 1;
        self.sum.failed += usize::from(ended.is_err());
        let transport = self.bed.lab.transport();
        self.sum.kills += usize::from(transport.client_died());
        transport.forget_faults();
        transport.revive_client();
    }

    /// Somebody at Proxmox switches a VM off or on.
    async fn switch(&self, vmid: u32, on: bool) {
        let (client, host, vmid) = (self.bed.lab.root(), talmox_test::host(1), talmox_test::vmid(vmid));
        let task =
            if on { client.start_vm(&host, vmid).await } else { client.stop_vm(&host, vmid, false).await };
        if let Ok(task) = task {
            let _ = self.bed.lab.done(&client, &task).await;
        }
    }

    /// Whatever happened before, a run without trouble gets there.
    async fn must_converge(&mut self, wish: &Wish) {
        let mut last = String::new();
        // A lease of a run that died is waited for; a machine that was cut off may need one more.
        for _ in 0..3 {
            let ended = self.bed.converge(&wish.request(), self.number).await;
            self.number += 2;
            self.sum.runs += 1;
            match ended {
                Ok(_) => return,
                Err(error) => last = error,
            }
            tokio::time::sleep(Duration::from_mins(2)).await;
        }
        panic!("it does not get there: {last}");
    }

    /// What must hold after every change.
    async fn check(&self, wish: &Wish) {
        let Watched { lost, .. } = self.bed.lab.transport().watched();
        assert!(lost.is_empty(), "etcd lost its quorum at {lost:?} ms");
        self.bed.settles().await;
        let seen = self.bed.look(&wish.request()).await;
        let talmox_plan::SeenKubernetes::Answers(cluster) = &seen.kubernetes else {
            panic!("{:?}", seen.kubernetes)
        };
        let closed: Vec<&String> = cluster
            .nodes
            .iter()
            .filter(|(_, node)| node.cordoned_for.is_some())
            .map(|(name, _)| name)
            .collect();
        assert!(closed.is_empty(), "{closed:?} are still closed to pods");
        assert_eq!(self.bed.etcd_clusters(), 1);
        let plan = self.bed.plan(&wish.request()).await;
        assert!(plan.is_empty(), "{plan:#?}");
    }
}

/// A VM of somebody else's, and what is left of it.
fn foreign(lab: &Lab) -> Option<serde_json::Value> {
    lab.world(|world| world.dump().vms.get(&150).map(|vm| serde_json::json!([vm.running, vm.config])))
}

async fn case(seed: u64) -> Sum {
    let chance = Chance::new(seed);
    let mut wish = Wish::first();
    let bed = Bed::new(seed, wish.desired());
    let theirs = [("name", "web"), ("scsi0", "local-zfs:vm-150-disk-0,size=8G"), ("memory", "1024")];
    let theirs = theirs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    bed.lab.world(|world| world.add_vm("pve1", 150, theirs.into(), false));
    let before = foreign(&bed.lab);
    let mut case = Case { bed, number: 1, sum: Sum::default() };
    case.must_converge(&wish).await;
    case.bed.settles().await;
    case.bed.lab.transport().watch_etcd();
    for _ in 0..CHANGES {
        let wanted = wish.change(&chance);
        (case.bed.desired, case.bed.patches) = (wish.desired(), wish.patches());
        let trouble = Trouble::draw(&chance);
        case.bed.story(&format!("{wanted}, {trouble:?}"));
        Box::pin(case.attempt(&wish, &trouble)).await;
        case.must_converge(&wish).await;
        case.check(&wish).await;
        assert_eq!(foreign(&case.bed.lab), before, "somebody else's VM was touched");
    }
    assert_eq!(case.bed.accepted("/Bootstrap"), 1);
    let transport = case.bed.lab.transport();
    let (calls, looks, struck) =
        (transport.call_count(), transport.watched().looks, transport.faults_struck());
    Sum { calls, looks, struck, ..case.sum }
}

#[expect(clippy::disallowed_methods, reason = "which cases are run, whoever runs them decides")]
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn quorum_is_never_lost_by_what_we_do() {
    let (first, cases) = (number("TALMOX_SEED", 1), number("TALMOX_CASES", 2));
    let begun = Instant::now();
    let mut all = Sum::default();
    for seed in first..first + cases {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(case(seed))));
        let Ok(sum) = ended else {
            panic!(
                "case {seed} failed; alone: TALMOX_SEED={seed} TALMOX_CASES=1 cargo test -p talmox-test --test gate safety"
            )
        };
        all.calls += sum.calls;
        all.looks += sum.looks;
        all.runs += sum.runs;
        all.failed += sum.failed;
        all.kills += sum.kills;
        all.struck += sum.struck;
    }
    println!(
        "etcd safety: seeds {first}..{}, {} calls, {} looks at etcd, {} runs of which {} ended early, {} killed, {} faults \
         struck, {:.0} s: no quorum lost, no second bootstrap, nothing closed, nothing foreign touched",
        first + cases,
        all.calls,
        all.looks,
        all.runs,
        all.failed,
        all.kills,
        all.struck,
        begun.elapsed().as_secs_f64()
    );
}
