//! Templates and images: built, kept, changed and removed.

mod build;
mod crash;
mod factory;
mod faults;
mod fetch;
mod others;
mod sources;
mod yard;
