//! Workers: they start after the reply that names them, wait for locks, take time, and end with a status.
//!
//! ```text
//! Queued ──fork──▶ WaitingLock ──granted──▶ WaitingStorage ──turn──▶ Working ──time──▶ Done
//!    │                  └──timeout, interrupt──────┴────────────────────────────────────▲
//!    └── no lock needed ──▶ Working ──fails at once─────────────────────────────────────┘
//! ```

use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::jobs::Work;
use crate::locks::{LOCK_WAIT, lock_text};
use crate::record::Times;
use crate::storage::{Allocations, Turn};
use crate::world::World;

pub(crate) type TaskId = usize;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    Begin(TaskId),
    LockTimeout(TaskId),
    /// The worker's turn at the storages it allocates on.
    Turn(TaskId),
    /// It waited for that storage in vain.
    StorageTimeout(TaskId, String),
    Finish(TaskId),
    /// A fault: the worker dies.
    Kill(TaskId),
    /// A fault: the worker fails with these words.
    Fail(TaskId, String),
    Broadcast(String),
    LoseHost(String),
    BootHost(String),
    HaRound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    Queued,
    WaitingLock,
    WaitingStorage,
    Working,
    Done,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) upid: String,
    pub(crate) node: String,
    pub(crate) pid: u32,
    /// Hundredths of a second since boot.
    pub(crate) pstart: u64,
    pub(crate) start: u64,
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) caller: Caller,
    pub(crate) log: Vec<String>,
    /// Lines that are not written before a time, by their index, in order.
    #[serde(default)]
    pub(crate) due: Vec<(usize, u64)>,
    /// Bytes it copies, for the times of those lines.
    #[serde(default)]
    pub(crate) copies: u64,
    pub(crate) stage: Stage,
    pub(crate) end: u64,
    pub(crate) status: Option<String>,
    pub(crate) work: Option<Work>,
    #[serde(default)]
    pub(crate) times: Times,
}

impl Task {
    /// How many lines of the log are there by now.
    pub(crate) fn written(&self, clock: u64) -> usize {
        self.due.iter().find(|(_, at)| *at > clock).map_or(self.log.len(), |(index, _)| *index)
    }
}

/// What a worker knows of itself.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) task: TaskId,
    pub(crate) node: String,
    pub(crate) caller: Caller,
}

impl World {
    pub(crate) fn schedule(&mut self, at: u64, event: Event) {
        self.events.entry(at).or_default().push(event);
    }

    /// When something happens next, if nobody asks for anything before.
    pub fn next_event(&self) -> Option<u64> {
        self.events.keys().next().copied()
    }

