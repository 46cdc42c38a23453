//! Following tasks.

use std::sync::Mutex;
use std::time::Duration;

use talmox_pve::client::{Error, ErrorKind, Look, Silent, TaskError, Upid, Wait, WaitError, Waiting};
use tokio::time::Instant;

use crate::client::fake::{Answer, Fake, bare_refusal, data, refused_connection};

fn upid() -> Upid {
    Upid::parse("UPID:pve2:0000056C:0002FB86:6AF96C34:qmclone:9000:talmox@pve!ci:").unwrap()
}

const LIMIT: Duration = Duration::from_mins(5);

fn running() -> Answer {
    data(r#"{"status":"running"}"#)
}

fn ended(exit_status: &str) -> Answer {
    data(&format!(r#"{{"status":"stopped","exitstatus":"{exit_status}"}}"#))
}

fn log(lines: &[&str]) -> Answer {
    let lines: Vec<_> =
        lines.iter().enumerate().map(|(n, t)| format!(r#"{{"n":{},"t":"{t}"}}"#, n + 1)).collect();
    let body = format!(r#"{{"data":[{}],"total":{}}}"#, lines.join(","), lines.len());
    Answer::Reply { status: 200, reason: "OK".to_owned(), body }
}

fn no_such_task() -> Answer {
    let body =
        r#"{"data":null,"message":"Parameter verification failed.\n","errors":{"upid":"no such task"}}"#;
    Answer::Reply { status: 400, reason: "Parameter verification failed.".into(), body: body.into() }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_where_it_runs_with_a_name_and_its_last_line() {
    // Within the first second nobody reads the log: most tasks are over by then.
    let log = log(&["create full clone", "transferred 50%"]);
    let fake = Fake::new([running(), running(), running(), running(), running(), log, ended("OK")]);
    let told = Mutex::new(Vec::new());
    let progress =
        |waiting: &Waiting<'_>| told.lock().unwrap().push(format!("{}: {}", waiting.name, waiting.detail));
    let end = fake.client().follow(&upid(), "clone of 9000 to 2001", LIMIT, &progress).await.unwrap();
    assert!(end.warnings.is_empty());
    let told = told.into_inner().unwrap();
    assert!(told[..4].iter().all(|line| line == "clone of 9000 to 2001: running"), "{told:?}");
    assert_eq!(told[4..], ["clone of 9000 to 2001: transferred 50%"]);
    let path = "/nodes/pve2/tasks/UPID%3Apve2%3A0000056C%3A0002FB86%3A6AF96C34%3Aqmclone%3A9000%3Atalmox%40pve%21ci%3A";
    assert_eq!(fake.lines()[0], format!("pve1 GET {path}/status"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_gives_its_last_words_and_the_end_of_its_log() {
    let fake =
        Fake::new([ended("VM is locked (backup)"), log(&["starting", "TASK ERROR: VM is locked (backup)"])]);
    let error = fake.client().follow(&upid(), "clone of 9000", LIMIT, &Silent).await.unwrap_err();
    let TaskError::Failed { kind, log, .. } = &error else { panic!("{error}") };
    assert_eq!(kind, &ErrorKind::Locked { by: "backup".to_owned() });
    assert_eq!(log.len(), 2);
    insta::assert_snapshot!(error, @"clone of 9000 failed: VM is locked (backup) (task UPID:pve2:0000056C:0002FB86:6AF96C34:qmclone:9000:talmox@pve!ci:)");
}

#[tokio::test(start_paused = true)]
async fn of_a_long_log_the_end_is_read() {
    let many = Answer::Reply { status: 200, reason: "OK".into(), body: r#"{"data":[],"total":"50"}"#.into() };
    let fake = Fake::new([ended("out of space"), many, log(&["the end"])]);
    let error = fake.client().follow(&upid(), "a task", LIMIT, &Silent).await.unwrap_err();
    assert_eq!(error.kind(), Some(&ErrorKind::StorageFull));
    assert!(fake.lines()[2].ends_with("log?start=30&limit=20"), "{:?}", fake.lines());
}

#[tokio::test(start_paused = true)]
async fn warnings_are_success_and_are_told() {
    let fake =
        Fake::new([ended("WARNINGS: 1"), log(&["x", "WARN: no efidisk configured", "TASK WARNINGS: 1"])]);
    let end = fake.client().follow(&upid(), "a start", LIMIT, &Silent).await.unwrap();
    assert_eq!(end.warnings, ["no efidisk configured"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_may_be_unknown_at_first_but_not_for_long() {
    let fake = Fake::new([no_such_task(), ended("OK")]);
    fake.client().follow(&upid(), "a task", LIMIT, &Silent).await.unwrap();

    let fake = Fake::new(std::iter::repeat_with(no_such_task).take(50));
    let begin = Instant::now();
    let error = fake.client().follow(&upid(), "a task", LIMIT, &Silent).await.unwrap_err();
    assert!(
        matches!(&error, TaskError::Wait { source: WaitError::Call { source, .. }, .. } if source.is_not_found())
    );
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_away_for_a_while_does_not_end_the_wait() {
    let down = || bare_refusal(595, "No route to host");
    let fake = Fake::new([
        down(),
        down(),
        down(),
        refused_connection(),
        refused_connection(),
        refused_connection(),
        ended("OK"),
    ]);
    fake.client().follow(&upid(), "a task", LIMIT, &Silent).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_may_be_without_end() {
    let fake = Fake::new([running(), log(&["x"]), ended("OK")]);
    fake.client().follow(&upid(), "a task", Duration::MAX, &Silent).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_deadline_and_says_what_it_waited_for() {
    let answers = std::iter::repeat_with(|| [running(), log(&["transferred 50%"])]).take(200).flatten();
    let fake = Fake::new(answers);
    let begin = Instant::now();
    let error = fake.client().follow(&upid(), "clone of 9000", LIMIT, &Silent).await.unwrap_err();
    assert_eq!(begin.elapsed(), LIMIT);
    let TaskError::Wait { source, .. } = error else { panic!("{error}") };
    insta::assert_snapshot!(source, @"gave up waiting for clone of 9000 after 300 s: transferred 50%");
}

#[tokio::test(start_paused = true)]
async fn what_is_done_just_before_the_deadline_is_seen() {
    let begin = Instant::now();
    let limit = Duration::from_secs(10);
    let wait = Wait { name: "the agent", limit, progress: &Silent };
    let look = || async {
        // Every look takes a moment, the last one too.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let done = begin.elapsed() > Duration::from_millis(9_999);
        Ok(if done { Look::Done("up") } else { Look::NotYet("down".to_owned()) })
    };
    assert_eq!(wait.until(look).await.unwrap(), "up");
    assert_eq!(begin.elapsed(), limit + Duration::from_millis(30));
}

#[tokio::test(start_paused = true)]
async fn a_look_without_end_ends_soon_after_the_deadline() {
    let begin = Instant::now();
    let wait = Wait { name: "the agent", limit: Duration::from_secs(10), progress: &Silent };
    let error = wait.until(std::future::pending::<Result<Look<()>, Error>>).await.unwrap_err();
    assert!(matches!(error, WaitError::Deadline { .. }));
    assert_eq!(begin.elapsed(), Duration::from_secs(15));
}
