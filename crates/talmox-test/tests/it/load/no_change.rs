//! Looking when nothing is to be done, against a client that asks for nothing but what must be read.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use talmox_exec::Limits;
use talmox_pve::client::{Client, Settings};
use talmox_test::{host, vmid};

use crate::load::bed::{Bed, NodeSpec, description};

const VMS: u32 = 50;
const TIMES: u32 = 5;
/// How many times as long a run may take as the bare client.
const MOST: f64 = 1.3;

/// The list of everything, then every VM, all at once; the client sees to how many are in flight.
async fn bare(client: &Client, placed: &[(u32, usize)]) {
    client.vm_resources().await.unwrap();
    let reads = stream::iter(placed).map(async |(id, number)| {
        client.pending(&host(*number), vmid(*id)).await.unwrap();
    });
    reads.buffer_unordered(placed.len()).collect::<Vec<_>>().await;
}

/// Time and requests of a piece of work, in the middle: some round trips are luckier than others.
async fn measured(bed: &Bed, work: impl AsyncFn()) -> (Duration, usize) {
    let (start, calls) = (bed.lab.transport().now(), bed.lab.calls().len());
    for _ in 0..TIMES {
        work().await;
    }
    let time = Duration::from_millis(bed.lab.transport().now() - start);
    (time / TIMES, (bed.lab.calls().len() - calls) / TIMES as usize)
}

#[tokio::test(start_paused = true)]
async fn a_look_takes_little_longer_than_its_requests() {
    let bed = Bed::new(1);
    let nodes: Vec<NodeSpec> = (0..VMS).map(|_| NodeSpec { storage: "pool", from_template: true }).collect();
    let desired = description(&nodes);
    bed.run(&desired, Limits::default()).await;
    let dump = bed.lab.world(|world| world.dump());
    let placed: Vec<(u32, usize)> = (2000..2000 + VMS)
        .map(|id| (id, dump.vms[&id].node.trim_start_matches("pve").parse().unwrap()))
        .collect();
    let usual = Settings::default();
    let few = Settings { in_flight_per_host: 4, ..usual };
    for (in_flight, client) in [
        (usual.in_flight_per_host, bed.client_of_one(usual)),
        (3 * few.in_flight_per_host, bed.client_with(few)),
        (3 * usual.in_flight_per_host, bed.client_with(usual)),
    ] {
        let (ours, requests) = measured(&bed, async || {
            let look = Box::pin(bed.plan(&client, &desired));
            assert!(look.await.is_empty());
        })
        .await;
        let (least, fewest) = measured(&bed, async || bare(&client, &placed).await).await;
        let ratio = ours.as_secs_f64() / least.as_secs_f64();
        println!(
            "{VMS} VMs, no change, {in_flight} in flight: {} ms with {requests} requests; bare client {} ms with \
             {fewest}: {ratio:.2} times",
            ours.as_millis(),
            least.as_millis()
        );
        assert!(ratio <= MOST, "{ratio:.2} times the bare client");
    }
}
