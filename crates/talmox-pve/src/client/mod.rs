//! The API client.
//!
//! ```text
//!  Client::start_vm(..) ── typed calls and replies            api/
//!      │
//!  Client::call ── endpoints, turns, login, time, retries     dispatch.rs, call.rs, session.rs, retry.rs
//!      │
//!  reply::read ── words to classes                            reply.rs, classify.rs, error.rs, hints.rs
//!      │
//!  dyn Transport ── request in, reply out                     transport.rs
//!      └── HttpsTransport (https/), or anything in memory
//! ```
//!
//! A call that fails says whether it was never sent, refused, or may have happened ([`Outcome`]), what a caller can do
//! about it ([`ErrorKind`]), and what Proxmox itself said.
//!
//! ```no_run
//! # use std::{sync::Arc, time::Duration};
//! # use talmox_pve::client::*;
//! # async fn example(token: secrecy::SecretString, node: talmox_types::HostName, vmid: talmox_types::VmId)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::parse("https://pve1.example:8006")?;
//! let transport = Arc::new(HttpsTransport::new(Trust::System)?);
//! let client = Client::new(vec![endpoint], &Credentials::token(&token)?, transport, Settings::default())?;
//! let task = client.start_vm(&node, vmid).await?;
//! client.follow(&task, "start of VM 100", Duration::from_secs(120), &Silent).await?;
//! # Ok(())
//! # }
//! ```

mod api;
mod call;
mod classify;
mod credentials;
mod dispatch;
mod encode;
mod endpoint;
mod error;
mod hints;
mod https;
mod pace;
mod reply;
mod retry;
mod scalar;
mod session;
mod transport;
mod upid;
mod wait;

pub use api::*;
pub use classify::{Denial, ErrorKind, UnknownCertificate};
pub use credentials::{Credentials, InvalidCredentials, WrongEndpoint};
pub use dispatch::{Client, ClientError, Settings};
pub use encode::{Params, percent_encode};
pub use endpoint::{DEFAULT_PORT, Endpoint, InvalidEndpoint, Target};
pub use error::{Error, Outcome};
pub use https::{HttpsTransport, InvalidTrust, Issuers, Trust};
pub use retry::{Entropy, RetryPolicy, SystemEntropy};
pub use transport::{
    Body, BoxFuture, FileContent, HttpRequest, HttpResponse, Method, Transport, TransportError,
};
pub use upid::{InvalidUpid, Upid};
pub use wait::{Look, Progress, Silent, Wait, WaitError, Waiting};
