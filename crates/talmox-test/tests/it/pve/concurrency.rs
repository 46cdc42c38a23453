//! Many at once: how many succeed and what the others hear is what the genuine server did (transcripts 04, 07 and 12).
//!
//! Without latency all requests of a batch arrive in one moment, as in the recordings. With latency each seed is another
//! order of arrival; then the rule must hold, not the count.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_pve::client::{
    Client, CloneKind, CloneVm, ConfigChange, Error, RetryPolicy, Settings, TaskError, TaskQuery, TaskSource,
    Upid,
};
use talmox_test::{Lab, TOKEN, host, token, vmid};
use tokio::task::JoinSet;

use crate::pve::support::{ask_for, make, make_running};

const SEEDS: std::ops::Range<u64> = 0..12;

/// What came of batches that arrived in one moment; `recorded.rs` holds these to the recordings.
pub(crate) const EIGHT_CREATES: &[(&str, usize)] =
    &[("OK", 1), ("500: unable to create VM 164 - VM 164 already exists on node 'pve1'", 7)];
pub(crate) const SIX_CLONES_TO_ONE_ID: &[(&str, usize)] = &[
    ("OK", 1),
    ("500: unable to create VM 180: config file already exists", 3),
    ("task: unable to create VM 180: config file already exists", 2),
];
pub(crate) const SIX_CLONES_TO_SIX_IDS: &[(&str, usize)] = &[("OK", 6)];
pub(crate) const SIX_DELETES: &[(&str, usize)] = &[
    ("OK", 1),
    ("500: Configuration file 'nodes/pve1/qemu-server/180.conf' does not exist", 1),
    ("task: Configuration file 'nodes/pve1/qemu-server/180.conf' does not exist", 4),
];
pub(crate) const STOP_DURING_SHUTDOWN: &str =
    "can't lock file '/var/lock/qemu-server/lock-131.conf' - got timeout";
pub(crate) const STOPPED_WHILE_WAITING: &str =
    "can't lock file '/var/lock/qemu-server/lock-131.conf' - received interrupt";

/// A client that sends everything at once, and once.
fn eager(lab: &Lab) -> Client {
    let settings = Settings {
        in_flight_per_host: 64,
        writes_in_flight_per_host: 64,
        retry: RetryPolicy::ONCE,
        ..Settings::default()
    };
    lab.client_as(&token(TOKEN), settings)
}

fn labs() -> impl Iterator<Item = Lab> {
    SEEDS.map(|seed| if seed % 3 == 0 { Lab::without_latency(seed) } else { Lab::one_host(seed) })
}

/// Makes all calls at once and gives the replies in the order they were asked for.
async fn at_once<T, F>(calls: impl IntoIterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut work = JoinSet::new();
    for (index, call) in calls.into_iter().enumerate() {
        work.spawn(async move { (index, call.await) });
    }
    let mut replies = BTreeMap::new();
    while let Some(done) = work.join_next().await {
        let (index, reply) = done.unwrap();
        replies.insert(index, reply);
    }
    replies.into_values().collect()
}

/// How often each text came: of refusals at once and of tasks that failed later; `OK` for success.
async fn outcomes(lab: &Lab, client: &Client, replies: Vec<Result<Upid, Error>>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for reply in replies {
        let text = match reply {
            Err(error) => format!("{}: {}", error.status().unwrap_or_default(), error.words()),
            Ok(task) => match lab.done(client, &task).await {
                Ok(_) => "OK".to_owned(),
                Err(TaskError::Failed { words, .. }) => format!("task: {words}"),
                Err(error @ TaskError::Wait { .. }) => error.to_string(),
            },
        };
        *counts.entry(text).or_default() += 1;
    }
    counts
}

pub(crate) fn counted(outcomes: &[(&str, usize)]) -> BTreeMap<String, usize> {
    outcomes.iter().map(|(text, count)| ((*text).to_owned(), *count)).collect()
}

#[tokio::test(start_paused = true)]
async fn eight_creates_of_one_id() {
    for lab in labs() {
        let client = eager(&lab);
        let create = || {
            let client = client.clone();
            async move { ask_for(&client, 164, &[("memory", "128")]).await }
        };
        let replies = at_once((0..8).map(|_| create())).await;
        assert_eq!(outcomes(&lab, &client, replies).await, counted(EIGHT_CREATES));
        let config = client.vm_config(&host(1), vmid(164)).await.unwrap();
        assert_eq!((config.get("memory"), config.lock()), (Some("128"), None));
    }
}

