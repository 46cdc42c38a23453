//! `talmox-k8s` and raw requests against a genuine API server on a genuine etcd, and the same against the simulated one.
//!
//! ```text
//!  script ─┬─▶ HttpsTransport ─▶ kube-apiserver ─▶ etcd      what is said, line by line
//!          └─▶ Simulated ─▶ kube::Store                      must be the same
//! ```
//! No controllers and no kubelets run at the genuine one: what they do is written by hand there, and is what the simulated
//! ones work out.

mod access;
mod kinds;
mod raw;
mod script;
mod server;
mod simulated;

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use talmox_k8s::HttpsTransport;

use super::difference;
use super::peers::{self, Peer};
use access::Authority;
use raw::World;
use server::Server;
use simulated::Simulated;

pub(super) const TITLE: &str = "kube-apiserver 1.36.3 on etcd 3.6.16";
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
    runtime.block_on(compare(&folders[0], &folders[1])).map(|(lines, kinds, ready)| {
        let seconds = begin.elapsed().as_secs_f64();
        format!(
            "{TITLE}: {lines} answers the same as the simulated ones, {kinds} kinds listed alike, ready after {ready:.1} s, \
             {seconds:.1} s"
        )
    })
}

async fn compare(
    etcd: &std::path::Path,
    kubernetes: &std::path::Path,
) -> anyhow::Result<(usize, usize, f64)> {
    let authority = Authority::new()?;
    let begin = Instant::now();
    let server = Server::start(etcd, kubernetes, &authority)?;
    let genuine = World::new(Arc::new(HttpsTransport::default()), server.address(), &authority)?;
    server.wait_until_ready(&genuine).await?;
    let ready = begin.elapsed().as_secs_f64();
    let simulated = Arc::new(Simulated::new(VERSION, &authority)?);
    let simulated = World::new(simulated, server.address(), &authority)?;
    let theirs = script::run(&genuine).await.context("the genuine API server")?;
    let ours = script::run(&simulated).await.context("the simulated API server")?;
    let (theirs, ours) = (theirs.join("\n"), ours.join("\n"));
    ensure!(
        theirs == ours,
        "the simulated API server (+) differs from the genuine one (-):\n{}",
        difference(&theirs, &ours)
    );
    let kinds = kinds::compare(&genuine, &simulated).await?;
    Ok((theirs.lines().count(), kinds, ready))
}
