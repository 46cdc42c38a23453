//! Which process this run is, and which others run beside it: what another run needs to see that a lease's holder is gone.

#![expect(
    clippy::disallowed_methods,
    reason = "files of the kernel and variables of the system, read as they are"
)]

use std::fs::{read_link, read_to_string};

use rustix::io::Errno;
use rustix::process::{Pid, getuid, test_kill_process};
use talmox_exec::{FoundProcess, LeaseHolder, ProcessHome, ProcessId, Processes};

/// The processes this run can see.
pub(super) struct ThisMachine;

impl Processes for ThisMachine {
    fn home(&self) -> Option<ProcessHome> {
        let boot = read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        let namespace = read_link("/proc/self/ns/pid").ok()?;
        let namespace = namespace.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()?;
        // A /proc of another namespace lists other processes under the same ids.
        let own = status(&read_to_string("/proc/self/stat").ok()?)?;
        (!boot.is_empty() && own.pid == std::process::id()).then_some(ProcessHome { boot, namespace })
    }

    fn find(&self, pid: u32) -> FoundProcess {
        let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return FoundProcess::Unknown };
        // Unlike /proc, which may be mounted so that it shows a user's own processes alone, this knows of each.
        if test_kill_process(id) == Err(Errno::SRCH) {
            return FoundProcess::Gone;
        }
        let stat = read_to_string(format!("/proc/{pid}/stat")).ok();
        match stat.as_deref().and_then(status).filter(|status| status.pid == pid) {
            Some(status) if status.has_ended => FoundProcess::Gone,
            Some(status) => FoundProcess::Started(status.started),
            None => FoundProcess::Unknown,
        }
    }
}

/// Who this run is to others: user, host and process.
pub(super) fn holder() -> LeaseHolder {
    let (host, pid) = (rustix::system::uname(), std::process::id());
    let name = format!("{}@{}-{pid}", user(), host.nodename().to_string_lossy());
    let process = ThisMachine.home().and_then(|home| match ThisMachine.find(pid) {
        FoundProcess::Started(started) => Some(ProcessId { home, pid, started }),
        FoundProcess::Gone | FoundProcess::Unknown => None,
    });
    LeaseHolder::new(name, process)
}

/// The user's name: as the session says, as the system's list has it, or its number.
fn user() -> String {
    let said = std::env::var("USER").ok().filter(|user| !user.is_empty());
    let uid = getuid().as_raw();
    let listed = || named(&read_to_string("/etc/passwd").ok()?, uid);
    said.or_else(listed).unwrap_or_else(|| format!("uid-{uid}"))
}

/// The name of a user in a list like `/etc/passwd`.
fn named(list: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        (id == uid && !name.is_empty()).then(|| name.to_owned())
    })
}

/// What `/proc/N/stat` says.
#[derive(Debug, PartialEq, Eq)]
struct Status {
    pid: u32,
    /// It has ended, and its parent has not collected it.
    has_ended: bool,
    started: u64,
}

/// The name of the program stands in brackets and may hold anything, brackets too.
fn status(text: &str) -> Option<Status> {
    let (pid, rest) = text.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    // The state is the third field, the time the process was started the twenty-second.
    let started = fields.nth(18)?.parse().ok()?;
    Some(Status { pid: pid.parse().ok()?, has_ended: matches!(state, "Z" | "X"), started })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_told_from_its_name_and_state() {
        let line = |name: &str, state: &str| {
            format!("4711 ({name}) {state} 1 4711 4711 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 918273 1 2 3\n")
        };
        let status_of = |text: String| status(&text).map(|status| (status.has_ended, status.started));
        assert_eq!(status_of(line("talmox", "S")), Some((false, 918_273)));
        assert_eq!(status_of(line("a) Z 1 (b", "R")), Some((false, 918_273)));
        assert_eq!(status_of(line("talmox", "Z")), Some((true, 918_273)));
        assert_eq!(status("4711 (talmox) S 1 2"), None);
    }

    #[test]
    fn a_user_without_a_variable_has_the_name_of_the_list() {
        let list = "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(named(list, 1000).as_deref(), Some("ann"));
        assert_eq!(named(list, 0).as_deref(), Some("root"));
        assert_eq!(named(list, 1), None);
    }

    #[test]
    fn a_process_of_this_machine_is_seen_until_it_ends() {
        let own = ThisMachine.find(std::process::id());
        assert!(matches!(own, FoundProcess::Started(_)), "{own:?}");
        let home = ThisMachine.home().expect("the system says where we are");
        assert_eq!(home.boot.len(), 16);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat runs");
        let (pid, running) = (child.id(), ThisMachine.find(child.id()));
        assert!(matches!(running, FoundProcess::Started(_)), "{running:?}");
        child.kill().expect("it ends");
        child.wait().expect("it has ended");
        assert_ne!(ThisMachine.find(pid), running);
    }
}
