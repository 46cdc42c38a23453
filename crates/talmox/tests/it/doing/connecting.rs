//! Reaching a Proxmox that is not simulated by the same process.

use insta::assert_snapshot;
use secrecy::ExposeSecret as _;
use secrecy::SecretString;
use talmox_sim::serve::{Server, Settings};
use talmox_sim::{Fit, FitHost, FitStorage, FitTemplate, Starter};

use crate::doing::{CLUSTER, NODES};
use crate::support::{Run, Scratch, command, finish};

/// A simulated Proxmox that listens, and a description that names it.
pub(crate) struct Remote {
    pub(crate) scratch: Scratch,
    pub(crate) server: Server,
    pub(crate) token: SecretString,
    /// Whether the environment of each run says where it is, and which certificate is right.
    pub(crate) trusted: bool,
}

impl Remote {
    pub(crate) async fn start(name: &str) -> Self {
        let server = served(4).await;
        let token = SecretString::from(server.with(|simulation| simulation.world.starter_token()).unwrap());
        Self { scratch: Scratch::new(&format!("connecting-{name}")), server, token, trusted: false }
    }

    pub(crate) fn endpoint(&self) -> String {
        self.server.hosts()[0].endpoint()
    }

    pub(crate) fn describe(&self, lines: &str) {
        let cluster = format!("{CLUSTER}proxmox_endpoint: {}\n{lines}", self.endpoint());
        std::fs::write(self.scratch.0.join("cluster.yaml"), cluster).unwrap();
        std::fs::write(self.scratch.0.join("nodes.yaml"), NODES).unwrap();
    }

    pub(crate) async fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        let mut command = command(arguments);
        command.args(["-f", &self.scratch.path("")]);
        if self.trusted {
            command.env("PROXMOX_VE_ENDPOINT", self.endpoint());
            command.env("TALMOX_FINGERPRINT", &self.server.hosts()[0].fingerprint);
        }
        command.envs(variables.iter().copied());
        tokio::task::spawn_blocking(move || finish(&mut command)).await.unwrap()
    }

    pub(crate) fn filtered(&self, text: &str) -> String {
        assert!(!text.contains(self.token.expose_secret().rsplit('=').next().unwrap()));
        // Several things are asked at once; which of them fails first is chance.
        let chance = |line: &&str| !line.starts_with("  because: could not ");
        let text: String = text.lines().filter(chance).map(|line| format!("{line}\n")).collect();
        text.replace(&self.endpoint(), "ENDPOINT")
            .replace(&self.server.hosts()[0].fingerprint, "FINGERPRINT")
            .replace(&self.scratch.path(""), "LAB/")
    }
}

/// A Proxmox with certificates and secrets of its own.
pub(crate) async fn served(seed: u64) -> Server {
    let mut world = Starter::bare(seed, 1_790_000_000_000).world;
    world.fit(&fit()).unwrap();
    Server::start(world, Settings { speed: 1000.0, ..Settings::default() }).await.unwrap()
}

/// One host with everything the description of these tests needs.
fn fit() -> Fit {
    let host = FitHost { name: "pve".to_owned(), cpus: 16, memory: 64 << 30, ..FitHost::default() };
    let storage = FitStorage {
        id: "local-zfs".to_owned(),
        content: ["images".to_owned()].into(),
        size: 1 << 40,
        ..FitStorage::default()
    };
    let template = FitTemplate {
        first_id: 9000,
        name: "talos-1.13.9".to_owned(),
        hosts: vec!["pve".to_owned()],
        storage: "local-zfs".to_owned(),
        bridge: "vmbr0".to_owned(),
        uefi: true,
        ..FitTemplate::default()
    };
    Fit {
        hosts: vec![host],
        storages: vec![storage],
        bridges: ["vmbr0".to_owned()].into(),
        templates: vec![template],
        ..Fit::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_certificate_is_shown_and_nothing_is_sent() {
    let remote = Remote::start("certificate").await;
    std::fs::write(remote.scratch.0.join("token"), remote.token.expose_secret()).unwrap();
    let endpoint = remote.endpoint();
    let home = ("PROXMOX_VE_ENDPOINT", endpoint.as_str());
    remote.describe("proxmox_api_token: file:token\nproxmox_fingerprints: [\"00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF\"]\n");
    let refused = remote.run(&["plan"], &[home]).await.failed();
    assert_snapshot!(remote.filtered(&refused.stderr));
    let fingerprint = remote.server.hosts()[0].fingerprint.clone();
    remote.describe(&format!("proxmox_api_token: file:token\nproxmox_fingerprints: [\"{fingerprint}\"]\n"));
    // The description alone does not decide which certificate is right.
    remote.run(&["status"], &[home]).await.failed();
    assert_eq!(remote.server.calls(), 0, "nothing was sent");
    let seen = remote.run(&["status", "-v"], &[home, ("TALMOX_FINGERPRINT", &fingerprint)]).await.succeeded();
    assert_snapshot!(remote.filtered(&seen.stderr));
    assert!(seen.stdout.starts_with("lab  0 of 3 VMs run"), "{}", seen.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_environment_needs_an_endpoint_of_the_environment() {
    let remote = Remote::start("token").await;
    std::fs::write(remote.scratch.0.join("ca.pem"), remote.server.authority()).unwrap();
    remote.describe("proxmox_api_token: env:PROXMOX_VE_API_TOKEN\nproxmox_ca_file: ca.pem\n");
    let token = ("PROXMOX_VE_API_TOKEN", remote.token.expose_secret());
    let refused = remote.run(&["plan"], &[token]).await.failed();
    assert_snapshot!(remote.filtered(&refused.stderr));
    assert_eq!(remote.server.calls(), 0, "nothing was sent");
    let endpoint = remote.endpoint();
    let home = ("PROXMOX_VE_ENDPOINT", endpoint.as_str());
    remote.run(&["status"], &[token, home]).await.failed();
    assert_eq!(remote.server.calls(), 0, "proxmox_ca_file of the description vouches for nothing");
    let authority = remote.scratch.path("ca.pem");
    let authority = ("TALMOX_CA_FILE", authority.as_str());
    remote.run(&["status"], &[token, home, authority]).await.succeeded();
    assert!(remote.server.calls() > 0);
    let wrong = ("PROXMOX_VE_API_TOKEN", "root@pam!no=00000000-0000-0000-0000-000000000000");
    let refused = remote.run(&["plan"], &[wrong, home, authority]).await.failed();
    assert_snapshot!(remote.filtered(&refused.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_answers() {
    let remote = Remote::start("silent").await;
    std::fs::write(remote.scratch.0.join("token"), remote.token.expose_secret()).unwrap();
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    drop(taken);
    let cluster = format!(
        "{CLUSTER}proxmox_endpoint: https://127.0.0.1:{port}\nproxmox_api_token: file:token\nproxmox_insecure: true\n"
    );
    remote.describe("");
    std::fs::write(remote.scratch.0.join("cluster.yaml"), cluster).unwrap();
    let silent = format!("https://127.0.0.1:{port}");
    let variables = [("PROXMOX_VE_ENDPOINT", silent.as_str()), ("PROXMOX_VE_INSECURE", "true")];
    let refused = remote.run(&["plan"], &variables).await.failed();
    assert_snapshot!(remote.filtered(&refused.stderr).replace(&port.to_string(), "PORT"));
}
