//! Files, folders and logs of a node, as far as anybody looks at them.

use std::io::Write as _;

use bytes::Bytes;
use talmox_proto::Message as _;
use talmox_proto::common::{ContainerDriver, Data};
use talmox_proto::machine::{CopyRequest, DmesgRequest, FileInfo, ListRequest, LogsRequest, ReadRequest};

use super::machine::run;
use super::stream::Kind;
use super::{Asked, Handlers};
use crate::hardware::MachineId;
use crate::machine::Run;
use crate::nodes::Nodes;
use crate::services::Service;
use crate::wire::{ApiReply, Code, Status};

pub(super) const HANDLERS: Handlers = &[
    ("/machine.MachineService/Read", read),
    ("/machine.MachineService/Copy", copy),
    ("/machine.MachineService/List", list),
    ("/machine.MachineService/Logs", logs),
    ("/machine.MachineService/Dmesg", dmesg),
];

type Reply = Result<ApiReply, Status>;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const DATABASE: &str = "/var/lib/etcd/member/snap/db";

/// Folders every node has.
const FOLDERS: &[&str] = &["/", "/etc", "/proc", "/sys", "/system", "/run", "/var", "/var/lib", "/var/log"];

/// A piece of a stream of bytes.
const PIECE: usize = 32 << 10;

fn data(bytes: &[u8]) -> Data {
    Data { metadata: None, bytes: bytes.to_vec() }
}

fn pieces(nodes: &Nodes, bytes: &[u8]) -> ApiReply {
    nodes.reply_all(bytes.chunks(PIECE).map(data))
}

/// What is in a file; none if there is no such file.
fn content(nodes: &Nodes, asked: &Asked<'_>, path: &str) -> Option<Vec<u8>> {
    let run = nodes.run(asked.machine)?;
    match path {
        BOOT_ID => Some(format!("{}\n", run.boot_id).into_bytes()),
        "/etc/hosts" => {
            let address = run.network.main().map(|ip| ip.to_string()).unwrap_or_default();
            Some(format!("127.0.0.1 localhost\n{address} {}\n", run.network.hostname).into_bytes())
        }
        "/etc/os-release" => {
            let version = &run.image.version;
            Some(
                format!(
                    "NAME=\"Talos\"\nID=talos\nVERSION_ID=v{version}\nPRETTY_NAME=\"Talos (v{version})\"\n"
                )
                .into_bytes(),
            )
        }
        DATABASE => {
            let cluster = nodes.etcd_data(asked.machine)?.cluster;
            let mut file = nodes.snapshot(cluster)?;
            // The file itself has no checksum behind it.
            file.truncate(file.len() - 32);
            Some(file)
        }
        _ => None,
    }
}

fn read(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let ReadRequest { path } = asked.request()?;
    let Some(bytes) = content(nodes, asked, &path) else {
        return Err(Status::new(Code::NotFound, format!("stat {path}: no such file or directory")));
    };
    Ok(pieces(nodes, &bytes))
}

fn copy(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let CopyRequest { root_path } = asked.request()?;
    let Some(bytes) = content(nodes, asked, &root_path) else {
        return Err(Status::new(Code::Unknown, format!("lstat {root_path}: no such file or directory")));
    };
    let name = root_path.rsplit('/').next().unwrap_or_default();
    let mut archive = archived(name, &bytes);
    archive.resize(archive.len().next_multiple_of(512) + 1024, 0);
    Ok(pieces(nodes, &zipped(&archive)))
}

/// The head of a tar entry and its content, without anything behind.
pub(super) fn archived(name: &str, content: &[u8]) -> Vec<u8> {
    let mut head = vec![0_u8; 512];
    let mut put = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000600");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", content.len()));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\u{0}00");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\u{0} ").as_bytes());
    head.extend_from_slice(content);
    head
}

pub(super) fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// What is below a folder; none if it is not there.
fn entries(nodes: &Nodes, asked: &Asked<'_>, root: &str) -> Option<Vec<(&'static str, bool)>> {
    let run = nodes.run(asked.machine)?;
    let gone = nodes
        .system_disk(asked.machine)
        .and_then(|disk| disk.ephemeral.as_ref())
        .is_some_and(|ephemeral| ephemeral.etcd_folder_gone);
    let folder = run.is_control_plane() && run.volumes && !gone;
    let data = nodes.etcd_data(asked.machine).is_some();
    match root {
        "/var/lib/etcd" if folder => Some(if data { vec![("member", true)] } else { Vec::new() }),
        "/var/lib/etcd/member" if data => Some(vec![("snap", true), ("wal", true)]),
        "/var/lib/etcd/member/snap" if data => Some(vec![("db", false)]),
        "/var/lib/etcd/member/wal" if data => Some(Vec::new()),
        _ if FOLDERS.contains(&root) => Some(Vec::new()),
        _ => None,
    }
}

fn list(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let request: ListRequest = asked.request()?;
    let root = match request.root.trim_end_matches('/') {
        "" => "/",
        root => root,
    };
    let Some(found) = entries(nodes, asked, root) else {
        return Err(Status::new(Code::Unknown, format!("lstat {root}: no such file or directory")));
    };
    let depth = match (request.recurse, request.recursion_depth) {
        (false, _) => 1,
        (true, 0) => i32::MAX,
        (true, depth) => depth,
    };
    let mut infos = vec![info(nodes, root, root, true)];
    walk(nodes, asked, root, root, &found, depth, &mut infos);
    Ok(nodes.reply_all(infos))
}