fn linked(newid: u32) -> CloneVm {
    CloneVm {
        newid: vmid(newid),
        name: None,
        description: None,
        pool: None,
        target: None,
        kind: CloneKind::Linked,
    }
}

async fn clones(
    client: &Client,
    targets: impl Iterator<Item = u32>,
    kind: &CloneKind,
) -> Vec<Result<Upid, Error>> {
    at_once(targets.map(|newid| {
        let (client, clone) = (client.clone(), CloneVm { kind: kind.clone(), ..linked(newid) });
        async move { client.clone_vm(&host(1), vmid(163), &clone).await }
    }))
    .await
}

#[tokio::test(start_paused = true)]
async fn six_clones_to_one_new_id() {
    for lab in labs() {
        let client = eager(&lab);
        lab.template(&client, vmid(163)).await;
        let replies = clones(&client, std::iter::repeat_n(180, 6), &CloneKind::Linked).await;
        let outcomes = outcomes(&lab, &client, replies).await;
        let (early, late) = (
            "500: unable to create VM 180: config file already exists",
            "task: unable to create VM 180: config file already exists",
        );
        let count = |text: &str| outcomes.get(text).copied().unwrap_or_default();
        // The id is checked before the reply and claimed in the worker: three daemons work at once, so of those that
        // come together three get a task, and only one of the tasks can have the id.
        assert_eq!((count("OK"), count("OK") + count(early) + count(late)), (1, 6), "{outcomes:?}");
        assert_eq!(outcomes.len(), if count(late) == 0 { 2 } else { 3 }, "{outcomes:?}");
        assert!(count(late) <= 2, "{outcomes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn six_clones_to_one_new_id_in_one_moment() {
    for seed in SEEDS {
        let lab = Lab::without_latency(seed);
        let client = eager(&lab);
        lab.template(&client, vmid(163)).await;
        let replies = clones(&client, std::iter::repeat_n(180, 6), &CloneKind::Linked).await;
        assert_eq!(outcomes(&lab, &client, replies).await, counted(SIX_CLONES_TO_ONE_ID));
    }
}

#[tokio::test(start_paused = true)]
async fn six_clones_of_one_template_to_six_ids() {
    for lab in labs() {
        let client = eager(&lab);
        lab.template(&client, vmid(163)).await;
        let full = CloneKind::Full { storage: None, format: None };
        let replies = clones(&client, 170..176, &full).await;
        assert_eq!(outcomes(&lab, &client, replies).await, counted(SIX_CLONES_TO_SIX_IDS));
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_of_a_locked_template() {
    for lab in labs() {
        let client = eager(&lab);
        lab.template(&client, vmid(163)).await;
        lab.world(|world| world.set_lock(163, Some("backup")));
        let replies = clones(&client, 180..183, &CloneKind::Linked).await;
        assert_eq!(outcomes(&lab, &client, replies).await, counted(&[("500: VM is locked (backup)", 3)]));
        lab.world(|world| assert!((180..183).all(|id| !world.has_vm(id))));
    }
}

#[tokio::test(start_paused = true)]
async fn six_changes_of_one_vm() {
    for lab in labs() {
        let client = eager(&lab);
        make(&lab, &client, 180, &[]).await;
        let replies = at_once((0..6).map(|number| {
            let change = ConfigChange::new().set("description", &format!("d{number}")).unwrap();
            let client = client.clone();
            async move { client.change_config(&host(1), vmid(180), &change).await }
        }))
        .await;
        assert!(replies.iter().all(Result::is_ok), "{replies:?}");
        let config = client.vm_config(&host(1), vmid(180)).await.unwrap();
        assert!(config.description().is_some_and(|text| text.starts_with('d')), "{config:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_decided_on_an_old_state_is_refused() {
    let lab = Lab::without_latency(1);
    let client = eager(&lab);
    make(&lab, &client, 180, &[]).await;
    let digest = client.vm_config(&host(1), vmid(180)).await.unwrap().digest().unwrap().to_owned();
    let replies = at_once((0..6).map(|number| {
        let change = ConfigChange::new().set("cores", &format!("{}", number + 2)).unwrap().if_digest(&digest);
        let client = client.clone();
        async move { client.change_config(&host(1), vmid(180), &change).await }
    }))
    .await;
    let refused: Vec<&str> =
        replies.iter().filter_map(|reply| reply.as_ref().err()).map(Error::words).collect();
    assert_eq!(refused, vec!["checksum mismatch (file change by other user?)"; 5]);
}

#[tokio::test(start_paused = true)]
async fn six_deletes_of_one_vm() {
    for lab in labs() {
        let client = eager(&lab);
        make(&lab, &client, 180, &[("scsi0", "local-zfs:1")]).await;
        let replies = at_once((0..6).map(|_| {
            let client = client.clone();
            async move { client.delete_vm(&host(1), vmid(180), false).await }
        }))
        .await;
        let outcomes = outcomes(&lab, &client, replies).await;
        let gone = "Configuration file 'nodes/pve1/qemu-server/180.conf' does not exist";
        let count = |text: &str| outcomes.get(text).copied().unwrap_or_default();
        let (early, late) = (count(&format!("500: {gone}")), count(&format!("task: {gone}")));
        // One does it; the others hear that it is gone, before or after they got a task.
        assert_eq!((count("OK"), early + late), (1, 5), "{outcomes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn six_deletes_of_one_vm_in_one_moment() {
    for seed in SEEDS {
        let lab = Lab::without_latency(seed);
        let client = eager(&lab);
        make(&lab, &client, 180, &[("scsi0", "local-zfs:1")]).await;
        let replies = at_once((0..6).map(|_| {
            let client = client.clone();
            async move { client.delete_vm(&host(1), vmid(180), false).await }
        }))
        .await;
        assert_eq!(outcomes(&lab, &client, replies).await, counted(SIX_DELETES));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_a_shutdown() {
    for lab in labs() {
        let client = eager(&lab);
        make_running(&lab, &client, 131, &[]).await;
        lab.world(|world| world.set_guest(131, false, BTreeMap::new()));
        let minute = Some(Duration::from_mins(1));
        let shutdown = client.shut_down_vm(&host(1), vmid(131), minute, false).await.unwrap();
        let active = TaskQuery { source: TaskSource::Active, ..TaskQuery::default() };
        let running = client.tasks(&host(1), &active).await.unwrap();
        assert!(running.iter().any(|task| task.upid == shutdown), "{running:?}");
        // The guest does not react, and the shutdown holds the VM's file lock longer than a stop waits for it.
        let stop = client.stop_vm(&host(1), vmid(131), false).await.unwrap();
        let timeout = format!("task: {STOP_DURING_SHUTDOWN}");
        assert_eq!(outcomes(&lab, &client, vec![Ok(stop)]).await, counted(&[(&timeout, 1)]));
        // A second shutdown waits for the first; stopped while it does, it says so.
        let second = client.shut_down_vm(&host(1), vmid(131), minute, false).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.stop_task(&second).await.unwrap();
        let stopped = format!("task: {STOPPED_WHILE_WAITING}");
        assert_eq!(outcomes(&lab, &client, vec![Ok(second)]).await, counted(&[(&stopped, 1)]));
        // One that overrules ends the shutdown and goes through.
        let stop = client.stop_vm(&host(1), vmid(131), true).await.unwrap();
        assert_eq!(outcomes(&lab, &client, vec![Ok(stop.clone())]).await, counted(&[("OK", 1)]));
        let (log, _) = client.task_log(&stop, 0, 1).await.unwrap();
        assert_eq!(log[0].text, format!("overruled qmshutdown tasks: {shutdown}\n").trim_end());
    }
}

#[tokio::test(start_paused = true)]
async fn the_target_of_a_clone_while_it_is_made() {
    let lab = Lab::without_latency(1);
    let client = eager(&lab);
    lab.template(&client, vmid(163)).await;
    lab.world(|world| world.timing.copy_rate = 1 << 20);
    let clone = CloneVm { kind: CloneKind::Full { storage: None, format: None }, ..linked(166) };
    let task = client.clone_vm(&host(1), vmid(163), &clone).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let config = client.vm_config(&host(1), vmid(166)).await.unwrap();
    assert_eq!(
        (config.lock(), config.name()),
        (Some("clone"), Some("Copy-of-VM-talos-template")),
        "locked, and named from its first copied disk on"
    );
    let change = ConfigChange::new().set("cores", "2").unwrap();
    let error = client.change_config(&host(1), vmid(166), &change).await.unwrap_err();
    // The worker holds the file lock for as long as it copies; the recorded copy was done before that ran out.
    assert!(["VM is locked (clone)", LOCK_TIMEOUT].contains(&error.words()), "{error}");
    assert!(!client.is_free(vmid(166)).await.unwrap());
    let error = client.clone_vm(&host(1), vmid(163), &linked(166)).await.unwrap_err();
    assert_eq!(error.words(), "unable to create VM 166: config file already exists");
    lab.done(&client, &task).await.unwrap();
    assert!(client.vm_config(&host(1), vmid(166)).await.unwrap().lock().is_none());
}

const LOCK_TIMEOUT: &str = "can't lock file '/var/lock/qemu-server/lock-166.conf' - got timeout";

/// Transcript 12: a change is not atomic, and what it may not do is looked at before anything is done.
#[tokio::test(start_paused = true)]
async fn a_change_that_fails_halfway() {
    let lab = Lab::one_host(1);
    let client = eager(&lab);
    make(&lab, &client, 240, &[("memory", "128")]).await;
    let set = |pairs: &[(&str, &str)]| {
        let set = |change: ConfigChange, (key, value): &(&str, &str)| change.set(key, value).unwrap();
        pairs.iter().fold(ConfigChange::new(), set)
    };
    let change = async |pairs: &[(&str, &str)]| {
        let error = client.change_config(&host(1), vmid(240), &set(pairs)).await.unwrap_err();
        (error.words().to_owned(), client.vm_config(&host(1), vmid(240)).await.unwrap())
    };
    let (words, after) = change(&[("cores", "2"), ("hostpci0", "0000:00:01.0"), ("localtime", "1")]).await;
    assert_eq!(words, "only root can set 'hostpci0' config for non-mapped devices");
    assert_eq!((after.get("cores"), after.get("localtime")), (None, None));
    let missing = "local:240/vm-240-disk-9.qcow2";
    let (words, after) = change(&[("cores", "3"), ("memory", "256"), ("scsi0", missing)]).await;
    assert_eq!(words, format!("volume '{missing}' does not exist"));
    assert_eq!((after.get("cores"), after.get("memory"), after.get("scsi0")), (Some("3"), Some("256"), None));
    let (_, after) = change(&[("balloon", "abc"), ("sockets", "2")]).await;
    assert_eq!(after.get("sockets"), None);
    let in_task = set(&[("cores", "4"), ("kvm", "0"), ("scsi0", missing)]);
    let task = client.change_config_in_task(&host(1), vmid(240), &in_task).await.unwrap().unwrap();
    let failed = format!("task: volume '{missing}' does not exist");
    assert_eq!(outcomes(&lab, &client, vec![Ok(task)]).await, counted(&[(&failed, 1)]));
    let after = client.vm_config(&host(1), vmid(240)).await.unwrap();
    assert_eq!((after.get("cores"), after.get("kvm")), (Some("4"), Some("0")));
}

/// A call that waits for a file lock keeps nobody else waiting.
#[tokio::test(start_paused = true)]
async fn others_are_answered_while_one_waits_for_a_lock() {
    let lab = Lab::without_latency(1);
    let client = eager(&lab);
    make_running(&lab, &client, 131, &[]).await;
    lab.world(|world| world.set_guest(131, false, BTreeMap::new()));
    client.shut_down_vm(&host(1), vmid(131), Some(Duration::from_mins(1)), false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = tokio::time::Instant::now();
    let change = ConfigChange::new().set("cores", "2").unwrap();
    let (changed, version) = tokio::join!(
        async { (client.change_config(&host(1), vmid(131), &change).await, start.elapsed()) },
        async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            client.version().await.unwrap();
            start.elapsed()
        }
    );
    let (error, waited) = (changed.0.unwrap_err(), changed.1);
    assert_eq!((error.words(), waited.as_secs()), (STOP_DURING_SHUTDOWN, 10));
    assert_eq!(version, Duration::from_secs(1), "what needs no lock is answered at once");
}
