//! The one door for everything that takes a running node down.
//!
//! Reboots, stops, replacements and moves of a declared node ask here first, whatever layer wants them. Today the door
//! lets one control plane through at a time and asks; etcd and drain checks go in here and nowhere else.

use std::future::Future;
use std::pin::Pin;

use talmox_plan::Planned;
use talmox_types::NodeName;
use talmox_types::desired::Role;

/// A node that is about to go down.
#[derive(Clone, Debug)]
pub struct Interruption<'a> {
    pub node: &'a NodeName,
    /// None for a node the description does not name: it may have been a control plane.
    pub role: Option<Role>,
    pub step: &'a Planned,
}

pub type GateFuture<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Says whether a node may go down now; the error says why not. The executor itself sees to it that only one control
/// plane at a time is asked about and down.
pub trait Gate: Send + Sync {
    fn pass<'a>(&'a self, interruption: Interruption<'a>) -> GateFuture<'a>;
}
