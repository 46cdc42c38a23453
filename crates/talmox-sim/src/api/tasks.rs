//! Tasks: lists, status, log, stopping.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::{Map, Value, json};

use super::Call;
use crate::reply::{Answer, ApiError, with_total};
use crate::schema::split_list;
use crate::tasks::{Stage, Task, TaskId};
use crate::world::World;

const PATTERN: &str = r"^UPID:([a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?):[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:[0-9A-Fa-f]{8}:[^:\s/]+:[^:\s/]*:([^:\s/]+):$";
static UPID: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PATTERN).ok());

/// Lines of a log or entries of a list, if the caller asks for no other number.
const PAGE: usize = 50;

/// Host and owner a UPID names.
fn parse(upid: &str) -> Result<(String, String), ApiError> {
    let found = UPID.as_ref().and_then(|pattern| pattern.captures(upid));
    let text =
        |index: usize| found.as_ref().and_then(|found| found.get(index)).map(|part| part.as_str().to_owned());
    text(1).zip(text(2)).ok_or_else(|| ApiError::parameter("upid", "unable to parse worker upid"))
}

/// Owners may look at and stop their tasks; users also those of their tokens.
fn owns(caller: &crate::access::Caller, owner: &str) -> bool {
    owner == caller.id() || (caller.token.is_none() && owner.split('!').next() == Some(&caller.user))
}

/// The task, if the host knows it. A log may be asked for before that is known, a status may not.
fn find(world: &World, call: &Call, privilege: &str, must_exist: bool) -> Result<Option<TaskId>, ApiError> {
    let upid = call.args.text("upid");
    let (node, owner) = parse(upid)?;
    let task = world.task_by_upid(upid).filter(|_| node == call.node);
    if must_exist && task.is_none() {
        return Err(ApiError::parameter("upid", "no such task"));
    }
    if !owns(&call.caller, &owner) {
        world.need(&call.caller, &format!("/nodes/{}", call.node), privilege)?;
    }
    Ok(task)
}

fn entry(task: &Task) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("upid".into(), json!(task.upid));
    entry.insert("node".into(), json!(task.node));
    entry.insert("pid".into(), json!(task.pid));
    entry.insert("pstart".into(), json!(task.pstart));
    entry.insert("starttime".into(), json!(task.start));
    entry.insert("type".into(), json!(task.kind));
    entry.insert("id".into(), json!(task.id));
    entry.insert("user".into(), json!(task.caller.user));
    if let Some(token) = &task.caller.token {
        entry.insert("tokenid".into(), json!(token));
    }
    entry
}

pub(crate) fn status(world: &World, call: &Call) -> Answer {
    let Some(task) = find(world, call, "Sys.Audit", true)? else { return Ok(Value::Null) };
    let task = &world.tasks[task];
    let mut shown = entry(task);
    shown.insert("status".into(), json!(if task.stage == Stage::Done { "stopped" } else { "running" }));
    if let Some(exit) = &task.status {
        shown.insert("exitstatus".into(), json!(exit));
    }
    Ok(Value::Object(shown))
}

pub(crate) fn log(world: &World, call: &Call) -> Answer {
    let found = find(world, call, "Sys.Audit", false)?;
    let written = |task: usize| &world.tasks[task].log[..world.tasks[task].written(world.clock)];
    let lines: Vec<String> = match found.map(written) {
        None => vec!["unable to open file - No such file or directory".into()],
        Some([]) => vec!["no content".into()],
        Some(lines) => lines.to_vec(),
    };
    let number = |name: &str| call.args.int(name).and_then(|value| usize::try_from(value).ok());
    let start = number("start").unwrap_or_default();
    let limit = number("limit").map_or(PAGE, |limit| if limit == 0 { usize::MAX } else { limit });
    let shown = lines.iter().enumerate().skip(start).take(limit);
    let shown: Value = shown.map(|(index, line)| json!({"n": index + 1, "t": line})).collect();
    Ok(with_total(&shown, lines.len()))
}

pub(crate) fn stop(world: &mut World, call: &Call) -> Answer {
    if let Some(task) = find(world, call, "Sys.Modify", true)? {
        world.interrupt(task);
    }
    Ok(Value::Null)
}

