//! Property strings: the client and the simulator read and print them with code of their own, and must agree.
//!
//! For each value: if the client takes it, printing and reading it again changes nothing; if the simulator takes it, what
//! it shows can be sent again and is shown again; if both take it, they mean the same and print the same form; what the
//! client refuses the simulator refuses; what only the simulator refuses is an option the client passes on unseen, or a
//! bound it leaves to the server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agree;
mod client;
mod generated;
mod recorded;
mod server;
