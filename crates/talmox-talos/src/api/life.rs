//! Restarting, upgrading, resetting. All of it answers at once and happens later: watch the machine.

use futures_util::StreamExt as _;
use talmox_proto::common::{ContainerDriver, ContainerdInstance, ContainerdNamespace};
use talmox_proto::machine::image_service_pull_response::Response as Pulled;
use talmox_proto::machine::lifecycle_service_install_progress::Response as Progress;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::reset_request::WipeMode;
use talmox_proto::machine::{
    ImagePullRequest, ImageServicePullRequest, InstallArtifactsSource, LifecycleServiceUpgradeRequest,
    RebootRequest, ResetPartitionSpec, ResetRequest, RollbackRequest, ShutdownRequest, UpgradeRequest,
    image_service, lifecycle_service, reboot_request,
};
use talmox_types::excerpt;

use crate::{Client, Code, Error, Status};

/// Where an image is kept on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// For installers and the kubelet.
    System,
    /// For pods.
    Kubernetes,
}

impl Store {
    fn instance(self) -> ContainerdInstance {
        let namespace = match self {
            Self::System => ContainerdNamespace::NsSystem,
            Self::Kubernetes => ContainerdNamespace::NsCri,
        };
        ContainerdInstance { driver: ContainerDriver::Cri.into(), namespace: namespace.into() }
    }
}

/// How far the layers of an image are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullProgress {
    pub layer: String,
    pub offset: u64,
    pub total: u64,
}

/// How an upgrade is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installer {
    pub image: String,
    /// Install at the next boot, and restart for it.
    pub stage: bool,
}

/// What a reset leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResetPlan {
    /// Leave etcd and Kubernetes first; a failure to leave etcd ends the reset.
    pub graceful: bool,
    /// Restart afterwards; else the machine is off.
    pub reboot: bool,
    /// Only these partitions; all of them if there are none.
    pub partitions: Vec<String>,
}

impl Client {
    /// Restarts; gives the id by which its events are known. Another restart takes this one's place.
    pub async fn reboot(&self, power_cycle: bool) -> Result<String, Error> {
        let mode = if power_cycle { reboot_request::Mode::Powercycle } else { reboot_request::Mode::Default };
        let request = RebootRequest { mode: mode.into() };
        Ok(self.one(calls::REBOOT, request, self.deadlines().quick).await?.actor_id)
    }

    pub async fn shut_down(&self, force: bool) -> Result<(), Error> {
        let request = ShutdownRequest { force };
        self.one(calls::SHUTDOWN, request, self.deadlines().quick).await.map(drop)
    }

    pub async fn reset(&self, plan: &ResetPlan) -> Result<String, Error> {
        let partition = |label: &String| ResetPartitionSpec { label: label.clone(), wipe: true };
        let request = ResetRequest {
            graceful: plan.graceful,
            reboot: plan.reboot,
            system_partitions_to_wipe: plan.partitions.iter().map(partition).collect(),
            user_disks_to_wipe: Vec::new(),
            mode: if plan.partitions.is_empty() { WipeMode::SystemDisk } else { WipeMode::All }.into(),
        };
        Ok(self.one(calls::RESET, request, self.deadlines().quick).await?.actor_id)
    }

    /// The way of Talos 1.12 and before: the node pulls, drains, installs and restarts by itself. What is on its disks stays;
    /// it does not look at etcd then, which is for whoever calls.
    pub async fn upgrade_by_itself(&self, installer: &Installer) -> Result<String, Error> {
        let request = UpgradeRequest {
            image: installer.image.clone(),
            preserve: true,
            stage: installer.stage,
            ..UpgradeRequest::default()
        };
        Ok(self.one(calls::UPGRADE, request, self.deadlines().long).await?.actor_id)
    }

    /// Goes back to what was installed before, and restarts.
    pub async fn roll_back(&self) -> Result<(), Error> {
        self.one(calls::ROLLBACK, RollbackRequest {}, self.deadlines().quick).await.map(drop)
    }

    /// Pulls an image the way every version knows.
    pub async fn pull_plainly(&self, store: Store, reference: &str) -> Result<(), Error> {
        let namespace = store.instance().namespace;
        let request = ImagePullRequest { namespace, reference: reference.to_owned() };
        self.one(calls::IMAGE_PULL, request, self.deadlines().long).await.map(drop)
    }

    /// Pulls an image (1.13 and later); gives its name with the digest.
    pub async fn pull(
        &self,
        store: Store,
        reference: &str,
        progress: &mut (dyn FnMut(PullProgress) + Send),
    ) -> Result<String, Error> {
        let request =
            ImageServicePullRequest { containerd: Some(store.instance()), image_ref: reference.to_owned() };
        let mut stream = self.stream(image_service::PULL, request, Some(self.deadlines().long)).await?;
        let mut name = None;
        while let Some(message) = stream.next().await {
            match message?.response {
                Some(Pulled::Name(pulled)) => name = Some(pulled),
                Some(Pulled::PullProgress(layer)) => {
                    let at = layer.progress.unwrap_or_default();
                    let bytes = |number: i64| u64::try_from(number).unwrap_or_default();
                    progress(PullProgress {
                        layer: excerpt(&layer.layer_id),
                        offset: bytes(at.offset),
                        total: bytes(at.total),
                    });
                }
                None => {}
            }
        }
        let none = || Status::new(Code::DataLoss, "the pull ended without the image's name");
        name.ok_or_else(|| self.error(image_service::PULL.name(), none()))
    }

    /// Installs what was pulled (1.13 and later), beside what runs. It neither drains nor looks at etcd nor restarts.
    pub async fn install_upgrade(
        &self,
        image: &str,
        said: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        let request = LifecycleServiceUpgradeRequest {
            containerd: Some(Store::System.instance()),
            source: Some(InstallArtifactsSource { image_name: image.to_owned() }),
        };
        let mut stream =
            self.stream(lifecycle_service::UPGRADE, request, Some(self.deadlines().long)).await?;
        let mut exit = None;
        while let Some(message) = stream.next().await {
            match message?.progress.and_then(|progress| progress.response) {
                Some(Progress::Message(line)) => said(&excerpt(&line)),
                Some(Progress::ExitCode(code)) => exit = Some(code),
                None => {}
            }
        }
        // That it failed is no error of the call.
        let words = match exit {
            Some(0) => return Ok(()),
            Some(code) => format!("the installer ended with {code}"),
            None => "the installer did not say how it ended".to_owned(),
        };
        Err(self.error(lifecycle_service::UPGRADE.name(), Status::new(Code::Internal, words)))
    }
}
