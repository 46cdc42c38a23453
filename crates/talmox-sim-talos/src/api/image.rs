//! Images, and installers that run from them.

use bytes::Bytes;
use talmox_proto::common::{ContainerDriver, ContainerdInstance, ContainerdNamespace};
use talmox_proto::machine::image_service_pull_layer_progress::Status as Layer;
use talmox_proto::machine::image_service_pull_response::Response as Pulled;
use talmox_proto::machine::lifecycle_service_install_progress::Response as Progress;
use talmox_proto::machine::{
    ImagePull, ImagePullRequest, ImagePullResponse, ImageServicePullLayerProgress, ImageServicePullProgress,
    ImageServicePullRequest, ImageServicePullResponse, LifecycleServiceInstallProgress,
    LifecycleServiceInstallRequest, LifecycleServiceInstallResponse, LifecycleServiceUpgradeRequest,
    LifecycleServiceUpgradeResponse,
};
use talmox_proto::{Duration, Message};

use super::life::not_in_container;
use super::machine::run;
use super::reply::reply_after;
use super::stream::Kind;
use super::{Asked, Handlers};
use crate::hardware::{Drive, Image, MachineId};
use crate::images::{NoImage, Stored};
use crate::nodes::{Event, Nodes};
use crate::wire::{ApiReply, Code, Status};

pub(super) const HANDLERS: Handlers = &[
    ("/machine.MachineService/ImagePull", image_pull),
    ("/machine.ImageService/Pull", pull),
    ("/machine.LifecycleService/Upgrade", upgrade),
    ("/machine.LifecycleService/Install", install),
];

type Reply = Result<ApiReply, Status>;

fn no_image(error: NoImage) -> Status {
    match error {
        NoImage::Malformed(words) => Status::new(Code::Unknown, words),
        NoImage::NotFound(words) => Status::new(Code::NotFound, format!("error pulling image: {words}")),
    }
}

fn image_pull(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let request: ImagePullRequest = asked.request()?;
    nodes.pull(asked.machine, &request.reference).map_err(no_image)?;
    let message = ImagePullResponse { messages: vec![ImagePull { metadata: None }] };
    Ok(reply_after(nodes.timing.pull, &message))
}

/// Which store is meant; some combinations do not exist.
fn store(instance: Option<&ContainerdInstance>) -> Result<(), Status> {
    let (driver, namespace) = instance.map_or_else(Default::default, |one| (one.driver(), one.namespace()));
    let words = match (driver, namespace) {
        (_, ContainerdNamespace::NsUnknown) => "invalid containerd namespace NS_UNKNOWN",
        (ContainerDriver::Containerd, ContainerdNamespace::NsCri) => {
            "cannot use CRI namespace with containerd driver"
        }
        _ => return Ok(()),
    };
    Err(Status::new(Code::InvalidArgument, words))
}

/// One layer comes, then the name by its digest.
fn pull(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let request: ImageServicePullRequest = asked.request()?;
    store(request.containerd.as_ref())?;
    let stored = nodes.pull(asked.machine, &request.image_ref).map_err(no_image)?;
    let messages = pulled(&stored, nodes.clock, nodes.timing.pull);
    let end = (nodes.clock + nodes.timing.pull, Status::ok());
    Ok(nodes.open_stream(asked.machine, Kind::Script { messages, end }))
}

fn pulled(stored: &Stored, now: u64, length: u64) -> Vec<(u64, Bytes)> {
    let layer_id = stored.pinned.rsplit(':').next().unwrap_or_default().chars().take(12).collect::<String>();
    let layer = |status: Layer, offset: i64| {
        let progress = ImageServicePullLayerProgress {
            status: status.into(),
            elapsed: Some(Duration::default()),
            offset,
            total: if offset == 0 { 0 } else { LAYER },
        };
        Pulled::PullProgress(ImageServicePullProgress {
            layer_id: layer_id.clone(),
            progress: Some(progress),
        })
    };
    let steps = [
        layer(Layer::Downloading, LAYER / 2),
        layer(Layer::DownloadComplete, 0),
        layer(Layer::Extracting, 0),
        layer(Layer::ExtractComplete, 0),
        Pulled::Name(stored.pinned.clone()),
    ];
    let count = steps.len() as u64;
    let message = |(at, response): (usize, Pulled)| {
        let message = ImageServicePullResponse { response: Some(response) };
        (now + length * (at as u64 + 1) / count, Bytes::from(message.encode_to_vec()))
    };
    steps.into_iter().enumerate().map(message).collect()
}

/// Bytes of the one layer.
const LAYER: i64 = 96 << 20;

