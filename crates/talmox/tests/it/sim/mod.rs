//! The client against the simulator, over real HTTPS, and the simulator as a program.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod failures;
mod life;
mod lives_on;
mod program;

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use talmox_pve::client::{
    Client, Credentials, Endpoint, Error, HttpsTransport, RetryPolicy, Settings, Silent, Trust, Upid,
};
use talmox_sim::serve::{self, Server};
use talmox_sim::{Starter, World};
use talmox_types::{Fingerprint, HostName, VmId};

/// The same world for every test; an hour of it passes in four seconds.
fn world(hosts: u32) -> World {
    Starter::new(hosts, 4, 1_790_000_000_000).build().world
}

fn fast() -> serve::Settings {
    serve::Settings { latency: Duration::ZERO, speed: 1000.0, ..serve::Settings::default() }
}

async fn simulator(hosts: u32) -> Server {
    Server::start(world(hosts), fast()).await.unwrap()
}

fn token(server: &Server) -> String {
    server.with(|simulation| simulation.world.starter_token()).unwrap()
}

fn endpoint(server: &Server, host: usize) -> Endpoint {
    Endpoint::parse(&server.hosts()[host].endpoint()).unwrap()
}

fn fingerprint(server: &Server, host: usize) -> Fingerprint {
    server.hosts()[host].fingerprint.parse().unwrap()
}

fn client_with(endpoints: Vec<Endpoint>, token: &str, trust: Trust) -> Client {
    let credentials = Credentials::token(&SecretString::from(token)).unwrap();
    let transport = Arc::new(HttpsTransport::new(trust).unwrap());
    // Asks once, so that a test sees the first failure.
    let settings = Settings { retry: RetryPolicy::ONCE, ..Settings::default() };
    Client::new(endpoints, &credentials, transport, settings).unwrap()
}

/// A client that trusts the cluster's authority and asks the first host.
fn client(server: &Server) -> Client {
    let trust = Trust::Authorities(server.authority().to_owned());
    client_with(vec![endpoint(server, 0)], &token(server), trust)
}

fn pve1() -> HostName {
    HostName::parse("pve1").unwrap()
}

fn vmid(id: u32) -> VmId {
    VmId::try_from(id).unwrap()
}

async fn follow(client: &Client, task: &Upid, name: &str) {
    client.follow(task, name, Duration::from_secs(20), &Silent).await.unwrap();
}

/// An error as the command line would print it, with what differs from run to run replaced.
fn told(error: &Error) -> String {
    let mut lines = vec![format!("error: {error}")];
    lines.extend(error.hints().into_iter().map(|hint| format!("hint: {hint}")));
    lines.join("\n").replace(&error.endpoint().port().to_string(), "PORT")
}
