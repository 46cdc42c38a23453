//! How many calls a second go through the client into the simulator and back, in memory.
//!
//! `cargo bench -p talmox-test`. Times are printed and not judged; what is judged is how many requests a piece of work
//! takes, which no busy machine can change.

#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use talmox_pve::client::{Client, CloneKind, CloneVm, ConfigChange, Silent};
use talmox_test::{Lab, host, vmid};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const CALLS: u32 = 2_000;
const VMS: u32 = 200;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// A piece of work: what it is, how many requests it took, how long.
struct Row {
    what: &'static str,
    requests: usize,
    time: Duration,
    simulated: Duration,
}

/// Does the work in a fresh lab and counts its requests.
fn measure(what: &'static str, work: &impl AsyncFn(&Lab, Client)) -> Row {
    runtime().block_on(async {
        let lab = Lab::without_latency(1);
        let client = lab.client();
        lab.template(&client, vmid(9000)).await;
        let (before, simulated) = (lab.calls().len(), lab.transport().now());
        let start = Instant::now();
        work(&lab, client).await;
        let time = start.elapsed();
        let simulated = Duration::from_millis(lab.transport().now() - simulated);
        Row { what, requests: lab.calls().len() - before, time, simulated }
    })
}

async fn reads(_: &Lab, client: Client) {
    for _ in 0..CALLS {
        client.version().await.unwrap();
    }
}

async fn configs(_: &Lab, client: Client) {
    for _ in 0..CALLS {
        client.vm_config(&host(1), vmid(9000)).await.unwrap();
    }
}

async fn changes(_: &Lab, client: Client) {
    for number in 0..CALLS {
        let change = ConfigChange::new().set("description", &number.to_string()).unwrap();
        client.change_config(&host(1), vmid(9000), &change).await.unwrap();
    }
}

/// Clones, starts and removes VMs, as many at a time as a storage can serve: who waits longer than ten seconds to
/// allocate fails, on the simulator as on Proxmox.
async fn lives(_: &Lab, client: Client) {
    let limit = Duration::from_hours(1);
    let mut work = JoinSet::new();
    let room = Arc::new(Semaphore::new(4));
    for id in 100..100 + VMS {
        let (client, room) = (client.clone(), Arc::clone(&room));
        work.spawn(async move {
            let _turn = room.acquire_owned().await.unwrap();
            let clone = CloneVm {
                newid: vmid(id),
                name: None,
                description: None,
                pool: None,
                target: None,
                kind: CloneKind::Linked,
            };
            let task = client.clone_vm(&host(1), vmid(9000), &clone).await.unwrap();
            client.follow(&task, "clone", limit, &Silent).await.unwrap();
            let task = client.start_vm(&host(1), vmid(id)).await.unwrap();
            client.follow(&task, "start", limit, &Silent).await.unwrap();
            let task = client.stop_vm(&host(1), vmid(id), false).await.unwrap();
            client.follow(&task, "stop", limit, &Silent).await.unwrap();
            let task = client.delete_vm(&host(1), vmid(id), true).await.unwrap();
            client.follow(&task, "delete", limit, &Silent).await.unwrap();
        });
    }
    while let Some(done) = work.join_next().await {
        done.unwrap();
    }
}

fn main() {
    let rows = [
        measure("version", &reads),
        measure("configuration read", &configs),
        measure("configuration changed", &changes),
        measure("200 VMs from clone to delete", &lives),
    ];
    println!("{:<30} {:>9} {:>12} {:>12} {:>14}", "work", "requests", "time", "a second", "simulated");
    for Row { what, requests, time, simulated } in &rows {
        let rate = f64::from(u32::try_from(*requests).unwrap()) / time.as_secs_f64();
        println!(
            "{what:<30} {requests:>9} {:>9.1} ms {rate:>12.0} {:>12.1} s",
            time.as_secs_f64() * 1000.0,
            simulated.as_secs_f64()
        );
    }
    // One call is one request: nothing is asked twice, nothing is asked along with it.
    for row in &rows[..3] {
        assert_eq!(row.requests, usize::try_from(CALLS).unwrap(), "{}", row.what);
    }
    // Four calls for each VM, and the looks at their tasks: their number grows with the waiting, not with the VMs.
    let each = rows[3].requests / usize::try_from(VMS).unwrap();
    assert!((8..=60).contains(&each), "{each} requests for each VM");
}
