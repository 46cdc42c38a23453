//! Everything that can be wrong with a machine, on each sort of node of a bring-up.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use talmox_sim_talos::{Flapping, MachineId, Trouble};
use talmox_test::product::{choose, in_parallel, tell_each};

use super::run::{Ended, bounded, caught, failed, gets_there, judge};
use crate::bringup::bed::{Bed, Stopped, described};
use crate::bringup::trouble::{STRANGER, stranger};

const SEED: u64 = 72;
/// The nodes that are tried: the one that is bootstrapped, one that joins, and a worker.
const NODES: [(&str, u32, &str); 3] =
    [("cp-1", 2000, "10.0.7.11"), ("cp-2", 2001, "10.0.7.12"), ("worker-1", 2003, "10.0.7.14")];

/// What is wrong.
#[derive(Clone, Debug)]
enum Wrong {
    /// From power-on until somebody does something about it.
    Machine(Trouble),
    /// The same, but it passes by itself after a while.
    ForAWhile(Trouble, Duration),
    /// The API comes and goes.
    Flaps(Flapping),
    /// Another machine has the node's address, with Talos in maintenance mode.
    Stranger,
    /// Power fails for a moment so long after the first VM ran.
    Restarts(Duration),
}

struct Sort {
    name: &'static str,
    /// Machines boot from an ISO and install themselves.
    installs: bool,
    wrong: Wrong,
}

struct Case {
    sort: usize,
    node: &'static str,
    machine: MachineId,
    address: IpAddr,
    wrong: Wrong,
    installs: bool,
    name: String,
}

fn sorts() -> Vec<Sort> {
    use Trouble::{
        BootFails, ClockOff, Crashes, DiesInInstall, LosesEtcd, NeverBoots, SlowInstall, WrongAddress,
    };
    let running = |name, wrong| Sort { name, installs: false, wrong };
    let installing = |name, wrong| Sort { name, installs: true, wrong };
    let free = "10.0.7.99".parse().unwrap();
    let taken = "10.0.7.13".parse().unwrap();
    let passes = Duration::from_mins(4);
    let flaps = |up, down| Wrong::Flaps(Flapping { up, down });
    let restarts = |seconds| Wrong::Restarts(Duration::from_secs(seconds));
    vec![
        running("never boots", Wrong::Machine(NeverBoots)),
        running("boots the second time", Wrong::ForAWhile(NeverBoots, passes)),
        running("its image does not boot", Wrong::Machine(BootFails("1.13.9".to_owned()))),
        running("wrong address", Wrong::Machine(WrongAddress(free))),
        running("address of another node", Wrong::Machine(WrongAddress(taken))),
        running("stranger at its address", Wrong::Stranger),
        running("clock off", Wrong::Machine(ClockOff)),
        running("clock off for a while", Wrong::ForAWhile(ClockOff, passes)),
        running("etcd crashes for a while", Wrong::ForAWhile(Crashes("etcd".to_owned()), passes)),
        running("kubelet crashes for a while", Wrong::ForAWhile(Crashes("kubelet".to_owned()), passes)),
        running("API flaps a little", flaps(20_000, 2_000)),
        running("API flaps much", flaps(6_000, 6_000)),
        running("restarts while it boots", restarts(2)),
        running("restarts while it is configured", restarts(6)),
        running("restarts during the bootstrap", restarts(10)),
        running("restarts while it joins", restarts(14)),
        running("etcd member lost", Wrong::Machine(LosesEtcd)),
        installing("slow install", Wrong::Machine(SlowInstall(60))),
        installing("install takes too long", Wrong::Machine(SlowInstall(600))),
        installing("dies during install", Wrong::Machine(DiesInInstall)),
    ]
}

/// Whether a trouble can happen before a cluster is upgraded. A new one does not compile until somebody decides.
fn concerns_bringing_up(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::NeverBoots
        | Trouble::WrongAddress(_)
        | Trouble::SlowInstall(_)
        | Trouble::DiesInInstall
        | Trouble::BootFails(_)
        | Trouble::LosesEtcd
        | Trouble::ClockOff
        | Trouble::Crashes(_) => true,
        Trouble::DiesInUpgrade | Trouble::InstallerFails(_) | Trouble::Sick(_) => false,
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (sort, Sort { name, installs, wrong }) in sorts().into_iter().enumerate() {
        for (node, machine, address) in NODES {
            // A worker has no etcd to lose.
            if matches!(wrong, Wrong::Machine(Trouble::LosesEtcd)) && node.starts_with("worker") {
                continue;
            }
            if let Wrong::Machine(trouble) | Wrong::ForAWhile(trouble, _) = &wrong {
                assert!(concerns_bringing_up(trouble), "{trouble:?}");
            }
            let name = format!("{name} on {node}");
            let (machine, address) = (MachineId(machine), address.parse().unwrap());
            cases.push(Case { sort, node, machine, address, wrong: wrong.clone(), installs, name });
        }
    }
    cases
}

impl Case {
    fn bed(&self) -> Bed {
        let more = if self.installs { "proxmox_vm_defaults: {boot: iso}" } else { "" };
        Bed::new(SEED, described(3, 1, more))
    }

