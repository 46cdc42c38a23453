//! The messages of the Talos API, as they go over the wire, and the calls they belong to.
//!
//! The code in `generated` is made from the files in `proto/`; `cargo run -p talmox-proto --features generate --bin generate`
//! writes it anew.

use std::fmt;
use std::marker::PhantomData;

/// A call: where it goes and what it is made of.
pub struct Method<Request, Reply> {
    /// `/PACKAGE.SERVICE/METHOD`.
    pub path: &'static str,
    pub streams_requests: bool,
    pub streams_replies: bool,
    messages: PhantomData<fn(Request) -> Reply>,
}

impl<Request, Reply> Method<Request, Reply> {
    const fn new(path: &'static str, streams_requests: bool, streams_replies: bool) -> Self {
        Self { path, streams_requests, streams_replies, messages: PhantomData }
    }

    /// `Version` of `/machine.MachineService/Version`.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

impl<Request, Reply> Clone for Method<Request, Reply> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Request, Reply> Copy for Method<Request, Reply> {}

impl<Request, Reply> fmt::Debug for Method<Request, Reply> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path)
    }
}

#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, clippy::restriction, unreachable_pub, reason = "generated code has a style of its own")]
mod generated {
    pub mod google {
        pub mod rpc {
            include!("generated/google.rpc.rs");
        }
    }
    pub mod common {
        include!("generated/common.rs");
    }
    pub mod machine {
        include!("generated/machine.rs");
    }
    pub mod time {
        include!("generated/time.rs");
    }
    pub mod storage {
        include!("generated/storage.rs");
    }
    pub mod cluster {
        include!("generated/cluster.rs");
    }
    pub mod cosi {
        pub mod resource {
            include!("generated/cosi.resource.rs");
        }
    }
    pub mod definitions {
        include!("generated/definitions.rs");
    }
}

pub use generated::cosi::resource;
pub use generated::google::rpc::Status;
pub use generated::{cluster, common, definitions, machine, storage, time};
pub use prost::Message;
pub use prost_types::{Any, Duration, ListValue, Struct, Timestamp, Value, value};
