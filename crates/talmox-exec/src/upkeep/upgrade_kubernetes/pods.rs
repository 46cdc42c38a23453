//! The control plane's own pods, one control plane after the other.

use std::time::Duration;

use talmox_k8s::{Pod, Selection};
use talmox_plan::Component;
use talmox_talos::{ControlPlanePod, PodConfig};

use super::{Member, Upgrade};
use crate::machine::kubernetes::NAMESPACE;
use crate::work::Result;

/// How long a pod may take from its configuration to being ready: the kubelet fetches static pods every twenty seconds, the
/// old one has its time to end, and only then is the new one started.
const POD_LIMIT: Duration = Duration::from_mins(5);
/// Until Talos has made of a configuration what pods are made from.
const CONFIG_LIMIT: Duration = Duration::from_mins(1);
/// What a pod says it was made from. Neither the machine's status nor that of its static pods can be believed: both are of
/// before for half a minute.
const CONFIG_VERSION: &str = "talos.dev/config-version";

fn pod_of(component: Component) -> Option<ControlPlanePod> {
    match component {
        Component::ApiServer => Some(ControlPlanePod::ApiServer),
        Component::ControllerManager => Some(ControlPlanePod::ControllerManager),
        Component::Scheduler => Some(ControlPlanePod::Scheduler),
        Component::Proxy | Component::Kubelet => None,
    }
}

impl Upgrade<'_> {
    /// Moves a component of one control plane, and waits until its pod is the new one and ready.
    pub(super) async fn move_pod(&self, member: &Member, component: Component) -> Result<bool> {
        let (Some(kind), Some(image)) = (pod_of(component), member.described.image(component)) else {
            return Ok(false);
        };
        let name = component.name();
        let others = format!("{name} of the other control planes");
        self.until(member, &others, POD_LIMIT, || self.others_are_ready(member, component)).await?;
        let wrote = self.set_image(member, component).await?;
        let made = format!("Talos to make {name} of {image}");
        self.until(member, &made, CONFIG_LIMIT, || async {
            let config = member.client.pod_config(kind).await.map_err(|error| error.to_string())?;
            match config {
                Some(config) if config.image == image => Ok(()),
                Some(config) => Err(format!("it is made of {}", config.image)),
                None => Err("there is none".to_owned()),
            }
        })
        .await?;
        let waits = format!("{name} of {}", member.name);
        self.until(member, &waits, POD_LIMIT, || async {
            let config = member.client.pod_config(kind).await.map_err(|error| error.to_string())?;
            let config = config.ok_or("Talos makes none")?;
            let pods = self.pods(Some(member), component).await?;
            let own = pods.iter().find(|pod| pod.spec.node_name == member.name.as_str());
            is_there(own, &config)
        })
        .await?;
        Ok(wrote)
    }

    async fn pods(
        &self,
        last: Option<&Member>,
        component: Component,
    ) -> std::result::Result<Vec<Pod>, String> {
        let labels = format!("k8s-app={}", component.name());
        let selection = Selection::in_namespace(NAMESPACE).with_labels(labels);
        let pods = self.ask(last.map(|member| member.address), |client| {
            let selection = selection.clone();
            async move { client.pods(&selection).await }
        });
        Ok(pods.await.map_err(|error| error.to_string())?.into_iter().filter(Pod::is_mirror).collect())
    }

    /// One control plane at a time: none is touched while another's pod is not ready.
    async fn others_are_ready(
        &self,
        member: &Member,
        component: Component,
    ) -> std::result::Result<(), String> {
        let pods = self.pods(None, component).await?;
        for other in self.control_planes().filter(|other| other.name != member.name) {
            let pod = pods.iter().find(|pod| pod.spec.node_name == other.name.as_str());
            if !pod.is_some_and(|pod| pod.is_ready() && !pod.is_terminating()) {
                return Err(format!("that of {} is not ready", other.name));
            }
        }
        Ok(())
    }
}

/// Whether a pod is made from what Talos makes it from now, and ready.
fn is_there(pod: Option<&Pod>, config: &PodConfig) -> std::result::Result<(), String> {
    let pod = pod.ok_or("its pod is not there")?;
    let version = pod.metadata.annotations.get(CONFIG_VERSION).map(String::as_str).unwrap_or_default();
    if version != config.version {
        return Err(format!("its pod is of configuration {version}, not {} yet", config.version));
    }
    if pod.is_terminating() || !pod.is_ready() {
        return Err("its pod is not ready".to_owned());
    }
    Ok(())
}