fn walk(
    nodes: &Nodes,
    asked: &Asked<'_>,
    root: &str,
    folder: &str,
    found: &[(&'static str, bool)],
    depth: i32,
    infos: &mut Vec<FileInfo>,
) {
    for (name, is_dir) in found {
        let path = format!("{}/{name}", folder.trim_end_matches('/'));
        infos.push(info(nodes, root, &path, *is_dir));
        if *is_dir && depth > 1 {
            let below = entries(nodes, asked, &path).unwrap_or_default();
            walk(nodes, asked, root, &path, &below, depth - 1, infos);
        }
    }
}

fn info(nodes: &Nodes, root: &str, path: &str, is_dir: bool) -> FileInfo {
    /// The bit that says it is a folder, as Go writes modes.
    const FOLDER: u32 = 1 << 31;
    let relative = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
    FileInfo {
        name: path.to_owned(),
        relative_name: if relative.is_empty() { ".".to_owned() } else { relative.to_owned() },
        is_dir,
        mode: if is_dir { FOLDER | 0o755 } else { 0o600 },
        size: if is_dir { 4096 } else { 0 },
        modified: nodes.timestamp(nodes.clock).seconds,
        ..FileInfo::default()
    }
}

/// Lines a service wrote: what it told, with the time.
fn service_log(nodes: &Nodes, service: &Service) -> Vec<String> {
    let line = |said: &crate::services::Said| {
        let time = talmox_machine::Time::from_unix(nodes.timestamp(said.at).seconds);
        format!("{time} {}", said.message)
    };
    service.said.iter().map(line).collect()
}

/// Static pods have logs once they run.
fn container_log(run: &Run, id: &str) -> Option<Vec<String>> {
    let known = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let name = known.into_iter().find(|name| id.contains(name))?;
    run.kubernetes.has_pods().then(|| vec![format!("{name} started")])
}

/// What is written down, and goes on being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Service(String),
    Container(String),
    Console,
}

/// A log that somebody follows: how many of its lines were sent.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    source: Source,
    sent: usize,
}

impl Source {
    /// Its lines so far; or why there is no such log.
    fn lines(&self, nodes: &Nodes, run: &Run) -> Result<Vec<String>, Status> {
        match self {
            Self::Container(id) => container_log(run, id)
                .ok_or_else(|| Status::new(Code::Unknown, format!("container \"{id}\" not found"))),
            // A log begins with the first process.
            Self::Service(id) => match run.services.get(id).filter(|service| service.has_run()) {
                Some(service) => Ok(service_log(nodes, service)),
                None => Err(Status::new(Code::Unknown, format!("log \"{id}\" was not registered"))),
            },
            Self::Console => {
                let line = |(at, text): &(u64, String)| {
                    let time = talmox_machine::Time::from_unix(nodes.timestamp(*at).seconds);
                    format!("user: warning: [{time}]: {text}")
                };
                Ok(run.console.iter().map(line).collect())
            }
        }
    }
}

impl Followed {
    /// Lines that came since, each a message.
    pub(super) fn more(&mut self, nodes: &Nodes, machine: MachineId) -> Vec<Bytes> {
        let lines = nodes.run(machine).and_then(|run| self.source.lines(nodes, run).ok()).unwrap_or_default();
        let new: Vec<Bytes> = lines.iter().skip(self.sent).map(|line| message(line)).collect();
        self.sent = self.sent.max(lines.len());
        new
    }
}

fn message(line: &str) -> Bytes {
    data(format!("{line}\n").as_bytes()).encode_to_vec().into()
}

fn logs(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let request: LogsRequest = asked.request()?;
    let id = request.id.clone();
    let source =
        if request.driver() == ContainerDriver::Cri { Source::Container(id) } else { Source::Service(id) };
    let lines = source.lines(nodes, run(nodes, asked)?)?;
    let wanted = usize::try_from(request.tail_lines).unwrap_or(usize::MAX);
    let skipped = lines.len().saturating_sub(wanted);
    if request.follow {
        return Ok(follow(nodes, asked, source, &lines, skipped));
    }
    let text: String = lines.iter().skip(skipped).map(|line| format!("{line}\n")).collect();
    Ok(pieces(nodes, text.as_bytes()))
}

fn dmesg(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let request: DmesgRequest = asked.request()?;
    let lines = Source::Console.lines(nodes, run(nodes, asked)?)?;
    if request.follow {
        // Whoever asks for the tail wants what comes, and nothing that was.
        let skipped = if request.tail { lines.len() } else { 0 };
        return Ok(follow(nodes, asked, Source::Console, &lines, skipped));
    }
    Ok(nodes.reply_all(lines.iter().map(|line| data(format!("{line}\n").as_bytes()))))
}

/// The lines that are there but the first so many, and then every new one.
fn follow(
    nodes: &mut Nodes,
    asked: &Asked<'_>,
    source: Source,
    lines: &[String],
    skipped: usize,
) -> ApiReply {
    let ready = lines.iter().skip(skipped).map(|line| message(line)).collect();
    let followed = Followed { source, sent: lines.len() };
    nodes.open_stream_with(asked.machine, Kind::Log(followed), ready)
}
