//! The image of a component in a machine's configuration, and nothing else of it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};
use talmox_machine::{Config, Map, Patch, Source, Value, patch};
use talmox_plan::Component;
use talmox_talos::{ApplyMode, Kind, kinds};
use talmox_types::NodeName;

use super::{Member, Upgrade};
use crate::machine::images;
use crate::work::Result;
use crate::{Reach, StepError, Whereabouts};

/// The configuration in force.
const ACTIVE: &str = "v1alpha1";
/// The one on the disk: another one waits for a restart, or is on trial.
const PERSISTENT: &str = "persistent";
/// How often a configuration is sent whose fate is not known.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);

/// What is described for a node.
pub(super) struct Described {
    text: SecretString,
    config: Config,
    /// By the place each is named at.
    images: BTreeMap<String, String>,
}

impl Described {
    pub(super) fn of(reach: &Reach<'_>, node: &NodeName, at: &Whereabouts) -> Result<Self> {
        let failed = |reason: String| StepError::NoConfig { node: node.clone(), reason };
        let text = reach.machines.config(node, at).map_err(failed)?.text;
        let config = read(&text).map_err(failed)?;
        Ok(Self { images: images::of(&config), text, config })
    }

    /// The image a component is to have; none if the description leaves it to Talos.
    pub(super) fn image(&self, component: Component) -> Option<&str> {
        component.image_in(&self.images)
    }
}

/// What is wrong with a configuration could show a part of it, so nothing of it is told.
fn read(text: &SecretString) -> std::result::Result<Config, String> {
    let source = Source { name: "the configuration", text: text.expose_secret() };
    Config::parse(source).map_err(|_| "it cannot be read".to_owned())
}

/// The same configuration with another image at the place it names the component's.
fn with_image(config: &Config, component: Component, image: &str) -> std::result::Result<Config, String> {
    let [place, _] = component.keys();
    let document = component.document();
    let patch = if config.document(document).is_some() {
        Map::new().with("apiVersion", "v1alpha1").with("kind", document).with("image", image)
    } else {
        let nested =
            place.rsplit('.').fold(Value::text(image), |value, key| Map::new().with(key, value).into());
        nested.as_map().cloned().unwrap_or_default()
    };
    let wrong = |_| format!("the image of {} cannot be put into it", component.name());
    let patch = Patch::from_values("the image", vec![patch.into()]).map_err(wrong)?;
    let wrong = format!("the image of {} cannot be put into it", component.name());
    let patched = patch::apply(config.clone(), "the configuration", &[patch]).map_err(|_| wrong.clone())?;
    patched.into_config("the configuration").map_err(|_| wrong)
}

impl Upgrade<'_> {
    /// The configuration a node runs with. One that waits for a restart or is on trial would be lost or confirmed by sending
    /// another, so nothing is sent meanwhile.
    pub(super) async fn live_config(&self, member: &Member) -> Result<Config> {
        let doing = format!("read the configuration of {}", member.name);
        let get = |id| member.client.get::<kinds::MachineConfig>(id);
        let (active, persistent) = futures_util::future::join(get(ACTIVE), get(PERSISTENT)).await;
        let (active, persistent) =
            active.and_then(|active| Ok((active, persistent?))).map_err(StepError::machine(doing))?;
        let failed =
            |reason: &str| StepError::NoConfig { node: member.name.clone(), reason: reason.to_owned() };
        let text = |bytes: Vec<u8>| SecretString::from(String::from_utf8_lossy(&bytes).into_owned());
        let active = active.ok_or_else(|| failed("it has none"))?;
        let written = persistent.as_ref().and_then(|found| found.updated);
        let on_trial = active.updated.zip(written).is_some_and(|(in_force, written)| in_force > written);
        let active = text(active.spec.yaml_marshalled);
        let config = read(&active).map_err(|reason| failed(&reason))?;
        let kept = persistent.map(|found| text(found.spec.yaml_marshalled));
        if let Some(kept) = kept.filter(|kept| kept.expose_secret() != active.expose_secret()) {
            let same = read(&kept).is_ok_and(|kept| kept.differences(&config).is_empty());
            let node = member.name.clone();
            match same {
                true => {}
                false if on_trial => return Err(StepError::TrialRuns { node }),
                false => return Err(StepError::WaitsForRestart { node }),
            }
        }
        Ok(config)
    }

    /// Gives a node's configuration the described image of a component, if it has another; gives whether it had.
    pub(super) async fn set_image(&self, member: &Member, component: Component) -> Result<bool> {
        let Some(image) = member.described.image(component) else { return Ok(false) };
        let mut tries = 0;
        loop {
            let live = self.live_config(member).await?;
            if component.image_in(&images::of(&live)) == Some(image) {
                return Ok(tries > 0);
            }
            let failed = |reason| StepError::NoConfig { node: member.name.clone(), reason };
            let wanted = with_image(&live, component, image).map_err(failed)?;
            // Where nothing else differs, the node gets the very text that is described.
            let text = if wanted.differences(&member.described.config).is_empty() {
                member.described.text.clone()
            } else {
                SecretString::from(wanted.to_yaml())
            };
            tries += 1;
            let bytes = Bytes::copy_from_slice(text.expose_secret().as_bytes());
            match member.client.apply_configuration(bytes, ApplyMode::NoReboot, false).await {
                Ok(applied) => {
                    for warning in &applied.warnings {
                        self.work.warn(warning);
                    }
                }
                // Looking again tells what became of it.
                Err(error)
                    if tries < TRIES
                        && matches!(error.kind(), Kind::NotReached | Kind::Uncertain | Kind::NotReady) =>
                {
                    self.work.run.pace().sleep(PAUSE).await;
                }
                Err(source) => {
                    let doing = format!("give {} the image of {}", member.name, component.name());
                    return Err(StepError::Machine { doing, source });
                }
            }
            if tries > TRIES {
                let fields = vec![component.place().to_owned()];
                return Err(StepError::ReadBack { node: member.name.clone(), fields });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(Source { name: "test", text }).unwrap()
    }

    #[test]
    fn only_the_image_changes_in_either_layout() {
        let legacy = config(
            "version: v1alpha1\nmachine:\n  type: controlplane\n  kubelet:\n    image: k:v1\ncluster:\n  apiServer:\n    image: a:v1\n    \
             certSANs: [x]\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: cp-1\n",
        );
        let changed = with_image(&legacy, Component::ApiServer, "a:v2").unwrap();
        let differences: Vec<_> =
            legacy.differences(&changed).into_iter().map(|one| (one.path, one.after)).collect();
        assert_eq!(differences, [("cluster.apiServer.image".to_owned(), Some("a:v2".to_owned()))]);
        let documents = config(
            "version: v1alpha1\nmachine:\n  type: worker\n---\napiVersion: v1alpha1\nkind: KubeletConfig\nimage: k:v1\n\
             defaultRuntimeSeccompProfileEnabled: true\n",
        );
        let changed = with_image(&documents, Component::Kubelet, "k:v2").unwrap();
        let differences = documents.differences(&changed);
        assert_eq!(differences.len(), 1);
        assert_eq!(
            (differences[0].document.as_str(), differences[0].path.as_str()),
            ("KubeletConfig", "image")
        );
    }
}
