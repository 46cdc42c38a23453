//! What Talos itself keeps in a cluster: it makes these objects once, and leaves their upgrade to others.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use talmox_k8s::{Apply, ApplyError, Client, Kind, Manifest, Standing};

use super::Upgrade;
use crate::StepError;
use crate::machine::kubernetes::NAMESPACE;
use crate::work::Result;

/// Whose these objects' fields are.
const MANAGER: &str = "talos";
/// The list of these objects that Talos keeps from 1.13 on, and what says in each that it is on it.
const INVENTORY: &str = "talos-bootstrap-manifests-inventory";
const OWNER: &str = "config.k8s.io/owning-inventory";
/// API servers were restarted a moment ago.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(2);

impl Upgrade<'_> {
    /// Applies those of Talos' manifests that differ from what is there; gives whether any did. Nothing is removed.
    pub(super) async fn sync_manifests(&self) -> Result<bool> {
        let Some(first) = self.control_planes().next() else { return Ok(false) };
        let doing = format!("read the manifests of {}", first.name);
        let texts = first.client.manifests().await.map_err(StepError::machine(doing))?;
        let mut manifests = Vec::new();
        for text in &texts {
            let read = Manifest::read_all(text.expose_secret());
            manifests.extend(read.map_err(|error| failed(format!("one of them makes no sense: {error}")))?);
        }
        let mut tries = 0;
        loop {
            self.may_go_on()?;
            match self.sync_once(&manifests).await {
                Ok(wrote) => return Ok(wrote),
                Err(Trouble { reason, passes }) => {
                    tries += 1;
                    if !passes || tries >= TRIES {
                        return Err(failed(reason));
                    }
                }
            }
            self.work.pause("Kubernetes to take manifests", PAUSE).await?;
        }
    }

    async fn sync_once(&self, manifests: &[Manifest]) -> std::result::Result<bool, Trouble> {
        let client = self.answering().await?;
        let inventory = client.config_map(NAMESPACE, INVENTORY).await.map_err(Trouble::call)?;
        let mut listed = BTreeMap::new();
        let mut wrote = false;
        for manifest in manifests {
            let mut manifest = manifest.clone();
            if let Some(inventory) = &inventory {
                let key = manifest.inventory_key();
                if !inventory.contains_key(&key) {
                    listed.insert(key, String::new());
                }
                manifest = manifest.annotated(OWNER, INVENTORY);
            }
            if client.compare_as(&manifest, MANAGER).await.map_err(Trouble::apply)? == Standing::Same {
                continue;
            }
            let how = Apply { force: true, manager: MANAGER, ..Apply::default() };
            client.apply(&[manifest], how).await.map_err(Trouble::apply)?;
            wrote = true;
        }
        if !listed.is_empty() {
            client.add_to_config_map(NAMESPACE, INVENTORY, &listed).await.map_err(Trouble::call)?;
            wrote = true;
        }
        Ok(wrote)
    }

    async fn answering(&self) -> std::result::Result<Client, Trouble> {
        let answers = |client: Client| async move { client.nodes().await.map(|_| client) };
        self.ask(None, answers).await.map_err(Trouble::call)
    }
}

/// What stood in the way, and whether it will go by itself.
struct Trouble {
    reason: String,
    passes: bool,
}

impl Trouble {
    #[expect(clippy::needless_pass_by_value, reason = "it takes the place of the error")]
    fn call(error: talmox_k8s::Error) -> Self {
        let kind = error.kind();
        let passes = matches!(kind, Kind::NotReached | Kind::Uncertain | Kind::NotReady | Kind::Conflict);
        Self { reason: error.to_string(), passes }
    }

    fn apply(error: ApplyError) -> Self {
        let what = error.to_string();
        match error {
            ApplyError::Call { source, .. } => {
                let Self { reason, passes } = Self::call(source);
                Self { reason: format!("{what}: {reason}"), passes }
            }
            ApplyError::NoSuchKind { .. } => Self { reason: what, passes: false },
        }
    }
}

fn failed(reason: String) -> StepError {
    StepError::HandOver { doing: "apply Talos' own manifests".to_owned(), reason }
}
