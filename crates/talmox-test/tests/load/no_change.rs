//! Looking when nothing is to be done, against a client that asks for nothing but what must be read.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use talmox_exec::Limits;
use talmox_pve::client::Client;
use talmox_test::{host, vmid};

use crate::bed::{Bed, NodeSpec, description};

const VMS: u32 = 50;
/// How many times as long a run may take as the bare client.
const MOST: f64 = 1.3;
/// With three endpoints a look is so short that asking the hosts for their lists first, lest one that is down keeps
/// every read waiting, is a fifth of it.
const MOST_OF_THREE: f64 = 1.45;

/// The list of everything, then every VM, all at once; the client sees to how many are in flight.
async fn bare(client: &Client, placed: &[(u32, usize)]) {
    client.vm_resources().await.unwrap();
    let reads = stream::iter(placed).map(async |(id, number)| {
        client.pending(&host(*number), vmid(*id)).await.unwrap();
    });
    reads.buffer_unordered(placed.len()).collect::<Vec<_>>().await;
}

/// Time and requests of a piece of work.
async fn measured(bed: &Bed, work: impl Future<Output = ()>) -> (Duration, usize) {
    let (start, calls) = (bed.lab.transport().now(), bed.lab.calls().len());
    work.await;
    (Duration::from_millis(bed.lab.transport().now() - start), bed.lab.calls().len() - calls)
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
    for (hosts, most, client) in [(1, MOST, bed.client_of_one()), (3, MOST_OF_THREE, bed.client())] {
        let (ours, requests) =
            measured(&bed, Box::pin(async { assert!(bed.plan(&client, &desired).await.is_empty()) })).await;
        let (least, fewest) = measured(&bed, bare(&client, &placed)).await;
        let ratio = ours.as_secs_f64() / least.as_secs_f64();
        println!(
            "{VMS} VMs, no change, {} in flight: {} ms with {requests} requests; bare client {} ms with {fewest}: \
             {ratio:.2} times",
            4 * hosts,
            ours.as_millis(),
            least.as_millis()
        );
        assert!(ratio <= most, "{ratio:.2} times the bare client");
    }
}
