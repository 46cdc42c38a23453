//! Nodes driven by encoded messages, as a shell would.

mod cluster;
mod kubernetes;
mod lab;
mod life;
