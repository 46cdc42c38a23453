//! Something breaks half-way.

use insta::assert_snapshot;
use secrecy::ExposeSecret as _;
use talmox_sim::serve::{Keep, Server, Settings, StateFolder};
use talmox_sim::{Calls, Fault};

use crate::doing::Lab;
use crate::doing::connecting::Remote;

/// A host that takes the VMs, and a token and certificate that are known.
pub(crate) async fn remote(name: &str) -> Remote {
    let remote = Remote { trusted: true, ..Remote::start(name).await };
    std::fs::write(remote.scratch.0.join("token"), remote.token.expose_secret()).unwrap();
    remote.describe("proxmox_api_token: file:token\n");
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

/// What `talmox sim --state` is for: others break what was built, and the next run repairs it.
#[tokio::test]
async fn what_others_break_in_the_kept_world_is_repaired() {
    let lab = Lab::new("repaired");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    let folder = StateFolder::open(&lab.scratch.0.join("world")).unwrap();
    let world = folder.load().unwrap().unwrap();
    let settings = Settings { keep: Keep::World(folder), ..Settings::default() };
    let server = Server::start(world, settings).await.unwrap();
    server.with(|simulation| {
        let world = &mut simulation.world;
        world.remove_vm(2001);
        world.root_call("PUT", "/nodes/pve/qemu/2002/config", &[("name", "gone")]).unwrap();
        world.root_call("POST", "/nodes/pve/qemu/2000/status/stop", &[]).unwrap();
    });
    server.advance(std::time::Duration::from_mins(1));
    server.stop().await.unwrap();
    let plan = lab.run(&["plan"]).succeeded().stdout;
    assert!(plan.contains("1 to create") && plan.contains("to change"), "{plan}");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    assert!(lab.run(&["plan"]).succeeded().stdout.starts_with("No changes."));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_destroyed_is_not_called_gone() {
    let remote = remote("locked").await;
    remote.run(&APPLY, &[]).await.succeeded();
    remote.server.with(|simulation| simulation.world.set_lock(2001, Some("backup")));
    let target = ["destroy", "--auto-approve", "--target", "worker-1"];
    let failed = remote.run(&target, &[]).await.failed();
    assert_eq!(
        failed.stdout,
        "  …   worker-1  VM 2001 on pve is locked (backup) and is left alone until it is not\n"
    );
    assert!(failed.stderr.contains("nothing of worker-1 can be destroyed now"), "{}", failed.stderr);
    assert!(failed.stderr.contains("left: worker-1  VM 2001 on pve is locked (backup)"), "{}", failed.stderr);
    let last = failed.stderr.lines().last().unwrap();
    assert!(last.contains("talmox destroy --target worker-1"), "{}", failed.stderr);
    remote.run(&[target.as_slice(), &["--allow-incomplete"]].concat(), &[]).await.succeeded();
    // A VM that nothing is wanted of does not stand in the way of success, and one that is locked does.
    remote.run(&["apply", "--auto-approve", "--target", "cp-1"], &[]).await.succeeded();
    let whole = remote.run(&["apply", "--auto-approve"], &[]).await.failed();
    assert!(whole.stderr.contains("left: worker-1  VM 2001 on pve is locked (backup)"), "{}", whole.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_under_way_is_shown() {
    let remote = remote("task").await;
    remote.run(&APPLY, &[]).await.succeeded();
    remote.server.with(|simulation| {
        // A guest that takes its time: the task runs for as long as the test does.
        simulation.world.timing.guest_shutdown = 1_000_000_000;
        let path = "/nodes/pve/qemu/2001/status/shutdown";
        simulation.world.root_call("POST", path, &[("timeout", "100000000")]).unwrap();
    });
    let status = remote.run(&["status"], &[]).await.succeeded().stdout;
    let line = status.lines().find(|line| line.starts_with("worker-1")).unwrap();
    assert!(line.contains("under way: qmshutdown UPID:pve:"), "{status}");
}

/// What keeps changes from happening, on every VM another thing.
#[tokio::test(flavor = "multi_thread")]
async fn obstacles_are_shown_with_what_they_block() {
    let remote = remote("obstacles").await;
    remote.run(&APPLY, &[]).await.succeeded();
    let now = |path: &str, params: &[(&str, &str)]| {
        remote.server.with(|simulation| simulation.world.root_call("POST", path, params)).unwrap();
        remote.server.advance(std::time::Duration::from_mins(1));
    };
    now("/nodes/pve/qemu/2000/snapshot", &[("snapname", "first")]);
    now("/nodes/pve/qemu/2000/snapshot", &[("snapname", "second")]);
    now("/nodes/pve/qemu/2001/status/suspend", &[]);
    let line = async |node: &str| {
        let status = remote.run(&["status"], &[]).await.succeeded().stdout;
        status.lines().find(|line| line.starts_with(node)).unwrap().to_owned()
    };
    assert!(line("cp-1").await.contains("snapshots first and second: they go with the VM"));
    assert!(line("worker-1").await.contains("2001 halted"), "{}", line("worker-1").await);
    assert!(line("worker-1").await.contains("qm resume 2001"));
    now("/nodes/pve/qemu/2001/status/resume", &[]);
    assert!(line("worker-1").await.contains("2001 run"));
    let disk = Calls::to("GET", "/nodes/pve/qemu/2001/pending");
    remote.server.with(|simulation| simulation.faults.next(disk, Fault::DiskError));
    assert!(line("worker-1").await.contains("its disk took no more writes"));
    now("/nodes/pve/qemu/2001/status/resume", &[]);
    remote.server.with(|simulation| simulation.world.back_up(2001, 3_600_000));
    let shown = line("worker-1").await;
    assert!(shown.contains("busy (backup): changes, restarts, moves and removal wait"), "{shown}");
    assert!(shown.contains("under way: vzdump UPID:"), "{shown}");
}

/// A VM leaves the jobs that name it, and the plan has said so.
#[tokio::test(flavor = "multi_thread")]
async fn what_purging_removes_is_told_before() {
    let remote = remote("purge").await;
    remote.run(&APPLY, &[]).await.succeeded();
    let job = |key: &str, value: &str| std::collections::BTreeMap::from([(key.to_owned(), value.to_owned())]);
    remote.server.with(|simulation| {
        let world = &mut simulation.world;
        world.backup_jobs.insert("nightly".to_owned(), job("vmid", "2000,2001"));
        world.backup_jobs.insert("only-it".to_owned(), job("vmid", "2001"));
        world.replication_jobs.insert("2001-0".to_owned(), job("target", "pve2"));
    });
    let destroyed = remote.run(&["destroy", "--auto-approve", "--target", "worker-1"], &[]).await.succeeded();
    for line in ["leaves backup job nightly", "leaves backup job only-it", "leaves replication job 2001-0"] {
        assert!(destroyed.stdout.contains(line), "{}", destroyed.stdout);
    }
    remote.server.with(|simulation| {
        let world = &simulation.world;
        assert_eq!(world.backup_jobs["nightly"]["vmid"], "2000");
        assert!(!world.backup_jobs.contains_key("only-it") && world.replication_jobs.is_empty());
    });
}
