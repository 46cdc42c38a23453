//! etcd and kube-apiserver on the loopback, ended with the run.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use secrecy::ExposeSecret as _;

use super::access::Authority;
use super::raw::World;
use crate::scratch::Scratch;

/// How long a loaded machine may take to bring the server up.
const PATIENCE: u32 = 300;
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Server {
    etcd: Child,
    apiserver: Child,
    port: u16,
    scratch: Scratch,
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in [&mut self.apiserver, &mut self.etcd] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port nobody listens on now.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn launch(program: &Path, arguments: &[String], log: &str) -> anyhow::Result<Child> {
    let log = File::create(log)?;
    Command::new(program)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("could not start {}", program.display()))
}

impl Server {
    pub(super) fn start(etcd: &Path, kubernetes: &Path, authority: &Authority) -> anyhow::Result<Self> {
        let scratch = Scratch::new("kubernetes")?;
        let (clients, peers) =
            (format!("http://127.0.0.1:{}", free_port()?), format!("http://127.0.0.1:{}", free_port()?));
        let arguments = [
            "--name=lab".to_owned(),
            format!("--data-dir={}", scratch.file("etcd")),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=lab={peers}"),
            "--unsafe-no-fsync".to_owned(),
        ];
        let etcd = launch(&etcd.join("etcd"), &arguments, &scratch.file("etcd.log"))?;
        let port = free_port()?;
        let arguments = api_server_arguments(&scratch, authority, &clients, port)?;
        let apiserver =
            launch(&kubernetes.join("kube-apiserver"), &arguments, &scratch.file("apiserver.log"))?;
        Ok(Self { etcd, apiserver, port, scratch })
    }

    pub(super) fn address(&self) -> talmox_k8s::Server {
        talmox_k8s::Server::new(Ipv4Addr::LOCALHOST.to_string(), self.port)
    }

    /// What leads `kubectl` here, as an administrator.
    pub(super) fn kubectl_access(&self, authority: &Authority) -> anyhow::Result<Vec<String>> {
        let client = authority.administrator()?;
        Ok(vec![
            format!("--server=https://{}", self.address()),
            format!("--certificate-authority={}", self.scratch.file("ca.crt")),
            format!("--client-certificate={}", self.scratch.write("client.crt", client.certificate.pem())?),
            format!("--client-key={}", self.scratch.write("client.key", client.key.pem().expose_secret())?),
        ])
    }

    pub(super) async fn wait_until_ready(&self, world: &World) -> anyhow::Result<()> {
        for _ in 0..PATIENCE {
            if world.client().ready().await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        let log = self.scratch.read("apiserver.log").unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(8).collect();
        bail!("kube-apiserver does not get ready:\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"))
    }
}

fn api_server_arguments(
    scratch: &Scratch,
    authority: &Authority,
    etcd: &str,
    port: u16,
) -> anyhow::Result<Vec<String>> {
    let server = authority.server()?;
    let accounts = scratch.write("accounts.key", &authority.key()?)?;
    Ok(vec![
        format!("--etcd-servers={etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--client-ca-file={}", scratch.write("ca.crt", authority.pem())?),
        format!("--tls-cert-file={}", scratch.write("server.crt", server.certificate.pem())?),
        format!("--tls-private-key-file={}", scratch.write("server.key", server.key.pem().expose_secret())?),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={accounts}"),
        format!("--service-account-signing-key-file={accounts}"),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--anonymous-auth=false".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ])
}
