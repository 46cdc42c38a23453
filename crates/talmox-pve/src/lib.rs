//! Proxmox VE as talmox sees it.
//!
//! [`property`] turns the texts of a VM's configuration (property strings, numbered keys) into types that compare by
//! meaning and print what Proxmox itself would print. It does no I/O, so offline commands build without HTTP.
//!
//! `client` (the cargo feature of that name) is the API client for what provisioning needs.

#[cfg(feature = "client")]
pub mod client;
pub mod property;
pub mod render;