    /// Lets time pass up to `now`; everything due happens in order.
    pub fn advance_to(&mut self, now: u64) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.clock = self.clock.max(at);
            for event in self.events.remove(&at).unwrap_or_default() {
                match self.place_of(&event).filter(|_| self.is_mixed()) {
                    Some(host) => self.as_host(&host, |world| world.happen(event)),
                    None => self.happen(event),
                }
            }
        }
        self.clock = self.clock.max(now);
    }

    /// The host on which something happens.
    fn place_of(&self, event: &Event) -> Option<String> {
        match event {
            Event::Begin(task)
            | Event::LockTimeout(task)
            | Event::Turn(task)
            | Event::StorageTimeout(task, _)
            | Event::Finish(task)
            | Event::Kill(task)
            | Event::Fail(task, _) => Some(self.tasks[*task].node.clone()),
            Event::Broadcast(node) | Event::LoseHost(node) | Event::BootHost(node) => Some(node.clone()),
            Event::HaRound => None,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Begin(task) => self.begin(task),
            Event::LockTimeout(task) => {
                if self.tasks[task].stage == Stage::WaitingLock {
                    let vmid = self.lock_of(task).map_or(0, |(vmid, _)| vmid);
                    self.end_task(task, Err(lock_text(vmid, "got timeout")));
                }
            }
            Event::Turn(task) => {
                if self.tasks[task].stage == Stage::WaitingStorage {
                    self.work(task);
                }
            }
            Event::StorageTimeout(task, storage) => {
                if self.tasks[task].stage == Stage::WaitingStorage {
                    let reason = self.abandon(task, &self.storage_lock_text(&storage, "got timeout"));
                    self.end_task(task, Err(reason));
                }
            }
            Event::Finish(task) => {
                if self.tasks[task].stage == Stage::Working {
                    self.finish(task);
                }
            }
            Event::Kill(task) => self.kill(task),
            Event::Fail(task, reason) => self.fail(task, &reason),
            Event::Broadcast(node) => self.broadcast(&node),
            Event::LoseHost(node) => self.lose_host(&node),
            Event::BootHost(node) => self.boot_host(&node),
            Event::HaRound => self.ha_round(),
        }
    }

    /// Starts a worker and returns its UPID.
    pub(crate) fn spawn(&mut self, node: &str, kind: &str, id: &str, caller: &Caller, work: Work) -> String {
        let task = self.new_task(node, kind, id, caller, Some(work));
        let at = self.clock + self.timing.fork;
        self.schedule(at, Event::Begin(task));
        let (pid, upid) = (self.tasks[task].pid, self.tasks[task].upid.clone());
        self.note(node, pid, &caller.id(), format!("starting task {upid}"));
        upid
    }

    pub(crate) fn new_task(
        &mut self,
        node: &str,
        kind: &str,
        id: &str,
        caller: &Caller,
        work: Option<Work>,
    ) -> TaskId {
        let pid = self.take_pid(node);
        let (pstart, start) = (self.clock / 10, self.unix());
        let vmid = work.as_ref().and_then(Work::lock).map(|(vmid, _)| vmid);
        let times = Times { vmid: vmid.or_else(|| id.parse().ok()), spawned: self.clock, ..Times::default() };
        let upid = format!("UPID:{node}:{pid:08X}:{pstart:08X}:{start:08X}:{kind}:{id}:{}:", caller.id());
        self.task_index.insert(upid.clone(), self.tasks.len());
        self.tasks.push(Task {
            upid,
            node: node.to_owned(),
            pid,
            pstart,
            start,
            kind: kind.to_owned(),
            id: id.to_owned(),
            caller: caller.clone(),
            log: Vec::new(),
            due: Vec::new(),
            copies: 0,
            stage: Stage::Queued,
            end: 0,
            status: None,
            work,
            times,
        });
        self.tasks.len() - 1
    }

    pub(crate) fn take_pid(&mut self, node: &str) -> u32 {
        let Some(node) = self.nodes.get_mut(node) else { return 1 };
        node.next_pid += 1;
        node.next_pid
    }

    pub(crate) fn task_by_upid(&self, upid: &str) -> Option<TaskId> {
        self.task_index.get(upid).copied()
    }

    pub(crate) fn log(&mut self, job: &Job, line: impl Into<String>) {
        self.tasks[job.task].log.push(line.into());
    }

    fn lock_of(&self, task: TaskId) -> Option<(u32, bool)> {
        self.tasks[task].work.as_ref().and_then(Work::lock)
    }

    fn begin(&mut self, task: TaskId) {
        if self.tasks[task].stage != Stage::Queued {
            return;
        }
        let job = self.job(task);
        let Some(work) = self.tasks[task].work.take() else { return };
        let refused = work.before_lock(self, &job);
        self.tasks[task].work = Some(work);
        if let Some(reason) = refused {
            return self.end_task(task, Err(reason));
        }
        match self.lock_of(task) {
            Some((vmid, exclusive)) if !self.try_lock(vmid, task, exclusive) => {
                self.tasks[task].stage = Stage::WaitingLock;
                self.tasks[task].log.push("trying to acquire lock...".into());
                let deadline = self.clock + LOCK_WAIT;
                self.schedule(deadline, Event::LockTimeout(task));
            }
            _ => self.queue(task),
        }
    }

    /// With the VM's lock in hand: claims what is to be claimed, and queues for the storages.
    fn queue(&mut self, task: TaskId) {
        let job = self.job(task);
        let Some(mut work) = self.tasks[task].work.take() else { return };
        let claimed = work.claim(self, &job);
        let wanted = if claimed.is_ok() { work.allocations(self, &job) } else { Allocations::new() };
        self.tasks[task].work = Some(work);
        if let Err(reason) = claimed {
            return self.end_task(task, Err(reason));
        }
        let (at, storage, event) = match self.queue_for(&job.node, &wanted) {
            Turn::Now => return self.work(task),
            Turn::At(at, storage) => (at, storage, Event::Turn(task)),
            Turn::Never(at, storage) => (at, storage.clone(), Event::StorageTimeout(task, storage)),
        };
        self.tasks[task].stage = Stage::WaitingStorage;
        for line in self.waiting_lines(&storage, at - self.clock) {
            self.log(&job, line);
        }
        self.schedule(at, event);
    }

    fn job(&self, task: TaskId) -> Job {
        let entry = &self.tasks[task];
        Job { task, node: entry.node.clone(), caller: entry.caller.clone() }
    }

    fn work(&mut self, task: TaskId) {
        self.tasks[task].stage = Stage::Working;
        self.tasks[task].times.entered = Some(self.clock);
        let job = self.job(task);
        let Some(mut work) = self.tasks[task].work.take() else { return };
        let entered = work.enter(self, &job);
        self.tasks[task].work = Some(work);
        match entered {
            Ok(duration) => {
                let at = self.clock + duration;
                self.schedule(at, Event::Finish(task));
            }
            Err(reason) => self.end_task(task, Err(reason)),
        }
    }

    fn finish(&mut self, task: TaskId) {
        let job = self.job(task);
        let Some(mut work) = self.tasks[task].work.take() else { return };
        let result = work.finish(self, &job);
        self.tasks[task].work = Some(work);
        self.end_task(task, result);
    }

    pub(crate) fn end_task(&mut self, task: TaskId, result: Result<(), String>) {
        let lock = self.lock_of(task);
        let (end, clock) = (self.unix(), self.clock);
        let entry = &mut self.tasks[task];
        if result.is_err() {
            entry.log.truncate(entry.written(clock));
        }
        entry.due.clear();
        let (status, last) = match result {
            Ok(()) => ("OK".to_owned(), "TASK OK".to_owned()),
            Err(reason) => {
                let line = reason.replace('\n', " ");
                // A plain error loses its line feed, a structured one keeps the blank in its place.
                let line = if line.starts_with("400 ") { line } else { line.trim_end().to_owned() };
                (line.clone(), format!("TASK ERROR: {line}"))
            }
        };
        entry.log.push(last);
        entry.stage = Stage::Done;
        entry.end = end;
        entry.times.ended = clock;
        entry.work = None;
        let (node, pid, user) = (entry.node.clone(), entry.pid, entry.caller.id());
        let message = format!("end task {} {status}", entry.upid);
        entry.status = Some(status);
        self.note(&node, pid, &user, message);
        if let Some((vmid, _)) = lock {
            for next in self.unlock(vmid, task) {
                self.tasks[next].log.push(" OK".into());
                self.queue(next);
            }
        }
    }

    /// What `DELETE` on a task does: the worker gets a signal and says so.
    pub(crate) fn interrupt(&mut self, task: TaskId) {
        let reason = match self.tasks[task].stage {
            Stage::Done => return,
            Stage::WaitingLock => {
                lock_text(self.lock_of(task).map_or(0, |(vmid, _)| vmid), "received interrupt")
            }
            Stage::Queued | Stage::WaitingStorage | Stage::Working => {
                self.abandon(task, "received interrupt")
            }
        };
        self.end_task(task, Err(reason));
    }

    fn abandon(&mut self, task: TaskId, cause: &str) -> String {
        let Some(work) = self.tasks[task].work.take() else { return cause.to_owned() };
        let reason = work.abandon(self, cause);
        self.tasks[task].work = Some(work);
        reason
    }

    /// What a call does that gives its worker a moment: its status if it ends within that time.
    pub(crate) fn wait_for_worker(&mut self, upid: &str, patience: u64) -> Option<String> {
        let deadline = self.clock + patience;
        loop {
            if let Some(status) = self.task_status(upid).flatten() {
                return Some(status.to_owned());
            }
            let at = self.next_event().filter(|at| *at <= deadline)?;
            self.advance_to(at);
        }
    }

    /// A fault: the worker dies without a word and leaves everything as it stands.
    pub fn kill_worker(&mut self, upid: &str) {
        if let Some(task) = self.task_by_upid(upid) {
            self.kill(task);
        }
    }

    /// The same at a time to come, if the worker still lives then.
    pub fn kill_worker_at(&mut self, upid: &str, at: u64) {
        if let Some(task) = self.task_by_upid(upid) {
            self.schedule(at, Event::Kill(task));
        }
    }

    pub(crate) fn kill(&mut self, task: TaskId) {
        if self.tasks[task].stage != Stage::Done {
            self.end_task(task, Err("unexpected status".into()));
            // Nobody was left to write a last line; the status is what others make of that.
            self.tasks[task].log.pop();
        }
    }

    /// A fault of the host: the worker fails with that text and cleans up behind itself.
    pub fn fail_worker(&mut self, upid: &str, reason: &str) {
        if let Some(task) = self.task_by_upid(upid) {
            self.fail(task, reason);
        }
    }

    /// The same at a time to come, if the worker still lives then.
    pub fn fail_worker_at(&mut self, upid: &str, at: u64, reason: &str) {
        if let Some(task) = self.task_by_upid(upid) {
            self.schedule(at, Event::Fail(task, reason.to_owned()));
        }
    }

    fn fail(&mut self, task: TaskId, reason: &str) {
        if self.tasks[task].stage != Stage::Done {
            self.abandon(task, reason);
            self.end_task(task, Err(reason.to_owned()));
        }
    }

    /// A worker that ended before anybody looked, as the record of something done by other means.
    pub fn add_finished_task(&mut self, upid: &str, status: &str) {
        let parts: Vec<&str> = upid.split(':').collect();
        let [_, node, pid, pstart, start, kind, id, user, ..] = parts[..] else { return };
        let (user, token) =
            user.split_once('!').map_or((user, None), |(user, token)| (user, Some(token.to_owned())));
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap_or_default();
        let last = if status == "OK" { "TASK OK".to_owned() } else { format!("TASK ERROR: {status}") };
        self.task_index.insert(upid.to_owned(), self.tasks.len());
        self.tasks.push(Task {
            upid: upid.to_owned(),
            node: node.to_owned(),
            pid: u32::try_from(hex(pid)).unwrap_or_default(),
            pstart: hex(pstart),
            start: hex(start),
            kind: kind.to_owned(),
            id: id.to_owned(),
            caller: Caller { user: user.to_owned(), token },
            log: vec![last],
            due: Vec::new(),
            copies: 0,
            stage: Stage::Done,
            end: hex(start),
            status: Some(status.to_owned()),
            work: None,
            times: Times::default(),
        });
    }

    /// The state of a worker: none if there is no such worker, else its end status once it has one.
    pub fn task_status(&self, upid: &str) -> Option<Option<&str>> {
        self.task_by_upid(upid).map(|task| self.tasks[task].status.as_deref())
    }
}