    fn begin(&self, bed: &Bed) {
        match &self.wrong {
            Wrong::Machine(trouble) | Wrong::ForAWhile(trouble, _) => {
                bed.lab.nodes(|nodes| nodes.faults.trouble(self.machine, trouble.clone()));
            }
            Wrong::Flaps(flapping) => bed.lab.nodes(|nodes| nodes.faults.flap(self.address, *flapping)),
            Wrong::Stranger => stranger(&bed.lab, self.address),
            Wrong::Restarts(_) => {}
        }
    }

    /// What happens while the run is under way.
    async fn during(&self, bed: &Bed) {
        match &self.wrong {
            Wrong::Machine(_) | Wrong::Flaps(_) | Wrong::Stranger => {}
            Wrong::ForAWhile(_, passes) => {
                tokio::time::sleep(*passes).await;
                bed.lab.nodes(|nodes| nodes.faults.mend(self.machine));
            }
            Wrong::Restarts(after) => {
                until(|| bed.lab.nodes(|nodes| nodes.is_on(self.machine))).await;
                tokio::time::sleep(*after).await;
                bed.lab.nodes(|nodes| nodes.reset(self.machine));
            }
        }
        std::future::pending::<()>().await;
    }

    /// What an administrator does who was told where it stands: whatever is wrong is put right, and the machine restarted.
    fn repair(&self, bed: &Bed) {
        bed.lab.nodes(|nodes| {
            nodes.faults.mend(self.machine);
            nodes.faults.steady(self.address);
            match &self.wrong {
                Wrong::Stranger => nodes.remove_machine(STRANGER),
                Wrong::Machine(_) | Wrong::ForAWhile(..) => nodes.reset(self.machine),
                Wrong::Flaps(_) | Wrong::Restarts(_) => {}
            }
        });
    }
}

async fn until(so: impl Fn() -> bool) {
    while !so() {
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn run(case: &Case, words: &mut String) -> Ended {
    caught(|| async {
        let bed = case.bed();
        case.begin(&bed);
        let first = {
            let (work, during) = (std::pin::pin!(bounded(&bed, 0xa)), std::pin::pin!(case.during(&bed)));
            match select(work, during).await {
                Either::Left((end, _)) => end,
                Either::Right(((), _)) => Err("what happens meanwhile never ends".to_owned()),
            }
        };
        let ended = match first.and_then(judge) {
            Err(words) => Err(words),
            Ok(stopped) => put_right(case, &bed, stopped, words).await,
        };
        ended.unwrap_or_else(|words| failed(&bed, &words))
    })
}

async fn put_right(
    case: &Case,
    bed: &Bed,
    stopped: Option<Stopped>,
    words: &mut String,
) -> Result<Ended, String> {
    let ended = if stopped.is_some() { Ended::Stopped } else { Ended::Through };
    if let Some(stopped) = &stopped {
        case.repair(bed);
        let said = stopped.words.lines().map(|line| line.trim_start_matches("because: "));
        *words = said.take(2).collect::<Vec<_>>().join(": ");
    } else {
        bed.lab.nodes(|nodes| nodes.faults.steady(case.address));
    }
    gets_there(bed, stopped).await?;
    Ok(ended)
}

#[test]
fn everything_that_can_be_wrong_with_a_machine() {
    let begun = Instant::now();
    let all = cases();
    let product = all.len();
    // Each of them takes a tenth of a second: no sample.
    let chosen = choose(all, |case| case.name.clone(), product);
    let said: Vec<Mutex<String>> = chosen.iter().map(|_| Mutex::new(String::new())).collect();
    let numbered: Vec<(usize, &Case)> = chosen.iter().enumerate().collect();
    let ended = in_parallel(&numbered, |(index, case)| run(case, &mut said[*index].lock().unwrap()));
    tell_each(chosen.iter().zip(&ended).map(|(case, ended)| (case.name.clone(), ended.word().to_owned())));
    let mut failures = Vec::new();
    println!("t: went through · s: stopped with a next step, which was taken, then went through");
    println!("{:<34}{}", "", NODES.map(|(node, _, _)| format!("{node:<10}")).concat());
    for (sort, Sort { name, .. }) in sorts().iter().enumerate() {
        let cell = |node: &str| {
            let index = chosen.iter().position(|case| case.sort == sort && case.node == node);
            index.map_or(" ", |index| match ended[index] {
                Ended::Through => "t",
                Ended::Stopped => "s",
                Ended::Failed(_) => "F",
            })
        };
        println!("{name:<34}{}", NODES.map(|(node, _, _)| format!("{:<10}", cell(node))).concat());
    }
    for (index, case) in chosen.iter().enumerate() {
        match &ended[index] {
            Ended::Stopped => println!("{}: {}", case.name, said[index].lock().unwrap()),
            Ended::Failed(words) => failures.push(format!("{}: {words}", case.name)),
            Ended::Through => {}
        }
    }
    println!(
        "machines: {} troubles × {} nodes, {} runs of {product}, {} failures, {:.0} s",
        sorts().len(),
        NODES.len(),
        chosen.len(),
        failures.len(),
        begun.elapsed().as_secs_f64()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
