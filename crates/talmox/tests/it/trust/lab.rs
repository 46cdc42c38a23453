//! A description in a folder of its own, a person with a home, and a Proxmox that counts what it is asked.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use secrecy::ExposeSecret as _;

use crate::doing::connecting::Remote;
use crate::doing::{CLUSTER, NODES};
use crate::support::{Run, command, finish};

/// The person, the description and the server.
pub(super) struct Stranger {
    pub(super) remote: Remote,
    /// A server that talmox has no reason to reach, and whether it was reached.
    elsewhere: SocketAddr,
    reached: Arc<AtomicBool>,
}

impl Stranger {
    /// `lines` are what the description says beside a small cluster. Its endpoint is a server the person does not know.
    pub(super) async fn new(name: &str, lines: &str) -> Self {
        let remote = Remote::start(&format!("stranger-{name}")).await;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (elsewhere, reached) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&reached);
        // It ends with the test program; whoever comes is gone at once.
        std::thread::spawn(move || {
            while listener.accept().is_ok() {
                seen.store(true, Ordering::SeqCst);
            }
        });
        let stranger = Self { remote, elsewhere, reached };
        for folder in ["lab", "home", "outside"] {
            std::fs::create_dir_all(stranger.path(folder)).unwrap();
        }
        stranger.describe(lines);
        stranger.write("lab/nodes.yaml", NODES);
        stranger
    }

    pub(super) fn describe(&self, lines: &str) {
        let cluster = format!("{CLUSTER}proxmox_endpoint: {}\n{lines}", self.remote.endpoint());
        self.write("lab/cluster.yaml", &cluster);
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.remote.scratch.0.join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Where a description may want talmox to fetch from.
    pub(super) fn fetched_from(&self) -> String {
        format!("https://{}", self.elsewhere)
    }

    /// Whether anybody came there.
    pub(super) fn fetched(&self) -> bool {
        self.reached.load(Ordering::SeqCst)
    }

    /// Removes what a verb may have written, so that the next one finds what it would find alone.
    pub(super) fn tidy(&self) {
        for name in ["pwned", "secrets.yaml", ".gitignore", "t", "k"] {
            let _ = std::fs::remove_file(self.path("lab").join(name));
        }
        for name in ["new", "rendered", "adopted"] {
            let _ = std::fs::remove_dir_all(self.path("lab").join(name));
        }
    }

    pub(super) fn token(&self) -> String {
        self.remote.token.expose_secret().to_owned()
    }

    /// A command in the folder of the description, with the person's home and PATH.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.current_dir(self.path("lab")).env("HOME", self.path("home"));
        command.env("PATH", std::env::var("PATH").unwrap());
        command
    }

    pub(super) async fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        tokio::task::spawn_blocking(move || finish(&mut command)).await.unwrap()
    }

    /// The grants `talmox trust --print` writes.
    pub(super) async fn printed_grants(&self, variables: &[(&str, &str)]) -> String {
        self.run(&["trust", "--print"], variables).await.succeeded().stdout
    }
}
