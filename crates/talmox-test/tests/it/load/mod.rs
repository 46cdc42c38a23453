//! Many VMs at once, under the lock rules of Proxmox. Time is the simulator's: it is exact, however busy the machine.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
mod no_change;
mod storages;
mod three_hundred;
