//! Runs that die at any call: the same command again leads to the end.

use std::time::Instant;

use talmox_plan::Request;
use talmox_test::thorough::{every, runtime};
use talmox_test::{Fault, When};

use crate::scale::bed::{Bed, described};
use crate::scale::kept;
use crate::scale::support::*;

/// Kills the client at every so manyth call of what a request does to a living cluster of three and one, and runs it again.
fn killed(seed: u64, what: &str, usual: usize, prepare: impl Fn(&mut Bed) -> Request) {
    killed_on(&|| Bed::new(seed, described(3, 1, "")), what, usual, prepare, |_, _| {});
}

/// The same with a cluster of one's own; before the kill and at the end it is looked at.
fn killed_on(
    bed: &dyn Fn() -> Bed,
    what: &str,
    usual: usize,
    prepare: impl Fn(&mut Bed) -> Request,
    judge: impl Fn(&Bed, &str),
) {
    let begun = Instant::now();
    let (before, calls) = runtime().block_on(async {
        let mut bed = of(bed()).await;
        let request = prepare(&mut bed);
        let before = bed.lab.calls().len();
        carried_out(&bed, &request, 2).await;
        (before, bed.lab.calls().len())
    });
    let mut runs = 0;
    for sent in [false, true] {
        for number in (before + 1..=calls).step_by(every(usual)) {
            runtime().block_on(async {
                let mut bed = of(bed()).await;
                let request = prepare(&mut bed);
                bed.lab.plan(When::call(number as u64), Fault::KillClient { sent });
                let _ = bed.converge_mortally(&request, 2).await;
                // A run that was done a call earlier than the one that was counted lives on.
                bed.lab.transport().forget_faults();
                bed.lab.transport().revive_client();
                let again = bed.converge(&request, 3).await;
                if let Err(error) = again {
                    let mut told = bed.told.lines();
                    told.dedup();
                    panic!("{what}, killed at call {number}, sent {sent}: {error}\n{}", told.join("\n"));
                }
                bed.is_healthy().await;
                assert_eq!(bed.etcd_clusters(), 1);
                assert_eq!(bed.accepted("Bootstrap"), 1);
                judge(&bed, &format!("killed at call {number}, sent {sent}"));
                runs += 1;
            });
        }
    }
    println!(
        "{what}: {} calls, killed at {runs} of them, healthy after the same command again each time, {:.1} s",
        calls - before,
        begun.elapsed().as_secs_f64()
    );
}

#[test]
fn while_a_control_plane_leaves() {
    killed(81, "remove cp-3", 61, |bed| {
        bed.desired = without(&bed.desired, &["cp-3"]);
        removing(&["cp-3"])
    });
}

#[test]
fn while_a_control_plane_is_built_anew() {
    killed(82, "replace cp-2", 83, |_| replacing(&["cp-2"]));
}

#[test]
fn while_disks_go_over_to_a_new_vm() {
    let bed = || Bed::new(83, kept::described_with_disks());
    let before = std::cell::Cell::new(None);
    let prepare = |bed: &mut Bed| {
        before.set(kept::disk_at(bed, "cp-2", "scsi1"));
        assert!(before.get().is_some());
        replacing(&["cp-2"])
    };
    killed_on(&bed, "replace cp-2 with a disk that is kept", 139, prepare, |bed, when| {
        assert_eq!(kept::disk_at(bed, "cp-2", "scsi1"), before.get(), "{when}");
        assert_eq!(kept::shelves(bed), Vec::<u32>::new(), "{when}");
    });
}
