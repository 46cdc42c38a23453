//! An object in Kubernetes that snapshots hold, or do not: written and read with the kubeconfig that `talosctl` fetches.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_k8s::{Access, Apply, Client, HttpsTransport, Identity, Manifest, Server};

use super::Lab;

const NAMESPACE: &str = "default";
const NAME: &str = "note";

/// Makes the note: nothing is on it.
pub(super) fn make(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {NAME}, namespace: {NAMESPACE}}}\ndata: {{}}\n"
    );
    let manifests = Manifest::read_all(&text).context("the note")?;
    let client = client(lab)?;
    let how = Apply { force: true, manager: "talos-day-two", ..Apply::default() };
    Ok(block_on(client.apply(&manifests, how))?.map(drop)?)
}

/// Writes a word on the note.
pub(super) fn write(lab: &mut Lab<'_>, word: &str) -> anyhow::Result<()> {
    let client = client(lab)?;
    let data = BTreeMap::from([(word.to_owned(), String::new())]);
    Ok(block_on(client.add_to_config_map(NAMESPACE, NAME, &data))??)
}

/// These words are on the note, and no others.
pub(super) fn says(lab: &mut Lab<'_>, words: &[&str]) -> anyhow::Result<()> {
    let client = client(lab)?;
    let found = block_on(client.config_map(NAMESPACE, NAME))??.context("the note is gone")?;
    let found: Vec<&str> = found.keys().map(String::as_str).collect();
    ensure!(found == words, "the note says {found:?}, not {words:?}");
    Ok(())
}

fn block_on<T>(future: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(future))
}

fn client(lab: &mut Lab<'_>) -> anyhow::Result<Client> {
    let first = lab.layout.first();
    lab.at(&first, &["kubeconfig", "kubeconfig", "--merge=false", "--force"])?.well(&[])?;
    #[expect(clippy::disallowed_methods, reason = "what a program wrote into a scratch folder")]
    let text = std::fs::read_to_string(lab.talosctl.file("kubeconfig"))?;
    let part = |name: &str| -> anyhow::Result<String> {
        let found =
            text.lines().find_map(|line| line.trim().strip_prefix(name)).context("half a kubeconfig")?;
        Ok(String::from_utf8(STANDARD.decode(found.trim())?)?)
    };
    let (certificate, key) = (part("client-certificate-data:")?, part("client-key-data:")?);
    let identity = Identity::from_pem(&part("certificate-authority-data:")?, &certificate, &key.into())?;
    let access = Access {
        server: Server::new(first, talmox_sim_talos::serve::KUBERNETES_PORT),
        identity: Arc::new(identity),
    };
    Ok(Client::new(Arc::new(HttpsTransport::default()), access))
}
