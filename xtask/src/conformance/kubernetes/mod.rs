//! `talmox-k8s` and raw requests against a genuine API server on a genuine etcd, and the same against the simulated one.
//!
//! ```text
//!  script ─┬─▶ HttpsTransport ─▶ kube-apiserver ─▶ etcd      what is said, line by line
//!          └─▶ Simulated ─▶ kube::Store                      must be the same
//! ```
//! `kubectl` then does the same at both and has to print the same. No controllers and no kubelets run at the genuine one: what they do is written by hand there, and is what the simulated
//! ones work out.

mod access;
mod front;
mod kinds;
mod kubectl;
mod raw;
mod script;
mod server;
mod simulated;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use talmox_k8s::{HttpsTransport, Transport};

use super::difference;
use super::peers::{self, Peer};
use crate::scratch::Scratch;
use access::Authority;
use front::Front;
use kubectl::Kubectl;
use raw::World;
use server::Server;
use simulated::Simulated;

pub(super) const TITLE: &str = "kube-apiserver and kubectl 1.36.3, etcd 3.6.16";
const VERSION: &str = "1.36.3";

pub(crate) fn judge() -> anyhow::Result<String> {
    let mut folders = Vec::new();
    for name in ["etcd", "kubernetes"] {
        match peers::get(name)? {
            Peer::Folder(folder) => folders.push(folder),
            Peer::Unavailable(excuse) => return Ok(format!("{TITLE}: not run: {excuse}")),
        }
    }
    let begin = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let Compared { answers, kinds, runs } = runtime.block_on(compare(&folders[0], &folders[1]))?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(format!(
        "{TITLE}: {answers} answers the same as the simulated ones, {kinds} kinds listed alike, {runs} runs of kubectl say the \
         same, {seconds:.1} s"
    ))
}

/// How much was the same.
struct Compared {
    answers: usize,
    kinds: usize,
    runs: usize,
}

async fn compare(etcd: &Path, kubernetes: &Path) -> anyhow::Result<Compared> {
    let authority = Authority::new()?;
    let server = Server::start(etcd, kubernetes, &authority)?;
    let genuine = World::new(Arc::new(HttpsTransport::default()), server.address(), &authority)?;
    server.wait_until_ready(&genuine).await?;
    let store = Arc::new(Simulated::new(VERSION, &authority)?);
    let transport: Arc<dyn Transport> = Arc::clone(&store) as _;
    let simulated = World::new(transport, server.address(), &authority)?;
    let theirs = script::run(&genuine).await.context("the genuine API server")?;
    let ours = script::run(&simulated).await.context("the simulated API server")?;
    let answers = same(&theirs, &ours)?;
    let kinds = kinds::compare(&genuine, &simulated).await?;
    let front = Front::open(store)?;
    let program = kubernetes.join("kubectl");
    let run = |access: Vec<String>, name: &str| {
        let scratch = Scratch::new(name)?;
        Kubectl { program: &program, access, scratch: &scratch }.run()
    };
    let theirs = run(server.kubectl_access(&authority)?, "kubectl-genuine")?;
    let ours = run(vec![format!("--server={}", front.url())], "kubectl-simulated")?;
    Ok(Compared { answers, kinds, runs: same(&theirs, &ours)? })
}

/// How many lines, if they are the same.
fn same(theirs: &[String], ours: &[String]) -> anyhow::Result<usize> {
    let (told, said) = (theirs.join("\n"), ours.join("\n"));
    ensure!(
        told == said,
        "the simulated API server (+) differs from the genuine one (-):\n{}",
        difference(&told, &said)
    );
    Ok(theirs.len())
}
