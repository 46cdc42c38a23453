//! Tasks: what a host is doing, and waiting for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{HostName, VmId, excerpt};
use tokio::time::Instant;

use crate::client::call::Call;
use crate::client::classify::by_words;
use crate::client::encode::{Segment, path};
use crate::client::{
    Client, Error, ErrorKind, Look, Method, Params, Progress, Upid, Wait, WaitError, scalar,
};

/// A task that has just begun may not be known yet to the host that answers.
const UNKNOWN_AT_FIRST: Duration = Duration::from_secs(10);
/// Of a task that has run for less nobody reads the log: it would cost as many requests as the looks themselves.
const SHORT: Duration = Duration::from_secs(1);
/// How much of a failed task's log its error carries.
const LOG_TAIL: u64 = 20;

/// How a task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    Running,
    Ended { exit_status: String },
}

#[derive(Deserialize)]
struct RawState {
    status: String,
    #[serde(default)]
    exitstatus: Option<String>,
}

/// A line of a task's log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TaskLine {
    #[serde(rename = "n", deserialize_with = "scalar::scalar")]
    pub number: u64,
    #[serde(rename = "t", default, deserialize_with = "scalar::or_default")]
    pub text: String,
}

/// A task in a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TaskInfo {
    pub upid: Upid,
    #[serde(rename = "type", default, deserialize_with = "scalar::or_default")]
    pub kind: String,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub id: Option<String>,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub user: String,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub endtime: Option<u64>,
    /// `OK`, an error text, or nothing (`RUNNING`) while it runs.
    #[serde(default, deserialize_with = "scalar::optional")]
    pub status: Option<String>,
}

/// Which tasks a list holds. Proxmox leaves running ones out unless asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSource {
    Active,
    Archive,
    #[default]
    All,
}

/// What tasks to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskQuery {
    pub vmid: Option<VmId>,
    pub kind: Option<String>,
    pub source: TaskSource,
    pub limit: Option<u32>,
}

/// A task that did what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEnd {
    pub upid: Upid,
    /// What it warned of on the way.
    pub warnings: Vec<String>,
}

/// A task that did not.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("{name} failed: {words} (task {upid})")]
    Failed {
        name: String,
        upid: Upid,
        /// The task's own last words.
        words: String,
        kind: ErrorKind,
        /// The end of its log.
        log: Vec<String>,
    },
    #[error("task {upid} does not end, or cannot be asked")]
    Wait { upid: Upid, source: WaitError },
}

impl TaskError {
    /// The class of the task's last words.
    pub fn kind(&self) -> Option<&ErrorKind> {
        match self {
            Self::Failed { kind, .. } => Some(kind),
            Self::Wait { .. } => None,
        }
    }
}

impl Client {
    pub async fn task_state(&self, upid: &Upid) -> Result<TaskState, Error> {
        let raw: RawState = self.get(&task_path(upid, &[&"status"]), Params::new()).await?;
        Ok(match raw {
            RawState { status, .. } if status == "running" => TaskState::Running,
            RawState { exitstatus, .. } => {
                TaskState::Ended { exit_status: exitstatus.unwrap_or_else(|| "unexpected status".to_owned()) }
            }
        })
    }

    /// Lines of a task's log from `start` on, fit to be shown, and how many there are in all.
    pub async fn task_log(&self, upid: &Upid, start: u64, limit: u64) -> Result<(Vec<TaskLine>, u64), Error> {
        let params = Params::new().with("start", start).with("limit", limit);
        let call = Call::new(Method::Get, task_path(upid, &[&"log"]), params);
        let reply = self.call_whole::<Vec<TaskLine>>(&call).await?;
        let total = reply.total.unwrap_or_else(|| start.saturating_add(reply.data.len() as u64));
        let shown = |line: TaskLine| TaskLine { text: self.shown(&line.text), ..line };
        Ok((reply.data.into_iter().map(shown).collect(), total))
    }

    pub async fn tasks(&self, node: &HostName, query: &TaskQuery) -> Result<Vec<TaskInfo>, Error> {
        let source = match query.source {
            TaskSource::Active => "active",
            TaskSource::Archive => "archive",
            TaskSource::All => "all",
        };
        let params = Params::new()
            .with("source", source)
            .with_some("vmid", query.vmid)
            .with_some("typefilter", query.kind.as_ref())
            .with_some("limit", query.limit);
        self.get(&path(&[&"nodes", node, &"tasks"]), params).await
    }

