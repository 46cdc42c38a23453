//! Templates and images: built, kept, changed and removed.

mod build;
mod crash;
mod faults;
mod fetch;
mod others;
mod sources;
mod yard;
