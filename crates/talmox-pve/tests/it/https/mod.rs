//! The real transport against a raw HTTPS server on the loopback interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod certificates;
mod connections;
mod hostile;
mod server;

use std::sync::Arc;

use secrecy::SecretString;
use talmox_pve::client::{
    Client, Credentials, Endpoint, Error, HttpsTransport, RetryPolicy, Settings, Trust,
};

/// A client that asks once, so that a test sees the first failure.
fn client(endpoint: Endpoint, trust: Trust) -> Client {
    let credentials = Credentials::token(&SecretString::from("talmox@pve!ci=s3cret")).unwrap();
    let transport = Arc::new(HttpsTransport::new(trust).unwrap());
    let settings = Settings { retry: RetryPolicy::ONCE, ..Settings::default() };
    Client::new(vec![endpoint], &credentials, transport, settings).unwrap()
}

/// An error as the command line would print it, with the port of this run replaced.
fn told(error: &Error) -> String {
    let mut lines = vec![format!("error: {error}")];
    lines.extend(error.hints().into_iter().map(|hint| format!("hint: {hint}")));
    lines.join("\n").replace(&error.endpoint().port().to_string(), "PORT")
}
