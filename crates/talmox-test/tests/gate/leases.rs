//! One writer at a time, whatever their clocks say.

use std::time::Duration;

use crate::bed::{Bed, described, healthy};

const MORE_MEMORY: &str = "proxmox_vm_controller_defaults: {memory: 6144}";
const FAR: i64 = 600;

async fn wishing_for_memory(seed: u64) -> Bed {
    let mut bed = Bed::new(seed, described(3, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed.desired = described(3, 0, MORE_MEMORY);
    bed
}

/// Who is alive renews its lease, and that is seen: the time in it says little to somebody whose clock is ten minutes ahead, and that of
/// somebody whose clock is behind looks as if it had run out long ago.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_off_takes_nobodys_lease() {
    for (seed, clocks) in [(61, [(3, FAR)]), (62, [(2, -FAR)])] {
        let mut bed = wishing_for_memory(seed).await;
        bed.clocks.extend(clocks);
        let request = healthy();
        let later = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            bed.converge(&request, 3).await
        };
        let (first, second) = tokio::join!(bed.converge(&request, 2), later);
        first.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
        let told = second.unwrap_err();
        assert!(told.contains("test-2"), "{told}");
        bed.is_healthy().await;
    }
}

/// What somebody left behind whose clock was a day ahead is in nobody's way for a day.
#[tokio::test(start_paused = true)]
async fn a_lease_from_the_future_is_watched_and_taken() {
    let mut bed = wishing_for_memory(63).await;
    bed.clocks.insert(2, 86_400);
    let request = healthy();
    {
        let run = std::pin::pin!(bed.converge(&request, 2));
        let killed = std::pin::pin!(tokio::time::sleep(Duration::from_secs(45)));
        futures_util::future::select(run, killed).await;
    }
    bed.converge(&request, 3)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    bed.is_healthy().await;
}
