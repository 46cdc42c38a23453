//! The test bed: clients against simulators in one thread, on a clock that passes by itself.
//!
//! ```text
//!  Client ──HttpRequest──▶ MemoryTransport ──bytes──▶ talmox_sim::World
//!                            │  faults, latency, the log of calls
//!  talmox_talos, talmox_k8s ─▶ TalosMemory, KubeMemory ──▶ talmox_sim_talos::Nodes, in the world's machines
//!                            └─ tokio's paused clock: when everybody waits, the next moment comes at once
//! ```
//!
//! A [`Lab`] is a simulated cluster and a transport to it. Nothing in it reads a real clock or real randomness, so a run
//! with the same seed is the same run: [`CallLog`] is equal byte for byte. Faults are planned by the number of a call or
//! by what it asks ([`When`], [`Fault`]). A [`bed::Bed`] is a lab with a described cluster in it. All of it needs
//! `#[tokio::test(start_paused = true)]`.

pub mod bed;
mod bound;
mod calls;
mod entropy;
mod factory;
mod faults;
mod kubernetes;
mod lab;
pub mod product;
mod pve;
pub mod shared_data;
mod shelf;
mod talos;
pub mod thorough;
mod transport;
mod trust;
mod watched;
mod wire;

pub use bound::{Before, Bound};
pub use calls::{Call, CallLog, End};
pub use entropy::Seeded;
pub use factory::FactoryTransport;
pub use faults::{Fault, When};
pub use kubernetes::KubeMemory;
pub use lab::{HOSTS, Lab, ROLE, ROOT_PASSWORD, SECRET, TOKEN, host, storage, token, vmid};
pub use shelf::{Shelf, Trouble};
pub use talos::TalosMemory;
pub use transport::{BYSTANDER, ClientId, Latency, MemoryTransport, Web};
pub use watched::{Fall, Watched};
