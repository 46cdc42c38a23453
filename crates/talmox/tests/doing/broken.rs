//! Something breaks half-way.

use insta::assert_snapshot;
use secrecy::ExposeSecret as _;
use talmox_sim::{Calls, Fault};

use crate::connecting::Remote;

/// A host that takes the VMs, and a token and certificate that are known.
async fn remote(name: &str) -> Remote {
    let remote = Remote::start(name).await;
    std::fs::write(remote.scratch.0.join("ca.pem"), remote.server.authority()).unwrap();
    std::fs::write(remote.scratch.0.join("token"), remote.token.expose_secret()).unwrap();
    remote.describe("proxmox_api_token: file:token\nproxmox_ca_file: ca.pem\n");
    remote
}

/// The error without ids and times that differ from run to run.
fn told(remote: &Remote, stderr: &str) -> String {
    let from = stderr.find("error: ").unwrap();
    let words = remote.filtered(&stderr[from..]);
    let words = words.split(' ').map(|word| match word.find("UPID:") {
        Some(at) => format!("{}UPID{}", &word[..at], word.rsplit(':').next().unwrap_or_default()),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

const APPLY: [&str; 4] = ["apply", "--auto-approve", "--parallelism", "1"];

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_is_made_good_by_the_next_run() {
    let remote = remote("start").await;
    let start = Calls::to("POST", "/nodes/*/qemu/2001/status/start");
    remote.server.with(|simulation| simulation.faults.next(start, Fault::KillWorker { after: 10 }));
    let failed = remote.run(&APPLY, &[]).await.failed();
    assert_snapshot!(told(&remote, &failed.stderr));
    remote.run(&APPLY, &[]).await.succeeded();
    assert!(remote.run(&["plan"], &[]).await.succeeded().stdout.starts_with("No changes."));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_destroyed_is_not_called_gone() {
    let remote = remote("locked").await;
    remote.run(&APPLY, &[]).await.succeeded();
    remote.server.with(|simulation| simulation.world.set_lock(2001, Some("backup")));
    let target = ["destroy", "--auto-approve", "--target", "worker-1"];
    let failed = remote.run(&target, &[]).await.failed();
    assert_eq!(failed.stdout, "  …   worker-1  VM 2001 on pve is locked (backup): Proxmox is busy with it\n");
    assert!(failed.stderr.contains("nothing of worker-1 can be destroyed now"), "{}", failed.stderr);
}