pub(crate) fn list(world: &World, call: &Call) -> Value {
    let source = call.args.get("source").unwrap_or("archive");
    let auditor = world.may(&call.caller, &format!("/nodes/{}", call.node), "Sys.Audit");
    let visible = |task: &&Task| {
        let mine = task.caller.user == call.caller.user
            && (call.caller.token.is_none() || task.caller == call.caller);
        task.node == call.node && (auditor || mine)
    };
    let mut found: Vec<&Task> =
        world.tasks.iter().filter(visible).filter(|task| matches(task, source, call)).collect();
    found.reverse();
    found.sort_by_key(|task| std::cmp::Reverse(task.end));
    let number = |name: &str| call.args.int(name).and_then(|value| usize::try_from(value).ok());
    let total = found.len();
    let limit = number("limit").map_or(PAGE, |limit| if limit == 0 { usize::MAX } else { limit });
    let shown: Vec<Value> =
        found.into_iter().skip(number("start").unwrap_or_default()).take(limit).map(listed).collect();
    if total == 0 { json!([]) } else { with_total(&Value::Array(shown), total) }
}

/// Running tasks are listed raw: the owner in one piece.
fn listed(task: &Task) -> Value {
    let mut shown = entry(task);
    if let Some(status) = &task.status {
        shown.insert("endtime".into(), json!(task.end));
        shown.insert("status".into(), json!(status));
    } else {
        shown.remove("tokenid");
        shown.insert("user".into(), json!(task.caller.id()));
        shown.insert("status".into(), json!("RUNNING"));
        shown.insert("saved".into(), json!("0"));
    }
    Value::Object(shown)
}

fn matches(task: &Task, source: &str, call: &Call) -> bool {
    let running = task.status.is_none();
    let in_source = match source {
        "archive" => !running,
        "active" => running,
        _ => true,
    };
    let status = task.status.as_deref().unwrap_or_default();
    let kind = match status {
        "OK" | "" => "ok",
        text if text.starts_with("WARNINGS") => "warning",
        "unexpected status" => "unknown",
        _ => "error",
    };
    let args = &call.args;
    let wanted = args.get("statusfilter").is_none_or(|list| split_list(list).any(|item| item == kind));
    in_source
        && wanted
        && (!args.flag("errors") || matches!(kind, "error" | "unknown"))
        && args.get("vmid").is_none_or(|vmid| task.id == vmid)
        && args.get("typefilter").is_none_or(|kind| task.kind == kind)
        && args.get("userfilter").is_none_or(|user| task.caller.id().contains(user))
        && args.int("since").is_none_or(|since| task.start >= since)
        && args.int("until").is_none_or(|until| task.start <= until)
}

/// The last tasks of all hosts. Only the user part is compared here, so a token does not even see its own.
pub(crate) fn of_cluster(world: &World, call: &Call) -> Value {
    const KEPT: usize = 25;
    let auditor = world.may(&call.caller, "/", "Sys.Audit");
    let visible =
        |task: &&Task| auditor || (call.caller.token.is_none() && task.caller.user == call.caller.user);
    let mut found: Vec<&Task> = world.tasks.iter().filter(visible).collect();
    found.reverse();
    found.sort_by_key(|task| std::cmp::Reverse(task.start));
    let shown = found.into_iter().take(KEPT).map(|task| {
        let mut shown = entry(task);
        shown.remove("pid");
        shown.remove("pstart");
        shown.insert("saved".into(), json!(if task.status.is_some() { "1" } else { "0" }));
        if let Some(status) = &task.status {
            shown.insert("endtime".into(), json!(task.end));
            shown.insert("status".into(), json!(status));
        }
        Value::Object(shown)
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upids_are_told_from_other_text() {
        assert!(parse("UPID:pve1:0000FFFF:0000FFFF:60000000:qmstart:100:root@pam:").is_ok());
        assert!(parse("UPID:pve1:0000FFFF:0000FFFF:60000000:imgcopy::root@pam!t:").is_ok());
        assert!(parse("foo").is_err() && parse("UPID:pve1:FFFF:0:0:a:b:c:").is_err());
    }
}
