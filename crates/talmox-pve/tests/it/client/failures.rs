//! What becomes of calls that fail, and what a person is told.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use talmox_pve::client::{
    Client, Error, ErrorKind, FileContent, ImageKind, Outcome, Params, RetryPolicy, Settings, Silent, Upload,
};
use talmox_types::{HostName, StorageId, VmId};
use tokio::time::Instant;

use crate::client::fake::{
    Answer, Fake, after, bare_refusal, data, lost_reply, password, refusal, refused_connection, token, told,
};

fn node() -> HostName {
    HostName::parse("pve1").unwrap()
}

fn vm() -> VmId {
    VmId::try_from(100).unwrap()
}

async fn start(client: &Client) -> Result<(), Error> {
    client.start_vm(&node(), vm()).await.map(drop)
}

const UPID: &str = r#""UPID:pve1:000007EB:0003298C:6AF96CAA:qmstart:100:talmox@pve!ci:""#;
const VERSION: &str = r#"{"version":"9.2.11","release":"9.2","repoid":"x"}"#;

fn two_hosts(fake: &std::sync::Arc<Fake>) -> Client {
    fake.client_of(&["pve1", "pve2"], &token(), Settings::default())
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_is_sent_elsewhere_and_there_first_from_then_on() {
    let fake = Fake::new([refused_connection(), data(UPID), data(VERSION)]);
    let client = two_hosts(&fake);
    start(&client).await.unwrap();
    client.version().await.unwrap();
    assert_eq!(
        fake.lines(),
        [
            "pve1 POST /nodes/pve1/qemu/100/status/start",
            "pve2 POST /nodes/pve1/qemu/100/status/start",
            "pve2 GET /version"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_a_change_is_not_asked_for_again() {
    let fake = Fake::new([lost_reply()]);
    let error = start(&two_hosts(&fake)).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Lost));
    assert_eq!(fake.seen().len(), 1);
    insta::assert_snapshot!(told(&error), @"
    error: POST /nodes/pve1/qemu/100/status/start on https://pve1:8006: the connection was closed before a reply came (it was sent and may have happened)
    hint: the tasks of the host (`pvenode task list`) tell whether it still works on it
    hint: look at what is there before asking again: the request was sent
    ");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_a_read_is() {
    let fake = Fake::new([lost_reply(), data(VERSION)]);
    assert_eq!(two_hosts(&fake).version().await.unwrap().numbers(), (9, 2));
    assert_eq!(fake.lines(), ["pve1 GET /version", "pve2 GET /version"]);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_down() {
    let fake = Fake::new([refused_connection(), refused_connection(), refused_connection()]);
    let begin = Instant::now();
    let error = fake.client().version().await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::NeverSent, &ErrorKind::Unreachable));
    assert_eq!(fake.seen().len(), 3);
    assert!(begin.elapsed() < Duration::from_secs(2), "waited {:?}", begin.elapsed());
    insta::assert_snapshot!(told(&error), @"
    error: no connection to https://pve1:8006: Connection refused
    hint: is pve1 up, and does a firewall let port 8006 through?
    ");
}

#[tokio::test(start_paused = true)]
async fn a_change_through_a_hop_that_failed_is_not_made_again() {
    let fake = Fake::new([bare_refusal(595, "No route to host"), data(UPID)]);
    let error = start(&two_hosts(&fake)).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::NodeDown));
    assert!(!error.is_safe_to_retry());
    assert_eq!(fake.seen().len(), 1);
    insta::assert_snapshot!(told(&error), @"
    error: POST /nodes/pve1/qemu/100/status/start on https://pve1:8006: No route to host (status 595) (it was sent and may have happened)
    hint: the host that should act cannot be reached from the one that was asked: is it up?
    hint: look at what is there before asking again: the request was sent
    ");
}

#[tokio::test(start_paused = true)]
async fn a_read_through_a_hop_that_failed_is_made_elsewhere() {
    let fake = Fake::new([bare_refusal(595, "No route to host"), data(VERSION)]);
    two_hosts(&fake).version().await.unwrap();
    assert_eq!(fake.lines(), ["pve1 GET /version", "pve2 GET /version"]);

    let fake = Fake::new(std::iter::repeat_with(|| bare_refusal(595, "No route to host")).take(3));
    let error = two_hosts(&fake).version().await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::NeverSent, &ErrorKind::NodeDown));
    insta::assert_snapshot!(told(&error), @"
    error: GET /version on https://pve1:8006: No route to host (status 595)
    hint: the host that should act cannot be reached from the one that was asked: is it up?
    ");
}

/// The host that is down has an endpoint of its own, which is asked last: the others have answered by then.
#[tokio::test(start_paused = true)]
async fn a_host_that_is_down_is_told_by_those_that_answer() {
    let down = || bare_refusal(595, "No route to host");
    for answers in [
        [down(), down(), refused_connection()],
        [down(), refused_connection(), down()],
        [refused_connection(), down(), down()],
    ] {
        let fake = Fake::new(answers);
        let client = fake.client_of(&["pve4", "pve5", "pve6"], &token(), Settings::default());
        let error = client.vms(&node()).await.unwrap_err();
        assert_eq!((error.outcome(), error.kind()), (Outcome::NeverSent, &ErrorKind::NodeDown));
        assert_eq!(fake.seen().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_that_failed_is_tried_elsewhere_whatever_it_was_for() {
    let ticket = r#"{"username":"root@pam","ticket":"PVE:root@pam:one","CSRFPreventionToken":"csrf-one"}"#;
    for failure in [bare_refusal(595, "Connection refused"), lost_reply(), Answer::Never] {
        let fake = Fake::new([failure, data(ticket), data(UPID)]);
        start(&fake.client_of(&["pve1", "pve2"], &password(), Settings::default())).await.unwrap();
        assert_eq!(fake.lines()[..2], ["pve1 POST /access/ticket", "pve2 POST /access/ticket"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hop_that_times_out_may_have_happened() {
    let fake = Fake::new([bare_refusal(596, "Connection timed out")]);
    let error = start(&fake.client()).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Timeout));
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn silence_ends_after_the_time_limit() {
    let fake = Fake::new([Answer::Never]);
    let begin = Instant::now();
    let error = start(&fake.client()).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Timeout));
    assert_eq!(begin.elapsed(), Duration::from_secs(40));
    assert_eq!(error.words(), "no answer within 40 s");
}

#[tokio::test(start_paused = true)]
async fn a_silent_host_is_not_asked_again_but_another_is() {
    let fake = Fake::new([Answer::Never, data(VERSION)]);
    assert!(fake.client().version().await.is_err());
    assert_eq!(fake.seen().len(), 1);

    let fake = Fake::new([Answer::Never, data(VERSION)]);
    two_hosts(&fake).version().await.unwrap();
    assert_eq!(fake.lines(), ["pve1 GET /version", "pve2 GET /version"]);
}

#[tokio::test(start_paused = true)]
async fn silent_hosts_share_the_time_of_a_call() {
    let fake = Fake::new([Answer::Never, Answer::Never, Answer::Never]);
    let settings = Settings { timeout: Duration::from_mins(1), ..Settings::default() };
    let client = fake.client_of(&["pve1", "pve2", "pve3"], &token(), settings);
    let begin = Instant::now();
    let error = client.version().await.unwrap_err();
    assert_eq!(begin.elapsed(), Duration::from_mins(1));
    assert_eq!(fake.lines(), ["pve1 GET /version", "pve2 GET /version"], "40 s and what is left");
    assert_eq!((error.endpoint().host(), error.words()), ("pve2", "no answer within 20 s"));
}

#[tokio::test(start_paused = true)]
async fn asking_again_ends_with_the_time_of_the_call() {
    let slow_refusal =
        || after(3_000, refusal(500, "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"));
    let fake = Fake::new(std::iter::repeat_with(slow_refusal).take(100));
    let retry = RetryPolicy { attempts: 100, ..RetryPolicy::default() };
    let settings = Settings { timeout: Duration::from_secs(20), retry, ..Settings::default() };
    let begin = Instant::now();
    let error = start(&fake.client_of(&["pve1"], &token(), settings)).await.unwrap_err();
    assert!(begin.elapsed() <= Duration::from_secs(20), "{:?}", begin.elapsed());
    assert!(fake.seen().len() > 2);
    assert!(matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout), "{error}");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_another_login_takes_of_the_time_of_the_call() {
    let fake = Fake::new([Answer::Never]);
    let client = fake.client_of(&["pve1"], &password(), Settings::default());
    let upload = Upload {
        kind: ImageKind::Iso,
        filename: "seed.iso".to_owned(),
        content: FileContent::Memory(Bytes::from_static(b"CD001")),
        checksum: None,
        timeout: Duration::from_hours(1),
    };
    let (node, storage) = (node(), StorageId::parse("local").unwrap());
    let begin = Instant::now();
    let error = tokio::select! {
        biased;
        _ = client.upload(&node, &storage, &upload, &Silent) => panic!("the upload has an hour"),
        version = client.version() => version.unwrap_err(),
    };
    assert_eq!(begin.elapsed(), Duration::from_secs(40));
    assert_eq!((error.outcome(), error.kind()), (Outcome::NeverSent, &ErrorKind::Timeout));
}

#[tokio::test(start_paused = true)]
async fn a_file_lock_is_waited_for_and_a_vm_lock_is_not() {
    let busy = "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout";
    let fake = Fake::new([refusal(500, busy), refusal(500, busy), data(UPID)]);
    start(&fake.client()).await.unwrap();
    assert_eq!(fake.seen().len(), 3);

    let fake = Fake::new([refusal(500, "VM is locked (clone)"), data(UPID)]);
    let error = start(&fake.client()).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Locked { by: "clone".to_owned() });
    assert_eq!(error.outcome(), Outcome::Refused);
    assert_eq!(fake.seen().len(), 1);
    insta::assert_snapshot!(told(&error), @"
    error: POST /nodes/pve1/qemu/100/status/start on https://pve1:8006: VM is locked (clone)
    hint: wait until the clone is done; if no task of that VM runs any more, `qm unlock 100` on its host
    ");
}

#[tokio::test(start_paused = true)]
async fn a_missing_privilege() {
    let fake = Fake::new([refusal(403, "Permission check failed (/vms/100, VM.PowerMgmt)")]);
    let error = start(&fake.client()).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    error: POST /nodes/pve1/qemu/100/status/start on https://pve1:8006: Permission check failed (/vms/100, VM.PowerMgmt)
    hint: the credentials need VM.PowerMgmt on /vms/100
    hint: Proxmox checks rights first, so the VM may also not exist
    hint: a token with privilege separation needs it granted twice: to its user and to itself
    ");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_parameter() {
    let body = r#"{"data":null,"message":"Parameter verification failed.\n","errors":{"cores":"type check ('integer') failed - got 'abc'","net0":"invalid format - format error\nnet0.tag: value must have a maximum value of 4094\n"}}"#;
    let reply =
        Answer::Reply { status: 400, reason: "Parameter verification failed.".into(), body: body.into() };
    let fake = Fake::new([reply]);
    let error = fake.client().put::<Value>("/nodes/pve1/qemu/100/config", Params::new()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid(reasons) if reasons.len() == 2));
    insta::assert_snapshot!(told(&error), @"
    error: PUT /nodes/pve1/qemu/100/config on https://pve1:8006: Parameter verification failed.
      cores: type check ('integer') failed - got 'abc'
      net0: invalid format - format error net0.tag: value must have a maximum value of 4094
    ");
}

#[tokio::test(start_paused = true)]
async fn quorum_lost() {
    let fake = Fake::new([refusal(500, "cluster not ready - no quorum?")]);
    let error = start(&fake.client()).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::QuorumLost);
    insta::assert_snapshot!(told(&error), @"
    error: POST /nodes/pve1/qemu/100/status/start on https://pve1:8006: cluster not ready - no quorum?
    hint: the cluster is read-only until a majority of its hosts is back: `pvecm status` on any of them
    ");
}

#[tokio::test(start_paused = true)]
async fn words_of_old_versions_are_in_the_reason_phrase() {
    let words = "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist";
    let reply = Answer::Reply { status: 500, reason: words.into(), body: r#"{"data":null}"#.into() };
    let error = Fake::new([reply]).client().vm_config(&node(), vm()).await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.words(), words);
}

#[tokio::test(start_paused = true)]
async fn a_reply_nobody_understands() {
    let reply = Answer::Reply { status: 200, reason: "OK".into(), body: "<html>secret</html>".into() };
    let error = start(&Fake::new([reply]).client()).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Unreadable));
    assert!(!format!("{error} {error:?}").contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn requests_to_one_host_wait_for_their_turn() {
    let fake = Fake::new(std::iter::repeat_with(|| Answer::Slowly(Duration::from_secs(1))).take(9));
    let settings = Settings { in_flight_per_host: 3, ..Settings::default() };
    let client = fake.client_of(&["pve1"], &token(), settings);
    let begin = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..9 {
        let client = client.clone();
        calls.spawn(async move { client.get::<Value>("/version", Params::new()).await.is_ok() });
    }
    assert!(calls.join_all().await.into_iter().all(|done| done));
    assert_eq!(fake.most_under_way(), 3);
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn changes_leave_room_for_reads() {
    let fake = Fake::new(std::iter::repeat_with(|| Answer::Slowly(Duration::from_secs(1))).take(8));
    let settings = Settings { in_flight_per_host: 4, writes_in_flight_per_host: 2, ..Settings::default() };
    let client = fake.client_of(&["pve1"], &token(), settings);
    let begin = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..8 {
        let client = client.clone();
        calls.spawn(async move {
            let done = if number < 6 {
                client.post::<Value>("/pools", Params::new()).await
            } else {
                client.get::<Value>("/version", Params::new()).await
            };
            (number, done.is_ok(), begin.elapsed())
        });
    }
    let mut ended = calls.join_all().await;
    ended.sort_unstable();
    assert!(ended.iter().all(|(_, done, _)| *done), "{ended:?}");
    let seconds: Vec<u64> = ended.iter().map(|(.., elapsed)| elapsed.as_secs()).collect();
    assert_eq!(seconds, [1, 1, 2, 2, 3, 3, 1, 1], "two changes at a time, and reads beside them");
    assert_eq!(fake.most_under_way(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_frees_its_turn() {
    let fake = Fake::new([Answer::Never, data(VERSION)]);
    let settings = Settings { in_flight_per_host: 1, ..Settings::default() };
    let client = fake.client_of(&["pve1"], &token(), settings);
    assert!(tokio::time::timeout(Duration::from_secs(1), client.version()).await.is_err());
    client.version().await.unwrap();
}
