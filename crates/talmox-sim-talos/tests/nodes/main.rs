//! Nodes driven by encoded messages, as a shell would.

mod cluster;
mod lab;
mod life;