/// Output of an installer, then how it ended; a failure is no error of the call.
fn script<M: Message>(
    nodes: &Nodes,
    id: MachineId,
    exit_code: i32,
    wrap: impl Fn(LifecycleServiceInstallProgress) -> M,
) -> (Kind, u64) {
    let length = nodes.install_time(id);
    let lines = ["running Talos installer", "fetching system extensions", "installing boot loader"];
    let count = lines.len() as u64 + 1;
    let encode = |response: Progress| {
        let progress = LifecycleServiceInstallProgress { response: Some(response) };
        Bytes::from(wrap(progress).encode_to_vec())
    };
    let mut messages: Vec<(u64, Bytes)> = lines
        .iter()
        .enumerate()
        .map(|(at, line)| {
            let at = nodes.clock + length * (at as u64 + 1) / count;
            (at, encode(Progress::Message(format!("{line}\n"))))
        })
        .collect();
    let end = nodes.clock + length;
    messages.push((end, encode(Progress::ExitCode(exit_code))));
    (Kind::Script { messages, end: (end, Status::ok()) }, length)
}

/// Neither pulls nor drains nor looks at etcd nor restarts.
fn upgrade(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    not_in_container(nodes, asked)?;
    let request: LifecycleServiceUpgradeRequest = asked.request()?;
    let name = request.source.map(|source| source.image_name).unwrap_or_default();
    if name.is_empty() {
        return Err(Status::new(Code::InvalidArgument, "installer image name is required"));
    }
    store(request.containerd.as_ref())?;
    if nodes.system_disk(asked.machine).is_none() {
        return Err(Status::new(Code::FailedPrecondition, "machine is not installed"));
    }
    let stored = ready_to_run(nodes, asked, &name, "upgrade")?;
    let image = nodes.installer_image(run(nodes, asked)?, &stored.reference);
    let exit_code = nodes.faults.installer_exit(asked.machine);
    let wrap = |progress| LifecycleServiceUpgradeResponse { progress: Some(progress) };
    let (kind, length) = script(nodes, asked.machine, exit_code, wrap);
    begin(nodes, asked.machine, length, exit_code, image);
    Ok(nodes.open_stream(asked.machine, kind))
}

/// The image is there, and no other installer runs.
fn ready_to_run(nodes: &Nodes, asked: &Asked<'_>, name: &str, what: &str) -> Result<Stored, Status> {
    if run(nodes, asked)?.upgrading {
        let words = "another installation/upgrade is already in progress";
        return Err(Status::new(Code::FailedPrecondition, words));
    }
    nodes.stored(asked.machine, name).ok_or_else(|| {
        let words = format!(
            "{what} failed: installer image \"{name}\" not found in containerd store: image \"{name}\": not found"
        );
        Status::new(Code::Internal, words)
    })
}

fn begin(nodes: &mut Nodes, id: MachineId, length: u64, exit_code: i32, image: Image) {
    if let Some(run) = nodes.run_mut(id) {
        run.upgrading = true;
    }
    nodes.schedule(id, length, Event::Upgraded { exit_code, image });
    if nodes.faults.dies_in_upgrade(id) {
        nodes.schedule(id, length / 2, Event::Dies);
    }
}

fn install(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    not_in_container(nodes, asked)?;
    let request: LifecycleServiceInstallRequest = asked.request()?;
    if nodes.system_disk(asked.machine).is_some_and(|disk| disk.meta.is_some()) {
        return Err(Status::new(Code::AlreadyExists, "machine is already installed"));
    }
    let name = request.source.map(|source| source.image_name).unwrap_or_default();
    if name.is_empty() {
        return Err(Status::new(Code::InvalidArgument, "installer image name is required"));
    }
    let wanted = request.destination.map(|destination| destination.disk).unwrap_or_default();
    let machine = nodes.machines.get(&asked.machine);
    let disk =
        machine.into_iter().flat_map(|machine| &machine.hardware.drives).find_map(|drive| match drive {
            Drive::Disk(disk) => (wanted == format!("/dev/{}", disk.name)).then_some(disk.id),
            Drive::Cd(_) => None,
        });
    let Some(disk) = disk else {
        return Err(Status::new(Code::InvalidArgument, "destination disk is required"));
    };
    store(request.containerd.as_ref())?;
    let stored = ready_to_run(nodes, asked, &name, "install")?;
    let image = nodes.installer_image(run(nodes, asked)?, &stored.reference);
    let exit_code = nodes.faults.installer_exit(asked.machine);
    let wrap = |progress| LifecycleServiceInstallResponse { progress: Some(progress) };
    let (kind, length) = script(nodes, asked.machine, exit_code, wrap);
    if let Some(run) = nodes.run_mut(asked.machine) {
        run.system = Some(disk);
    }
    begin(nodes, asked.machine, length, exit_code, image);
    Ok(nodes.open_stream(asked.machine, kind))
}

impl Nodes {
    /// An installer has ended; what it wrote is booted next.
    pub(crate) fn finish_upgrade(&mut self, id: MachineId, exit_code: i32, image: Image) {
        if let Some(run) = self.run_mut(id) {
            run.upgrading = false;
        }
        let Some(disk) = self.system_disk_mut(id).filter(|_| exit_code == 0) else { return };
        match &mut disk.loader {
            Some(loader) => loader.upgrade(image),
            None => disk.install(image),
        }
    }
}
