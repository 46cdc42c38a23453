//! Images, before anything is restarted for them.

use std::pin::Pin;

use futures_util::StreamExt as _;
use talmox_plan::Component;
use talmox_talos::Store;
use talmox_types::desired::Role;

use super::{Member, Upgrade};
use crate::StepError;
use crate::machine::images;
use crate::work::Result;

/// How many nodes pull at the same time: registries and links are shared.
const AT_ONCE: usize = 4;

type Pulled<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

impl Upgrade<'_> {
    /// Has every node pull what it does not run yet, so that one that cannot be had is known before anything is changed.
    pub(super) async fn pull(&self) -> Result<()> {
        let mut all: Vec<Pulled<'_>> = Vec::new();
        for member in &self.members {
            all.push(Box::pin(self.pull_to(member)));
        }
        let mut pulls = futures_util::stream::iter(all).buffer_unordered(AT_ONCE);
        while let Some(pulled) = pulls.next().await {
            pulled?;
        }
        Ok(())
    }

    async fn pull_to(&self, member: &Member) -> Result<()> {
        let has = images::of(&self.live_config(member).await?);
        for component in Component::PODS.into_iter().chain([Component::Kubelet]) {
            let store = match component {
                Component::Kubelet => Store::System,
                Component::ApiServer
                | Component::ControllerManager
                | Component::Scheduler
                | Component::Proxy => Store::Kubernetes,
            };
            let needs_it = store == Store::System || member.role == Role::Controller;
            let wanted = member.described.image(component).filter(|_| needs_it);
            let Some(image) = wanted.filter(|image| component.image_in(&has) != Some(image)) else {
                continue;
            };
            self.may_go_on()?;
            let doing = format!("pull {image} to {}", member.name);
            member.client.pull_plainly(store, image).await.map_err(StepError::machine(doing))?;
        }
        Ok(())
    }
}
