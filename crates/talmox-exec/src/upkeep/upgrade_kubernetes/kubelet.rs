//! Kubelets: control planes one by one, then as many workers at a time as may be away.

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use talmox_plan::{Component, image_version};
use talmox_talos::kinds;

use super::{Member, Upgrade};
use crate::work::Result;

/// How long a kubelet may take from its configuration to a node that is ready with it. It takes seconds once its image is
/// there.
const LIMIT: Duration = Duration::from_mins(5);
const KUBELET: &str = "kubelet";

type Moved<'a> = Pin<Box<dyn Future<Output = Result<bool>> + Send + 'a>>;

impl Upgrade<'_> {
    pub(super) async fn move_kubelets(&self) -> Result<bool> {
        let mut wrote = false;
        for member in self.control_planes() {
            wrote |= self.move_kubelet(member).await?;
        }
        let at_once = self.work.run.request.upkeep.max_unavailable.map_or(1, NonZeroUsize::get);
        let mut workers: Vec<Moved<'_>> = Vec::new();
        for member in self.workers() {
            workers.push(Box::pin(self.move_kubelet(member)));
        }
        let mut moves = futures_util::stream::iter(workers).buffer_unordered(at_once);
        while let Some(moved) = moves.next().await {
            wrote |= moved?;
        }
        Ok(wrote)
    }

    async fn move_kubelet(&self, member: &Member) -> Result<bool> {
        let Some(image) = member.described.image(Component::Kubelet) else { return Ok(false) };
        self.may_go_on()?;
        let wrote = self.set_image(member, Component::Kubelet).await?;
        let name = format!("the kubelet of {}", member.name);
        self.until(member, &name, LIMIT, || self.kubelet_is_there(member, image)).await?;
        Ok(wrote)
    }

    /// The service runs from this image and is well, and Kubernetes says so of the node.
    async fn kubelet_is_there(&self, member: &Member, image: &str) -> std::result::Result<(), String> {
        let failed = |error: talmox_talos::Error| error.to_string();
        let spec = member.client.get::<kinds::KubeletSpec>(KUBELET).await.map_err(failed)?;
        let runs = spec.map(|spec| spec.spec.image).unwrap_or_default();
        if runs != image {
            return Err(format!("it is made of {runs}"));
        }
        let service = member.client.service(KUBELET).await.map_err(failed)?.ok_or("it does not run")?;
        if service.state != "Running" || service.healthy != Some(true) {
            return Err(format!("its service is {}: {}", service.state, service.message));
        }
        let name = member.name.as_str();
        let node = self.ask(None, |client| async move { client.node(name).await });
        let node = node.await.map_err(|error| error.to_string())?;
        let says = node.status.node_info.kubelet_version.trim_start_matches('v').to_owned();
        let wanted = image_version(image).map(|version| version.to_string());
        if wanted.is_some_and(|wanted| wanted != says) {
            return Err(format!("Kubernetes still knows it as {says}"));
        }
        if !node.is_ready() && !self.has_no_network() {
            return Err("its node is not ready".to_owned());
        }
        Ok(())
    }

    /// Without a network plugin no node is ever ready.
    fn has_no_network(&self) -> bool {
        let kubernetes = &self.work.run.desired.kubernetes;
        kubernetes.cni == talmox_types::desired::Cni::None && kubernetes.bootstrap_manifests.is_empty()
    }
}