    /// Asks a task to stop; it gets five seconds before it is killed.
    pub async fn stop_task(&self, upid: &Upid) -> Result<(), Error> {
        self.delete(&task_path(upid, &[]), Params::new()).await
    }

    /// Follows a task to its end, on the host its id names. `name` says what it does, for people.
    ///
    /// # Cancel safety
    ///
    /// The task goes on without us; follow it again by its id, or wait for the VM's lock.
    pub async fn follow(
        &self,
        upid: &Upid,
        name: &str,
        limit: Duration,
        progress: &dyn Progress,
    ) -> Result<TaskEnd, TaskError> {
        let start = Instant::now();
        let seen = AtomicU64::new(0);
        let (running, ended) = (Mutex::new(None), Mutex::new(Duration::ZERO));
        let wait = Wait { name, limit, progress };
        let look = async || {
            let asked = start.elapsed();
            match self.task_state(upid).await {
                Ok(TaskState::Ended { exit_status }) => {
                    *locked(&ended) = asked;
                    Ok(Look::Done(exit_status))
                }
                Ok(TaskState::Running) => {
                    *locked(&running) = Some(asked);
                    let short = start.elapsed() < SHORT;
                    Ok(Look::NotYet(if short {
                        "running".to_owned()
                    } else {
                        self.last_line(upid, &seen).await
                    }))
                }
                Err(error) if error.is_not_found() && start.elapsed() < UNKNOWN_AT_FIRST => {
                    Ok(Look::NotYet(error.words().to_owned()))
                }
                Err(error) => Err(error),
            }
        };
        let exit_status = wait
            .until_due(self.pace().expected(upid.kind()), look)
            .await
            .map_err(|source| TaskError::Wait { upid: upid.clone(), source })?;
        if exit_status == "OK" {
            self.pace().learn(upid.kind(), *locked(&running), *locked(&ended));
        }
        self.judge(upid, name, exit_status).await
    }

    async fn judge(&self, upid: &Upid, name: &str, exit_status: String) -> Result<TaskEnd, TaskError> {
        if exit_status == "OK" || sabotaged(Defect::TaskEndIgnored) {
            return Ok(TaskEnd { upid: upid.clone(), warnings: Vec::new() });
        }
        if exit_status.starts_with("WARNINGS:") {
            let log = self.task_log(upid, 0, 0).await.map(|(lines, _)| lines).unwrap_or_default();
            let warning = |line: TaskLine| line.text.strip_prefix("WARN:").map(|text| text.trim().to_owned());
            return Ok(TaskEnd {
                upid: upid.clone(),
                warnings: log.into_iter().filter_map(warning).collect(),
            });
        }
        Err(TaskError::Failed {
            name: name.to_owned(),
            upid: upid.clone(),
            kind: by_words(&exit_status).map_texts(&|text| self.shown(text)),
            words: self.shown(&exit_status),
            log: self.log_tail(upid).await,
        })
    }

    /// What a host says of a task, as it may be shown: on one line, and without secrets of ours.
    fn shown(&self, words: &str) -> String {
        self.masked_text(&excerpt(words))
    }

    /// The newest line of a running task. Progress only, so a failure is no failure of the wait.
    async fn last_line(&self, upid: &Upid, seen: &AtomicU64) -> String {
        match self.task_log(upid, seen.load(Ordering::Relaxed), 500).await {
            Ok((lines, _)) => {
                seen.fetch_add(lines.len().saturating_sub(1) as u64, Ordering::Relaxed);
                lines.into_iter().next_back().map_or_else(|| "running".to_owned(), |line| line.text)
            }
            Err(_) => "running".to_owned(),
        }
    }

    /// The end of a log. Its length is known only once it was asked for, so that takes two calls when it is long.
    async fn log_tail(&self, upid: &Upid) -> Vec<String> {
        let Ok((lines, total)) = self.task_log(upid, 0, LOG_TAIL).await else { return Vec::new() };
        let lines = match total.checked_sub(LOG_TAIL) {
            None | Some(0) => lines,
            Some(start) => self.task_log(upid, start, LOG_TAIL).await.map_or(lines, |(tail, _)| tail),
        };
        lines.into_iter().map(|line| line.text).collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn task_path(upid: &Upid, rest: &[Segment<'_>]) -> String {
    path(&[&[&"nodes" as Segment<'_>, upid.node(), &"tasks", upid], rest].concat())
}
